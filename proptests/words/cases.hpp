#pragma once
// Cases for the fast engines: seeded, the same bits everywhere, in the styles that make recurrences and solves hard.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "oracles/multiword/certified.hpp"
#include "oracles/multiword/word_ball.hpp"
#include "oracles/scalars/precise.hpp"

namespace assay::words {

using WordCounts =
    testing::Types<std::integral_constant<int, 2>, std::integral_constant<int, 3>, std::integral_constant<int, 4>>;

/// mt19937_64 is fixed by the standard to the bit; the library's distributions are not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits_() % n); }
  /// Uniform in [-1, 1), 53 bits.
  double real() { return std::ldexp(static_cast<double>(bits_() >> 11), -52) - 1; }
  /// About standard normal: four uniforms.
  double normal() {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += real();
    return sum * 0.8660254037844386;
  }
  std::vector<double> normals(std::size_t n) {
    std::vector<double> x(n);
    for (double& e : x) e = normal();
    return x;
  }

 private:
  std::mt19937_64 bits_;
};

inline Mp200 middle(const WordBall& x) {
  Mp200 sum = 0;
  for (const double w : x.word) sum += w;
  return sum;
}

enum class KeyStyle { normal, unit, correlated, repeated, outlier, graded, offset, tiny };
inline constexpr KeyStyle all_key_styles[] = {KeyStyle::normal,   KeyStyle::unit,    KeyStyle::correlated,
                                              KeyStyle::repeated, KeyStyle::outlier, KeyStyle::graded,
                                              KeyStyle::offset,   KeyStyle::tiny};

/// n keys of dimension d, [n, d].
inline std::vector<double> keys_in(KeyStyle style, std::size_t n, std::size_t d, Random& random) {
  std::vector<double> k = random.normals(n * d), common = random.normals(d);
  for (std::size_t j = 0; j < n; ++j) {
    double length = 0;
    for (std::size_t a = 0; a < d; ++a) {
      double& x = k[j * d + a];
      if (style == KeyStyle::correlated) x = common[a] + 0.1 * x;
      if (style == KeyStyle::repeated && j >= 3) x = k[(j % 3) * d + a];
      if (style == KeyStyle::outlier && a == 0) x *= 30;
      // Spectrum from 1 down to 2^-12: kappa(A) of 2^24 and more.
      if (style == KeyStyle::graded) x = std::ldexp(x, -static_cast<int>(12 * a / d));
      if (style == KeyStyle::offset) x += 20;
      if (style == KeyStyle::tiny) x = std::ldexp(x, -300);
      length += x * x;
    }
    if (style == KeyStyle::unit)
      for (std::size_t a = 0; a < d; ++a) k[j * d + a] /= std::sqrt(length);
  }
  return k;
}

/// Entry i, exactly.
inline Mp100 value(const Certified& x, std::size_t i) {
  Mp100 sum = 0;
  for (int w = 0; w < x.words; ++w) sum += x.word[w][i];
  return sum;
}

/// The truth lies within the bound everywhere; `truth(i)` is entry i and what it may be off by itself.
template <class Truth>
void expect_contained(const Certified& x, Truth&& truth, const char* what) {
  for (std::size_t i = 0; i < x.bound.size(); ++i) {
    const auto [exact, slack] = truth(i);
    const Mp100 error = abs(value(x, i) - exact);
    ASSERT_LE(error, Mp100(x.bound[i]) + slack) << what << " entry " << i << " of " << x.rows << " x " << x.columns
                                                << ": error " << static_cast<double>(error) << ", bound " << x.bound[i];
  }
}

/// Every entry of `coarse` lies within both bounds of the same entry of `fine`.
inline void expect_agree(const Certified& coarse, const Certified& fine, const char* what) {
  expect_contained(
      coarse, [&](std::size_t i) { return std::pair(value(fine, i), Mp100(fine.bound[i])); }, what);
}

/// The largest bound, relative to the largest entry; 0 of nothing.
inline double worst(const Certified& x) {
  double largest = 0x1p-500, bound = 0;
  for (const double e : x.word[0]) largest = std::max(largest, std::fabs(e));
  for (const double b : x.bound) bound = std::max(bound, b);
  return bound / largest;
}

/// Words and bounds, bit for bit; which NaN stands where nothing is known is the machine's choice.
inline bool same_bits(const Certified& a, const Certified& b) {
  const auto same = [](const std::vector<double>& x, const std::vector<double>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](double s, double t) { return s == t || (std::isnan(s) && std::isnan(t)); });
  };
  bool all = same(a.bound, b.bound);
  for (int w = 0; w < 4; ++w) all = all && same(a.word[w], b.word[w]);
  return all;
}

/// Runs f(effort) for every instruction set of this machine and for one and three threads.
template <class F>
void for_each_way(int words, F&& f) {
  for (const Isa isa : all_isas)
    for (const int threads : {1, 3})
      if (supported(isa)) f(Effort{words, threads, isa});
}

}  // namespace assay::words
