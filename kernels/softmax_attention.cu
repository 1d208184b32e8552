// Softmax attention on the device: launches and instances.
#include "kernels/cuda/split_decode.cuh"
#include "kernels/cuda/warpgroup_gradients.cuh"
#include "kernels/softmax_attention.hpp"

namespace assay::tile {
namespace {

constexpr int stages = 2;

template <Format F>
struct TiledPolicy : StaticPolicy<softmax_tiled_sites, F> {};
template <Format F>
struct DecodePolicy : StaticPolicy<softmax_decode_sites, F> {};

template <Format F, int D>
Answer tiled(const AttentionShape& shape, const Problem& problem, GpuTimes* times) {
  using P = TiledPolicy<F>;
  using Shapes = AttentionTiles<F>;
  using B = MmaBlock<P, Shapes::warps>;
  constexpr int rows = Shapes::rows, keys = Shapes::keys;
  const int heads = shape.heads, kv_heads = shape.kv_heads, n = shape.queries, m = shape.keys;
  const int K = shape.key_dim, V = shape.value_dim;
  const Policy policy = Policy::of(softmax_tiled_sites, F);
  const auto scale = real<P>(gate_scalar(policy, "scale", log2e / shape.bandwidth));
  const ScaledOperands scaled(shape, problem.inputs, policy, scale);
  const auto q = upload<P, "Q">(scaled.inputs(), "q", heads, n, K);
  const auto k = upload<P, "K">(scaled.inputs(), "k", kv_heads, m, K);
  const auto v = upload<P, "V">(scaled.inputs(), "v", kv_heads, m, V);
  const auto head_units = upload_units<P>(scaled);
  const auto* const units = units_in<P>(head_units);
  auto o = result<P, "out">(heads, n, V), lse = result<P, "lse">(heads, n, 1);
  const double kv_bytes = static_cast<double>(k.bytes() + v.bytes()) / kv_heads;
  const double forward = run_timed(times, [&] {
    if constexpr (on_warpgroups<F>) {
      using W = WarpgroupBlock<P, warpgroups>;
      using Forward = SoftmaxForward<W, 64 * warpgroups, 128, D, D == 64 ? 4 : 2>;
      using Smem = typename Forward::Smem;
      launch_warpgroups<Forward, W>(
          {tensor_map<decltype(Smem::Q)>(q), tensor_map<std::remove_extent_t<decltype(Smem::K)>>(k),
           tensor_map<std::remove_extent_t<decltype(Smem::V)>>(v), out<W>(o), row_out<W>(lse), scale, shape.sees,
           shape.group, kv_heads, units},
          row_grid(heads, n, 64 * warpgroups, kv_bytes / shape.group));
    } else {
      launch<SoftmaxForward<B, rows, keys, D, stages>, B, 2>(
          {in<B>(q), in<B>(k), in<B>(v), out<B>(o), row_out<B>(lse), scale, shape.sees, shape.group, kv_heads, units},
          row_grid(heads, n, rows, kv_bytes / shape.group));
    }
  });
  if (times != nullptr) times->forward = forward;
  Answer answer{{{"o", download(o, shape.shape(heads, n, V))}}, {}};
  if (problem.cotangents.empty()) return answer;
  if constexpr (F != Format::e4m3) {
    const auto g = upload<P, "dO">(problem.cotangents, "o", heads, n, V);
    const auto inv_bandwidth = real<P>(gate_scalar(policy, "inv_bandwidth", 1 / shape.bandwidth));
    auto dq = result<P, "out">(heads, n, K), dk = result<P, "out">(kv_heads, m, K),
         dv = result<P, "out">(kv_heads, m, V);
    auto delta = result<P, "delta">(heads, n, 1), dh = result<P, "dh">(heads, n, 1);
    const double backward = run_timed(times, [&] {
      if constexpr (on_warpgroups<F>) {
        using W = WarpgroupBlock<P, warpgroups>;
        using Query = OnWarpgroups<SoftmaxBackwardQuery<W, 64 * warpgroups, keys, D, stages>>;
        using Key = OnWarpgroups<SoftmaxBackwardKey<W, rows, 64 * warpgroups, D, 4>>;
        using OfQuery = typename Query::Smem;
        using OfKey = typename Key::Smem;
        launch_warpgroups<Query, W>(
            {tensor_map<decltype(OfQuery::Q)>(q), tensor_map<std::remove_extent_t<decltype(OfQuery::K)>>(k),
             tensor_map<std::remove_extent_t<decltype(OfQuery::V)>>(v), tensor_map<decltype(OfQuery::O)>(o),
             tensor_map<decltype(OfQuery::G)>(g), row_in<W>(lse), row_out<W>(delta), row_out<W>(dh), out<W>(dq), scale,
             inv_bandwidth, shape.sees, shape.group, kv_heads, units},
            row_grid(heads, n, 64 * warpgroups, kv_bytes / shape.group));
        launch_warpgroups<Key, W>(
            {tensor_map<std::remove_extent_t<decltype(OfKey::Q)>>(q), tensor_map<decltype(OfKey::K)>(k),
             tensor_map<decltype(OfKey::V)>(v), tensor_map<std::remove_extent_t<decltype(OfKey::G)>>(g), row_in<W>(lse),
             row_in<W>(delta), out<W>(dk), out<W>(dv), scale, inv_bandwidth, shape.sees, shape.group, kv_heads, units},
            row_grid(kv_heads, m, 64 * warpgroups, kv_bytes * shape.group, true));
      } else {
        using Query = SoftmaxBackwardQuery<B, rows, keys, D, stages>;
        using Key = SoftmaxBackwardKey<B, rows, keys, D, stages>;
        launch<Query, B, 2>(
            {in<B>(q), in<B>(k), in<B>(v), in<B>(o), in<B>(g), row_in<B>(lse), row_out<B>(delta), row_out<B>(dh),
             out<B>(dq), scale, inv_bandwidth, shape.sees, shape.group, kv_heads, units},
            row_grid(heads, n, rows, kv_bytes / shape.group));
        launch<Key, B, 2>({in<B>(q), in<B>(k), in<B>(v), in<B>(g), row_in<B>(lse), row_in<B>(delta), out<B>(dk),
                           out<B>(dv), scale, inv_bandwidth, shape.sees, shape.group, kv_heads, units},
                          row_grid(kv_heads, m, keys, kv_bytes * shape.group, true));
      }
    });
    if (times != nullptr) times->backward = backward;
    answer.gradients = {{"q", download(dq, shape.shape(heads, n, K))},
                        {"k", download(dk, shape.shape(kv_heads, m, K))},
                        {"v", download(dv, shape.shape(kv_heads, m, V))},
                        {"bandwidth", bandwidth_gradient(dh, shape.bandwidth)}};
  }
  return answer;
}

template <Format F, int D>
Answer split_decode(const AttentionShape& shape, const Problem& problem, GpuTimes* times) {
  using P = DecodePolicy<F>;
  using B = MmaBlock<P, 1>;
  using Decode = SplitDecode<P>;
  using Split = SoftmaxSplit<B, decode_rows, Decode::step, D, stages>;
  using Merge = SoftmaxMerge<B, decode_rows, Decode::merged, merged_at_once<F>, stages>;
  const Decode decode(shape, problem, softmax_decode_sites);
  auto part = decode.template parts<"Opart">(shape.value_dim), m = decode.template parts<"m">(1),
       l = decode.template parts<"l">(1), o = decode.output();
  const double forward = run_timed(times, [&] {
    launch<Split, B, 2>({in<B>(decode.q), in<B>(decode.k), in<B>(decode.v), out<B>(part), row_out<B>(m), row_out<B>(l),
                         decode.scale, shape.sees, decode.splits, decode.span, decode.operand_units()},
                        decode.split_grid());
    launch<Merge, B, 2>(
        {in<B>(part), row_in<B>(m), row_in<B>(l), out<B>(o), decode.splits, decode.columns, decode.operand_units()},
        decode.merge_grid());
  });
  if (times != nullptr) times->forward = forward;
  return decode.answer(o);
}

Answer run_tiled(const Problem& problem, Format precision, GpuTimes* times) {
  const AttentionShape shape(problem);
  return with_attention_instance(precision, shape,
                                 [&]<Format F, int D>() { return tiled<F, D>(shape, problem, times); });
}
Answer run_split_decode(const Problem& problem, Format precision, GpuTimes* times) {
  const AttentionShape shape(problem);
  return with_attention_instance(precision, shape,
                                 [&]<Format F, int D>() { return split_decode<F, D>(shape, problem, times); });
}

/// Forward passes on warpgroups take 128 keys to a step.
int softmax_tile(const Problem& problem, Format precision) {
  return precision == Format::bf16 || precision == Format::fp16 ? 3 : tiled_tile(problem, precision);
}

constexpr GpuForm forms[] = {{"tiled", attention_obstacle, softmax_tile, run_tiled},
                             {"split_decode", decode_obstacle, decode_tile, run_split_decode}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom softmax_attention = {"softmax_attention", tile::forms};
}
