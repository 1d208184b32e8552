#include "proptests/core/falcon_laws.hpp"
#include "proptests/core/laws.hpp"
#include "proptests/core/mutants.hpp"

ASSAY_OBEYS(falcon2_lite, chunkwise, stays_within_budget)
ASSAY_OBEYS(falcon2_lite, chunkwise, exact_policy_is_the_oracle)
ASSAY_OBEYS(falcon2_lite, chunkwise, tile_shape_changes_nothing)
ASSAY_OBEYS(falcon2_lite, chunkwise, same_bits_twice)
ASSAY_OBEYS(falcon2_lite, chunkwise, every_element_is_written)
ASSAY_OBEYS(falcon2_lite, chunkwise, the_future_changes_no_bit)
ASSAY_OBEYS(falcon2_lite, chunkwise, heads_are_independent)
ASSAY_OBEYS(falcon2_lite, chunkwise, backward_is_the_adjoint)
ASSAY_OBEYS(falcon2_lite, chunkwise, linear_in_values)
ASSAY_OBEYS(falcon2_lite, chunkwise, reads_are_linear_in_the_query)
ASSAY_OBEYS(falcon2_lite, chunkwise, segments_concatenate)
ASSAY_KILLS_ITS_MUTANTS(falcon2_lite)

namespace assay::laws {
namespace {

// ---- the published form

Subject renormalized() { return subject(kernel_rooms(), "falcon2_lite", "renormalized"); }

/// 256 tokens whose decays are all at that floor.
Problem at_the_floor(const char* floor, Format precision) {
  Problem p =
      find_room("falcon2_lite")
          ->make({"falcon2_lite", {1, 256, 1, 1, 8, 8, 0}, precision, Style::normal, 5, {{"decay_floor", floor}}});
  p.cotangents.clear();
  for (double& x : p.inputs.at("beta").data) x = 1.875;
  for (double& x : p.inputs.at("lambda").data) x = 64;
  return p;
}

/// What the judge says of o, from the published form in chunks of 64 and from the healthy one.
std::pair<Verdict, Verdict> verdicts(const char* floor, Format precision) {
  const Subject s = subject(kernel_rooms(), "falcon2_lite", "chunkwise");
  const Problem p = at_the_floor(floor, precision);
  const Expectation e = expect(oracle_of(s.room, p), {&s.form, precision, 0, 1}, p, default_draws);
  const Arrays got = flat(renormalized().run(p, precision, 0));
  for (std::size_t t = 0; t < e.tensors.size(); ++t)
    if (const auto& [name, expected] = e.tensors[t]; name == "o")
      return {judge(expected, got.at(name).data).verdict, judge(expected, e.emulated[t].second).verdict};
  return {Verdict::error, Verdict::error};
}

/// Section 6.2: 1 / d_63 is beyond fp32 from decays of 0.245 down, where ratios of decays are at ease.
TEST(falcon2_lite_renormalized, overflows_where_decays_are_small) {
  for (const char* floor : {"0.01", "0.1", "0.23"}) {
    const auto [published, healthy] = verdicts(floor, Format::fp32);
    EXPECT_EQ(published, Verdict::fail) << floor;
    EXPECT_EQ(healthy, Verdict::pass) << floor;
    const std::vector<double> o =
        renormalized().run(at_the_floor(floor, Format::fp32), Format::fp32, 0).outputs.at("o").data;
    EXPECT_FALSE(std::all_of(o.begin(), o.end(), [](double x) { return std::isfinite(x); })) << floor;
  }
  const std::vector<double> o =
      renormalized().run(at_the_floor("0.28", Format::fp32), Format::fp32, 0).outputs.at("o").data;
  EXPECT_TRUE(std::all_of(o.begin(), o.end(), [](double x) { return std::isfinite(x); }));
}

TEST(falcon2_lite_renormalized, passes_where_they_are_not) {
  for (const char* floor : {"0.875", "0.96875"})
    for (const Format precision : {Format::fp32, Format::bf16})
      EXPECT_EQ(verdicts(floor, precision).first, Verdict::pass) << floor;
}

TEST(falcon2_lite_renormalized, refuses_decays_that_may_be_zero) {
  Problem p = at_the_floor("0.5", Format::fp32);
  EXPECT_EQ(renormalized().form.obstacle(p), "");
  p.params.erase("decay_floor");
  EXPECT_EQ(renormalized().form.obstacle(p),
            "without a decay_floor a decay may be 0, and nothing is renormalised by that");
}

/// In exact arithmetic it is the same.
RC_GTEST_PROP(falcon2_lite_renormalized, exact_policy_is_the_oracle_where_decays_are_large, ()) {
  const Subject s = subject(kernel_rooms(), "falcon2_lite", "chunkwise");
  LawCase c = *law_cases(s.room, s.form);
  c.spec.params["decay_floor"] = std::string("0.96875");
  Problem p = s.problem(c);
  p.cotangents.clear();
  Arrays want;
  for (const auto& [name, tensor] : oracle_of(s.room, p).tensors) {
    want[name].shape = tensor.shape;
    for (const HiLo& x : tensor.value) want[name].data.push_back(x.hi);
  }
  expect_within(flat(renormalized().run(p, Format::exact, c.tile)), want, allowance(s, p, Format::fp64, c.tile), 1);
}

std::string is_falcon1(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  return same(answer(room, p), answer("falcon1", p));
}

TEST(falcon2_lite_refusals, domains) {
  const Room& room = *find_room("falcon2_lite");
  EXPECT_EQ(bad_inputs::numbers_must_be_finite(room), "");
  EXPECT_EQ(bad_inputs::shapes_must_fit(room), "");
  EXPECT_EQ(bad_inputs::empty_extents(room), "");
  EXPECT_EQ(bad_inputs::heads_must_divide(room), "");
  expect_refusals(
      bad_inputs::good_case(room),
      {{"/inputs/beta/1", "2", Status::domain, 1, "beta[1]: expected a number between 0 and 2, both excluded"},
       {"/inputs/lambda/2", "-1", Status::domain, 2, "lambda[2]: expected a number >= 0"},
       {"/params/decay_floor", "1", Status::domain, -1,
        "decay_floor: expected a number between 0 and 1, both excluded"},
       {"/params/scale", "1", Status::domain, -1, "params.scale: unknown to falcon2_lite"}});
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(falcon2_lite, backward_is_the_adjoint)
ASSAY_REFERENCE_OBEYS(falcon2_lite, heads_are_independent)
ASSAY_REFERENCE_OBEYS(falcon2_lite, linear_in_values)
ASSAY_REFERENCE_OBEYS(falcon2_lite, reads_are_linear_in_the_query)
ASSAY_REFERENCE_OBEYS(falcon2_lite, the_future_is_unseen)
ASSAY_REFERENCE_OBEYS(falcon2_lite, segments_concatenate)
ASSAY_REFERENCE_OBEYS(falcon2_lite, is_unrolled)
ASSAY_REFERENCE_OBEYS(falcon2_lite, is_falcon1)
ASSAY_REFERENCE_OBEYS(falcon2_lite, is_falcon3_of_one_pair)
ASSAY_REFERENCE_OBEYS(falcon2_lite, a_detached_ridge_is_frozen)
ASSAY_REFERENCE_OBEYS(falcon2_lite, a_huge_ridge_only_decays)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(falcon2_lite, backward_is_the_adjoint, is_unrolled)
