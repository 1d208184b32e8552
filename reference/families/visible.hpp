#pragma once
// Which keys a query sees, and the shifted softmax weights on them (lla-family.md section 0).
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/core/error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

/// `causal` masks are end-aligned: query i of n sits at position i + T - n. `window` B keeps the newest B keys; 0 means
/// all.
struct VisibleOptions {
  bool causal = true;
  bool has_window = false;
  int window = 0;

  static constexpr std::string_view names[] = {"causal", "window"};
  static std::vector<Params> variants() { return {{}, {{"window", 5L}}, {{"window", 1L}}, {{"causal", false}}}; }

  static VisibleOptions read(const Params& params) {
    VisibleOptions o;
    OptionReader read(params);
    read("causal", o.causal);
    o.has_window = params.contains("window");
    read.limit("window", o.window);
    return o;
  }
};

/// The answer of attention.
template <class S>
struct QueryReads {
  using scalar = S;
  Tensor<S, 2> o;  // [Tq, V]

  template <class Self, class F>
  static void each(Self& self, F&& f) {
    using enum Axis;
    f(Field{"o", Domain::value, {query_len, value_dim}}, self.o);
  }
};

template <class S>
void check_visible(const VisibleOptions& o, const S& h) {
  require_domain(h > S(0) && h - h == S(0), -1, "bandwidth: expected a finite number > 0");
  require_domain(!o.has_window || o.window >= 1, -1, "window: expected at least 1, got ", o.window);
  require_domain(!o.has_window || o.causal, -1, "window: needs causal = true");
}

/// The keys [first, last) that a query sees.
struct VisibleRange {
  int first = 0, last = 0;
};

/// The keys that query i of n sees, out of T.
inline VisibleRange visible_range(const VisibleOptions& o, int n, int T, int i) {
  const int last = o.causal ? std::clamp(i + T - n + 1, 0, T) : T;
  return {o.has_window ? std::max(0, last - o.window) : 0, last};
}

/// One query's scores and weights on its visible keys.
template <class S>
struct VisibleRow : VisibleRange {
  S max = S(0), sum = S(0);
  std::vector<S> scores, weights;

  const S& s(int j) const { return scores[static_cast<std::size_t>(j - first)]; }
  S p(int j) const { return weights[static_cast<std::size_t>(j - first)] / sum; }
  /// max + log(sum); -inf if the row is empty.
  S lse() const {
    using std::log;
    return first < last ? max + log(sum) : max;
  }
};

/// s_ij = q_i.k_j / h and exp(s_ij - m_i); an empty row has max = -inf and sum = 0.
template <class S>
VisibleRow<S> visible_row(const VisibleOptions& o, const Tensor<S, 2>& q, const Tensor<S, 2>& k, const S& h, int i) {
  using std::exp;
  VisibleRow<S> row{visible_range(o, q.size(0), k.size(0), i), S(0), S(0), {}, {}};
  row.max = S(-std::numeric_limits<double>::infinity());
  for (int j = row.first; j < row.last; ++j) {
    row.scores.push_back(dot(line(q, i), line(k, j)) / h);
    row.max = larger(row.max, row.scores.back());
  }
  for (const S& s : row.scores) {
    row.weights.push_back(exp(s - row.max));
    row.sum += row.weights.back();
  }
  return row;
}

}  // namespace assay
