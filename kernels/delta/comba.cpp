#include "kernels/delta/comba.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/gated_delta.hpp"

namespace assay::tile {
namespace {

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    const HostDevice<T> device(shape, with_narrow_sites(policy));
    return gated_delta_plan<HostTiles<T, C, D>, DeltaRule::predicts>(device, shape, problem, 1);
  });
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "WY form with running products of the decays: one triangular system per chunk of tokens",
     .sites = comba_sites,
     .tiles = chunk_tiles,
     .mutants = gated_delta_mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run_chunkwise},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom comba = {"comba", forms, "delta"};
}

}  // namespace assay::tile
