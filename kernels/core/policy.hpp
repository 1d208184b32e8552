#pragma once
// How the CPU executor rounds: a format for every site, one rounding mode, how many products an accumulator sums before
// it rounds; and which fault is planted.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "kernels/core/products.hpp"
#include "kernels/core/tile.hpp"
#include "reference/core/rounding.hpp"

namespace assay {

/// Statistics of the values that passed through one rounding site.
struct SiteStats {
  std::size_t roundings = 0, overflows = 0;
  double max_abs = 0, error_squared = 0, value_squared = 0;

  /// Counts x, which has become y.
  void add(double x, double y) {
    if (!std::isfinite(x)) return;
    ++roundings;
    max_abs = std::max(max_abs, std::fabs(x));
    if (!std::isfinite(y)) {
      ++overflows;
      return;
    }
    error_squared += (x - y) * (x - y);
    value_squared += x * x;
  }
};

struct Policy {
  tile::SiteTable sites;
  Rounding rounding = Rounding::nearest_even;
  std::uint64_t seed = 0;  ///< of the random rounding modes
  int products = 16;       ///< products an accumulator sums exactly before it rounds
  int threads = 0;         ///< 0: all cores; the bits do not depend on it
  std::string fault;       ///< planted; "" or a name that no program asks for: none
  std::map<std::string, SiteStats, std::less<>>* stats = nullptr;  ///< filled by a one-thread run if not null
  std::set<std::string, std::less<>>* asked = nullptr;  ///< faults the program asked for: as `fault`, and one thread

  /// Whether programs must look at every fault.
  bool plants_faults() const { return !fault.empty() || asked != nullptr; }
  /// The same without a fault.
  Policy healthy() const {
    Policy policy = *this;
    policy.fault.clear();
    return policy;
  }

  /// The policy of a precision's contract. Tensor cores sum blocks before they round; fp32 and fp64 units round always.
  static Policy of(const tile::SiteTable& sites, Format precision) {
    return {sites.contract(precision),
            Rounding::nearest_even,
            0,
            products_per_rounding(precision),
            0,
            {},
            nullptr,
            nullptr};
  }
  /// No site rounds.
  static Policy exact(const tile::SiteTable& sites) { return of(sites, Format::exact); }
};

}  // namespace assay
