#pragma once
// Sums of products along rows and columns of numbers. A scalar may have a way to all of them at once.
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "reference/core/columns.hpp"
#include "reference/core/tensor.hpp"

namespace assay {

/// `size` numbers, `step` apart.
template <class X>
struct Line {
  X* first;
  std::ptrdiff_t step;
  int size;

  X& operator[](int i) const { return first[i * step]; }
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions): as a pointer converts
  operator Line<const X>() const requires(!std::is_const_v<X>) { return {first, step, size}; }
};

/// Row i of a matrix.
template <class S>
Line<const S> line(const Tensor<S, 2>& a, int i) {
  return {a.data.data() + static_cast<std::ptrdiff_t>(i) * a.size(1), 1, a.size(1)};
}
template <class S>
Line<S> line(Tensor<S, 2>& a, int i) {
  return {a.data.data() + static_cast<std::ptrdiff_t>(i) * a.size(1), 1, a.size(1)};
}
template <class S>
Line<const S> column(const Tensor<S, 2>& a, int j) {
  return {a.data.data() + j, a.size(1), a.size(0)};
}
template <class S>
Line<S> column(Tensor<S, 2>& a, int j) {
  return {a.data.data() + j, a.size(1), a.size(0)};
}
template <class S>
Line<const S> column(const Columns<S>& a, int j) {
  return {a.size(0) > 0 ? &a(0, j) : nullptr, 1, a.size(0)};
}
template <class S>
Line<S> column(Columns<S>& a, int j) {
  return {a.column(j), 1, a.size(0)};
}
template <class S>
Line<const S> line(std::span<const S> x) {
  return {x.data(), 1, static_cast<int>(x.size())};
}
template <class S>
Line<const S> line(const std::vector<S>& x) {
  return {x.data(), 1, static_cast<int>(x.size())};
}
template <class S>
Line<S> line(std::vector<S>& x) {
  return {x.data(), 1, static_cast<int>(x.size())};
}

namespace detail {
/// The same whatever S is deduced from elsewhere.
template <class S>
using LineOf = std::type_identity_t<Line<S>>;
}  // namespace detail

/// sum += a_0 b_0 + a_1 b_1 + ...
template <class S>
void add_dot(S& sum, const detail::LineOf<const S>& a, const detail::LineOf<const S>& b) {
  if constexpr (requires { S::add_dot(sum, a, b); })
    S::add_dot(sum, a, b);
  else
    for (int i = 0; i < a.size; ++i) sum += a[i] * b[i];
}
template <class S>
void subtract_dot(S& sum, const detail::LineOf<const S>& a, const detail::LineOf<const S>& b) {
  if constexpr (requires { S::subtract_dot(sum, a, b); })
    S::subtract_dot(sum, a, b);
  else
    for (int i = 0; i < a.size; ++i) sum -= a[i] * b[i];
}

/// y_i += a x_i.
template <class S>
void add_scaled(const Line<S>& y, const std::type_identity_t<S>& a, const detail::LineOf<const S>& x) {
  if constexpr (requires { S::add_scaled(y, a, x); })
    S::add_scaled(y, a, x);
  else
    for (int i = 0; i < x.size; ++i) y[i] += a * x[i];
}
template <class S>
void subtract_scaled(const Line<S>& y, const std::type_identity_t<S>& a, const detail::LineOf<const S>& x) {
  if constexpr (requires { S::subtract_scaled(y, a, x); })
    S::subtract_scaled(y, a, x);
  else
    for (int i = 0; i < x.size; ++i) y[i] -= a * x[i];
}

template <class X, class S = std::remove_const_t<X>>
S dot(const Line<X>& a, const detail::LineOf<const S>& b) {
  S sum = S(0);
  add_dot(sum, a, b);
  return sum;
}
template <class S>
S dot(std::span<const S> a, std::span<const S> b) {
  return dot(line(a), line(b));
}
template <class S>
S dot(const std::vector<S>& a, const std::vector<S>& b) {
  return dot(line(a), line(b));
}

}  // namespace assay
