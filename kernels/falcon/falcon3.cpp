#include "kernels/falcon/falcon3.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/falcon_gain.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/plans/falcon3.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

constexpr std::string_view tiles_of_rows[] = {"32", "16"};

template <bool Renormalized>
Answer run(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_scalar(policy, [&]<class T>() {
    return with_rows(chunk_size(shape, 0).dim, tile, [&]<Size C, Size D>() {
      const HostDevice<T> device(shape, with_narrow_state(policy));
      return falcon3_plan<HostTiles<T, C, D>, Renormalized>(device, shape, problem);
    });
  });
}

/// Why the compiled key dimensions or a host's memory cannot hold this problem, or "".
std::string window_obstacle(const Problem& problem) {
  constexpr long most = 1L << 23;
  const RecurrenceShape shape(problem);
  if (std::string obstacle = key_dim_obstacle(problem); !obstacle.empty()) return obstacle;
  const int window = window_of(problem), pairs = rows_of(shape, problem, "tail_k") + shape.len;
  const long numbers = rows_side_by_side(shape.len, pairs, window) * shape.heads * imax(shape.key_dim, shape.value_dim);
  return numbers <= most ? ""
                         : text("the windows of all tokens are laid side by side, of which ", most,
                                " numbers fit: these have ", numbers);
}

/// And why the published form cannot.
std::string tensor_obstacle(const Problem& problem) {
  if (std::string obstacle = window_obstacle(problem); !obstacle.empty()) return obstacle;
  const RecurrenceShape shape(problem);
  const int pairs = rows_of(shape, problem, "tail_k") + shape.len;
  return renormalization_obstacle(problem.params.contains("decay_floor"), longest_window(window_of(problem), pairs));
}

constexpr auto mutants = joined(
    joined(gain_mutants, coupling_mutants),
    std::array{
        Mutant{"window_one_too_wide", "a step sees B + 1 pairs", "catalogue"},
        Mutant{"mean_over_full_window", "a window cut short by the start still divides by B", "catalogue"},
        Mutant{"residuals_in_turn", "a residual sees the writes of its window's earlier pairs", "catalogue"},
        Mutant{"energy_is_constant", "backward takes the energy of the window for a constant", "catalogue"},
        Mutant{"tail_cotangent_dropped", "the outgoing tail's cotangent of the keys is dropped", "catalogue"},
        Mutant{"error_of_decayed_state", "the error is taken on the state on the other side of its decay", "fla class"},
        Mutant{"decay_index_of_scores", "the decay from write s to output i stops at i - 1", "fla class"},
        Mutant{"scores_exclude_self", "j < i instead of j <= i in Q K^T", "catalogue"},
        Mutant{"tail_decay", "the last, ragged chunk decays the state by one gate too few", "fla#1142"},
        Mutant{"initial_state_ignored", "the first chunk starts from zero", "FLA naive delta_rule chunk"},
        Mutant{"state_not_carried", "every chunk starts from the initial state", "MDN common-mode reference"},
        Mutant{"head_modulo", "value head h reads query head h mod H instead of h div group", "fla#1029"},
        Mutant{"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
        Mutant{"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 6 line 20"},
        Mutant{"adjoint_not_decayed", "backward carries the adjoint state to the chunk before without its decay",
               "fla class"},
        Mutant{"dweight_without_errors", "the step's gradient without what later residuals of its chunk read",
               "fla class"},
        Mutant{"dlog_decay_without_state", "dlog_decay without the term of the carried state <S, G>", "fla#1142"},
        Mutant{"one_head_of_group", "dq and dk of the first value head of the group only", "GQA"}});

/// Faults of its own programs: the shared ones answer as the other form's.
constexpr Mutant tensor_mutants[] = {
    {"step_not_renormalized", "features take eta, not eta / gamma", "FALCON (4.15)"},
    {"values_over_own_decay", "values are divided by the products that include their own token's decay",
     "FALCON (4.15)"},
    {"ranks_of_a_token_interact", "pairs of one window see each other in the system", "FALCON Alg 4 line 14"},
    {"read_before_write", "outputs leave their own token's window out", "FALCON Alg 4 line 34"},
    {"state_left_renormalized", "the state leaves its chunk without the chunk's decay", "FALCON Alg 4 line 26"},
    {"inverse_not_transposed", "backward applies the inverse, not its transpose", "catalogue"},
    {"decay_of_step_dropped", "the gradient of a decay without what eta / gamma takes", "FALCON Alg 11 line 25"},
    {"decay_of_values_dropped", "the gradient of the products without the values that they divide",
     "FALCON Alg 11 line 20"},
    {"decay_of_state_dropped", "the gradient of the products without the state that leaves the chunk",
     "FALCON Alg 11 line 13"},
};

std::vector<Setting> chunkwise_settings() {
  return {{},
          {.params = {{"window", 4L}}},
          {.params = {{"window", 9L}, {"alignment", "same_step"}, {"sequence_start", false}}},
          {.style = Style::gate_ends, .params = {{"window", 3L}, {"ridge_coupling", "live"}, {"decay_floor", "0.5"}}},
          {.style = Style::repeated_keys, .params = {{"window", 4L}}},
          {.params = {{"window", 40L}, {"sequence_start", false}}}};
}
std::vector<Setting> tensor_inverse_settings() {
  return {{.params = {{"window", 4L}, {"decay_floor", "0.5"}}},
          {.params = {{"window", 9L}, {"alignment", "same_step"}, {"sequence_start", false}, {"decay_floor", "0.5"}}},
          {.style = Style::gate_ends, .params = {{"window", 3L}, {"ridge_coupling", "live"}, {"decay_floor", "0.5"}}},
          {.style = Style::repeated_keys, .params = {{"window", 4L}, {"decay_floor", "0.5"}}},
          {.params = {{"window", 1L}, {"decay_floor", "0.9"}}},
          {.params = {{"window", 16L}, {"decay_floor", "0.5"}}}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "running products of the decays; a token has a row for every pair of its window, a triangular system "
                "for tokens whose windows fit a tile",
     .sites = falcon3_sites,
     .tiles = tiles_of_rows,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = window_obstacle,
     .run = run<false>,
     .iterative = true,  // without a window every token goes through all pairs
     .settings = chunkwise_settings},
    {.name = "tensor_inverse",
     .summary = "the published one: the rule without decays on values divided by running products of a chunk's, one "
                "inverse over tokens and pairs applied to features and values apart",
     .sites = tensor_inverse_sites,
     .tiles = tiles_of_rows,
     .mutants = tensor_mutants,
     .has_gradients = true,
     .obstacle = tensor_obstacle,
     .run = run<true>,
     .unstable =
         "what it divides by vanishes: values of a chunk of 32 overflow fp16 where decays average less than 0.7, "
         "fp32 where less than 0.058; FALCON Algorithm 4",
     .settings = tensor_inverse_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom falcon3 = {"falcon3", forms, "falcon"};
}

}  // namespace assay::tile
