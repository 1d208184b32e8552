#include "kernels/falcon/falcon3a.hpp"

#include <array>

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/plans/falcon3a.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

Answer run_masked(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    const HostDevice<T> device(shape, with_narrow_state(policy));
    return falcon3a_plan<HostTiles<T, C, D>>(device, shape, problem);
  });
}

constexpr std::array mutants{
    Mutant{"window_one_too_wide", "a step sees B + 1 pairs", "catalogue"},
    Mutant{"mean_over_full_window", "a window cut short by the start still divides by B", "catalogue"},
    Mutant{"energy_is_constant", "backward takes the energy of the window for a constant", "catalogue"},
    Mutant{"tail_cotangent_dropped", "the outgoing tail's cotangent is dropped", "catalogue"},
    Mutant{"dweight_without_state", "the step's gradient without the term of the reads in later chunks", "fla class"},
    Mutant{"dlog_decay_without_state", "dlog_decay without the term of the carried state <S, G>", "fla#1142"},
    Mutant{"decay_index_of_scores", "the decay from write s to output i stops at i - 1", "fla class"},
    Mutant{"tail_decay", "the last, ragged chunk decays the state by one gate too few", "fla#1142"},
    Mutant{"initial_state_ignored", "the first chunk starts from zero", "FLA naive delta_rule chunk"},
    Mutant{"state_not_carried", "every chunk starts from the initial state", "MDN common-mode reference"},
    Mutant{"head_modulo", "value head h reads query head h mod H instead of h div group", "fla#1029"},
    Mutant{"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    Mutant{"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 6 line 20"},
    Mutant{"adjoint_not_decayed", "backward carries the adjoint state to the chunk before without its decay",
           "fla class"},
    Mutant{"one_head_of_group", "dq and dk of the first value head of the group only", "GQA"}};

std::vector<Setting> chunkwise_settings() {
  return {{},
          {.params = {{"window", 70L}}},
          {.params = {{"window", 3L}, {"sequence_start", false}}},
          {.style = Style::gate_ends, .params = {{"window", 9L}, {"alignment", "same_step"}}},
          {.style = Style::dead_memory},
          {.style = Style::repeated_keys}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "masked form: the pairs in the windows of a chunk of tokens, tile by tile, one pass over the states",
     .sites = falcon3a_sites,
     .tiles = chunk_tiles,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run_masked,
     .settings = chunkwise_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom falcon3a = {"falcon3a", forms, "falcon"};
}

}  // namespace assay::tile
