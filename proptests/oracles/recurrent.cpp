// The form `recurrent`: kernels that go token by token, and gates whose gradients are sums from the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "judge/court/judge_answer.hpp"
#include "judge/forms/sequential.hpp"
#include "judge/programs/program_form.hpp"
#include "judge/sigma/cumulated_gates.hpp"
#include "judge/sigma/expected.hpp"
#include "oracles/scalars/emulated.hpp"
#include "proptests/core/share.hpp"
#include "proptests/judge/cases.hpp"

namespace assay {
namespace {

std::vector<const Room*> recurrent_rooms() {
  std::vector<const Room*> list;
  for (const Room* room : rooms())
    if (recurrent_form(room->name) != nullptr) list.push_back(room);
  return list;
}

CaseSpec spec_of(const Room& room, int tokens, Format precision, std::uint64_t seed, Style style = Style::normal) {
  return {std::string(room.name), {1, tokens, 2, 0, 8, 8, 0}, precision, style, seed, {}};
}

TEST(Recurrent, every_recurrence_with_kernels_has_the_form) {
  for (const KernelRoom* kernels : kernel_rooms()) {
    const auto forms = forms_of(*kernels);
    const bool attention = std::ranges::any_of(
        forms, [](const KernelForm* form) { return form->name == "tiled" || form->name == "split_decode"; });
    EXPECT_EQ(recurrent_form(kernels->name) == nullptr, attention) << kernels->name;
    EXPECT_EQ(forms.back()->name == "recurrent", !attention) << kernels->name;
    EXPECT_EQ(forms.front(), &kernels->forms.front()) << kernels->name;
  }
  EXPECT_EQ(recurrent_form("rmsnorm"), nullptr);
}

/// Its own rounding to nearest, at lengths about a block and a chunk: one run in three, or more.
TEST(Recurrent, its_own_runs_pass) {
  Share sampled(3);
  int judged = 0;
  while (sampled.goes_on())
    for (const Room* room : recurrent_rooms())
      for (const Format precision : {Format::bf16, Format::fp32})
        for (const int tokens : {1, 2, 17, 64, 65}) {
          if (tokens > 17 && precision == Format::fp32 && tokens != 65) continue;
          if (!sampled.takes()) continue;
          const CaseSpec spec = spec_of(*room, tokens, precision, static_cast<std::uint64_t>(tokens));
          const Problem problem = room->make(spec);
          const KernelUnderTest kernel{recurrent_form(room->name), precision, 0, 1};
          const Expectation expectation =
              expect(oracle_of(*room, problem, 3), kernel, problem, default_draws, false_alarm_rate);
          const Answer got = kernel.form->run(problem, kernel.policy(), 0);
          judged += expect_no_alarm(judged_tensors(expectation, got), spec.repro());
        }
  EXPECT_GT(judged, 4 * sampled.taken());
}

/// Where the state cancels what is written, a right kernel that inverts the triangles of its chunks errs more than
/// those that solve; it passes, is UNDECIDED near the limits, and FAILs with the sign of a gradient turned.
TEST(PublishedForms, explain_what_no_solve_errs_by) {
  for (const CaseSpec& spec :
       {CaseSpec{"deltanet", {1, 64, 1, 0, 2, 5, 0}, Format::fp32, Style::dyadic, 3, {}},
        {"gated_deltanet", {1, 64, 2, 0, 1, 1, 0}, Format::fp32, Style::predicted_values, 1, {}}}) {
    const Problem problem = find_room(spec.mechanism)->make(spec);
    const auto form = published_forms(problem).at(1).form;
    Answer got = form->run(problem, KernelUnderTest{form.get(), Format::fp32, 0, 1}.policy(), 0);
    const Judged right = judge(problem, got, {.precision = "fp32"});
    EXPECT_EQ(right.verdict, Verdict::pass) << spec.repro();
    const auto by_form = std::ranges::find_if(
        right.rows, [](const ReportRow& row) { return row.evidence.ends_with(" by the inverse"); });
    ASSERT_NE(by_form, right.rows.end()) << spec.repro();
    Answer at_limit = got;
    std::vector<double>& more = at_limit.gradients.at(by_form->tensor.substr(2)).data;
    for (std::size_t i = 0; i < more.size(); ++i)
      more[i] += (0.75 / by_form->judgement.excess - 1) * (more[i] - by_form->expected->value[i].hi);
    const Verdict by_no_margin = by_form->by_model->verdict == Verdict::fail ? Verdict::undecided : Verdict::pass;
    EXPECT_EQ(judge(problem, at_limit, {.precision = "fp32"}).verdict, by_no_margin) << spec.repro();
    for (double& x : got.gradients.at("v").data) x = -x;
    EXPECT_EQ(judge(problem, got, {.precision = "fp32"}).verdict, Verdict::fail) << spec.repro();
  }
}

TEST(PublishedForms, are_of_problems_that_they_compute) {
  const auto count = [](const char* name, int tokens, Params params = {}) {
    const CaseSpec spec{name, {1, tokens, 2, 0, 32, 32, 0}, Format::bf16, Style::normal, 1, std::move(params)};
    const Problem problem = find_room(name)->make(spec);
    const auto forms = published_forms(problem);
    for (const PublishedForm& one : forms)
      if (tokens < 65) one.form->run(problem, KernelUnderTest{one.form.get(), spec.precision}.policy(), 0);
    return forms.size();
  };
  for (const char* name : {"gated_deltanet", "comba", "falcon1", "falcon2_lite"}) EXPECT_EQ(count(name, 65), 3U);
  EXPECT_EQ(count("gated_deltanet", 65, {{"error", std::string("undecayed")}}), 3U);
  EXPECT_EQ(count("parallax", 33), 2U);
  EXPECT_EQ(count("lla", 9), 1U);
  EXPECT_EQ(count("falcon1", 65, {{"alignment", std::string("same_step")}}) + count("kda", 4096) + count("gla", 9), 0U);
}

/// A state in bf16 after every token is a fault where the contract keeps it in fp32, and none where it has the site.
TEST(Recurrent, a_narrow_state_is_seen_and_is_allowed_by_its_site) {
  Contract narrow = Contract::of(Format::bf16);
  narrow.name = "state", narrow.rules = {{"state", Format::bf16}, {"G", Format::bf16}};
  for (const Room* room : recurrent_rooms()) {
    if (room->name == "value_averaging") continue;  // a sum that leaves in bf16 at every token has no state of its own
    const Problem problem = room->make(spec_of(*room, 65, Format::bf16, 5));
    const KernelForm* form = recurrent_form(room->name);
    const Oracle oracle = oracle_of(*room, problem, 3);
    const KernelUnderTest wide{form, Format::bf16, 0, 1}, kept{form, Format::bf16, 0, 1, &narrow};
    const Answer got = form->run(problem, kept.policy(), 0);
    EXPECT_GT(failures(judged_tensors(expect(oracle, wide, problem, default_draws), got)), 0) << room->name;
    expect_no_alarm(judged_tensors(expect(oracle, kept, problem, default_draws), got), std::string(room->name));
  }
}

TEST(Recurrent, the_bits_do_not_depend_on_the_threads) {
  for (const char* name : {"gla", "mdn"}) {
    const Room& room = listed_room(name);
    const Problem problem = room.make(spec_of(room, 20, Format::bf16, 1));
    KernelRuns one, four;
    add_runs(one, {recurrent_form(name), Format::bf16, 0, 1}, problem, default_draws);
    add_runs(four, {recurrent_form(name), Format::bf16, 0, 4}, problem, default_draws);
    EXPECT_EQ(one.drawn, four.drawn);
    EXPECT_NE(one.drawn[0], one.drawn[1]);
    // More draws leave those that there are.
    KernelRuns later;
    add_runs(later, {recurrent_form(name), Format::bf16, 0, 1}, problem, 3);
    add_runs(later, {recurrent_form(name), Format::bf16, 0, 2}, problem, default_draws);
    EXPECT_EQ(one.drawn, later.drawn);
  }
}

/// The gradient of gla's log decays as fla's recurrent kernel takes it: sum of q dq - k dk from the end, in fp32, on
/// top of S dS of the last state.
Array cumulated(const Problem& problem, const Answer& answer) {
  const auto& q = problem.inputs.at("q").data;
  const auto& k = problem.inputs.at("k").data;
  const auto &dq = answer.gradients.at("q").data, &dk = answer.gradients.at("k").data;
  const auto &state = answer.outputs.at("final_state").data, &slope = problem.cotangents.at("final_state").data;
  Array sums = answer.gradients.at("log_decay");
  const auto n = [](int x) { return static_cast<std::size_t>(x); };
  const std::size_t H = n(sums.shape[0]), T = n(sums.shape[1]), K = n(sums.shape[2]), V = state.size() / H / K;
  for (std::size_t h = 0; h < H; ++h)
    for (std::size_t c = 0; c < K; ++c) {
      float sum = 0;
      for (std::size_t j = 0; j < V; ++j) {
        const std::size_t at = (h * K + c) * V + j;
        sum += static_cast<float>(state[at]) * static_cast<float>(slope[at]);
      }
      for (std::size_t t = T; t-- > 0;) {
        const std::size_t at = (h * T + t) * K + c;
        sum += static_cast<float>(q[at]) * static_cast<float>(dq[at]) -
               static_cast<float>(k[at]) * static_cast<float>(dk[at]);
        sums.data[at] = static_cast<double>(sum);
      }
    }
  return sums;
}

/// Where gates are strong, what is left of such a sum is its error: 10^5 sigma of a kernel that takes <G, R>.
TEST(Recurrent, gates_that_are_summed_up_are_no_fault) {
  const Room& room = listed_room("gla");
  const KernelForm& tiles = find_kernels(kernel_rooms(), "gla")->forms.front();
  Share sampled(13);
  while (sampled.goes_on())
    for (const Style style : {Style::normal, Style::dead_memory, Style::gate_ends})
      for (std::uint64_t seed = 0; seed < 39; ++seed) {
        if (!sampled.takes()) continue;
        const CaseSpec spec = spec_of(room, 70, Format::fp32, seed, style);
        const Problem problem = room.make(spec);
        const Oracle oracle = oracle_of(room, problem, 3);
        const KernelUnderTest kernel{recurrent_form("gla"), Format::fp32, 0, 1};
        Answer got = kernel.form->run(problem, kernel.policy(), 0);
        got.gradients.at("log_decay") = cumulated(problem, got);
        expect_no_alarm(judged_tensors(expect(oracle, kernel, problem, default_draws), got), spec.repro());
        // A tile program's dq and dk have roundings in common, which cancel: its sums are closer.
        const KernelUnderTest chunks{&tiles, Format::fp32, 0, 1};
        const Expectation of_tiles = expect(oracle, chunks, problem, default_draws);
        got = tiles.run(problem, chunks.policy(), 0);
        got.gradients.at("log_decay") = cumulated(problem, got);
        expect_no_alarm(judged_tensors(of_tiles, got), spec.repro());
        // A gate's gradient that is one token late is none of these errors.
        Array& late = got.gradients.at("log_decay");
        std::rotate(late.data.begin(), late.data.begin() + late.shape[2], late.data.end());
        EXPECT_TRUE(std::ranges::any_of(judged_tensors(of_tiles, got), [](const JudgedTensor& t) {
          return t.name == "d_log_decay" && t.judgement.verdict == Verdict::fail;
        })) << spec.repro();
      }
}

/// An error of the last token's dq is in the sums of all tokens.
TEST(Recurrent, sums_from_the_end_begin_with_the_last_token) {
  const Problem problem = listed_room("gla").make(spec_of(listed_room("gla"), 5, Format::fp64, 0));
  const std::vector<int>& shape = problem.inputs.at("q").shape;
  const std::size_t dims = static_cast<std::size_t>(shape[2]), last = static_cast<std::size_t>(shape[1] - 1) * dims;
  const Arrays exact{{"d_q", Array(shape)}, {"d_k", Array(shape)}, {"d_log_decay", Array(shape)}};
  Arrays run = exact;
  run.at("d_q").data[last] = 1;
  const auto summed = with_gates_summed(problem, exact, run);
  ASSERT_TRUE(summed.has_value());
  for (std::size_t at = 0; at <= last; at += dims)
    EXPECT_EQ(summed->at("d_log_decay").data[at], problem.inputs.at("q").data[last]);
}

TEST(Recurrent, only_gates_have_sums_from_the_end) {
  for (const Room* room : recurrent_rooms()) {
    const Problem problem = room->make(spec_of(*room, 5, Format::bf16, 0));
    const KernelForm* form = recurrent_form(room->name);
    const Arrays exact = flat(form->run(problem, Policy::of(form->sites, Format::bf16), 0));
    Arrays summed = exact;
    cumulate_gates(problem, Format::bf16, 0, 1, summed);
    const bool any = std::ranges::any_of(
        room->inputs(), [](const RoomFacts::Ranked& input) { return input.field.domain == Domain::log_decay; });
    EXPECT_EQ(any, summed != exact) << room->name;
    for (const auto& [name, array] : exact) {
      const bool gate = name.find("log_") != std::string::npos;
      EXPECT_TRUE(gate || summed.at(name) == array) << room->name << ' ' << name;
    }
  }
}

/// The quick way to random fp32 is random rounding: to either neighbour, right on average.
TEST(Recurrent, quick_random_rounding_takes_the_neighbours_in_turn) {
  const EmulatedArithmetic arithmetic({Format::fp32}, Rounding::jittered, 7);
  for (const double x : {1.0 + 0x1p-25, -(1.0 + 3 * 0x1p-25), 0x1.8p-140, 3.0, 0.0, 0x1.fffffffp126}) {
    const double below = round_to(x, Format::fp32, Rounding::toward_zero);
    int up = 0;
    constexpr int times = 4000;
    for (int i = 0; i < times; ++i) {
      const double y = EmulatedArithmetic::rounded(x);
      if (y != below) ++up;
      EXPECT_EQ(y, round_to(y, Format::fp32));
    }
    const double next = std::nextafter(static_cast<float>(std::fabs(below)), INFINITY);
    const double share = (std::fabs(x) - std::fabs(below)) / (next - std::fabs(below));
    EXPECT_NEAR(up / double{times}, share, 0.05) << x;
  }
}

}  // namespace
}  // namespace assay
