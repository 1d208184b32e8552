#pragma once
// The base of HostBlock's verbs: every value is rounded at a named site as the policy says, and shared tiles remember
// who touched them since the last barrier.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/core/faults.hpp"
#include "kernels/core/policy.hpp"
#include "kernels/core/tile.hpp"
#include "kernels/host/host_math.hpp"
#include "reference/core/blocks.hpp"

namespace assay::tile {

/// A race, an early read or a missing barrier in a tile program.
struct HazardError : std::logic_error {
  using std::logic_error::logic_error;
};

inline void round_values(double* p, std::size_t n, Format f, Rounding mode, RandomBits& random) {
  if (mode == Rounding::nearest_even)
    round_span(p, n, f);
  else
    round_span(p, n, f, mode, random);
}
void round_values(long double* p, std::size_t n, Format f, Rounding mode, RandomBits& random);

/// c += a b for [rows][depth] and [depth][cols], every product added and rounded to fp64 on its own, as round_values
/// would but with one rounding. Returns false, and does nothing, unless all elements are doubles.
bool add_products_in_fp64(long double* c, const long double* a, const long double* b, int rows, int depth, int cols,
                          Rounding mode, RandomBits& random);

constexpr std::size_t idx(int i) { return static_cast<std::size_t>(i); }

template <class T>
class HostRounding {
 public:
  using Real = T;
  static constexpr int lanes = 4;  // threads that share a row of an accumulator on the device
  struct In {
    const T* p;
    int rows, cols;
  };
  struct RowIn {
    const T* p;
    int rows;
    bool logs = true;  ///< of decays: logs of them, not the decays themselves
  };
  struct RowOut {
    T* p;
    int rows;
  };
  struct Out {
    T* p;
    int rows, cols;
  };

  /// `item` numbers the block within its launch: the random rounding modes depend on it, not on the thread.
  HostRounding(const Policy& policy, std::uint64_t item)
      : policy_(policy), random_{RandomBits{policy.seed}.at(item), 0}, plants_(policy.plants_faults()) {}

  /// The healthy value, unless that fault is planted.
  template <class St, class A>
  [[gnu::always_inline]] A planted(St site, A healthy, std::type_identity_t<A> broken) const {
    return plants_ ? chosen(policy_, site, healthy, broken) : healthy;
  }

  /// The units of a head's operands.
  template <class St, class Units>
  Units units(St, const Units* p, int head) const {
    return p[head];
  }

  Format format_of(std::string_view site) const { return policy_.sites.at(site); }
  void round(std::string_view site, T* p, std::size_t n) { round_as(site, format_of(site), p, n); }
  void round_as(std::string_view site, Format f, T* p, std::size_t n) {
    if (policy_.stats != nullptr) return round_counted((*policy_.stats)[std::string(site)], f, p, n);
    if (f != Format::exact) round_values(p, n, f, policy_.rounding, random_);
  }
  /// What a kernel loads. Arrays whose sites have blocks are rounded before (ScaledOperands).
  void round_loaded(std::string_view site, T* p, std::size_t n) {
    const SiteTable::Entry& entry = policy_.sites.entry(site);
    if (!entry.by_blocks()) round_as(site, entry.format, p, n);
  }
  /// A left factor [rows][cols]: what is summed over are columns.
  void round_factor(std::string_view site, T* p, int rows, int cols) {
    const SiteTable::Entry& entry = policy_.sites.entry(site);
    if (entry.by_blocks())
      round_in_blocks(entry, p, idx(rows), idx(cols));
    else
      round_as(site, entry.format, p, idx(rows * cols));
  }

  // ---- what a collective operation does with shared tiles
  void sync() { ++epoch_; }
  template <class... Tl>
  void reads(Tl&... tiles) const {
    (tiles.on_read(epoch_), ...);
  }
  template <class... Tl>
  void writes(Tl&... tiles) const {
    (tiles.on_write(epoch_), ...);
  }
  template <class... Tl>
  void updates(Tl&... tiles) const {
    (tiles.on_update(epoch_), ...);
  }
  /// Reads it if it is shared.
  template <class X>
  void touch(X& x) const {
    if constexpr (requires { x.on_read(0L); }) x.on_read(epoch_);
  }

  template <class Tl>
  static T* row_of(Tl& t, int r) {
    return &t.v[idx(r * Tl::cols)];
  }

 protected:
  static std::size_t at(int head, int rows, int row) { return idx(head) * idx(rows) + idx(row); }
  static T gate(const RowIn& g, int head, int row) { return row < g.rows ? g.p[at(head, g.rows, row)] : T(0); }

  Policy policy_;
  RandomBits random_;
  bool plants_;
  long epoch_ = 0;

 private:
  void round_counted(SiteStats& s, Format f, T* p, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const double x = static_cast<double>(p[i]);
      if (f != Format::exact) round_values(p + i, 1, f, policy_.rounding, random_);
      s.add(x, static_cast<double>(p[i]));
    }
  }
  void round_in_blocks(const SiteTable::Entry& site, T* p, std::size_t rows, std::size_t cols) {
    std::vector<double> x(p, p + rows * cols);
    round_by_blocks(x.data(), rows, cols, {site.format, site.blocks}, policy_.rounding, random_);
    if (policy_.stats != nullptr) {
      SiteStats& stats = (*policy_.stats)[std::string(site.view())];
      for (std::size_t i = 0; i < x.size(); ++i) stats.add(static_cast<double>(p[i]), x[i]);
    }
    std::copy(x.begin(), x.end(), p);
  }
};

}  // namespace assay::tile
