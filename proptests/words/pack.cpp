// Packs of certified numbers: every operation holds the truth for every number in its operands' balls, tells what it
// cannot decide, and gives the same bits on all instruction sets.
#include "oracles/multiword/pack.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "proptests/words/cases.hpp"
#include "reference/core/error.hpp"
#include "reference/errors/elementary.hpp"
#include "reference/errors/lines.hpp"

namespace assay::words {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Words at random distances, exact or with a radius anywhere below the first word.
template <int W>
WordBall draw(Random& random, bool exact) {
  WordBall x;
  int exponent = static_cast<int>(random.below(20));
  for (std::size_t w = 0; w < W; ++w) {
    x.word[w] = std::ldexp(random.real(), exponent);
    exponent -= 54 + static_cast<int>(random.below(3));
  }
  if (!exact && random.below(3) > 0)
    x.radius = std::ldexp(std::fabs(x.word[0]), -2 - static_cast<int>(random.below(230)));
  return x;
}

template <int W>
struct Packed {
  Pack<W> pack;
  std::array<WordBall, pack_size> number;

  explicit Packed(Random& random, bool exact = false) {
    for (int i = 0; i < pack_size; ++i) {
      WordBall& x = number[static_cast<std::size_t>(i)] = draw<W>(random, exact);
      pack.take(i, Pack<W>(x));
      x = pack.number(i);
    }
  }
  /// All of them above zero: balls are at most half as wide as they are far out.
  void make_positive() {
    pack = abs(pack);
    for (int i = 0; i < pack_size; ++i) number[static_cast<std::size_t>(i)] = pack.number(i);
  }
  /// A number of ball i: an end, or the middle.
  Mp200 truth(int i, int which) const {
    const WordBall& x = number[static_cast<std::size_t>(i)];
    return middle(x) + Mp200(x.radius) * (which % 3 - 1);
  }
};

/// Whether every number of `got` holds `truth(i, which)`. `sizes(i)` is the sum of absolute terms: where operands are
/// exact, a radius is not only wide enough but narrow.
template <int W>
void expect_held(const char* what, const Pack<W>& got, bool exact, const std::function<double(int)>& sizes,
                 const std::function<Mp200(int, int)>& truth) {
  for (int i = 0; i < pack_size; ++i) {
    const WordBall x = got.number(i);
    for (int which = 0; which < 9; ++which)
      ASSERT_LE(abs(middle(x) - truth(i, which)), Mp200(x.radius)) << what << " number " << i << " choice " << which;
    if (exact) {
      ASSERT_LE(x.radius, std::ldexp(sizes(i), 16 - 53 * W)) << what;
    }
  }
}

template <class T>
class PackOf : public testing::Test {};
TYPED_TEST_SUITE(PackOf, WordCounts);

TYPED_TEST(PackOf, HoldsEveryResultOfEveryNumberInItsOperands) {
  constexpr int W = TypeParam::value;
  Random random(1);
  for (int round = 0; round < 150 && !this->HasFatalFailure(); ++round) {
    const bool exact = round % 3 == 0;
    Packed<W> a(random, exact), b(random, exact), c(random, exact);
    if (round % 3 == 1) b.pack = -a.pack + Pack<W>(std::ldexp(random.real(), -40));  // cancels
    for (int i = 0; i < pack_size; ++i) b.number[static_cast<std::size_t>(i)] = b.pack.number(i);
    const auto A = [&](int i, int n) { return a.truth(i, n); };
    const auto B = [&](int i, int n) { return b.truth(i, n / 3); };
    const auto C = [&](int i, int n) { return c.truth(i, n / 3); };
    const auto size = [](const Packed<W>& x, int i) {
      double sum = 0;
      for (std::size_t w = W; w-- > 0;) sum = sum * 0x1p53 + std::fabs(x.number[static_cast<std::size_t>(i)].word[w]);
      return 2 * sum;
    };
    const auto sum = [&](int i) { return size(a, i) + size(b, i); };
    const auto product = [&](int i) { return size(a, i) * size(b, i) + size(c, i); };
    const auto held = [&](const char* what, const Pack<W>& got, const auto& sizes, const auto& truth) {
      expect_held<W>(what, got, exact, sizes, truth);
    };
    held("+", a.pack + b.pack, sum, [&](int i, int n) -> Mp200 { return A(i, n) + B(i, n); });
    held("-", a.pack - b.pack, sum, [&](int i, int n) -> Mp200 { return A(i, n) - B(i, n); });
    held("*", a.pack * b.pack, product, [&](int i, int n) -> Mp200 { return A(i, n) * B(i, n); });
    Pack<W> more = c.pack, less = c.pack;
    more += a.pack * b.pack, less -= a.pack * b.pack;
    held("+= *", more, product, [&](int i, int n) -> Mp200 { return C(i, n) + A(i, n) * B(i, n); });
    held("-= *", less, product, [&](int i, int n) -> Mp200 { return C(i, n) - A(i, n) * B(i, n); });
    held("abs", abs(a.pack), sum, [&](int i, int n) -> Mp200 { return abs(A(i, n)); });
    held("larger", larger(a.pack, b.pack), sum, [&](int i, int n) -> Mp200 { return std::max(A(i, n), B(i, n)); });
    held("smaller", smaller(a.pack, b.pack), sum, [&](int i, int n) -> Mp200 { return std::min(A(i, n), B(i, n)); });
    const auto quotient = [&](int i) {
      return 4 * size(a, i) / std::fabs(c.number[static_cast<std::size_t>(i)].word[0]);
    };
    held("/", a.pack / c.pack, quotient, [&](int i, int n) -> Mp200 { return A(i, n) / C(i, n); });
    c.make_positive();
    const auto root = [&](int i) { return 2 * std::sqrt(size(c, i)); };
    held("sqrt", sqrt(c.pack), root, [&](int i, int n) -> Mp200 { return sqrt(C(i, n)); });
    const auto of_log = [&](int i) { return 16 + std::fabs(std::log(size(c, i))); };
    held("log", log(c.pack), of_log, [&](int i, int n) -> Mp200 { return log(C(i, n)); });
  }
}

TYPED_TEST(PackOf, SumsOfProductsHoldEveryNumberInTheirTerms) {
  constexpr int W = TypeParam::value;
  Random random(4);
  for (const int n : {0, 1, 2, 3, 31, 34, 255, 256, 300}) {
    const Packed<W> start(random);
    std::vector<Packed<W>> a, b;
    std::vector<Pack<W>> x, y;
    for (int k = 0; k < n; ++k) {
      a.emplace_back(random), b.emplace_back(random);
      x.push_back(a.back().pack), y.push_back(b.back().pack);
    }
    Pack<W> more = start.pack, less = start.pack;
    add_dot(more, line(x), line(y));
    subtract_dot(less, line(x), line(y));
    std::vector<Pack<W>> rows(static_cast<std::size_t>(n), start.pack);
    add_scaled(line(rows), more, line(x));
    for (int i = 0; i < pack_size; ++i)
      for (int which = 0; which < 9; ++which) {
        Mp200 sum = 0;
        for (int k = 0; k < n; ++k) {
          const auto at = static_cast<std::size_t>(k);
          sum += a[at].truth(i, which + k) * b[at].truth(i, which / 3 + k);
        }
        const WordBall up = more.number(i), down = less.number(i);
        ASSERT_LE(abs(middle(up) - start.truth(i, which) - sum), Mp200(up.radius)) << n;
        ASSERT_LE(abs(middle(down) - start.truth(i, which) + sum), Mp200(down.radius)) << n;
      }
    for (int k = 0; k < n; ++k) {
      Pack<W> one = start.pack;
      one += more * x[static_cast<std::size_t>(k)];
      const std::span<const Pack<W>> got(&rows[static_cast<std::size_t>(k)], 1), want(&one, 1);
      EXPECT_TRUE(std::ranges::equal(std::as_bytes(got), std::as_bytes(want))) << k;
    }
  }
  Pack<W> zero;
  const std::vector<Pack<W>> zeros(5), thirds(5, Pack<W>(1) / Pack<W>(3));
  add_dot(zero, line(zeros), line(thirds));
  EXPECT_TRUE(zero == Pack<W>(0)) << "exactly";
}

TYPED_TEST(PackOf, ExponentiatesFromTheSmallestToTheLargest) {
  constexpr int W = TypeParam::value;
  Random random(2);
  for (int round = 0; round < 200 && !this->HasFatalFailure(); ++round) {
    Pack<W> x;
    for (int i = 0; i < pack_size; ++i) {
      WordBall n;
      n.word[0] = 499 * random.real(), n.word[1] = 0x1p-60 * random.real();
      n.radius = round % 2 == 0 ? 0 : std::ldexp(1.0, -static_cast<int>(random.below(100)));
      x.take(i, Pack<W>(n));
    }
    const Pack<W> power = exp(x);
    for (int i = 0; i < pack_size; ++i) {
      const WordBall n = x.number(i), p = power.number(i);
      for (const int end : {-1, 0, 1})
        ASSERT_LE(abs(middle(p) - exp(Mp200(middle(n) + Mp200(n.radius) * end))), Mp200(p.radius)) << n.word[0];
      if (round % 2 == 0) {
        ASSERT_LE(p.radius, std::ldexp(p.word[0], 13 - 53 * W));
      }
    }
  }
  for (const double x : {-500.5, -745.0, -1e10}) {
    const WordBall p = exp(Pack<W>(x)).number(3);
    EXPECT_LE(abs(middle(p) - exp(Mp200(x))), Mp200(p.radius)) << x;
    EXPECT_LT(p.radius, 0x1p-700) << x;
  }
  EXPECT_EQ(exp(Pack<W>(-infinity)).number(0).radius, 0);
  EXPECT_EQ(exp(Pack<W>(600)).number(0).radius, infinity);
}

TYPED_TEST(PackOf, ZeroIsExactHoweverItIsMade) {
  using P = Pack<TypeParam::value>;
  const P zero, one(1), third = P(1) / P(3);
  EXPECT_TRUE(zero * third == zero);
  EXPECT_TRUE(zero / third == P(0) * P(5));
  EXPECT_TRUE(sqrt(zero) == zero);
  EXPECT_TRUE(zero + zero == zero);
  EXPECT_FALSE(third == zero);
  EXPECT_THROW(static_cast<void>(third - third == zero), Undecided);
  EXPECT_TRUE(zero < third && third < one && one > third && zero <= zero && one >= third && one != third);
}

/// Gates of several heads at once: they need not have the same sign, nor know it.
TYPED_TEST(PackOf, GatesTakeNumbersOfBothSigns) {
  constexpr int W = TypeParam::value;
  constexpr double radius = 0x1p-70;
  Random random(9);
  for (int round = 0; round < 60 && !this->HasFatalFailure(); ++round) {
    Pack<W> exact;
    std::array<double, pack_size> x{};
    for (int i = 0; i < pack_size; ++i) {
      x[static_cast<std::size_t>(i)] = round % 4 == 0 && i == 3 ? 0 : std::ldexp(random.real(), round % 10);
      exact.take(i, x[static_cast<std::size_t>(i)]);
    }
    const Pack<W> wide = exact.widened(Pack<W>(radius).sizes());
    const auto truth = [&](int i, int n) {
      return Mp200(x[static_cast<std::size_t>(i)]) + Mp200(radius) * (n % 3 - 1);
    };
    const auto none = [](int) { return 0.0; };
    expect_held<W>("sigmoid", sigmoid(wide), false, none,
                   [&](int i, int n) { return Mp200(1 / (1 + exp(-truth(i, n)))); });
    expect_held<W>("softplus", softplus(wide), false, none,
                   [&](int i, int n) { return Mp200(log(1 + exp(truth(i, n)))); });
  }
}

TYPED_TEST(PackOf, SaysWhatItCannotDecide) {
  using P = Pack<TypeParam::value>;
  P mixed(1);
  mixed.take(5, P(-1));
  EXPECT_THROW(static_cast<void>(mixed > P(0)), Divided);
  EXPECT_TRUE(abs(mixed) > P(0.5));
  const P nowhere = P(1) / (P(1) / P(3) - P(1) / P(3));
  EXPECT_THROW(static_cast<void>(isfinite(nowhere)), Undecided);
  EXPECT_EQ(nowhere.number(0).radius, infinity);
  const P huge(1e300);
  for (const P& lost : {sqrt(P(-1)), log(P(-1)), log(P(0)), P(huge * huge), P(infinity) - P(infinity),
                        larger(nowhere, P(1)), abs(nowhere)})
    EXPECT_EQ(lost.number(0).radius, infinity);
  EXPECT_EQ(to_decimal(larger(P(-infinity), P(2)), 3), "2.00");
}

TYPED_TEST(PackOf, UnderflowIsHeldToo) {
  using P = Pack<TypeParam::value>;
  for (const double a : {0x1p-540, 0x1p-1000, 0x1p-1074})
    for (const double b : {0x1.8p-530, 0x1.fp-600, 0x1p-1074, 0x1.23456789p-20}) {
      const WordBall x = P(P(a) * P(b)).number(0);
      EXPECT_LE(abs(middle(x) - Mp200(a) * Mp200(b)), Mp200(x.radius)) << a << ' ' << b;
      P sum(0x1p-1040);
      sum += P(a) * P(b);
      EXPECT_LE(abs(middle(sum.number(0)) - Mp200(a) * Mp200(b) - Mp200(0x1p-1040)), Mp200(sum.number(0).radius));
    }
}

TYPED_TEST(PackOf, ReadsAndPrintsDecimals) {
  constexpr int W = TypeParam::value;
  const WordBall third =
      from_decimal<Pack<W>>("0.3333333333333333333333333333333333333333333333333333333333333333333333333333333333")
          .number(0);
  EXPECT_LT(abs(middle(third) - Mp200(1) / 3), Mp200(third.radius) + Mp200("1e-80"));
  EXPECT_LE(third.radius, std::ldexp(1.0, -53 * W - 1));
  EXPECT_EQ(to_decimal(Pack<W>(2.5), 3), "2.50");
  EXPECT_EQ(to_decimal(Pack<W>(1) / Pack<W>(3), 30), "3.33333333333333333333333333333e-1");
  EXPECT_EQ(scalar_name<Pack<W>>(), "w" + std::to_string(W));
  EXPECT_THROW(from_decimal<Pack<W>>("1.5x"), InputError);
}

TYPED_TEST(PackOf, SameBitsOnAllInstructionSets) {
  constexpr int W = TypeParam::value;
  constexpr std::size_t n = std::size_t{W + 1} * pack_size;
  Random random(3);
  const PackConstants& c = pack_constants(W);
  for (int round = 0; round < 50; ++round) {
    std::array<std::array<double, n>, 2> operand{};
    for (auto& x : operand) {
      const Packed<W> drawn(random);
      static_assert(sizeof drawn.pack == sizeof x);
      std::memcpy(x.data(), &drawn.pack, sizeof x);
    }
    const auto results = [&](Isa isa) {
      const PackKernels& k = kernels(isa).words[W].pack;
      std::vector<std::array<double, n>> all;
      for (const auto op : {k.add, k.subtract, k.multiply, k.divide, k.multiply_add, k.multiply_subtract}) {
        all.push_back(operand[0]);
        op(all.back().data(), operand[0].data(), operand[1].data(), c);
      }
      const ConstPackLine a{operand[0].data(), 0}, b{operand[1].data(), 0};
      for (const auto op : {k.add_dot, k.subtract_dot}) {
        all.push_back(operand[0]);
        op(all.back().data(), a, b, 37, c);
      }
      for (const auto op : {k.add_scaled, k.subtract_scaled}) {
        all.push_back(operand[0]);
        op({all.back().data(), 0}, a.first, b, 3, c);
      }
      all.emplace_back();
      k.leading_words(a, 1, all.back().data(), all.back().data() + pack_size);
      all.emplace_back();
      std::array<double, n> small = operand[0];
      for (double& x : small) x *= 0x1p-20;
      k.exp(all.back().data(), small.data(), c);
      return all;
    };
    for (const Isa isa : all_isas)
      if (supported(isa)) {
        EXPECT_EQ(results(isa), results(Isa::scalar)) << name_of(isa);
      }
  }
}

}  // namespace
}  // namespace assay::words
