// Affine linear attention on the device: launches and instances.
#include "kernels/gpu/cuda_device.hpp"
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/affine_linear_attention.hpp"

namespace assay::tile {
namespace {

template <Format F>
using TiltPolicy = StaticPolicy<affine_linear_attention_sites, F>;

template <Format F, int D>
struct Tiles {
  using Executor = MmaBlock<TiltPolicy<F>, sum_chunk<F>().length / 16>;
  static constexpr int tokens = sum_chunk<F>().length, dim = D, values = sum_chunk<F>().values;
};

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape = uniform_shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    return affine_linear_attention_plan<Tiles<F, D>>(CudaDevice<TiltPolicy<F>>(shape, times), shape, problem);
  });
}

std::string obstacle(const Problem& problem, Format precision) {
  const RecurrenceShape shape = uniform_shape(problem);
  return device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
}

constexpr GpuForm forms[] = {{"chunkwise", obstacle, sum_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom affine_linear_attention = {"affine_linear_attention", tile::forms};
}
