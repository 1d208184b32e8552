#pragma once
// What the laws of the local-linear-attention family share (lla-family.md): systems solved by elimination with pivots,
// the ridge spelled out for every row and dimension, and the equal-weight family's means and scatters as plain sums.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "proptests/core/exact_problem.hpp"
#include "proptests/laws/reference_laws.hpp"

namespace assay::laws {

/// As same(), where numbers of order one may cancel: to 1e-80 of the largest, or of one.
inline std::string near(std::string_view name, ExactArray got, ExactArray want) {
  got.data.emplace_back(1), want.data.emplace_back(1);
  return same(name, got, want);
}

/// a^{-1} b by Gauss elimination, the largest pivot of every column first.
template <class S>
std::vector<S> eliminated(Tensor<S, 2> a, std::vector<S> b) {
  using std::abs;
  const int n = a.size(0);
  const auto at = [&b](int i) -> S& { return b[static_cast<std::size_t>(i)]; };
  for (int c = 0; c < n; ++c) {
    int pivot = c;
    for (int r = c + 1; r < n; ++r)
      if (abs(a(r, c)) > abs(a(pivot, c))) pivot = r;
    for (int x = 0; x < n; ++x) std::swap(a(c, x), a(pivot, x));
    std::swap(at(c), at(pivot));
    for (int r = c + 1; r < n; ++r) {
      const S factor = a(r, c) / a(c, c);
      for (int x = c; x < n; ++x) a(r, x) -= factor * a(c, x);
      at(r) -= factor * at(c);
    }
  }
  for (int r = n - 1; r >= 0; --r) {
    for (int x = r + 1; x < n; ++x) at(r) -= a(r, x) * at(x);
    at(r) /= a(r, r);
  }
  return b;
}

/// The intercept of argmin sum_j w_j |v_j - b - W z_j|^2 + tr(W diag(ridge) W^T): one linear system in (W, b), solved
/// for every value column. Rows of z are [keys, K].
inline std::vector<Mp100> regression_intercept(const std::vector<Mp100>& w, const ExactMatrix& z, const ExactMatrix& v,
                                               const std::vector<Mp100>& ridge) {
  const int n = z.size(0), K = z.size(1);
  const auto feature = [&](int j, int a) { return a < K ? z(j, a) : Mp100(1); };
  ExactMatrix normal(K + 1, K + 1);
  for (int a = 0; a <= K; ++a) {
    for (int b = 0; b <= K; ++b)
      for (int j = 0; j < n; ++j) normal(a, b) += w[static_cast<std::size_t>(j)] * feature(j, a) * feature(j, b);
    if (a < K) normal(a, a) += ridge[static_cast<std::size_t>(a)];
  }
  std::vector<Mp100> intercept;
  for (int x = 0; x < v.size(1); ++x) {
    std::vector<Mp100> moment(static_cast<std::size_t>(K + 1));
    for (int a = 0; a <= K; ++a)
      for (int j = 0; j < n; ++j)
        moment[static_cast<std::size_t>(a)] += w[static_cast<std::size_t>(j)] * feature(j, a) * v(j, x);
    intercept.push_back(eliminated(normal, moment).back());
  }
  return intercept;
}

/// What head `head` of `own` has for a ridge, one number per row and dimension; `a` is a number, [H], [H][n] or
/// [H][n][K].
inline ExactMatrix ridge_of(const ExactArray& a, int own, int head, int n, int K) {
  const int heads = a.shape.empty() ? 1 : a.shape[0], block = a.shape.empty() ? 0 : head / (own / heads);
  const std::size_t size = a.data.size() / static_cast<std::size_t>(heads);
  const bool by_row = a.shape.size() > 1, by_dimension = a.shape.size() > 2;
  ExactMatrix ridge(n, K);
  for (int i = 0; i < n; ++i)
    for (int x = 0; x < K; ++x)
      ridge(i, x) = a.data[size * static_cast<std::size_t>(block) + static_cast<std::size_t>(by_dimension ? i * K + x
                                                                                             : by_row     ? i
                                                                                                          : 0)];
  return ridge;
}

/// The first `count` rows.
inline ExactMatrix first_rows(const ExactMatrix& m, int count) {
  ExactMatrix top(count, m.size(1));
  std::copy_n(m.data.begin(), top.data.size(), top.data.begin());
  return top;
}

inline std::vector<Mp100> row_of(const ExactMatrix& m, int i) {
  const auto from = m.data.begin() + static_cast<std::ptrdiff_t>(i) * m.size(1);
  return {from, from + m.size(1)};
}

/// The mean of every column.
inline std::vector<Mp100> column_means(const ExactMatrix& m) {
  std::vector<Mp100> mean(static_cast<std::size_t>(m.size(1)));
  for (std::size_t i = 0; i < m.data.size(); ++i) mean[i % mean.size()] += m.data[i] / m.size(0);
  return mean;
}

/// sum_j (a_j - abar)(b_j - bbar)^T, from the sums of products and the means.
inline ExactMatrix scatter(const ExactMatrix& a, const ExactMatrix& b) {
  ExactMatrix sum(a.size(1), b.size(1));
  const std::vector<Mp100> mean_a = column_means(a), mean_b = column_means(b);
  for (int x = 0; x < a.size(1); ++x)
    for (int y = 0; y < b.size(1); ++y) {
      for (int j = 0; j < a.size(0); ++j) sum(x, y) += a(j, x) * b(j, y);
      sum(x, y) -= a.size(0) * mean_a[static_cast<std::size_t>(x)] * mean_b[static_cast<std::size_t>(y)];
    }
  return sum;
}

/// The final means and scatters that the room has are those of plain sums.
inline std::string final_moments_are_sums(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p);
  for (int head = 0; head < H; ++head) {
    const ExactMatrix k = head_of(p.inputs.at("k"), H, head), v = head_of(p.inputs.at("v"), H, head);
    const std::pair<const char*, std::vector<Mp100>> want[] = {{"final_mean_k", column_means(k)},
                                                               {"final_mean_v", column_means(v)},
                                                               {"final_scatter_kk", scatter(k, k).data},
                                                               {"final_scatter_vk", scatter(v, k).data}};
    for (const auto& [name, numbers] : want) {
      if (!got.outputs.contains(name)) continue;
      std::string s = near(name, {{}, head_of(got.outputs.at(name), H, head).data}, {{}, numbers});
      if (!s.empty()) return s;
    }
  }
  return "";
}

/// Without cotangents of what the room carries or works out.
inline ExactProblem of_output_alone(ExactProblem problem) {
  std::erase_if(problem.cotangents, [](const auto& entry) { return entry.first != "o"; });
  return problem;
}

/// "" if both answers have the same output o, and the same gradients of those names.
inline std::string same_rows(const ExactAnswer& got, const ExactAnswer& want, const std::vector<std::string>& names) {
  if (std::string s = near("o", got.outputs.at("o"), want.outputs.at("o")); !s.empty()) return s;
  for (const std::string& name : names)
    if (std::string s = near("d" + name, got.gradients.at(name), want.gradients.at(name)); !s.empty()) return s;
  return "";
}

/// Every vector along the last axis turned by the Householder reflection along (1, 2, ..., K).
inline ExactArray reflected(ExactArray a) {
  const int K = a.shape.back();
  const Mp100 square = Mp100(K) * (K + 1) * (2 * K + 1) / 6;
  for (std::size_t first = 0; first < a.data.size(); first += static_cast<std::size_t>(K)) {
    Mp100 along = 0;
    for (int x = 0; x < K; ++x) along += (x + 1) * a.data[first + static_cast<std::size_t>(x)];
    for (int x = 0; x < K; ++x) a.data[first + static_cast<std::size_t>(x)] -= 2 * along / square * (x + 1);
  }
  return a;
}

/// The same ridge in every dimension: the first one's.
inline void make_isotropic(ExactArray& lambda) {
  if (lambda.shape.size() < 3) return;
  const auto K = static_cast<std::size_t>(lambda.shape[2]);
  for (std::size_t i = 0; i < lambda.data.size(); ++i) lambda.data[i] = lambda.data[i - i % K];
}

/// Another orthonormal basis of queries and keys changes no output, and turns their gradients (section 10). Needs a
/// ridge that is the same in all dimensions.
inline std::string keys_may_be_turned(const Room& room, const Problem& given) {
  ExactProblem plain = of_output_alone(exact(given));
  if (plain.inputs.contains("lambda")) make_isotropic(plain.inputs.at("lambda"));
  ExactProblem turned = plain;
  for (const char* name : {"q", "k", "rho"})
    if (turned.inputs.contains(name)) turned.inputs.at(name) = reflected(turned.inputs.at(name));
  const ExactAnswer a = answer(room, plain), b = answer(room, turned);
  if (std::string s = near("o", b.outputs.at("o"), a.outputs.at("o")); !s.empty()) return s;
  for (const char* name : {"q", "k", "rho"})
    if (a.gradients.contains(name))
      if (std::string s = near(name, b.gradients.at(name), reflected(a.gradients.at(name))); !s.empty()) return s;
  return near("dv", b.gradients.at("v"), a.gradients.at("v"));
}

}  // namespace assay::laws
