// MesaNet on the device: launches and instances.
#include "kernels/gpu/cuda_device.hpp"
#include "kernels/plans/mesanet.hpp"

namespace assay::tile {
namespace {

constexpr int rows_of_chunk = 32;
int chunk_tile(const Problem&, Format) { return 0; }

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return mesanet_plan<Tiles>(on...); };

/// A warp for every 16 rows: of a chunk, or of a state.
template <class P, int D>
struct Tiles {
  static constexpr int tokens = rows_of_chunk, dim = D, stages = 2;
  using Executor = MmaBlock<P, tokens / 16>;
  using States = MmaBlock<P, D / 16>;
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
