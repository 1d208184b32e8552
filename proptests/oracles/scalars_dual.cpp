// Dual numbers at their edges. That slopes are derivatives is the law backward_is_the_adjoint of every room
// (proptests/laws/reference_laws.cpp): gradients share no algebra with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "oracles/scalars/scalar.hpp"

namespace assay::scalars {
namespace {

using D = Dual<double>;
constexpr double infinite = std::numeric_limits<double>::infinity();

TEST(Dual, ConstantsHaveNoSlopeWhereDerivativesAreInfinite) {
  const D down(-infinite, 2), zero(0.0), constant(-infinite);
  EXPECT_EQ(exp(down).value, 0);
  EXPECT_EQ(exp(down).slope, 0);
  EXPECT_EQ(exp(constant + D(1, 3)).slope, 0);
  EXPECT_EQ(sqrt(zero).slope, 0);
  EXPECT_EQ(sqrt(D(0, 1)).slope, infinite);
  EXPECT_EQ((D(2) * down).slope, 4);
  EXPECT_EQ((down / D(2)).slope, 1);
  EXPECT_EQ(exp(Dual<Mp50>(Mp50(-infinite), Mp50(1))).slope, 0);
  EXPECT_EQ(exp(Dual<W2>(W2(-infinite), W2(1))).slope, 0);
}

TEST(Dual, AbsoluteValuesTurnTheSlopeOfNegativeOnes) {
  EXPECT_EQ(abs(D(-2, 3)).slope, -3);
  EXPECT_EQ(abs(D(2, 3)).slope, 3);
}

TEST(Dual, NanStaysNan) {
  const D bad(0.0, std::numeric_limits<double>::quiet_NaN());
  for (const D& x :
       {bad + D(1), bad * D(0), D(1) / (bad + D(1)), exp(bad), sqrt(bad + D(1)), abs(bad), log(bad + D(1))})
    EXPECT_TRUE(isnan(x));
  EXPECT_TRUE(isnan(D(0) / D(0)));
}

TEST(Dual, ComparesValuesOnly) {
  EXPECT_EQ(D(1, 5), D(1, -5));
  EXPECT_LT(D(1, 9), D(2, 0));
  EXPECT_GE(D(2), 2);
  EXPECT_NE(D(1), D(3));
  EXPECT_EQ(std::max(D(1, 7), D(0, 3)).slope, 7);
}

}  // namespace
}  // namespace assay::scalars
