#pragma once
// What decoding with split keys launches on the device.
#include "kernels/cuda/attention.cuh"
#include "kernels/programs/split_decode.hpp"

namespace assay::tile {

/// The arrays of a decoding problem in the formats of P, and the grids of its two launches: the query rows of all heads
/// that share a key/value head, in tiles, against every split of the keys; then these tiles in blocks of columns.
template <class P>
struct SplitDecode {
  using Tiles = AttentionTiles<P::precision>;
  static constexpr int step = Tiles::decode_keys, merged = 16;  // keys to a step, columns of a block that merges

  const AttentionShape& shape;
  int rows, span, splits, tiles, columns;
  typename P::Real scale;
  ScaledOperands scaled;
  DeviceArray q, k, v, units;

  SplitDecode(const AttentionShape& s, const Problem& problem, const SiteTable& sites)
      : SplitDecode(s, problem, Policy::of(sites, P::precision)) {}

  /// What every split leaves of its rows, at site S.
  template <FixedString S>
  DeviceArray parts(int cols) const {
    return result<P, S>(shape.kv_heads * splits, rows, cols);
  }
  DeviceArray output() const { return result<P, "out">(shape.kv_heads, rows, shape.value_dim); }
  Answer answer(const DeviceArray& o) const {
    return {{{"o", download(o, shape.shape(shape.heads, shape.queries, shape.value_dim))}}, {}};
  }
  const auto* operand_units() const { return units_in<P>(units); }
  BlockGrid split_grid() const { return {shape.kv_heads, tiles * splits}; }
  BlockGrid merge_grid() const { return {shape.kv_heads, tiles * columns}; }

 private:
  SplitDecode(const AttentionShape& s, const Problem& problem, const Policy& policy)
      : shape(s),
        rows(s.group * s.queries),
        span(decode_span(s.keys, Tiles::decode_span, step)),
        splits(std::max(1, ceil_div(s.keys, span))),
        tiles(ceil_div(rows, decode_rows)),
        columns(ceil_div(s.value_dim, merged)),
        scale(real<P>(gate_scalar(policy, "scale", log2e / s.bandwidth))),
        scaled(s, problem.inputs, policy, scale),
        q(upload<P, "Q">(scaled.inputs(), "q", s.kv_heads, rows, s.key_dim)),
        k(upload<P, "K">(scaled.inputs(), "k", s.kv_heads, s.keys, s.key_dim)),
        v(upload<P, "V">(scaled.inputs(), "v", s.kv_heads, s.keys, s.value_dim)),
        units(upload_units<P>(scaled)) {}
};

}  // namespace assay::tile
