// The proven constants against 335 bits, on operands that cancel; exp against its bound; all instruction sets alike.
#include <gtest/gtest.h>

#include <algorithm>

#include "oracles/multiword/lanes/exp_table.hpp"
#include "oracles/multiword/magnitude.hpp"
#include "oracles/multiword/number.hpp"
#include "proptests/words/cases.hpp"

namespace assay::words {
namespace {

using portable::multiply_add;
using portable::plus;
using portable::product;
using portable::renormalise;
using portable::size_of;
using portable::times;
using portable::Words;

template <int W>
Mp100 exact(const Words<double, W>& x) {
  Mp100 sum = 0;
  for (const double w : x.w) sum += w;
  return sum;
}

/// Full words at random distances, sizes up to 2^20 apart.
template <int W>
Words<double, W> draw(Random& random) {
  Words<double, W> x;
  int exponent = static_cast<int>(random.below(20));
  for (double& w : x.w) {
    w = std::ldexp(random.real(), exponent);
    exponent -= 53 + static_cast<int>(random.below(3));
  }
  renormalise<W>(x.w);
  return x;
}
/// Mostly -a.
template <int W>
Words<double, W> opposite(const Words<double, W>& a, Random& random) {
  return plus(-a, std::ldexp(a.w[0] * random.real(), -static_cast<int>(random.below(150))));
}

class Seen {
 public:
  Seen() = default;
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
  ~Seen() { EXPECT_GT(worst_, 0) << "no rounding error was ever seen"; }

  void operator()(const Mp100& error, double allowed) {
    if (error == 0) return;
    const double ratio = static_cast<double>(Mp100(abs(error) / allowed));
    ASSERT_LE(ratio, 1);
    worst_ = std::max(worst_, ratio);
  }

 private:
  double worst_ = 0;
};

template <class T>
class WordsOf : public testing::Test {};
TYPED_TEST_SUITE(WordsOf, WordCounts);

TYPED_TEST(WordsOf, KeepTheProvenConstantsUnderCancellation) {
  constexpr int W = TypeParam::value;
  const Constants& c = constants(W);
  Random random(1);
  Seen add, multiply, plain, update, decayed;
  for (int i = 0; i < 3000 && !this->HasFatalFailure(); ++i) {
    const auto a = draw<W>(random), b = i % 2 ? opposite(a, random) : draw<W>(random);
    const double x = random.normal();
    add(exact(a + b) - (exact(a) + exact(b)), c.add * (size_of(a) + size_of(b)));
    multiply(exact(a * b) - exact(a) * exact(b), c.multiply * size_of(a) * size_of(b));
    plain(exact(times(a, x)) - exact(a) * x, c.multiply_plain * size_of(a) * std::fabs(x));
    auto sum = i % 2 ? opposite(times(b, x), random) : a;
    const Mp100 truth = exact(sum) + exact(b) * x;
    const double allowed = c.update * (size_of(sum) + std::fabs(x) * size_of(b));
    multiply_add<W, W>(sum.w, x, b.w);
    renormalise<W>(sum.w);
    update(exact(sum) - truth, allowed);

    const Words<double, W> d = i % 2 ? opposite(a * b, random) : b;
    const double y = i % 2 ? 1 : x;
    Words<double, W> fused = product(a, b);
    multiply_add<W, W>(fused.w, y, d.w);
    renormalise<W>(fused.w);
    decayed(exact(fused) - (exact(a) * exact(b) + exact(d) * y),
            c.decayed_update * (size_of(a) * size_of(b) + std::fabs(y) * size_of(d)));
  }
}

/// Drawn numbers in planes of their words.
template <std::size_t W>
struct Planes {
  std::vector<double> plane[4];

  Planes(std::size_t n, Random& random) {
    for (std::vector<double>& words : plane) words.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto x = draw<W>(random);
      for (std::size_t w = 0; w < W; ++w) plane[w][i] = x.w[w];
    }
  }
  Words<double, W> at(std::size_t i) const {
    Words<double, W> x;
    for (std::size_t w = 0; w < W; ++w) x.w[w] = plane[w][i];
    return x;
  }
  /// The second half is the first times `sign`, but for the last words.
  void repeat(double sign) {
    const std::size_t half = plane[0].size() / 2;
    for (std::size_t w = 0; w < W; ++w)
      for (std::size_t i = 0; i < half; ++i)
        plane[w][half + i] = sign * plane[w][i] * (sign < 0 && w + 1 == W ? 0.5 : 1);
  }
};

/// K products for each of 16 times 4 numbers, added to what is there: the same bits by every instruction set, and as
/// far from the truth as `allowed` of all sizes.
template <std::size_t W, class Run>
void expect_products(const Planes<W>& a, const Planes<W>& b, std::size_t K, int times, double allowed, const Run& run) {
  constexpr std::size_t rows = 16, columns = 4;
  std::vector<double> c[4], first[4];
  const double *A[4], *B[4];
  for (std::size_t w = 0; w < 4; ++w) A[w] = a.plane[w].data(), B[w] = b.plane[w].data();
  for (const Isa isa : all_isas) {
    if (!supported(isa)) continue;
    double* C[4] = {};
    for (std::size_t w = 0; w < W; ++w) c[w].assign(rows * columns, 0), C[w] = c[w].data();
    for (int n = 0; n < times; ++n) run(kernels(isa).words[W], A, B, C);
    for (std::size_t w = 0; w < W; ++w) {
      if (isa == Isa::scalar) first[w] = c[w];
      EXPECT_EQ(c[w], first[w]) << name_of(isa);
    }
  }
  Seen seen;
  for (std::size_t m = 0; m < rows; ++m)
    for (std::size_t n = 0; n < columns; ++n) {
      Mp100 truth = 0, got = 0;
      double sizes = 0;
      for (std::size_t k = 0; k < K; ++k) {
        const auto x = a.at(k * rows + m), y = b.at(k * columns + n);
        truth += times * exact(x) * exact(y), sizes += times * size_of(x) * size_of(y);
      }
      for (std::size_t w = 0; w < W; ++w) got += c[w][n * rows + m];
      seen(got - truth, allowed * sizes * safety);
    }
}

TYPED_TEST(WordsOf, MatrixProductsKeepTheirBoundAndTheirBits) {
  static constexpr std::size_t W = TypeParam::value, K = 300;
  Random random(2);
  Planes<W> a(K * 16, random), b(K * 4, random);
  a.plane[0] = random.normals(K * 16), a.repeat(1), b.repeat(-1);
  for (std::size_t w = 1; w < W; ++w) a.plane[w].assign(K * 16, 0);
  expect_products<W>(a, b, K, 1, matrix_accumulation(W, K), [](const auto& words, auto A, auto B, auto C) {
    words.product(A[0], 16, B, 4, 1, C, 16, 16, 4, K);
  });
}

TYPED_TEST(WordsOf, ProductsOfWordsKeepTheirBoundAndTheirBits) {
  // As in d_k: one chunk, added to what is there.
  static constexpr std::size_t W = TypeParam::value, K = 32;
  Random random(5);
  Planes<W> a(K * 16, random), b(K * 4, random);
  a.repeat(-1), b.repeat(1);
  const double allowed = constants(W).chunk_words + 2 * constants(W).add;
  expect_products<W>(a, b, K, 2, allowed, [](const auto& words, auto A, auto B, auto C) {
    words.product_words(A, 16, B, 4, 1, C, 16, 16, 4, K);
  });
}

/// Arguments where the reduction is at its limits, and others.
std::vector<double> exp_arguments() {
  std::vector<double> x{0, 500, -500, 1, -1, 0x1p-1022, -0x1p-60};
  Random random(3);
  for (int i = 0; i < 1500; ++i) {
    const double k = std::floor(random.real() * 4e7);
    x.push_back(random.real() * 500);
    x.push_back(std::ldexp(random.real(), -static_cast<int>(random.below(60))));
    x.push_back((k + 0.5) / exp_steps_per_unit * (1 + 0x1p-50 * random.real()));
    x.push_back(k / exp_steps_per_unit * (1 + 0x1p-50 * random.real()));
  }
  x.resize((x.size() + 7) / 8 * 8, 0.5);
  for (double& e : x) e = std::clamp(e, -500.0, 500.0);
  return x;
}

TYPED_TEST(WordsOf, ExpKeepsItsProvenBoundAndItsBits) {
  constexpr std::size_t W = TypeParam::value;
  const std::vector<double> x = exp_arguments();
  Random random(4);
  // All the words of an argument count.
  std::vector<double> in[4], planes[4], first[4];
  in[0] = x;
  for (std::size_t w = 1; w < W; ++w) {
    in[w].resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) in[w][i] = std::ldexp(in[w - 1][i] * random.real(), -54);
  }
  const double one[4] = {1};
  for (const Isa isa : all_isas) {
    if (!supported(isa)) continue;
    double *p[4] = {}, sum[4];
    for (std::size_t w = 0; w < W; ++w) planes[w] = in[w], p[w] = planes[w].data();
    kernels(isa).words[W].weights(p, x.size(), 0, x.size(), one, 0, sum);
    for (std::size_t w = 0; w < W; ++w) {
      if (isa == Isa::scalar) first[w] = planes[w];
      EXPECT_EQ(planes[w], first[w]) << name_of(isa);
    }
  }
  Seen seen;
  for (std::size_t i = 0; i < x.size() && !this->HasFatalFailure(); ++i) {
    Mp100 argument = 0, got = 0;
    for (std::size_t w = 0; w < W; ++w) argument += in[w][i], got += planes[w][i];
    const Mp100 truth = exp(argument);
    // The product with one and the shift by nothing may round the argument.
    const double before = (constants(W).multiply + constants(W).add) * 1.01 * std::fabs(x[i]);
    if (x[i] >= exp_lowest) seen(got / truth - 1, constants(W).exp + before);
  }
}

TEST(Words, ExpOfPlainNumbersEndsAtMinusFiveHundred) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double x[8] = {0, -500, -500.0000001, -infinity, -700, 1, -1, -1e300};
  for (const Isa isa : all_isas) {
    if (!supported(isa)) continue;
    double out[16];
    for (std::size_t i = 0; i < 8; i += kernels(isa).lanes) kernels(isa).words[2].exp_of_doubles(x + i, out + 2 * i);
    EXPECT_EQ(out[0], 1);
    EXPECT_EQ(out[1], 0);
    EXPECT_GT(out[2], 0);
    for (const std::size_t i : {2, 3, 4, 7}) EXPECT_EQ(out[2 * i], 0) << i;
  }
  EXPECT_GT(Mp100(dropped_weight), exp(Mp100(exp_lowest)));
}

TEST(Words, FactorsKnowTheirError) {
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const double x = std::ldexp(1.5 + 0.5 * random.real(), static_cast<int>(random.below(40)) - 20);
    const std::pair<Factor, Mp100> both[] = {{reciprocal(x), 1 / Mp100(x)}, {reciprocal_sqrt(x), 1 / sqrt(Mp100(x))}};
    for (const auto& [factor, truth] : both)
      for (int n = 1; n <= 4; ++n) {
        Mp100 sum = 0;
        for (int w = 0; w < n; ++w) sum += factor.word[static_cast<std::size_t>(w)];
        ASSERT_LE(abs(sum / truth - 1), factor.error_of(n));
        ASSERT_LE(factor.error_of(n), std::ldexp(1.0, -53 * n + (n == 4 ? 15 : 2))) << "useless";
      }
  }
  EXPECT_EQ(exactly(0.3).error_of(2), 0);
}

}  // namespace
}  // namespace assay::words
