#pragma once
// MesaNet, one head (lla-family.md section 7): the ridge regression of the values so far on their keys, at the query,
//   S_i = S_{i-1} + v_i k_i^T [V, K],   G_i = G_{i-1} + k_i k_i^T,   o_i = S_i x_i,   x_i = (G_i + l_i)^{-1} q_i
// with l_i = lambda on the sums ("sum", the default) or i lambda ("mean": lambda on the means).
#include <string_view>
#include <utility>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/planted.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/kept.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/definite.hpp"
#include "reference/families/ridge.hpp"

namespace assay {
inline namespace ASSAY_REFERENCES {

struct mesanet {
  static constexpr std::string_view name = "mesanet";
  static constexpr std::string_view summary = "ridge regression of the values on the keys so far, at the query";
  static constexpr Fault faults[] = {{"solves_before_the_write", "x_i from G_{i-1}"},
                                     {"mean_scaling_of_the_previous_row", "lambda_scaling mean: l_i = (i - 1) lambda"},
                                     {"gram_gradient_not_symmetric", "dk without x_i a_i^T, the other half of dG"},
                                     {"ridge_gradient_sign", "dlambda with + a.x"}};

  using Options = LambdaOptions;

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 2> q, k, v;  // [T, K], [T, K], [T, V]
    Tensor<S, 2> lambda;   // ridge: a number, [T] or [T, K]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"q", Domain::query, {seq_len, key_dim}}, self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}.shared(), self.v);
      f(Field{"lambda", Domain::ridge, {seq_len, key_dim}}.broadcast().unchecked(), self.lambda);
    }
  };

  template <class S>
  struct Outputs {
    using scalar = S;
    Tensor<S, 2> o;            // [T, V]
    Tensor<S, 2> final_state;  // [V, K] sum v k^T
    Tensor<S, 2> final_gram;   // [K, K] sum k k^T

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"o", Domain::value, {seq_len, value_dim}}, self.o);
      f(Field{"final_state", Domain::state, {value_dim, key_dim}}, self.final_state);
      f(Field{"final_gram", Domain::key, {key_dim, key_dim}}, self.final_gram);
    }
  };

  /// Without a ridge the keys so far have to span the dimensions (SINGULAR).
  template <class S>
  static void check(const Options&, const Inputs<S>& in) {
    check_ridge(in.lambda);
    if (!has_zero_ridge(in.lambda)) return;
    const Residues keys = residues_of(in.k), zero(1, in.k.size(1));
    for (int i = 0; i < in.k.size(0); ++i) {
      const std::vector<int> bare = without_ridge(in.lambda, i, 0, in.k.size(1));
      require_spanned(i, exact_rank(keys, 0, i + 1, zero, 0, bare), bare, "zero");
    }
  }

  /// d l_i / d lambda.
  template <class S>
  static S ridge_unit(const Options& options, int i) {
    return options.lambda_scaling == Options::Scaling::mean
               ? S(planted<"mean_scaling_of_the_previous_row">(i + 1, i > 0 ? i : 1))
               : S(1);
  }

  /// Adds the pair of token i to S and G.
  template <class S>
  static void write(const Inputs<S>& in, int i, Tensor<S, 2>& state, Tensor<S, 2>& gram) {
    for (int a = 0; a < in.k.size(1); ++a) add_scaled(line(gram, a), in.k(i, a), line(in.k, i));
    for (int a = 0; a < in.v.size(1); ++a) add_scaled(line(state, a), in.v(i, a), line(in.k, i));
    keep(Kept::state, gram), keep(Kept::state, state);
  }

  /// G_i + l_i.
  template <class S>
  static DefiniteSystem<S> system(const Options& options, const Inputs<S>& in, int i, Tensor<S, 2> gram) {
    for (int a = 0; a < gram.size(0); ++a) gram(a, a) += ridge_unit<S>(options, i) * broadcast_at(in.lambda, i, a);
    return {std::move(gram), 0, in.k.size(1)};
  }

  template <class S>
  static std::vector<S> query(const Inputs<S>& in, int i) {
    std::vector<S> q;
    for (int a = 0; a < in.q.size(1); ++a) q.push_back(in.q(i, a));
    return q;
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Outputs<S> out{Tensor<S, 2>(T, V), Tensor<S, 2>(V, K), Tensor<S, 2>(K, K)};
    for (int i = 0; i < T; ++i) {
      const bool solves_late = planted<"solves_before_the_write">(true, false);
      const Tensor<S, 2> before = solves_late ? Tensor<S, 2>() : out.final_gram;
      write(in, i, out.final_state, out.final_gram);
      std::vector<S> x = query(in, i);
      system(options, in, i, solves_late ? out.final_gram : before).solve(x);
      for (int c = 0; c < V; ++c) add_dot(out.o(i, c), line(out.final_state, c), line(x));
    }
    return out;
  }

  /// With a_i = (G_i + l_i)^{-1} S_i^T do_i, and over later rows P_j = sum_{i >= j} x_i do_i^T + dS^T [K, V] and
  /// N_j = sum_{i >= j} (a_i x_i^T + x_i a_i^T) - dG - dG^T, dS and dG the cotangents of the final states:
  ///   dq_i = a_i,  dk_j = P_j v_j - N_j k_j,  dv_j = P_j^T k_j,  dlambda_i = -(d l_i / d lambda) a_i x_i
  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Inputs<S> d{Tensor<S, 2>(in.q.extent), Tensor<S, 2>(in.k.extent), Tensor<S, 2>(in.v.extent),
                Tensor<S, 2>(in.lambda.extent)};
    Tensor<S, 2> state(V, K), gram(K, K), solutions(T, K);
    for (int i = 0; i < T; ++i) {
      write(in, i, state, gram);
      const DefiniteSystem<S> of_row = system(options, in, i, gram);
      std::vector<S> x = query(in, i), a(x.size(), S(0));
      of_row.solve(x);
      for (int c = 0; c < V; ++c) add_scaled(line(a), cotangent.o(i, c), line(state, c));
      of_row.solve(a);
      const S unit = ridge_unit<S>(options, i) * planted<"ridge_gradient_sign">(S(1), S(-1));
      for (int b = 0; b < K; ++b) {
        const auto at = static_cast<std::size_t>(b);
        solutions(i, b) = x[at];
        d.q(i, b) = a[at];
        broadcast_at(d.lambda, i, b) -= unit * a[at] * x[at];
      }
    }
    Tensor<S, 2> P(K, V), N(K, K);
    for (int a = 0; a < K; ++a) {
      for (int c = 0; c < V; ++c) P(a, c) = cotangent.final_state(c, a);
      for (int b = 0; b < K; ++b) N(a, b) = -cotangent.final_gram(a, b) - cotangent.final_gram(b, a);
    }
    for (int j = T - 1; j >= 0; --j)
      for (int a = 0; a < K; ++a) {
        add_scaled(line(P, a), solutions(j, a), line(cotangent.o, j));
        add_dot(d.k(j, a), line(P, a), line(in.v, j));
        add_scaled(line(d.v, j), in.k(j, a), line(P, a));
        add_scaled(line(N, a), d.q(j, a), line(solutions, j));
        add_scaled(line(N, a), planted<"gram_gradient_not_symmetric">(solutions(j, a), S(0)), line(d.q, j));
        subtract_dot(d.k(j, a), line(N, a), line(in.k, j));
        keep(Kept::gradient, line(P, a)), keep(Kept::gradient, line(N, a));
      }
    return d;
  }
};

}  // namespace ASSAY_REFERENCES
}  // namespace assay
