// Running: its bound contains the true error, and stays near the textbook's a-priori bound.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "proptests/oracles/scalars_inputs.hpp"

namespace assay::scalars {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class S>
S dot(const std::vector<double>& a, const std::vector<double>& b) {
  S sum(0);
  for (std::size_t i = 0; i < a.size(); ++i) sum += S(a[i]) * S(b[i]);
  return sum;
}
template <class S>
S horner(const std::vector<double>& coefficients, double x) {
  S value(0);
  for (const double c : coefficients) value = value * S(x) + S(c);
  return value;
}
/// x <- c / (x - d): errors pass through both sides of a division.
template <class S>
S continued_fraction(const std::vector<double>& c, const std::vector<double>& d) {
  S x(1);
  for (std::size_t i = 0; i < c.size(); ++i) x = S(c[i]) / (x - S(d[i]));
  return x;
}
template <class S>
S log_sum_exp(const std::vector<double>& scores) {
  using std::exp, std::log, std::sqrt, std::abs;
  S sum(0), largest(scores[0]);
  for (const double score : scores) largest = std::max(largest, S(score));
  for (const double score : scores) sum += exp(S(score) * S(0.1) - largest);
  return log(sqrt(sum) / S(3)) - abs(largest * S(-0.7));
}
/// Products that run into the subnormal range and back.
template <class S>
S through_underflow(const std::vector<double>& factors) {
  S product(1);
  for (const double f : factors) product *= S(f) * S(0x1p-100);
  for (std::size_t i = 0; i + 1 < factors.size(); ++i) product *= S(0x1p100);
  return product;
}

/// How much of the bound the true error uses; infinite when it uses more than all of it.
double used(const Running& got, const Mp100& truth) {
  const Mp100 error = abs(Mp100(got.value) - truth);
  if (error > Mp100(got.error) * u) return infinity;
  return error == 0 ? 0 : to_double(Mp100(error / (Mp100(got.error) * u)));
}

std::vector<double> draw_vector(Draw& draw, int size, int lowest, int highest) {
  std::vector<double> v(static_cast<std::size_t>(size));
  for (double& x : v) x = draw.real(lowest, highest);
  return v;
}

TEST(Running, BoundContainsTheErrorOfDotProductsAndKeepsToTheAPrioriBound) {
  Draw draw(1);
  double most = 0;
  for (int i = 0; i < 400; ++i) {
    const int n = 1 + i % 64;
    std::vector<double> a = draw_vector(draw, n, -3, 3);
    const std::vector<double> b = draw_vector(draw, n, -3, 3);
    // Every third product sum cancels down to rounding errors.
    if (i % 3 == 0) a[0] -= dot<double>(a, b) / b[0];
    const Running got = dot<Running>(a, b);
    ASSERT_EQ(got.value, dot<double>(a, b));
    const double share = used(got, dot<Mp100>(a, b));
    ASSERT_LE(share, 1);
    most = std::max(most, share);
    // Higham (3.5) gives n u sum |a b| / (1 - n u); the first addition, to zero, is charged here as well, and the
    // running bound's own rounding grows by 2^-49 in each of its 2 n steps.
    Mp100 sizes = 0;
    for (std::size_t k = 0; k < a.size(); ++k) sizes += abs(Mp100(a[k]) * b[k]);
    const double a_priori = (n + 1) / (1 - (n + 1) * u) * (1 + 2 * n * 0x1p-48);
    ASSERT_LE(Mp100(got.error), a_priori * sizes);
  }
  EXPECT_GT(most, 0);
}

TEST(Running, BoundContainsTheErrorOfHornerDivisionsAndTranscendentals) {
  Draw draw(2);
  double most[4] = {};
  for (int i = 0; i < 400; ++i) {
    const std::vector<double> c = draw_vector(draw, 2 + i % 12, -4, 4), d = draw_vector(draw, 2 + i % 12, -4, 4);
    const double x = draw.real(-3, 1);
    const std::vector<double> narrow = draw_vector(draw, 10 + i % 4, -1, 0);
    const double shares[] = {used(horner<Running>(c, x), horner<Mp100>(c, x)),
                             used(continued_fraction<Running>(c, d), continued_fraction<Mp100>(c, d)),
                             used(log_sum_exp<Running>(c), log_sum_exp<Mp100>(c)),
                             used(through_underflow<Running>(narrow), through_underflow<Mp100>(narrow))};
    for (std::size_t k = 0; k < 4; ++k) {
      ASSERT_LE(shares[k], 1) << "computation " << k << ", run " << i;
      most[k] = std::max(most[k], shares[k]);
    }
  }
  for (const double share : most) EXPECT_GT(share, 0);
}

TEST(Running, SecondOrderTermsCount) {
  // Operands known to within half of themselves: to first order the product would miss a quarter of it.
  const Running a(1, 0x1p52), product = a * a;
  EXPECT_GE(product.error * u, 1.5 * 1.5 - 1);
  // The quotient may be (3/2) / (1/2), the logarithm log(1/2), the root sqrt(1/2), the exponential e^(3/2).
  EXPECT_GE((a / a).error * u, 3 - 1);
  EXPECT_GE(log(a).error * u, 0x1.62e42fefa39efp-1);
  EXPECT_GE(sqrt(a).error * u, 1 - std::sqrt(0.5));
  EXPECT_GE(exp(a).error * u, 4.4816890703380645 - 2.7182818284590452);
  EXPECT_GE(exp(a * Running(8)).error * u, 162754.79141900392 - 2980.9579870417283);
  EXPECT_GE(sqrt(Running(0, 4)).error * u, 2 * 0x1p-26 / std::sqrt(2.0));
}

TEST(Running, SaysWhenThereIsNoBound) {
  EXPECT_EQ((Running(1) / Running(1, 0x1p53)).error, infinity);
  EXPECT_EQ(log(Running(1, 0x1p53)).error, infinity);
  EXPECT_EQ((Running(1e308) * Running(10)).error, infinity);
  EXPECT_EQ((Running(1e308, 1) + Running(1e308)).error, infinity);
  EXPECT_EQ((Running(infinity) - Running(infinity)).error, infinity);
  EXPECT_EQ((Running(1, infinity) * Running(2)).error, infinity);
  EXPECT_EQ((Running(1, infinity) / Running(infinity)).error, infinity);
  EXPECT_TRUE(isnan(Running(std::numeric_limits<double>::quiet_NaN()) * Running(0)));
}

TEST(Running, InfinitiesAndZerosThatAreExactStayExact) {
  const Running never(-infinity), some(0.3, 2);
  for (const Running& zero : {exp(never), exp(never + some), Running(0) * some, some / Running(infinity), -Running(0),
                              Running(0) / some, sqrt(Running(0)), Running(0) + Running(0)}) {
    EXPECT_EQ(zero.value, 0);
    EXPECT_EQ(zero.error, 0);
  }
  EXPECT_EQ(log(Running(0)).value, -infinity);
  EXPECT_EQ(log(Running(0)).error, 0);
  EXPECT_EQ(exp(log(Running(0)) + some), Running(0));
  // An underflowed zero is not an exact one.
  EXPECT_GT(exp(Running(-800)).error, 0);
  EXPECT_GT((Running(1e-200) * Running(1e-200)).error, 0);
}

}  // namespace
}  // namespace assay::scalars
