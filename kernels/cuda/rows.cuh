#pragma once
// Sums and copies of rows on the device, beside tile programs, and which recurrences fit.
#include <string>
#include <type_traits>

#include "kernels/cuda/launch.cuh"
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

/// Row r of every head of `to` from row map(r) of `from`, or full of `missing` where that is none; heads lie
/// `from_rows` and `head_rows` rows apart.
template <class E, class Map>
__global__ void gather_kernel(const E* from, E* to, Map map, int from_rows, int to_rows, int head_rows, int cols,
                              float missing, std::size_t count) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::size_t c = i % cols, r = i / cols, head = r / to_rows;
  const int row = map(static_cast<int>(r % to_rows));
  to[(head * head_rows + r % to_rows) * cols + c] = row < 0 ? E(missing) : from[(head * from_rows + row) * cols + c];
}
template <class P, FixedString S, class Map>
void gather(const DeviceArray& from, DeviceArray& to, Map map, float missing = 0) {
  using E = Element<format_of<P, S>>;
  constexpr int threads = 256;
  if (to.count() == 0) return;
  gather_kernel<<<static_cast<unsigned>((to.count() + threads - 1) / threads), threads>>>(
      static_cast<const E*>(from.data()), static_cast<E*>(to.data()), map, from.head_rows(), to.rows(), to.head_rows(),
      to.cols(), missing, to.count());
  cuda_check(cudaGetLastError());
}

/// Row x of every head of `total` from row x of `start`, or zeros, and the rows of `from` that it is a sum of, the
/// total rounded; heads lie `from_rows`, `start_rows` and `head_rows` rows apart.
template <Format From, Format Total, class Terms>
__global__ void sum_rows_kernel(const Element<From>* from, const Element<From>* start, Element<Total>* total,
                                Terms terms, int from_rows, int start_rows, int total_rows, int head_rows, int cols,
                                std::size_t count) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::size_t c = i % cols, r = i / cols, head = r / total_rows;
  const int x = static_cast<int>(r % total_rows), n = terms.count(x);
  Element<From> sum = start == nullptr ? Element<From>(0) : start[(head * start_rows + x) * cols + c];
  for (int k = 0; k < n; ++k) sum += from[(head * from_rows + terms.row(x, k)) * cols + c];
  total[(head * head_rows + x) * cols + c] = Element<Total>(round_as<Total>(sum));
}
template <class P, FixedString From, FixedString Total, class Terms>
void sum_rows(const DeviceArray& from, DeviceArray& total, Terms terms, const DeviceArray* start) {
  constexpr int threads = 256;
  constexpr Format part = format_of<P, From>, out = format_of<P, Total>;
  if (total.count() == 0) return;
  sum_rows_kernel<part, out><<<static_cast<unsigned>((total.count() + threads - 1) / threads), threads>>>(
      static_cast<const Element<part>*>(from.data()),
      start == nullptr ? nullptr : static_cast<const Element<part>*>(start->data()),
      static_cast<Element<out>*>(total.data()), terms, from.head_rows(), start == nullptr ? 0 : start->head_rows(),
      total.rows(), total.head_rows(), total.cols(), total.count());
  cuda_check(cudaGetLastError());
}

/// The first column of every row of `from` to that of `to`; heads lie `from_rows` and `to_rows` rows apart.
template <Format From, Format To>
__global__ void first_column_kernel(const Element<From>* from, Element<To>* to, int rows, int from_rows, int to_rows,
                                    int from_cols, int to_cols, std::size_t count) {
  using Real = std::conditional_t<From == Format::fp64, double, float>;
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::size_t head = i / rows, r = i % rows;
  to[(head * to_rows + r) * to_cols] =
      Element<To>(round_as<To>(static_cast<Real>(from[(head * from_rows + r) * from_cols])));
}
template <class P, FixedString From, FixedString To>
void copy_first_column(const DeviceArray& from, DeviceArray& to) {
  constexpr int threads = 256;
  constexpr Format source = format_of<P, From>, target = format_of<P, To>;
  const std::size_t count = static_cast<std::size_t>(to.heads()) * to.rows();
  if (count == 0) return;
  first_column_kernel<source, target><<<static_cast<unsigned>((count + threads - 1) / threads), threads>>>(
      static_cast<const Element<source>*>(from.data()), static_cast<Element<target>*>(to.data()), to.rows(),
      from.head_rows(), to.head_rows(), from.cols(), to.cols(), count);
  cuda_check(cudaGetLastError());
}

inline std::string recurrence_obstacle(const Problem& problem, Format precision) {
  const RecurrenceShape shape(problem);
  return device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
}

}  // namespace assay::tile
