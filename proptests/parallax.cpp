// Parallax: P(14) as it is written, and about a moving origin.
#include <cmath>

#include "proptests/core/published_form.hpp"
#include "proptests/laws/laws.hpp"

namespace assay::laws {
namespace {

Subject tiled_parallax() { return subject(kernel_rooms(), "parallax", "tiled"); }
Subject covariance() { return subject(kernel_rooms(), "parallax", "covariance"); }

Problem parallax_with_offset(double offset, Format precision) {
  return with_offset("parallax", {"k"}, {{"causal", false}}, offset, precision);
}

/// lla-family.md section 11: with keys offset by 30 P(14) in fp32 is off by 3e-5, here the same to half an order of
/// magnitude, and the covariance form by 1e-7, here to an order.
TEST(parallax_covariance, keeps_the_digits_that_an_offset_takes) {
  const Problem p = parallax_with_offset(30, Format::fp32);
  const Oracle truth = oracle_of(tiled_parallax().room, p);
  const auto error_of = [&](const Subject& s, Format precision) {
    return errors_of(truth, s.run(p, precision, 0)).at("o");
  };
  const double expanded = error_of(tiled_parallax(), Format::fp32), centred = error_of(covariance(), Format::fp32);
  EXPECT_NEAR(std::log10(expanded), std::log10(3e-5), 0.5);
  EXPECT_NEAR(std::log10(centred), std::log10(1e-7), 1);
  for (const Subject& s : {tiled_parallax(), covariance()})
    EXPECT_LT(error_of(s, Format::exact), centred * 0x1p-20) << s.form.name;
}

/// P(14) is what its own contract allows, with all that cancels in it, and not what the other form's does.
TEST(parallax_covariance, expects_what_the_expanded_form_does_not_keep) {
  const auto verdict = [](const Problem& p, const Subject& contract, const Subject& kernel, Format f) {
    return verdicts(contract, kernel.form, p, f).at("o");
  };
  for (const Format precision : {Format::fp64, Format::fp32, Format::bf16}) {
    const Problem p = parallax_with_offset(30, precision), none = parallax_with_offset(0, precision);
    EXPECT_EQ(verdict(p, covariance(), tiled_parallax(), precision), Verdict::fail) << name_of(precision);
    EXPECT_EQ(verdict(p, covariance(), covariance(), precision), Verdict::pass) << name_of(precision);
    EXPECT_EQ(verdict(p, tiled_parallax(), tiled_parallax(), precision), Verdict::pass) << name_of(precision);
    EXPECT_EQ(verdict(none, covariance(), tiled_parallax(), precision), Verdict::pass) << name_of(precision);
  }
}

}  // namespace
}  // namespace assay::laws
