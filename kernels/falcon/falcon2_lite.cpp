#include "kernels/falcon/falcon2_lite.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/falcon_rule.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/plans/renormalized.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

Answer run_renormalized(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    return renormalized_plan<HostTiles<T, C, D>>(HostDevice<T>(shape, policy), shape, problem);
  });
}

std::string renormalized_obstacle(const Problem& problem) {
  const std::string obstacle = key_dim_obstacle(problem);
  if (!obstacle.empty() || problem.params.contains("decay_floor")) return obstacle;
  return "without a decay_floor a decay may be 0, and nothing is renormalised by that";
}

/// Faults of its own programs: the shared ones answer as the other form's.
constexpr Mutant renormalized_mutants[] = {
    {"step_not_renormalized", "the rule without decays takes eta, not eta / gamma", "FALCON Alg 10 line 4"},
    {"values_over_own_decay", "values are divided by the products that include their own token's decay",
     "FALCON Alg 10 line 12"},
    {"scores_exclude_self", "j < i instead of j <= i in Q X^T", "catalogue"},
    {"state_left_renormalized", "the state leaves its chunk without the chunk's decay", "FALCON Alg 10 line 15"},
    {"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 11 line 1"},
    {"adjoint_not_renormalized", "backward takes the state's cotangent into a chunk without the chunk's decay",
     "FALCON Alg 11 line 12"},
    {"inverse_not_transposed", "backward applies the inverse, not its transpose", "catalogue"},
    {"dstep_without_errors", "the step's gradient without what earlier writes of its chunk predict", "fla#1140 class"},
    {"dv_left_renormalized", "dv is that of the divided values", "FALCON Alg 11 line 19"},
    {"deta_left_renormalized", "the gradient of eta is that of eta / gamma", "FALCON Alg 11 line 25"},
    {"decay_of_reads_dropped", "the gradient of the products without the outputs that they multiply",
     "FALCON Alg 11 line 9"},
    {"decay_of_values_dropped", "the gradient of the products without the values that they divide",
     "FALCON Alg 11 line 20"},
    {"decay_of_state_dropped", "the gradient of the products without the state that leaves the chunk",
     "FALCON Alg 11 line 13"},
    {"decay_of_step_dropped", "the gradient of a decay without what eta / gamma takes", "FALCON Alg 11 line 26"},
};

std::vector<Setting> chunkwise_settings() {
  return {{}, {.params = {{"ridge_coupling", "detach"}, {"sequence_start", false}}}};
}
std::vector<Setting> renormalized_settings() {
  return {{.params = {{"decay_floor", "0.5"}}},
          {.params = {{"ridge_coupling", "live"}, {"decay_floor", "0.5"}}},
          {.style = Style::gate_ends, .params = {{"decay_floor", "0.0625"}}},
          {.params = {{"ridge_coupling", "detach"}, {"sequence_start", false}, {"decay_floor", "0.9"}}}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "WY form with running products of the decays: one triangular system per chunk of tokens",
     .sites = falcon2_lite_sites,
     .tiles = chunk_tiles,
     .mutants = falcon_mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = falcon_rule,
     .settings = chunkwise_settings},
    {.name = "renormalized",
     .summary = "the published one: the rule without decays on values divided by running products of a chunk's",
     .sites = renormalized_sites,
     .tiles = chunk_tiles,
     .mutants = renormalized_mutants,
     .has_gradients = true,
     .obstacle = renormalized_obstacle,
     .run = run_renormalized,
     .unstable = "what it divides by vanishes: a chunk of 64 overflows fp32 where decays average less than 0.245; "
                 "FALCON Algorithms 10 and 11",
     .settings = renormalized_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom falcon2_lite = {"falcon2_lite", forms, "falcon"};
}

}  // namespace assay::tile
