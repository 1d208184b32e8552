#pragma once
// Momentum DeltaNet, one head (delta-family.md section 2): the delta rule's gradient goes into a momentum M [K, V],
// which the decaying state S [K, V] descends,
//   e_t = v_t - S_{t-1}^T p_t                        the prediction error, of the state before its decay
//   M_t = mu_t M_{t-1} - eta_t k_t e_t^T             mu_t = exp(log_mu_t); M has the sign of minus the write
//   S_t = alpha_t S_{t-1} - beta_t M_t               alpha_t = exp(log_alpha_t)
//   o_t = scale S_t^T q_t
#include <cmath>
#include <string_view>

#include "reference/core/columns.hpp"
#include "reference/core/field.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/replay.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/kept.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

struct mdn {
  static constexpr std::string_view name = "mdn";
  static constexpr std::string_view summary = "delta rule with momentum: M = mu M - eta k e^T, S = alpha S - beta M";

  using Options = NoOptions;

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> scale;              // multiplies the query at the read; K^{-1/2} if missing
    Tensor<S, 2> q, k, v;            // [T, K], [T, K], [T, V]
    Tensor<S, 2> p;                  // [T, K] prediction key
    Tensor<S, 1> log_alpha, log_mu;  // [T] natural logs of the decays of S and M, <= 0, -inf allowed
    Tensor<S, 1> beta, eta;          // [T] step along M, weight of the new gradient: any finite numbers
    Tensor<S, 2> initial_state;      // [K, V]
    Tensor<S, 2> initial_momentum;   // [K, V]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"scale", Domain::scale}.param().or_rsqrt_key_dim().shared().constant(), self.scale);
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(Field{"p", Domain::key, {seq_len, key_dim}}.shared(), self.p);
      f(Field{"log_alpha", Domain::log_decay, {seq_len}}, self.log_alpha);
      f(Field{"log_mu", Domain::log_decay, {seq_len}}, self.log_mu);
      f(Field{"beta", Domain::write_strength, {seq_len}}, self.beta);
      f(Field{"eta", Domain::gradient_weight, {seq_len}}, self.eta);
      f(Field{"initial_state", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_state);
      f(Field{"initial_momentum", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_momentum);
    }
  };

  template <class S>
  struct Outputs {
    using scalar = S;
    Tensor<S, 2> o;                            // [T, V]
    Tensor<S, 2> final_state, final_momentum;  // [K, V]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"o", Domain::value, {seq_len, value_dim}}, self.o);
      f(Field{"final_state", Domain::state, {key_dim, value_dim}}, self.final_state);
      f(Field{"final_momentum", Domain::state, {key_dim, value_dim}}, self.final_momentum);
    }
  };

  template <class S>
  static void check(const Options&, const Inputs<S>&) {}

  /// S and M, or their gradients.
  template <class S>
  struct Memory {
    Columns<S> state, momentum;

    Memory(const Tensor<S, 2>& its_state, const Tensor<S, 2>& its_momentum)
        : state(its_state), momentum(its_momentum) {}
  };

  /// Takes S and M over token t; sets row t of `error`, and row t of `o` to what the query reads.
  template <class S>
  static void step(const Inputs<S>& in, int t, Memory<S>& memory, Tensor<S, 2>& error, Tensor<S, 2>& o) {
    using std::exp;
    const int K = in.k.size(1), V = in.v.size(1);
    const S alpha = exp(in.log_alpha(t)), mu = exp(in.log_mu(t));
    for (int j = 0; j < V; ++j) {
      const Line<S> S_j = column(memory.state, j), M_j = column(memory.momentum, j);
      const S e = in.v(t, j) - dot(S_j, line(in.p, t));
      for (int i = 0; i < K; ++i) S_j[i] *= alpha;
      for (int i = 0; i < K; ++i) M_j[i] *= mu;
      subtract_scaled(M_j, S(in.eta(t) * e), line(in.k, t));
      subtract_scaled(S_j, in.beta(t), M_j);
      keep(Kept::state, M_j), keep(Kept::state, S_j);
      error(t, j) = e;
      o(t, j) = dot(S_j, line(in.q, t)) * in.scale();
    }
  }

  template <class S>
  static Outputs<S> forward(const Options&, const Inputs<S>& in) {
    const int T = in.k.size(0), V = in.v.size(1);
    Tensor<S, 2> error(T, V), o(T, V);
    Memory<S> memory(in.initial_state, in.initial_momentum);
    for (int t = 0; t < T; ++t) step(in, t, memory, error, o);
    return {o, memory.state.tensor(), memory.momentum.tensor()};
  }

  /// Reverse recurrence (delta-family.md 2.4), G and N the gradients of S_t and M_t:
  ///   dq = scale S_t do,  G += scale q do^T,  dlog_alpha = alpha <G, S_{t-1}>,  dbeta = -<G, M_t>,  N -= beta G
  ///   dlog_mu = mu <N, M_{t-1}>,  deta = -k^T N e,  dk = -eta N e,  de = dv = -eta N^T k,  dp = -S_{t-1} de
  ///   G <- alpha G - p de^T,  N <- mu N
  template <class S>
  static Inputs<S> backward(const Options&, const Inputs<S>& in, const Outputs<S>& cotangent) {
    using std::exp;
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Tensor<S, 2> error(T, V), o(T, V);
    Replay memories(Memory<S>(in.initial_state, in.initial_momentum), T,
                    [&](int t, Memory<S>& memory) { step(in, t, memory, error, o); });
    Inputs<S> d{{},
                Tensor<S, 2>(in.q.extent),
                Tensor<S, 2>(in.k.extent),
                Tensor<S, 2>(in.v.extent),
                Tensor<S, 2>(in.p.extent),
                Tensor<S, 1>(in.log_alpha.extent),
                Tensor<S, 1>(in.log_mu.extent),
                Tensor<S, 1>(in.beta.extent),
                Tensor<S, 1>(in.eta.extent),
                {},
                {}};
    Memory<S> gradients(cotangent.final_state, cotangent.final_momentum);  // G and N
    for (int t = T - 1; t >= 0; --t) {
      const auto& [before, stale] = memories.before(t);
      const auto& [after, fresh] = memories.after(t);
      const S alpha = exp(in.log_alpha(t)), mu = exp(in.log_mu(t));
      for (int j = 0; j < V; ++j) {
        const Line<S> G_j = column(gradients.state, j), N_j = column(gradients.momentum, j);
        const S read_gradient = in.scale() * cotangent.o(t, j);
        add_scaled(line(d.q, t), read_gradient, column(after, j));
        add_scaled(G_j, read_gradient, line(in.q, t));
        d.log_alpha(t) += alpha * dot(G_j, column(before, j));
        subtract_dot(d.beta(t), G_j, column(fresh, j));
        subtract_scaled(N_j, in.beta(t), G_j);
        d.log_mu(t) += mu * dot(N_j, column(stale, j));
        subtract_scaled(line(d.k, t), S(in.eta(t) * error(t, j)), N_j);
        const S nk = dot(N_j, line(in.k, t)), de = -in.eta(t) * nk;
        d.v(t, j) = de;
        d.eta(t) += -nk * error(t, j);
        subtract_scaled(line(d.p, t), de, column(before, j));
        for (int i = 0; i < K; ++i) G_j[i] *= alpha, N_j[i] *= mu;
        subtract_scaled(G_j, de, line(in.p, t));
        keep(Kept::gradient, G_j), keep(Kept::gradient, N_j);
      }
    }
    d.initial_state = gradients.state.tensor(), d.initial_momentum = gradients.momentum.tensor();
    return d;
  }
};

}  // namespace assay
