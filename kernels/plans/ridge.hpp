#pragma once
// The inputs of the plans of the ridge regressions: a problem's systems, and how far they are to be solved.
#include <algorithm>
#include <vector>

#include "kernels/launches/ridge_launch.hpp"
#include "kernels/programs/ridge_solve.hpp"

namespace assay::tile {

template <class Device>
struct RidgeInputs {
  using Values = typename Device::Values;
  using Wide = typename Device::Wide;
  const Device& device;
  const RidgeShape& shape;
  const Problem& problem;
  const Values q, k, v, lambda, count, ridge_unit;  ///< count: 1, 2, ... for every row

  RidgeInputs(const Device& on, const RidgeShape& s, const Problem& what)
      : device(on),
        shape(s),
        problem(what),
        q(on.template input<"Q">(what.inputs, "q", s.heads, s.len, s.key_dim)),
        k(on.template input<"K">(what.inputs, "k", s.kv_heads, s.len, s.key_dim)),
        v(on.template input<"V">(what.inputs, "v", s.kv_heads, s.len, s.value_dim)),
        lambda(on.template array<"lambda">(s.heads, s.len, s.key_dim, s.ridges().all(what))),
        count(on.template array<"lunit">(1, s.len, 1, counted(s.len, 1))),
        ridge_unit(
            on.template array<"lunit">(1, s.len, 1, counted(s.len, s.scaling == RidgeShape::Scaling::mean ? 1 : 0))),
        relative_(RidgeShape::relative<Wide>(on.template format<"R">())),
        steps_(on.template array<"left">(s.heads, s.len, 1, steps())) {}

  template <class B>
  SolveLimits<B> limits() const {
    return {static_cast<typename Device::Real>(relative_), steps_.row_in()};
  }
  /// The gradient of lambda as it was given.
  Array ridge_gradient(const Values& of_rows) const { return shape.ridges().gradient(problem, device.values(of_rows)); }

 private:
  /// 1, 1 + step, ... for every row.
  static std::vector<double> counted(int n, int step) {
    std::vector<double> list(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = 1 + static_cast<double>(i) * step;
    return list;
  }
  std::vector<Wide> steps() const {
    std::vector<Wide> all = shape.steps(problem, relative_);
    if (device.planted("few_steps"_s, false, true)) std::fill(all.begin(), all.end(), Wide(4));
    return all;
  }

  Wide relative_;
  Values steps_;
};

}  // namespace assay::tile
