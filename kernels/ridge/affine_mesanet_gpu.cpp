// Affine MesaNet on the device: launches and instances.
#include "kernels/gpu/cuda_device.hpp"
#include "kernels/plans/affine_mesanet.hpp"

namespace assay::tile {
namespace {

/// Rows of a chunk whose gradients fit in shared memory; `tile` is the CPU's with the same chunk.
template <Format F>
inline constexpr int rows_of_chunk = F == Format::fp64 ? 16 : 32;
int chunk_tile(const Problem&, Format precision) { return precision == Format::fp64 ? 1 : 0; }

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) {
  return ridge_plan<AffineMesaPlan, Tiles>(on...);
};

/// While the systems of a chunk are solved, a warp has some of its rows and columns.
template <class P, int D>
struct Tiles {
  static constexpr int tokens = rows_of_chunk<P::precision>, dim = D, values = tokens, stages = 2,
                       solves_together = info(P::precision).bits <= 16 ? 2 : 1;
  using Executor = MmaBlock<P, tokens / 16, P::precision == Format::fp64 ? 1 : 4>;
  using Chunks = MmaBlock<P, tokens / 16>;
  using States = MmaBlock<P, tokens / 16, tokens / 8>;
};

std::string obstacle(const Problem& problem, Format precision) {
  const RidgeShape shape(problem);
  if (shape.key_dim != shape.value_dim)
    return text("device kernels are compiled for K = V, got ", shape.key_dim, " and ", shape.value_dim);
  const std::string dims = device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
  return dims.empty() ? ridge_obstacle(problem) : dims;
}

constexpr GpuForm forms[] = {
    {"chunkwise", obstacle, chunk_tile, run_plan<affine_mesanet_sites, Tiles, plan, shape_as<RidgeShape>>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom affine_mesanet = {"affine_mesanet", tile::forms};
}
