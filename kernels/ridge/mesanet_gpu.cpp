// MesaNet on the device: launches and instances.
#include "kernels/gpu/cuda_device.hpp"
#include "kernels/plans/mesanet.hpp"

namespace assay::tile {
namespace {

constexpr int rows_of_chunk = 32;
int chunk_tile(const Problem&, Format) { return 0; }

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) {
  return ridge_plan<MesaPlan, Tiles>(on...);
};

/// While the systems of a chunk are solved, a warp has some of its rows and columns.
template <class P, int D>
struct Tiles {
  static constexpr int tokens = rows_of_chunk, dim = D, values = tokens, stages = 2,
                       solves_together = info(P::precision).bits <= 16 ? 2 : 1;
  using Executor = MmaBlock<P, tokens / 16, P::precision == Format::fp64 ? 2 : 4>;
  using Chunks = MmaBlock<P, tokens / 16, 2>;
  using States = MmaBlock<P, tokens / 16, 4>;
};

std::string obstacle(const Problem& problem, Format precision) {
  const RidgeShape shape(problem);
  const std::string dims = device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
  return dims.empty() ? ridge_obstacle(problem) : dims;
}

constexpr GpuForm forms[] = {
    {"chunkwise", obstacle, chunk_tile, run_plan<mesanet_sites, Tiles, plan, shape_as<RidgeShape>>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom mesanet = {"mesanet", tile::forms};
}
