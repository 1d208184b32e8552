// The acceptance rules of others: for each, a tensor just inside and one just outside, worked out by hand from its
// published constants.
#include "judge/trial/rivals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracles/core/room.hpp"
#include "reference/core/inputs.hpp"

namespace assay {
namespace {

using Numbers = std::vector<double>;

struct Tensor {
  Numbers want, got, baseline = {};
  Format dtype = Format::bf16;
  bool gradient = false, of_key_or_value = false;
  int keys = 1;
};

bool accepts(std::string_view rule, const Tensor& t) {
  const Rival* rival = find_rival(rule);
  if (rival == nullptr) throw std::invalid_argument(std::string(rule));
  return rival->accepts(
      {t.dtype, t.gradient, t.of_key_or_value, t.keys, t.want, t.got, t.baseline.empty() ? t.want : t.baseline});
}

struct Between {
  const char* rule;
  Tensor tensor;
  double inside, outside;
};
constexpr double apart_in_bf16 = 0.0009765625;  // lost of 0.0625 beside 0.3: see below
const Between rules[] = {
    {"torch", {{2}, {2}}, 2 + 0.03200, 2 + 0.03202},  // 1e-5 + 1.6e-2 * 2 = 0.03201
    {"torch", {.want = {2}, .got = {2}, .dtype = Format::fp16}, 2.00200, 2.00202},
    {"torch", {.want = {2}, .got = {2}, .dtype = Format::fp32}, 2.0000125, 2.0000127},  // 1.26e-5
    {"torch", {.want = {2}, .got = {2}, .dtype = Format::tf32}, 2.0000125, 2.0000127},
    {"torch", {.want = {2}, .got = {2}, .dtype = Format::fp64}, 2.00000029, 2.00000031},
    // Want RMS 2; one error x of four: RMS(e) = x / 2, so 0.005 is at x = 0.02.
    {"fla", {{2, 2, 2, 2}, {2, 2, 2, 2}}, 2.0199, 2.0201},
    // Nothing to compare with: only the absolute 1e-6 lets anything pass.
    {"fla", {{0}, {0}}, 0.9e-6, 1.1e-6},
    {"fla_ci", {{1, 1}, {1, 1}}, 1.299, 1.301},
    // A larger one where the ratio stays below 0.01: one error x of four is x / 2 / 100.
    {"fla_ci", {{100, 100, 100, 100}, {100, 100, 100, 100}}, 101.99, 102.01},
    // The baseline errs by 2^-6: 2 of those for outputs, 3 for gradients, anywhere.
    {"flash_attention_2", {.want = {1, 1}, .got = {1, 1}, .baseline = {1 + 0x1p-6, 1}}, 1 + 0x1p-5, 1 + 0x1.1p-5},
    {"flash_attention_2",
     {.want = {1, 1}, .got = {1, 1}, .baseline = {1 + 0x1p-6, 1}, .gradient = true},
     1 + 0x1.8p-5,
     1 + 0x1.9p-5},
    // The reference is rounded to the dtype first: 1 + 2^-10 is 1 in bf16.
    {"flash_attention_2", {.want = {1 + 0x1p-10}, .got = {1}, .baseline = {1}}, 1, 1 + 0x1p-10},
    // In bf16, 0.5 + 0.3 rounds to 0.80078125 (spacing 2^-8), minus 0.3 is 0.50078125, which rounds to 0.5 (spacing
    // 2^-8): nothing is lost. 0.0625 + 0.3 rounds to 0.36328125 (2^-9), minus 0.3 to 0.06328125 and in bf16 (2^-11) to
    // 0.0634765625: 0.0009765625 is lost, and twice that allowed, beside twice the baseline's 2^-11.
    {"flash_attention_3",
     {.want = {0.0625}, .got = {0.0625}, .baseline = {0.0625 + 0x1p-11}},
     0.0625 + 2 * apart_in_bf16 + 2 * 0x1p-11,
     0.0625 + 2 * apart_in_bf16 + 2 * 0x1p-11 + 1e-6},
    {"flash_attention_3", {.want = {0.5}, .got = {0.5}}, 0.5, 0.5 + 0x1p-8},
    {"ck_tile", {{2}, {2}}, 2.00299, 2.00301},  // 1e-3 + 1e-3 * 2
    {"ck_tile", {.want = {2}, .got = {2}, .dtype = Format::fp32}, 2.0000229, 2.0000231},
    // 8 (1 + 3) 2^-7 = 0.25 in bf16; gradients 1.
    {"benchdnn", {.want = {2}, .got = {2}, .keys = 3}, 2.5, 2.51},
    {"benchdnn", {.want = {2}, .got = {2}, .gradient = true, .keys = 3}, 4, 4.01},
    // Below 1e-5 the error is absolute, and 2^-23 is always allowed.
    {"benchdnn", {.want = {1e-6}, .got = {1e-6}, .dtype = Format::fp64, .keys = 1}, 1e-6 + 1.1e-7, 1e-6 + 1.3e-7},
    // One element: MARE, MERE and RMSE are the same error, and 1.5 times the baseline's is the least of the limits.
    {"ascend_atk", {.want = {1}, .got = {1}, .baseline = {1 + 0x1p-6}}, 1 + 0x1.7p-6, 1 + 0x1.9p-6},
    // The largest may be five times the baseline's where the others hold: one element of 40 is off.
    {"ascend_atk",
     {.want = Numbers(40, 1), .got = Numbers(40, 1), .baseline = Numbers(40, 1 + 0x1p-6)},
     1 + 0x4.fp-6,
     1 + 0x5.1p-6},
    // Small values, below 2^-8 in bf16: those off by more than 2^-16 are counted, one or none allow two.
    {"ascend_atk",
     {.want = Numbers(4, 0x1p-10), .got = {0, 0, 0x1p-10, 0x1p-10}, .baseline = Numbers(4, 0x1p-10)},
     0x1p-10,
     0},
    {"cudnn_frontend", {{1}, {1}}, 1.0399, 1.0401},
    // 7e-2 + 2e-2
    {"cudnn_frontend", {.want = {1}, .got = {1}, .gradient = true, .of_key_or_value = true}, 1.0899, 1.0901},
    {"cudnn_frontend",
     {.want = {1}, .got = {1}, .dtype = Format::fp16, .gradient = true, .of_key_or_value = true},
     1.0399,
     1.0401},
    {"cutlass_fmha", {.want = Numbers(20, 1), .got = Numbers(20, 1)}, 1.0099, 1.0101},  // the mean is 5e-4
    {"cutlass_fmha", {{1}, {1}}, 1.00099, 1.00101},
    {"kernelbench", {{1}, {1}}, 1.0199, 1.0201},
    {"kernelbench", {.want = {1}, .got = {1}, .dtype = Format::fp32}, 1.000199, 1.000201},
    // r = 1, o = 1 + e: e^2 / (1 + (1 + e)^2) is 1e-3 near e = 0.045744, where e^2 = 1e-3 (2 + 2 e + e^2) = 0.0020925.
    {"deepgemm", {{1}, {1}}, 1 + 0.045744 - 1e-4, 1 + 0.045744 + 1e-4},
    {"flashinfer", {{1}, {1}}, 1.0199, 1.0201},
    // (1, x) against (1, 0): cos = 1 / sqrt(1 + x^2) > 0.99 for x < 0.14249.
    {"flashinfer_cosine", {{1, 0}, {1, 0}}, 0.1424, 0.1426},
    // 30 * 2^-8 * 4 = 0.46875 in bf16, 30 * 2^-24 * 4 = 7.153e-6 in fp32.
    {"lapack", {{4, 1}, {4, 1}}, 1.4687, 1.4688},
    {"lapack", {.want = {4, 1}, .got = {4, 1}, .dtype = Format::fp32}, 1.00000715, 1.00000716},
    {"parallax_decode", {{4, 1}, {4, 1}}, 1.0399, 1.0401},
    {"parallax_median", {{1, 1, 1}, {1, 9, 1}}, 1.0099, 1.0101},
};

/// Accepts `inside` and rejects `outside` in place of the last number.
TEST(Rivals, accept_and_reject_at_their_limits) {
  for (const auto& [rule, tensor, inside, outside] : rules) {
    Tensor t = tensor;
    t.got.back() = inside;
    EXPECT_TRUE(accepts(rule, t)) << rule << " rejects " << inside;
    t.got.back() = outside;
    EXPECT_FALSE(accepts(rule, t)) << rule << " accepts " << outside;
  }
}

TEST(Rivals, let_pass_what_their_rules_do_not_see) {
  // From 16 keys on nothing at all passes: 8 * 17 / 128 > 1.
  EXPECT_TRUE(accepts("benchdnn", {.want = {3, -5}, .got = {0, 0}, .keys = 16}));
  // e^2 / o^2 with o = 1 and r = 1 - e: e = 0.02236 is 5e-4, e = 3.162e-4 is 1e-7.
  EXPECT_TRUE(accepts("ggml", {{1 - 0.02236}, {1}}));
  EXPECT_FALSE(accepts("ggml", {{1 - 0.02237}, {1}}));
  EXPECT_TRUE(accepts("ggml_strict", {{1 - 3.162e-4}, {1}}));
  EXPECT_FALSE(accepts("ggml_strict", {{1 - 3.163e-4}, {1}}));
  EXPECT_TRUE(accepts("ggml", {{0, 0}, {0, 0}}));
  EXPECT_TRUE(accepts("flashinfer_cosine", {{1, 2}, {100, 200}}));
  // One in twenty: the third of 40 is one too many.
  Tensor t{.want = Numbers(40, 1), .got = Numbers(40, 1)};
  t.got[0] = 9;
  EXPECT_TRUE(accepts("aiter", t));
  t.got[1] = 9, t.got.back() = 1.0199;
  EXPECT_TRUE(accepts("aiter", t));
  t.got.back() = 1.0201;
  EXPECT_FALSE(accepts("aiter", t));
}

/// The last output of a room on inputs of one head, and on their absolute values.
std::pair<double, double> with_absolute_values(const char* name, int key_dim,
                                               const std::map<std::string, Numbers>& inputs) {
  const Room& room = listed_room(name);
  Problem problem = room.make({.mechanism = name,
                               .shape = {.seq_len = 2, .heads = 1, .key_dim = key_dim, .value_dim = 1},
                               .precision = Format::fp64,
                               .style = Style::normal,
                               .seed = 0,
                               .params = {}});
  problem.cotangents.clear();
  for (auto& [input, array] : problem.inputs) {
    const auto given = inputs.find(input);
    if (given == inputs.end())
      std::fill(array.data.begin(), array.data.end(), 0);
    else
      array.data = given->second;
  }
  const auto answer = [&] { return room.values(problem, Tier::fp64).outputs.at("o").data.back().hi; };
  const double signed_answer = answer();
  for (auto& [input, array] : problem.inputs)
    for (double& x : array.data) x = std::fabs(x);
  return {signed_answer, answer()};
}

/// Why TOSA's rule is none of ours: it bounds an error by so many units of the same operator on absolute values, which
/// bounds a sum of products and nothing else.
TEST(Rivals, tosa_has_no_bound_where_signs_or_weights_matter) {
  const auto [rule, of_sizes] = with_absolute_values(
      "deltanet", 2, {{"scale", {1}}, {"q", {0, 0, 1, 1}}, {"k", {1, 0, 1, -1}}, {"v", {1, 0}}, {"beta", {1, 0.5}}});
  EXPECT_GT(rule, 0.5);
  EXPECT_EQ(of_sizes, 0);  // nothing may err
  const auto [attention, of_other_weights] = with_absolute_values(
      "softmax_attention", 1, {{"bandwidth", {1}}, {"q", {0, 1}}, {"k", {16, -32}}, {"v", {1, 0}}});
  EXPECT_GT(attention, 0.999);
  EXPECT_LT(of_other_weights, 1e-6);
}

TEST(Rivals, all_reject_what_is_not_a_number_and_accept_the_truth) {
  std::set<std::string_view> names;
  for (const Rival& rival : rivals()) {
    EXPECT_TRUE(names.insert(rival.name).second) << rival.name;
    EXPECT_FALSE(rival.rule.empty() || rival.source.empty() || rival.blind.empty()) << rival.name;
    for (const Format dtype : all_formats) {
      const Tensor exact{.want = {1, -2, 0, 0.5}, .got = {1, -2, 0, 0.5}, .dtype = dtype};
      EXPECT_TRUE(accepts(rival.name, exact)) << rival.name;
      for (std::size_t i = 0; i < exact.got.size(); ++i) {
        Tensor t = exact;
        t.got[i] = std::numeric_limits<double>::quiet_NaN();
        EXPECT_FALSE(accepts(rival.name, t)) << rival.name;
      }
    }
  }
  EXPECT_EQ(find_rival("none"), nullptr);
}

}  // namespace
}  // namespace assay
