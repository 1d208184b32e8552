// Identities between arguments, in the tile programs themselves: to the bit where both sides round the
// same numbers, else without roundings but those of answers to doubles, 2^-53 of a number each, and those of long
// doubles on the way, of which up to 2,048 are one more.
#include <gtest/gtest.h>

#include <cmath>

#include "proptests/arguments/tile_cases.hpp"
#include "reference/core/rounding.hpp"

namespace assay::arguments {
namespace {

constexpr Shape unequal = {
    .batch = 1, .seq_len = 40, .heads = 4, .shared_heads = 2, .key_dim = 16, .value_dim = 16, .query_len = 24};
constexpr Shape equal = {.batch = 1, .seq_len = 40, .heads = 2, .key_dim = 16, .value_dim = 16};
const double v = unit_roundoff(Format::fp64);

using With = std::vector<std::pair<std::string, std::string>>;
Problem drawn(const std::string& mechanism, Params params, With with = {{"lse", ""}}, const Shape& shape = unequal) {
  const bool scores = mechanism == "softmax_attention" || mechanism == "parallax";
  return Drawn{.mechanism = mechanism,
               .form = scores ? "tiled" : "chunkwise",
               .shape = shape,
               .params = std::move(params),
               .with = std::move(with)}
      .problem()
      .problem;
}
Answer answered(const Problem& problem, const std::string& mechanism, bool exactly = false) {
  const KernelForm& form = tile::kernel_rooms::with_arguments(mechanism)->forms.front();
  Policy policy = exactly ? Policy::exact(form.sites) : policy_of(form, Format::bf16);
  policy.threads = 1;
  return answer_of_sequences(form, problem, policy, 0);
}
double largest(const std::vector<double>& x) {
  double most = 0;
  for (const double y : x) most = std::max(most, std::fabs(y));
  return most;
}
/// Expects two numbers to agree as two doubles do that long doubles lead to.
void expect_near(const std::vector<double>& a, const std::vector<double>& b, double size, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2 * (1 + 1) * v * size) << what << ' ' << i;
}

class ScoreIdentities : public ::testing::TestWithParam<const char*> {
 protected:
  std::string mechanism() const { return GetParam(); }
  /// Differences to the bit.
  std::string apart(const Problem& a, const Problem& b) const {
    return differences(answered(a, mechanism()), answered(b, mechanism()));
  }
};
INSTANTIATE_TEST_SUITE_P(Arguments, ScoreIdentities, ::testing::Values("softmax_attention", "parallax"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(ScoreIdentities, CausalIsNothingToTheRight) {
  EXPECT_EQ(apart(drawn(mechanism(), {}), drawn(mechanism(), {{"causal", false}, {"window_right", 0L}})), "");
  EXPECT_EQ(apart(drawn(mechanism(), {{"window", 5L}}), drawn(mechanism(), {{"window_left", 4L}})), "");
  EXPECT_NE(apart(drawn(mechanism(), {{"window", 5L}}), drawn(mechanism(), {{"window_left", 5L}})), "");
}

/// Beside a bias of zeros, as scores with a bias are rounded in other places.
TEST_P(ScoreIdentities, AMaskIsABiasOfMinusInfinity) {
  Problem masked = drawn(mechanism(), {}), biased = masked;
  Array mask({24, 40}), bias({24, 40}), none({24, 40});
  for (std::size_t i = 0; i < mask.data.size(); ++i) {
    mask.data[i] = i % 7 == 0 || i % 3 == 1 ? 0 : 1;
    bias.data[i] = mask.data[i] > 0 ? 0 : -INFINITY;
  }
  masked.inputs["mask"] = mask, masked.inputs["bias"] = none, biased.inputs["bias"] = bias;
  EXPECT_EQ(apart(masked, biased), "");
}

/// Slopes of 8 bits times distances of 6.
TEST_P(ScoreIdentities, SlopesAreTheirBias) {
  for (const char* form : {"distance", "signed"}) {
    Problem alibi = drawn(mechanism(), words_of({{"alibi_form", form}}), {{"alibi_slopes", ""}, {"lse", ""}});
    Problem biased = alibi;
    const std::vector<double> slopes = alibi.inputs.at("alibi_slopes").data;
    biased.inputs.erase("alibi_slopes"), biased.params.erase("alibi_form");
    Array bias({4, 24, 40}), distance = bias;
    for (std::size_t i = 0; i < bias.data.size(); ++i) {
      const int to_key = static_cast<int>(i % 40) - static_cast<int>(i / 40 % 24) - 16;
      distance.data[i] = form == std::string_view("signed") ? to_key : -std::abs(to_key);
      bias.data[i] = slopes[i / 960] * distance.data[i];
    }
    biased.inputs["bias"] = bias;
    const Answer a = answered(alibi, mechanism()), b = answered(biased, mechanism());
    EXPECT_EQ(differences(a, b), "") << form;
    // Each side rounds up to 960 products and their sum to fp32.
    const std::vector<double>& d = b.gradients.at("bias").data;
    for (std::size_t h = 0; h < 4; ++h) {
      double sum = 0, size = 0;
      for (std::size_t i = h * 960; i < (h + 1) * 960; ++i)
        sum += d[i] * distance.data[i], size += std::fabs(d[i] * distance.data[i]);
      EXPECT_NEAR(a.gradients.at("alibi_slopes").data[h], sum, 2 * 961 * unit_roundoff(Format::fp32) * size) << form;
    }
  }
}

/// Where the cut is one of blocks that tensor cores sum at once, zeros are all that is between.
TEST_P(ScoreIdentities, DocumentsArePackedSequences) {
  const Problem packed = drawn(mechanism(), {}, {{"cu_seqlens", "0,16,40"}, {"lse", ""}}, equal);
  Problem documents = packed;
  documents.inputs.erase("cu_seqlens");
  documents.inputs["documents_q"] = Array({40}, std::vector<double>(40, 7.0));
  for (std::size_t t = 16; t < 40; ++t) documents.inputs["documents_q"].data[t] = -3;
  const Answer a = answered(packed, mechanism()), b = answered(documents, mechanism());
  for (const char* name : {"o", "lse"}) EXPECT_EQ(a.outputs.at(name).data, b.outputs.at(name).data) << name;
  for (const char* name : {"q", "k", "v"}) EXPECT_EQ(a.gradients.at(name).data, b.gradients.at(name).data) << name;
}

TEST_P(ScoreIdentities, PlacesOfABias) {
  const Problem after = drawn(mechanism(), words_of({{"scale", "0.25"}}), {{"bias", ""}, {"lse", ""}});
  Problem cap = after, scale = after;
  cap.params["bias_place"] = std::string("before_cap"), scale.params["bias_place"] = std::string("before_scale");
  for (double& x : scale.inputs.at("bias").data) x *= 4;
  EXPECT_EQ(apart(after, cap), "");
  Answer a = answered(after, mechanism()), b = answered(scale, mechanism());
  for (double& x : b.gradients.at("bias").data) x *= 4;
  b.gradients.erase("scale");  // that of before_scale has the bias in it
  EXPECT_EQ(differences(b, a), "");
}

TEST_P(ScoreIdentities, AnLseInBitsIsOneOverLn2) {
  Problem natural = drawn(mechanism(), {}), bits = drawn(mechanism(), words_of({{"lse_base", "2"}}));
  const double ln_2 = std::log(2.0);
  for (double& x : natural.cotangents.at("lse").data) x /= ln_2;
  const Answer a = answered(natural, mechanism(), true), b = answered(bits, mechanism(), true);
  std::vector<double> lse = b.outputs.at("lse").data;
  for (double& x : lse) x *= ln_2;
  expect_near(lse, a.outputs.at("lse").data, largest(lse), "lse");
  EXPECT_EQ(a.outputs.at("o").data, b.outputs.at("o").data);
}

/// Padding may hold any number: it is not read.
TEST_P(ScoreIdentities, PaddingChangesNoBit) {
  const Problem padded = drawn(mechanism(), {}, {{"cu_seqlens", "0,17,40"}, {"lengths", "9,20"}, {"lse", ""}}, equal);
  Problem filled = padded;
  int undefined = 0;
  for (Arrays* arrays : {&filled.inputs, &filled.cotangents})
    for (auto& [name, array] : *arrays)
      for (double& x : array.data)
        if (std::isnan(x)) x = 3, ++undefined;
  EXPECT_GT(undefined, 0);
  EXPECT_EQ(apart(padded, filled), "");
}

/// q, and what is of queries, of heads that share keys; dk is the sum over them.
TEST_P(ScoreIdentities, HeadsThatShareAKeyAreHeadsWithTheirOwn) {
  const Problem shared = drawn(mechanism(), words_of({{"soft_cap", "2"}}));
  Problem own = shared;
  for (const char* name : {"k", "v"}) {
    Array &x = own.inputs.at(name), from = x;  // [1][T][2][16]
    x = Array({1, 40, 4, 16});
    for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = from.data[i / 64 * 32 + i % 64 / 32 * 16 + i % 16];
  }
  Answer a = answered(shared, mechanism()), b = answered(own, mechanism());
  for (const char* name : {"k", "v"}) a.gradients.erase(name);
  EXPECT_EQ(differences(a, b), "");
  a = answered(shared, mechanism(), true), b = answered(own, mechanism(), true);
  for (const char* name : {"k", "v"}) {
    const std::vector<double>& parts = b.gradients.at(name).data;
    std::vector<double> sums(parts.size() / 2);
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] = parts[i / 640 * 1280 + i % 640] + parts[i / 640 * 1280 + 640 + i % 640];
    expect_near(a.gradients.at(name).data, sums, 2 * largest(parts), name);
  }
}

/// Keys in two parts, whose answers are weighed by their lse.
TEST_P(ScoreIdentities, PartsOfTheKeysMergeByLse) {
  if (mechanism() == "parallax") return;  // its mean is of all keys
  Problem whole = drawn(mechanism(), {{"causal", false}}, {{"sink", ""}});
  whole.cotangents.clear();
  Problem left = whole, right = whole;
  for (const char* name : {"k", "v"}) {
    Array &a = left.inputs.at(name), &b = right.inputs.at(name);
    const std::ptrdiff_t cut = 12 * 2 * 16;
    a.data.resize(cut), a.shape[1] = 12;
    b.data.erase(b.data.begin(), b.data.begin() + cut), b.shape[1] = 28;
  }
  right.inputs.erase("sink");  // it counts once
  const Answer a = answered(left, mechanism(), true), b = answered(right, mechanism(), true),
               c = answered(whole, mechanism(), true);
  const std::vector<double>&la = a.outputs.at("lse").data, &lb = b.outputs.at("lse").data, &oa = a.outputs.at("o").data,
        &ob = b.outputs.at("o").data;
  std::vector<double> lse(la.size()), o(oa.size());
  for (std::size_t i = 0; i < la.size(); ++i) lse[i] = std::log(std::exp(la[i]) + std::exp(lb[i]));
  for (std::size_t i = 0; i < oa.size(); ++i)
    o[i] = std::exp(la[i / 16] - lse[i / 16]) * oa[i] + std::exp(lb[i / 16] - lse[i / 16]) * ob[i];
  // Here: exponentials of numbers that are off by v |lse| themselves and err by two units, their sum and a logarithm.
  const double top = largest(la) + largest(lb), of_lse = (2 * top + 2 + 1 + 2 * top + 1);
  expect_near(lse, c.outputs.at("lse").data, of_lse, "lse");
  expect_near(o, c.outputs.at("o").data, (2 * of_lse + 2 + 2) * largest(whole.inputs.at("v").data), "o");
}

constexpr const char* softmax = "softmax_attention";

/// Its score is that of q's last channel, which is 1 and of which other keys have nothing.
TEST(SinkIdentities, ASinkIsAKeyWithoutAValue) {
  Problem sunk = drawn(softmax, words_of({{"scale", "0.25"}}), {{"sink", ""}, {"lse", ""}});
  sunk.params["causal"] = false;
  for (std::size_t i = 15; i < sunk.inputs.at("q").data.size(); i += 16) sunk.inputs.at("q").data[i] = 1;
  for (std::size_t i = 15; i < sunk.inputs.at("k").data.size(); i += 16) sunk.inputs.at("k").data[i] = 0;
  sunk.inputs.at("sink").data.assign(4, 1.25);
  sunk.cotangents.clear();
  Problem keyed = sunk;
  keyed.inputs.erase("sink");
  for (const char* name : {"k", "v"}) {
    Array& x = keyed.inputs.at(name);
    x.shape[1] = 41;
    x.data.resize(41 * 2 * 16, 0);
  }
  for (const std::size_t head : {0, 1}) keyed.inputs.at("k").data[40 * 32 + head * 16 + 15] = 5;  // 1.25 / scale
  Problem none = sunk;
  none.inputs.erase("sink");
  const Answer a = answered(sunk, softmax, true), b = answered(keyed, softmax, true), c = answered(none, softmax, true);
  const std::vector<double>&lse = a.outputs.at("lse").data, &o = a.outputs.at("o").data;
  expect_near(lse, b.outputs.at("lse").data, largest(lse), "lse");
  expect_near(o, b.outputs.at("o").data, largest(sunk.inputs.at("v").data), "o");
  std::vector<double> shrunk = c.outputs.at("o").data;
  for (std::size_t i = 0; i < shrunk.size(); ++i) shrunk[i] *= std::exp(c.outputs.at("lse").data[i / 16] - lse[i / 16]);
  expect_near(o, shrunk, (2 * largest(lse) + 2 + 1) * largest(shrunk), "o of none");  // exp of two numbers' difference
}

TEST(SinkIdentities, ACotangentOfLseAloneReadsKeysForValues) {
  Problem problem = drawn(softmax, words_of({{"scale", "0.25"}}), {{"lse", ""}});
  problem.inputs.at("v") = problem.inputs.at("k");
  problem.cotangents.at("o").data.assign(problem.cotangents.at("o").data.size(), 0);
  const Answer answer = answered(problem, softmax, true);
  std::vector<double> expected = answer.outputs.at("o").data;  // [H][T][16]; cotangents are [1][T][H]
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] *= 0.25 * problem.cotangents.at("lse").data[i / 16 % 24 * 4 + i / 384];
  const double size = 0.25 * largest(problem.cotangents.at("lse").data) * largest(problem.inputs.at("k").data);
  expect_near(answer.gradients.at("q").data, expected, size, "q");
}

TEST(OperandIdentities, ValuesInTheKeys) {
  Shape shape = unequal;
  shape.value_dim = 8;
  Problem own = drawn(softmax, {}, {{"lse", ""}}, shape), inside = own;
  for (std::size_t i = 0; i < own.inputs.at("v").data.size(); ++i)
    own.inputs.at("v").data[i] = own.inputs.at("k").data[i / 8 * 16 + i % 8];
  inside.inputs.erase("v"), inside.params["value_dim"] = 8L;
  const Answer a = answered(own, softmax), b = answered(inside, softmax);
  for (const char* name : {"o", "lse"}) EXPECT_EQ(a.outputs.at(name).data, b.outputs.at(name).data);
  EXPECT_EQ(a.gradients.at("q").data, b.gradients.at("q").data);
  std::vector<double> both = a.gradients.at("k").data;
  for (std::size_t i = 0; i < a.gradients.at("v").data.size(); ++i)
    both[i / 8 * 16 + i % 8] += a.gradients.at("v").data[i];
  EXPECT_EQ(both, b.gradients.at("k").data);
}

/// W_uk and W_uv turn eight channels round and double some: exact in every format, and 16 products are one sum.
TEST(OperandIdentities, AbsorbedHeadsAreExpandedOnes) {
  Shape shape = unequal;
  shape.value_dim = 8, shape.shared_heads = 1;
  Problem absorbed = drawn(softmax, words_of({{"scale", "0.25"}}), {{"lse", ""}}, shape), expanded = absorbed;
  absorbed.inputs.erase("v"), absorbed.params["value_dim"] = 8L;
  const auto turned = [](std::size_t c) { return (c + 3) % 8; };
  const auto factor = [](std::size_t c) { return c % 2 == 0 ? 2.0 : -0.5; };
  Array &q = absorbed.inputs.at("q"), &k = expanded.inputs.at("k"), &values = expanded.inputs.at("v");
  const Array of_head = expanded.inputs.at("q"), latent = absorbed.inputs.at("k");
  for (std::size_t row = 0; row < q.data.size(); row += 16)  // q' = q W_uk^T
    for (std::size_t c = 0; c < 8; ++c) q.data[row + turned(c)] = of_head.data[row + c] * factor(c);
  for (std::size_t row = 0; row < k.data.size(); row += 16)
    for (std::size_t c = 0; c < 8; ++c) {
      k.data[row + c] = latent.data[row + turned(c)] * factor(c);
      values.data[row / 2 + c] = latent.data[row + turned(c)] * factor(c);  // W_uv is W_uk here
    }
  // Cotangents of o W_uv, read by o.
  Array& d = absorbed.cotangents.at("o");
  for (std::size_t row = 0; row < d.data.size(); row += 8)
    for (std::size_t c = 0; c < 8; ++c) d.data[row + turned(c)] = expanded.cotangents.at("o").data[row + c] * factor(c);
  const Answer a = answered(absorbed, softmax), b = answered(expanded, softmax);
  EXPECT_EQ(a.outputs.at("lse").data, b.outputs.at("lse").data);
  const std::vector<double>&o = a.outputs.at("o").data, &e = b.outputs.at("o").data;
  const std::vector<double>&dq = a.gradients.at("q").data, &de = b.gradients.at("q").data;
  for (std::size_t row = 0; row < o.size(); row += 8)
    for (std::size_t c = 0; c < 8; ++c) {
      ASSERT_EQ(o[row + turned(c)] * factor(c), e[row + c]) << row;
      ASSERT_EQ(dq[2 * row + turned(c)] * factor(c), de[2 * row + c]) << row;
    }
}

TEST(OperandIdentities, ScalesOfTensorsAreFactors) {
  const Problem plain = drawn(softmax, words_of({{"scale", "0.25"}}));
  Problem scaled = plain;
  scaled.params["scale"] = std::string("0.5");
  scaled.inputs["k_scale"] = Array({}, {0.5}), scaled.inputs["v_scale"] = Array({}, {4});
  Problem louder = plain;
  for (double& x : louder.cotangents.at("o").data) x *= 4;
  Answer a = answered(scaled, softmax), b = answered(louder, softmax);
  for (double& x : b.outputs.at("o").data) x *= 4;
  EXPECT_EQ(differences(a, b), a.gradients.contains("scale") ? " d_scale" : "");
  for (double& x : a.gradients.at("scale").data) x *= 2;  // of twice the scale
  EXPECT_EQ(a.gradients.at("scale").data, b.gradients.at("scale").data);
}

TEST(OperandIdentities, PagesMayLieAnywhere) {
  const Problem paged = drawn(softmax, {}, {{"page_table", "4"}, {"lse", ""}}, equal);
  Problem turned = paged;
  std::vector<double>& table = turned.inputs.at("page_table").data;
  const auto pages = static_cast<std::size_t>(paged.inputs.at("k").shape[0]);
  for (double& page : table)
    if (page >= 0) page = static_cast<double>(pages - 1) - page;
  for (const char* name : {"k", "v"}) {
    std::vector<double>& x = turned.inputs.at(name).data;
    const std::vector<double>& from = paged.inputs.at(name).data;
    const std::size_t each = from.size() / pages;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = from[(pages - 1 - i / each) * each + i % each];
  }
  const Answer a = answered(paged, softmax), b = answered(turned, softmax);
  EXPECT_NE(paged.inputs.at("k").data, turned.inputs.at("k").data);
  for (const char* name : {"o", "lse"}) EXPECT_EQ(a.outputs.at(name).data, b.outputs.at(name).data);
  EXPECT_EQ(a.gradients.at("q").data, b.gradients.at("q").data);
}

// ---- recurrences

class StateIdentities : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Arguments, StateIdentities,
                         ::testing::Values("deltanet", "gated_deltanet", "comba", "linear_attention", "retnet",
                                           "mamba2", "gla", "kda"),
                         [](const auto& instance) { return std::string(instance.param); });

Problem with_norm(const char* mechanism, Params params, With with = {}) {
  params.merge(words_of({{"l2_norm", "root"}, {"l2_eps", "0.25"}}));
  return drawn(mechanism, std::move(params), std::move(with), equal);
}

TEST_P(StateIdentities, CheckpointsAreStatesAtTheirTokens) {
  Problem every = with_norm(GetParam(), {{"checkpoint_every", 10L}}), at = every;
  at.params.erase("checkpoint_every");
  at.inputs["state_at"] = Array({4}, {9, 19, 29, 39});
  at.cotangents["states_at"] = every.cotangents.at("checkpoints"), at.cotangents.erase("checkpoints");
  const Answer a = answered(every, GetParam()), b = answered(at, GetParam());
  EXPECT_EQ(a.outputs.at("checkpoints").data, b.outputs.at("states_at").data);
  EXPECT_EQ(differences({{}, a.gradients}, {{}, b.gradients}), "");
}

/// In fp64 a state that is handed on is the one inside; the cut is between chunks.
TEST_P(StateIdentities, CallsContinueOneAnother) {
  const std::string mechanism = GetParam();
  const KernelForm& form = tile::kernel_rooms::with_arguments(mechanism)->forms.front();
  const auto run = [&](const Problem& problem) {
    return answer_of_sequences(form, problem, policy_of(form, Format::fp64), 2);  // chunks of 16
  };
  const Problem whole = with_norm(GetParam(), words_of({{"state_layout", "k_first"}}));
  const auto part = [&](int first, int last) {
    Problem one = whole;
    for (Arrays* arrays : {&one.inputs, &one.cotangents})
      for (auto& [name, x] : *arrays) {
        if (x.shape.size() < 3 || x.shape[1] != 40) continue;
        const auto each = static_cast<std::ptrdiff_t>(x.data.size() / 40);
        x.data = {x.data.begin() + first * each, x.data.begin() + last * each};
        x.shape[1] = last - first;
      }
    return one;
  };
  Problem before = part(0, 16), after = part(16, 40);
  const auto state = [&](const Answer& answer, bool gradient) {
    Array x = whole.inputs.at("initial_state");
    x.data = (gradient ? answer.gradients.at("initial_state") : answer.outputs.at("final_state")).data;
    return x;
  };
  after.inputs["initial_state"] = state(run(before), false);
  const Answer b = run(after), c = run(whole);
  before.cotangents["final_state"] = state(b, true);
  const Answer a = run(before);
  EXPECT_EQ(b.outputs.at("final_state").data, c.outputs.at("final_state").data);
  EXPECT_EQ(a.gradients.at("initial_state").data, c.gradients.at("initial_state").data);
  for (const char* name : {"o", "q", "k", "v"}) {
    const auto of = [&](const Answer& x) { return (name[0] == 'o' ? x.outputs : x.gradients).at(name).data; };
    const std::vector<double> first = of(a), second = of(b), all = of(c);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t head = i / 640, row = i / 16 % 40, column = i % 16;
      ASSERT_EQ(all[i],
                row < 16 ? first[(head * 16 + row) * 16 + column] : second[(head * 24 + row - 16) * 16 + column])
          << name << ' ' << i;
    }
  }
}

/// Along x a norm without eps has no slope.
TEST_P(StateIdentities, GradientsOfNormsAreAcrossTheirRows) {
  Problem problem = with_norm(GetParam(), {});
  for (const char* kind : {"root", "sum", "max"}) {
    problem.params["l2_norm"] = std::string(kind), problem.params["l2_eps"] = std::string("0");
    const Answer answer = answered(problem, GetParam(), true);
    for (const char* name : {"q", "k"}) {
      const std::vector<double>&d = answer.gradients.at(name).data, &x = problem.inputs.at(name).data;
      for (std::size_t row = 0; row < 80; ++row) {  // [H][T] of gradients, [T][H] of inputs
        double sum = 0, size = 0;
        for (std::size_t c = 0; c < 16; ++c) {
          const double term = d[row * 16 + c] * x[(row % 40 * 2 + row / 40) * 16 + c];
          sum += term, size += std::fabs(term);
        }
        // The gradients' roundings to doubles, 16 products and 16 sums; long doubles before, of terms that cancel.
        ASSERT_NEAR(sum, 0, (1 + 16 + 16 + 1) * v * size + v * largest(d) * largest(x)) << kind << ' ' << name;
      }
    }
  }
}

class GateIdentities : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Arguments, GateIdentities,
                         ::testing::Values("gated_deltanet", "comba", "mamba2", "gla", "kda"),
                         [](const auto& instance) { return std::string(instance.param); });

/// logsigmoid(a) = -softplus(-a), where both are made in doubles and rounded to fp32.
TEST_P(GateIdentities, ALogOfASigmoidIsASoftplusTurnedRound) {
  Problem log = with_norm(GetParam(), words_of({{"gate", "logsigmoid"}}));
  Problem soft = log;
  soft.params["gate"] = std::string("softplus");
  for (const char* name : {"a", "dt_bias"})
    if (soft.inputs.contains(name))
      for (double& x : soft.inputs.at(name).data) x = -x;
  soft.inputs["a_log"] = Array({2});
  Answer a = answered(log, GetParam()), b = answered(soft, GetParam());
  for (const char* name : {"a", "dt_bias"})
    if (b.gradients.contains(name))
      for (double& x : b.gradients.at(name).data) x = -x;
  b.gradients.erase("a_log");
  EXPECT_EQ(differences(b, a), "");
}

/// da_log = sum g dg and ddt_bias = sum da.
TEST_P(GateIdentities, GradientsOfTheirParameters) {
  const Problem problem = with_norm(GetParam(), words_of({{"gate", "softplus"}}));
  const Answer answer = answered(problem, GetParam(), true);
  const std::vector<double>&da = answer.gradients.at("a").data, &a = problem.inputs.at("a").data,
        &bias = problem.inputs.at("dt_bias").data;
  const std::size_t inner = da.size() / 80;  // [H][T][K or 1]
  std::vector<double> of_bias(bias.size()), of_log(2), size_of_bias = of_bias, size_of_log(2);
  for (std::size_t i = 0; i < da.size(); ++i) {
    const std::size_t head = i / (40 * inner), row = i / inner % 40, c = i % inner,
                      b = inner == 1 ? head : head * inner + c;
    of_bias[b] += da[i], size_of_bias[b] += std::fabs(da[i]);
    const double u = a[(row * 2 + head) * inner + c] + bias[b], softplus = std::log1p(std::exp(u));
    const double term = da[i] * softplus * (1 + std::exp(-u));  // g dg, as da = -A sigmoid(u) dg and g = -A softplus(u)
    of_log[head] += term, size_of_log[head] += std::fabs(term) * (1 + std::fabs(u));
  }
  // Sums of 40 numbers, or 640; of the logs functions of the library, of a sum that is off by v |u|, and products.
  for (std::size_t i = 0; i < of_bias.size(); ++i)
    EXPECT_NEAR(answer.gradients.at("dt_bias").data[i], of_bias[i], (2 * 40 + 2) * v * size_of_bias[i]) << i;
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(answer.gradients.at("a_log").data[i], of_log[i], (2 * 640 + 2 + 4 * 2 + 4) * v * size_of_log[i]) << i;
}

TEST(RuleIdentities, WritingTwiceWithTwoIsNothing) {
  for (const char* mechanism : {"deltanet", "gated_deltanet", "comba", "kda"}) {
    Problem problem = drawn(mechanism, words_of({{"state_layout", "k_first"}}), {}, equal);
    problem.cotangents.clear();
    for (auto& [name, array] : problem.inputs)
      if (name == "v" || name == "log_decay" || name == "beta")
        array.data.assign(array.data.size(), name == "beta" ? 2.0 : 0.0);
    for (const char* name : {"k", "p"}) {
      const auto found = problem.inputs.find(name);
      if (found == problem.inputs.end()) continue;
      std::vector<double>& x = found->second.data;  // [T][2][16]: the same of tokens 2 n and 2 n + 1
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 16 == i / 64 % 16 ? 1 : 0;
    }
    const std::vector<double> state = answered(problem, mechanism).outputs.at("final_state").data;
    EXPECT_EQ(state, problem.inputs.at("initial_state").data) << mechanism;
  }
}

/// Two programs of one recurrence. Without roundings each makes a state of 40 contractions and 40 writes, of up to 16
/// products each: 1,280 roundings.
TEST(RuleIdentities, EqualChannelsAreOneGate) {
  Problem one = with_norm("gated_deltanet", {}), each = one;
  each.mechanism = with_norm("kda", {}).mechanism;
  const Array gate = one.inputs.at("log_decay");  // [1][T][H]
  Array channels({1, 40, 2, 16});
  for (std::size_t i = 0; i < channels.data.size(); ++i) channels.data[i] = gate.data[i / 16];
  each.inputs["log_decay"] = channels;
  const Answer a = answered(one, "gated_deltanet", true), b = answered(each, "kda", true);
  double size = largest(one.inputs.at("initial_state").data) * 4;  // a state's column is four times its largest at most
  for (std::size_t t = 0; t < 40; ++t) size += largest(one.inputs.at("v").data);
  expect_near(a.outputs.at("final_state").data, b.outputs.at("final_state").data, size, "final_state");
  expect_near(a.outputs.at("o").data, b.outputs.at("o").data, size, "o");
}

TEST(StepIdentities, SkipsAddAndClampedStepsHaveNoGradient) {
  Problem plain = with_norm("mamba2", words_of({{"dt_min", "0.25"}, {"dt_max", "1"}}), {{"dt", ""}, {"rate", "-1"}});
  plain.params["dt_softplus"] = false;
  Problem skipped = plain;
  skipped.inputs["skip"] = Array({2}, {0.75, -2});
  const Answer a = answered(plain, "mamba2", true), b = answered(skipped, "mamba2", true);
  const std::vector<double>&x = plain.inputs.at("v").data, &o = a.outputs.at("o").data;
  std::vector<double> sum = o;  // [H][T][16]; values are [T][H][16]
  for (std::size_t i = 0; i < o.size(); ++i)
    sum[i] += (i < 640 ? 0.75 : -2) * x[(i / 16 % 40 * 2 + i / 640) * 16 + i % 16];
  expect_near(b.outputs.at("o").data, sum, largest(sum) + 2 * largest(x), "o");
  const std::vector<double>&dt = plain.inputs.at("dt").data, &d = a.gradients.at("dt").data;
  const double bias = plain.inputs.contains("dt_bias") ? 1 : 0;
  int clamped = 0, free = 0;
  for (std::size_t t = 0; t < 40; ++t)
    for (std::size_t h = 0; h < 2; ++h) {
      const double u = dt[t * 2 + h] + (bias > 0 ? plain.inputs.at("dt_bias").data[h] : 0);
      const bool out = u < 0.25 || u > 1;
      (out ? clamped : free) += 1;
      EXPECT_EQ(d[h * 40 + t] == 0, out) << u;
    }
  EXPECT_GT(clamped, 0);
  EXPECT_GT(free, 0);
}

}  // namespace
}  // namespace assay::arguments
