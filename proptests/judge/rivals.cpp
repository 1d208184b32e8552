// The acceptance rules of others: for each, a tensor just inside and one just outside, worked out by hand from its
// published constants.
#include "judge/trial/rivals.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

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
