#pragma once
// The stable rank of a matrix (lla-family.md section 8): |x|_F^2 / |x|_2^2, between 1 and the rank.
#include <algorithm>
#include <string_view>

#include "reference/core/error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/tensor.hpp"
#include "reference/families/dense.hpp"

namespace assay {

struct stable_rank {
  static constexpr std::string_view name = "stable_rank";
  static constexpr std::string_view summary = "how many directions a matrix has: |x|_F^2 / |x|_2^2";

  using Options = NoOptions;

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 2> x;  // [T, D]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"x", Domain::layer_input, {seq_len, model_dim}}, self.x);
    }
  };

  template <class S>
  struct Outputs {
    using scalar = S;
    Tensor<S, 0> stable_rank;

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      f(Field{"stable_rank", Domain::scale}, self.stable_rank);
    }
  };

  template <class S>
  static void check(const Options&, const Inputs<S>& in) {
    require_domain(std::any_of(in.x.data.begin(), in.x.data.end(), [](const S& x) { return x != S(0); }), -1,
                   "x: a matrix of zeros has no stable rank");
  }

  template <class S>
  static S square_norm(const Tensor<S, 2>& x) {
    S sum = S(0);
    for (const S& element : x.data) sum += element * element;
    return sum;
  }

  /// x^T x or x x^T, whichever is smaller.
  template <class S>
  static Tensor<S, 2> gram(const Tensor<S, 2>& x) {
    const bool wide = x.size(0) < x.size(1);
    const int n = std::min(x.size(0), x.size(1)), inner = std::max(x.size(0), x.size(1));
    Tensor<S, 2> product(n, n);
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < n; ++b)
        for (int i = 0; i < inner; ++i) product(a, b) += wide ? x(a, i) * x(b, i) : x(i, a) * x(i, b);
    return product;
  }

  template <class S>
  static Outputs<S> forward(const Options&, const Inputs<S>& in) {
    Outputs<S> out;
    out.stable_rank() = square_norm(in.x) / largest_eigenpair(gram(in.x)).value;
    return out;
  }

  /// With r the stable rank, s^2 = |x|_2^2 and v its singular vector (of the smaller side):
  ///   dx = 2 dr / s^2 (x - r x v v^T)   or   2 dr / s^2 (x - r v v^T x)
  /// Where two singular values are largest the derivative does not exist; one of its one-sided values is answered.
  template <class S>
  static Inputs<S> backward(const Options&, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const bool wide = in.x.size(0) < in.x.size(1);
    const Eigenpair<S> top = largest_eigenpair(gram(in.x));
    const S rank = square_norm(in.x) / top.value;
    const S factor = S(2) * cotangent.stable_rank() / top.value;
    Inputs<S> d{in.x};
    for (int i = 0; i < in.x.size(0); ++i)
      for (int j = 0; j < in.x.size(1); ++j) {
        S along = S(0);
        for (int a = 0; a < static_cast<int>(top.vector.size()); ++a)
          along += top.vector[static_cast<std::size_t>(a)] * (wide ? in.x(a, j) : in.x(i, a));
        d.x(i, j) = factor * (in.x(i, j) - rank * along * top.vector[static_cast<std::size_t>(wide ? i : j)]);
      }
    return d;
  }
};

}  // namespace assay
