#pragma once
// Sums that FALCON-3 and 3A need for a window that forgets nothing: over all pairs so far, one pair more at every step,
// where their references go through all pairs again.
#include <type_traits>

#include "reference/core/columns.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/falcon.hpp"
#include "reference/families/write_lines.hpp"

namespace assay {

/// Write feature j of some pairs, or its gradient.
template <class In>
auto feature_line(const Pairs<In>& pairs, int j, int key_dim) {
  using S = std::remove_reference_t<decltype(pairs.x(j, 0))>;
  return Line<S>{&pairs.x(j, 0), 1, key_dim};
}

/// The sums over pairs 0 ... count - 1.
template <class S>
struct PairSums {
  int count = 0;
  S energy = S(0);  ///< |x|^2
  Columns<S> xv;    ///< x v^T [K, V]
  Tensor<S, 2> xx;  ///< x x^T [K, K]; empty where it is not asked for

  /// The sums over the tail that comes in.
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

/// The outputs of a rule that reads at every step what `write(t, state)` has made of the state.
template <class Out, class Options, class In, class State, class Write>
Out read_every_step(const Options& options, const In& in, State state, Write write) {
  using S = typename In::scalar;
  const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
  const Pairs<const In> pairs(options, in);
  Out out{Tensor<S, 2>(T, V), Tensor<S, 2>(K, V), Tensor<S, 2>(pairs.count(), K), Tensor<S, 2>(pairs.count(), V)};
  for (int t = 0; t < T; ++t) {
    write(t, state);
    add_read(out.o, t, state.matrix, in.q);
  }
  write_final_tail(pairs, out);
  out.final_state = state.matrix.tensor();
  return out;
}

}  // namespace assay
