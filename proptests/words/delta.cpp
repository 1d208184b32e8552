// The delta engine: every bound holds against the next tier and against 335 bits, the bits are the same everywhere, and
// a wrong last digit is seen.
#include "oracles/multiword/delta.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "proptests/laws/property.hpp"
#include "proptests/words/delta_cases.hpp"

namespace assay::words {
namespace {

/// The recurrence as delta-family.md writes it.
struct Exact {
  std::vector<Mp100> o, state;
  explicit Exact(const DeltaProblem& x) : o(x.steps * x.values), state(x.keys * x.values) {
    const std::size_t K = x.keys, V = x.values;
    const Mp100 scale = 1 / sqrt(Mp100(K));
    for (std::size_t i = 0; i < x.initial_state.size(); ++i) state[i] = x.initial_state[i];
    for (std::size_t t = 0; t < x.steps; ++t) {
      std::vector<Mp100> decayed = state;
      for (std::size_t i = 0; i < K && !x.log_decay.empty(); ++i) {
        const double g = x.log_decay[x.log_decay.size() == x.steps ? t : t * K + i];
        const Mp100 alpha = std::isinf(g) ? Mp100(0) : Mp100(exp(Mp100(g)));
        for (std::size_t j = 0; j < V; ++j) decayed[i * V + j] *= alpha;
      }
      for (std::size_t j = 0; j < V; ++j) {
        Mp100 e = x.v[t * V + j];
        const std::span<const double> p = x.p.empty() ? x.k : x.p;
        if (x.error != DeltaError::none)
          for (std::size_t i = 0; i < K; ++i)
            e -= (x.error == DeltaError::decayed ? decayed : state)[i * V + j] * p[t * K + i];
        for (std::size_t i = 0; i < K; ++i) {
          decayed[i * V + j] += (x.beta.empty() ? 1 : x.beta[t]) * e * x.k[t * K + i];
          o[t * V + j] += scale * decayed[i * V + j] * x.q[t * K + i];
        }
      }
      state = decayed;
    }
  }
};

ASSAY_PROPERTY(WordsDelta, EveryBoundHoldsAgainstExactArithmetic) {
  const DeltaCase c = *delta_cases();
  const DeltaData data(c);
  const Exact exact(data.problem);
  for (int words = 2; words <= 4; ++words) {
    const DeltaAnswer got = delta_forward(data.problem, {words, 1, best_isa()});
    for (const auto& [part, truth] : {std::pair(&got.o, &exact.o), std::pair(&got.final_state, &exact.state)}) {
      for (std::size_t i = 0; i < truth->size(); ++i) {
        // 335 bits are not exact either; expanding states grow.
        const Mp100 slack = ldexp(abs((*truth)[i]) + 1, -280);
        RC_ASSERT(abs(value(*part, i) - (*truth)[i]) <= part->bound[i] + slack);
      }
    }
  }
}

ASSAY_PROPERTY(WordsDelta, TheNextTierLiesInsideTheBound) {
  DeltaCase c = *delta_cases();
  c.T = 200;
  const DeltaData data(c);
  const DeltaAnswer coarse = delta_forward(data.problem, {2, 2, best_isa()});
  for (const int words : {3, 4}) {
    const DeltaAnswer fine = delta_forward(data.problem, {words, 2, best_isa()});
    for (std::size_t i = 0; i < coarse.o.bound.size(); ++i)
      RC_ASSERT(abs(value(coarse.o, i) - value(fine.o, i)) <= Mp100(coarse.o.bound[i]) + fine.o.bound[i]);
  }
}

ASSAY_PROPERTY(WordsDelta, InstructionSetsAndThreadsGiveTheSameBits) {
  const DeltaCase c = *delta_cases();
  const DeltaData data(c);
  for (int words = 2; words <= 4; ++words) {
    const DeltaAnswer first = delta_forward(data.problem, {words, 1, Isa::scalar});
    for_each_way(words, [&](const Effort& effort) {
      const DeltaAnswer other = delta_forward(data.problem, effort);
      RC_ASSERT(same_bits(first.o, other.o));
      RC_ASSERT(same_bits(first.final_state, other.final_state));
    });
  }
}

DeltaCase long_case() {
  DeltaCase c;
  c.T = 1000, c.K = 32, c.V = 16, c.style = KeyStyle::unit, c.decay = DeltaDecay::per_step;
  return c;
}

TEST(WordsDelta, LongRecurrencesKeepUsefulBounds) {
  const DeltaData data(long_case());
  for (int words = 2; words <= 4; ++words) {
    const DeltaAnswer got = delta_forward(data.problem, {words, 1, best_isa()});
    for (std::size_t i = 0; i < got.o.bound.size(); ++i)
      ASSERT_LT(got.o.bound[i], std::ldexp(1.0, -53 * words + 16 + 6 * words)) << "words " << words << " entry " << i;
  }
}

TEST(WordsDelta, AWrongLastDigitIsSeen) {
  DeltaCase c = long_case();
  c.decay = DeltaDecay::none;  // a dead memory would forget the digit
  DeltaData data(c);
  const DeltaAnswer right = delta_forward(data.problem, {2, 1, best_isa()});
  const DeltaAnswer fine = delta_forward(data.problem, {3, 1, best_isa()});
  Certified wrong = right.o;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < wrong.bound.size(); ++i) {
    wrong.word[0][i] = std::nextafter(wrong.word[0][i], 2.0);
    if (abs(value(wrong, i) - value(fine.o, i)) > Mp100(wrong.bound[i]) + fine.o.bound[i]) ++seen;
  }
  EXPECT_EQ(seen, wrong.bound.size()) << "the last digit of a double is far above every bound";
  // One key off by one last digit, half way: all that follows is proven different, all before is the same.
  double& digit = data.k[500 * 32 + 7];
  digit = std::nextafter(digit, 2.0);
  const DeltaAnswer other = delta_forward(data.problem, {2, 1, best_isa()});
  std::size_t apart = 0;
  for (std::size_t i = 0; i < wrong.bound.size(); ++i) {
    const bool differs = abs(value(right.o, i) - value(other.o, i)) > Mp100(right.o.bound[i]) + other.o.bound[i];
    if (i < std::size_t{500} * 16) {
      ASSERT_FALSE(differs);
    }
    if (differs) ++apart;
  }
  EXPECT_GT(apart, std::size_t{450} * 16);
}

TEST(WordsDelta, ErrorsOfAForgottenStateTravelOn) {
  // Four orthonormal keys erase a huge state and nothing is written after; its rounding errors, far above those of the
  // later steps, stay.
  constexpr std::size_t T = 12, K = 4, V = 8;
  Random random(6);
  std::vector<double> q = random.normals(T * K), v = random.normals(T * V), k(T * K), initial = random.normals(K * V);
  std::vector<double> log_decay(T, 0), beta(T, 0), none;
  for (double& x : initial) x = std::ldexp(x, 64);
  for (std::size_t t = 0; t < T; ++t) {
    if (t < K) log_decay[t] = -0.1, beta[t] = 1;
    for (std::size_t i = 0; i < K; ++i) k[t * K + i] = ((t & i & 1) ^ (t >> 1 & i >> 1 & 1)) != 0 ? -0.5 : 0.5;
  }
  const DeltaProblem problem{T, K, V, q, k, v, none, beta, log_decay, initial, DeltaError::decayed, reciprocal_sqrt(K)};
  const DeltaAnswer got = delta_forward(problem, {2, 1, best_isa()});
  const Exact exact(problem);
  for (std::size_t i = 6 * V; i < T * V; ++i) {
    ASSERT_LT(std::fabs(got.o.word[0][i]), 100);
    const Mp100 error = abs(value(got.o, i) - exact.o[i]);
    ASSERT_GT(error, Mp100(0x1p-60)) << "the case is not what it should be";
    ASSERT_LE(error, Mp100(got.o.bound[i]));
  }
}

TEST(WordsDelta, OverflowIsNoProof) {
  const std::vector<double> k(400, 0x1p100), v(400, 1), none;
  const DeltaProblem problem{400, 1, 1, k, k, v, none, none, none, none, DeltaError::decayed};
  const DeltaAnswer got = delta_forward(problem, {2, 1, best_isa()});
  EXPECT_TRUE(std::isinf(got.o.bound.back()));
}

}  // namespace
}  // namespace assay::words
