// Value averaging on the device: launches and instances.
#include "kernels/gpu/cuda_device.hpp"
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/value_averaging.hpp"

namespace assay::tile {
namespace {

template <Format F>
using MeanPolicy = StaticPolicy<value_averaging_sites, F>;

template <Format F>
struct Tiles {
  using Executor = MmaBlock<MeanPolicy<F>, sum_chunk<F>().length / 16>;
  static constexpr int tokens = sum_chunk<F>().length, values = sum_chunk<F>().values;
};

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape = uniform_shape(problem);
  return with_instance(precision, 64, [&]<Format F, int>() {
    return value_averaging_plan<Tiles<F>>(CudaDevice<MeanPolicy<F>>(shape, times), shape, problem);
  });
}

std::string obstacle(const Problem& problem, Format precision) {
  const int V = uniform_shape(problem).value_dim;
  return device_dim_obstacle(V, V, precision);
}

constexpr GpuForm forms[] = {{"chunkwise", obstacle, sum_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom value_averaging = {"value_averaging", tile::forms};
}
