#include "reference/errors/error_shape.hpp"

#include <cmath>

namespace assay {
namespace {

template <std::size_t N>
using Lanes = std::array<double, N>;

template <std::size_t N, class F>
inline Lanes<N> each(F&& f) {
  Lanes<N> r;
  for (std::size_t n = 0; n < N; ++n) r[n] = f(n);
  return r;
}

/// 1 + the 2-norm.
template <std::size_t N>
Lanes<N> length_of(const std::vector<Lanes<N>>& v) {
  Lanes<N> squares{};
  for (const Lanes<N>& x : v)
    for (std::size_t n = 0; n < N; ++n) squares[n] += x[n] * x[n];
  return each<N>([&](std::size_t n) { return 1 + std::sqrt(squares[n]); });
}

/// Relative to the sizes of its terms, what a step of blocks of that size misses.
double unit_of(int size) { return (2.0 * size + 64) * 0x1p-52; }
/// What underflows.
constexpr double floor = 0x1p-900;

}  // namespace

template <std::size_t N>
ErrorShape<N>::ErrorShape(int size)
    : size_(size), own_{Vector(at(size, 0)), Vector(at(size, 0))}, cross_(at(size, 0)) {}

template <std::size_t N>
typename ErrorShape<N>::Lanes ErrorShape<N>::write(int to, const Lanes& a, const Lanes& c, const Vector& u,
                                                   const Vector& v) {
  const int other = 1 - to;
  const Lanes before = trace(), u_length = length_of<N>(u), v_length = length_of<N>(v);
  const Vector y = times(other, v);
  Vector w(v.size()), cu(v.size());
  for (int i = 0; i < size_; ++i) {
    const auto row = static_cast<std::size_t>(i);
    Lanes sum{};
    for (int l = 0; l < size_; ++l) {
      const Lanes &q = cross(to, i, l), &x = v[static_cast<std::size_t>(l)];
      for (std::size_t n = 0; n < N; ++n) sum[n] += q[n] * x[n];
    }
    cu[row] = each<N>([&](std::size_t n) { return c[n] * u[row][n]; });
    w[row] = each<N>([&](std::size_t n) { return a[n] * sum[n]; });
  }
  const Lanes square = quadratic(v, y), aa = each<N>([&](std::size_t n) { return a[n] * a[n]; });
  // w + (v . y) / 2 c u on either side: one product for both terms and their square.
  Lanes half{};
  for (std::size_t i = 0; i < v.size(); ++i)
    for (std::size_t n = 0; n < N; ++n) half[n] += v[i][n] * y[i][n];
  for (std::size_t i = 0; i < v.size(); ++i)
    for (std::size_t n = 0; n < N; ++n) w[i][n] += 0.5 * half[n] * cu[i][n];
  for (int i = 0; i < size_; ++i)
    for (int l = 0; l < size_; ++l) {
      const auto I = static_cast<std::size_t>(i), L = static_cast<std::size_t>(l);
      Lanes& q = own_[static_cast<std::size_t>(to)][at(i, l)];
      q = each<N>([&](std::size_t n) { return aa[n] * q[n] + (w[I][n] * cu[L][n] + cu[I][n] * w[L][n]); });
      Lanes& x = cross(to, i, l);
      x = each<N>([&](std::size_t n) { return a[n] * x[n] + cu[I][n] * y[L][n]; });
    }
  widen(before,
        each<N>([&](std::size_t n) { return 1 + std::abs(a[n]) + std::abs(c[n]) * u_length[n] * v_length[n]; }));
  return square;
}

template <std::size_t N>
void ErrorShape<N>::mix(int to, const Lanes& a, const Lanes& b) {
  const Lanes before = trace();
  Vector &own = own_[static_cast<std::size_t>(to)], &other = own_[static_cast<std::size_t>(1 - to)];
  const Lanes aa = each<N>([&](std::size_t n) { return a[n] * a[n]; }),
              ab = each<N>([&](std::size_t n) { return a[n] * b[n]; }),
              bb = each<N>([&](std::size_t n) { return b[n] * b[n]; });
  for (int i = 0; i < size_; ++i)
    for (int l = 0; l < size_; ++l) {
      const Lanes &x = cross_[at(i, l)], &y = cross_[at(l, i)], &z = other[at(i, l)];
      Lanes& q = own[at(i, l)];
      q = each<N>([&](std::size_t n) { return aa[n] * q[n] + ab[n] * (x[n] + y[n]) + bb[n] * z[n]; });
    }
  for (std::size_t k = 0; k < cross_.size(); ++k) {
    Lanes& x = cross_[k];
    const Lanes& z = other[k];
    x = each<N>([&](std::size_t n) { return a[n] * x[n] + b[n] * z[n]; });
  }
  widen(before, each<N>([&](std::size_t n) { return 1 + std::abs(a[n]) + std::abs(b[n]); }));
}

template <std::size_t N>
void ErrorShape<N>::scale(const Lanes& f) {
  const Lanes before = trace();
  for (Vector* q : {own_.data(), own_.data() + 1, &cross_})
    for (Lanes& x : *q)
      for (std::size_t n = 0; n < N; ++n) x[n] *= f[n] * f[n];
  widen(before, f, each<N>([](std::size_t) { return floor; }));
}

template <std::size_t N>
void ErrorShape<N>::add(const Lanes& length) {
  widen({}, {}, each<N>([&](std::size_t n) { return length[n] > 0 ? length[n] * length[n] + floor : length[n]; }));
}

template <std::size_t N>
typename ErrorShape<N>::Lanes ErrorShape<N>::along(int block, const Vector& v) const {
  return quadratic(v, times(block, v));
}

template <std::size_t N>
typename ErrorShape<N>::Lanes ErrorShape<N>::largest(int block) const {
  Lanes r{};
  for (int i = 0; i < size_; ++i) {
    const Lanes& q = own_[static_cast<std::size_t>(block)][at(i, i)];
    for (std::size_t n = 0; n < N; ++n) r[n] = r[n] >= q[n] ? r[n] : q[n] + 0 * r[n];
  }
  return each<N>([&](std::size_t n) { return std::sqrt(r[n]) * (1 + 0x1p-50); });
}

template <std::size_t N>
typename ErrorShape<N>::Vector ErrorShape<N>::times(int block, const Vector& v) const {
  Vector y(v.size());
  for (int i = 0; i < size_; ++i) {
    Lanes sum{};
    for (int l = 0; l < size_; ++l) {
      const Lanes &q = own_[static_cast<std::size_t>(block)][at(i, l)], &x = v[static_cast<std::size_t>(l)];
      for (std::size_t n = 0; n < N; ++n) sum[n] += q[n] * x[n];
    }
    y[static_cast<std::size_t>(i)] = sum;
  }
  return y;
}

/// The root of v^T Q v, Qv as computed.
template <std::size_t N>
typename ErrorShape<N>::Lanes ErrorShape<N>::quadratic(const Vector& v, const Vector& Qv) const {
  Lanes sum{};
  for (std::size_t i = 0; i < v.size(); ++i)
    for (std::size_t n = 0; n < N; ++n) sum[n] += v[i][n] * Qv[i][n];
  const Lanes t = trace(), length = length_of<N>(v);
  return each<N>([&](std::size_t n) {
    if (t[n] == 0) return 0.0;
    const double missed = (unit_of(size_) * t[n] + floor) * length[n] * length[n];
    return std::sqrt(std::abs(sum[n]) + missed) * (1 + 0x1p-50);
  });
}

template <std::size_t N>
typename ErrorShape<N>::Lanes ErrorShape<N>::trace() const {
  Lanes sum{};
  for (const Vector& q : own_)
    for (int i = 0; i < size_; ++i)
      for (std::size_t n = 0; n < N; ++n) sum[n] += q[at(i, i)][n];
  return sum;
}

template <std::size_t N>
void ErrorShape<N>::widen(const Lanes& trace, const Lanes& factor, const Lanes& more) {
  const Lanes all = each<N>([&](std::size_t n) {
    if (trace[n] == 0) return more[n];
    return (unit_of(size_) * trace[n] + floor) * factor[n] * factor[n] + more[n];
  });
  for (Vector& q : own_)
    for (int i = 0; i < size_; ++i) {
      Lanes& x = q[at(i, i)];
      x = each<N>([&](std::size_t n) { return (x[n] + all[n]) * (1 + 0x1p-50); });
    }
}

template class ErrorShape<1>;
template class ErrorShape<8>;

}  // namespace assay
