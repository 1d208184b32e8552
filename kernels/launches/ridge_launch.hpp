#pragma once
// Shared launch code of the ridge regressions, on the host: how a problem's heads lie in memory, and how
// far its systems are to be solved. No formula of any room is here.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/attention.hpp"
#include "kernels/launches/ridge_rows.hpp"
#include "reference/core/problem.hpp"

namespace assay::tile {

/// Heads and lengths of a problem that has passed its room's door: q [T][K], k [T][K], v [T][V], each with or without a
/// head axis. Query head a reads key/value head a / group. Arrays without elements may lack their last axes.
struct RidgeShape {
  /// Where lambda is: on the sums over the keys so far, or on their means.
  enum class Scaling { sum, mean } scaling = Scaling::sum;
  bool head_axis;
  int heads = 1, kv_heads = 1, group = 1, len = 0, key_dim = 0, value_dim = 0;

  explicit RidgeShape(const Problem& problem) {
    const Array &q = problem.inputs.at("q"), &k = problem.inputs.at("k"), &v = problem.inputs.at("v");
    head_axis = q.shape.size() == 3 || k.shape.size() == 3 || v.shape.size() == 3;
    const std::size_t lead = head_axis ? 1 : 0;
    const auto widen = [lead](int& length, const Array& a, std::size_t axis) {
      if (lead + axis < a.shape.size()) length = std::max(length, a.shape[lead + axis]);
    };
    if (head_axis) heads = q.shape[0], kv_heads = k.shape[0], group = heads / kv_heads;
    widen(len, k, 0), widen(len, v, 0);
    widen(key_dim, q, 1), widen(key_dim, k, 1), widen(value_dim, v, 1);
    OptionReader read(problem.params);
    read("lambda_scaling", scaling, {{"sum", Scaling::sum}, {"mean", Scaling::mean}});
  }

  RidgeRows ridges() const { return {head_axis, heads, len, key_dim}; }

  /// A bound on the condition of the system of every head and row, sum_j k_j k_j^T + l or the same about the keys'
  /// mean: a sum over i keys has no eigenvalue beyond its trace, and the ridge on it is lambda or i lambda.
  std::vector<double> conditions(const Problem& problem) const {
    const std::vector<double>&k = problem.inputs.at("k").data, lambda = ridges().all(problem);
    std::vector<double> all(extent(heads) * extent(len));
    for (int head = 0; head < heads; ++head) {
      double trace = 0;
      for (int i = 0; i < len; ++i) {
        const double unit = scaling == Scaling::mean ? i + 1 : 1;
        double least = std::numeric_limits<double>::infinity(), most = 0;
        for (int a = 0; a < key_dim; ++a) {
          const double x = k[at(head / group, i, a)], l = unit * lambda[at(head, i, a)];
          trace += x * x, least = std::min(least, l), most = std::max(most, l);
        }
        all[extent(head) * extent(len) + extent(i)] = (trace + most) / least;
      }
    }
    return all;
  }

  /// When solutions are as good as vectors of `format` let them be: rounding x alone leaves residuals up to u |A| |x|
  /// >= u |b|, and an eighth of that does not show.
  template <class T>
  static T relative(Format format) {
    return static_cast<T>(format == Format::exact ? static_cast<double>(std::numeric_limits<T>::epsilon()) / 2
                                                  : unit_roundoff(format)) /
           8;
  }
  /// The steps of every row until then. Chebyshev polynomials need at most these, c the condition:
  ///   |r_t| <= 2 sqrt(c) ((sqrt(c) - 1) / (sqrt(c) + 1))^t |b|
  template <class T>
  std::vector<T> steps(const Problem& problem, T relative) const {
    const std::vector<double> c = conditions(problem);
    std::vector<T> all(c.size());
    std::transform(c.begin(), c.end(), all.begin(), [&](double condition) {
      const double root = std::sqrt(condition);
      return static_cast<T>(std::ceil(root / 2 * std::log(2 * root / static_cast<double>(relative))));
    });
    return all;
  }

 private:
  static std::size_t extent(int n) { return static_cast<std::size_t>(n); }
  std::size_t at(int head, int row, int dim) const {
    return (extent(head) * extent(len) + extent(row)) * extent(key_dim) + extent(dim);
  }
};

/// Beyond this condition nothing that fp64 accumulates is known to half its digits.
inline constexpr double largest_condition = 0x1p26;

/// Why the compiled dimensions cannot hold this problem, or conjugate gradients cannot solve it, or "".
inline std::string ridge_obstacle(const Problem& problem) {
  const RidgeShape shape(problem);
  if (const int d = std::max(shape.key_dim, shape.value_dim); d > max_head_dim)
    return text("K and V are compiled in up to ", max_head_dim, ", got ", d);
  const Array& lambda = problem.inputs.at("lambda");
  if (std::find(lambda.data.begin(), lambda.data.end(), 0) != lambda.data.end())
    return "lambda: conjugate gradients need a ridge in every dimension, got 0";
  const std::vector<double> all = shape.conditions(problem);
  const double condition = all.empty() ? 1 : *std::max_element(all.begin(), all.end());
  return condition <= largest_condition
             ? ""
             : text("lambda: too small for conjugate gradients: the condition may reach ", condition);
}

inline constexpr std::string_view ridge_tiles[] = {"32", "16"};

}  // namespace assay::tile
