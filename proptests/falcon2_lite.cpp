// FALCON-2 Lite as published: values over the product of the decays, which is next to nothing where they are small.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "proptests/core/mutants.hpp"
#include "proptests/core/published_form.hpp"
#include "proptests/laws/laws.hpp"
#include "reference/core/rounding.hpp"

namespace assay::laws {
namespace {

Subject renormalized() { return subject(kernel_rooms(), "falcon2_lite", "renormalized"); }

/// 256 tokens whose decays are all at that floor.
Problem at_the_floor(const char* floor, Format precision) {
  Problem p =
      listed_room("falcon2_lite")
          .make({"falcon2_lite", {1, 256, 1, 1, 8, 8, 0}, precision, Style::normal, 5, {{"decay_floor", floor}}});
  for (double& x : p.inputs.at("beta").data) x = 1.875;
  for (double& x : p.inputs.at("lambda").data) x = 64;
  return p;
}

/// The verdicts on the published form in chunks of 64.
std::map<std::string, Verdict> of_renormalized(const Problem& p, Format precision) {
  return verdicts(subject(kernel_rooms(), "falcon2_lite", "chunkwise"), renormalized().form, p, precision);
}

/// Section 6.2: 1 / d_63 is beyond fp32 from decays of 0.245 down, where ratios of decays are at ease. The adjoint
/// state reads no values: it is lost where the inverse is, which grows with eta / gamma.
TEST(falcon2_lite_renormalized, overflows_where_decays_are_small) {
  const auto is_finite = [](const Array& a) {
    return std::ranges::all_of(a.data, [](double x) { return std::isfinite(x); });
  };
  for (const char* floor : {"0.01", "0.1", "0.23"}) {
    const Problem p = at_the_floor(floor, Format::fp32);
    for (const auto& [name, verdict] : of_renormalized(p, Format::fp32)) {
      const bool adjoint = name == "d_initial_state" && floor != std::string_view("0.01");
      EXPECT_EQ(verdict, adjoint ? Verdict::pass : Verdict::fail) << name << ' ' << floor;
    }
    EXPECT_FALSE(is_finite(renormalized().run(p, Format::fp32, 0).outputs.at("o"))) << floor;
  }
  for (const auto& [name, array] : flat(renormalized().run(at_the_floor("0.28", Format::fp32), Format::fp32, 0)))
    EXPECT_TRUE(is_finite(array)) << name;
}

/// Tokens whose decays are all `gamma`, far from their floor: their gradients pass.
Problem at(double gamma, int tokens, Format precision) {
  const Params params{{"decay_floor", "1e-6"}, {"alignment", "same_step"}};
  Problem p = listed_room("falcon2_lite")
                  .make({"falcon2_lite", {1, tokens, 1, 1, 8, 8, 0}, precision, Style::unit_keys, 5, params});
  for (double& x : p.inputs.at("beta").data) x = 1.25;
  for (double& x : p.inputs.at("lambda").data) x = round_to((1 - gamma) / (0.25 + gamma), precision);
  return p;
}

/// Section 6.4: gradients of decays as suffix sums cancel before anything overflows.
TEST(falcon2_lite_renormalized, gradients_of_decays_cancel_where_decays_are_small) {
  for (const double gamma : {0.75, 0.5, 0.1, 0.03}) {
    const std::map<std::string, Verdict> all = of_renormalized(at(gamma, 16, Format::fp32), Format::fp32);
    for (const char* name : {"o", "final_state", "d_q", "d_v", "d_initial_state"})
      EXPECT_EQ(all.at(name), Verdict::pass) << name << ' ' << gamma;
    for (const char* name : {"d_beta", "d_lambda", "d_k"})
      EXPECT_EQ(all.at(name), gamma < 0.75 ? Verdict::fail : Verdict::pass) << name << ' ' << gamma;
  }
}

TEST(falcon2_lite_renormalized, passes_where_they_are_not) {
  for (const Format precision : {Format::fp32, Format::bf16})
    for (const Problem& p :
         {at_the_floor("0.875", precision), at_the_floor("0.96875", precision), at(0.96875, 256, precision)})
      for (const auto& [name, verdict] : of_renormalized(p, precision)) {
        // In bf16 it rounds the last token's dv once more than the healthy form does.
        if (name == "d_v" && precision == Format::bf16) continue;
        EXPECT_EQ(verdict, Verdict::pass) << name << ' ' << name_of(precision);
      }
}

/// No mutant's conviction is that of the form itself.
TEST(falcon2_lite_renormalized, is_not_convicted_without_a_fault) {
  EXPECT_EQ(conviction({"falcon2_lite", "renormalized", "none"}), "");
}

/// Where nothing overflows: masked infinities are NaN in all rows. In fp16 they come from 17 decays of 0.5 on.
ASSAY_PROPERTY(falcon2_lite_renormalized, the_future_changes_no_bit) {
  const Subject s = renormalized();
  LawCase c = *law_cases(s.room, s.form);
  if (c.spec.precision == Format::fp16) c.spec.params["decay_floor"] = std::string("0.96875");
  the_future_changes_no_bit(s, c);
}

}  // namespace
}  // namespace assay::laws
