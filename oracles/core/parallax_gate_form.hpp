#pragma once
// Gated Parallax in words. sum_j p_ij (t_ij - tbar_i) = 0, so the output is one sum over the keys,
//   o_i = sum_j p_ij (1 + tbar_i - t_ij) v_j
// and not one of values less their mean, which cancels less and costs twice as much.
#include <limits>
#include <vector>

#include "oracles/core/word_form.hpp"
#include "reference/parallax_gate.hpp"

namespace assay {

template <>
struct WordForm<parallax_gate> {
  using Options = parallax_gate::Options;
  template <class S>
  using Inputs = parallax_gate::Inputs<S>;
  template <class S>
  using Outputs = parallax_gate::Outputs<S>;

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int n = in.q.size(0), V = in.v.size(1);
    Outputs<S> out{Tensor<S, 2>(n, V), in.rho, Tensor<S, 1>(n)};
    for (int i = 0; i < n; ++i) {
      out.gate(i) = sigmoid(parallax_gate::logit(in, i));
      const Row<S> row = row_of(options, in, i);
      for (int j = row.first; j < row.last; ++j)
        add_scaled(line(out.o, i), S(row.p(j) * (S(1) + row.mean - row.t(j))), line(in.v, j));
    }
    return out;
  }

  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    return parallax_gate::backward(options, in, cotangent);
  }

 private:
  template <class S>
  struct Row : VisibleRow<S> {
    std::vector<S> tilts;  // t_ij
    S mean = S(0);         // of them
    const S& t(int j) const { return tilts[static_cast<std::size_t>(j - this->first)]; }
  };

  /// A key is read once for its score and its tilt.
  template <class S>
  static Row<S> row_of(const Options& options, const Inputs<S>& in, int i) {
    Row<S> row{{visible_range(options, in.q.size(0), in.k.size(0), i), S(0), S(0), {}, {}}, {}, S(0)};
    row.max = S(-std::numeric_limits<double>::infinity());
    for (int j = row.first; j < row.last; ++j) {
      row.scores.push_back(dot(line(in.q, i), line(in.k, j)) / in.bandwidth());
      row.tilts.push_back(dot(line(in.rho, i), line(in.k, j)));
      row.max = larger(row.max, row.scores.back());
    }
    for (const S& s : row.scores) {
      row.weights.push_back(exp(s - row.max));
      row.sum += row.weights.back();
    }
    for (int j = row.first; j < row.last; ++j) row.mean += row.p(j) * row.t(j);
    return row;
  }
};

}  // namespace assay
