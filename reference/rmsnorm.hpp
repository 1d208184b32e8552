#pragma once
// RMSNorm of every row (falcon-family.md section 2): y = x / (r + eps), r = |x| / sqrt(d). Its eps stands outside the
// root, so that |y|^2 is d only as far as eps is small.
#include <cmath>
#include <string_view>

#include "reference/core/error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/tensor.hpp"

namespace assay {

struct rmsnorm {
  static constexpr std::string_view name = "rmsnorm";
  static constexpr std::string_view summary = "rows divided by their root mean square";

  using Options = NoOptions;

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> eps;  // >= 0; a zero row needs > 0
    Tensor<S, 2> x;    // [T, d]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"eps", Domain::regularizer}.param().or_zero().constant(), self.eps);
      f(Field{"x", Domain::layer_input, {seq_len, model_dim}}, self.x);
    }
  };

  template <class S>
  struct Outputs {
    using scalar = S;
    Tensor<S, 2> y;  // [T, d]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"y", Domain::value, {seq_len, model_dim}}, self.y);
    }
  };

  template <class S>
  static void check(const Options&, const Inputs<S>& in) {
    require_domain(in.eps() >= S(0), -1, "eps: expected a number >= 0");
    require_domain(in.x.size(0) == 0 || in.x.size(1) > 0, -1, "x: expected D >= 1, got 0");
  }

  /// r_t. NONFINITE where r_t + eps is zero: so is the gradient, whatever y is taken to be.
  template <class S>
  static S root_mean_square(const Inputs<S>& in, int t) {
    using std::sqrt;
    S squares = S(0);
    for (int i = 0; i < in.x.size(1); ++i) squares += in.x(t, i) * in.x(t, i);
    squares /= S(in.x.size(1));
    if (squares == S(0) && in.eps() == S(0))
      throw Refusal(Status::nonfinite, t, text("x[", t, "]: a zero row needs eps > 0"));
    return sqrt(squares);
  }

  template <class S>
  static Outputs<S> forward(const Options&, const Inputs<S>& in) {
    Outputs<S> out{in.x};
    for (int t = 0; t < in.x.size(0); ++t) {
      const S n = root_mean_square(in, t) + in.eps();
      for (int i = 0; i < in.x.size(1); ++i) out.y(t, i) /= n;
    }
    return out;
  }
};

}  // namespace assay
