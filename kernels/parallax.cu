// Parallax on the device: launches and instances.
#include <algorithm>

#include "kernels/cuda/split_decode.cuh"
#include "kernels/cuda/warpgroup_gradients.cuh"
#include "kernels/parallax.hpp"

namespace assay::tile {
namespace {

constexpr int stages = 2;

/// Of both forms, whose sites have the same formats: so their backward passes are the same kernels.
template <Format F>
struct TiledPolicy : StaticPolicy<parallax_covariance_sites, F> {};
template <Format F>
struct DecodePolicy : StaticPolicy<parallax_decode_sites, F> {};

/// A step of a forward pass on warpgroups: 128 keys where registers hold them, else 64.
constexpr bool takes_128_keys(int dim, bool covariance) { return dim == 64 && !covariance; }

template <Format F, int D, bool Covariance>
Answer tiled(const AttentionShape& shape, const Problem& problem, GpuTimes* times) {
  using P = TiledPolicy<F>;
  using Shapes = AttentionTiles<F>;
  using B = MmaBlock<P, Shapes::warps>;
  constexpr int rows = Shapes::rows, keys = Shapes::keys;
  const int heads = shape.heads, kv_heads = shape.kv_heads, n = shape.queries, m = shape.keys;
  const int K = shape.key_dim, V = shape.value_dim;
  const Policy policy = Policy::of(parallax_covariance_sites, F);
  const bool with_gradients = !problem.cotangents.empty();
  const auto scale = real<P>(gate_scalar(policy, "scale", log2e / shape.bandwidth));
  const ScaledOperands scaled(shape, problem.inputs, policy, scale);
  const auto q = upload<P, "Q">(scaled.inputs(), "q", heads, n, K);
  const auto rho = upload<P, "R">(scaled.inputs(), "rho", heads, n, K);
  const auto k = upload<P, "K">(scaled.inputs(), "k", kv_heads, m, K);
  const auto v = upload<P, "V">(scaled.inputs(), "v", kv_heads, m, V);
  const auto head_units = upload_units<P>(scaled);
  const auto* const units = units_in<P>(head_units);
  auto o = result<P, "out">(heads, n, V), vbar = result<P, "vbar">(heads, with_gradients ? n : 0, V);
  auto lse = result<P, "lse">(heads, n, 1), tbar = result<P, "tbar">(heads, n, 1);
  const double kv_bytes = static_cast<double>(k.bytes() + v.bytes()) / kv_heads;
  const double forward = run_timed(times, [&] {
    if constexpr (on_warpgroups<F>) {
      using W = WarpgroupBlock<P, warpgroups>;
      constexpr bool wide = takes_128_keys(D, Covariance);
      using Forward = ParallaxForward<W, 64 * warpgroups, wide ? 128 : keys, D, wide ? 2 : 4, Covariance>;
      using Smem = typename Forward::Smem;
      launch_warpgroups<Forward, W>(
          {tensor_map<decltype(Smem::Q)>(q), tensor_map<decltype(Smem::R)>(rho),
           tensor_map<std::remove_extent_t<decltype(Smem::K)>>(k),
           tensor_map<std::remove_extent_t<decltype(Smem::V)>>(v), out<W>(o), out<W>(vbar), row_out<W>(lse),
           row_out<W>(tbar), scale, shape.sees, shape.group, kv_heads, units},
          row_grid(heads, n, 64 * warpgroups, kv_bytes / shape.group));
    } else {
      launch<ParallaxForward<B, rows, keys, D, stages, Covariance>, B, 2>(
          {in<B>(q), in<B>(rho), in<B>(k), in<B>(v), out<B>(o), out<B>(vbar), row_out<B>(lse), row_out<B>(tbar), scale,
           shape.sees, shape.group, kv_heads, units},
          row_grid(heads, n, rows, kv_bytes / shape.group));
    }
  });
  if (times != nullptr) times->forward = forward;
  Answer answer{{{"o", download(o, shape.shape(heads, n, V))}}, {}};
  if (!with_gradients) return answer;
  if constexpr (F != Format::e4m3) {
    constexpr int step = parallax_key_pass_queries<rows, D>;
    const auto g = upload<P, "dO">(problem.cotangents, "o", heads, n, V);
    const auto bandwidth = real<P>(gate_scalar(policy, "bandwidth", shape.bandwidth));
    const auto inv_bandwidth = real<P>(gate_scalar(policy, "inv_bandwidth", 1 / shape.bandwidth));
    auto dq = result<P, "out">(heads, n, K), drho = result<P, "out">(heads, n, K);
    auto dk = result<P, "out">(kv_heads, m, K), dv = result<P, "out">(kv_heads, m, V);
    auto tau = result<P, "tau">(heads, n, 1), beta = result<P, "beta">(heads, n, 1), dh = result<P, "dh">(heads, n, 1);
    const double backward = run_timed(times, [&] {
      launch<ParallaxBackwardRows<B, rows, D>, B, 2>(
          {in<B>(o), in<B>(vbar), in<B>(g), row_out<B>(tau), row_out<B>(beta)}, row_grid(heads, n, rows, 0));
      if constexpr (on_warpgroups<F>) {
        using W = WarpgroupBlock<P, warpgroups>;
        using Query = OnWarpgroups<ParallaxBackwardQuery<W, 64 * warpgroups, step, D, 4>>;
        using Key = OnWarpgroups<ParallaxBackwardKey<W, step, 64 * warpgroups, D, 4>>;
        using OfQuery = typename Query::Smem;
        using OfKey = typename Key::Smem;
        launch_warpgroups<Query, W>(
            {tensor_map<decltype(OfQuery::Q)>(q), tensor_map<decltype(OfQuery::R)>(rho),
             tensor_map<std::remove_extent_t<decltype(OfQuery::K)>>(k),
             tensor_map<std::remove_extent_t<decltype(OfQuery::V)>>(v), tensor_map<decltype(OfQuery::G)>(g),
             row_in<W>(lse), row_in<W>(tbar), row_in<W>(tau), row_in<W>(beta), row_out<W>(dh), out<W>(dq), out<W>(drho),
             scale, inv_bandwidth, shape.sees, shape.group, kv_heads, units},
            row_grid(heads, n, 64 * warpgroups, kv_bytes / shape.group));
        launch_warpgroups<Key, W>(
            {tensor_map<std::remove_extent_t<decltype(OfKey::Q)>>(q),
             tensor_map<std::remove_extent_t<decltype(OfKey::R)>>(rho), tensor_map<decltype(OfKey::K)>(k),
             tensor_map<decltype(OfKey::V)>(v), tensor_map<std::remove_extent_t<decltype(OfKey::G)>>(g), row_in<W>(lse),
             row_in<W>(tbar), row_in<W>(tau), row_in<W>(beta), out<W>(dk), out<W>(dv), scale, bandwidth, inv_bandwidth,
             shape.sees, shape.group, kv_heads, units},
            row_grid(kv_heads, m, 64 * warpgroups, kv_bytes * shape.group, true));
      } else {
        using Query = ParallaxBackwardQuery<B, rows, keys, D, stages>;
        using Key = ParallaxBackwardKey<B, step, keys, D, stages>;
        launch<Query, B, 1>({in<B>(q), in<B>(rho), in<B>(k), in<B>(v), in<B>(g), row_in<B>(lse), row_in<B>(tbar),
                             row_in<B>(tau), row_in<B>(beta), row_out<B>(dh), out<B>(dq), out<B>(drho), scale,
                             inv_bandwidth, shape.sees, shape.group, kv_heads, units},
                            row_grid(heads, n, rows, kv_bytes / shape.group));
        launch<Key, B, 1>({in<B>(q), in<B>(rho), in<B>(k), in<B>(v), in<B>(g), row_in<B>(lse), row_in<B>(tbar),
                           row_in<B>(tau), row_in<B>(beta), out<B>(dk), out<B>(dv), scale, bandwidth, inv_bandwidth,
                           shape.sees, shape.group, kv_heads, units},
                          row_grid(kv_heads, m, keys, kv_bytes * shape.group, true));
      }
    });
    if (times != nullptr) times->backward = backward;
    answer.gradients = {{"q", download(dq, shape.shape(heads, n, K))},
                        {"k", download(dk, shape.shape(kv_heads, m, K))},
                        {"v", download(dv, shape.shape(kv_heads, m, V))},
                        {"rho", download(drho, shape.shape(heads, n, K))},
                        {"bandwidth", bandwidth_gradient(dh, shape.bandwidth)}};
  }
  return answer;
}

template <Format F, int D>
Answer split_decode(const AttentionShape& shape, const Problem& problem, GpuTimes* times) {
  using P = DecodePolicy<F>;
  using B = MmaBlock<P, 1>;
  using Decode = SplitDecode<P>;
  using Split = ParallaxSplit<B, decode_rows, Decode::step, D, stages>;
  using Merge = ParallaxMerge<B, decode_rows, Decode::merged, merged_at_once<F>, stages>;
  const Decode decode(shape, problem, parallax_decode_sites);
  const auto rho = upload<P, "R">(decode.scaled.inputs(), "rho", shape.kv_heads, decode.rows, shape.key_dim);
  auto o1 = decode.template parts<"Opart">(shape.value_dim), o2 = decode.template parts<"Opart">(shape.value_dim);
  auto m = decode.template parts<"m">(1), d1 = decode.template parts<"d1">(1), d2 = decode.template parts<"d2">(1);
  auto o = decode.output();
  const double forward = run_timed(times, [&] {
    launch<Split, B, 2>(
        {in<B>(decode.q), in<B>(rho), in<B>(decode.k), in<B>(decode.v), out<B>(o1), out<B>(o2), row_out<B>(m),
         row_out<B>(d1), row_out<B>(d2), decode.scale, shape.sees, decode.splits, decode.span, decode.operand_units()},
        decode.split_grid());
    launch<Merge, B, 2>({in<B>(o1), in<B>(o2), row_in<B>(m), row_in<B>(d1), row_in<B>(d2), out<B>(o), decode.splits,
                         decode.columns, decode.operand_units()},
                        decode.merge_grid());
  });
  if (times != nullptr) times->forward = forward;
  return decode.answer(o);
}

/// The form of softmax attention that a forward pass without a probe runs as (W_R = 0), or null: it is that to the bit,
/// in the same tiles, and costs no more. The tiles are softmax attention's then, and so is `tile`.
const GpuForm* without_probe(std::string_view form, const Problem& problem) {
  const std::vector<double>& rho = problem.inputs.at("rho").data;
  const bool none = problem.cotangents.empty() && std::all_of(rho.begin(), rho.end(), [](double x) { return x == 0; });
  return none ? find_gpu_form("softmax_attention", form) : nullptr;
}

Answer run_tiled(const Problem& problem, Format precision, GpuTimes* times) {
  if (const GpuForm* softmax = without_probe("tiled", problem)) return softmax->run(problem, precision, times);
  const AttentionShape shape(problem);
  return with_attention_instance(precision, shape,
                                 [&]<Format F, int D>() { return tiled<F, D, false>(shape, problem, times); });
}
Answer run_covariance(const Problem& problem, Format precision, GpuTimes* times) {
  const AttentionShape shape(problem);
  return with_instance(precision, std::max(shape.key_dim, shape.value_dim),
                       [&]<Format F, int D>() { return tiled<F, D, true>(shape, problem, times); });
}
std::string covariance_obstacle(const Problem& problem, Format precision) {
  return precision == Format::e4m3 ? "this form has no device kernel in e4m3" : attention_obstacle(problem, precision);
}
Answer run_split_decode(const Problem& problem, Format precision, GpuTimes* times) {
  if (const GpuForm* softmax = without_probe("split_decode", problem)) return softmax->run(problem, precision, times);
  const AttentionShape shape(problem);
  return with_attention_instance(precision, shape,
                                 [&]<Format F, int D>() { return split_decode<F, D>(shape, problem, times); });
}

int parallax_tile(const Problem& problem, Format precision) {
  if (const GpuForm* softmax = without_probe("tiled", problem)) return softmax->tile(problem, precision);
  const AttentionShape shape(problem);
  const bool wide = takes_128_keys(std::max(shape.key_dim, shape.value_dim), false);
  return wide && (precision == Format::bf16 || precision == Format::fp16) ? 3 : tiled_tile(problem, precision);
}

constexpr GpuForm forms[] = {{"tiled", attention_obstacle, parallax_tile, run_tiled},
                             {"split_decode", decode_obstacle, decode_tile, run_split_decode},
                             {"covariance", covariance_obstacle, tiled_tile, run_covariance}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom parallax = {"parallax", tile::forms};
}
