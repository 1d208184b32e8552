#include "kernels/softmax_attention.hpp"

#include "kernels/core/attention.hpp"
#include "kernels/core/kernel_room.hpp"
#include "kernels/core/scaled_operands.hpp"

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

/// BF: keys of a forward tile; BN: of a backward one.
template <class T, int BM, int BF, int BN, int D>
Answer tiled(const AttentionShape& shape, const Problem& problem, const Policy& policy) {
  using B = HostBlock<T>;
  using Forward = SoftmaxForward<B, BM, BF, D, stages>;
  const int heads = shape.heads, kv_heads = shape.kv_heads, queries = shape.queries, keys = shape.keys;
  const int K = shape.key_dim, V = shape.value_dim;
  const T h = static_cast<T>(shape.bandwidth);
  const T scale = gate_scalar<T>(policy, "scale", static_cast<T>(log2e) / h);
  const ScaledOperands scaled(shape, problem.inputs, policy, static_cast<double>(scale));
  const auto units = scaled.units<T>(policy);
  const auto q = shape.input<T>(scaled.inputs(), "q", heads, queries, K);
  const auto k = shape.input<T>(scaled.inputs(), "k", kv_heads, keys, K);
  const auto v = shape.input<T>(scaled.inputs(), "v", kv_heads, keys, V);
  auto o = shape.output<T>(heads, queries, V);
  auto lse = shape.rows<T>();
  launch_tiles<Forward, T>(
      launch_policy(policy, 0),
      {q.in(), k.in(), v.in(), o.out(), lse.row_out(), scale, shape.sees, shape.group, kv_heads, units.data()}, heads,
      queries, BM);
  Answer answer{{{"o", o.array()}}, {}};
  if (problem.cotangents.empty()) return answer;

  using Query = SoftmaxBackwardQuery<B, BM, BN, D, stages>;
  using Key = SoftmaxBackwardKey<B, BM, BN, D, stages>;
  const auto g = shape.input<T>(problem.cotangents, "o", heads, queries, V);
  const T inv_bandwidth = gate_scalar<T>(policy, "inv_bandwidth", 1 / h);
  auto dq = shape.output<T>(heads, queries, K), dk = shape.output<T>(kv_heads, keys, K);
  auto dv = shape.output<T>(kv_heads, keys, V);
  auto delta = shape.rows<T>(), dh = shape.rows<T>();
  launch_tiles<Query, T>(launch_policy(policy, 1),
                         {q.in(), k.in(), v.in(), o.in(), g.in(), lse.row_in(), delta.row_out(), dh.row_out(), dq.out(),
                          scale, inv_bandwidth, shape.sees, shape.group, kv_heads, units.data()},
                         heads, queries, BM);
  launch_tiles<Key, T>(launch_policy(policy, 2),
                       {q.in(), k.in(), v.in(), g.in(), lse.row_in(), delta.row_in(), dk.out(), dv.out(), scale,
                        inv_bandwidth, shape.sees, shape.group, kv_heads, units.data()},
                       kv_heads, keys, BN);
  answer.gradients = {
      {"q", dq.array()}, {"k", dk.array()}, {"v", dv.array()}, {"bandwidth", bandwidth_gradient(dh, h)}};
  return answer;
}

/// The faults that are a format: P stored in fp8, l accumulated in bf16.
Policy with_narrow_sites(Policy policy) {
  const SiteTable healthy = policy.sites;
  policy.sites = Faults::choose(policy, "p_in_fp8"_s, healthy, healthy.with("P", Format::e4m3));
  policy.sites = Faults::choose(policy, "denominator_in_bf16"_s, policy.sites, healthy.with("l", Format::bf16));
  return policy;
}

/// A window of as many keys as there are is none, and has room to add to.
AttentionShape shape_of(const Problem& problem) {
  AttentionShape shape(problem);
  shape.sees.window = imin(shape.sees.window, imax(1, shape.keys));
  return shape;
}

Answer run_tiled(const Problem& problem, const Policy& contract, int tile) {
  const AttentionShape shape = shape_of(problem);
  const Policy policy = with_narrow_sites(contract);
  return with_scalar_and_head_dim(policy, shape, [&]<class T, int D>() {
    if (tile == 1) return tiled<T, 32, 32, 32, D>(shape, problem, policy);
    if (tile == 2) return tiled<T, 16, 16, 16, D>(shape, problem, policy);
    if (tile == 3) return tiled<T, 64, 128, 64, D>(shape, problem, policy);
    return tiled<T, 64, 64, 64, D>(shape, problem, policy);
  });
}

template <class T, int BN, int least_span, int D>
Answer split_decode(const AttentionShape& shape, const Problem& problem, const Policy& policy) {
  constexpr int BM = decode_rows;
  using B = HostBlock<T>;
  using Split = SoftmaxSplit<B, BM, BN, D, stages>;
  constexpr int merged = D < 32 ? D : 32;
  using Merge = SoftmaxMerge<B, BM, merged, 8, stages>;
  const int kv_heads = shape.kv_heads, rows = shape.group * shape.queries, keys = shape.keys;
  const int span = decode_span(keys, least_span, BN), columns = ceil_div(shape.value_dim, merged);
  const int tiles = ceil_div(rows, BM), splits = std::max(1, ceil_div(keys, span));
  const T scale = gate_scalar<T>(policy, "scale", static_cast<T>(log2e) / static_cast<T>(shape.bandwidth));
  const ScaledOperands scaled(shape, problem.inputs, policy, static_cast<double>(scale));
  const auto units = scaled.units<T>(policy);
  const auto q = shape.input<T>(scaled.inputs(), "q", kv_heads, rows, shape.key_dim);
  const auto k = shape.input<T>(scaled.inputs(), "k", kv_heads, keys, shape.key_dim);
  const auto v = shape.input<T>(scaled.inputs(), "v", kv_heads, keys, shape.value_dim);
  auto part = shape.output<T>(kv_heads * splits, rows, shape.value_dim);
  auto m = shape.output<T>(kv_heads * splits, rows, 1), l = m;
  host_launch<Split, T>(
      launch_policy(policy, 0),
      {q.in(), k.in(), v.in(), part.out(), m.row_out(), l.row_out(), scale, shape.sees, splits, span, units.data()},
      kv_heads * tiles * splits, [=](int i) { return std::pair(i / (tiles * splits), i % (tiles * splits)); });
  HostArray<T> o(kv_heads, rows, shape.value_dim, shape.shape(shape.heads, shape.queries, shape.value_dim));
  host_launch<Merge, T>(
      launch_policy(policy, 1), {part.in(), m.row_in(), l.row_in(), o.out(), splits, columns, units.data()},
      kv_heads * tiles * columns, [=](int i) { return std::pair(i / (tiles * columns), i % (tiles * columns)); });
  return {{{"o", o.array()}}, {}};
}

Answer run_split_decode(const Problem& problem, const Policy& policy, int tile) {
  const AttentionShape shape = shape_of(problem);
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

constexpr std::string_view tiled_tiles[] = {"64x64", "32x32", "16x16", "64x128"};  // the last one backward: 64x64
constexpr std::string_view split_decode_tiles[] = {"16x64/256", "16x32/64", "16x16/16"};  // keys of one split last

constexpr Mutant tiled_mutants[] = {
    {"mask_one_key_more", "causal mask one key too many, in every pass", "mlir-air#1427, imp#1304"},
    {"window_one_wider", "window W taken as W + 1, in every pass", "Parallax docstring against code"},
    {"scale_twice", "the scores' scale applied twice in the forward", "TE#2300 class"},
    {"kv_head_modulo", "query head a reads key/value head a mod Hkv instead of a div group", "fla#1029"},
    {"tail_tile_dropped", "the last, ragged key tile is not visited", "catalogue"},
    {"stale_max", "the running maximum stays where the first tile left it", "catalogue"},
    {"denominator_not_rescaled", "l not rescaled when the maximum moves", "catalogue"},
    {"accumulator_not_rescaled", "O not rescaled when the maximum moves", "catalogue"},
    {"p_in_fp8", "P stored in fp8 e4m3", "cudnn-frontend#971 (inverse)"},
    {"denominator_in_bf16", "l accumulated in bf16", "catalogue"},
    {"scale_of_other_head", "fp8: the units of the next key/value head", "FA3 descale strides"},
    {"p_scale_not_undone", "fp8: o keeps the factor by which P fills the format", "FA3 Max_offset"},
    {"delta_omitted", "backward: D = p (a - delta) with delta = 0 in the query pass", "FA#2481"},
    {"dq_without_scale", "backward: dq not divided by the bandwidth", "GQA"},
    {"dk_one_head_of_group", "backward: dk and dv of the first query head of the group only", "GQA"},
};
constexpr Mutant split_decode_mutants[] = {
    {"mask_one_key_less", "causal mask one key too few", "cudnn-frontend#1075 review"},
    {"window_dropped", "the window is ignored", "catalogue"},
    {"exp2_without_log2e", "base-2 exponentials of scores in base e", "common"},
    {"split_one_tile_longer", "a split reads one tile into the next, whose keys count twice", "cu_seqlens class"},
    {"last_split_dropped", "the merge leaves out the last split", "fla#671, TE#2986"},
    {"merge_without_rescale", "the merged O not rescaled when the maximum moves", "catalogue"},
    {"denominator_not_rescaled", "the merged l not rescaled when the maximum moves", "catalogue"},
    {"descale_dropped", "fp8: the merge leaves o in units of V", "FA3 v_descale"},
};

constexpr KernelForm forms[] = {
    {"tiled", "one block per query tile, online softmax over key tiles; backward in two passes", softmax_tiled_sites,
     tiled_tiles, tiled_mutants, true, head_dim_obstacle, run_tiled},
    {"split_decode", "few queries, the keys split over blocks, partial results merged", softmax_decode_sites,
     split_decode_tiles, split_decode_mutants, false, split_decode_obstacle, run_split_decode},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom softmax_attention = {"softmax_attention", forms};
}

}  // namespace assay::tile
