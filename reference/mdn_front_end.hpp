#pragma once
// Momentum DeltaNet with its default front end, one head (delta-family.md 2.3): normalized queries and keys, and the
// decayed key as prediction key,
//   q' = N(q - exp(log_d) k) (without log_d: N(q)),   k' = N(k),   p = alpha k',   N(x) = x / sqrt(|x|^2 + l2_eps)
// The correction takes the raw key. With l2_eps = 0, N(0) = 0 with gradient 0.
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "reference/core/error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/mdn.hpp"

namespace assay {

struct mdn_front_end {
  static constexpr std::string_view name = "mdn_front_end";
  static constexpr std::string_view summary = "Momentum DeltaNet on raw projections: l2 norms and output correction";

  struct Options {
    static constexpr std::array<std::string_view, 0> names{};
    static std::vector<Params> variants() { return {{}, {{"l2_eps", "0"}}}; }
    static Options read(const Params&) { return {}; }
  };

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> scale;              // multiplies the query at the read; K^{-1/2} if missing
    Tensor<S, 0> l2_eps;             // >= 0, inside the root; 1e-6 if missing
    Tensor<S, 2> q, k, v;            // [T, K], [T, K], [T, V]
    Tensor<S, 1> log_alpha, log_mu;  // [T] natural logs of the decays of S and M, <= 0, -inf allowed
    Tensor<S, 1> beta, eta;          // [T] step along M, weight of the new gradient
    Tensor<S, 2> initial_state;      // [K, V]
    Tensor<S, 2> initial_momentum;   // [K, V]
    Tensor<S, 0> log_d;              // of the output correction, or empty

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"scale", Domain::scale}.param().or_rsqrt_key_dim().shared().constant(), self.scale);
      f(Field{"l2_eps", Domain::regularizer}.param().or_absent().shared().constant(), self.l2_eps);
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(Field{"log_alpha", Domain::log_decay, {seq_len}}, self.log_alpha);
      f(Field{"log_mu", Domain::log_decay, {seq_len}}, self.log_mu);
      f(Field{"beta", Domain::write_strength, {seq_len}}, self.beta);
      f(Field{"eta", Domain::gradient_weight, {seq_len}}, self.eta);
      f(Field{"initial_state", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_state);
      f(Field{"initial_momentum", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_momentum);
      f(Field{"log_d", Domain::logit}.or_absent(), self.log_d);
    }

    S eps() const { return l2_eps.empty() ? S(1) / S(1000000) : l2_eps(); }
  };

  template <class S>
  using Outputs = mdn::Outputs<S>;

  template <class S>
  static void check(const Options&, const Inputs<S>& in) {
    require_domain(in.eps() >= S(0), -1, "l2_eps: expected a number >= 0");
  }

  /// The factor of N at row t of x.
  template <class S>
  static S inverse_norm(const Tensor<S, 2>& x, int t, const S& eps) {
    using std::sqrt;
    S square = S(0);
    for (int i = 0; i < x.size(1); ++i) square += x(t, i) * x(t, i);
    if (square == S(0) && eps == S(0)) return S(0);
    return S(1) / S(sqrt(square + eps));
  }

  /// N of every row.
  template <class S>
  static Tensor<S, 2> normalized(Tensor<S, 2> x, const S& eps) {
    for (int t = 0; t < x.size(0); ++t) {
      const S r = inverse_norm(x, t, eps);
      for (int i = 0; i < x.size(1); ++i) x(t, i) *= r;
    }
    return x;
  }

  /// exp(log_d), or 0 without one.
  template <class S>
  static S correction(const Inputs<S>& in) {
    using std::exp;
    return in.log_d.empty() ? S(0) : S(exp(in.log_d()));
  }

  /// q - exp(log_d) k.
  template <class S>
  static Tensor<S, 2> corrected(const Inputs<S>& in) {
    Tensor<S, 2> q = in.q;
    const S D = correction(in);
    for (std::size_t i = 0; i < q.data.size(); ++i) q.data[i] -= D * in.k.data[i];
    return q;
  }

  template <class S>
  static mdn::Inputs<S> core(const Inputs<S>& in) {
    using std::exp;
    const Tensor<S, 2> k = normalized(in.k, in.eps());
    Tensor<S, 2> p = k;
    for (int t = 0; t < p.size(0); ++t) {
      const S alpha = exp(in.log_alpha(t));
      for (int i = 0; i < p.size(1); ++i) p(t, i) *= alpha;
    }
    return {in.scale,
            normalized(corrected(in), in.eps()),
            k,
            in.v,
            p,
            in.log_alpha,
            in.log_mu,
            in.beta,
            in.eta,
            in.initial_state,
            in.initial_momentum};
  }

  template <class S>
  static Outputs<S> forward(const Options&, const Inputs<S>& in) {
    return mdn::forward({}, core(in));
  }
};

}  // namespace assay
