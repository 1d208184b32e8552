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
#include "proptests/core/table.hpp"
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

/// The tensor of a row of rivals.json.
Tensor tensor_from(const Json& row) {
  return {.want = row.at("want").get<Numbers>(),
          .got = row.at("got").get<Numbers>(),
          .baseline = row.value("baseline", Numbers()),
          .dtype = format_from(row.value("dtype", std::string("bf16"))).value(),
          .gradient = row.value("gradient", false),
          .of_key_or_value = row.value("of_key_or_value", false),
          .keys = row.value("keys", 1)};
}

/// Accepts `inside` and rejects `outside` in place of the last number.
TEST(Rivals, accept_and_reject_at_their_limits) {
  const Json rows = test_table("judge/rivals.json");
  for (const Json& row : rows) {
    const std::string rule = row.at("rule").get<std::string>();
    Tensor t = tensor_from(row);
    t.got.back() = row.at("inside").get<double>();
    EXPECT_TRUE(accepts(rule, t)) << rule << " rejects " << t.got.back();
    t.got.back() = row.at("outside").get<double>();
    EXPECT_FALSE(accepts(rule, t)) << rule << " accepts " << t.got.back();
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
