#include "kernels/parallax.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <type_traits>

#include "kernels/core/attention.hpp"
#include "kernels/core/kernel_room.hpp"

namespace assay::tile {
namespace {

constexpr int stages = 2, decode_rows = 16;
constexpr long double log2e = 1.442695040888963407359924681001892137L;

/// dh = -(ln 2 / h) sum_i dh_i, summed in T, heads and rows ascending.
template <class T>
Array bandwidth_gradient(const HostArray<T>& dh, T h) {
  T sum = 0;
  for (const T& row : dh.data) sum += row;
  return Array({}, {static_cast<double>(-sum / (static_cast<T>(log2e) * h))});
}

// ---- covariance ----
// As the streaming pass of parallax.hpp, with t - c_i for t, about an origin c_i that follows the mean of t over the
// keys so far: a step to c' = c + r leaves d2 - r d1 and O2 - r O1, and at the end
//   tbar = c + d2 / d1,  o = O1 / d1 (1 + d2 / d1) - O2 / d1
// An offset of the keys is in c alone. It has no launch on a device.

/// ParallaxForward about a moving origin.
template <ExecutorTypes B, int BM, int BN, int D, int ST>
struct ParallaxCovariance {
  using Real = typename B::Real;
  using Args = typename ParallaxForward<B, BM, BN, D, ST>::Args;
  using Smem = typename ParallaxForward<B, BM, BN, D, ST>::Smem;

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int head, int q0) {
    const Visibility sees = parallax_visibility(b, a.sees);
    const Real scale = b.planted("exp2_without_log2e"_s, a.scale, a.scale * Real{0.6931471805599453});
    const int kv = b.planted("kv_head_modulo"_s, head / a.group, head % a.kv_heads);
    const int j0 = sees.first_key(q0) / BN + b.planted("first_tile_skipped"_s, 0, head == 0 && q0 > 0);
    auto O1 = b.acc("O1"_s, Shape<BM, D>{});
    auto O2 = b.acc("O2"_s, Shape<BM, D>{});
    auto m = b.row("m"_s, Shape<BM>{}, -INFINITY);
    auto d1 = b.partial("d1"_s, Shape<BM>{});
    auto mass = b.row("d1"_s, Shape<BM>{}, 0);
    auto d2 = b.row("d2"_s, Shape<BM>{}, 0);
    auto origin = b.row("tbar"_s, Shape<BM>{}, 0);
    const auto one = b.row("alpha"_s, Shape<BM>{}, 1);
    const auto zero = b.row("alpha"_s, Shape<BM>{}, 0);
    const auto top = [&](auto m0, auto s1) { return maxi(m0, s1 * scale); };
    const auto finite = [](auto y) { return y > -INFINITY ? y : 0; };  // no key seen yet, or ever: 0
    const auto rescaling = [](auto from, auto to) { return ex2(from - to); };
    const auto weight = [&](auto y, auto m1) { return ex2(y * scale - m1); };
    const auto inverse = [](auto y) { return y > 0 ? 1 / y : 0; };
    const auto log_sum = [](auto sum, auto m0) { return m0 + lg2(sum); };
    const auto product = [](auto y0, auto y1) { return y0 * y1; };
    const auto sum = [](auto y0, auto y1) { return y0 + y1; };
    const auto difference = [](auto y0, auto y1) { return y0 - y1; };
    const auto carried = [](auto now, auto old, auto alpha) { return now + alpha * old; };
    const auto follow = [](auto c, auto moment, auto all) { return all > 0 ? c + moment / all : c; };
    const auto without = [](auto moment, auto weights, auto step) { return moment - step * weights; };
    const auto one_more = [](auto mean, auto y) { return (1 + mean) * y; };
    const auto row_sum = [&](const auto& x) {
      auto all = b.partial("d2"_s, Shape<BM>{});
      all.fold(one, x);
      return all.total();
    };

    b.load(s.Q, a.q, head, q0);
    b.load(s.R, a.rho, head, q0);
    b.pipeline(
        Shape<ST>{}, imax(0, ceil_div(sees.last_key(q0 + BM), BN) - j0),
        [&](int j, int st) {
          b.load(s.K[st], a.k, kv, (j0 + j) * BN);
          b.load(s.V[st], a.v, kv, (j0 + j) * BN);
        },
        [&](int j, int st) {
          const int k0 = (j0 + j) * BN;
          auto [S, T] = b.abt("S"_s, "T"_s, s.Q, s.R, s.K[st]);
          if (!sees.all(q0, q0 + BM, k0, k0 + BN))
            S.mask([&](int r, int c) { return sees(q0 + r, k0 + c); }, -INFINITY);
          const auto mx = b.rows("m"_s, top, m, S.row_max());
          const auto shift = b.rows("m"_s, finite, mx);
          const auto alpha = b.rows("alpha"_s, rescaling, m, shift);
          S.map("p"_s, weight, shift);
          d1.fold(alpha, S);
          const auto all = d1.total();
          T.map("T"_s, difference, origin);
          auto moments = T;
          moments.zip("pt"_s, product, S);
          const auto moved =
              b.rows("tbar"_s, follow, origin, b.rows("d2"_s, carried, row_sum(moments), d2, alpha), all);
          const auto step = b.rows("step"_s, difference, moved, origin);
          T.map("T"_s, difference, step);
          T.zip("pt"_s, product, S);  // P2 = P1 (t - c)
          d2 = b.rows("d2"_s, carried, row_sum(T), b.rows("d2"_s, without, d2, mass, step),
                      b.planted("d2_not_rescaled"_s, alpha, one));
          O2.zip("O2"_s, without, O1, b.planted("o2_keeps_its_origin"_s, step, zero));
          O1.scale(alpha);
          O2.scale(b.planted("o2_not_rescaled"_s, alpha, one));
          b.mma(O1, b.cast("P1"_s, S), O2, b.cast("P2"_s, T), s.V[st]);
          mass = all;
          origin = moved;
          m = mx;
        });
    const auto inv = b.rows("inv"_s, inverse, mass);
    const auto left = b.rows("tbar"_s, product, d2, inv);
    b.store_row("lse"_s, a.lse, head, q0, b.rows("lse"_s, log_sum, mass, m));
    b.store_row("tbar"_s, a.tbar, head, q0,
                b.planted("tbar_without_origin"_s, b.rows("tbar"_s, sum, origin, left), left));
    if (a.vbar.p != nullptr) {
      auto vbar = O1;
      vbar.scale(inv);
      b.store("vbar"_s, a.vbar, head, q0, vbar);
    }
    O1.scale(b.rows("c1"_s, one_more, left, inv));
    O2.scale(inv);
    O1.zip("o"_s, difference, O2);
    b.store("out"_s, a.o, head, q0, O1);
  }
};

constexpr SiteTable::Init parallax_origin_roles[] = {{"step", Role::gate}};
constexpr SiteTable parallax_covariance_sites = parallax_tiled_sites.with(parallax_origin_roles);

// ---- launches ----

template <class T, int BM, int BN, int D, bool Covariance>
Answer tiled(const AttentionShape& shape, const Problem& problem, const Policy& policy) {
  using B = HostBlock<T>;
  using Forward =
      std::conditional_t<Covariance, ParallaxCovariance<B, BM, BN, D, stages>, ParallaxForward<B, BM, BN, D, stages>>;
  const int heads = shape.heads, kv_heads = shape.kv_heads, queries = shape.queries, keys = shape.keys;
  const int K = shape.key_dim, V = shape.value_dim;
  const auto q = shape.input<T>(problem.inputs, "q", heads, queries, K);
  const auto rho = shape.input<T>(problem.inputs, "rho", heads, queries, K);
  const auto k = shape.input<T>(problem.inputs, "k", kv_heads, keys, K);
  const auto v = shape.input<T>(problem.inputs, "v", kv_heads, keys, V);
  const bool backward = !problem.cotangents.empty();
  const T h = static_cast<T>(shape.bandwidth);
  const T scale = gate_scalar<T>(policy, "scale", static_cast<T>(log2e) / h);
  auto o = shape.output<T>(heads, queries, V), vbar = o;
  auto lse = shape.rows<T>(), tbar = lse;
  launch_tiles<Forward, T>(launch_policy(policy, 0),
                           {q.in(), rho.in(), k.in(), v.in(), o.out(), backward ? vbar.out() : typename B::Out{},
                            lse.row_out(), tbar.row_out(), scale, shape.sees, shape.group, kv_heads},
                           heads, queries, BM);
  Answer answer{{{"o", o.array()}}, {}};
  if (!backward) return answer;

  using Query = ParallaxBackwardQuery<B, BM, BN, D, stages>;
  using Key = ParallaxBackwardKey<B, BM, BN, D, stages>;
  const auto g = shape.input<T>(problem.cotangents, "o", heads, queries, V);
  const T bandwidth = gate_scalar<T>(policy, "bandwidth", h);
  const T inv_bandwidth = gate_scalar<T>(policy, "inv_bandwidth", 1 / h);
  auto dq = shape.output<T>(heads, queries, K), drho = dq;
  auto dk = shape.output<T>(kv_heads, keys, K), dv = shape.output<T>(kv_heads, keys, V);
  auto tau = shape.rows<T>(), beta = tau, dh = tau;
  launch_tiles<Query, T>(
      launch_policy(policy, 1),
      {q.in(), rho.in(), k.in(), v.in(), o.in(), vbar.in(), g.in(), lse.row_in(), tbar.row_in(), tau.row_out(),
       beta.row_out(), dh.row_out(), dq.out(), drho.out(), scale, inv_bandwidth, shape.sees, shape.group, kv_heads},
      heads, queries, BM);
  launch_tiles<Key, T>(
      launch_policy(policy, 2),
      {q.in(), rho.in(), k.in(), v.in(), g.in(), lse.row_in(), tbar.row_in(), tau.row_in(), beta.row_in(), dk.out(),
       dv.out(), scale, bandwidth, inv_bandwidth, shape.sees, shape.group, kv_heads},
      kv_heads, keys, BN);
  answer.gradients = {{"q", dq.array()},
                      {"k", dk.array()},
                      {"v", dv.array()},
                      {"rho", drho.array()},
                      {"bandwidth", bandwidth_gradient(dh, h)}};
  return answer;
}

/// The faults that are a format: P1 and P2 stored in fp8, scores rounded to bf16 before the exponential.
Policy with_narrow_sites(Policy policy) {
  const SiteTable healthy = policy.sites;
  const SiteTable narrow = healthy.with("P1", Format::e4m3).with("P2", Format::e4m3);
  policy.sites = Faults::choose(policy, "p_in_fp8"_s, healthy, narrow);
  policy.sites = Faults::choose(policy, "scores_in_bf16"_s, policy.sites, healthy.with("S", Format::bf16));
  return policy;
}

template <bool Covariance>
Answer run_tiled(const Problem& problem, const Policy& contract, int tile) {
  const AttentionShape shape(problem);
  const Policy policy = with_narrow_sites(contract);
  return with_scalar_and_head_dim(policy, shape, [&]<class T, int D>() {
    if (tile == 1) return tiled<T, 32, 32, D, Covariance>(shape, problem, policy);
    if (tile == 2) return tiled<T, 16, 16, D, Covariance>(shape, problem, policy);
    return tiled<T, 64, 64, D, Covariance>(shape, problem, policy);
  });
}

template <class T, int BN, int least_span, int D>
Answer split_decode(const AttentionShape& shape, const Problem& problem, const Policy& policy) {
  constexpr int BM = decode_rows;
  using B = HostBlock<T>;
  using Split = ParallaxSplit<B, BM, BN, D, stages>;
  constexpr int merged = D < 32 ? D : 32;
  using Merge = ParallaxMerge<B, BM, merged, 8, stages>;
  const int kv_heads = shape.kv_heads, rows = shape.group * shape.queries, keys = shape.keys;
  const int span = decode_span(keys, least_span, BN), columns = ceil_div(shape.value_dim, merged);
  const int tiles = ceil_div(rows, BM), splits = std::max(1, ceil_div(keys, span));
  const auto q = shape.input<T>(problem.inputs, "q", kv_heads, rows, shape.key_dim);
  const auto rho = shape.input<T>(problem.inputs, "rho", kv_heads, rows, shape.key_dim);
  const auto k = shape.input<T>(problem.inputs, "k", kv_heads, keys, shape.key_dim);
  const auto v = shape.input<T>(problem.inputs, "v", kv_heads, keys, shape.value_dim);
  const T scale = gate_scalar<T>(policy, "scale", static_cast<T>(log2e) / static_cast<T>(shape.bandwidth));
  auto o1 = shape.output<T>(kv_heads * splits, rows, shape.value_dim), o2 = o1;
  auto m = shape.output<T>(kv_heads * splits, rows, 1), d1 = m, d2 = m;
  host_launch<Split, T>(launch_policy(policy, 0),
                        {q.in(), rho.in(), k.in(), v.in(), o1.out(), o2.out(), m.row_out(), d1.row_out(), d2.row_out(),
                         scale, shape.sees, splits, span},
                        kv_heads * tiles * splits,
                        [=](int i) { return std::pair(i / (tiles * splits), i % (tiles * splits)); });
  HostArray<T> o(kv_heads, rows, shape.value_dim, shape.shape(shape.heads, shape.queries, shape.value_dim));
  host_launch<Merge, T>(
      launch_policy(policy, 1), {o1.in(), o2.in(), m.row_in(), d1.row_in(), d2.row_in(), o.out(), splits, columns},
      kv_heads * tiles * columns, [=](int i) { return std::pair(i / (tiles * columns), i % (tiles * columns)); });
  return {{{"o", o.array()}}, {}};
}

Answer run_split_decode(const Problem& problem, const Policy& policy, int tile) {
  const AttentionShape shape(problem);
  return with_scalar_and_head_dim(policy, shape, [&]<class T, int D>() {
    if (tile == 1) return split_decode<T, 32, 64, D>(shape, problem, policy);
    if (tile == 2) return split_decode<T, 16, 16, D>(shape, problem, policy);
    return split_decode<T, 64, 256, D>(shape, problem, policy);
  });
}

std::string split_decode_obstacle(const Problem& problem) {
  const int queries = AttentionShape(problem).queries;
  if (queries > decode_rows) return text("decoding takes at most ", decode_rows, " queries, got ", queries);
  return head_dim_obstacle(problem);
}

constexpr std::string_view tiled_tiles[] = {"64x64", "32x32", "16x16"};
constexpr std::string_view split_decode_tiles[] = {"16x64/256", "16x32/64", "16x16/16"};  // keys of one split last

constexpr Mutant tiled_mutants[] = {
    {"mask_one_key_less", "causal mask one key too few, in every pass", "cudnn-frontend#1075 review"},
    {"window_dropped", "the window is ignored, in every pass", "catalogue"},
    {"exp2_without_log2e", "forward: base-2 exponentials of scores in base e", "common"},
    {"kv_head_modulo", "query head a reads key/value head a mod Hkv instead of a div group", "fla#1029"},
    {"first_tile_skipped", "the first key tile is skipped for late rows of one head", "catalogue"},
    {"d2_not_rescaled", "d2 not rescaled when the maximum moves", "catalogue"},
    {"o2_not_rescaled", "O2 not rescaled when the maximum moves", "catalogue"},
    {"mean_term_dropped", "o = O1 / d1 - O2 / d1: the factor 1 + tbar is missing", "catalogue"},
    {"p_in_fp8", "P1 and P2 stored in fp8 e4m3", "cudnn-frontend#971 (inverse)"},
    {"scores_in_bf16", "S rounded to bf16 before the exponential", "catalogue"},
    {"tbar_other_origin", "backward: tbar about q_i where t is about 0", "catalogue"},
    {"d_without_beta", "backward: a - beta is a in D, in the query pass", "FA#2481"},
    {"dq_without_scale", "backward: dq not divided by the bandwidth", "GQA"},
    {"drho_sign", "backward: drho has the other sign", "rocm-libraries#11003"},
    {"dk_without_probe", "backward: dk lacks the term E rho", "fla#1142, #1140"},
    {"dv_without_probe", "backward: dv weighted by p, as in softmax attention", "fla#1142, #1140"},
    {"dk_one_head_of_group", "backward: dk and dv of the first query head of the group only", "GQA"},
};
/// Those of the tiled form but one: in o this form's mean is what rounding leaves.
constexpr auto covariance_mutants = [] {
  std::array<Mutant, std::size(tiled_mutants) + 1> all{};
  std::copy(std::begin(tiled_mutants), std::end(tiled_mutants), all.begin());
  *std::find_if(all.begin(), all.end(), [](const Mutant& m) { return m.name == "mean_term_dropped"; }) = {
      "o2_keeps_its_origin", "O2 of the keys so far not moved with the origin", "catalogue"};
  all.back() = {"tbar_without_origin", "the backward's tbar is d2 / d1, about the last origin", "catalogue"};
  return all;
}();
constexpr Mutant split_decode_mutants[] = {
    {"mask_one_key_more", "causal mask one key too many", "mlir-air#1427, imp#1304"},
    {"window_one_wider", "window W taken as W + 1", "Parallax docstring against code"},
    {"scale_twice", "the scores' scale applied twice", "TE#2300 class"},
    {"tail_tile_dropped", "the last, ragged key tile is not visited", "catalogue"},
    {"merge_without_rescale", "partial results added as they are, not in units of the common maximum", "catalogue"},
    {"d2_not_rescaled", "the merged d2 not rescaled when the maximum moves", "catalogue"},
    {"o2_not_rescaled", "the merged O2 not rescaled when the maximum moves", "catalogue"},
    {"mean_term_dropped", "o = O1 / d1 - O2 / d1: the factor 1 + tbar is missing", "catalogue"},
};

constexpr KernelForm forms[] = {
    {"tiled", "one block per query tile, streaming state over key tiles; backward in two passes", parallax_tiled_sites,
     tiled_tiles, tiled_mutants, true, head_dim_obstacle, run_tiled<false>},
    {"split_decode", "few queries, the keys split over blocks, partial results merged", parallax_decode_sites,
     split_decode_tiles, split_decode_mutants, false, split_decode_obstacle, run_split_decode},
    {"covariance", "the tiled form about an origin of t that follows its mean: no offset of the keys cancels",
     parallax_covariance_sites, tiled_tiles, covariance_mutants, true, head_dim_obstacle, run_tiled<true>},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom parallax = {"parallax", forms};
}

}  // namespace assay::tile
