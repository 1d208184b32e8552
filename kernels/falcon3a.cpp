#include "kernels/falcon3a.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/launches/decayed_sums_launch.hpp"
#include "kernels/launches/falcon_launch.hpp"
#include "kernels/launches/window_launch.hpp"

namespace assay::tile {
namespace {

template <class T>
Answer masked(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  using B = HostBlock<T>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const ChunkSize size = chunk_size(shape, tile);
  const int chunks = imax(1, ceil_div(len, size.tokens)), blocks = ceil_div(V, size.dim);
  FalconKeys<T> keys(shape, problem);
  const int tail = rows_of(shape, problem, "tail_k"), first = keys.first();
  const PairRows<T> pairs{tail, first, tail + imax(0, len - first)};
  // A window of as many pairs as there are is none, and has room to add to.
  const int asked = window_of(problem), window = imin(asked, imax(1, pairs.count)),
            newest = asked > 0 ? imin(pairs.count, asked - 1) : pairs.count;
  const Windows windows{tail, first,
                        window > 0 ? Faults::choose(policy, "window_one_too_wide"_s, window, window + 1) : 0};
  const auto features = keys.features(shape.input<T>(problem.inputs, "k", shared, len, K)),
             values = shape.input<T>(problem.inputs, "v", heads, len, V),
             x = pairs.gather(shape, shape.input<T>(problem.inputs, "tail_k", heads, tail, K), features),
             v = pairs.gather(shape, shape.input<T>(problem.inputs, "tail_v", heads, tail, V), values),
             q = shape.input<T>(problem.inputs, "q", shared, len, K),
             initial_state = shape.input<T>(problem.inputs, "initial_state", heads, K, V);
  const auto beta = shape.vector_input<T>(problem.inputs, "beta", heads, len),
             alpha = shape.vector_input<T>(problem.inputs, "alpha", heads, len);
  const T eps = rounded_gate<T>(problem, policy, "eps");
  auto weight = beta, gamma = beta, den = beta, sizes = beta;
  auto o = shape.output<T>(heads, len, V), final_state = shape.output<T>(heads, K, V);
  auto updates = shape.output<T>(heads, chunks * size.dim, V), totals = shape.output<T>(heads, chunks * size.dim, 1);
  const int items = heads * chunks * blocks;
  const HeadBlocks by_chunk{chunks * blocks};
  with_size(size, [&]<int C, int D>() {
    host_launch<WindowGain<B, C, D, 2>, T>(launch_policy(policy, 0),
                                           {x.in(), beta.row_in(), alpha.row_in(), weight.row_out(), gamma.row_out(),
                                            den.row_out(), sizes.row_out(), eps, windows, len},
                                           heads * chunks, HeadBlocks{chunks});
    host_launch<WindowUpdates<B, C, D, D, 2>, T>(
        launch_policy(policy, 1),
        {x.in(), v.in(), weight.row_in(), gamma.row_in(false), updates.out(), totals.row_out(), windows, len, blocks},
        items, by_chunk);
  });
  const auto states =
      pass_states(launch_policy(policy, 2), size, false, len, initial_state, updates, totals, final_state);
  with_size(size, [&]<int C, int D>() {
    host_launch<WindowOutputs<B, C, D, D, 2>, T>(
        launch_policy(policy, 3),
        {q.in(), x.in(), v.in(), states.in(), weight.row_in(), gamma.row_in(false), o.out(), windows, len, shape.group,
         shared, blocks},
        items, by_chunk);
  });
  Answer answer{{{"o", o.array()},
                 {"final_state", final_state.array()},
                 {"final_tail_k", pairs.slice(shape, x, pairs.count - newest, pairs.count)},
                 {"final_tail_v", pairs.slice(shape, v, pairs.count - newest, pairs.count)}},
                {}};
  if (problem.cotangents.empty()) return answer;

  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", heads, len, V),
             final_cotangent = shape.input<T>(problem.cotangents, "final_state", heads, K, V),
             tail_x = pairs.among_zeros(shape, problem, "final_tail_k", newest, K),
             tail_v = pairs.among_zeros(shape, problem, "final_tail_v", newest, V);
  auto dinitial_state = initial_state, dq = shape.output<T>(heads * blocks, len, K);
  auto dx = shape.output<T>(heads * blocks, pairs.count, K), dv = v;
  auto dweight_parts = shape.output<T>(heads * blocks, len, 1), dlog_parts = dweight_parts;
  auto ones = shape.output<T>(heads, len, 1);
  std::fill(ones.data.begin(), ones.data.end(), T(1));
  with_size(size, [&]<int C, int D>() {
    host_launch<ChunkUpdates<B, C, D, D, true, true>, T>(
        launch_policy(policy, 4),
        {q.in(), o_cotangent.in(), gamma.row_in(false), ones.row_in(), updates.out(), totals.row_out(), len,
         shape.group, shared, blocks},
        items, by_chunk);
  });
  const auto adjoints =
      pass_states(launch_policy(policy, 5), size, true, len, final_cotangent, updates, totals, dinitial_state);
  with_size(size, [&]<int C, int D>() {
    host_launch<WindowRowGradients<B, C, D, D, 2>, T>(
        launch_policy(policy, 6),
        {q.in(), x.in(), v.in(), states.in(), adjoints.in(), o_cotangent.in(), weight.row_in(), gamma.row_in(false),
         dq.out(), dweight_parts.row_out(), dlog_parts.row_out(), windows, len, shape.group, blocks},
        items, by_chunk);
  });
  const Policy sums = launch_policy(policy, 7);
  const auto dweight = sum_parts(sums, "dweight", "dweight", dweight_parts, blocks, weight),
             dlog_gamma = sum_parts(sums, "dlog_decay", "dlog_decay", dlog_parts, blocks, gamma);
  auto dbeta = beta, dalpha = beta, slope = beta;
  const int pair_tiles = imax(1, ceil_div(pairs.count, size.tokens));
  with_size(size, [&]<int C, int D>() {
    host_launch<WindowGainBackward<B, C>, T>(
        launch_policy(policy, 8),
        {beta.row_in(), gamma.row_in(), den.row_in(), sizes.row_in(), dweight.row_in(), dlog_gamma.row_in(),
         dbeta.row_out(), dalpha.row_out(), slope.row_out()},
        heads * chunks, HeadBlocks{chunks});
    host_launch<WindowPairGradients<B, C, D, D, 2>, T>(
        launch_policy(policy, 9),
        {q.in(), x.in(), v.in(), adjoints.in(), o_cotangent.in(), tail_x.in(), tail_v.in(), weight.row_in(),
         gamma.row_in(false), slope.row_in(), dx.out(), dv.out(), windows, len, shape.group, blocks},
        heads * pair_tiles * blocks, HeadBlocks{pair_tiles * blocks});
  });
  answer.gradients = {{"q", sum_parts(sums, "part", "out", dq, blocks, q).array()},
                      {"k", sum_parts(sums, "part", "out", pairs.tokens(dq, dx), blocks, features).array()},
                      {"v", pairs.tokens(values, dv).array()},
                      {"beta", dbeta.array()},
                      {"alpha", dalpha.array()},
                      {"initial_state", dinitial_state.array()}};
  keys.of_keys(problem, features, answer.gradients);
  if (problem.inputs.contains("tail_k")) {
    answer.gradients["tail_k"] = pairs.slice(shape, sum_parts(sums, "part", "out", dx, blocks, x), 0, tail);
    answer.gradients["tail_v"] = pairs.slice(shape, dv, 0, tail);
  }
  return answer;
}

Answer run_masked(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  const auto run = [&]<class T>() { return masked<T>(shape, problem, with_narrow_state(policy), tile); };
  return with_scalar(policy, run);
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

constexpr KernelForm forms[] = {
    {"chunkwise", "masked form: the pairs in the windows of a chunk of tokens, tile by tile, one pass over the states",
     falcon3a_sites, chunk_tiles, mutants, true, key_dim_obstacle, run_masked},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom falcon3a = {"falcon3a", forms};
}

}  // namespace assay::tile
