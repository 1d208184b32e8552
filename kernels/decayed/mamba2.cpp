#include "kernels/decayed/mamba2.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/decayed_sums.hpp"
#include "kernels/plans/mamba2.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    const HostDevice<T> device(shape, with_narrow_state(policy));
    return mamba2_plan<HostTiles<T, C, D>>(device, shape, problem);
  });
}

constexpr auto mutants = joined(sum_mutants, decay_mutants);

std::vector<Setting> chunkwise_settings() { return {{}, {.style = Style::gate_ends}, {.style = Style::dead_memory}}; }

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "chunks in parallel: what each adds to the state, one pass over the states, what the queries read",
     .sites = mamba2_sites,
     .tiles = chunk_tiles,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run_chunkwise,
     .settings = chunkwise_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom mamba2 = {"mamba2", forms, "decayed"};
}

}  // namespace assay::tile
