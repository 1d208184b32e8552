#pragma once
// Shared launch code of the recurrences, on the host: how a problem's heads lie in memory, and the choice of a
// compiled size. No formula of any room is here.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/attention.hpp"
#include "kernels/core/tile.hpp"
#include "kernels/host/host_launch.hpp"
#include "reference/core/problem.hpp"

namespace assay::tile {

/// Heads and lengths of a problem that has passed its room's door: q, k [T][K], v [T][V], state [K][V], gates [T], each
/// with or without a head axis. Value head h reads the query and key head h / group. Arrays without elements may lack
/// their last axes.
struct RecurrenceShape {
  bool head_axis;
  int heads = 1, shared_heads = 1, group = 1, len = 0, key_dim = 0, value_dim = 0;

  explicit RecurrenceShape(const Problem& problem) {
    const auto rank_is = [&](std::string_view name, std::size_t rank) {
      const auto it = problem.inputs.find(name);
      return it != problem.inputs.end() && it->second.shape.size() == rank;
    };
    // A beta of two axes is one of every head, or one of every channel where gates of tokens have one axis.
    const bool gates_of_heads = rank_is("beta", 2) && !rank_is("lambda", 1);
    head_axis = rank_is("v", 3) || rank_is("k", 3) || rank_is("initial_state", 3) || gates_of_heads;
    len = problem.inputs.at("v").shape[head_axis ? 1 : 0];
    if (head_axis)
      heads = problem.inputs.at("v").shape[0], shared_heads = problem.inputs.at("q").shape[0],
      group = heads / shared_heads;
    const auto widen = [&](int& dim, const Arrays& arrays, std::string_view name, std::size_t axis) {
      const auto it = arrays.find(name);
      if (it == arrays.end()) return;
      axis += head_axis ? 1 : 0;
      if (axis < it->second.shape.size()) dim = std::max(dim, it->second.shape[axis]);
    };
    widen(key_dim, problem.inputs, "q", 1), widen(key_dim, problem.inputs, "k", 1);
    widen(value_dim, problem.inputs, "v", 1), widen(value_dim, problem.cotangents, "o", 1);
    for (const std::string_view state : {"initial_state", "initial_momentum"})
      widen(key_dim, problem.inputs, state, 0), widen(value_dim, problem.inputs, state, 1);
    for (const std::string_view state : {"final_state", "final_momentum"})
      widen(key_dim, problem.cotangents, state, 0), widen(value_dim, problem.cotangents, state, 1);
  }
};

/// The faults of a recurrence that are a format: the state kept in bf16,
inline Policy with_narrow_state(Policy policy) {
  const SiteTable& healthy = policy.sites;
  policy.sites = chosen(policy, "state_in_bf16"_s, healthy, healthy.with("S", Format::bf16));
  return policy;
}
/// or, of a delta rule, the triangular inverse.
inline Policy with_narrow_sites(Policy policy) {
  policy = with_narrow_state(policy);
  const SiteTable& healthy = policy.sites;
  policy.sites = chosen(policy, "inverse_in_bf16"_s, healthy, healthy.with("T", Format::bf16));
  return policy;
}

/// Keys of a problem with arguments have up to so many channels.
inline constexpr int widest_keys = 256;
/// The smallest dimension of tiles that holds keys.
inline int key_dim(int keys) { return keys <= max_head_dim ? head_dim(keys) : widest_keys; }

/// Why the compiled key dimensions cannot hold this problem, or "". Any value dimension is cut into blocks.
inline std::string key_dim_obstacle(const Problem& problem) {
  const int d = RecurrenceShape(problem).key_dim;
  return d <= max_head_dim ? "" : text("K is compiled in up to ", max_head_dim, ", got ", d);
}

/// Tokens of a chunk and the dimension that the programs of a problem run at.
struct ChunkSize {
  int tokens, dim;
};
/// A chunk of shape `tile` (64, 32 or 16) and the smallest compiled dimension that holds K and, up to the largest, V.
inline ChunkSize chunk_size(const RecurrenceShape& shape, int tile) {
  const int d = std::max(shape.key_dim, std::min(shape.value_dim, max_head_dim));
  return {tile == 1 ? 32 : tile == 2 ? 16 : 64, key_dim(d)};
}
/// Calls f.template operator()<C, D>() with the sizes of a run.
template <class F>
auto with_size(ChunkSize size, F f) {
  const WithSizes sizes(WithSizes::Named{run_time::tokens, size.tokens}, WithSizes::Named{run_time::dim, size.dim});
  return f.template operator()<run_time::tokens, run_time::dim>();
}
/// So many rows by tile shape, 32 or 16, and the smallest dimension that holds `dim`.
template <class F>
auto with_rows(int dim, int tile, F f) {
  return with_size({tile == 0 ? 32 : 16, head_dim(dim)}, f);
}
/// Calls f.template operator()<T>() with the scalar that the policy needs.
template <class F>
Answer with_scalar(const Policy& policy, F f) {
  return wants_long_double(policy) ? f.template operator()<long double>() : f.template operator()<double>();
}
/// Both.
template <class F>
Answer with_chunk(const RecurrenceShape& shape, const Policy& policy, int tile, F f) {
  return with_scalar(policy, [&]<class T>() {
    return with_size(chunk_size(shape, tile), [&]<Size C, Size D>() { return f.template operator()<T, C, D>(); });
  });
}

inline constexpr std::string_view chunk_tiles[] = {"64", "32", "16"};

}  // namespace assay::tile
