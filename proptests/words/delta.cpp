// The delta engine, on its way forward and back: every bound holds against the next tier and against 335 bits, the bits
// are the same everywhere, and a wrong last digit is seen.
#include "oracles/multiword/delta.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "proptests/laws/property.hpp"
#include "proptests/words/delta_cases.hpp"
#include "reference/core/error.hpp"

namespace assay::words {
namespace {

/// The recurrence as delta-family.md writes it, forward and back, every state kept; `before` is the gradient of the
/// initial state.
struct Exact {
  std::vector<Mp100> o, final_state, q, k, v, beta, log_decay, before;

  explicit Exact(const DeltaProblem& x, const DeltaCotangent& cotangent = {})
      : o(x.v.size()),
        q(x.q.size()),
        k(x.k.size()),
        v(x.v.size()),
        beta(x.steps),
        log_decay(x.log_decay.size()),
        before(x.keys * x.values) {
    const std::size_t T = x.steps, K = x.keys, V = x.values;
    const bool by_step = x.log_decay.size() == T;
    const Mp100 scale = 1 / sqrt(Mp100(K));
    std::vector<Mp100> alpha(T * K, 1);
    for (std::size_t i = 0; i < alpha.size() && !x.log_decay.empty(); ++i) {
      const double g = x.log_decay[by_step ? i / K : i];
      alpha[i] = std::isinf(g) ? Mp100(0) : Mp100(exp(Mp100(g)));
    }
    std::vector<std::vector<Mp100>> S{std::vector<Mp100>(K * V)};
    for (std::size_t i = 0; i < x.initial_state.size(); ++i) S[0][i] = x.initial_state[i];
    std::vector<Mp100> e(T * V);
    for (std::size_t t = 0; t < T; ++t) {
      std::vector<Mp100> next(K * V);
      for (std::size_t j = 0; j < V; ++j) {
        Mp100& r = e[t * V + j];
        r = x.v[t * V + j];
        for (std::size_t i = 0; i < K && x.error != DeltaError::none; ++i)
          r -= x.k[t * K + i] * S[t][i * V + j] * (x.error == DeltaError::decayed ? alpha[t * K + i] : Mp100(1));
        for (std::size_t i = 0; i < K; ++i) {
          next[i * V + j] = alpha[t * K + i] * S[t][i * V + j] + x.beta[t] * r * x.k[t * K + i];
          o[t * V + j] += scale * next[i * V + j] * x.q[t * K + i];
        }
      }
      S.push_back(next);
    }
    final_state = S.back();
    if (!cotangent.o.empty()) go_back(x, cotangent, alpha, S, e);
  }
  void go_back(const DeltaProblem& x, const DeltaCotangent& cotangent, const std::vector<Mp100>& alpha,
               const std::vector<std::vector<Mp100>>& S, const std::vector<Mp100>& e) {
    const std::size_t T = x.steps, K = x.keys, V = x.values;
    const Mp100 scale = 1 / sqrt(Mp100(K));
    for (std::size_t i = 0; i < cotangent.final_state.size(); ++i) before[i] = cotangent.final_state[i];
    for (std::size_t t = T; t-- > 0;)
      for (std::size_t j = 0; j < V; ++j) {
        const Mp100 c = scale * cotangent.o[t * V + j];
        Mp100 kg = 0;
        for (std::size_t i = 0; i < K; ++i) {
          q[t * K + i] += c * S[t + 1][i * V + j];
          before[i * V + j] += c * x.q[t * K + i];
          kg += x.k[t * K + i] * before[i * V + j];
        }
        const Mp100 de = x.beta[t] * kg;
        v[t * V + j] = de;
        beta[t] += kg * e[t * V + j];
        for (std::size_t i = 0; i < K; ++i) {
          Mp100& g = before[i * V + j];
          const Mp100 a = alpha[t * K + i], read = S[t][i * V + j];
          k[t * K + i] += x.beta[t] * e[t * V + j] * g;
          if (x.error == DeltaError::decayed) k[t * K + i] -= a * read * de, g -= x.k[t * K + i] * de;
          if (x.error == DeltaError::undecayed) k[t * K + i] -= read * de;
          if (!log_decay.empty()) log_decay[log_decay.size() == T ? t : t * K + i] += a * g * read;
          g *= a;
          if (x.error == DeltaError::undecayed) g -= x.k[t * K + i] * de;
        }
      }
  }
  std::array<const std::vector<Mp100>*, 8> all() const {
    return {&o, &final_state, &q, &k, &v, &beta, &log_decay, &before};
  }
};

constexpr std::size_t of_v = 4;

/// The first number of `part` that lies outside of its bound, or "".
std::string outside(const char* name, const Certified& part, const std::vector<Mp100>& truth) {
  if (part.bound.size() != truth.size()) return text(name, ": ", part.bound.size(), " numbers");
  Mp100 largest = 1;
  for (const Mp100& x : truth) largest = std::max(largest, Mp100(abs(x)));
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const Mp100 off = abs(value(part, i) - truth[i]);
    // 335 bits are not exact either; expanding states grow, and sums cancel.
    if (!(off <= part.bound[i] + ldexp(largest, -270)))
      return text(name, " ", i, " of ", truth.size(), ", ", part.words, " words: off by ", static_cast<double>(off),
                  ", bound ", part.bound[i]);
  }
  return "";
}
std::string outside(const GradientData& data, int words) {
  const Exact exact(data.problem, data.cotangent);
  const DeltaGradients got = delta_backward(data.problem, data.cotangent, {words, 1, best_isa()});
  for (std::size_t n = 0; n < exact.all().size(); ++n) {
    const auto [name, part] = tensors_of(got)[n];
    if (std::string where = outside(name, *part, *exact.all()[n]); !where.empty()) return where;
  }
  return "";
}

ASSAY_PROPERTY(WordsDelta, EveryBoundHoldsAgainstExactArithmetic) {
  const GradientData data(*delta_cases());
  for (int words = 2; words <= 4; ++words) RC_ASSERT(outside(data, words) == "");
}

/// And the way forward alone gives the bits of the way forward and back: its bounds hold as these do.
ASSAY_PROPERTY(WordsDelta, InstructionSetsAndThreadsGiveTheSameBits) {
  DeltaCase c = *delta_cases();
  c.V = *rc::gen::element<std::size_t>(11, 75, 75);
  const GradientData data(c);
  for (int words = 2; words <= 4; ++words) {
    const DeltaGradients first = delta_backward(data.problem, data.cotangent, {words, 1, Isa::scalar});
    for_each_way(words, [&](const Effort& effort) {
      const DeltaAnswer forward = delta_forward(data.problem, effort);
      const DeltaGradients other = delta_backward(data.problem, data.cotangent, effort);
      RC_ASSERT(same_bits(forward.o, first.answer.o) && same_bits(forward.final_state, first.answer.final_state));
      for (std::size_t n = 0; n < tensors_of(first).size(); ++n)
        RC_ASSERT(same_bits(*tensors_of(first)[n].second, *tensors_of(other)[n].second));
    });
  }
}

TEST(WordsDelta, LongRecurrencesKeepUsefulBounds) {
  DeltaCase c;
  c.T = 1000, c.K = 32, c.V = 16, c.style = KeyStyle::unit, c.decay = DeltaDecay::per_step;
  const DeltaData data(c);
  for (int words = 2; words <= 4; ++words) {
    const DeltaAnswer got = delta_forward(data.problem, {words, 1, best_isa()});
    for (std::size_t i = 0; i < got.o.bound.size(); ++i)
      ASSERT_LT(got.o.bound[i], std::ldexp(1.0, -53 * words + 16 + 6 * words)) << "words " << words << " entry " << i;
  }
}

TEST(WordsDelta, ErrorsOfAForgottenStateTravelOn) {
  // Four orthonormal keys erase a huge state and nothing is written after; its rounding errors, far above those of the
  // later steps, stay.
  constexpr std::size_t T = 12, K = 4, V = 8;
  Random random(6);
  std::vector<double> q = random.normals(T * K), v = random.normals(T * V), k(T * K), initial = random.normals(K * V);
  std::vector<double> log_decay(T, 0), beta(T, 0);
  for (double& x : initial) x = std::ldexp(x, 64);
  for (std::size_t t = 0; t < T; ++t) {
    if (t < K) log_decay[t] = -0.1, beta[t] = 1;
    for (std::size_t i = 0; i < K; ++i) k[t * K + i] = ((t & i & 1) ^ (t >> 1 & i >> 1 & 1)) != 0 ? -0.5 : 0.5;
  }
  const DeltaProblem problem{T, K, V, q, k, v, beta, log_decay, initial, DeltaError::decayed, reciprocal_sqrt(K)};
  const DeltaAnswer got = delta_forward(problem, {2, 1, best_isa()});
  const Exact exact(problem);
  for (std::size_t i = 6 * V; i < T * V; ++i) {
    ASSERT_LT(std::fabs(got.o.word[0][i]), 100);
    const Mp100 error = abs(value(got.o, i) - exact.o[i]);
    ASSERT_GT(error, Mp100(0x1p-60)) << "the case is not what it should be";
    ASSERT_LE(error, Mp100(got.o.bound[i]));
  }
}

TEST(WordsDeltaGradients, SlicesOfColumnsAreOneAnswer) {
  DeltaCase c;
  c.T = 5, c.K = 3, c.V = 131, c.decay = DeltaDecay::per_channel, c.initial = true;
  const GradientData data(c);
  for (int words = 2; words <= 4; ++words) EXPECT_EQ(outside(data, words), "");
}

/// Segments, slices of columns and the last slab's empty lanes, all at once.
DeltaCase long_case(DeltaDecay decay, DeltaError error) {
  DeltaCase c;
  c.T = 150, c.K = 24, c.V = 131, c.style = KeyStyle::unit, c.decay = decay, c.error = error, c.initial = true;
  return c;
}

TEST(WordsDeltaGradients, LongRecurrencesKeepUsefulBounds) {
  for (const auto& [decay, error] :
       {std::pair(DeltaDecay::none, DeltaError::decayed), std::pair(DeltaDecay::per_step, DeltaError::decayed),
        std::pair(DeltaDecay::per_step, DeltaError::undecayed), std::pair(DeltaDecay::per_step, DeltaError::none),
        std::pair(DeltaDecay::per_channel, DeltaError::decayed)}) {
    const GradientData data(long_case(decay, error));
    DeltaGradients finer;
    for (int words = 4; words >= 2; --words) {
      const DeltaGradients got = delta_backward(data.problem, data.cotangent, {words, 1, best_isa()});
      for (std::size_t n = 0; n < tensors_of(got).size(); ++n) {
        const auto [name, tensor] = tensors_of(got)[n];
        const Certified& part = *tensor;
        double largest = 0, bound = 0;
        for (const double x : part.word[0]) largest = std::max(largest, std::fabs(x));
        for (const double b : part.bound) bound = std::max(bound, b);
        if (n > 1) {  // the gradients
          EXPECT_LE(bound, std::ldexp(largest, -53 * words + 14 + 6 * words)) << name << ' ' << words;
        }
        if (words < 4) expect_agree(part, *tensors_of(finer)[n].second, name);
      }
      finer = got;
    }
  }
}

TEST(WordsDeltaGradients, NoTokensPassTheCotangentOfTheStateOn) {
  const std::vector<double> none, end{1, -2, 3, 4, -5, 6};
  DeltaProblem problem;
  problem.keys = 3, problem.values = 2;
  const DeltaGradients d = delta_backward(problem, {none, end}, {2, 1, best_isa()});
  EXPECT_EQ(d.initial_state.word[0], end);
  EXPECT_TRUE(d.q.bound.empty() && d.v.bound.empty());
}

TEST(WordsDeltaGradients, WhatIsZeroIsZeroInEveryWord) {
  DeltaCase c = long_case(DeltaDecay::per_step, DeltaError::decayed);
  c.T = 12, c.V = 9, c.initial = false;
  GradientData data(c);
  data.log_decay[5] = -std::numeric_limits<double>::infinity();
  data.problem.log_decay = data.log_decay;
  data.beta[7] = 0;
  const DeltaGradients d = delta_backward(data.problem, data.cotangent, {2, 1, best_isa()});
  // No state before the first token, none left after the sixth's decay; a write of strength zero hands nothing on.
  for (int w = 0; w < 2; ++w) {
    EXPECT_EQ(d.log_decay.word[w][0], 0);
    EXPECT_EQ(d.log_decay.word[w][5], 0);
    for (std::size_t j = 0; j < c.V; ++j) EXPECT_EQ(d.v.word[w][7 * c.V + j], 0);
  }
  EXPECT_NE(d.log_decay.word[0][4], 0);
}

TEST(WordsDeltaGradients, AWrongLastDigitIsSeen) {
  GradientData data(long_case(DeltaDecay::none, DeltaError::decayed));
  const DeltaGradients right = delta_backward(data.problem, data.cotangent, {2, 1, best_isa()});
  double& digit = data.cotangent_o[149 * 131 + 5];
  digit = std::nextafter(digit, 2.0);
  const DeltaGradients other = delta_backward(data.problem, data.cotangent, {2, 1, best_isa()});
  const auto apart = [&](std::size_t n, std::size_t i) {
    const Certified &a = *tensors_of(right)[n].second, &b = *tensors_of(other)[n].second;
    return abs(value(a, i) - value(b, i)) > Mp100(a.bound[i]) + b.bound[i];
  };
  std::size_t seen = 0, total = 0;
  for (std::size_t t = 100; t < 150; ++t) seen += apart(of_v, t * 131 + 5) ? 1 : 0, ++total;
  EXPECT_GT(seen, total * 9 / 10);
  EXPECT_FALSE(apart(of_v, 149 * 131 + 6)) << "no column meets another one";
}

TEST(WordsDeltaGradients, ErrorsOfAnErasedCotangentTravelOn) {
  // On the way back the last four keys, orthonormal, erase a huge cotangent of the state; its rounding errors, far
  // above those of the steps before, stay.
  constexpr std::size_t T = 12, K = 4, V = 8;
  Random random(6);
  std::vector<double> q = random.normals(T * K), v = random.normals(T * V), k(T * K), end = random.normals(K * V),
                      o = random.normals(T * V), log_decay(T, 0), beta(T, 0);
  for (double& x : end) x = std::ldexp(x, 64);
  for (std::size_t t = 0; t < T; ++t) {
    if (t >= T - K) log_decay[t] = -0.1, beta[t] = 1;
    if (t == 2) beta[t] = 0.5;
    for (std::size_t i = 0; i < K; ++i) k[t * K + i] = ((t & i & 1) ^ (t >> 1 & i >> 1 & 1)) != 0 ? -0.5 : 0.5;
  }
  DeltaProblem problem;
  problem.steps = T, problem.keys = K, problem.values = V, problem.q = q, problem.k = k, problem.v = v;
  problem.beta = beta, problem.log_decay = log_decay, problem.scale = reciprocal_sqrt(K);
  const DeltaGradients got = delta_backward(problem, {o, end}, {2, 1, best_isa()});
  const Exact exact(problem, {o, end});
  for (std::size_t i = 0; i < V; ++i) {
    const std::size_t at = 2 * V + i;
    ASSERT_LT(std::fabs(got.v.word[0][at]), 100);
    for (const auto& [part, truth, n] :
         {std::tuple(&got.v, &exact.v, at), std::tuple(&got.initial_state, &exact.before, i)}) {
      const Mp100 error = abs(value(*part, n) - (*truth)[n]);
      ASSERT_GT(error, Mp100(0x1p-70)) << "the case is not what it should be";
      ASSERT_LE(error, Mp100(part->bound[n]));
    }
  }
}

TEST(WordsDelta, WhatTheEngineIsNotForIsRefused) {
  DeltaCase c = long_case(DeltaDecay::per_channel, DeltaError::undecayed);
  c.T = 4, c.V = 3;
  const GradientData data(c);
  EXPECT_THROW(delta_forward(data.problem, {2, 1, best_isa()}), InputError);
  EXPECT_THROW(delta_backward(data.problem, data.cotangent, {2, 1, best_isa()}), InputError);
  DeltaProblem plain = data.problem;
  plain.log_decay = {};
  const std::vector<double> short_one(11, 1);
  EXPECT_THROW(delta_backward(plain, {short_one, {}}, {2, 1, best_isa()}), InputError);
}

TEST(WordsDelta, OverflowIsNoProof) {
  const std::vector<double> k(400, 0x1p100), v(400, 1);
  DeltaProblem problem;
  problem.steps = 400, problem.keys = problem.values = 1, problem.q = problem.k = k, problem.v = v;
  const DeltaGradients d = delta_backward(problem, {v, {}}, {2, 1, best_isa()});
  EXPECT_TRUE(std::isinf(d.answer.o.bound.back()) && std::isinf(d.v.bound.front()));
}

}  // namespace
}  // namespace assay::words
