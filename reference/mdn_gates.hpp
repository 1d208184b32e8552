#pragma once
// Momentum DeltaNet's gates from raw projections, one head (delta-family.md 2.8):
//   eta = 1 + tanh(e / tau),   phi = eta exp(log_factor),   theta = arctan phi
//   beta = sin^2 theta sigmoid(b),   log alpha = log cos^2 theta - exp(a_log) softplus(a + dt_bias)
//   log mu = max(-exp(mu_log) softplus(m + mu_bias), min_log_mu)
// so that alpha + beta < 1. sin^2 theta = phi^2 / (1 + phi^2) and log cos^2 theta = -log(1 + phi^2) keep their digits
// for small phi, and 1 + tanh(x) = 2 sigmoid(2 x) does for negative x.
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "reference/core/error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/elementary.hpp"

namespace assay {

struct mdn_gates {
  static constexpr std::string_view name = "mdn_gates";
  static constexpr std::string_view summary = "Momentum DeltaNet's decays, step and gradient weight from projections";

  struct Options {
    static constexpr std::array<std::string_view, 0> names{};
    /// The settings that tests, fixtures and pages walk through: without a floor, and with one that is reached.
    static std::vector<Params> variants() { return {{}, {{"min_log_mu", "-0.5"}}}; }
    static Options read(const Params&) { return {}; }
  };

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> tau;                                          // temperature of eta, > 0
    Tensor<S, 0> min_log_mu;                                   // <= 0, or empty: no clamp
    Tensor<S, 1> a, b, m, e;                                   // [T] raw projections
    Tensor<S, 0> a_log, dt_bias, mu_log, mu_bias, log_factor;  // one per head

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"tau", Domain::temperature}.param().shared().constant(), self.tau);
      f(Field{"min_log_mu", Domain::log_floor}.param().or_absent().shared().constant(), self.min_log_mu);
      f(Field{"a", Domain::logit, {seq_len}}, self.a);
      f(Field{"b", Domain::logit, {seq_len}}, self.b);
      f(Field{"m", Domain::logit, {seq_len}}, self.m);
      f(Field{"e", Domain::logit, {seq_len}}, self.e);
      f(Field{"a_log", Domain::logit}, self.a_log);
      f(Field{"dt_bias", Domain::logit}, self.dt_bias);
      f(Field{"mu_log", Domain::logit}, self.mu_log);
      f(Field{"mu_bias", Domain::logit}, self.mu_bias);
      f(Field{"log_factor", Domain::logit}, self.log_factor);
    }
  };

  template <class S>
  struct Outputs {
    using scalar = S;
    Tensor<S, 1> log_alpha, log_mu, beta, eta;  // [T]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"log_alpha", Domain::logit, {seq_len}}, self.log_alpha);
      f(Field{"log_mu", Domain::logit, {seq_len}}, self.log_mu);
      f(Field{"beta", Domain::logit, {seq_len}}, self.beta);
      f(Field{"eta", Domain::logit, {seq_len}}, self.eta);
    }
  };

  template <class S>
  static void check(const Options&, const Inputs<S>& in) {
    require_domain(in.tau() > S(0), -1, "tau: expected a number > 0");
    require_domain(in.min_log_mu.empty() || in.min_log_mu() <= S(0), -1, "min_log_mu: a log decay must be <= 0");
  }

  template <class S>
  static Outputs<S> forward(const Options&, const Inputs<S>& in) {
    using std::exp;
    const int T = in.a.size(0);
    Outputs<S> out{Tensor<S, 1>(T), Tensor<S, 1>(T), Tensor<S, 1>(T), Tensor<S, 1>(T)};
    for (int t = 0; t < T; ++t) {
      const S eta = S(2) * sigmoid(S(S(2) * in.e(t) / in.tau())), phi = eta * exp(in.log_factor());
      const S sin2 = phi * phi / (S(1) + phi * phi), log_cos2 = -log_of_one_plus(S(phi * phi));
      const S log_mu = -exp(in.mu_log()) * softplus(S(in.m(t) + in.mu_bias()));
      out.log_alpha(t) = log_cos2 - exp(in.a_log()) * softplus(S(in.a(t) + in.dt_bias()));
      out.log_mu(t) = in.min_log_mu.empty() ? log_mu : larger(log_mu, in.min_log_mu());
      out.beta(t) = sin2 * sigmoid(in.b(t));
      out.eta(t) = eta;
    }
    return out;
  }
};

}  // namespace assay
