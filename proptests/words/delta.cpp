// The delta engine, on its way forward and back: every bound holds against the next tier and against 335 bits and is
// narrow enough to see a wrong last digit, and the bits are the same everywhere.
#include "oracles/multiword/delta.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arguments/programs/library.hpp"
#include "language/answers/answer.hpp"
#include "proptests/laws/property.hpp"
#include "proptests/words/delta_cases.hpp"
#include "reference/core/error.hpp"

namespace assay::words {
namespace {

/// What the program of that rule says in 335 bits, with gradients where there are cotangents.
BasicAnswer<Mp100> truth_of(const DeltaProblem& x, const DeltaCotangent& cotangent = {}) {
  constexpr const char* names[][3] = {{"linear_attention", "mamba2", "gla"}, {"deltanet", "gated_deltanet", "kda"}};
  const bool predicts = x.error != DeltaError::none, by_step = x.log_decay.size() == x.steps;
  const std::string room = names[predicts ? 1 : 0][x.log_decay.empty() ? 0 : by_step ? 1 : 2];
  const auto n = [](std::size_t size) { return static_cast<int>(size); };
  const auto array = [](std::vector<int> shape, std::span<const double> numbers) {  // zeros where there are none
    Array a(std::move(shape));
    std::copy(numbers.begin(), numbers.end(), a.data.begin());
    return a;
  };
  const int T = n(x.steps), K = n(x.keys), V = n(x.values);
  Problem problem{"", room, {}, {}, {}};
  problem.inputs = {{"q", array({T, K}, x.q)},
                    {"k", array({T, K}, x.k)},
                    {"v", array({T, V}, x.v)},
                    {"initial_state", array({K, V}, x.initial_state)}};
  if (predicts) problem.inputs["beta"] = array({T}, x.beta);
  if (!x.log_decay.empty())
    problem.inputs["log_decay"] = array(by_step ? std::vector<int>{T} : std::vector<int>{T, K}, x.log_decay);
  if (x.error == DeltaError::undecayed && room == "gated_deltanet") problem.params["error"] = std::string("undecayed");
  if (!cotangent.o.empty())
    problem.cotangents = {{"o", array({T, V}, cotangent.o)}, {"final_state", array({K, V}, cotangent.final_state)}};
  const language::Mechanism mechanism(arguments::mechanism_program(room, problem.params));
  return language::answer<Mp100>(language::Posed<double>(mechanism, problem), !cotangent.o.empty());
}

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
/// Of a tensor of its answer in two, three or four words.
std::string outside(const GradientData& data) {
  BasicAnswer<Mp100> truth = truth_of(data.problem, data.cotangent);
  truth.gradients.merge(truth.outputs);
  for (int words = 2; words <= 4; ++words) {
    const DeltaGradients got = delta_backward(data.problem, data.cotangent, {words, 1, best_isa()});
    for (const auto& [name, part] : tensors_of(got)) {
      if (name == std::string("log_decay") && data.log_decay.empty()) continue;
      if (name == std::string("beta") && data.beta.empty()) continue;
      if (std::string where = outside(name, *part, truth.gradients.at(name).data); !where.empty()) return where;
    }
  }
  return "";
}

ASSAY_PROPERTY(WordsDelta, EveryBoundHoldsAgainstExactArithmetic) {
  const GradientData data(*delta_cases());
  RC_ASSERT(outside(data) == "");
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

/// Four orthonormal keys, those from token `first` on, erase what is huge, a state on the way forward and a cotangent
/// of one on the way back. Its rounding errors, far above those of the other steps, stay.
struct Erased {
  static constexpr std::size_t T = 12, K = 4, V = 8;
  Random random{6};
  std::vector<double> q = random.normals(T * K), v = random.normals(T * V), k = std::vector<double>(T * K),
                      huge = random.normals(K * V), log_decay = std::vector<double>(T), beta = std::vector<double>(T);
  DeltaProblem problem{T, K, V, q, k, v, beta, log_decay, {}, DeltaError::decayed, reciprocal_sqrt(K)};

  explicit Erased(std::size_t first) {
    for (double& x : huge) x = std::ldexp(x, 64);
    for (std::size_t t = first; t < first + K; ++t) log_decay[t] = -0.1, beta[t] = 1;
    for (std::size_t t = 0; t < T; ++t)
      for (std::size_t i = 0; i < K; ++i) k[t * K + i] = ((t & i & 1) ^ (t >> 1 & i >> 1 & 1)) != 0 ? -0.5 : 0.5;
  }
};

/// A number below 100 that is off by more than its own rounding errors, and within its bound.
void expect_off(const Certified& part, std::size_t at, const Mp100& truth, double least) {
  const Mp100 error = abs(value(part, at) - truth);
  ASSERT_GT(error, Mp100(least)) << "the case is not what it should be";
  ASSERT_LE(error, Mp100(part.bound[at]));
}

TEST(WordsDelta, ErrorsOfAForgottenStateTravelOn) {
  Erased x(0);
  x.problem.initial_state = x.huge;
  const DeltaAnswer got = delta_forward(x.problem, {2, 1, best_isa()});
  const BasicArray<Mp100> o = truth_of(x.problem).outputs.at("o");
  for (std::size_t i = 6 * Erased::V; i < Erased::T * Erased::V; ++i) {
    ASSERT_LT(std::fabs(got.o.word[0][i]), 100);
    expect_off(got.o, i, o.data[i], 0x1p-60);
  }
}

TEST(WordsDeltaGradients, ErrorsOfAnErasedCotangentTravelOn) {
  Erased x(Erased::T - Erased::K);
  x.beta[2] = 0.5;
  const std::vector<double> o = x.random.normals(Erased::T * Erased::V);
  const DeltaGradients got = delta_backward(x.problem, {o, x.huge}, {2, 1, best_isa()});
  const BasicArrays<Mp100> exact = truth_of(x.problem, {o, x.huge}).gradients;
  for (std::size_t i = 0; i < Erased::V; ++i) {
    const std::size_t at = 2 * Erased::V + i;
    ASSERT_LT(std::fabs(got.v.word[0][at]), 100);
    expect_off(got.v, at, exact.at("v").data[at], 0x1p-70);
    expect_off(got.initial_state, i, exact.at("initial_state").data[i], 0x1p-70);
  }
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
        if (n > 1) {  // the gradients
          EXPECT_LE(worst(*tensor), std::ldexp(1.0, -53 * words + 14 + 6 * words)) << name << ' ' << words;
        }
        if (words < 4) expect_agree(*tensor, *tensors_of(finer)[n].second, name);
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
