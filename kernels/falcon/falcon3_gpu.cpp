// FALCON-3 on the device: launches and instances.
#include "kernels/gpu/cuda_device.hpp"
#include "kernels/plans/falcon3.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return falcon3_plan<Tiles, false>(on...); };
constexpr auto renormalized = []<class Tiles>(Instance<Tiles>, const auto&... on) {
  return falcon3_plan<Tiles, true>(on...);
};

/// Rows of a tile and the value columns of a block that fit in shared memory; `tile` is the CPU's with the same rows.
struct BatchTile {
  int tile, rows, values;
};
template <Format F, int D>
constexpr BatchTile batch_tile() {
  if (F == Format::fp64) return {1, 16, 16};
  if (F == Format::tf32) return {0, 32, 32};
  return {0, 32, D == 64 ? 64 : 32};
}
int tile_of(const Problem& problem, Format precision) {
  return with_instance(precision, RecurrenceShape(problem).key_dim,
                       [&]<Format F, int D>() { return batch_tile<F, D>().tile; });
}

/// Narrow blocks go through all tiles.
template <class P, int D>
struct Tiles {
  static constexpr BatchTile tile = batch_tile<P::precision, D>();
  using Executor = MmaBlock<P, tile.rows / 16>;
  static constexpr int tokens = tile.rows, dim = D, values = tile.values, pass_values = 16, stages = 2;
};

/// The compiled dimensions, and what windows take side by side.
std::string batch_obstacle(const Problem& problem, Format precision) {
  constexpr long most = 1L << 26;
  const RecurrenceShape shape(problem);
  if (std::string obstacle = recurrence_obstacle(problem, precision); !obstacle.empty()) return obstacle;
  const int pairs = rows_of(shape, problem, "tail_k") + shape.len;
  const long numbers =
      rows_side_by_side(shape.len, pairs, window_of(problem)) * shape.heads * imax(shape.key_dim, shape.value_dim);
  return numbers <= most ? ""
                         : text("the windows of all tokens are laid side by side, of which ", most,
                                " numbers fit on the device: these have ", numbers);
}

std::string tensor_obstacle(const Problem& problem, Format precision) {
  if (std::string obstacle = batch_obstacle(problem, precision); !obstacle.empty()) return obstacle;
  const int pairs = rows_of(RecurrenceShape(problem), problem, "tail_k") + RecurrenceShape(problem).len;
  return renormalization_obstacle(problem.params.contains("decay_floor"), longest_window(window_of(problem), pairs));
}

constexpr GpuForm forms[] = {
    {"chunkwise", batch_obstacle, tile_of, run_plan<falcon3_sites, Tiles, plan>},
    {"tensor_inverse", tensor_obstacle, tile_of, run_plan<tensor_inverse_sites, Tiles, renormalized>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom falcon3 = {"falcon3", tile::forms};
}
