#pragma once
// MesaNet, one head (lla-family.md section 7): the ridge regression of the values so far on their keys, at the query,
//   S_i = S_{i-1} + v_i k_i^T [V, K],   G_i = G_{i-1} + k_i k_i^T,   o_i = S_i x_i,   x_i = (G_i + l_i)^{-1} q_i
// with l_i = lambda on the sums ("sum", the default) or i lambda ("mean": lambda on the means).
#include <string_view>
#include <utility>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/definite.hpp"
#include "reference/families/ridge.hpp"

namespace assay {

struct mesanet {
  static constexpr std::string_view name = "mesanet";
  static constexpr std::string_view summary = "ridge regression of the values on the keys so far, at the query";

  using Options = LambdaOptions;

  template <class S>
  using Inputs = RegressionInputs<S>;

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
    return options.lambda_scaling == Options::Scaling::mean ? S(i + 1) : S(1);
  }

  /// Adds the pair of token i to S and G.
  template <class S>
  static void write(const Inputs<S>& in, int i, Tensor<S, 2>& state, Tensor<S, 2>& gram) {
    for (int a = 0; a < in.k.size(1); ++a) add_scaled(line(gram, a), in.k(i, a), line(in.k, i));
    for (int a = 0; a < in.v.size(1); ++a) add_scaled(line(state, a), in.v(i, a), line(in.k, i));
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
      write(in, i, out.final_state, out.final_gram);
      std::vector<S> x = query(in, i);
      system(options, in, i, out.final_gram).solve(x);
      for (int c = 0; c < V; ++c) add_dot(out.o(i, c), line(out.final_state, c), line(x));
    }
    return out;
  }
};

}  // namespace assay
