// Styles of cases with arguments get to the traps that they are named for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "arguments/drawn_case.hpp"
#include "arguments/file_case.hpp"
#include "arguments/file_rooms.hpp"
#include "reference/core/rounding.hpp"

namespace assay::arguments {
namespace {

/// A case of that style, 1 sequence of 24 tokens, 2 heads of which both have keys.
Safetensors drawn_in(const char* mechanism, const char* style, Params params = {}) {
  return draw_case({.mechanism = mechanism,
                    .shape = {.seq_len = 24, .heads = 2, .key_dim = 32, .value_dim = 32},
                    .precision = Format::fp32,
                    .params = std::move(params),
                    .argument_style = style},
                   "test");
}
Answer answer_to(const Safetensors& file) { return answer_in_doubles(read_problem(file, "case").problem); }
std::vector<double> numbers(const Safetensors& file, const char* name) {
  const StoredTensor& tensor = file.tensors.at(name);
  return load_integers(tensor) ? load_integers(tensor)->data : load(name, tensor).data;
}
/// Lengths of rows of so many channels.
std::vector<double> lengths(const std::vector<double>& x, std::size_t channels) {
  std::vector<double> all(x.size() / channels);
  for (std::size_t i = 0; i < x.size(); ++i) all[i / channels] += x[i] * x[i];
  for (double& length : all) length = std::sqrt(length);
  return all;
}
double least(const std::vector<double>& x) { return *std::min_element(x.begin(), x.end()); }
double most(const std::vector<double>& x) { return *std::max_element(x.begin(), x.end()); }

TEST(ArgumentStyles, LogSumsAreBeyondWhatExponentialsHold) {
  EXPECT_LT(most(answer_to(drawn_in("softmax_attention", "low_lse")).outputs.at("lse").data), -88);
  EXPECT_GT(least(answer_to(drawn_in("parallax", "high_lse")).outputs.at("lse").data), 88);
}
TEST(ArgumentStyles, RowsSeeNothing) {
  const Scattered lse =
      read_problem(drawn_in("softmax_attention", "empty_rows", {{"causal", false}}), "case").scattered.at("lse");
  EXPECT_EQ(lse.endless.size(), 2U * 8U);  // every third row of both heads
}
TEST(ArgumentStyles, DocumentsAreShort) {
  const std::vector<double> documents = numbers(drawn_in("softmax_attention", "short_documents"), "documents_q");
  std::multiset<std::ptrdiff_t> sizes;
  for (double d = 0; d <= documents.back(); ++d) sizes.insert(std::count(documents.begin(), documents.end(), d));
  for (const std::ptrdiff_t size : {1, 2, 3}) EXPECT_GE(sizes.count(size), 3U) << size;
}
TEST(ArgumentStyles, SequencesAreEmptyAndOfOneToken) {
  for (const char* mechanism : {"softmax_attention", "kda"}) {
    const Safetensors file = drawn_in(mechanism, "short_sequences");
    const std::vector<double> starts = numbers(file, "cu_seqlens");
    std::set<double> sizes;
    for (std::size_t n = 1; n < starts.size(); ++n) sizes.insert(starts[n] - starts[n - 1]);
    EXPECT_TRUE(sizes.contains(0) && sizes.contains(1)) << mechanism;
    for (const char* name : {"q", "k", "v", "d_o"}) EXPECT_TRUE(std::isnan(numbers(file, name).back())) << name;
  }
}
TEST(ArgumentStyles, GatesAreSaturated) {
  const Safetensors file = drawn_in("gated_deltanet", "saturated_gates");
  for (const char* name : {"a", "b"}) {
    const std::vector<double> raw = numbers(file, name);
    EXPECT_EQ(least(raw), -88) << name;
    EXPECT_EQ(most(raw), 88) << name;
    EXPECT_NE(std::find(raw.begin(), raw.end(), 0.0), raw.end()) << name;
  }
}
TEST(ArgumentStyles, NormsAreTinyAndHuge) {
  for (const char* name : {"q", "k"}) {
    const std::vector<double> tiny = lengths(numbers(drawn_in("deltanet", "tiny_norms"), name), 32);
    EXPECT_EQ(least(tiny), 0) << name;
    const auto near_eps = [](double n) { return n > 1e-4 && n < 1e-2; };  // eps is 1e-6
    EXPECT_GE(std::count_if(tiny.begin(), tiny.end(), near_eps), 4) << name;
    EXPECT_GE(most(lengths(numbers(drawn_in("deltanet", "huge_norms"), name), 32)), 500) << name;
  }
}
TEST(ArgumentStyles, ScoresAreBeyondTheirCap) {
  Safetensors file = drawn_in("softmax_attention", "hard_cap");
  const Problem problem = FileCase::of(read_problem(file, "case").problem)->folded_doubles().problems().front();
  const Array &q = problem.inputs.at("q"), &k = problem.inputs.at("k");
  double furthest = 0;
  for (std::size_t i = 0; i < 24; ++i) {
    double score = 0;
    for (std::size_t c = 0; c < 32; ++c) score += q.data[i * 32 + c] * k.data[i * 32 + c];
    furthest = std::max(furthest, std::fabs(score) / problem.inputs.at("bandwidth").data[0]);
  }
  EXPECT_GT(furthest, 2 * 2);  // soft_cap is 2
}

/// Codes times scales are what the style `normal` draws, but for a rounding to a code; and codes are of their grid.
TEST(ArgumentStyles, CodesAndScalesAreTheDrawnOperands) {
  const Safetensors plain = draw_case({.mechanism = "softmax_attention",
                                       .shape = {.seq_len = 24, .heads = 2, .key_dim = 32, .value_dim = 32},
                                       .precision = Format::fp32,
                                       .with = {{"lse", ""}}},
                                      "test");
  const std::set<double> e2m1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (const char* style : {"mxfp8", "nvfp4"}) {
    const bool mx = style == std::string_view("mxfp8");
    const std::size_t block = mx ? 32 : 16, blocks = 32 / block;
    const Safetensors file = drawn_in("softmax_attention", style);
    for (const std::string name : {"q", "k", "v"}) {
      const std::vector<double> codes = numbers(file, name.c_str()), scales = numbers(file, (name + "_scale").c_str()),
                                x = numbers(plain, name.c_str());
      // A power of two puts a block's largest number into the last binade, above 256; a scale of E4M3 errs by a
      // sixteenth at most, and what is above 5 becomes 6.
      for (std::size_t first = 0; first < codes.size(); first += block) {
        double largest = 0;
        for (std::size_t i = first; i < first + block; ++i) largest = std::max(largest, std::fabs(codes[i]));
        EXPECT_TRUE(mx ? largest >= 256 : largest == 6) << style << ' ' << name << ' ' << largest;
      }
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const std::size_t head = i / 32 % 2, token = i / 64, channel = i % 32;  // [T][H][32]; scales are [H][T][blocks]
        const double scale = scales[(head * 24 + token) * blocks + channel / block];
        int exponent = 0;
        EXPECT_TRUE(!mx || std::frexp(scale, &exponent) == 0.5) << scale;
        EXPECT_TRUE(mx ? codes[i] == round_to(codes[i], Format::e4m3) : e2m1.contains(std::fabs(codes[i]))) << codes[i];
        // Half a step of E4M3 above 2^-6, or one sixth of the numbers that saturate; half a step of E2M1.
        const double step = mx ? std::max(std::fabs(x[i]) / 16, std::ldexp(scale, -10)) : scale;
        EXPECT_LE(std::fabs(codes[i] * scale - x[i]), mx && std::fabs(codes[i]) == 448 ? std::fabs(x[i]) / 8 : step)
            << style << ' ' << name << ' ' << i;
      }
    }
  }
}

/// The largest code of a token is the largest of E4M3, and codes times scales are the drawn keys and values.
TEST(ArgumentStyles, EveryTokenOfAHeadHasAScale) {
  const Safetensors plain = drawn_in("softmax_attention", "hard_cap"),  // which is about queries alone
      file = drawn_in("softmax_attention", "fp8_per_token_head");
  EXPECT_FALSE(file.tensors.contains("q_scale"));
  for (const std::string name : {"k", "v"}) {
    const std::vector<double> codes = numbers(file, name.c_str()), scales = numbers(file, (name + "_scale").c_str()),
                              x = numbers(plain, name.c_str());
    ASSERT_EQ(scales.size(), 2U * 24U);
    for (std::size_t row = 0; row < 24U * 2U; ++row) {  // codes are [T][H][32], scales [H][T]
      const double scale = scales[row % 2 * 24 + row / 2];
      double largest = 0;
      for (std::size_t i = row * 32; i < (row + 1) * 32; ++i) {
        largest = std::max(largest, std::fabs(codes[i]));
        EXPECT_EQ(codes[i], round_to(codes[i], Format::e4m3));
        // Half a step of E4M3, above 2^-6 and below.
        EXPECT_LE(std::fabs(codes[i] * scale - x[i]), std::max(std::fabs(x[i]) / 16, std::ldexp(scale, -10))) << i;
      }
      EXPECT_EQ(largest, 448) << name << ' ' << row;
    }
  }
}

/// Lists of a case of that style, one for every row and head of k.
std::vector<std::vector<double>> lists_in(const char* style) {
  const std::vector<double> entries = numbers(drawn_in("softmax_attention", style), "topk_indices");
  constexpr std::size_t lists = 24U * 2U;
  std::vector<std::vector<double>> all(lists);
  for (std::size_t i = 0; i < entries.size(); ++i) all[i / (entries.size() / lists)].push_back(entries[i]);
  return all;
}
TEST(ArgumentStyles, ListsAreEmptySomewhereOrEverywhere) {
  for (const std::vector<double>& list : lists_in("nothing_chosen")) EXPECT_EQ(most(list), -1);
  const auto some = lists_in("empty_choices");
  for (std::size_t i = 0; i < some.size(); ++i) EXPECT_EQ(most(some[i]) < 0, i / 2 % 3 == 1) << i;
  EXPECT_TRUE(std::any_of(some.begin(), some.end(), [](const auto& list) {
    return list.front() >= 0 && std::find(list.begin(), list.end(), -1) != list.end();
  }));
}
TEST(ArgumentStyles, ListsAreOfLengthsAroundATile) {
  const std::vector<double> lengths = numbers(drawn_in("softmax_attention", "choice_lengths"), "topk_length");
  EXPECT_EQ(std::set<double>(lengths.begin(), lengths.end()), (std::set<double>{0, 1, 63, 64, 65}));
}
TEST(ArgumentStyles, ListsBeginWithOneKey) {
  for (const std::vector<double>& list : lists_in("one_key_for_all")) EXPECT_EQ(list.front(), 0);
}
TEST(ArgumentStyles, ChosenScoresAreFarApartInEveryThirdRow) {
  const std::vector<double> lse = answer_to(drawn_in("softmax_attention", "far_choices")).outputs.at("lse").data;
  EXPECT_GT(most(lse), 88);
  EXPECT_GE(std::count_if(lse.begin(), lse.end(), [](double x) { return std::abs(x) < 10; }), 2 * 16);
}
TEST(ArgumentStyles, KeysThatNobodyChoseAreNaN) {
  for (const char* style : {"empty_choices", "choice_lengths", "far_choices", "one_key_for_all"}) {
    const std::vector<double> k = numbers(drawn_in("softmax_attention", style), "k");
    EXPECT_TRUE(std::any_of(k.begin(), k.end(), [](double x) { return std::isnan(x); })) << style;
    EXPECT_FALSE(std::all_of(k.begin(), k.end(), [](double x) { return std::isnan(x); })) << style;
  }
}

}  // namespace
}  // namespace assay::arguments
