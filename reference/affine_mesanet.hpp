#pragma once
// Affine MesaNet, one head (lla-family.md section 7): the ridge regression of the values so far on their keys, with an
// intercept, at the query. Under equal weights over j <= i,
//   o_i = vbar_i - X_i y_i,   y_i = (C_i + l_i)^{-1} (kbar_i - q_i)
// with l_i = lambda / i (lambda on the sums: "sum", the default) or lambda ("mean"). Local linear attention without its
// softmax. What is carried is kbar, vbar, M_kk = n C and M_vk = n X.
#include <string_view>
#include <utility>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/definite.hpp"
#include "reference/families/ridge.hpp"
#include "reference/families/uniform_moments.hpp"

namespace assay {

struct affine_mesanet {
  static constexpr std::string_view name = "affine_mesanet";
  static constexpr std::string_view summary = "ridge regression with an intercept of the values on the keys so far";

  using Options = LambdaOptions;

  template <class S>
  using Inputs = RegressionInputs<S>;

  template <class S>
  struct Outputs {
    using scalar = S;
    Tensor<S, 2> o;                                   // [T, V]
    Tensor<S, 1> final_mean_k, final_mean_v;          // [K], [V]
    Tensor<S, 2> final_scatter_kk, final_scatter_vk;  // [K, K], [V, K]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"o", Domain::value, {seq_len, value_dim}}, self.o);
      f(Field{"final_mean_k", Domain::key, {key_dim}}, self.final_mean_k);
      f(Field{"final_mean_v", Domain::value, {value_dim}}, self.final_mean_v);
      f(Field{"final_scatter_kk", Domain::key, {key_dim, key_dim}}, self.final_scatter_kk);
      f(Field{"final_scatter_vk", Domain::state, {value_dim, key_dim}}, self.final_scatter_vk);
    }
  };

  /// Without a ridge the keys so far have to span the dimensions affinely (SINGULAR).
  template <class S>
  static void check(const Options&, const Inputs<S>& in) {
    check_ridge(in.lambda);
    if (!has_zero_ridge(in.lambda)) return;
    const Residues keys = residues_of(in.k);
    for (int i = 0; i < in.k.size(0); ++i) {
      const std::vector<int> bare = without_ridge(in.lambda, i, 0, in.k.size(1));
      require_spanned(i, exact_rank(keys, 0, i + 1, keys, 0, bare), bare, "the first");
    }
  }

  /// d l / d lambda after n pairs.
  template <class S>
  static S ridge_unit(const Options& options, int n) {
    return options.lambda_scaling == Options::Scaling::mean ? S(1) : S(S(1) / S(n));
  }

  /// n (C + l_i).
  template <class S>
  static DefiniteSystem<S> system(const Options& options, const Inputs<S>& in, int i,
                                  const UniformMoments<S>& moments) {
    Tensor<S, 2> sums = moments.scatter_kk;
    const S unit = S(moments.count) * ridge_unit<S>(options, moments.count);
    for (int a = 0; a < in.k.size(1); ++a) sums(a, a) += unit * broadcast_at(in.lambda, i, a);
    return {std::move(sums), 0, in.k.size(1)};
  }

  /// y_i.
  template <class S>
  static std::vector<S> probe(const Inputs<S>& in, int i, const UniformMoments<S>& moments,
                              const DefiniteSystem<S>& of_row) {
    std::vector<S> offset;
    for (int a = 0; a < in.k.size(1); ++a) offset.push_back(S(moments.count) * (moments.mean_k(a) - in.q(i, a)));
    of_row.solve(offset);
    return offset;
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Tensor<S, 2> o(T, V);
    UniformMoments<S> moments(K, V);
    for (int i = 0; i < T; ++i) {
      moments.add(in.k, in.v, i);
      const std::vector<S> y = probe(in, i, moments, system(options, in, i, moments));
      for (int c = 0; c < V; ++c)
        o(i, c) = moments.mean_v(c) - dot(line(moments.scatter_vk, c), line(y)) / S(moments.count);
    }
    return {o, moments.mean_k, moments.mean_v, moments.scatter_kk, moments.scatter_vk};
  }

  /// With kt = k_j - kbar_i, x_i = -(C_i + l_i)^{-1} X_i^T do_i and n keys up to i:
  ///   dq_i = -x_i,  dk_j = sum_{i >= j} [x_i - (y_i.kt) x_i - (x_i.kt) y_i - do_i.(v_j - vbar_i) y_i] / n
  ///   dv_j = sum_{i >= j} (1 - y_i.kt) do_i / n,  dlambda_i = -(d l_i / d lambda) x_i y_i
  /// and over later rows N_j = sum_{i >= j} (x_i y_i^T + y_i x_i^T) / n, Q_j = sum_{i >= j} do_i y_i^T / n, what
  /// multiplies k_j and v_j.
  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Inputs<S> d{Tensor<S, 2>(in.q.extent), Tensor<S, 2>(in.k.extent), Tensor<S, 2>(in.v.extent),
                Tensor<S, 2>(in.lambda.extent)};
    UniformMoments<S> moments(K, V);
    Tensor<S, 2> xs(T, K), ys(T, K);
    std::vector<S> of_x, of_y;  // what row i puts on every dk_j along x_i and y_i, and on every dv_j along do_i
    for (int i = 0; i < T; ++i) {
      moments.add(in.k, in.v, i);
      const S n(moments.count);
      const Line<const S> g = line(cotangent.o, i), mean_k = line(std::as_const(moments.mean_k.data));
      const DefiniteSystem<S> of_row = system(options, in, i, moments);
      const std::vector<S> y = probe(in, i, moments, of_row);
      std::vector<S> x(y.size(), S(0));
      for (int c = 0; c < V; ++c) subtract_scaled(line(x), g[c], line(moments.scatter_vk, c));
      of_row.solve(x);
      for (int a = 0; a < K; ++a) {
        const auto at = static_cast<std::size_t>(a);
        xs(i, a) = x[at], ys(i, a) = y[at];
        d.q(i, a) = -x[at];
        broadcast_at(d.lambda, i, a) -= ridge_unit<S>(options, moments.count) * x[at] * y[at];
      }
      of_x.push_back((S(1) + dot(mean_k, line(y))) / n);
      const S of_value = dot(g, line(moments.mean_v.data));
      of_y.push_back((dot(mean_k, line(x)) + of_value) / n);
    }
    Tensor<S, 2> N(K, K), Q(V, K);
    std::vector<S> dk(static_cast<std::size_t>(K), S(0)), dv(static_cast<std::size_t>(V), S(0));
    for (int j = T - 1; j >= 0; --j) {
      const S n(j + 1);
      const Line<const S> g = line(cotangent.o, j), x = line(std::as_const(xs), j), y = line(std::as_const(ys), j);
      add_scaled(line(dk), of_x[static_cast<std::size_t>(j)], x);
      add_scaled(line(dk), of_y[static_cast<std::size_t>(j)], y);
      add_scaled(line(dv), of_x[static_cast<std::size_t>(j)], g);
      for (int a = 0; a < K; ++a) {
        add_scaled(line(N, a), S(x[a] / n), y);
        add_scaled(line(N, a), S(y[a] / n), x);
        d.k(j, a) = dk[static_cast<std::size_t>(a)] - dot(line(N, a), line(in.k, j));
      }
      for (int c = 0; c < V; ++c) {
        add_scaled(line(Q, c), S(g[c] / n), y);
        subtract_scaled(line(d.k, j), in.v(j, c), line(Q, c));
        d.v(j, c) = dv[static_cast<std::size_t>(c)] - dot(line(Q, c), line(in.k, j));
      }
    }
    UniformMoments<S> of_final(K, V);
    of_final.mean_k = cotangent.final_mean_k, of_final.mean_v = cotangent.final_mean_v;
    of_final.scatter_kk = cotangent.final_scatter_kk, of_final.scatter_vk = cotangent.final_scatter_vk;
    add_moment_gradients(moments, of_final, in.k, in.v, d.k, d.v);
    return d;
  }
};

}  // namespace assay
