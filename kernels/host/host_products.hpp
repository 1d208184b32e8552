#pragma once
// The products of HostBlock, rounded as often as a tensor core's, and the triangular inverse.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/tensor_core.hpp"
#include "kernels/host/host_registers.hpp"

namespace assay::tile {

template <class T>
class HostProducts : public HostRegisters<T> {
 public:
  using Base = HostRegisters<T>;
  using Base::acc, Base::Base, Base::format_of, Base::reads, Base::round, Base::round_as, Base::touch, Base::writes;
  template <Size R, Size C>
  using Acc = HostAcc<T, R, C>;

  template <class St, class A, class Bt>
  auto abt(St st, A& a, Bt& bt) {
    auto c = acc(st, Shape<A::rows, Bt::rows>{});
    mma_abt(c, a, bt);
    return c;
  }
  template <class S1, class S2, class A1, class A2, class Bt>
  auto abt(S1 s1, S2 s2, A1& a1, A2& a2, Bt& bt) {
    auto first = abt(s1, a1, bt), second = abt(s2, a2, bt);
    return Two<decltype(first), decltype(second)>{std::move(first), std::move(second)};
  }
  template <class St, class A, class Bt>
  auto ab(St st, A& a, Bt& bt) {
    auto c = acc(st, Shape<A::rows, Bt::cols>{});
    mma(c, a, bt);
    return c;
  }
  template <class St, class A, class Bt>
  auto atb(St st, A& a, Bt& bt) {
    auto c = acc(st, Shape<A::cols, Bt::cols>{});
    mma_atb(c, a, bt);
    return c;
  }
  template <class Cc, class A, class Bt>
  void mma_abt(Cc& c, A& a, Bt& b) {  // C += A B^T
    static_assert(same_size(A::cols, Bt::cols) && same_size(Cc::cols, Bt::rows));
    touch(a), touch(b);
    product(c, A::cols, a.v.data(), transpose(b.v, Bt::rows, Bt::cols).data(), common_format(a, b));
  }
  template <class Cc, class A, class Bt>
  void mma(Cc& c, A&& a, Bt& b) {  // C += A B
    static_assert(same_size(std::remove_reference_t<A>::cols, Bt::rows) && same_size(Cc::cols, Bt::cols));
    touch(a), touch(b);
    product(c, Bt::rows, a.v.data(), b.v.data(), common_format(a, b));
  }
  template <class C1, class A1, class C2, class A2, class Bt>
  void mma(C1& c1, A1&& a1, C2& c2, A2&& a2, Bt& b) {
    mma(c1, a1, b);
    mma(c2, a2, b);
  }
  template <class Cc, class A, class Bt>
  void mma_atb(Cc& c, A& a, Bt& b) {  // C += A^T B
    static_assert(same_size(A::rows, Bt::rows) && same_size(Cc::rows, A::cols) && same_size(Cc::cols, Bt::cols));
    touch(a), touch(b);
    product(c, A::rows, transpose(a.v, A::rows, A::cols).data(), b.v.data(), common_format(a, b));
  }

  // Of the pairs of a level alone: for each half of rows, a product of blocks.
  template <class Cc, class A, class Bt>
  void mma_abt(Level level, Cc& c, A& a, Bt& b) {
    touch(a), touch(b);
    const int D = A::cols, N = Cc::cols;
    each_half(level, N, [&](int i0, int j0, int n) {
      const std::vector<T> columns = transpose({b.v.begin() + j0 * D, b.v.begin() + (j0 + n) * D}, n, D);
      std::vector<T> sums = block(c.v, N, i0, j0, n);
      product_of(sums.data(), c.site, c.format, {n, D, n}, &a.v[idx(i0 * D)], columns.data(), common_format(a, b));
      for (int r = 0; r < n; ++r) std::copy_n(&sums[idx(r * n)], n, &c.v[idx((i0 + r) * N + j0)]);
    });
  }
  template <class C1, class A1, class C2, class A2, class Bt>
  void mma_abt(Level level, C1& c1, A1& a1, C2& c2, A2& a2, Bt& b) {
    mma_abt(level, c1, a1, b);
    mma_abt(level, c2, a2, b);
  }
  template <class Cc, class A, class Bt>
  void mma(Level level, Cc& c, A& a, Bt& b) {
    touch(a), touch(b);
    const int N = Cc::cols;
    each_half(level, A::cols, [&](int i0, int j0, int n) {
      product_of(&c.v[idx(i0 * N)], c.site, c.format, {n, n, N}, block(a.v, A::cols, i0, j0, n).data(),
                 &b.v[idx(j0 * N)], common_format(a, b));
    });
  }
  template <class Cc, class A, class Bt>
  void mma_atb(Level level, Cc& c, A& a, Bt& b) {
    touch(a), touch(b);
    const int N = Cc::cols;
    each_half(level, A::cols, [&](int i0, int j0, int n) {
      product_of(&c.v[idx(j0 * N)], c.site, c.format, {n, n, N}, transpose(block(a.v, A::cols, i0, j0, n), n, n).data(),
                 &b.v[idx(i0 * N)], common_format(a, b));
    });
  }

  // Asynchronous products: the accumulator is poisoned until awaited.
  template <class St, class A, class Bt>
  auto abt_async(St st, A& a, Bt& bt) {
    auto c = abt(st, a, bt);
    hide(c);
    return c;
  }
  template <class Cc, class A, class Bt>
  void mma_async(Cc& c, A& a, Bt& b) {
    mma(c, a, b);
    hide(c);
  }
  template <class Cc>
  void await(Cc& c) {
    if (c.landing.empty()) throw HazardError("await of a product that is not in flight");
    c.v.swap(c.landing), c.landing.clear();
  }
  template <class F>
  auto exclusive(F f) {
    return f();
  }

  /// d = (I + a)^{-1} for a strictly lower, by forward substitution. Takes a's memory.
  template <class St, class Dst, class Src>
  void unit_lower_inverse(St, Dst& d, Src& a) {
    const int N = Src::rows;
    reads(a), writes(d);
    std::vector<T> x(idx(N) * idx(N), T(0));
    const Format f = format_of(St::name());
    for (int i = 0; i < N; ++i) {
      T* xi = &x[idx(i * N)];
      for (int k = 0; k < i; ++k) {
        const T factor = a.v[idx(i * N + k)];
        const T* xk = &x[idx(k * N)];
        for (int j = 0; j <= k; ++j) xi[j] -= factor * xk[j];
        round_as(St::name(), f, xi, idx(k + 1));
      }
      xi[i] = 1;
    }
    a.v.assign(a.v.size(), std::numeric_limits<T>::quiet_NaN());
    d.v = std::move(x);
    round(Dst::site, d.v.data(), d.v.size());
  }

 protected:
  using Base::policy_, Base::random_;

 private:
  template <class Cc>
  void hide(Cc& c) {
    if (!c.landing.empty()) throw HazardError("product issued on an accumulator in flight");
    c.landing.assign(c.v.size(), std::numeric_limits<T>::quiet_NaN()), c.landing.swap(c.v);
  }
  static std::vector<T> transpose(const std::vector<T>& a, int rows, int cols) {
    std::vector<T> t(a.size());
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c) t[idx(c * rows + r)] = a[idx(r * cols + c)];
    return t;
  }
  /// f(first row i, first row j, n) for every n by n pairs of a level in N rows.
  template <class F>
  static void each_half(Level level, int N, F f) {
    for (int j0 = 0; j0 < N; j0 += imax(1, 2 * level.h)) f(j0 + level.h, j0, imax(1, level.h));
  }
  static std::vector<T> block(const std::vector<T>& a, int cols, int row0, int col0, int n) {
    std::vector<T> x(idx(n * n));
    for (int r = 0; r < n; ++r) std::copy_n(&a[idx((row0 + r) * cols + col0)], n, &x[idx(r * n)]);
    return x;
  }
  template <class X>
  Format format_of_factor(const X& x) const {
    if constexpr (requires { x.format; })
      return x.format;
    else
      return format_of(X::site);
  }
  /// That of both factors, or exact if they have none in common: then no tensor core takes them.
  template <class A, class Bt>
  Format common_format(const A& a, const Bt& b) const {
    const Format left = format_of_factor(a);
    return left == format_of_factor(b) ? left : Format::exact;
  }
  template <class Cc>
  void product(Cc& c, int depth, const T* a, const T* b, Format factors) {
    product_of(c.v.data(), c.site, c.format, {Cc::rows, depth, Cc::cols}, a, b, factors);
  }
  struct Extents {
    int rows, depth, cols;
  };
  /// c += a b, every sum rounded at its site.
  void product_of(T* c, std::string_view site, Format format, Extents n, const T* a, const T* b, Format factors) {
    const int step = format != Format::exact ? policy_.products : n.depth;
    if constexpr (std::is_same_v<T, double>)
      if (tensor_core_ != nullptr && format == Format::fp32 && tensor_core_->takes(factors)) {
        for (int r = 0; r < n.rows; ++r)
          for (int k = 0; k < n.depth; k += step)
            tensor_core_->multiply_add(c + r * n.cols, a + r * n.depth + k, b + k * n.cols, imin(step, n.depth - k),
                                       n.cols, factors);
        return;
      }
    if constexpr (std::is_same_v<T, long double>)
      if (step == 1 && format == Format::fp64 && policy_.stats == nullptr &&
          add_products_in_fp64(c, a, b, n.rows, n.depth, n.cols, policy_.rounding, random_))
        return;
    for (int r = 0; r < n.rows; ++r) {
      T* o = c + r * n.cols;
      for (int k = 0; k < n.depth; k += step) {
        multiply_add(o, a + r * n.depth + k, b + k * n.cols, imin(step, n.depth - k), n.cols);
        if (format != Format::exact) round_as(site, format, o, idx(n.cols));
      }
    }
  }

  const TensorCore* tensor_core_ = TensorCoreEmulation::current();
};

}  // namespace assay::tile
