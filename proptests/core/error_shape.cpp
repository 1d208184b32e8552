// The ellipsoid of a pair's errors: it holds all errors that were added and taken along, and is hardly larger.
#include "reference/errors/error_shape.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "oracles/scalars/precise.hpp"
#include "reference/core/random.hpp"

namespace assay {
namespace {

constexpr int size = 3;
using Block = std::array<Mp50, size>;
using Pair = std::array<Block, 2>;
using Shape = ErrorShape<1>;

Mp50 dot(const Block& a, const Block& b) {
  Mp50 sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

Shape::Vector vector(const Block& v) {
  Shape::Vector all;
  for (const Mp50& x : v) all.push_back({static_cast<double>(x)});
  return all;
}

/// Every error that was added, taken along exactly: an orthonormal basis for each, times its length.
class Errors {
 public:
  void add(double length) {
    for (std::size_t block = 0; block < 2; ++block)
      for (std::size_t i = 0; i < size; ++i) {
        Pair e{};
        e[block][i] = length;
        all_.push_back(e);
      }
  }
  template <class F>
  void map(std::size_t to, const Mp50& a, F&& rest) {
    for (Pair& e : all_) {
      const Block more = rest(e[1 - to]);
      for (std::size_t i = 0; i < size; ++i) e[to][i] = a * e[to][i] + more[i];
    }
  }
  Mp50 along(std::size_t block, const Block& v) const {
    Mp50 squares = 0;
    for (const Pair& e : all_) squares += dot(e[block], v) * dot(e[block], v);
    return sqrt(squares);
  }

 private:
  std::vector<Pair> all_;
};

TEST(ErrorShape, holds_the_errors_of_all_steps_and_little_more) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const Stream stream(seed, "shape");
    std::uint64_t drawn = 0;
    const auto number = [&] { return stream.normal(drawn++); };
    const auto block = [&] {
      Block v;
      for (Mp50& x : v) x = number();
      return v;
    };
    Shape shape(size);
    Errors errors;
    const auto expect_tight = [&](double got, const Mp50& want) {
      EXPECT_GE(Mp50(got), want) << seed;
      EXPECT_LE(Mp50(got), want * Mp50(1 + 0x1p-20)) << seed;
    };
    for (int t = 0; t < 40; ++t) {
      const double length = std::ldexp(1 + std::fabs(number()), t % 7 - 100);
      shape.add({length * 0x1p100}), errors.add(length);
      const auto to = static_cast<std::size_t>(t % 2);
      // About as large afterwards as before: neither grows out of sight.
      const double a = 0.5 * number(), b = 0.5 * number();
      Block u = block(), v = block();
      for (Mp50& x : u) x *= 0.25;
      const Mp50 seen = errors.along(1 - to, v) * ldexp(Mp50(1), 100);
      expect_tight(shape.write(t % 2, {a}, {b}, vector(u), vector(v))[0], seen);
      errors.map(to, a, [&](const Block& other) {
        Block w = u;
        for (Mp50& x : w) x *= b * dot(v, other);
        return w;
      });
      shape.mix(1 - t % 2, {b}, {a});
      errors.map(1 - to, b, [&](Block other) {
        for (Mp50& x : other) x *= a;
        return other;
      });
      for (const int k : {0, 1}) {
        const Mp50 unit = ldexp(Mp50(1), 100);
        const Block w = block();
        expect_tight(shape.along(k, vector(w))[0], errors.along(static_cast<std::size_t>(k), w) * unit);
        Mp50 largest = 0;
        for (std::size_t i = 0; i < size; ++i) {
          Block e{};
          e[i] = 1;
          largest = std::max(largest, errors.along(static_cast<std::size_t>(k), e));
        }
        expect_tight(shape.largest(k)[0], largest * unit);
      }
    }
    const Block w = block();
    const double before = shape.along(0, vector(w))[0];
    shape.scale({0x1p-70});
    expect_tight(shape.along(0, vector(w))[0], Mp50(before) * ldexp(Mp50(1), -70));
  }
}

TEST(ErrorShape, knows_when_nothing_is_known) {
  const Shape::Vector v(2, {1.0});
  Shape shape(2);
  EXPECT_EQ(shape.write(0, {1}, {1}, v, v)[0], 0);
  EXPECT_EQ(shape.largest(1)[0], 0);
  shape.add({1});
  shape.mix(1, {NAN}, {0});
  EXPECT_TRUE(std::isnan(shape.largest(1)[0]));
  EXPECT_TRUE(std::isnan(shape.along(1, v)[0]));
}

}  // namespace
}  // namespace assay
