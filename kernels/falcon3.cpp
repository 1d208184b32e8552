#include "kernels/falcon3.hpp"

#include "kernels/core/falcon_launch.hpp"
#include "kernels/core/kernel_room.hpp"
#include "kernels/core/window_launch.hpp"

namespace assay::tile {
namespace {

/// Row r of a head.
template <class Arr>
auto row(Arr& a, int head, int r) {
  return a.data.data() +
         (static_cast<std::size_t>(head) * static_cast<std::size_t>(a.rows) + static_cast<std::size_t>(r)) *
             static_cast<std::size_t>(a.cols);
}

/// Rows of tokens and pairs on their way to rows of tiles and back.
template <class T>
struct BatchTiles {
  BatchRows rows;
  int tile;  ///< rows of a tile

  int count() const { return rows.tiles() * tile; }
  /// The first row of token t in part p of its window.
  int row_of(int t, int p) const { return (t / rows.tokens * rows.parts + p) * tile + t % rows.tokens * rows.ranks; }
  /// Calls f(token, pair, row).
  template <class F>
  void each(F f) const {
    for (int t = 0; t < rows.len; ++t)
      for (int i = 0; i < rows.size(t); ++i)
        f(t, rows.windows.begin(t) + i, row_of(t, i / rows.ranks) + i % rows.ranks);
  }
  /// Calls f(token, the row that reads for it, the first one) for every part of a window.
  template <class F>
  void each_part(F f) const {
    for (int t = 0; t < rows.len; ++t)
      for (int p = 0; p == 0 || p * rows.ranks < rows.size(t); ++p) f(t, row_of(t, p) + rows.ranks - 1, row_of(t, p));
  }

  HostArray<T> filled(const RecurrenceShape& shape, int heads, int cols, T x) const {
    auto a = shape.output<T>(heads, count(), cols);
    std::fill(a.data.begin(), a.data.end(), x);
    return a;
  }
  HostArray<T> of_pairs(const RecurrenceShape& shape, const HostArray<T>& pairs) const {
    auto a = filled(shape, pairs.heads, pairs.cols, T(0));
    for (int h = 0; h < pairs.heads; ++h)
      each([&](int, int j, int r) { std::copy_n(row(pairs, h, j), pairs.cols, row(a, h, r)); });
    return a;
  }
  HostArray<T> of_reads(const RecurrenceShape& shape, const HostArray<T>& tokens) const {
    auto a = filled(shape, tokens.heads, tokens.cols, T(0));
    for (int h = 0; h < tokens.heads; ++h)
      each_part([&](int t, int r, int) { std::copy_n(row(tokens, h, t), tokens.cols, row(a, h, r)); });
    return a;
  }
  HostArray<T> of_weights(const RecurrenceShape& shape, const HostArray<T>& weight) const {
    auto a = filled(shape, weight.heads, 1, T(0));
    for (int h = 0; h < weight.heads; ++h) each([&](int t, int, int r) { *row(a, h, r) = *row(weight, h, t); });
    return a;
  }
  HostArray<T> of_decays(const RecurrenceShape& shape, const HostArray<T>& gamma) const {
    auto a = filled(shape, gamma.heads, 1, T(1));
    for (int h = 0; h < gamma.heads; ++h) each_part([&](int t, int, int r) { *row(a, h, r) = *row(gamma, h, t); });
    return a;
  }

  /// Adds to the rows of `sums` those of tiles, each(add(to, from)) by each, rounded at "part", and in the end at
  /// `site`.
  template <class Each>
  static HostArray<T> sum(const Policy& policy, std::string_view site, const HostArray<T>& tiles, HostArray<T> sums,
                          Each each) {
    const auto n = static_cast<std::size_t>(tiles.cols), all = n * static_cast<std::size_t>(sums.rows);
    for (int h = 0; h < tiles.heads; ++h) {
      HostBlock<T> block(policy, static_cast<std::uint64_t>(h));
      each([&](int to, int from) {
        T* x = row(sums, h, to);
        for (std::size_t c = 0; c < n; ++c) x[c] += row(tiles, h, from)[c];
        block.round("part", x, n);
      });
      block.round(site, row(sums, h, 0), all);
    }
    return sums;
  }
  HostArray<T> by_pair(const Policy& policy, std::string_view site, const HostArray<T>& tiles,
                       const HostArray<T>& start) const {
    return sum(policy, site, tiles, start, [&](auto add) { each([&](int, int j, int r) { add(j, r); }); });
  }
  /// Over all rows of a token, or over those that read for it.
  HostArray<T> by_token(const Policy& policy, const HostArray<T>& tiles, const HostArray<T>& start) const {
    return sum(policy, "part", tiles, start, [&](auto add) { each([&](int t, int, int r) { add(t, r); }); });
  }
  HostArray<T> by_read(const Policy& policy, std::string_view site, const HostArray<T>& tiles,
                       const HostArray<T>& start) const {
    return sum(policy, site, tiles, start, [&](auto add) { each_part([&](int t, int r, int) { add(t, r); }); });
  }
  /// What the first row of every token holds.
  HostArray<T> first_rows(const RecurrenceShape& shape, const HostArray<T>& tiles) const {
    auto a = shape.output<T>(tiles.heads, rows.len, 1);
    for (int h = 0; h < tiles.heads; ++h)
      for (int t = 0; t < rows.len; ++t) *row(a, h, t) = *row(tiles, h, row_of(t, 0));
    return a;
  }
};

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

/// The longest window of any token.
int longest_window(const Windows& windows, int pairs) {
  return windows.window > 0 ? imin(windows.window, pairs) : pairs;
}

template <class T>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  using B = HostBlock<T>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const bool with_gradients = !problem.cotangents.empty();
  const ChunkSize size{tile == 1 ? 16 : 32, chunk_size(shape, 0).dim};
  const int chunks = imax(1, ceil_div(len, size.tokens)), blocks = ceil_div(V, size.dim), parts = heads * blocks;
  FalconRows<T> gates(shape, problem, policy);
  const int tail = rows_of(shape, problem, "tail_k"), first = gates.first();
  const PairRows<T> pairs{tail, first, tail + imax(0, len - first)};
  const int window = window_of(problem), newest = window > 0 ? imin(pairs.count, window - 1) : pairs.count;
  const Windows windows{tail, first,
                        window > 0 ? Faults::choose(policy, "window_one_too_wide"_s, window, window + 1) : 0};
  const BatchTiles<T> tiles{BatchRows::of(windows, len, longest_window(windows, pairs.count), size.tokens),
                            size.tokens};
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
  const auto tile_q = tiles.of_reads(shape, q), tile_x = tiles.of_pairs(shape, x), tile_v = tiles.of_pairs(shape, v),
             tile_weight = tiles.of_weights(shape, weight), tile_gamma = tiles.of_decays(shape, gamma);
  auto tile_o = tiles.filled(shape, heads, V, HostBlock<T>::poison), final_state = shape.output<T>(heads, K, V);
  auto states = shape.output<T>(heads, with_gradients ? tiles.rows.groups() * size.dim : 0, V);
  with_tile(size, [&]<int C, int D>() {
    host_launch<BatchForward<B, C, D, D, 2>, T>(launch_policy(policy, 1),
                                                {{tile_q.in(), tile_x.in(), tile_v.in(), tile_weight.row_in(),
                                                  tile_gamma.row_in(false), tiles.rows, shape.group, shared},
                                                 initial_state.in(),
                                                 tile_o.out(),
                                                 final_state.out(),
                                                 states.out()},
                                                parts, HeadBlocks{blocks});
  });
  const Policy sums = launch_policy(policy, 2);
  const auto zeros = [&](int h, int rows, int cols) { return shape.input<T>({}, "", h, rows, cols); };
  const auto o = tiles.by_read(sums, "out", tile_o, zeros(heads, len, V));
  Answer answer{{{"o", o.array()},
                 {"final_state", final_state.array()},
                 {"final_tail_k", pairs.slice(shape, x, pairs.count - newest, pairs.count)},
                 {"final_tail_v", pairs.slice(shape, v, pairs.count - newest, pairs.count)}},
                {}};
  if (!with_gradients) return answer;

  require_open(gamma);
  const auto o_cotangent = tiles.of_reads(shape, shape.input<T>(problem.cotangents, "o", heads, len, V)),
             final_cotangent = shape.input<T>(problem.cotangents, "final_state", heads, K, V),
             tail_x = pairs.among_zeros(shape, problem, "final_tail_k", newest, K),
             tail_v = pairs.among_zeros(shape, problem, "final_tail_v", newest, V);
  auto tile_dq = tiles.filled(shape, parts, K, HostBlock<T>::poison), tile_dx = tile_dq, tile_dv = tile_o;
  auto tile_dweight = tiles.filled(shape, parts, 1, HostBlock<T>::poison), tile_dlog = tile_dweight;
  auto dinitial_state = initial_state;
  with_tile(size, [&]<int C, int D>() {
    host_launch<BatchBackward<B, C, D, D, 2>, T>(launch_policy(policy, 3),
                                                 {{tile_q.in(), tile_x.in(), tile_v.in(), tile_weight.row_in(),
                                                   tile_gamma.row_in(false), tiles.rows, shape.group, shared},
                                                  states.in(),
                                                  o_cotangent.in(),
                                                  final_cotangent.in(),
                                                  tile_dq.out(),
                                                  tile_dx.out(),
                                                  tile_dv.out(),
                                                  dinitial_state.out(),
                                                  tile_dweight.row_out(),
                                                  tile_dlog.row_out(),
                                                  blocks},
                                                 parts, HeadBlocks{blocks});
  });
  const auto dweight = sum_parts(sums, "dweight", "dweight", tiles.by_token(sums, tile_dweight, zeros(parts, len, 1)),
                                 blocks, weight),
             dlog_gamma =
                 sum_parts(sums, "dlog_decay", "dlog_decay", tiles.first_rows(shape, tile_dlog), blocks, gamma);
  const auto dx_of_rows =
      sum_parts(sums, "part", "part", tiles.by_pair(sums, "part", tile_dx, zeros(parts, pairs.count, K)), blocks, x);
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
  const auto dv = tiles.by_pair(sums, "out", tile_dv, tail_v);
  answer.gradients = {
      {"q",
       sum_parts(sums, "part", "out", tiles.by_read(sums, "part", tile_dq, zeros(parts, len, K)), blocks, q).array()},
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

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  const auto run = [&]<class T>() { return chunkwise<T>(shape, problem, with_narrow_state(policy), tile); };
  return with_scalar(policy, run);
}

/// Why the compiled key dimensions or a host's memory cannot hold this problem, or "".
std::string window_obstacle(const Problem& problem) {
  constexpr long most = 1L << 23;
  const RecurrenceShape shape(problem);
  if (std::string obstacle = key_dim_obstacle(problem); !obstacle.empty()) return obstacle;
  const int window = window_of(problem), pairs = rows_of(shape, problem, "tail_k") + shape.len;
  const long rows = static_cast<long>(shape.len) * (window > 0 ? imin(window, pairs) : pairs);
  const long numbers = rows * shape.heads * imax(shape.key_dim, shape.value_dim);
  return numbers <= most ? ""
                         : text("the windows of all tokens are laid side by side, of which ", most,
                                " numbers fit: these have ", numbers);
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

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "running products of the decays; a token has a row for every pair of its window, a triangular system "
                "for tokens whose windows fit a tile",
     .sites = falcon3_sites,
     .tiles = tiles_of_rows,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = window_obstacle,
     .run = run_chunkwise,
     .iterative = true},  // without a window every token goes through all pairs
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom falcon3 = {"falcon3", forms};
}

}  // namespace assay::tile
