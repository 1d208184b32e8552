// The engine of local linear attention, Parallax and softmax attention, on its way forward and back: bounds against
// reference and programs in 335 bits and against the next tier, the same bits everywhere, no proof where there is none.
#include "oracles/multiword/lla/lla.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "language/evaluate/evaluate.hpp"
#include "language/program/gradient.hpp"
#include "oracles/multiword/parallel.hpp"
#include "proptests/language/programs.hpp"
#include "proptests/laws/property.hpp"
#include "proptests/words/lla_cases.hpp"
#include "reference/lla.hpp"

namespace assay::words {
namespace {

constexpr Slope all_slopes[] = {Slope::solved, Slope::given, Slope::zero};

/// The tensors of LlaGradients by name; d_lambda is empty without a ridge, d_probe without a probe.
template <class X>
auto named(X& x) {
  return std::array{std::pair("o", &x.o),
                    std::pair("d_q", &x.d_q),
                    std::pair("d_k", &x.d_k),
                    std::pair("d_v", &x.d_v),
                    std::pair("d_bandwidth", &x.d_bandwidth),
                    std::pair("d_lambda", &x.d_lambda),
                    std::pair("d_probe", &x.d_probe)};
}

Tensor<Mp100, 2> tensor(std::size_t rows, std::size_t columns, std::span<const double> data) {
  Tensor<Mp100, 2> t(static_cast<int>(rows), static_cast<int>(columns));
  std::copy(data.begin(), data.end(), t.data.begin());
  return t;
}

/// o and all gradients by the reference of local linear attention.
std::vector<std::vector<Mp100>> by_reference(const LlaProblem& x, const std::vector<double>& g) {
  assay::lla::Options options;
  options.causal = x.causal, options.has_window = x.window > 0, options.window = static_cast<int>(x.window);
  options.lambda_mode = x.mode == RidgeMode::mass  ? LlaOptions::LambdaMode::mass
                        : x.mode == RidgeMode::max ? LlaOptions::LambdaMode::max
                                                   : LlaOptions::LambdaMode::absolute;
  assay::lla::Inputs<Mp100> in;
  in.bandwidth() = sqrt(Mp100(x.dim));
  in.q = tensor(x.queries, x.dim, x.q), in.k = tensor(x.keys, x.dim, x.k), in.v = tensor(x.keys, x.values, x.v);
  const std::size_t rows = x.lambda.size() == 1 ? 1 : x.queries;
  in.lambda = tensor(rows, x.lambda.size() / rows, x.lambda);
  assay::lla::Outputs<Mp100> cotangent;
  cotangent.o = tensor(x.queries, x.values, g);
  const auto d = assay::lla::backward(options, in, cotangent);
  return {assay::lla::forward(options, in).o.data, d.q.data, d.k.data, d.v.data, d.bandwidth.data, d.lambda.data, {}};
}

/// The same by the program of a mechanism, and of its gradients.
std::vector<std::vector<Mp100>> by_program(const std::string& name, const LlaProblem& x, const std::vector<double>& g) {
  using language::Strides, language::Truth;
  using V = language::Value<Mp100>;
  const language::Program gradient = language::gradient_of(language::load_program(language::in_library(name)));
  const auto length = [](std::size_t n) { return static_cast<int>(n); };
  const language::Sizes sizes{
      {"T", length(x.queries)}, {"S", length(x.keys)}, {"K", length(x.dim)}, {"V", length(x.values)}};
  const auto reals = [&](const language::Type& type, std::span<const double> data) {
    return V::of(shape_of(type, sizes), std::vector<Mp100>(data.begin(), data.end()));
  };
  const std::map<std::string, std::span<const double>> tensors{
      {"q", x.q}, {"k", x.k}, {"v", x.v}, {"rho", x.probe}, {"d_o", g}};
  std::vector<V> given;
  for (const language::Input& input : gradient.inputs)
    if (input.name == "bandwidth")
      given.push_back(V::of(Strides{}, std::vector<Mp100>{sqrt(Mp100(x.dim))}));
    else if (input.name == "causal")
      given.push_back(V::of(Strides{}, std::vector<Truth>{x.causal ? Truth::yes : Truth::no}));
    else if (input.name == "window")
      given.push_back(V::of(Strides{}, std::vector<std::int64_t>{
                                           static_cast<std::int64_t>(x.window > 0 ? x.window : x.queries + x.keys)}));
    else
      given.push_back(reals(input.type, tensors.at(input.name)));
  const std::vector<V> results = language::evaluate<Mp100>(*gradient.body, std::move(given), sizes);
  std::vector<std::vector<Mp100>> all;
  for (const char* output : {"o", "d_q", "d_k", "d_v", "d_bandwidth", "d_lambda", "d_rho"}) {
    const auto at = std::ranges::find(gradient.outputs, output);
    all.push_back(at == gradient.outputs.end()
                      ? std::vector<Mp100>()
                      : results[static_cast<std::size_t>(at - gradient.outputs.begin())].in_rows());
  }
  return all;
}

/// o and all gradients, in the order of named().
std::vector<std::vector<Mp100>> reference(const LlaData& data) {
  const LlaProblem& x = data.problem;
  return x.slope == Slope::solved  ? by_reference(x, data.g)
         : x.slope == Slope::given ? by_program("parallax", x, data.g)
                                   : by_program("softmax_attention", x, data.g);
}

/// The error of the reference's own 335 bits. A solve may lose up to 100 of them; else terms are at most 2^20 here,
/// but for keys that make them smaller.
Mp100 slack(const LlaData& data, const std::vector<Mp100>& truth) {
  Mp100 largest = 0;
  for (const Mp100& x : truth) largest = std::max(largest, Mp100(abs(x)));
  if (data.problem.slope == Slope::solved) return largest * 0x1p-215 + 0x1p-235;
  double key = 0;
  for (const double x : data.k) key = std::max(key, std::fabs(x));
  return largest * 0x1p-260 + std::min(key, 1.0) * 0x1p-260;
}

/// Everything within its bound of the reference; how many entries were off at all.
std::size_t expect_gradients(const LlaData& data, const LlaGradients& got,
                             const std::vector<std::vector<Mp100>>& truth) {
  std::size_t t = 0, off = 0;
  for (const auto& [name, x] : named(got)) {
    const std::vector<Mp100>& exact = truth[t++];
    EXPECT_EQ(x->bound.size(), exact.size()) << name;
    const Mp100 allowed = slack(data, exact);
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

LlaCase square_of(Slope slope, std::size_t n, std::size_t d) {
  LlaCase c = square(n, d);
  c.slope = slope;
  return c;
}

/// And the way forward alone gives the bits of the way forward and back: its bounds hold as these do.
ASSAY_PROPERTY(WordsLla, EveryBoundHoldsAgainstTheReference) {
  const LlaCase c = *lla_cases();
  const LlaData data(c);
  const auto truth = reference(data);
  RC_CLASSIFY(c.slope == Slope::solved, "solved");
  for (int words = 2; words <= 4; ++words) {
    const LlaGradients got = backward(data, words, {0, words});
    const std::size_t off = expect_gradients(data, got, truth);
    // One key has the weight 1 exactly, two of the same score one half.
    RC_ASSERT(off > 0 || c.keys <= 2 || c.window == 1);
    RC_ASSERT(same_bits(got.o, lla_forward(data.problem, {words, 1, best_isa()}, {0, words}).o));
  }
}

/// Two keys whose scores are 155 apart: A is 2^-144 in float, and its inverse infinite.
TEST(WordsLla, AMatrixThatNoFloatInvertsIsFactoredInDouble) {
  LlaCase c = square_of(Slope::solved, 2, 1);
  c.mode = RidgeMode::absolute, c.lambda_exponent = -24;
  LlaData data(c);
  data.k = {59.4, -50.6}, data.q = {1.41, 1.41};
  data.problem.q = data.q, data.problem.k = data.k;
  expect_gradients(data, backward(data, 2, {0, 2}), reference(data));
}

ASSAY_PROPERTY(WordsLla, TheNextTierLiesInsideTheBound) {
  LlaCase c = *lla_cases();
  c.keys = c.queries = 150, c.dim = 20;
  const LlaData data(c);
  const LlaGradients coarse = backward(data, 2, {0, 2});
  for (const int words : {3, 4}) {
    const LlaGradients fine = backward(data, words, {0, words});
    for (std::size_t t = 0; t < named(fine).size(); ++t)
      expect_agree(*named(coarse)[t].second, *named(fine)[t].second, named(fine)[t].first);
  }
}

ASSAY_PROPERTY(WordsLla, InstructionSetsAndThreadsGiveTheSameBits) {
  LlaCase c = *lla_cases();
  // Several blocks and several stages of keys.
  c.queries = *rc::gen::element<std::size_t>(45, 130);
  c.keys = *rc::gen::element<std::size_t>(40, 200);
  const LlaData data(c);
  const Escalation escalation{c.slope == Slope::solved ? 0x1p-70 : 0x1p-90, 4};
  const LlaGradients first = lla_backward(data.problem, data.g, {2, 1, Isa::scalar}, escalation);
  const LlaAnswer forward = lla_forward(data.problem, {2, 1, Isa::scalar}, escalation);
  RC_CLASSIFY(std::count(first.words_used.begin(), first.words_used.end(), 2) == 0, "all rows again");
  for_each_way(2, [&](const Effort& effort) {
    const LlaGradients other = lla_backward(data.problem, data.g, effort, escalation);
    for (std::size_t t = 0; t < named(other).size(); ++t)
      RC_ASSERT(same_bits(*named(first)[t].second, *named(other)[t].second));
    RC_ASSERT(first.words_used == other.words_used);
    const LlaAnswer again = lla_forward(data.problem, effort, escalation);
    RC_ASSERT(same_bits(forward.o, again.o));
    RC_ASSERT(forward.words_used == again.words_used);
  });
}

LlaCase small(RidgeMode mode, int lambda_axes) {
  LlaCase c = square(40, 7);
  c.mode = mode, c.lambda_axes = lambda_axes, c.lambda_exponent = 0;
  return c;
}

TEST(WordsLla, AllMasksOfAllKindsOfHeads) {
  std::vector<LlaCase> kinds;
  for (const Slope slope : {Slope::zero, Slope::given})
    for (const KeyStyle style : all_key_styles) kinds.push_back(square_of(slope, 40, 7)), kinds.back().style = style;
  for (const RidgeMode mode : {RidgeMode::absolute, RidgeMode::max, RidgeMode::mass})
    for (const int axes : {0, 1, 2}) kinds.push_back(small(mode, axes));
  for (LlaCase c : kinds)
    for (const auto& [causal, window] : {std::pair(true, 0), std::pair(true, 9), std::pair(false, 0)}) {
      c.causal = causal, c.window = static_cast<std::size_t>(window);
      SCOPED_TRACE(testing::Message() << c);
      const LlaData data(c);
      const LlaGradients got = backward(data, 2, {0, 2});
      EXPECT_GT(expect_gradients(data, got, reference(data)), 100);
      if (c.slope != Slope::solved) continue;
      const auto shape = std::pair(got.d_lambda.rows, got.d_lambda.columns);
      EXPECT_EQ(shape, std::pair(std::size_t(c.lambda_axes == 0 ? 1 : 40), std::size_t(c.lambda_axes == 2 ? 7 : 1)));
      // The target of an ordinary head.
      for (const auto& [name, x] : named(got)) EXPECT_LE(worst(*x), 0x1p-60) << name;
    }
}

TEST(WordsAttention, BoundsOfAnOrdinaryHeadMeetTheTarget) {
  for (const Slope slope : {Slope::zero, Slope::given}) {
    const LlaData data(square_of(slope, 300, 32));
    const LlaGradients got = backward(data, 2, {0, 2});
    for (const auto& [name, x] : named(got)) EXPECT_LT(worst(*x), 0x1p-70) << name;
  }
}

/// rho in words, every number further off than before by what its bound says.
Certified moved_probe(const LlaData& data, double off, int words) {
  Certified rho(words, data.problem.queries, data.problem.dim);
  Random random(3);
  for (std::size_t i = 0; i < data.probe.size(); ++i) {
    rho.word[0][i] = data.probe[i], rho.bound[i] = off;
    rho.word[1][i] = random.below(2) == 0 ? off : -off;
  }
  return rho;
}

TEST(WordsAttention, AProbeInWordsIsOffByItsBound) {
  const LlaData data(square_of(Slope::given, 40, 7));
  const auto truth = reference(data);
  const LlaGradients plain = backward(data, 2, {0, 2});
  const auto largest = [](std::span<const double> x) {
    return std::abs(
        *std::max_element(x.begin(), x.end(), [](double a, double b) { return std::abs(a) < std::abs(b); }));
  };
  const auto dim = static_cast<double>(data.problem.dim);
  const double of_length_one =
      2 * largest(data.v) * std::sqrt(dim) * largest(data.k) * std::sqrt(dim) / largest(plain.o.word[0]);
  for (const double off : {0.0, 0x1p-70, 0x1p-30}) {
    const Certified rho = moved_probe(data, off, 2);
    LlaProblem x = data.problem;
    x.probe = {}, x.probe_in_words = &rho;
    const LlaGradients got = lla_backward(x, data.g, {2, 2, best_isa()}, {0, 2});
    expect_gradients(data, got, truth);
    Mp100 farthest = 0;
    for (std::size_t i = 0; i < got.o.bound.size(); ++i)
      farthest = std::max(farthest, Mp100(abs(value(got.o, i) - truth[0][i])));
    EXPECT_GE(farthest, Mp100(off) / 8);
    // |sum p (v - vbar) (k - c).drho| <= max |v| 2 max |k| |drho|, in units of the largest o; and what it is off
    // anyway.
    EXPECT_LE(worst(got.o), 1.1 * (of_length_one * off + worst(plain.o)));
  }
}

/// Words of rho that a tier has no room for are its error.
TEST(WordsAttention, AProbeOfMoreWordsThanTheTier) {
  const LlaData data(square_of(Slope::given, 40, 7));
  Certified rho = moved_probe(data, 0, 3);
  std::fill(rho.word[2].begin(), rho.word[2].end(), 0x1p-60);
  LlaProblem x = data.problem;
  x.probe = {}, x.probe_in_words = &rho;
  const LlaGradients coarse = lla_backward(x, data.g, {2, 2, best_isa()}, {0, 2}),
                     fine = lla_backward(x, data.g, {3, 2, best_isa()}, {0, 3});
  for (std::size_t t = 0; t < named(fine).size(); ++t)
    expect_agree(*named(coarse)[t].second, *named(fine)[t].second, named(fine)[t].first);
  EXPECT_LT(worst(fine.o), 0x1p-100);
  EXPECT_GT(worst(coarse.o), 0x1p-64);
}

TEST(WordsLla, ARowWithoutKeysGivesNothing) {
  for (const Slope slope : all_slopes) {
    LlaCase c = square_of(slope, 12, 4);
    c.keys = 5, c.lambda_axes = slope == Slope::solved ? 2 : 0;
    const LlaData data(c);
    const LlaGradients got = backward(data, 2, {0, 2});
    for (const Certified* x : {&got.o, &got.d_q, &got.d_lambda, &got.d_probe})
      for (std::size_t i = 0; i < std::min(std::size_t{7} * 4, x->bound.size()); ++i) {
        EXPECT_EQ(x->word[0][i], 0);
        if (slope != Slope::solved || x == &got.o) {
          EXPECT_EQ(x->bound[i], 0);
        }
      }
    EXPECT_GT(expect_gradients(data, got, reference(data)), 20);
  }
}

TEST(WordsAttention, RefusesAProbeOrARidgeThatIsNotAskedFor) {
  const LlaData data(square_of(Slope::given, 8, 4));
  Certified rho = moved_probe(data, 0, 2), negative = rho, narrow(2, 8, 3);
  negative.bound[5] = -1;
  const auto run = [&](const auto& change) {
    LlaProblem x = data.problem;
    change(x);
    lla_forward(x, {2, 1, best_isa()});
  };
  EXPECT_NO_THROW(run([](LlaProblem&) {}));
  EXPECT_NO_THROW(run([&](LlaProblem& x) { x.probe_in_words = &rho; }));
  EXPECT_THROW(run([](LlaProblem& x) { x.slope = Slope::zero; }), InputError);
  EXPECT_THROW(run([&](LlaProblem& x) { x.lambda = data.lambda; }), InputError);
  EXPECT_THROW(run([](LlaProblem& x) { x.probe = x.probe.first(7); }), InputError);
  for (const Certified* bad : {&negative, &narrow})
    EXPECT_THROW(run([&](LlaProblem& x) { x.probe_in_words = bad; }), InputError);
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
  EXPECT_GT(expect_gradients(data, got, reference(data)), 1000);
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
      EXPECT_LE(worst(*x), 0x1p-24) << name << ": " << c;
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
    EXPECT_GT(expect_gradients(data, backward(data, 2, {0, 2}), reference(data)), 100);
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
  std::vector<std::vector<Mp100>> truth = reference(late);
  for (std::size_t i = 0; i < 12 * c.dim; ++i) {
    EXPECT_EQ(got.d_q.word[0][i], 0);
    EXPECT_EQ(got.d_q.bound[i], 0);
  }
  std::size_t off = 0;
  for (std::size_t i = 0; i < 40 * c.dim; ++i) {
    const Mp100 error = abs(value(got.d_k, i) - truth[2][i]);
    ASSERT_LE(error, Mp100(got.d_k.bound[i]) + slack(late, truth[2])) << i;
    ASSERT_LT(got.d_k.bound[i], 1e-12) << i;
    if (error > 0) ++off;
  }
  EXPECT_GT(off, 100);
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
    EXPECT_GT(expect_gradients(data, got, reference(data)), 0);
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
    EXPECT_GT(expect_gradients(data, twice, reference(data)), 0);
    for (const double bound : twice.d_k.bound) EXPECT_LT(bound, 1e-40);
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
