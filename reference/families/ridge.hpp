#pragma once
// The ridge lambda: one number, one per row, or one per row and dimension (lla-family.md sections 3, 7 and 12).
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "reference/core/error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/families/exact_rank.hpp"

namespace assay {

/// Where a causal ridge regression under equal weights has its lambda.
struct LambdaOptions {
  /// On the sums over the keys so far, or on their means.
  enum class Scaling { sum, mean };
  Scaling lambda_scaling = Scaling::sum;

  static constexpr std::string_view names[] = {"lambda_scaling"};
  static std::vector<Params> variants() { return {{}, {{"lambda_scaling", "mean"}}}; }

  static LambdaOptions read(const Params& params) {
    LambdaOptions o;
    OptionReader read(params);
    read("lambda_scaling", o.lambda_scaling, {{"sum", Scaling::sum}, {"mean", Scaling::mean}});
    return o;
  }
};

/// The inputs of such a regression.
template <class S>
struct RegressionInputs {
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

/// Element (i, a) of a tensor whose axes of extent 1 stand for all rows or dimensions.
template <class T>
auto& broadcast_at(T& tensor, int i, int a) {
  return tensor(tensor.size(0) == 1 ? 0 : i, tensor.size(1) == 1 ? 0 : a);
}

/// Refuses (DOMAIN) a ridge that is negative or not finite.
template <class S>
void check_ridge(const Tensor<S, 2>& lambda) {
  using std::isfinite;
  const bool by_row = lambda.size(0) > 1, by_dimension = lambda.size(1) > 1;
  for (int i = 0; i < lambda.size(0); ++i)
    for (int a = 0; a < lambda.size(1); ++a)
      require_domain(isfinite(lambda(i, a)) && lambda(i, a) >= S(0), by_row ? i : -1, "lambda",
                     by_row || by_dimension ? text("[", i, "]") : "", by_dimension ? text("[", a, "]") : "",
                     ": expected a finite number >= 0");
}

template <class S>
bool has_zero_ridge(const Tensor<S, 2>& lambda) {
  return std::find(lambda.data.begin(), lambda.data.end(), S(0)) != lambda.data.end();
}

/// The coordinates in [first, last) that row i leaves without a ridge.
template <class S>
std::vector<int> without_ridge(const Tensor<S, 2>& lambda, int i, int first, int last) {
  std::vector<int> list;
  for (int a = first; a < last; ++a)
    if (broadcast_at(lambda, i, a) == S(0)) list.push_back(a);
  return list;
}

/// Refuses (SINGULAR) row i unless its keys, taken from `from`, span the coordinates that have no ridge: then, and only
/// then, whatever positive weights the keys have, their second moment plus the ridge is invertible.
inline void require_spanned(int row, int rank, const std::vector<int>& coordinates, std::string_view from) {
  if (rank < static_cast<int>(coordinates.size()))
    throw Refusal(Status::singular, row,
                  text("lambda: zero in ", coordinates.size(), " dimensions of row ", row, ", where its keys less ",
                       from, " have rank ", rank));
}

}  // namespace assay
