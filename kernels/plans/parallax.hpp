#pragma once
// Parallax's launches, planned once for every device (kernels/host/attention_device.hpp).
#include "kernels/attention/parallax.hpp"
#include "kernels/plans/scores.hpp"

namespace assay::tile {

/// The rows that a forward pass keeps for a backward one.
template <class Values>
struct ParallaxRows {
  Values rho, o, vbar, lse, tbar;
};

/// The gradients of the tiled forms: what they need of o, a pass over tiles of queries and one over tiles of keys.
template <class Tiles, class Device, class Launch>
Arrays parallax_gradients(const AttentionInputs<Device>& in, const ParallaxRows<typename Device::Values>& kept,
                          const Launch& scores) {
  using ByRow = typename Tiles::Rows;
  using ByQuery = typename Tiles::Query;
  using ByKey = typename Tiles::Key;
  using OnRows = typename ByRow::Executor;
  using OnQueries = typename ByQuery::Executor;
  using OnKeys = typename ByKey::Executor;
  using Rows = ParallaxBackwardRows<OnRows, ByRow::rows, Tiles::dim, typename Launch::Scores>;
  using Query =
      typename ByQuery::template Program<ParallaxBackwardQuery<OnQueries, ByQuery::rows, ByQuery::keys, Tiles::dim,
                                                               ByQuery::stages, typename Launch::Scores>>;
  using Key = typename ByKey::template Program<
      ParallaxBackwardKey<OnKeys, parallax_key_pass_queries<ByKey::rows, Tiles::dim>, ByKey::keys, Tiles::dim,
                          ByKey::stages, typename Launch::Scores>>;
  using OfQuery = typename Query::Smem;
  using OfKey = typename Key::Smem;
  const Device& device = in.device;
  const AttentionShape& shape = in.shape;
  const int heads = shape.heads, kv_heads = shape.kv_heads, n = shape.queries, m = shape.keys;
  const int K = shape.key_dim, V = shape.value_dim;
  const auto g = device.template input<"dO">(in.problem.cotangents, "o", heads, n, V);
  const auto bandwidth = scores.bandwidth(in), slope = scores.slope(in);
  auto dq = device.template result<"out">(heads, n, K), drho = device.template result<"out">(heads, n, K),
       dk = device.template result<"out">(kv_heads, m, K), dv = device.template result<"out">(kv_heads, m, V);
  auto tau = in.template row<"tau">(), beta = in.template row<"beta">(), dh = in.template row<"dh">();
  device.backward([&] {
    device.template launch_rows<Rows, OnRows, ByRow::min_blocks>(
        1, heads, n, ByRow::rows, {},
        {kept.o.in(), kept.vbar.in(), g.in(), tau.row_out(), beta.row_out(), scores.template of_queries<OnRows>()});
    device.template launch_rows<Query, OnQueries, ByQuery::min_blocks>(
        2, heads, n, ByQuery::rows, in.by_query(),
        {tiles_of<ByQuery, decltype(OfQuery::Q)>(device, in.q),
         tiles_of<ByQuery, decltype(OfQuery::R)>(device, kept.rho),
         tiles_of<ByQuery, decltype(OfQuery::K)>(device, in.k), tiles_of<ByQuery, decltype(OfQuery::V)>(device, in.v),
         tiles_of<ByQuery, decltype(OfQuery::G)>(device, g), kept.lse.row_in(), kept.tbar.row_in(), tau.row_in(),
         beta.row_in(), dh.row_out(), dq.out(), drho.out(), in.scale, slope, scores.sees(shape), shape.group, kv_heads,
         in.units.data(), scores.template of_queries<OnQueries>()});
    device.template launch_rows<Key, OnKeys, ByKey::min_blocks>(
        3, kv_heads, m, ByKey::keys, in.by_key(),
        {tiles_of<ByKey, decltype(OfKey::Q)>(device, in.q), tiles_of<ByKey, decltype(OfKey::R)>(device, kept.rho),
         tiles_of<ByKey, decltype(OfKey::K)>(device, in.k), tiles_of<ByKey, decltype(OfKey::V)>(device, in.v),
         tiles_of<ByKey, decltype(OfKey::G)>(device, g), kept.lse.row_in(), kept.tbar.row_in(), tau.row_in(),
         beta.row_in(), dk.out(), dv.out(), in.scale, bandwidth, slope, scores.sees(shape), shape.group, kv_heads,
         in.units.data(), scores.template of_keys<OnKeys>()});
  });
  Arrays gradients = {{"q", device.array_of(dq, {n, K})},
                      {"k", device.array_of(dk, {m, K})},
                      {"v", device.array_of(dv, {m, V})},
                      {"rho", device.array_of(drho, {n, K})}};
  scores.add_gradients(in, dh, gradients);
  return gradients;
}

/// `Tiles` has its passes: the executor of each, and how many rows, keys and stages it has. `Covariance`: about an
/// origin of t that follows its mean.
template <class Tiles, bool Covariance, class Device, class Launch = PlainLaunch>
Answer parallax_tiled_plan(const Device& device, const AttentionShape& shape, const Problem& problem,
                           const Launch& scores = {}) {
  using Pass = typename Tiles::Forward;
  using B = typename Pass::Executor;
  using Forward =
      ParallaxForward<B, Pass::rows, Pass::keys, Tiles::dim, Pass::stages, Covariance, typename Launch::Scores>;
  using Smem = typename Forward::Smem;
  const int heads = shape.heads, n = shape.queries, V = shape.value_dim;
  const bool with_gradients = !problem.cotangents.empty();
  const AttentionInputs<Device> in(device, shape, problem, heads, n);
  ParallaxRows<typename Device::Values> kept{in.template of_queries<"R">("rho"),
                                             device.template result<"out">(heads, n, V),
                                             device.template result<"vbar">(heads, with_gradients ? n : 0, V),
                                             in.template row<"lse">(), in.template row<"tbar">()};
  device.forward([&] {
    device.template launch_rows<Forward, B, Pass::min_blocks>(
        0, heads, n, Pass::rows, in.by_query(),
        {tiles_of<Pass, decltype(Smem::Q)>(device, in.q), tiles_of<Pass, decltype(Smem::R)>(device, kept.rho),
         tiles_of<Pass, decltype(Smem::K)>(device, in.k), tiles_of<Pass, decltype(Smem::V)>(device, in.v), kept.o.out(),
         kept.vbar.out(with_gradients), kept.lse.row_out(), kept.tbar.row_out(), in.scale, scores.sees(shape),
         shape.group, shape.kv_heads, in.units.data(), scores.template of_queries<B>()});
  });
  Answer answer{{{"o", device.array_of(kept.o, {n, V})}}, {}};
  scores.add_outputs(answer);
  if constexpr (Tiles::has_gradients)
    if (with_gradients) answer.gradients = parallax_gradients<Tiles>(in, kept, scores);
  return answer;
}

template <class Tiles, class Device, class Launch = PlainLaunch>
Answer parallax_decode_plan(const Device& device, const AttentionShape& shape, const Problem& problem,
                            const Launch& scores = {}) {
  using B = typename Tiles::Executor;
  using Split = ParallaxSplit<B, Tiles::rows, Tiles::step, Tiles::dim, Tiles::stages, typename Launch::Scores>;
  using Merge =
      ParallaxMerge<B, Tiles::rows, Tiles::merged, Tiles::merged_at_once, Tiles::stages, typename Launch::Scores>;
  DecodePlan<Tiles, Device> decode(device, shape, problem);
  const AttentionInputs<Device>& in = decode.in;
  const auto rho = in.template of_queries<"R">("rho");
  auto o1 = decode.template parts<"Opart">(shape.value_dim), o2 = decode.template parts<"Opart">(shape.value_dim);
  auto m = decode.template parts<"m">(1), d1 = decode.template parts<"d1">(1), d2 = decode.template parts<"d2">(1);
  Answer answer = decode.template run<Split, Merge>(
      {in.q.in(), rho.in(), in.k.in(), in.v.in(), o1.out(), o2.out(), m.row_out(), d1.row_out(), d2.row_out(), in.scale,
       scores.sees(shape), decode.splits, decode.span, in.units.data(), scores.template of_queries<B>()},
      {o1.in(), o2.in(), m.row_in(), d1.row_in(), d2.row_in(), decode.o.out(), decode.splits, decode.columns,
       in.units.data(), scores.template of_queries<B>()});
  scores.add_outputs(answer);
  return answer;
}

}  // namespace assay::tile
