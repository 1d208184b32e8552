// The local-linear-attention engine: bounds against the textbook form in 335 bits and against the next tier, the same
// bits everywhere, no proof where there is none.
#include "oracles/multiword/lla/lla.hpp"

#include "proptests/laws/property.hpp"
#include "proptests/words/lla_cases.hpp"

namespace assay::words {
namespace {

/// Row i by formulas (7) and (8) of the paper: uncentred, with a Cholesky factorisation.
std::vector<Mp100> textbook(const LlaProblem& x, std::size_t i) {
  const std::size_t d = x.dim;
  const long ahead = static_cast<long>(i + 1 + x.keys) - static_cast<long>(x.queries);
  const std::size_t last = x.causal ? static_cast<std::size_t>(std::max(0L, ahead)) : x.keys;
  const std::size_t first = x.window > 0 && last > x.window ? last - x.window : 0;
  std::vector<Mp100> o(x.values);
  if (first == last) return o;
  const Mp100 bandwidth = sqrt(Mp100(d));
  std::vector<Mp100> score(x.keys), w(x.keys), z(x.keys * d), mu(d), A(d * d);
  Mp100 largest = -1e300, omega = 0;
  for (std::size_t j = first; j < last; ++j) {
    for (std::size_t a = 0; a < d; ++a) score[j] += Mp100(x.q[i * d + a]) * x.k[j * d + a] / bandwidth;
    if (score[j] > largest) largest = score[j];
  }
  for (std::size_t j = first; j < last; ++j) omega += w[j] = exp(score[j] - largest);
  const Mp100 unit = x.mode == RidgeMode::mass ? omega : x.mode == RidgeMode::max ? Mp100(1) : Mp100(exp(-largest));
  for (std::size_t j = first; j < last; ++j)
    for (std::size_t a = 0; a < d; ++a) {
      z[j * d + a] = Mp100(x.k[j * d + a]) - x.q[i * d + a];
      mu[a] += w[j] * z[j * d + a];
    }
  for (std::size_t a = 0; a < d; ++a) {
    const std::size_t n = x.lambda.size();
    A[a * d + a] = unit * x.lambda[n == 1 ? 0 : n == x.queries ? i : i * d + a];
    for (std::size_t b = 0; b <= a; ++b)
      for (std::size_t j = first; j < last; ++j) A[a * d + b] += w[j] * z[j * d + a] * z[j * d + b];
  }
  std::vector<Mp100> rho = mu;
  for (std::size_t a = 0; a < d; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      Mp100& t = A[a * d + b];
      for (std::size_t c = 0; c < b; ++c) t -= A[a * d + c] * A[b * d + c];
      if (a == b)
        t = sqrt(t);
      else
        t /= A[b * d + b], rho[a] -= t * rho[b];
    }
    rho[a] /= A[a * d + a];
  }
  Mp100 denominator = omega;
  for (std::size_t a = d; a-- > 0;) {
    for (std::size_t b = a + 1; b < d; ++b) rho[a] -= A[b * d + a] * rho[b];
    rho[a] /= A[a * d + a];
  }
  for (std::size_t a = 0; a < d; ++a) denominator -= mu[a] * rho[a];
  for (std::size_t j = first; j < last; ++j) {
    Mp100 s = 1;
    for (std::size_t a = 0; a < d; ++a) s -= z[j * d + a] * rho[a];
    for (std::size_t c = 0; c < x.values; ++c) o[c] += w[j] * s / denominator * x.v[j * x.values + c];
  }
  return o;
}

ASSAY_PROPERTY(WordsLla, EveryBoundHoldsAgainstTheTextbookForm) {
  const LlaCase c = *lla_cases();
  const LlaData data(c);
  const std::vector<std::size_t> rows{0, c.queries / 2, c.queries - 1};
  std::vector<std::vector<Mp100>> truth;
  for (const std::size_t i : rows) truth.push_back(textbook(data.problem, i));
  for (int words = 2; words <= 4; ++words) {
    const LlaAnswer got = lla_forward(data.problem, {words, 1, best_isa()}, {0, words});
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::size_t j = 0; j < c.values; ++j) {
        const std::size_t at = rows[r] * c.values + j;
        RC_ASSERT(std::isfinite(got.o.bound[at]));
        // The textbook form loses up to 90 of its 335 bits here (kappa below 2^70, and cancels in its denominator).
        RC_ASSERT(abs(value(got.o, at) - truth[r][j]) <= got.o.bound[at] + Mp100(0x1p-235));
      }
  }
}

ASSAY_PROPERTY(WordsLla, TheNextTierLiesInsideTheBound) {
  LlaCase c = *lla_cases();
  c.keys = c.queries = 150, c.dim = 20;
  const LlaData data(c);
  const LlaAnswer coarse = lla_forward(data.problem, {2, 2, best_isa()}, {0, 2});
  for (const int words : {3, 4}) {
    const LlaAnswer fine = lla_forward(data.problem, {words, 2, best_isa()}, {0, words});
    for (std::size_t i = 0; i < coarse.o.bound.size(); ++i)
      RC_ASSERT(abs(value(coarse.o, i) - value(fine.o, i)) <= Mp100(coarse.o.bound[i]) + fine.o.bound[i]);
  }
}

ASSAY_PROPERTY(WordsLla, InstructionSetsAndThreadsGiveTheSameBits) {
  const LlaCase c = *lla_cases();
  const LlaData data(c);
  const LlaAnswer first = lla_forward(data.problem, {2, 1, Isa::scalar}, {0x1p-90, 4});
  for_each_way(2, [&](const Effort& effort) {
    const LlaAnswer other = lla_forward(data.problem, effort, {0x1p-90, 4});
    RC_ASSERT(same_bits(first.o, other.o));
    RC_ASSERT(first.words_used == other.words_used);
  });
}

TEST(WordsLla, HardRowsGetMoreWordsUntilTheBoundIsGoodEnough) {
  LlaCase c = square(96, 32);
  c.mode = RidgeMode::max, c.lambda_exponent = -30;
  const LlaData data(c);
  const LlaAnswer got = lla_forward(data.problem, {2, 1, best_isa()}, {0x1p-63, 4});
  int more = 0;
  for (std::size_t i = 0; i < c.queries; ++i) {
    double largest = 0;
    for (std::size_t j = 0; j < c.values; ++j) largest = std::max(largest, std::fabs(got.o.word[0][i * c.values + j]));
    ASSERT_LE(got.o.bound[i * c.values], 0x1p-63 * largest) << i;
    if (got.words_used[i] > 2) ++more;
  }
  EXPECT_GT(more, 0);
  EXPECT_LT(more, 96);
}

TEST(WordsLla, WithoutRidgeTheProofIsInTheMatrixOrThereIsNone) {
  LlaCase c = square(64, 8);
  LlaData data(c);
  data.lambda[0] = 0;
  data.problem.lambda = data.lambda;
  const LlaAnswer got = lla_forward(data.problem, {2, 1, best_isa()}, {});
  // d keys or fewer span no d + 1 affinely independent points.
  for (std::size_t i = 0; i < 8; ++i) EXPECT_TRUE(std::isinf(got.o.bound[i * 8])) << i;
  for (std::size_t i = 20; i < 64; ++i) EXPECT_LT(got.o.bound[i * 8], 0x1p-60) << i;
  const std::vector<Mp100> truth = textbook(data.problem, 63);
  for (std::size_t j = 0; j < 8; ++j) EXPECT_LE(abs(value(got.o, 63 * 8 + j) - truth[j]), got.o.bound[63 * 8 + j]);
}

TEST(WordsLla, AWrongLastDigitIsSeen) {
  LlaData data(square(64, 16));
  const LlaAnswer right = lla_forward(data.problem, {2, 1, best_isa()}, {0, 2});
  data.k[3] = std::nextafter(data.k[3], 9.0);
  const LlaAnswer other = lla_forward(data.problem, {2, 1, best_isa()}, {0, 2});
  std::size_t apart = 0;
  for (std::size_t i = 0; i < right.o.bound.size(); ++i)
    if (abs(value(right.o, i) - value(other.o, i)) > Mp100(right.o.bound[i]) + other.o.bound[i]) ++apart;
  // The first row sees one key and is its value whatever the key.
  EXPECT_GT(apart, right.o.bound.size() * 9 / 10);
  Certified wrong = right.o;
  for (std::size_t i = 0; i < wrong.bound.size(); ++i) {
    wrong.word[0][i] = std::nextafter(wrong.word[0][i], 9.0);
    ASSERT_GT(abs(value(wrong, i) - value(right.o, i)), Mp100(2 * right.o.bound[i])) << i;
  }
}

TEST(WordsLla, WindowsHoldExactlyTheirKeys) {
  for (const std::size_t window : {1, 2, 7}) {
    LlaCase c = square(12, 3);
    c.window = window;
    const LlaData data(c);
    const LlaAnswer got = lla_forward(data.problem, {2, 1, best_isa()}, {});
    for (std::size_t i = 0; i < 12; ++i) {
      const std::vector<Mp100> truth = textbook(data.problem, i);
      for (std::size_t j = 0; j < 3; ++j)
        ASSERT_LE(abs(value(got.o, i * 3 + j) - truth[j]), got.o.bound[i * 3 + j] + Mp100(0x1p-235))
            << window << " " << i;
    }
  }
}

TEST(WordsLla, ARowWithoutKeysIsZero) {
  LlaCase c = square(12, 4);
  c.keys = 5;
  const LlaData data(c);
  const LlaAnswer got = lla_forward(data.problem, {2, 1, best_isa()}, {});
  for (std::size_t i = 0; i < 7 * 4; ++i) {
    EXPECT_EQ(got.o.word[0][i], 0);
    EXPECT_EQ(got.o.bound[i], 0);
  }
  EXPECT_NE(got.o.word[0][7 * 4], 0);
}

}  // namespace
}  // namespace assay::words
