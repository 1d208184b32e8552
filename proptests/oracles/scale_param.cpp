// scale in place of bandwidth = 1 / scale: the same answers, exactly where decimals can.
#include "files/scale_param.hpp"

#include <gtest/gtest.h>

#include <string>

#include "oracles/scalars/scalar.hpp"

namespace assay {
namespace {

std::string bandwidth_of(const Param& scale, const char* room = "softmax_attention") {
  Params params{{"scale", scale}, {"causal", true}};
  take_scale(listed_room(room), params);
  EXPECT_FALSE(params.contains("scale"));
  EXPECT_EQ(params.size(), 2U);
  return std::get<std::string>(params.at("bandwidth"));
}

TEST(ScaleParam, is_one_over_the_bandwidth) {
  EXPECT_EQ(bandwidth_of("0.125"), "8");
  EXPECT_EQ(bandwidth_of("+0.125"), "8");
  EXPECT_EQ(bandwidth_of(4L), "2.5e-1");
  EXPECT_EQ(bandwidth_of("0.1", "lla"), "1e+1");
  EXPECT_EQ(bandwidth_of("3").substr(0, 12), "3.3333333333");
  EXPECT_GT(bandwidth_of("3").size(), 400U);
  EXPECT_EQ(bandwidth_of("1e-300", "parallax"), "1e+300");
}

/// Where 1 / scale has no end, what is left out is below what any tier computes with.
TEST(ScaleParam, has_more_digits_than_any_tier) {
  const std::string scale = "0.08838834764831845", h = bandwidth_of(scale);
  const auto product = from_decimal<Mp200>(scale) * from_decimal<Mp200>(h) - Mp200(1);
  EXPECT_LT(abs(product), from_decimal<Mp200>("1e-198"));
}

/// What a command line can say is in proptests/transcripts/usage.md.
TEST(ScaleParam, is_no_empty_word_and_no_switch) {
  for (const Param& bad : {Param(""), Param(true)}) {
    Params params{{"scale", bad}};
    EXPECT_THROW(take_scale(listed_room("softmax_attention"), params), Refusal);
  }
}

}  // namespace
}  // namespace assay
