#pragma once
// Value averaging's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/launches/uniform_shape.hpp"
#include "kernels/uniform/value_averaging.hpp"

namespace assay::tile {

/// `Tiles`: tokens of a chunk, value columns of a block, and its executor.
template <class Tiles, class Device>
Answer value_averaging_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  using B = typename Tiles::Executor;
  constexpr Size C = Tiles::tokens, D = Tiles::values;
  const int heads = shape.heads, len = shape.len, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, D);
  const auto v = device.template input<"V">(problem.inputs, "v", heads, len, V);
  const auto counts = device.template array<"count">(1, chunks * C, 1, token_counts<double>(chunks, C));
  const auto of_chunks = [&] { return device.template result<"S">(heads * chunks, 1, V); };
  auto sums = of_chunks(), carried = of_chunks();
  auto o = device.template result<"out">(heads, len, V);
  device.forward([&] {
    device.template launch<TokenSums<B, C, D, false>, B>(0, heads, chunks * blocks,
                                                         {v.in(), counts.row_in(), sums.out(), chunks, blocks});
    device.template launch<SumPass<B, D, false>, B>(1, heads, blocks,
                                                    {device.vectors_in(sums), device.vectors_out(carried), chunks});
    device.template launch<MeanReads<B, C, D>, B>(
        2, heads, chunks * blocks, {v.in(), device.vectors_in(carried), counts.row_in(), o.out(), chunks, blocks});
  });
  Answer answer{{{"o", device.array_of(o, {len, V})}}, {}};
  if (problem.cotangents.empty()) return answer;

  const auto o_cotangent = device.template input<"dO">(problem.cotangents, "o", heads, len, V);
  auto later_sums = of_chunks(), later = of_chunks();
  auto dv = device.template result<"out">(heads, len, V);
  device.backward([&] {
    device.template launch<TokenSums<B, C, D, true>, B>(
        3, heads, chunks * blocks, {o_cotangent.in(), counts.row_in(), later_sums.out(), chunks, blocks});
    device.template launch<SumPass<B, D, true>, B>(4, heads, blocks,
                                                   {device.vectors_in(later_sums), device.vectors_out(later), chunks});
    device.template launch<MeanGradients<B, C, D>, B>(
        5, heads, chunks * blocks,
        {o_cotangent.in(), device.vectors_in(later), counts.row_in(), dv.out(), chunks, blocks});
  });
  answer.gradients = {{"v", device.array_of(dv, {len, V})}};
  return answer;
}

}  // namespace assay::tile
