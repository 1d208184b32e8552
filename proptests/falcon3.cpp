// FALCON-3: the published form with one inverse of all pairs of a tile.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "proptests/core/published_form.hpp"
#include "proptests/laws/laws.hpp"

namespace assay::laws {
namespace {

Subject tensor_inverse() { return subject(kernel_rooms(), "falcon3", "tensor_inverse"); }

/// 128 tokens whose decays are all at that floor.
Problem with_window_at_the_floor(const char* floor, long window, Format precision) {
  const Params params{{"decay_floor", floor}, {"window", window}};
  Problem p = listed_room("falcon3").make({"falcon3", {1, 128, 1, 1, 8, 8, 0}, precision, Style::normal, 5, params});
  for (double& x : p.inputs.at("beta").data) x = 1.875;
  for (double& x : p.inputs.at("lambda").data) x = 64;
  return p;
}

/// The verdicts on the published form in tiles of 32 rows.
std::map<std::string, Verdict> of_tensor_inverse(const Problem& p, Format precision) {
  return verdicts(subject(kernel_rooms(), "falcon3", "chunkwise"), tensor_inverse().form, p, precision);
}

/// Section 6.2, for the last of a chunk's tokens: v / d is beyond the format where ratios of decays are at ease.
TEST(falcon3_tensor_inverse, overflows_where_decays_are_small) {
  const auto overflows = [](const char* floor, Format precision) {
    const Answer got = tensor_inverse().run(with_window_at_the_floor(floor, 1, precision), precision, 0);
    return !std::ranges::all_of(got.outputs.at("o").data, [](double x) { return std::isfinite(x); });
  };
  EXPECT_TRUE(overflows("0.05", Format::fp32));
  EXPECT_FALSE(overflows("0.0625", Format::fp32));
  EXPECT_TRUE(overflows("0.65", Format::fp16));
  EXPECT_FALSE(overflows("0.75", Format::fp16));
  EXPECT_EQ(of_tensor_inverse(with_window_at_the_floor("0.05", 1, Format::fp32), Format::fp32).at("o"), Verdict::fail);
}

TEST(falcon3_tensor_inverse, passes_where_they_are_not) {
  for (const long window : {1L, 4L})
    for (const Format precision : {Format::fp32, Format::bf16}) {
      const Problem p = with_window_at_the_floor("0.96875", window, precision);
      for (const auto& [name, verdict] : of_tensor_inverse(p, precision))
        EXPECT_EQ(verdict, Verdict::pass) << name << ' ' << name_of(precision) << ' ' << window;
    }
}

}  // namespace
}  // namespace assay::laws
