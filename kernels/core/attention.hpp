#pragma once
// Shared launch code of the softmax rooms, on the host: how a problem's heads lie in memory, scalars that
// round at a gate site, grids, and the choice of a compiled shape. No formula of any room is here.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/tile.hpp"
#include "kernels/host/host_launch.hpp"
#include "reference/core/parse_number.hpp"
#include "reference/core/problem.hpp"

namespace assay::tile {

/// The number that a parameter is, or that its digits spell; `missing` where there is none.
template <class T>
T number_param(const Params& params, std::string_view name, T missing) {
  const auto found = params.find(name);
  if (found == params.end()) return missing;
  if (const long* count = std::get_if<long>(&found->second)) return static_cast<T>(*count);
  std::string_view digits = std::get<std::string>(found->second);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  return parse_number<T>(digits).value_or(missing);
}

inline constexpr int max_head_dim = 128;

/// Heads and lengths of a problem that has passed its room's door: q [T queries][K], k [T][K], v [T][V], each with or
/// without a head axis. Query head a reads key/value head a / group. An array without elements may lack its last axes.
struct AttentionShape {
  bool head_axis;
  int heads = 1, kv_heads = 1, group = 1, queries = 0, keys = 0, key_dim = 0, value_dim = 0;
  double bandwidth = 0;
  Visibility sees;

  explicit AttentionShape(const Problem& problem) {
    const Array &q = problem.inputs.at("q"), &k = problem.inputs.at("k"), &v = problem.inputs.at("v");
    const bool any_heads = q.shape.size() == 3 || k.shape.size() == 3 || v.shape.size() == 3;
    const std::size_t lead = any_heads ? 1 : 0;
    const auto extent = [lead](const Array& a, std::size_t axis) {
      return lead + axis < a.shape.size() ? a.shape[lead + axis] : 0;
    };
    head_axis = any_heads;
    if (any_heads) heads = q.shape[0], kv_heads = k.shape[0];
    group = heads / kv_heads;
    queries = extent(q, 0), keys = std::max(extent(k, 0), extent(v, 0));
    key_dim = std::max(extent(q, 1), extent(k, 1)), value_dim = extent(v, 1);
    if (const auto o = problem.cotangents.find("o"); o != problem.cotangents.end())
      value_dim = std::max(value_dim, extent(o->second, 1));
    bandwidth = number_param(problem.params, "bandwidth", bandwidth);
    bool causal = true;
    int window = 0;
    OptionReader read(problem.params);
    read("causal", causal), read.limit("window", window);
    // A window of as many keys as there are is none, and has room to add to.
    sees = {queries, keys, imin(window, imax(1, keys)), causal};
  }
};

/// Why the compiled head dimensions cannot hold this problem, or "".
inline std::string head_dim_obstacle(const Problem& problem) {
  const AttentionShape shape(problem);
  const int d = std::max(shape.key_dim, shape.value_dim);
  return d <= max_head_dim ? "" : text("K and V are compiled in up to ", max_head_dim, ", got ", d);
}

/// The policy of one launch of several: its own random bits.
inline Policy launch_policy(const Policy& policy, std::uint64_t launch) {
  Policy p = policy;
  p.seed = RandomBits{policy.seed}.at(~launch);
  return p;
}

/// A host-side scalar that enters the kernel at a gate site: computed in T and rounded there. It stays above zero, or
/// the product with a masked score of -inf would be NaN where a bandwidth is beyond the format's range.
template <class T>
T gate_scalar(const Policy& policy, std::string_view site, T x) {
  HostBlock<T>(policy, ~0ULL).round(site, &x, 1);
  return std::max(x, static_cast<T>(info(policy.sites.at(site)).min_positive));
}

/// Bytes that the blocks of a head read in common, so that a device keeps them near, and which tiles take longest.
struct RowOrder {
  double shared_bytes = 0;
  bool first_is_longest = false;
};

inline constexpr long double log2e = 1.442695040888963407359924681001892137L;

/// Whether the emulated accumulators are as wide as a double, so that blocks must hold more than that.
inline bool wants_long_double(const Policy& policy) {
  for (int i = 0; i < policy.sites.size; ++i) {
    const SiteTable::Entry& site = policy.sites.entries[i];
    if (site.role == Role::accumulator && site.format != Format::exact && site.format != Format::fp64) return false;
  }
  return true;
}

/// The smallest head dimension of tiles that holds so many columns.
inline int head_dim(int columns) { return columns <= 16 ? 16 : columns <= 64 ? 64 : max_head_dim; }

/// Calls f.template operator()<T, D>() with the scalar that the policy needs and a head dimension,
template <class F>
Answer with_scalar_and_dim(const Policy& policy, int dim, F f) {
  const WithSizes sizes(WithSizes::Named{run_time::dim, dim});
  return wants_long_double(policy) ? f.template operator()<long double, run_time::dim>()
                                   : f.template operator()<double, run_time::dim>();
}
/// the smallest that holds K and V.
template <class F>
Answer with_scalar_and_head_dim(const Policy& policy, const AttentionShape& shape, F f) {
  return with_scalar_and_dim(policy, head_dim(std::max(shape.key_dim, shape.value_dim)), f);
}

}  // namespace assay::tile
