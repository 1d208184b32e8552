#include "kernels/falcon/falcon2a.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/falcon_gain.hpp"
#include "kernels/host/normalized_read.hpp"
#include "kernels/plans/falcon2a.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    const HostDevice<T> device(shape, with_narrow_state(policy));
    return normalizes(problem) ? falcon2a_plan<HostTiles<T, C, D>, true>(device, shape, problem)
                               : falcon2a_plan<HostTiles<T, C, D>, false>(device, shape, problem);
  });
}

constexpr auto mutants =
    joined(joined(joined(sum_mutants, decay_mutants), joined(gain_mutants, coupling_mutants)),
           joined(normalized_read_mutants,
                  std::array{Mutant{"deta_without_weight", "the gain's gradient through the normaliser is dropped",
                                    "catalogue"}}));

std::vector<Setting> chunkwise_settings() {
  return {{},
          {.params = {{"normalization", "features"}}},
          {.params = {{"alignment", "same_step"}}},
          {.params = {{"ridge_coupling", "live"}, {"decay_floor", "0.5"}}},
          {.style = Style::gate_ends, .params = {{"ridge_coupling", "detach"}, {"sequence_start", false}}},
          {.style = Style::repeated_keys}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "chunks in parallel: what each adds to the state, one pass over the states, what the queries read",
     .sites = falcon2a_sites,
     .tiles = chunk_tiles,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run_chunkwise,
     .settings = chunkwise_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom falcon2a = {"falcon2a", forms, "falcon"};
}

}  // namespace assay::tile
