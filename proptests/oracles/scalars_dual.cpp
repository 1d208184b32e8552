// Dual against derivatives written by hand.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "proptests/oracles/scalars_inputs.hpp"

namespace assay::scalars {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// A function, its derivative by hand, and the operations that Dual spends on it, value and slope together.
struct Example {
  std::string name;
  std::function<Dual<Mp50>(const Dual<Mp50>&)> function;
  std::function<Mp100(const Mp100&)> value, derivative;
  /// At least the sum of the sizes of all terms of value and derivative, factors and quotients expanded.
  std::function<Mp100(const Mp100&)> magnitude;
  int operations;
};

using D = Dual<Mp50>;
using M = Mp100;

const std::vector<Example>& examples() {
  static const std::vector<Example> all{
      {"polynomial", [](const D& x) { return (D(3) * x - D(2)) * x * x + D(7); },
       [](const M& x) { return (3 * x - 2) * x * x + 7; }, [](const M& x) { return (9 * x - 4) * x; },
       [](const M& x) { return (9 * abs(x) + 4) * abs(x) * (1 + abs(x)) + 7; }, 14},
      {"rational", [](const D& x) { return (x * x - 1) / (x * x * x * x + 2); },
       [](const M& x) { return (x * x - 1) / (x * x * x * x + 2); },
       [](const M& x) {
         const M bottom = x * x * x * x + 2;
         return (2 * x * bottom - (x * x - 1) * 4 * x * x * x) / (bottom * bottom);
       },
       [](const M& x) {
         const M bottom = x * x * x * x + 2, top = x * x + 1;
         return top / bottom + 2 * abs(x) / bottom + top * 4 * abs(x * x * x) / (bottom * bottom);
       },
       20},
      {"gaussian", [](const D& x) { return exp(-(x * x) / 2); }, [](const M& x) { return M(exp(-(x * x) / 2)); },
       [](const M& x) { return M(-x * exp(-(x * x) / 2)); },
       // exp multiplies the relative error of its argument by the argument.
       [](const M& x) { return M((1 + abs(x)) * (1 + x * x) * exp(-(x * x) / 2)); }, 10},
      {"softplus", [](const D& x) { return log(1 + exp(x)); }, [](const M& x) { return M(log(1 + exp(x))); },
       [](const M& x) { return M(1 / (1 + exp(-x))); }, [](const M& x) { return M(2 + abs(x)); }, 10},
      {"norm", [](const D& x) { return sqrt(x * x + 1); }, [](const M& x) { return M(sqrt(x * x + 1)); },
       [](const M& x) { return M(x / sqrt(x * x + 1)); }, [](const M& x) { return M(1 + sqrt(x * x + 1)); }, 10},
      {"absolute", [](const D& x) { return abs(x) / (1 + abs(x)); },
       [](const M& x) { return M(abs(x) / (1 + abs(x))); },
       [](const M& x) { return M((x < 0 ? -1 : 1) / ((1 + abs(x)) * (1 + abs(x)))); }, [](const M&) { return M(3); },
       8},
      {"compound forms",
       [](const D& x) {
         D y = x;
         y *= x, y += 5, y -= x, y /= 2;
         return y;
       },
       [](const M& x) { return M((x * x + 5 - x) / 2); }, [](const M& x) { return M(x - M(1) / 2); },
       [](const M& x) { return M(x * x + 2 * abs(x) + 6); }, 12},
  };
  return all;
}

// Mp50 keeps 50 digits: every operation is within 10^-50 of its operands' exact result, relatively, so the whole is
// within operations * 10^-50 of its terms' sizes.
TEST(Dual, AgreesWithDerivativesByHand) {
  Draw draw(5);
  const M one_operation("1e-50");
  for (const Example& example : examples()) {
    for (int i = 0; i < 300; ++i) {
      const double x = draw.real(-6, 3), direction = draw.real(-3, 3);
      const D got = example.function(D(Mp50(x), Mp50(direction)));
      const M allowed = example.operations * one_operation * example.magnitude(M(x));
      ASSERT_LE(abs(M(got.value) - example.value(M(x))), allowed) << example.name << " at " << x;
      ASSERT_LE(abs(M(got.slope) - example.derivative(M(x)) * direction), allowed * std::abs(direction))
          << example.name << " at " << x;
    }
  }
}

TEST(Dual, ConstantsHaveNoSlopeWhereDerivativesAreInfinite) {
  using F = Dual<double>;
  const F down(-infinite, 2), zero(0.0), constant(-infinite);
  EXPECT_EQ(exp(down).value, 0);
  EXPECT_EQ(exp(down).slope, 0);
  EXPECT_EQ(exp(constant + F(1, 3)).slope, 0);
  EXPECT_EQ(sqrt(zero).slope, 0);
  EXPECT_EQ(sqrt(F(0, 1)).slope, infinite);
  EXPECT_EQ((F(2) * down).slope, 4);
  EXPECT_EQ((down / F(2)).slope, 1);
  EXPECT_EQ(exp(Dual<Mp50>(Mp50(-infinite), Mp50(1))).slope, 0);
  EXPECT_EQ(exp(Dual<W2>(W2(-infinite), W2(1))).slope, 0);
}

TEST(Dual, NanStaysNan) {
  using F = Dual<double>;
  const F bad(0.0, std::numeric_limits<double>::quiet_NaN());
  for (const F& x :
       {bad + F(1), bad * F(0), F(1) / (bad + F(1)), exp(bad), sqrt(bad + F(1)), abs(bad), log(bad + F(1))})
    EXPECT_TRUE(isnan(x));
  EXPECT_TRUE(isnan(F(0) / F(0)));
}

TEST(Dual, ComparesValuesOnly) {
  using F = Dual<double>;
  EXPECT_EQ(F(1, 5), F(1, -5));
  EXPECT_LT(F(1, 9), F(2, 0));
  EXPECT_GE(F(2), 2);
  EXPECT_NE(F(1), F(3));
  EXPECT_EQ(std::max(F(1, 7), F(0, 3)).slope, 7);
}

}  // namespace
}  // namespace assay::scalars
