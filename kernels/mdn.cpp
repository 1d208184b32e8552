#include "kernels/mdn.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/host_decay_scan.hpp"
#include "kernels/core/kernel_room.hpp"
#include "kernels/core/recurrence.hpp"

namespace assay::tile {
namespace {

template <class T>
using MomentumArrays = MomentumRows<HostArray<T>>;

template <class To, class T, class F>
MomentumRows<To> each_row(MomentumArrays<T>& rows, F f) {
  return {f(rows.a), f(rows.b),       f(rows.late_a),  f(rows.late_b), f(rows.g),
          f(rows.r), f(rows.total_a), f(rows.total_b), f(rows.total_m)};
}

/// Outputs, and gradients if they are wanted.
template <class T, template <ExecutorTypes, int, int> class Weights>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile,
                 bool with_gradients) {
  using B = HostBlock<T>;
  const ChunkSize size = chunk_size(shape, tile);
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, size.tokens)), blocks = ceil_div(V, size.dim),
            items = heads * chunks * blocks;
  const HeadBlocks by_block{blocks}, by_chunk{chunks * blocks};
  const auto of_shared = [&](const char* name) { return shape.input<T>(problem.inputs, name, shared, len, K); };
  const auto of_tokens = [&](const char* name) { return shape.vector_input<T>(problem.inputs, name, heads, len); };
  const auto q = of_shared("q"), k = of_shared("k"), p = of_shared("p");
  const auto v = shape.input<T>(problem.inputs, "v", heads, len, V);
  const auto log_alpha = of_tokens("log_alpha"), log_mu = of_tokens("log_mu"), beta = of_tokens("beta"),
             eta = of_tokens("eta");
  const auto initial_state = shape.input<T>(problem.inputs, "initial_state", heads, K, V),
             initial_momentum = shape.input<T>(problem.inputs, "initial_momentum", heads, K, V);
  const T scale = shape.scale<T>(problem, policy);
  auto weights = shape.output<T>(heads, chunks * size.tokens, size.tokens), late_weights = weights, inverse = weights;
  const auto per_token = shape.output<T>(heads, len, 1), per_channel = shape.output<T>(heads, chunks * size.dim, 1);
  MomentumArrays<T> arrays{per_token, per_token,   per_token,   per_token,  per_token,
                           per_token, per_channel, per_channel, per_channel};
  const auto rows = each_row<typename B::RowIn>(arrays, [](HostArray<T>& x) { return x.row_in(); });
  auto errors = shape.output<T>(heads, len, V), o = errors;
  auto states = shape.output<T>(heads, chunks * size.dim, V), momenta = states;
  auto final_state = shape.output<T>(heads, K, V), final_momentum = final_state;
  with_size(size, [&]<int C, int D>() {
    const auto gates =
        MomentumGates<B>{log_alpha.row_in(), log_mu.row_in(), beta.row_in(),
                         each_row<typename B::RowOut>(arrays, [](HostArray<T>& x) { return x.row_out(); }), len};
    host_launch<MomentumSystem<B, C, D, Weights<B, C, D>>, T>(
        launch_policy(policy, 0),
        {k.in(), p.in(), gates, eta.row_in(), weights.out(), late_weights.out(), inverse.out(), shape.group},
        heads * chunks, HeadBlocks{chunks});
    host_launch<MomentumPass<B, C, D, D, 2>, T>(
        launch_policy(policy, 1),
        {k.in(), p.in(), v.in(), inverse.in(), initial_state.in(), initial_momentum.in(), eta.row_in(), rows,
         errors.out(), states.out(), momenta.out(), final_state.out(), final_momentum.out(), len, shape.group},
        heads * blocks, by_block);
    host_launch<MomentumOutputs<B, C, D, D>, T>(launch_policy(policy, 2),
                                                {q.in(), k.in(), errors.in(), states.in(), momenta.in(), weights.in(),
                                                 eta.row_in(), rows, o.out(), scale, shape.group, blocks},
                                                items, by_chunk);
  });
  Answer answer{{{"o", o.array()}, {"final_state", final_state.array()}, {"final_momentum", final_momentum.array()}},
                {}};
  if (!with_gradients) return answer;

  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", heads, len, V),
             state_cotangent = shape.input<T>(problem.cotangents, "final_state", heads, K, V),
             momentum_cotangent = shape.input<T>(problem.cotangents, "final_momentum", heads, K, V);
  auto derrors = shape.output<T>(heads, len, V), dv = derrors, dvalues = derrors;
  auto state_updates = shape.output<T>(heads, chunks * size.dim, V), momentum_updates = state_updates,
       state_adjoints = state_updates, momentum_adjoints = state_updates;
  auto dinitial_state = shape.output<T>(heads, K, V), dinitial_momentum = dinitial_state;
  auto dq = shape.output<T>(heads * blocks, len, K), dk = dq, dp = dq;
  auto dlog_alpha = shape.output<T>(heads * blocks, len, 1), dlog_mu = dlog_alpha, dbeta = dlog_alpha,
       deta = dlog_alpha;
  with_size(size, [&]<int C, int D>() {
    host_launch<MomentumReads<B, C, D, D>, T>(
        launch_policy(policy, 3),
        {q.in(), k.in(), o_cotangent.in(), weights.in(), eta.row_in(), rows, derrors.out(), state_updates.out(),
         momentum_updates.out(), scale, shape.group, blocks},
        items, by_chunk);
    host_launch<MomentumAdjointPass<B, C, D, D, 2>, T>(
        launch_policy(policy, 4),
        {k.in(), p.in(), derrors.in(), state_updates.in(), momentum_updates.in(), inverse.in(), state_cotangent.in(),
         momentum_cotangent.in(), eta.row_in(), rows, dv.out(), dvalues.out(), state_adjoints.out(),
         momentum_adjoints.out(), dinitial_state.out(), dinitial_momentum.out(), len, shape.group},
        heads * blocks, by_block);
    using Gradients = MomentumGradients<B, C, D, D, Weights<B, C, D>>;
    host_launch<Gradients, T>(launch_policy(policy, 5),
                              {q.in(),
                               k.in(),
                               p.in(),
                               errors.in(),
                               dvalues.in(),
                               o_cotangent.in(),
                               states.in(),
                               momenta.in(),
                               state_adjoints.in(),
                               momentum_adjoints.in(),
                               weights.in(),
                               late_weights.in(),
                               log_alpha.row_in(),
                               log_mu.row_in(),
                               beta.row_in(),
                               eta.row_in(),
                               rows,
                               dq.out(),
                               dk.out(),
                               dp.out(),
                               dlog_alpha.row_out(),
                               dlog_mu.row_out(),
                               dbeta.row_out(),
                               deta.row_out(),
                               scale,
                               shape.group,
                               blocks},
                              items, by_chunk);
  });
  const Policy sums = launch_policy(policy, 6);
  const auto total = [&](const char* part, const char* out, const HostArray<T>& parts, const HostArray<T>& of) {
    return sum_parts(sums, part, out, parts, blocks, of).array();
  };
  answer.gradients = {{"q", total("part", "out", dq, q)},
                      {"k", total("part", "out", dk, k)},
                      {"v", dv.array()},
                      {"p", total("part", "out", dp, p)},
                      {"log_alpha", total("dlog_alpha", "dlog_alpha", dlog_alpha, log_alpha)},
                      {"log_mu", total("dlog_mu", "dlog_mu", dlog_mu, log_mu)},
                      {"beta", total("dbeta", "dbeta", dbeta, beta)},
                      {"eta", total("deta", "deta", deta, eta)},
                      {"initial_state", dinitial_state.array()},
                      {"initial_momentum", dinitial_momentum.array()}};
  return answer;
}

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_scalar(policy, [&]<class T>() {
    return chunkwise<T, LinearWeights>(shape, problem, with_narrow_state(policy), tile, !problem.cotangents.empty());
  });
}

Answer run_log_domain(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_scalar(policy, [&]<class T>() {
    return chunkwise<T, LogDomainWeights>(shape, problem, policy, tile, !problem.cotangents.empty());
  });
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

constexpr KernelForm forms[] = {
    {"chunkwise", "WY form with the linear recurrence of the weights: one triangular system per chunk of tokens",
     mdn_sites, chunk_tiles, mutants, true, key_dim_obstacle, run_chunkwise},
    {"log_domain", "the same with the published weights, quotients of exponentials of prefix sums",
     mdn_log_domain_sites, chunk_tiles, log_domain_mutants, true, log_domain_obstacle, run_log_domain,
     "its weights cancel, and overflow, where mu decays faster than alpha; MDN (9)-(13), arXiv 2605.05838"},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom mdn = {"mdn", forms};
}

}  // namespace assay::tile
