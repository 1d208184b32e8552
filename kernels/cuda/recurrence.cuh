#pragma once
// What the launch code of the delta-rule rooms shares on the device.
#include <string>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/launches/next_latent.hpp"
#include "kernels/launches/recurrence.hpp"

namespace assay::tile {

/// total[h] = sum of the parts h * of_head, ..., (h + 1) * of_head - 1, ascending, each sum rounded at `part`, the
/// total at `out`: elements [heads * of_head][n] to [heads][n]; `part_step` and `total_step` lie from one to the next.
template <Format Part, Format Total>
__global__ void sum_parts_kernel(const Element<Part>* parts, Element<Total>* total, int of_head, std::size_t n,
                                 std::size_t count, std::size_t part_step, std::size_t total_step) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const Element<Part>* part = parts + i / n * of_head * part_step + i % n;
  Element<Part> sum = 0;
  for (int p = 0; p < of_head; ++p) sum += part[p * part_step];
  total[i / n * total_step + i % n] = Element<Total>(round_as<Total>(sum));
}

/// Gradients of shared inputs from the parts that blocks wrote: value blocks, then the heads of a group, ascending. In
/// a pack every sequence has a launch of its own, for that is no tile program.
template <class P, FixedString Part, FixedString Total>
void sum_parts(const DeviceArray& parts, DeviceArray& total) {
  constexpr int threads = 256;
  constexpr Format part = format_of<P, Part>, sum = format_of<P, Total>;
  const std::size_t count = total.count();
  if (count == 0) return;
  sum_parts_kernel<part, sum><<<static_cast<unsigned>((count + threads - 1) / threads), threads>>>(
      static_cast<const Element<part>*>(parts.data()), static_cast<Element<sum>*>(total.data()),
      parts.heads() / total.heads(), count / total.heads(), count, parts.head_step(), total.head_step());
  cuda_check(cudaGetLastError());
}

/// The shape of one number for each token.
inline std::vector<int> token_shape(const RecurrenceShape& shape) {
  return HostShape{shape.head_axis, shape.heads, shape.shared_heads}.shape(shape.heads, {shape.len});
}
inline std::vector<int> array_shape(const RecurrenceShape& shape, int heads, int rows, int cols) {
  return HostShape{shape.head_axis, shape.heads, shape.shared_heads}.shape(heads, {rows, cols});
}

inline std::string recurrence_obstacle(const Problem& problem, Format precision) {
  const RecurrenceShape shape(problem);
  return device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
}

}  // namespace assay::tile
