// FALCON-3A on the device: launches and instances.
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/falcon3a.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return falcon3a_plan<Tiles>(on...); };

/// The chunk of the sums, and the value columns of a block that fit in shared memory beside two tiles of pairs.
template <class P, int D>
struct WindowTiles : SumTiles<P, D> {
  static constexpr int values = P::precision == Format::fp64 ? 32 : SumTiles<P, D>::values;
};

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_plan<falcon3a_sites, WindowTiles, plan>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom falcon3a = {"falcon3a", tile::forms};
}
