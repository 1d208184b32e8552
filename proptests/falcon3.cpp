#include "judge/trial/fault_trials.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/core/published_form.hpp"
#include "proptests/laws/delta_laws.hpp"
#include "proptests/laws/falcon_laws.hpp"
#include "proptests/laws/laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(falcon3)

namespace assay::laws {
namespace {

/// Section 5: windows of one pair are FALCON-1, tails aside.
ASSAY_PROPERTY(falcon3_chunkwise, one_pair_is_falcon1) {
  const Subject s = subject(kernel_rooms(), "falcon3", "chunkwise"),
                single = subject(kernel_rooms(), "falcon1", "chunkwise");
  LawCase c = *law_cases(s.room, s.form);
  c.spec.params = {{"window", 1L}};
  const Problem p = s.problem(c);
  Problem one = p;
  one.mechanism = "falcon1";
  one.params.erase("window");
  for (const char* name : {"final_tail_k", "final_tail_v"}) one.cotangents.erase(name);
  Arrays got = flat(s.run(p, Format::exact, c.tile));
  for (const char* name : {"final_tail_k", "final_tail_v"}) got.erase(name);
  expect_within(flat(single.run(one, Format::exact, c.tile)), got, allowance(s, p, Format::fp64, c.tile), 2);
}

/// A window of more pairs than a tile has rows comes in parts; tokens whose windows fit share a tile.
TEST(falcon3_chunkwise, windows_of_every_length) {
  const Subject s = subject(kernel_rooms(), "falcon3", "chunkwise");
  const int smallest = smallest_tile(s.form);  // 16 rows
  for (const long window : {5L, 8L, 9L, 16L, 17L, 33L}) {
    const Params params{{"window", window}, {"sequence_start", false}};
    const Problem p = s.room.make({"falcon3", {1, 37, 1, 1, 3, 2, 0}, Format::bf16, Style::normal, 5, params});
    const Expectation e = expect(oracle_of(s.room, p), {&s.form, Format::bf16, smallest, 1}, p, default_draws);
    for (std::size_t t = 0; t < e.tensors.size(); ++t)
      EXPECT_NE(judge(e.tensors[t].second, e.emulated[t].second).verdict, Verdict::fail)
          << e.tensors[t].first << window;
  }
}

/// Alone in bf16 among fp32 it moves the answer.
void expect_every_site_in_use(std::string_view form) {
  const Subject s = subject(kernel_rooms(), "falcon3", form);
  const Params params{{"window", 3L}, {"sequence_start", false}, {"decay_floor", "0.875"}};
  const Problem p = s.room.make({"falcon3", {1, 21, 2, 1, 5, 4, 0}, Format::fp32, Style::normal, 3, params});
  const Policy single = Policy::of(s.form.sites, Format::fp32);
  const Arrays base = flat(s.form.run(p, single, 1));
  for (int i = 0; i < s.form.sites.size; ++i) {
    Policy policy = single;
    policy.sites = policy.sites.with(s.form.sites.entries[i].view(), Format::bf16);
    EXPECT_NE(flat(s.form.run(p, policy, 1)), base) << s.form.sites.entries[i].view();
  }
}
TEST(falcon3_chunkwise, every_site_is_in_use) { expect_every_site_in_use("chunkwise"); }
TEST(falcon3_tensor_inverse, every_site_is_in_use) { expect_every_site_in_use("tensor_inverse"); }

void without_tokens(Array& a) { a.shape[1] = 0, a.data.clear(); }

/// Segments without tokens hand on what came in.
TEST(falcon3_chunkwise, nothing_to_do) {
  const Subject s = subject(kernel_rooms(), "falcon3", "chunkwise");
  const Params params{{"window", 3L}, {"sequence_start", false}};
  Problem p = s.room.make({"falcon3", {1, 1, 2, 1, 5, 4, 0}, Format::fp32, Style::normal, 3, params});
  for (const char* name : {"q", "k", "v", "beta", "lambda"}) without_tokens(p.inputs.at(name));
  without_tokens(p.cotangents.at("o"));
  const Answer got = s.form.run(p, Policy::exact(s.form.sites), 0);
  EXPECT_EQ(got.outputs.at("final_state").data, p.inputs.at("initial_state").data);
  EXPECT_EQ(got.gradients.at("initial_state").data, p.cotangents.at("final_state").data);
  EXPECT_EQ(got.outputs.at("final_tail_k").data, p.inputs.at("tail_k").data);
  EXPECT_EQ(got.gradients.at("tail_k").data, p.cotangents.at("final_tail_k").data);
  EXPECT_EQ(got.gradients.at("tail_v").data, p.cotangents.at("final_tail_v").data);
}

TEST(falcon3_chunkwise, windows_that_do_not_fit_side_by_side) {
  const KernelForm& form = subject(kernel_rooms(), "falcon3", "chunkwise").form;
  const Room& room = listed_room("falcon3");
  CaseSpec spec{"falcon3", {1, 300, 1, 1, 128, 1, 0}, Format::fp64, Style::normal, 5, {}};
  EXPECT_EQ(form.obstacle(room.make(spec)),
            "the windows of all tokens are laid side by side, of which 8388608 numbers fit: these have 11520000");
  spec.params["window"] = 200L;
  EXPECT_EQ(form.obstacle(room.make(spec)), "");
}

// ---- the published form

Subject tensor_inverse() { return subject(kernel_rooms(), "falcon3", "tensor_inverse"); }

/// 128 tokens whose decays are all at that floor.
Problem at_the_floor(const char* floor, long window, Format precision) {
  const Params params{{"decay_floor", floor}, {"window", window}};
  Problem p = listed_room("falcon3").make({"falcon3", {1, 128, 1, 1, 8, 8, 0}, precision, Style::normal, 5, params});
  for (double& x : p.inputs.at("beta").data) x = 1.875;
  for (double& x : p.inputs.at("lambda").data) x = 64;
  return p;
}

/// Of the published form in tiles of 32 rows.
std::map<std::string, Verdict> verdicts(const Problem& p, Format precision) {
  return verdicts(subject(kernel_rooms(), "falcon3", "chunkwise"), tensor_inverse().form, p, precision);
}

/// Section 6.2, for the last of a chunk's tokens: v / d is beyond the format where ratios of decays are at ease.
TEST(falcon3_tensor_inverse, overflows_where_decays_are_small) {
  const auto overflows = [](const char* floor, Format precision) {
    const Answer got = tensor_inverse().run(at_the_floor(floor, 1, precision), precision, 0);
    return !std::ranges::all_of(got.outputs.at("o").data, [](double x) { return std::isfinite(x); });
  };
  EXPECT_TRUE(overflows("0.05", Format::fp32));
  EXPECT_FALSE(overflows("0.0625", Format::fp32));
  EXPECT_TRUE(overflows("0.65", Format::fp16));
  EXPECT_FALSE(overflows("0.75", Format::fp16));
  EXPECT_EQ(verdicts(at_the_floor("0.05", 1, Format::fp32), Format::fp32).at("o"), Verdict::fail);
}

TEST(falcon3_tensor_inverse, passes_where_they_are_not) {
  for (const long window : {1L, 4L})
    for (const Format precision : {Format::fp32, Format::bf16})
      for (const auto& [name, verdict] : verdicts(at_the_floor("0.96875", window, precision), precision))
        EXPECT_EQ(verdict, Verdict::pass) << name << ' ' << name_of(precision) << ' ' << window;
}

TEST(falcon3_tensor_inverse, refuses_what_it_has_no_system_for) {
  const KernelForm& form = tensor_inverse().form;
  Problem p = at_the_floor("0.5", 16, Format::fp32);
  EXPECT_EQ(form.obstacle(p), "");
  p.params["window"] = 17L;
  EXPECT_EQ(form.obstacle(p), "a window is part of one system, of 16 pairs at most: got 17");
  p.params.erase("window");
  EXPECT_EQ(form.obstacle(p), "a window is part of one system, of 16 pairs at most: got 128");
  p.params.erase("decay_floor");
  EXPECT_EQ(form.obstacle(p), "without a decay_floor a decay may be 0, and nothing is renormalised by that");
}

std::string a_constant_stream_is_falcon1(const Room& room, const Problem& problem) {
  return a_constant_stream_needs_no_window(room, problem, "falcon1");
}

/// Section 5: with beta = 1 and eps = lambda = 0 a window of one pair is recalled.
std::string one_pair_is_recalled(const Room& room, const Problem& problem) {
  Problem p = problem;
  p.params["window"] = 1L;
  for (const char* name : {"tail_k", "tail_v"}) p.inputs.erase(name);
  for (const char* name : {"final_tail_k", "final_tail_v"}) p.cotangents.erase(name);
  return the_last_write_is_recalled(room, p);
}

TEST(falcon3_refusals, domains) {
  const Room& room = listed_room("falcon3");
  expect_window_refusals(room);
  expect_refusals(
      windowed_case(room),
      {{"/inputs/beta/1", "2", Status::domain, 1, "beta[1]: expected a number between 0 and 2, both excluded"},
       {"/inputs/lambda/2", "-1", Status::domain, 2, "lambda[2]: expected a number >= 0"},
       {"/params/eps", "-1", Status::domain, -1, "eps: expected a number >= 0"},
       {"/params/decay_floor", "0", Status::domain, -1,
        "decay_floor: expected a number between 0 and 1, both excluded"},
       {"/params/ridge_coupling", "coupled", Status::domain, -1, "params.ridge_coupling: unknown value 'coupled'"}});
}

TEST(falcon3_reference, short_segments) { expect_short_segments(listed_room("falcon3")); }

TEST(falcon3_reference, a_window_wider_than_the_sequence_is_no_window) {
  const Room& room = listed_room("falcon3");
  Json wide = windowed_case(room), all = wide;
  wide["params"]["window"] = 1000;
  all["params"].erase("window");
  const CaseResult a = bad_inputs::result_of(wide), b = bad_inputs::result_of(all);
  ASSERT_EQ(a.message, "");
  EXPECT_EQ(a.answer.outputs, b.answer.outputs);
  EXPECT_EQ(a.answer.gradients, b.answer.gradients);
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(falcon3, is_unrolled)
ASSAY_REFERENCE_OBEYS(falcon3, tail_is_the_newest_pairs)
ASSAY_REFERENCE_OBEYS(falcon3, a_constant_stream_is_falcon1)
ASSAY_REFERENCE_OBEYS(falcon3, one_pair_is_recalled)
ASSAY_REFERENCE_OBEYS(falcon3, a_detached_ridge_is_frozen)
ASSAY_REFERENCE_OBEYS(falcon3, features_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(falcon3, keys_may_be_rotated)
ASSAY_REFERENCE_OBEYS(falcon3, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(falcon3, a_huge_ridge_only_decays)
ASSAY_DEGENERATE_ROWS_OBEY(falcon3, is_unrolled, backward_is_the_adjoint, linear_in_values, segments_concatenate)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(falcon3, backward_is_the_adjoint, is_unrolled)
