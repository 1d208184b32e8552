#include "kernels/falcon3.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/launches/falcon_launch.hpp"
#include "kernels/launches/window_launch.hpp"
#include "kernels/programs/tensor_inverse.hpp"

namespace assay::tile {
namespace {

/// Row r of a head.
template <class Arr>
auto row(Arr& a, int head, int r) {
  return a.data.data() +
         (static_cast<std::size_t>(head) * static_cast<std::size_t>(a.rows) + static_cast<std::size_t>(r)) *
             static_cast<std::size_t>(a.cols);
}

/// Row r of every head from row map(r) of `from`, or full of `missing` where that is none: `count` rows.
template <class T, class Map>
HostArray<T> gathered(const RecurrenceShape& shape, const HostArray<T>& from, int count, Map map, T missing = 0) {
  auto to = shape.output<T>(from.heads, count, from.cols);
  std::fill(to.data.begin(), to.data.end(), missing);
  for (int h = 0; h < to.heads; ++h)
    for (int r = 0; r < count; ++r)
      if (const int source = map(r); source >= 0) std::copy_n(row(from, h, source), from.cols, row(to, h, r));
  return to;
}

/// Adds to every row of `sums` the rows of tiles that it is a sum of, each sum rounded at "part", the total at `site`.
template <class T, class Terms>
HostArray<T> summed(const Policy& policy, std::string_view site, const HostArray<T>& tiles, Terms terms,
                    HostArray<T> sums) {
  const auto n = static_cast<std::size_t>(tiles.cols);
  for (int h = 0; h < tiles.heads; ++h) {
    HostBlock<T> block(policy, static_cast<std::uint64_t>(h));
    for (int to = 0; to < sums.rows; ++to) {
      T* x = row(sums, h, to);
      for (int i = 0; i < terms.count(to); ++i) {
        for (std::size_t c = 0; c < n; ++c) x[c] += row(tiles, h, terms.row(to, i))[c];
        block.round("part", x, n);
      }
    }
    block.round(site, row(sums, h, 0), n * static_cast<std::size_t>(sums.rows));
  }
  return sums;
}

/// Calls f.template operator()<C, D>(): tiles of 32 or 16 rows.
template <class F>
void with_tile(ChunkSize size, F f) {
  const auto with_dim = [&]<int C>() {
    if (size.dim == 16) return f.template operator()<C, 16>();
    if constexpr (Faults::planted) throw InputError(faults_are_small);
    if constexpr (!Faults::planted)
      return size.dim == 64 ? f.template operator()<C, 64>() : f.template operator()<C, max_head_dim>();
  };
  return size.tokens == 32 ? with_dim.template operator()<32>() : with_dim.template operator()<16>();
}
constexpr std::string_view tiles_of_rows[] = {"32", "16"};

/// By ratios of decays, or by the published form.
template <class T, bool Renormalized>
Answer batch_rule(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  using B = HostBlock<T>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const bool with_gradients = !problem.cotangents.empty();
  const ChunkSize size{tile == 1 ? 16 : 32, chunk_size(shape, 0).dim};
  const int chunks = imax(1, ceil_div(len, size.tokens)), blocks = ceil_div(V, size.dim), parts = heads * blocks;
  FalconRows<T> gates(shape, problem, policy);
  const int tail = rows_of(shape, problem, "tail_k"), first = gates.first();
  const PairRows<T> pairs{tail, first, tail + imax(0, len - first)};
  // A window of as many pairs as there are is none, and has room to add to.
  const int asked = window_of(problem), window = imin(asked, imax(1, pairs.count)),
            newest = asked > 0 ? imin(pairs.count, asked - 1) : pairs.count;
  const Windows windows{tail, first,
                        window > 0 ? Faults::choose(policy, "window_one_too_wide"_s, window, window + 1) : 0};
  const auto rows = BatchRows::of(windows, len, longest_window(windows.window, pairs.count), size.tokens);
  const auto features = gates.features(shape.input<T>(problem.inputs, "k", shared, len, K)),
             values = shape.input<T>(problem.inputs, "v", heads, len, V),
             x = pairs.gather(shape, shape.input<T>(problem.inputs, "tail_k", heads, tail, K), features),
             v = pairs.gather(shape, shape.input<T>(problem.inputs, "tail_v", heads, tail, V), values),
             q = shape.input<T>(problem.inputs, "q", shared, len, K),
             initial_state = shape.input<T>(problem.inputs, "initial_state", heads, K, V);
  const auto beta = shape.vector_input<T>(problem.inputs, "beta", heads, len);
  auto weight = beta, gamma = beta, energy = beta, sizes = beta;
  with_tile(size, [&]<int C, int D>() {
    host_launch<BatchGain<B, C, D, 2>, T>(
        launch_policy(policy, 0),
        {x.in(), beta.row_in(), gates.lambda.row_in(), gates.active.row_in(), weight.row_out(), gamma.row_out(),
         energy.row_out(), sizes.row_out(), gates.eps, gates.floor, gates.options.coupling, windows, len},
        heads * chunks, HeadBlocks{chunks});
  });
  const auto to_tiles = [&](const HostArray<T>& from, auto map, T missing = 0) {
    return gathered(shape, from, rows.count(), map, missing);
  };
  const auto of_tiles = [&](int h, int cols) { return shape.output<T>(h, rows.count(), cols); };
  const auto tile_q = to_tiles(q, ReaderOfRow{rows}), tile_x = to_tiles(x, PairOfRow{rows}),
             tile_v = to_tiles(v, PairOfRow{rows}), tile_weight = to_tiles(weight, WriterOfRow{rows}),
             tile_gamma = to_tiles(gamma, DecayOfRow{rows}, 1), tile_decays = to_tiles(gamma, WriterOfRow{rows});
  const BatchInputs<B> inputs{tile_q.in(), tile_x.in(), tile_v.in(), tile_weight.row_in(), tile_gamma.row_in(false),
                              rows,        shape.group, shared};
  const int tiles = rows.tiles(), states_of = Renormalized && !with_gradients ? 0 : rows.groups() * size.dim;
  auto tile_o = of_tiles(heads, V), tile_z = tile_o, final_state = shape.output<T>(heads, K, V);
  auto states = shape.output<T>(heads, states_of, V), totals = shape.output<T>(heads, tiles * size.dim, 1);
  auto inverse = of_tiles(heads, size.tokens), to_row = of_tiles(heads, 1), to_error = to_row, to_end = to_row;
  const BatchSystems<B> systems{inverse.in(), to_row.row_in(), to_error.row_in(), to_end.row_in(), totals.row_in()};
  const HeadBlocks by_block{blocks}, by_tile{tiles * blocks};
  with_tile(size, [&]<int C, int D>() {
    if constexpr (Renormalized) {
      host_launch<TensorForward<B, C, D, D, 2>, T>(
          launch_policy(policy, 1),
          {{inputs, tile_decays.row_in()}, initial_state.in(), tile_o.out(), final_state.out(), states.out()}, parts,
          by_block);
    } else {
      host_launch<BatchSystem<B, C, D>, T>(
          launch_policy(policy, 6),
          {inputs, inverse.out(), to_row.row_out(), to_error.row_out(), to_end.row_out(), totals.row_out()},
          heads * tiles, HeadBlocks{tiles});
      host_launch<BatchStates<B, C, D, D, 2>, T>(
          launch_policy(policy, 1),
          {inputs, systems, initial_state.in(), tile_z.out(), states.out(), final_state.out()}, parts, by_block);
      host_launch<BatchOutputs<B, C, D, D>, T>(launch_policy(policy, 7),
                                               {inputs, systems, tile_z.in(), states.in(), tile_o.out(), blocks},
                                               parts * tiles, by_tile);
    }
  });
  const Policy sums = launch_policy(policy, 2);
  const auto zeros = [&](int h, int n, int cols) { return shape.input<T>({}, "", h, n, cols); };
  const auto o = summed(sums, "out", tile_o, RowsOfReader{rows}, zeros(heads, len, V));
  Answer answer{{{"o", o.array()},
                 {"final_state", final_state.array()},
                 {"final_tail_k", pairs.slice(shape, x, pairs.count - newest, pairs.count)},
                 {"final_tail_v", pairs.slice(shape, v, pairs.count - newest, pairs.count)}},
                {}};
  if (!with_gradients) return answer;

  require_open(gamma);
  const auto o_cotangent = to_tiles(shape.input<T>(problem.cotangents, "o", heads, len, V), ReaderOfRow{rows}),
             final_cotangent = shape.input<T>(problem.cotangents, "final_state", heads, K, V),
             tail_x = pairs.among_zeros(shape, problem, "final_tail_k", newest, K),
             tail_v = pairs.among_zeros(shape, problem, "final_tail_v", newest, V);
  auto tile_dq = of_tiles(parts, K), tile_dx = tile_dq, tile_dv = tile_o;
  auto tile_dweight = of_tiles(parts, 1), tile_dlog = tile_dweight, tile_dstep = tile_dweight;
  auto dinitial_state = initial_state;
  auto reads = tile_o, dy = tile_o, adjoints = states;
  with_tile(size, [&]<int C, int D>() {
    if constexpr (Renormalized) {
      host_launch<TensorBackward<B, C, D, D, 2>, T>(launch_policy(policy, 3),
                                                    {{inputs, tile_decays.row_in()},
                                                     states.in(),
                                                     o_cotangent.in(),
                                                     final_cotangent.in(),
                                                     tile_dq.out(),
                                                     tile_dx.out(),
                                                     tile_dv.out(),
                                                     dinitial_state.out(),
                                                     tile_dweight.row_out(),
                                                     tile_dlog.row_out(),
                                                     tile_dstep.row_out(),
                                                     blocks},
                                                    parts, by_block);
    } else {
      host_launch<BatchReads<B, C, D, D>, T>(launch_policy(policy, 8), {inputs, o_cotangent.in(), reads.out(), blocks},
                                             parts * tiles, by_tile);
      host_launch<BatchAdjoints<B, C, D, D, 2>, T>(launch_policy(policy, 3),
                                                   {inputs, systems, o_cotangent.in(), final_cotangent.in(), reads.in(),
                                                    dy.out(), tile_dv.out(), adjoints.out(), dinitial_state.out()},
                                                   parts, by_block);
      host_launch<BatchGradients<B, C, D, D>, T>(
          launch_policy(policy, 9),
          {inputs, systems, tile_z.in(), states.in(), dy.in(), tile_dv.in(), adjoints.in(), o_cotangent.in(),
           tile_dq.out(), tile_dx.out(), tile_dweight.row_out(), tile_dlog.row_out(), blocks},
          parts * tiles, by_tile);
    }
  });
  auto dlog_of_tokens = gathered(shape, tile_dlog, len, FirstRowOfToken{rows});
  if constexpr (Renormalized)
    dlog_of_tokens = summed(sums, "dlog_decay", tile_dstep, RowsOfWriter{rows}, std::move(dlog_of_tokens));
  const auto dweight_of_tokens = summed(sums, "part", tile_dweight, RowsOfWriter{rows}, zeros(parts, len, 1)),
             dweight = sum_parts(sums, "dweight", "dweight", dweight_of_tokens, blocks, weight),
             dlog_gamma = sum_parts(sums, "dlog_decay", "dlog_decay", dlog_of_tokens, blocks, gamma),
             dx_of_pairs = summed(sums, "part", tile_dx, RowsOfPair{rows}, zeros(parts, pairs.count, K)),
             dx_of_rows = sum_parts(sums, "part", "part", dx_of_pairs, blocks, x);
  auto dbeta = beta, dlambda = beta, slope = beta, dx = x;
  with_tile(size, [&]<int C, int D>() {
    host_launch<BatchGainBackward<B, C, D>, T>(
        launch_policy(policy, 4),
        {beta.row_in(), gates.lambda.row_in(), gates.active.row_in(), energy.row_in(), sizes.row_in(), dweight.row_in(),
         dlog_gamma.row_in(), dbeta.row_out(), dlambda.row_out(), slope.row_out(), gates.eps, gates.floor,
         gates.options.coupling},
        heads * chunks, HeadBlocks{chunks});
    const int pair_tiles = imax(1, ceil_div(pairs.count, C));
    host_launch<BatchEnergyGradient<B, C, D>, T>(
        launch_policy(policy, 5), {x.in(), dx_of_rows.in(), tail_x.in(), slope.row_in(), dx.out(), windows, len},
        heads * pair_tiles, HeadBlocks{pair_tiles});
  });
  const auto dv = summed(sums, "out", tile_dv, RowsOfPair{rows}, tail_v),
             dq_of_tokens = summed(sums, "part", tile_dq, RowsOfReader{rows}, zeros(parts, len, K));
  answer.gradients = {
      {"q", sum_parts(sums, "part", "out", dq_of_tokens, blocks, q).array()},
      {"k", sum_parts(sums, "part", "out", pairs.tokens(zeros(heads, len, K), dx), 1, features).array()},
      {"v", pairs.tokens(values, dv).array()},
      {"beta", dbeta.array()},
      {"lambda", dlambda.array()},
      {"initial_state", dinitial_state.array()}};
  gates.of_keys(problem, features, answer.gradients);
  if (problem.inputs.contains("tail_k")) {
    answer.gradients["tail_k"] = pairs.slice(shape, sum_parts(sums, "part", "out", dx, 1, x), 0, tail);
    answer.gradients["tail_v"] = pairs.slice(shape, dv, 0, tail);
  }
  return answer;
}

template <bool Renormalized>
Answer run(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_scalar(
      policy, [&]<class T>() { return batch_rule<T, Renormalized>(shape, problem, with_narrow_state(policy), tile); });
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

/// Of its own programs: those that it shares answer as the other form's.
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
     .iterative = true},  // without a window every token goes through all pairs
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
         "fp32 where less than 0.058; FALCON Algorithm 4"},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom falcon3 = {"falcon3", forms};
}

}  // namespace assay::tile
