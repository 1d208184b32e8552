// Gradients of the local-linear-attention engine: bounds against the reference room in 335 bits and against the next
// tier, the same bits everywhere, ties of the largest score, rows that give nothing.
#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <thread>

#include "oracles/multiword/lla/lla.hpp"
#include "oracles/multiword/parallel.hpp"
#include "proptests/laws/property.hpp"
#include "proptests/words/lla_cases.hpp"
#include "reference/lla.hpp"

namespace assay::words {
namespace {

using Room = assay::lla;

/// What LlaGradients holds, as lists of tensors with names.
template <class Gradients>
auto named(Gradients& x) {
  return std::array{
      std::pair("o", &x.o),     std::pair("d_q", &x.d_q),           std::pair("d_k", &x.d_k),
      std::pair("d_v", &x.d_v), std::pair("d_lambda", &x.d_lambda), std::pair("d_bandwidth", &x.d_bandwidth)};
}

/// o and all gradients by the reference room.
std::vector<std::vector<Mp100>> reference(const LlaProblem& x, const std::vector<double>& g) {
  Room::Options options;
  options.causal = x.causal, options.has_window = x.window > 0, options.window = static_cast<int>(x.window);
  options.lambda_mode = x.mode == RidgeMode::mass  ? LlaOptions::LambdaMode::mass
                        : x.mode == RidgeMode::max ? LlaOptions::LambdaMode::max
                                                   : LlaOptions::LambdaMode::absolute;
  const auto tensor = [](std::size_t rows, std::size_t columns, std::span<const double> data) {
    Tensor<Mp100, 2> t(static_cast<int>(rows), static_cast<int>(columns));
    std::copy(data.begin(), data.end(), t.data.begin());
    return t;
  };
  Room::Inputs<Mp100> in;
  in.bandwidth() = sqrt(Mp100(x.dim));
  in.q = tensor(x.queries, x.dim, x.q), in.k = tensor(x.keys, x.dim, x.k), in.v = tensor(x.keys, x.values, x.v);
  const std::size_t rows = x.lambda.size() == 1 ? 1 : x.queries;
  in.lambda = tensor(rows, x.lambda.size() / rows, x.lambda);
  Room::Outputs<Mp100> cotangent;
  cotangent.o = tensor(x.queries, x.values, g);
  const Room::Inputs<Mp100> d = Room::backward(options, in, cotangent);
  return {Room::forward(options, in).o.data, d.q.data, d.k.data, d.v.data, d.lambda.data, d.bandwidth.data};
}

/// The reference loses up to 100 of its 335 bits here.
Mp100 slack(const std::vector<Mp100>& truth) {
  Mp100 largest = 0;
  for (const Mp100& x : truth) largest = std::max(largest, Mp100(abs(x)));
  return largest * 0x1p-215 + 0x1p-235;
}

/// Everything within its bound of `truth`; how many entries were off at all.
std::size_t expect_gradients(const LlaGradients& got, const std::vector<std::vector<Mp100>>& truth) {
  std::size_t t = 0, off = 0;
  for (const auto& [name, x] : named(got)) {
    const std::vector<Mp100>& exact = truth[t++];
    EXPECT_EQ(x->bound.size(), exact.size()) << name;
    const Mp100 allowed = slack(exact);
    const auto entry = [&](std::size_t i) { return std::pair(exact[i], allowed); };
    expect_contained(*x, entry, name);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      EXPECT_TRUE(std::isfinite(x->bound[i])) << name << " " << i;
      if (value(*x, i) != exact[i]) ++off;
    }
  }
  return off;
}

LlaGradients backward(const LlaData& data, int words, const Escalation& escalation) {
  return lla_backward(data.problem, data.g, {words, 2, best_isa()}, escalation);
}

ASSAY_PROPERTY(WordsLlaGradients, EveryBoundHoldsAgainstTheReference) {
  const LlaCase c = *lla_cases();
  const LlaData data(c);
  const auto truth = reference(data.problem, data.g);
  RC_CLASSIFY(c.lambda_axes == 0, "one lambda");
  for (int words = 2; words <= 4; ++words) {
    const std::size_t off = expect_gradients(backward(data, words, {0, words}), truth);
    // One key has the weight 1 exactly.
    RC_ASSERT(off > 0 || c.keys == 1 || c.window == 1);
    RC_ASSERT(!testing::Test::HasFailure());
  }
}

LlaCase small(RidgeMode mode, int lambda_axes) {
  LlaCase c = square(40, 7);
  c.mode = mode, c.lambda_axes = lambda_axes, c.lambda_exponent = 0;
  return c;
}

TEST(WordsLlaGradients, AllModesAndShapesOfLambda) {
  for (const RidgeMode mode : {RidgeMode::absolute, RidgeMode::max, RidgeMode::mass})
    for (const int axes : {0, 1, 2})
      for (const auto& [causal, window] : {std::pair(true, 0), std::pair(true, 9), std::pair(false, 0)}) {
        SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode) << " axes " << axes << " window "
                                        << window);
        LlaCase c = small(mode, axes);
        c.causal = causal, c.window = static_cast<std::size_t>(window);
        const LlaData data(c);
        const LlaGradients got = backward(data, 2, {0, 2});
        EXPECT_GT(expect_gradients(got, reference(data.problem, data.g)), 100);
        const auto shape = std::pair(got.d_lambda.rows, got.d_lambda.columns);
        EXPECT_EQ(shape, std::pair(std::size_t(axes == 0 ? 1 : 40), std::size_t(axes == 2 ? 7 : 1)));
        // The target of an ordinary head.
        for (const auto& [name, x] : named(got)) {
          double largest = 0;
          for (const double e : x->word[0]) largest = std::max(largest, std::fabs(e));
          for (const double bound : x->bound) ASSERT_LE(bound, 0x1p-60 * largest) << name;
        }
      }
}

ASSAY_PROPERTY(WordsLlaGradients, TheNextTierLiesInsideTheBound) {
  LlaCase c = *lla_cases();
  c.keys = c.queries = 150, c.dim = 20;
  const LlaData data(c);
  const LlaGradients coarse = backward(data, 2, {0, 2});
  for (const int words : {3, 4}) {
    const LlaGradients fine = backward(data, words, {0, words});
    const auto fine_tensors = named(fine);
    for (std::size_t t = 0; t < fine_tensors.size(); ++t) {
      const auto [name, x] = named(coarse)[t];
      expect_agree(*x, *fine_tensors[t].second, name);
    }
    RC_ASSERT(!testing::Test::HasFailure());
  }
}

ASSAY_PROPERTY(WordsLlaGradients, InstructionSetsAndThreadsGiveTheSameBits) {
  LlaCase c = *lla_cases();
  // Several blocks and several stages of keys.
  c.queries = *rc::gen::element<std::size_t>(45, 130);
  c.keys = *rc::gen::element<std::size_t>(40, 200);
  const LlaData data(c);
  const LlaGradients first = lla_backward(data.problem, data.g, {2, 1, Isa::scalar}, {0x1p-70, 4});
  RC_CLASSIFY(std::count(first.words_used.begin(), first.words_used.end(), 2) == 0, "all rows again");
  for_each_way(2, [&](const Effort& effort) {
    const LlaGradients other = lla_backward(data.problem, data.g, effort, {0x1p-70, 4});
    for (std::size_t t = 0; t < 6; ++t) RC_ASSERT(same_bits(*named(first)[t].second, *named(other)[t].second));
    RC_ASSERT(first.words_used == other.words_used);
  });
}

TEST(WordsLlaGradients, TheOutputIsThatOfTheForward) {
  const LlaData data(small(RidgeMode::max, 1));
  EXPECT_TRUE(same_bits(backward(data, 3, {0, 3}).o, lla_forward(data.problem, {3, 1, best_isa()}, {0, 3}).o));
}

TEST(WordsLlaGradients, HardRowsGetMoreWordsUntilTheBoundsAreGoodEnough) {
  LlaCase c = square(96, 32);
  c.mode = RidgeMode::max, c.lambda_exponent = -30;
  const LlaData data(c);
  const LlaGradients got = backward(data, 2, {0x1p-63, 4});
  const auto more = std::count_if(got.words_used.begin(), got.words_used.end(), [](int w) { return w > 2; });
  EXPECT_GT(more, 0);
  EXPECT_LT(more, 96);
  const auto [d_k, largest] = std::pair(got.d_k, *std::max_element(got.d_k.word[0].begin(), got.d_k.word[0].end()));
  for (const double bound : d_k.bound) ASSERT_LE(bound, 0x1p-55 * largest);
  EXPECT_GT(expect_gradients(got, reference(data.problem, data.g)), 1000);
}

/// Fewer directions than dimensions and a ridge near the resolution of float: once one row of a block came to no end,
/// and once a float factor was kept that gained nothing.
TEST(WordsLlaGradients, RefinementComesToItsEndWhereOneWordSeesOnlyNoise) {
  LlaCase repeated{20, 17, 3, 16, 0, false, RidgeMode::absolute, KeyStyle::repeated, 1, -30, 199};
  LlaCase two{20, 2, 3, 1, 0, false, RidgeMode::mass, KeyStyle::normal, 2, -30, 311};
  for (const LlaCase& c : {repeated, two}) {
    const LlaData data(c);
    const LlaGradients got = backward(data, 2, {0, 2});
    // d_bandwidth all but vanishes: so few keys are interpolated.
    for (const auto& [name, x] : named(got)) {
      if (x == &got.d_bandwidth) continue;
      double largest = 0;
      for (const double e : x->word[0]) largest = std::max(largest, std::fabs(e));
      for (const double bound : x->bound) ASSERT_LE(bound, 0x1p-24 * largest) << name << ": " << c;
    }
  }
}

TEST(WordsLlaGradients, WithoutRidgeTheProofIsInTheMatrix) {
  for (const RidgeMode mode : {RidgeMode::absolute, RidgeMode::max, RidgeMode::mass}) {
    LlaCase c = small(mode, 0);
    // The first query sees 21 keys.
    c.queries = 20, c.keys = 40;
    LlaData data(c);
    data.lambda[0] = 0;
    data.problem.lambda = data.lambda;
    EXPECT_GT(expect_gradients(backward(data, 2, {0, 2}), reference(data.problem, data.g)), 100);
  }
}

/// Rows first, first + 1, ... alone.
LlaData late_rows(const LlaData& all, const LlaCase& c, std::size_t first) {
  LlaCase late = c;
  late.queries = c.queries - first;
  LlaData data(late);
  data.k = all.k, data.v = all.v, data.lambda = all.lambda;
  data.q.assign(all.q.begin() + static_cast<std::ptrdiff_t>(first * c.dim), all.q.end());
  data.g.assign(all.g.begin() + static_cast<std::ptrdiff_t>(first * c.values), all.g.end());
  data.problem.q = data.q, data.problem.k = data.k, data.problem.v = data.v, data.problem.lambda = data.lambda;
  return data;
}

TEST(WordsLlaGradients, ARowWithoutACotangentGivesNothingEvenWhereItHasNoProof) {
  const LlaCase c = small(RidgeMode::mass, 0);
  LlaData data(c);
  data.lambda[0] = 0;
  data.problem.lambda = data.lambda;
  // Rows with d keys or fewer are singular.
  const LlaGradients lost = backward(data, 2, {});
  EXPECT_TRUE(std::isinf(lost.d_k.bound[0]));
  EXPECT_TRUE(std::isinf(lost.d_bandwidth.bound[0]));
  EXPECT_TRUE(std::isfinite(lost.d_k.bound[39 * c.dim]));
  EXPECT_TRUE(std::isfinite(lost.d_q.bound[20 * c.dim]));
  std::fill_n(data.g.begin(), 12 * c.values, 0.0);
  const LlaGradients got = backward(data, 2, {0, 2});
  const LlaData late = late_rows(data, c, 12);
  std::vector<std::vector<Mp100>> truth = reference(late.problem, late.g);
  for (std::size_t i = 0; i < 12 * c.dim; ++i) {
    EXPECT_EQ(got.d_q.word[0][i], 0);
    EXPECT_EQ(got.d_q.bound[i], 0);
  }
  std::size_t off = 0;
  for (std::size_t i = 0; i < 40 * c.dim; ++i) {
    const Mp100 error = abs(value(got.d_k, i) - truth[2][i]);
    ASSERT_LE(error, Mp100(got.d_k.bound[i]) + slack(truth[2])) << i;
    ASSERT_LT(got.d_k.bound[i], 1e-12) << i;
    if (error > 0) ++off;
  }
  EXPECT_GT(off, 100);
}

TEST(WordsLlaGradients, ARowWithoutKeysGivesNothing) {
  LlaCase c = small(RidgeMode::mass, 2);
  c.queries = 12, c.keys = 5;
  const LlaData data(c);
  const LlaGradients got = backward(data, 2, {0, 2});
  for (std::size_t i = 0; i < 7 * c.dim; ++i) {
    EXPECT_EQ(got.d_q.word[0][i], 0);
    EXPECT_EQ(got.d_lambda.word[0][i], 0);
  }
  EXPECT_GT(expect_gradients(got, reference(data.problem, data.g)), 20);
}

/// The two heaviest keys of a query (1, 1) mirror each other: which is the largest score is not for an engine to say.
TEST(WordsLlaGradients, MirroredLargestScoresWidenTheBoundOfRidgeModeMaxAlone) {
  for (const RidgeMode mode : {RidgeMode::max, RidgeMode::mass}) {
    LlaCase c;
    c.queries = 1, c.keys = 5, c.dim = 2, c.values = 1, c.mode = mode, c.causal = false;
    LlaData data(c);
    data.q = {1, 1}, data.k = {0.25, 2, -1, 0.5, 2, 0.25, 0.125, -0.75, 0.5, 0.25};
    data.problem.q = data.q, data.problem.k = data.k;
    const LlaGradients got = backward(data, 4, {0, 4});
    EXPECT_GT(expect_gradients(got, reference(data.problem, data.g)), 0);
    for (const std::size_t key : {std::size_t{0}, std::size_t{2}}) {
      if (mode == RidgeMode::max)
        EXPECT_GT(got.d_k.bound[key * 2], 1e-6);
      else
        EXPECT_LT(got.d_k.bound[key * 2], 1e-40);
    }
    EXPECT_LT(got.d_k.bound[2], 1e-40);
    // Twice the same key is no tie: the first it is.
    data.k = {0.25, 2, -1, 0.5, 0.25, 2, 0.125, -0.75, 0.5, 0.25};
    data.problem.k = data.k;
    const LlaGradients twice = backward(data, 4, {0, 4});
    EXPECT_GT(expect_gradients(twice, reference(data.problem, data.g)), 0);
    for (const double bound : twice.d_k.bound) EXPECT_LT(bound, 1e-40);
  }
}

/// Entries of `a` and `b` that lie further apart than their bounds allow.
std::size_t apart(const Certified& a, const Certified& b) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < a.bound.size(); ++i)
    if (abs(value(a, i) - value(b, i)) > Mp100(a.bound[i]) + b.bound[i]) ++n;
  return n;
}

TEST(WordsLlaGradients, AWrongLastDigitIsSeen) {
  LlaData data(square(64, 16));
  const LlaGradients right = backward(data, 2, {0, 2});
  const auto changed = [&](std::vector<double>& x, std::size_t at) {
    const double before = std::exchange(x[at], std::nextafter(x[at], 9.0));
    const LlaGradients other = backward(data, 2, {0, 2});
    x[at] = before;
    std::vector<std::size_t> seen;
    for (std::size_t t = 0; t < 6; ++t) seen.push_back(apart(*named(right)[t].second, *named(other)[t].second));
    return seen;
  };
  // The last of its row of g: what only the last row gives changes everywhere.
  const std::vector<std::size_t> by_g = changed(data.g, 63 * 16 + 3);
  EXPECT_EQ(by_g[0], 0);
  EXPECT_EQ(by_g[1], 16);
  EXPECT_GT(by_g[2], 64 * 16 * 9 / 10);
  EXPECT_EQ(by_g[3], 64);
  EXPECT_EQ(by_g[4] + by_g[5], 2);
  const std::vector<std::size_t> by_k = changed(data.k, 3);
  for (const std::size_t t : {0, 1, 2, 3}) EXPECT_GT(by_k[t], right.o.bound.size() * 9 / 10) << t;
  EXPECT_EQ(by_k[4] + by_k[5], 2);
  // And so is the second word of every entry.
  for (const auto& [name, x] : named(right)) {
    Certified wrong = *x;
    for (std::size_t i = 0; i < wrong.bound.size(); ++i) wrong.word[1][i] = -wrong.word[1][i];
    const std::size_t zeros = std::count(x->word[1].begin(), x->word[1].end(), 0.0);
    EXPECT_GE(apart(wrong, *x), (wrong.bound.size() - zeros) * 9 / 10) << name;
    EXPECT_LT(zeros, wrong.bound.size()) << name;
  }
}

TEST(WordsLlaGradients, RefusesACotangentThatDoesNotFit) {
  LlaData data(square(8, 4));
  const auto run = [&] { lla_backward(data.problem, data.g, {2, 1, best_isa()}); };
  EXPECT_NO_THROW(run());
  data.g[5] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(run(), InputError);
  data.g.pop_back();
  EXPECT_THROW(run(), InputError);
}

TEST(WordsTurns, EveryStageSeesTheItemsInOrder) {
  constexpr std::size_t stages = 3, items = 50;
  std::vector<std::vector<std::size_t>> seen(stages);
  Turns turns(stages);
  in_parallel(items, 4, [&](std::size_t i) {
    if (i % 3 == 0) std::this_thread::yield();
    for (std::size_t s = 0; s < stages; ++s) turns.in_turn(s, i, [&] { seen[s].push_back(i); });
  });
  for (const auto& order : seen) {
    ASSERT_EQ(order.size(), items);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  }
}

TEST(WordsTurns, NobodyWaitsForAnItemThatFailed) {
  Turns turns(1);
  std::atomic<int> ran = 0;
  const auto work = [&](std::size_t i) {
    try {
      if (i == 2) throw InputError("no");
      turns.in_turn(0, i, [&] { ++ran; });
    } catch (...) {
      turns.abandon();
      throw;
    }
  };
  EXPECT_THROW(in_parallel(20, 3, work), InputError);
  EXPECT_LE(ran, 2);
}

}  // namespace
}  // namespace assay::words
