#pragma once
// Shared parts of the plans of the softmax rooms (kernels/host/attention_device.hpp): operands and their units, the
// order of tiles, and decoding with split keys.
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/core/attention.hpp"
#include "kernels/core/scaled_operands.hpp"
#include "kernels/programs/split_decode.hpp"

namespace assay::tile {

/// dh = -(ln 2 / h) sum_i dh_i, heads and rows ascending.
template <class Device>
Array bandwidth_gradient(const Device& device, const typename Device::Values& dh, double bandwidth) {
  using Wide = typename Device::Wide;
  return Array({},
               {static_cast<double>(-device.total(dh) / (static_cast<Wide>(log2e) * static_cast<Wide>(bandwidth)))});
}

/// Queries, keys and values with their units, and the scale of the scores. Query rows are those of `heads`, or of all
/// heads that share a key/value head.
template <class Device>
struct AttentionInputs {
  using Values = typename Device::Values;
  using Wide = typename Device::Wide;
  using Real = typename Device::Real;
  const Device& device;
  const AttentionShape& shape;
  const Problem& problem;
  const int heads, rows;
  const Wide h;
  const Real scale;  ///< log2(e) / h
  const ScaledOperands operands;
  const decltype(std::declval<const Device&>().units(std::declval<const ScaledOperands&>())) units;
  const Values q, k, v;
  const double kv_bytes;  ///< of a key/value head

  AttentionInputs(const Device& on, const AttentionShape& s, const Problem& what, int query_heads, int query_rows)
      : device(on),
        shape(s),
        problem(what),
        heads(query_heads),
        rows(query_rows),
        h(static_cast<Wide>(s.bandwidth)),
        scale(on.template positive_gate<"scale">(static_cast<Wide>(log2e) / h)),
        operands(on.scaled(s, what, scale)),
        units(on.units(operands)),
        q(of_queries<"Q">("q")),
        k(on.template input<"K">(operands.inputs(), "k", s.kv_heads, s.keys, s.key_dim)),
        v(on.template input<"V">(operands.inputs(), "v", s.kv_heads, s.keys, s.value_dim)),
        kv_bytes((on.bytes(k) + on.bytes(v)) / s.kv_heads) {}

  template <FixedString Site>
  Values of_queries(std::string_view name) const {
    return device.template input<Site>(operands.inputs(), name, heads, rows, shape.key_dim);
  }
  /// A number for each query.
  template <FixedString Site>
  Values row() const {
    return device.template result<Site>(heads, rows, 1);
  }
  /// Tiles of queries, which take longer the later they are, and of keys.
  RowOrder by_query() const { return {kv_bytes / shape.group, false}; }
  RowOrder by_key() const { return {kv_bytes * shape.group, true}; }
  /// 1 / h.
  Real inv_bandwidth() const { return device.template positive_gate<"inv_bandwidth">(1 / h); }
};

/// An array as what a pass loads tiles of: one, or those of all stages.
template <class Pass, class Tile, class Device>
auto tiles_of(const Device& device, const typename Device::Values& x) {
  return device.template tiles_of<typename Pass::Executor, std::remove_extent_t<Tile>>(x);
}

/// The arrays of a decoding problem, and the blocks of its two launches: the query rows of all heads that share a
/// key/value head, in tiles, against every split of the keys; then these tiles in blocks of columns. `Tiles`: rows of a
/// tile, keys of a step and at least of a split, columns of a block that merges, how many parts it merges at once, the
/// compiled dimension, and their executor.
template <class Tiles, class Device>
struct DecodePlan {
  using B = typename Tiles::Executor;
  using Values = typename Device::Values;
  const Device& device;
  const AttentionShape& shape;
  const AttentionInputs<Device> in;
  const int span, splits, tiles, columns;
  Values o;

  DecodePlan(const Device& on, const AttentionShape& s, const Problem& problem)
      : device(on),
        shape(s),
        in(on, s, problem, s.kv_heads, s.group * s.queries),
        span(decode_span(s.keys, Tiles::span, Tiles::step)),
        splits(imax(1, ceil_div(s.keys, span))),
        tiles(ceil_div(in.rows, Tiles::rows)),
        columns(ceil_div(s.value_dim, Tiles::merged)),
        o(on.template result<"out">(s.kv_heads, in.rows, s.value_dim)) {}

  /// The partial results that every split leaves of its rows.
  template <FixedString Site>
  Values parts(int cols) const {
    return device.template result<Site>(shape.kv_heads * splits, in.rows, cols);
  }
  template <class Split, class Merge>
  Answer run(const typename Split::Args& of_splits, const typename Merge::Args& of_parts) const {
    device.forward([&] {
      device.template launch<Split, B, 2>(0, shape.kv_heads, tiles * splits, of_splits);
      device.template launch<Merge, B, 2>(1, shape.kv_heads, tiles * columns, of_parts);
    });
    const auto values = device.values(o);
    return {{{"o", Array(axes_of(shape.head_axis, shape.heads, {shape.queries, shape.value_dim}),
                         std::vector<double>(values.begin(), values.end()))}},
            {}};
  }
};

}  // namespace assay::tile
