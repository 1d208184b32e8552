#pragma once
// What FALCON-3 and 3A need of a window that forgets nothing: sums over all pairs so far, one pair more at every step,
// where their references go through all pairs again.
#include <type_traits>

#include "reference/core/columns.hpp"
#include "reference/core/falcon.hpp"
#include "reference/core/lines.hpp"
#include "reference/core/tensor.hpp"

namespace assay {

/// Write feature j of some pairs, or its gradient.
template <class In>
auto feature_line(const Pairs<In>& pairs, int j, int key_dim) {
  using S = std::remove_reference_t<decltype(pairs.x(j, 0))>;
  return Line<S>{&pairs.x(j, 0), 1, key_dim};
}

/// Of pairs 0 ... count - 1.
template <class S>
struct PairSums {
  int count = 0;
  S energy = S(0);  ///< |x|^2
  Columns<S> xv;    ///< x v^T [K, V]
  Tensor<S, 2> xx;  ///< x x^T [K, K]; empty where nobody asks for it

  /// Of the tail that comes in.
  template <class In>
  PairSums(const Pairs<In>& pairs, int key_dim, int value_dim, bool with_xx)
      : xv(key_dim, value_dim), xx(with_xx ? Tensor<S, 2>(key_dim, key_dim) : Tensor<S, 2>()) {
    while (count < pairs.tail()) add(pairs);
  }

  /// One pair more.
  template <class In>
  void add(const Pairs<In>& pairs) {
    const Line<const S> x = feature_line(pairs, count, xv.size(0));
    add_dot(energy, x, x);
    for (int c = 0; c < xv.size(1); ++c) add_scaled(column(xv, c), pairs.v(count, c), x);
    for (int i = 0; i < xx.size(0); ++i) add_scaled(line(xx, i), x[i], x);
    ++count;
  }
  /// E.
  S mean_energy() const { return energy / S(count); }
};

/// o_t = S_t^T q_t.
template <class S>
void add_read(Tensor<S, 2>& o, int t, const Columns<S>& state, const Tensor<S, 2>& q) {
  for (int c = 0; c < state.size(1); ++c) add_dot(o(t, c), column(state, c), line(q, t));
}

/// dq = S_t do,  G += q do^T.
template <class S>
void add_read_gradients(Tensor<S, 2>& dq, Columns<S>& G, int t, const Columns<S>& state, const Tensor<S, 2>& q,
                        const Tensor<S, 2>& d_o) {
  for (int c = 0; c < state.size(1); ++c) {
    add_scaled(line(dq, t), d_o(t, c), column(state, c));
    add_scaled(column(G, c), d_o(t, c), line(q, t));
  }
}

}  // namespace assay
