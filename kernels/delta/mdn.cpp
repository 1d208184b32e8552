#include "kernels/delta/mdn.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/host_decay_scan.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/plans/mdn.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

template <class T, Size C, Size D, class Kind>
struct Tiles {
  using Executor = HostBlock<T>;
  using Gradients = Executor;
  template <class Block>
  using Weights = typename Kind::template Weights<Block, C, D>;
  static constexpr Size tokens = C, dim = D, values = D, pass_values = D;
  static constexpr int stages = 2, adjoint_stages = 2;
};

/// In the scalar that `policy` needs, rounded as `narrow` says.
template <class Kind>
Answer run(const Problem& problem, const Policy& policy, const Policy& narrow, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    return mdn_plan<Tiles<T, C, D, Kind>>(HostDevice<T>(shape, narrow), shape, problem);
  });
}

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  return run<LinearMomentum>(problem, policy, with_narrow_state(policy), tile);
}

Answer run_log_domain(const Problem& problem, const Policy& policy, int tile) {
  return run<LogDomainMomentum>(problem, policy, policy, tile);
}

std::string log_domain_obstacle(const Problem& problem) {
  if (RecurrenceShape(problem).len == 0) return "there is no logarithm of a sum over no tokens";
  for (const auto& [name, least] : {std::pair<const char*, double>{"beta", 0},
                                    {"log_alpha", -std::numeric_limits<double>::infinity()},
                                    {"log_mu", -std::numeric_limits<double>::infinity()}}) {
    const std::vector<double>& x = problem.inputs.at(name).data;
    const auto it = std::find_if(x.begin(), x.end(), [least = least](double y) { return !(y > least); });
    if (it != x.end()) return text(name, '[', it - x.begin(), "] is ", *it, ", which has no place in a logarithm");
  }
  return key_dim_obstacle(problem);
}

constexpr std::array mutants{
    Mutant{"weights_of_errors", "the error of token i weighs the writes before it as the output of token i does",
           "MDN gamma mask"},
    Mutant{"eta_of_row", "the triangular system scaled by the eta of the row instead of the column", "catalogue"},
    Mutant{"step_offset", "1e-6 added to beta", "MDN E1"},
    Mutant{"tail_decay", "the last, ragged chunk decays the state by one gate too few", "fla#1142"},
    Mutant{"momentum_not_carried", "every chunk starts from the initial momentum", "MDN common-mode reference"},
    Mutant{"errors_without_momentum", "errors read the carried state but not the carried momentum", "catalogue"},
    Mutant{"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    Mutant{"final_cotangent_dropped", "backward starts from a zero adjoint momentum", "FALCON Alg 6 line 20"},
    Mutant{"adjoint_without_step", "the adjoint momentum of the chunk before misses -b_C G", "fla class"},
    Mutant{"dk_without_momentum", "dk without the term of the write to the momentum", "fla#1140 class"},
    Mutant{"dlog_mu_without_momentum", "dlog_mu without the term of the carried momentum <M, N>", "fla#1142"},
    Mutant{"one_head_of_group", "dq, dk and dp of the first value head of the group only", "GQA"},
};

constexpr Mutant log_domain_mutants[] = {
    {"inclusive_sum", "1 - c_j / c_i: what a token writes at once is lost", "catalogue"},
    {"steps_dropped", "the gradients of the log gates without what the sums c_i take", "catalogue"},
    {"end_dropped", "the gradients of steps and gates without the weights of the state that leaves the chunk",
     "fla#1142 class"},
};

std::vector<Setting> chunkwise_settings() { return {{}, {.style = Style::gate_ends}, {.style = Style::dead_memory}}; }
std::vector<Setting> log_domain_settings() {
  return {
      {.exchanges_decays = true}, {.style = Style::dead_memory, .exchanges_decays = true}, {.style = Style::unit_keys}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "WY form with the linear recurrence of the weights: one triangular system per chunk of tokens",
     .sites = mdn_sites,
     .tiles = chunk_tiles,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run_chunkwise,
     .settings = chunkwise_settings},
    {.name = "log_domain",
     .summary = "the same with the published weights, quotients of exponentials of prefix sums",
     .sites = mdn_log_domain_sites,
     .tiles = chunk_tiles,
     .mutants = log_domain_mutants,
     .has_gradients = true,
     .obstacle = log_domain_obstacle,
     .run = run_log_domain,
     .unstable = "its weights cancel, and overflow, where mu decays faster than alpha; MDN (9)-(13), arXiv 2605.05838",
     .settings = log_domain_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom mdn = {"mdn", forms, "delta"};
}

}  // namespace assay::tile
