#pragma once
// What the launch code of the ridge regressions shares on the device.
#include <string>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/launches/ridge_launch.hpp"

namespace assay::tile {

/// The inputs of a problem's systems, and how far they are to be solved.
template <class P>
struct DeviceRidge {
  const RidgeShape& shape;
  DeviceArray q, k, v, lambda, count, ridge_unit, steps;
  typename P::Real relative;

  DeviceRidge(const RidgeShape& s, const Problem& problem)
      : shape(s),
        q(upload<P, "Q">(problem.inputs, "q", s.heads, s.len, s.key_dim)),
        k(upload<P, "K">(problem.inputs, "k", s.kv_heads, s.len, s.key_dim)),
        v(upload<P, "V">(problem.inputs, "v", s.kv_heads, s.len, s.value_dim)),
        lambda(format_of<P, "lambda">, s.heads, s.len, s.key_dim, s.ridges<double>(problem).data),
        count(format_of<P, "lunit">, 1, s.len, 1, counted(s.len, 1)),
        ridge_unit(format_of<P, "lunit">, 1, s.len, 1, counted(s.len, s.scaling == RidgeShape::Scaling::mean ? 1 : 0)),
        steps(format_of<P, "left">, s.heads, s.len, 1, s.steps<double>(problem, tolerance()).data),
        relative(real<P>(tolerance())) {}

  template <class B>
  SolveLimits<B> limits() const {
    return {relative, row_in<B>(steps)};
  }
  std::vector<int> array_shape(int heads, int rows, int cols) const {
    return HostShape{shape.head_axis, shape.heads, shape.kv_heads}.shape(heads, {rows, cols});
  }
  /// The gradient of lambda as it was given.
  Array ridge_gradient(const Problem& problem, const DeviceArray& of_rows) const {
    auto all = shape.output<double>(shape.heads, shape.len, shape.key_dim);
    all.data = of_rows.values();
    return shape.ridge_gradient(problem, all);
  }

 private:
  static double tolerance() { return RidgeShape::relative<double>(format_of<P, "R">); }
  /// 1, 1 + step, ... for every row.
  static std::vector<double> counted(int n, int step) {
    std::vector<double> list(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = 1 + static_cast<double>(i) * step;
    return list;
  }
};

}  // namespace assay::tile
