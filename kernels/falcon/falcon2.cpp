#include "kernels/falcon/falcon2.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/falcon_gain.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/host/host_value_columns.hpp"
#include "kernels/plans/falcon2.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    const Policy narrow = with_narrow_state(policy);
    return falcon2_plan<HostTiles<T, C, D>>(HostDevice<T>(shape, narrow), shape, problem);
  });
}

constexpr auto mutants = joined(
    gain_mutants,
    std::array{
        Mutant{"error_of_decayed_state", "the error is taken on the state on the other side of its decay", "fla class"},
        Mutant{"tail_decay", "the last, ragged chunk decays the state by one gate too few", "fla#1142"},
        Mutant{"scores_exclude_self", "j < i instead of j <= i in Q K^T", "catalogue"},
        Mutant{"initial_state_ignored", "the first chunk starts from zero", "FLA naive delta_rule chunk"},
        Mutant{"state_not_carried", "every chunk starts from the initial state", "MDN common-mode reference"},
        Mutant{"head_modulo", "value head h reads query and key head h mod H instead of h div group", "fla#1029"},
        Mutant{"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
        Mutant{"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 6 line 20"},
        Mutant{"adjoint_not_decayed", "backward carries the adjoint state to the chunk before without its decay",
               "fla class"},
        Mutant{"deta_without_writes", "deta takes an error that sees no earlier write of its chunk", "fla#1142 class"},
        Mutant{"dgamma_without_errors", "dgamma without the term of the triangular systems", "fla#1140"},
        Mutant{"energy_gradient_halved", "the gradient of |x|^2 is x", "catalogue"},
        Mutant{"one_head_of_group", "dq and dk of the first value head of the group only", "GQA"}});

std::vector<Setting> chunkwise_settings() {
  return {{},
          {.params = {{"alignment", "same_step"}}},
          {.params = {{"ridge_coupling", "live"}, {"decay_floor", "0.5"}}},
          {.style = Style::gate_ends, .params = {{"ridge_coupling", "detach"}, {"sequence_start", false}}},
          {.style = Style::repeated_keys}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary =
         "running products of the decays of every value channel: a triangular system per channel and chunk of tokens",
     .sites = falcon2_sites,
     .tiles = chunk_tiles,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run_chunkwise,
     .settings = chunkwise_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom falcon2 = {"falcon2", forms, "falcon"};
}

}  // namespace assay::tile
