// Softmax attention and Parallax by the engine of local linear attention: bounds against the reference rooms in 335
// bits and against the next tier, the same bits everywhere, rows that see nothing or one key.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "oracles/multiword/lla/lla.hpp"
#include "proptests/laws/property.hpp"
#include "proptests/words/lla_cases.hpp"
#include "reference/parallax.hpp"
#include "reference/softmax_attention.hpp"

namespace assay::words {
namespace {

constexpr Slope both[] = {Slope::zero, Slope::given};

/// What LlaGradients holds without a ridge; d_probe is empty without a probe.
template <class Gradients>
auto named(Gradients& x) {
  return std::array{std::pair("o", &x.o),
                    std::pair("d_q", &x.d_q),
                    std::pair("d_k", &x.d_k),
                    std::pair("d_v", &x.d_v),
                    std::pair("d_bandwidth", &x.d_bandwidth),
                    std::pair("d_probe", &x.d_probe)};
}

Tensor<Mp100, 2> tensor(std::size_t rows, std::size_t columns, std::span<const double> data) {
  Tensor<Mp100, 2> t(static_cast<int>(rows), static_cast<int>(columns));
  std::copy(data.begin(), data.end(), t.data.begin());
  return t;
}

template <class Room>
std::vector<std::vector<Mp100>> reference_in(const LlaProblem& x, const std::vector<double>& g) {
  typename Room::Options options;
  options.causal = x.causal, options.has_window = x.window > 0, options.window = static_cast<int>(x.window);
  typename Room::template Inputs<Mp100> in;
  in.bandwidth() = sqrt(Mp100(x.dim));
  in.q = tensor(x.queries, x.dim, x.q), in.k = tensor(x.keys, x.dim, x.k), in.v = tensor(x.keys, x.values, x.v);
  if constexpr (requires { in.rho; }) in.rho = tensor(x.queries, x.dim, x.probe);
  const auto d = Room::backward(options, in, {tensor(x.queries, x.values, g)});
  std::vector<std::vector<Mp100>> all{
      Room::forward(options, in).o.data, d.q.data, d.k.data, d.v.data, d.bandwidth.data, {}};
  if constexpr (requires { d.rho; }) all.back() = d.rho.data;
  return all;
}

/// o and all gradients by the reference room, in the order of named().
std::vector<std::vector<Mp100>> reference(const LlaData& data) {
  return data.problem.slope == Slope::zero ? reference_in<softmax_attention>(data.problem, data.g)
                                           : reference_in<parallax>(data.problem, data.g);
}

/// What the reference's own 335 bits may be off by: terms are at most 2^20 here, but for keys that make them smaller.
Mp100 slack(const LlaData& data, const std::vector<Mp100>& truth) {
  Mp100 largest = 0;
  for (const Mp100& x : truth) largest = std::max(largest, Mp100(abs(x)));
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

rc::Gen<LlaCase> attention_cases() {
  return rc::gen::exec([] {
    LlaCase c = *lla_cases();
    c.mode = RidgeMode::mass, c.lambda_axes = 0;
    c.slope = *rc::gen::element(Slope::zero, Slope::given);
    return c;
  });
}

LlaCase square_of(Slope slope, std::size_t n, std::size_t d) {
  LlaCase c = square(n, d);
  c.slope = slope;
  return c;
}

/// The largest bound, relative to the largest entry; 0 of nothing.
double worst(const Certified& x) {
  double largest = 0x1p-500, bound = 0;
  for (const double e : x.word[0]) largest = std::max(largest, std::fabs(e));
  for (const double b : x.bound) bound = std::max(bound, b);
  return bound / largest;
}

ASSAY_PROPERTY(WordsAttention, EveryBoundHoldsAgainstTheReference) {
  const LlaCase c = *attention_cases();
  const LlaData data(c);
  const auto truth = reference(data);
  RC_CLASSIFY(c.slope == Slope::zero, "softmax");
  for (int words = 2; words <= 4; ++words) {
    const std::size_t off = expect_gradients(data, backward(data, words, {0, words}), truth);
    // One key has the weight 1 exactly, two of the same score one half.
    RC_ASSERT(off > 0 || c.keys <= 2 || c.window == 1);
    RC_ASSERT(!testing::Test::HasFailure());
  }
}

TEST(WordsAttention, AllMasksAndStylesOfKeys) {
  for (const Slope slope : both)
    for (const KeyStyle style : all_key_styles)
      for (const auto& [causal, window] : {std::pair(true, 0), std::pair(true, 9), std::pair(false, 0)}) {
        LlaCase c = square_of(slope, 40, 7);
        c.style = style, c.causal = causal, c.window = static_cast<std::size_t>(window);
        SCOPED_TRACE(testing::Message() << c);
        const LlaData data(c);
        EXPECT_GT(expect_gradients(data, backward(data, 2, {0, 2}), reference(data)), 100);
      }
}

TEST(WordsAttention, BoundsOfAnOrdinaryHeadMeetTheTarget) {
  for (const Slope slope : both) {
    const LlaData data(square_of(slope, 300, 32));
    const LlaGradients got = backward(data, 2, {0, 2});
    for (const auto& [name, x] : named(got)) EXPECT_LT(worst(*x), 0x1p-70) << name;
  }
}

ASSAY_PROPERTY(WordsAttention, TheNextTierLiesInsideTheBound) {
  LlaCase c = *attention_cases();
  c.keys = c.queries = 150, c.dim = 20;
  const LlaData data(c);
  const LlaGradients coarse = backward(data, 2, {0, 2}), fine = backward(data, 4, {0, 4});
  for (std::size_t t = 0; t < named(fine).size(); ++t)
    expect_agree(*named(coarse)[t].second, *named(fine)[t].second, named(fine)[t].first);
  RC_ASSERT(!testing::Test::HasFailure());
}

ASSAY_PROPERTY(WordsAttention, InstructionSetsAndThreadsGiveTheSameBits) {
  LlaCase c = *attention_cases();
  // Several blocks and several stages of keys.
  c.queries = *rc::gen::element<std::size_t>(45, 130);
  c.keys = *rc::gen::element<std::size_t>(40, 200);
  const LlaData data(c);
  const LlaGradients first = lla_backward(data.problem, data.g, {2, 1, Isa::scalar}, {0x1p-90, 4});
  RC_CLASSIFY(std::count(first.words_used.begin(), first.words_used.end(), 2) == 0, "all rows again");
  for_each_way(2, [&](const Effort& effort) {
    const LlaGradients other = lla_backward(data.problem, data.g, effort, {0x1p-90, 4});
    for (std::size_t t = 0; t < 6; ++t) RC_ASSERT(same_bits(*named(first)[t].second, *named(other)[t].second));
    RC_ASSERT(first.words_used == other.words_used);
  });
}

TEST(WordsAttention, TheOutputIsThatOfTheForward) {
  for (const Slope slope : both) {
    const LlaData data(square_of(slope, 40, 7));
    EXPECT_TRUE(same_bits(backward(data, 3, {0, 3}).o, lla_forward(data.problem, {3, 1, best_isa()}, {0, 3}).o));
  }
}

TEST(WordsAttention, AProbeOfZerosIsSoftmaxAttention) {
  LlaData data(square_of(Slope::given, 40, 7));
  std::fill(data.probe.begin(), data.probe.end(), 0.0);
  const LlaGradients got = backward(data, 2, {0, 2});
  data.problem.slope = Slope::zero, data.problem.probe = {};
  const LlaGradients plain = backward(data, 2, {0, 2});
  for (std::size_t t = 0; t < 5; ++t) expect_agree(*named(got)[t].second, *named(plain)[t].second, named(got)[t].first);
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
  for (std::size_t t = 0; t < 6; ++t)
    expect_agree(*named(coarse)[t].second, *named(fine)[t].second, named(fine)[t].first);
  EXPECT_LT(worst(fine.o), 0x1p-100);
  EXPECT_GT(worst(coarse.o), 0x1p-64);
}

TEST(WordsAttention, ARowWithoutKeysGivesNothing) {
  for (const Slope slope : both) {
    LlaCase c = square_of(slope, 12, 4);
    c.keys = 5;
    const LlaData data(c);
    const LlaGradients got = backward(data, 2, {0, 2});
    for (const Certified* x : {&got.o, &got.d_q, &got.d_probe})
      for (std::size_t i = 0; i < std::min(std::size_t{7} * 4, x->bound.size()); ++i) {
        EXPECT_EQ(x->word[0][i], 0);
        EXPECT_EQ(x->bound[i], 0);
      }
    EXPECT_GT(expect_gradients(data, got, reference(data)), 20);
  }
}

/// Entries of `a` and `b` that lie further apart than their bounds allow.
std::size_t apart(const Certified& a, const Certified& b) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < a.bound.size(); ++i)
    if (abs(value(a, i) - value(b, i)) > Mp100(a.bound[i]) + b.bound[i]) ++n;
  return n;
}

TEST(WordsAttention, AWrongLastDigitIsSeen) {
  for (const Slope slope : both) {
    LlaData data(square_of(slope, 64, 16));
    const LlaGradients right = backward(data, 2, {0, 2});
    data.k[3] = std::nextafter(data.k[3], 9.0);
    const LlaGradients other = backward(data, 2, {0, 2});
    for (std::size_t t = 0; t < 6; ++t) {
      const auto [name, x] = named(right)[t];
      // Row 0 sees one key; its weight is 1 whatever the key.
      EXPECT_GE(apart(*x, *named(other)[t].second), x->bound.size() * 9 / 10) << name;
      Certified wrong = *x;
      for (std::size_t i = 0; i < wrong.bound.size(); ++i) wrong.word[1][i] = -wrong.word[1][i];
      const auto zeros = static_cast<std::size_t>(std::count(x->word[1].begin(), x->word[1].end(), 0.0));
      EXPECT_GE(apart(wrong, *x), (wrong.bound.size() - zeros) * 9 / 10) << name;
    }
  }
}

TEST(WordsAttention, RefusesAProbeOrARidgeThatIsNotAskedFor) {
  const LlaData data(square_of(Slope::given, 8, 4));
  const auto run = [](const LlaProblem& x) { lla_forward(x, {2, 1, best_isa()}); };
  EXPECT_NO_THROW(run(data.problem));
  LlaProblem x = data.problem;
  x.slope = Slope::zero;
  EXPECT_THROW(run(x), InputError);
  x = data.problem, x.lambda = data.lambda;
  EXPECT_THROW(run(x), InputError);
  x = data.problem, x.probe = x.probe.first(7);
  EXPECT_THROW(run(x), InputError);
  Certified rho = moved_probe(data, 0, 2);
  x = data.problem, x.probe_in_words = &rho;
  EXPECT_NO_THROW(run(x));
  rho.bound[5] = -1;
  EXPECT_THROW(run(x), InputError);
  rho = Certified(2, 8, 3);
  EXPECT_THROW(run(x), InputError);
}

}  // namespace
}  // namespace assay::words
