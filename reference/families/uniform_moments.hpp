#pragma once
// Means and scatters of keys and values under equal weights, as they come (lla-family.md section 7).
#include <vector>

#include "reference/core/tensor.hpp"
#include "reference/errors/erring.hpp"
#include "reference/errors/kept.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

/// After n pairs: kbar, vbar, sum (k - kbar)(k - kbar)^T [K, K], sum (v - vbar)(k - kbar)^T [V, K]; zeros for n = 0.
template <class S>
struct UniformMoments {
  int count = 0;
  Tensor<S, 1> mean_k, mean_v;
  Tensor<S, 2> scatter_kk, scatter_vk;

  UniformMoments(int K, int V) : mean_k(K), mean_v(V), scatter_kk(K, K), scatter_vk(V, K) {}

  /// One more pair, by Welford's recurrence: no difference of large sums.
  void add(const Tensor<S, 2>& k, const Tensor<S, 2>& v, int j) {
    const int K = mean_k.size(0), V = mean_v.size(0);
    ++count;
    const S weight = S(count - 1) / S(count);
    std::vector<S> key;
    for (int b = 0; b < K; ++b) key.push_back(k(j, b) - mean_k(b));
    if (errs<S>()) return add_about_the_new_mean(key, k, v, j);
    for (int a = 0; a < K; ++a)
      add_scaled(line(scatter_kk, a), S(weight * key[static_cast<std::size_t>(a)]), line(key));
    for (int a = 0; a < V; ++a) add_scaled(line(scatter_vk, a), S(weight * (v(j, a) - mean_v(a))), line(key));
    for (int a = 0; a < K; ++a) mean_k(a) += (k(j, a) - mean_k(a)) / S(count);
    for (int a = 0; a < V; ++a) mean_v(a) += (v(j, a) - mean_v(a)) / S(count);
    keep(Kept::state, scatter_kk), keep(Kept::state, scatter_vk);
  }

 private:
  /// The same number, for scalars that err: key (k - kbar)^T with kbar after the pair. Kernels take k about its mean in
  /// whatever way, and of the first pair nothing is left but the error of that mean, where Welford's weight is zero.
  void add_about_the_new_mean(const std::vector<S>& key, const Tensor<S, 2>& k, const Tensor<S, 2>& v, int j) {
    const int K = mean_k.size(0), V = mean_v.size(0);
    std::vector<S> value, of_key, of_value, about;
    for (int a = 0; a < V; ++a) value.push_back(v(j, a) - mean_v(a));
    for (const S& x : key) of_key.push_back(x / S(count));
    for (const S& x : value) of_value.push_back(x / S(count));
    add_line(line(mean_k.data), line(of_key)), add_line(line(mean_v.data), line(of_value));
    for (int b = 0; b < K; ++b) about.push_back(k(j, b) - mean_k(b));
    for (int a = 0; a < K; ++a) add_scaled(line(scatter_kk, a), key[static_cast<std::size_t>(a)], line(about));
    for (int a = 0; a < V; ++a) add_scaled(line(scatter_vk, a), value[static_cast<std::size_t>(a)], line(about));
  }
};

/// Adds to dk and dv what a cotangent of the final moments puts there:
///   dk_j += dkbar / n + (dM_kk + dM_kk^T)(k_j - kbar) + dM_vk^T (v_j - vbar),  dv_j += dvbar / n + dM_vk (k_j - kbar)
template <class S>
void add_moment_gradients(const UniformMoments<S>& last, const UniformMoments<S>& cotangent, const Tensor<S, 2>& k,
                          const Tensor<S, 2>& v, Tensor<S, 2>& dk, Tensor<S, 2>& dv) {
  const int K = k.size(1), V = v.size(1);
  Tensor<S, 2> both = cotangent.scatter_kk;
  for (int a = 0; a < K; ++a)
    for (int b = 0; b < K; ++b) both(a, b) += cotangent.scatter_kk(b, a);
  for (int j = 0; j < last.count; ++j) {
    std::vector<S> key, value;
    for (int a = 0; a < K; ++a) key.push_back(k(j, a) - last.mean_k(a));
    for (int c = 0; c < V; ++c) value.push_back(v(j, c) - last.mean_v(c));
    for (int a = 0; a < K; ++a) {
      dk(j, a) += cotangent.mean_k(a) / S(last.count);
      add_dot(dk(j, a), line(both, a), line(key));
    }
    for (int c = 0; c < V; ++c) {
      add_scaled(line(dk, j), value[static_cast<std::size_t>(c)], line(cotangent.scatter_vk, c));
      add_dot(dv(j, c), line(cotangent.scatter_vk, c), line(key));
    }
  }
  for (int j = 0; j < last.count; ++j)
    for (int c = 0; c < V; ++c) dv(j, c) += cotangent.mean_v(c) / S(last.count);
}

}  // namespace assay
