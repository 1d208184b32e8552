#pragma once
// Softmax attention's launches, planned once for every device (kernels/host/attention_device.hpp).
#include "kernels/attention/softmax_attention.hpp"
#include "kernels/plans/scores.hpp"

namespace assay::tile {

/// The gradients of the tiled form, from what its forward pass has kept. The first backward pass is over tiles of
/// queries, the second over tiles of keys.
template <class Tiles, class Device, class Launch>
Arrays softmax_gradients(const AttentionInputs<Device>& in, const typename Device::Values& o,
                         const typename Device::Values& lse, const Launch& scores) {
  using ByQuery = typename Tiles::Query;
  using ByKey = typename Tiles::Key;
  using OnQueries = typename ByQuery::Executor;
  using OnKeys = typename ByKey::Executor;
  using Query =
      typename ByQuery::template Program<SoftmaxBackwardQuery<OnQueries, ByQuery::rows, ByQuery::keys, Tiles::dim,
                                                              ByQuery::stages, typename Launch::Scores>>;
  using Key = typename ByKey::template Program<
      SoftmaxBackwardKey<OnKeys, ByKey::rows, ByKey::keys, Tiles::dim, ByKey::stages, typename Launch::Scores>>;
  using OfQuery = typename Query::Smem;
  using OfKey = typename Key::Smem;
  const Device& device = in.device;
  const AttentionShape& shape = in.shape;
  const int heads = shape.heads, kv_heads = shape.kv_heads, n = shape.queries, m = shape.keys;
  const int K = shape.key_dim, V = shape.value_dim;
  const auto g = device.template input<"dO">(in.problem.cotangents, "o", heads, n, V);
  const auto slope = scores.slope(in);
  auto dq = device.template result<"out">(heads, n, K), dk = device.template result<"out">(kv_heads, m, K),
       dv = device.template result<"out">(kv_heads, m, V);
  auto delta = in.template row<"delta">(), dh = in.template row<"dh">();
  device.backward([&] {
    device.template launch_rows<Query, OnQueries, ByQuery::min_blocks>(
        1, heads, n, ByQuery::rows, in.by_query(),
        {tiles_of<ByQuery, decltype(OfQuery::Q)>(device, in.q), tiles_of<ByQuery, decltype(OfQuery::K)>(device, in.k),
         tiles_of<ByQuery, decltype(OfQuery::V)>(device, in.v), tiles_of<ByQuery, decltype(OfQuery::O)>(device, o),
         tiles_of<ByQuery, decltype(OfQuery::G)>(device, g), lse.row_in(), delta.row_out(), dh.row_out(), dq.out(),
         in.scale, slope, scores.sees(shape), shape.group, kv_heads, in.units.data(),
         scores.template of_queries<OnQueries>()});
    device.template launch_rows<Key, OnKeys, ByKey::min_blocks>(
        2, kv_heads, m, ByKey::keys, in.by_key(),
        {tiles_of<ByKey, decltype(OfKey::Q)>(device, in.q), tiles_of<ByKey, decltype(OfKey::K)>(device, in.k),
         tiles_of<ByKey, decltype(OfKey::V)>(device, in.v), tiles_of<ByKey, decltype(OfKey::G)>(device, g),
         lse.row_in(), delta.row_in(), dk.out(), dv.out(), in.scale, slope, scores.sees(shape), shape.group, kv_heads,
         in.units.data(), scores.template of_keys<OnKeys>()});
  });
  Arrays gradients = {
      {"q", device.array_of(dq, {n, K})}, {"k", device.array_of(dk, {m, K})}, {"v", device.array_of(dv, {m, V})}};
  scores.add_gradients(in, dh, gradients);
  return gradients;
}

/// `Tiles` has its passes: the executor of each, and how many rows, keys and stages it has. `scores`: their changes.
template <class Tiles, class Device, class Launch = PlainLaunch>
Answer softmax_tiled_plan(const Device& device, const AttentionShape& shape, const Problem& problem,
                          const Launch& scores = {}) {
  using Pass = typename Tiles::Forward;
  using B = typename Pass::Executor;
  using Forward = SoftmaxForward<B, Pass::rows, Pass::keys, Tiles::dim, Pass::stages, typename Launch::Scores>;
  using Smem = typename Forward::Smem;
  const int heads = shape.heads, n = shape.queries, V = shape.value_dim;
  const AttentionInputs<Device> in(device, shape, problem, heads, n);
  auto o = device.template result<"out">(heads, n, V), lse = in.template row<"lse">();
  device.forward([&] {
    device.template launch_rows<Forward, B, Pass::min_blocks>(
        0, heads, n, Pass::rows, in.by_query(),
        {tiles_of<Pass, decltype(Smem::Q)>(device, in.q), tiles_of<Pass, decltype(Smem::K)>(device, in.k),
         tiles_of<Pass, decltype(Smem::V)>(device, in.v), o.out(), lse.row_out(), in.scale, scores.sees(shape),
         shape.group, shape.kv_heads, in.units.data(), scores.template of_queries<B>()});
  });
  Answer answer{{{"o", device.array_of(o, {n, V})}}, {}};
  scores.add_outputs(answer);
  if constexpr (Tiles::has_gradients)
    if (!problem.cotangents.empty()) answer.gradients = softmax_gradients<Tiles>(in, o, lse, scores);
  return answer;
}

template <class Tiles, class Device, class Launch = PlainLaunch>
Answer softmax_decode_plan(const Device& device, const AttentionShape& shape, const Problem& problem,
                           const Launch& scores = {}) {
  using B = typename Tiles::Executor;
  using Split = SoftmaxSplit<B, Tiles::rows, Tiles::step, Tiles::dim, Tiles::stages, typename Launch::Scores>;
  using Merge =
      SoftmaxMerge<B, Tiles::rows, Tiles::merged, Tiles::merged_at_once, Tiles::stages, typename Launch::Scores>;
  DecodePlan<Tiles, Device> decode(device, shape, problem);
  const AttentionInputs<Device>& in = decode.in;
  auto part = decode.template parts<"Opart">(shape.value_dim), m = decode.template parts<"m">(1),
       l = decode.template parts<"l">(1);
  Answer answer = decode.template run<Split, Merge>(
      {in.q.in(), in.k.in(), in.v.in(), part.out(), m.row_out(), l.row_out(), in.scale, scores.sees(shape),
       decode.splits, decode.span, in.units.data(), scores.template of_queries<B>()},
      {part.in(), m.row_in(), l.row_in(), decode.o.out(), decode.splits, decode.columns, in.units.data(),
       scores.template of_queries<B>()});
  scores.add_outputs(answer);
  return answer;
}

}  // namespace assay::tile
