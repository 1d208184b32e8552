// Local linear attention on the device: launches and instances.
#include "kernels/gpu/attention.hpp"
#include "kernels/plans/lla.hpp"

namespace assay::tile {
namespace {

template <Format F>
using TiledPolicy = StaticPolicy<lla_tiled_sites, F>;

template <class P, int D>
struct Tiles {
  using Shapes = AttentionTiles<P::precision>;
  using Forward = TilePass<MmaBlock<P, Shapes::warps>, Shapes::rows, Shapes::keys, 2, 1>;
  static constexpr int dim = D;
};

template <bool Raw>
Answer run(const Problem& problem, Format precision, GpuTimes* times) {
  LlaShape shape(problem);
  shape.about_query |= Raw;
  return with_instance(precision, std::max(shape.key_dim, shape.value_dim), [&]<Format F, int D>() {
    using P = TiledPolicy<F>;
    return lla_plan<Tiles<P, D>, Raw>(CudaAttentionDevice<P>(shape, times), shape, problem);
  });
}

std::string lla_device_obstacle(const Problem& problem, Format precision) {
  const LlaShape shape(problem);
  const std::string dims = device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
  return dims.empty() ? system_obstacle(problem) : dims;
}

std::string raw_device_obstacle(const Problem& problem, Format precision) {
  const std::string centre = centre_obstacle(problem);
  return centre.empty() ? lla_device_obstacle(problem, precision) : centre;
}

constexpr GpuForm forms[] = {{"tiled", lla_device_obstacle, tiled_tile, run<false>},
                             {"raw_moments", raw_device_obstacle, tiled_tile, run<true>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom lla = {"lla", tile::forms};
}
