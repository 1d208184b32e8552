#include "kernels/host/host_math.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/core/tile.hpp"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define ASSAY_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ASSAY_CLONES
#endif

namespace assay::tile {

ASSAY_CLONES void multiply_add(double* c, const double* a, const double* b, int depth, int cols) {
  for (int k = 0; k < depth; ++k) {
    const double x = a[k];
    const double* row = b + static_cast<long>(k) * cols;
    for (int j = 0; j < cols; ++j) c[j] += x * row[j];
  }
}

void multiply_add(long double* c, const long double* a, const long double* b, int depth, int cols) {
  for (int k = 0; k < depth; ++k)
    for (int j = 0; j < cols; ++j) c[j] += a[k] * b[static_cast<long>(k) * cols + j];
}

namespace {

constexpr long double ln2 = 0.693147180559945309417232121458176568L;

/// ln(2)^i / i!, i <= degree.
template <class T, std::size_t degree>
constexpr std::array<T, degree + 1> exp2_coefficients() {
  std::array<T, degree + 1> c{};
  long double term = 1;
  for (std::size_t i = 0; i <= degree; ++i) {
    c[i] = static_cast<T>(term);
    term *= ln2 / static_cast<long double>(i + 1);
  }
  return c;
}

/// x 2^n. A factor of two that is a normal double is exact, and saves the call.
template <class T>
T scaled(T x, int n) {
  if (n < -1000 || n > 1000) return std::ldexp(x, n);
  return x * static_cast<T>(std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52));
}

/// 2^x = 2^n e^(f ln 2), |f| <= 1/2, Taylor until the next term is below the last bit: |f ln 2|^degree / degree!.
template <std::size_t degree, class T>
T exp2_series(T x) {
  static constexpr std::array<T, degree + 1> c = exp2_coefficients<T, degree>();
  if (!(x > T(-20000))) return x != x ? x : T(0);
  if (x > T(20000)) return std::numeric_limits<T>::infinity();
  const T n = std::rint(x), f = x - n;
  T sum = c[degree];
  for (std::size_t i = degree; i-- > 0;) sum = sum * f + c[i];
  return scaled(sum, static_cast<int>(n));
}

/// log2 x = e + 2/ln 2 artanh((m - 1)/(m + 1)), m in [sqrt(1/2), sqrt(2)): the argument is at most 0.1716.
template <class T>
T log2_series(T x, int terms) {
  if (!(x > T(0))) return x == T(0) ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::quiet_NaN();
  if (x == std::numeric_limits<T>::infinity()) return x;
  int e = 0;
  T m = std::frexp(x, &e);
  if (m * m < T(0.5)) m *= T(2), --e;
  const T f = (m - T(1)) / (m + T(1)), f2 = f * f;
  T sum = T(0);
  for (int i = terms - 1; i >= 0; --i) sum = sum * f2 + T(1) / T(2 * i + 1);
  return T(e) + T(2) * f * sum / static_cast<T>(ln2);
}

}  // namespace

// 0.3466^14 / 14! = 4e-18 and 0.3466^18 / 18! = 8e-25; 0.1716^(2 * 11) = 1.5e-17 and 0.1716^(2 * 15) = 1e-23.
double ex2(double x) { return exp2_series<13>(x); }
long double ex2(long double x) { return exp2_series<17>(x); }
double lg2(double x) { return log2_series(x, 11); }
long double lg2(long double x) { return log2_series(x, 15); }

}  // namespace assay::tile
