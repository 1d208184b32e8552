#pragma once
// Gated Parallax, one head (lla-family.md section 2): Parallax whose probe comes from the layer's input x_i [D],
//   rho_i = gate_i W_r x_i,   gate_i = sigmoid(w_g.x_i)
// and then o_i = vbar_i - Cov_p(v, k) rho_i as in parallax.hpp.
#include <string_view>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/elementary.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/visible.hpp"
#include "reference/parallax.hpp"

namespace assay {

struct parallax_gate {
  static constexpr std::string_view name = "parallax_gate";
  static constexpr std::string_view summary = "Parallax with the probe sigmoid(w_g.x) W_r x";

  using Options = VisibleOptions;

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> bandwidth;   // h > 0
    Tensor<S, 2> q, k, v, x;  // [Tq, K], [T, K], [T, V], [Tq, D]
    Tensor<S, 2> w_r;         // [K, D]
    Tensor<S, 1> w_g;         // [D]
    Tensor<S, 2> rho;         // [Tq, K], worked out from x

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"bandwidth", Domain::bandwidth}.param().shared(), self.bandwidth);
      f(Field{"q", Domain::query, {query_len, key_dim}}, self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}.shared(), self.v);
      f(Field{"x", Domain::layer_input, {query_len, model_dim}}, self.x);
      f(Field{"w_r", Domain::weight, {key_dim, model_dim}}, self.w_r);
      f(Field{"w_g", Domain::weight, {model_dim}}, self.w_g);
      f(Field{"rho", Domain::probe, {query_len, key_dim}}.derived(), self.rho);
    }
  };

  template <class S>
  struct Outputs {
    using scalar = S;
    Tensor<S, 2> o;     // [Tq, V]
    Tensor<S, 2> rho;   // [Tq, K]
    Tensor<S, 1> gate;  // [Tq]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"o", Domain::value, {query_len, value_dim}}, self.o);
      f(Field{"rho", Domain::probe, {query_len, key_dim}}, self.rho);
      f(Field{"gate", Domain::scale, {query_len}}, self.gate);
    }
  };

  template <class S>
  using Caches = parallax::Caches<S>;

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    check_visible(options, in.bandwidth());
  }

  /// w_g.x_i.
  template <class S>
  static S logit(const Inputs<S>& in, int i) {
    return dot(line(in.w_g.data), line(in.x, i));
  }

  /// Component b of W_r x_i.
  template <class S>
  static S raw_probe(const Inputs<S>& in, int i, int b) {
    return dot(line(in.w_r, b), line(in.x, i));
  }

  template <class S>
  static void complete(const Options&, Inputs<S>& in) {
    in.rho = Tensor<S, 2>(in.q.extent);
    for (int i = 0; i < in.q.size(0); ++i) {
      const S gate = sigmoid(logit(in, i));
      for (int b = 0; b < in.q.size(1); ++b) in.rho(i, b) = gate * raw_probe(in, i, b);
    }
  }

  template <class S>
  static parallax::Inputs<S> probed(const Inputs<S>& in) {
    return {in.bandwidth, in.q, in.k, in.v, in.rho};
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    Outputs<S> out{parallax::forward(options, probed(in)).o, in.rho, Tensor<S, 1>(in.q.size(0))};
    for (int i = 0; i < in.q.size(0); ++i) out.gate(i) = sigmoid(logit(in, i));
    return out;
  }

  template <class S>
  static Caches<S> caches(const Options& options, const Inputs<S>& in) {
    return parallax::caches(options, probed(in));
  }
};

}  // namespace assay
