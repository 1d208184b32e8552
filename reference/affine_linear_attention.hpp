#pragma once
// Affine linear attention, one head (lla-family.md section 7): the mean of the values so far, corrected along a probe,
//   o_i = vbar_i - X_i rho_i,   X_i = Cov_u(v, k) over j <= i under equal weights
// Parallax without its softmax. What is carried is kbar, vbar and M_vk = n X.
#include <string_view>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/uniform_moments.hpp"

namespace assay {

struct affine_linear_attention {
  static constexpr std::string_view name = "affine_linear_attention";
  static constexpr std::string_view summary =
      "the mean of the values minus their covariance with the keys along a probe";

  using Options = NoOptions;

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 2> k, v, rho;  // [T, K], [T, V], [T, K]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}.shared(), self.v);
      f(Field{"rho", Domain::probe, {seq_len, key_dim}}, self.rho);
    }
  };

  template <class S>
  struct Outputs {
    using scalar = S;
    Tensor<S, 2> o;                           // [T, V]
    Tensor<S, 1> final_mean_k, final_mean_v;  // [K], [V]
    Tensor<S, 2> final_scatter_vk;            // [V, K] sum (v - vbar)(k - kbar)^T

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"o", Domain::value, {seq_len, value_dim}}, self.o);
      f(Field{"final_mean_k", Domain::key, {key_dim}}, self.final_mean_k);
      f(Field{"final_mean_v", Domain::value, {value_dim}}, self.final_mean_v);
      f(Field{"final_scatter_vk", Domain::state, {value_dim, key_dim}}, self.final_scatter_vk);
    }
  };

  template <class S>
  static void check(const Options&, const Inputs<S>&) {}

  template <class S>
  static Outputs<S> forward(const Options&, const Inputs<S>& in) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Tensor<S, 2> o(T, V);
    UniformMoments<S> moments(K, V);
    for (int i = 0; i < T; ++i) {
      moments.add(in.k, in.v, i);
      const S n(moments.count);
      for (int x = 0; x < V; ++x) o(i, x) = moments.mean_v(x) - dot(line(moments.scatter_vk, x), line(in.rho, i)) / n;
    }
    return {o, moments.mean_k, moments.mean_v, moments.scatter_vk};
  }

  /// With n keys up to i:
  ///   drho_i = -X_i^T do_i,  dk_j = -sum_{i >= j} do_i.(v_j - vbar_i) rho_i / n
  ///   dv_j = sum_{i >= j} (1 - rho_i.(k_j - kbar_i)) do_i / n
  /// and over later rows Q_j = sum_{i >= j} do_i rho_i^T / n [V, K], what multiplies v_j and k_j.
  template <class S>
  static Inputs<S> backward(const Options&, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Inputs<S> d{Tensor<S, 2>(in.k.extent), Tensor<S, 2>(in.v.extent), Tensor<S, 2>(in.rho.extent)};
    UniformMoments<S> moments(K, V);
    std::vector<S> of_rho, of_do;  // what row i puts on every dk_j along rho_i and on every dv_j along do_i
    for (int i = 0; i < T; ++i) {
      moments.add(in.k, in.v, i);
      const S n(moments.count);
      const Line<const S> g = line(cotangent.o, i), rho = line(in.rho, i);
      for (int x = 0; x < V; ++x) subtract_scaled(line(d.rho, i), S(g[x] / n), line(moments.scatter_vk, x));
      of_rho.push_back(dot(g, line(moments.mean_v.data)) / n);
      of_do.push_back((S(1) + dot(rho, line(moments.mean_k.data))) / n);
    }
    Tensor<S, 2> Q(V, K);
    std::vector<S> dk(static_cast<std::size_t>(K), S(0)), dv(static_cast<std::size_t>(V), S(0));
    for (int j = T - 1; j >= 0; --j) {
      const Line<const S> g = line(cotangent.o, j), rho = line(in.rho, j);
      add_scaled(line(dk), of_rho[static_cast<std::size_t>(j)], rho);
      add_scaled(line(dv), of_do[static_cast<std::size_t>(j)], g);
      for (int y = 0; y < K; ++y) d.k(j, y) = dk[static_cast<std::size_t>(y)];
      for (int x = 0; x < V; ++x) {
        add_scaled(line(Q, x), S(g[x] / S(j + 1)), rho);
        subtract_scaled(line(d.k, j), in.v(j, x), line(Q, x));
        d.v(j, x) = dv[static_cast<std::size_t>(x)] - dot(line(Q, x), line(in.k, j));
      }
    }
    UniformMoments<S> of_final(K, V);
    of_final.mean_k = cotangent.final_mean_k, of_final.mean_v = cotangent.final_mean_v;
    of_final.scatter_vk = cotangent.final_scatter_vk;
    add_moment_gradients(moments, of_final, in.k, in.v, d.k, d.v);
    return d;
  }
};

}  // namespace assay
