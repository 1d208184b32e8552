// FALCON-3A on the device: launches and instances.
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/falcon3a.hpp"

namespace assay::tile {
namespace {

template <Format F>
using WindowPolicy = StaticPolicy<falcon3a_sites, F>;

/// The chunk of the sums, and the value columns of a block that fit in shared memory beside two tiles of pairs.
template <Format F>
constexpr SumChunk window_chunk() {
  SumChunk chunk = sum_chunk<F>();
  if (F == Format::fp64) chunk.values = 32;
  return chunk;
}

template <class P, int D>
struct Tiles {
  static constexpr SumChunk chunk = window_chunk<P::precision>();
  using Executor = MmaBlock<P, chunk.length / 16>;
  static constexpr int tokens = chunk.length, dim = D, values = chunk.values, stages = 2;
};

Answer run_masked(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using P = WindowPolicy<F>;
    return falcon3a_plan<Tiles<P, D>>(CudaDevice<P>(shape, times), shape, problem);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_masked}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom falcon3a = {"falcon3a", tile::forms};
}
