// Expectations of the real kernels: healthy ones are near sigma, and the oracle's bound holds against 50 digits.
#include "judge/sigma/expected.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "judge/court/judge_rows.hpp"
#include "judge/verdict/judge.hpp"
#include "proptests/core/share.hpp"
#include "proptests/core/table.hpp"
#include "proptests/judge/cases.hpp"
#include "proptests/judge/noise.hpp"

namespace assay {
namespace {

Problem small_problem(const Room& room, const KernelForm& form, Format precision, Style style) {
  CaseSpec spec{std::string(room.name), {1, 80, 2, 1, 16, 16, 0}, precision, style, 11, {}};
  if (form.iterative) spec.shape.key_dim = spec.shape.value_dim = 8;
  return drawn_for(form, spec);
}

/// Whether an element of a healthy answer is near sigma on average. The more a tensor's elements err together, the
/// further the judge lets their mean be from 1, and the less it says: the gradients of a decay, or all that reads
/// retnet's one decay.
void expect_near_sigma(const std::string& name, const Expected& expected, const Judgement& j) {
  // A number that stands alone can take more draws than these.
  if (expected.value.size() == 1 && j.verdict == Verdict::unseen) return;
  EXPECT_EQ(j.verdict, Verdict::pass) << name << ' ' << j.reason;
  if (std::ranges::all_of(expected.sigma, [](double sigma) { return sigma == 0; })) {  // copies of what came in
    EXPECT_EQ(j.max_error, 0) << name;
    return;
  }
  if (expected.value.size() < 100) return;  // few elements are near sigma only on average
  // Other kernels that keep the contract are further off, and may be. Gates have sums of q.dq - k.dk among them, whose
  // errors are added to sigma.
  if (expected.widened == 0 && !name.starts_with("d_log_")) {
    EXPECT_GT(j.rms_z, std::min(0.7, 1 / j.rms_limit)) << name;
  }
  EXPECT_LT(j.rms_z, std::max(1.3, j.rms_limit)) << name;
}

/// One in 13 forms and precisions, or more.
TEST(Expected, healthy_kernels_are_near_sigma) {
  Share sampled(13);
  while (sampled.goes_on())
    for (const KernelRoom* kernels : kernel_rooms())
      for (const KernelForm& form : kernels->forms)
        for (const Format precision : {Format::fp32, Format::bf16, Format::fp16, Format::tf32}) {
          if (!form.unstable.empty() || !sampled.takes()) continue;
          SCOPED_TRACE(text(kernels->name, ' ', form.name, ' ', name_of(precision)));
          const Problem problem = small_problem(listed_room(kernels->name), form, precision, Style::normal);
          const Expectation expectation = expected_on(problem, {&form, precision, 0, 1});
          EXPECT_FALSE(expectation.tensors.empty());
          for (const JudgedTensor& t : judged_tensors(expectation)) expect_near_sigma(t.name, t.expected, t.judgement);
        }
}

/// One division, whose residual is so small that no draw moves it: the nearest double is right, its neighbour is not.
TEST(Expected, the_nearest_double_is_right) {
  const Expectation expectation =
      expected_on({"value_averaging", {1, 32, 4, 0, 2, 16, 0}, Format::fp64, Style::integers, 0, {}});
  for (auto& [name, expected, got, healthy] : judged_tensors(expectation)) {
    EXPECT_EQ(healthy.verdict, Verdict::pass) << name << ' ' << healthy.reason;
    bool between = false;
    for (std::size_t i = 0; i < got.size() && !between; ++i) {
      const double lo = std::fabs(expected.value[i].lo), next = std::nextafter(got[i], 1e300),
                   spacing = std::nextafter(std::fabs(got[i]), 1e300) - std::fabs(got[i]);
      // Others may well be an ulp away.
      between = lo != 0 && !(expected.sigma[i] > lo) && !(expected.reach[i] * lo > 0.5 * spacing);
      if (between) got[i] = next;
    }
    EXPECT_EQ(judge(expected, got).verdict, between ? Verdict::fail : Verdict::pass) << name;
  }
}

/// Weights next to one, whose distance from it no double holds: gradients that are nothing else, and integers beside
/// which they vanish. These were false alarms.
TEST(Expected, residues_that_doubles_lose_are_no_fault) {
  const Json rows = test_table("judge/false_alarms.json").at("residues");
  for (const Json& row : rows) {
    const CaseSpec spec = spec_from(row);
    SCOPED_TRACE(spec.repro());
    const Expectation expectation = expected_on(spec);
    for (auto& [name, expected, got, j] : judged_tensors(expectation)) {
      EXPECT_NE(j.verdict, Verdict::fail) << name << ": " << j.reason;
      if (j.verdict != Verdict::pass || spec.precision != Format::fp64) continue;
      got[got.size() / 2] += 1e-3 * (1 + std::fabs(got[got.size() / 2]));  // any other error still is one
      EXPECT_EQ(judge(expected, got).verdict, Verdict::fail) << name;
    }
  }
}

/// No tensor of a healthy kernel's own answer fails, in the tiles of a row and with its draws. All of these were false
/// alarms.
TEST(Expected, healthy_kernels_raise_no_alarm) {
  const Json rows = test_table("judge/false_alarms.json").at("healthy");
  for (const Json& row : rows) {
    const CaseSpec spec = spec_from(row);
    const KernelForm& form = first_form(spec.mechanism);
    const std::string tile_name = row.value("tile", std::string(form.tiles[0]));
    const auto tile = std::ranges::find(form.tiles, std::string_view(tile_name));
    ASSERT_NE(tile, form.tiles.end()) << tile_name;
    const Problem problem = drawn(spec);
    const Expectation expectation = expect(oracle_of(listed_room(spec.mechanism), problem),
                                           {&form, spec.precision, static_cast<int>(tile - form.tiles.begin()), 1},
                                           problem, row.value("draws", default_draws), false_alarm_rate / 2);
    expect_no_alarm(judged_tensors(expectation), spec.repro());
  }
}

/// Nor of kernels that sum in another order, or that keep their operands where a contract's draws round them to zero:
/// what erred before that is gone with it.
TEST(Expected, kernels_that_sum_or_round_otherwise_raise_no_alarm) {
  const Json rows = test_table("judge/false_alarms.json").at("otherwise");
  for (const Json& row : rows) {
    const CaseSpec spec = spec_from(row);
    SCOPED_TRACE(spec.repro());
    const Problem problem = drawn(spec);
    const Expectation expectation = expected_on(spec);
    Contract other = Contract::of(spec.precision);
    other.name += ", otherwise";
    if (row.value("keeps_operands", false)) other.rules = {{"operands", Format::exact}};
    for (const int products : row.at("products").get<std::vector<int>>()) {
      other.products = products;
      const KernelUnderTest kernel{&first_form(spec.mechanism), spec.precision, 0, 1, &other};
      const Answer answer = kernel.form->run(problem, kernel.policy(), 0);
      expect_no_alarm(judged_tensors(expectation, answer), text("products ", products));
    }
    const bool widens = std::ranges::any_of(expectation.tensors, [](const auto& tensor) {
      return std::ranges::any_of(tensor.second.sums, &SliceSum::widened);
    });
    EXPECT_TRUE(widens || !row.value("widens_sums", false));
  }
}

/// The exact run, too, loses the last place of an answer's largest number: elements that are all
/// off by that much the same way, though none beyond its own limit, are no fault, and any more is one.
TEST(Expected, the_last_place_of_the_largest_number_is_no_fault) {
  const auto verdict = [&](double truth) {
    const std::vector<int> shape{65, 1};
    Oracle oracle;
    oracle.tensors = {{"o", {shape, std::vector<HiLo>(65, {truth, 0}), std::vector<double>(65)}}};
    oracle.tensors[0].second.value[0] = {1, 0};
    const auto run = [&](auto error) {
      Array o(shape);
      o.data[0] = 1;
      for (std::size_t i = 1; i < 65; ++i) o.data[i] = error(i);
      return Named<Array>{{"o", o}};
    };
    KernelRuns runs;
    runs.exact = run([](std::size_t) { return 0.0; });
    runs.emulated = run([](std::size_t i) { return i % 2 ? 0x1p-57 : -0x1p-57; });
    Noise noise(3);
    for (int k = 0; k < default_draws; ++k)
      runs.drawn.push_back(run([&](std::size_t) { return 0x1p-56 * noise.normal(); }));
    const Expectation expectation = expected_of_runs({1, 65, 1, 0, 2, 1, 0}, oracle, runs);
    return judge(expectation.tensors[0].second, runs.emulated[0].second.data).verdict;
  };
  EXPECT_NE(verdict(0x1p-55), Verdict::fail);
  EXPECT_NE(verdict(0x1p-53), Verdict::fail);
  EXPECT_EQ(verdict(0x1.8p-53), Verdict::fail);
}

/// All runs answer one, a double next to the truth: that it is less than a spacing off is what sigma is, of the
/// elements and of their sums. Of another number than the truth, or of a truth that is not known so well, it is not.
TEST(Expected, distances_are_taken_from_the_truth) {
  constexpr double close = 0x1.8p-53;  // further than the largest number's last place
  const auto expected_of = [&](double off, double bound) {
    const std::vector<int> shape{65, 1};
    Oracle oracle;
    oracle.tensors = {{"o", {shape, std::vector<HiLo>(65, {1, off}), std::vector<double>(65, bound)}}};
    Array o(shape);
    o.data.assign(65, 1);
    KernelRuns runs;
    runs.exact = runs.emulated = {{"o", o}};
    runs.drawn.assign(static_cast<std::size_t>(default_draws), runs.exact);
    return expected_of_runs({1, 65, 1, 0, 2, 1, 0}, oracle, runs).tensors[0].second;
  };
  const std::vector<double> ones(65, 1), zeros(65);
  const Expected near = expected_of(close, 0);
  EXPECT_EQ(near.sigma, std::vector<double>(65, close));
  EXPECT_NE(judge(near, ones).verdict, Verdict::fail) << judge(near, ones).reason;
  for (const SliceSum& sum : near.sums) EXPECT_GT(sum.sigma, 0) << sum.slice.name();
  const Expected elsewhere = expected_of(2 * close, 0);
  EXPECT_EQ(elsewhere.sigma, zeros);
  EXPECT_EQ(judge(elsewhere, ones).verdict, Verdict::fail);
  EXPECT_EQ(expected_of(close, close).sigma, zeros);
}

/// A program with another formula, lla with values that are a little larger, is off by more than the reference in
/// doubles: nothing is excused.
TEST(Expected, a_wrong_formula_is_no_residue) {
  const Params params{{"lambda_mode", "max"}, {"window", 5L}};
  const Problem problem = drawn({"lla", {1, 17, 2, 2, 8, 3, 0}, Format::fp64, Style::integers, 4262100216, params});
  KernelForm wrong = first_form("lla");
  wrong.run = [](const Problem& given, const Policy& policy, int tile) {
    Problem other = given;
    for (double& x : other.inputs.at("v").data) x *= 1 + 0x1p-40;
    return first_form("lla").run(other, policy, tile);
  };
  const Expectation expectation = expected_on(problem, {&wrong, Format::fp64, 0, 1}, 4);
  const auto tensors = judged_tensors(expectation);
  EXPECT_EQ(1, std::ranges::count_if(tensors, [](const JudgedTensor& t) {
              return t.name == "o" && t.judgement.verdict == Verdict::fail;
            }));
}

/// Where a draw overflows and the contract's own run does not, the tensor is UNSUPPORTED as where that overflows, too;
/// of the others' sigma it says nothing.
TEST(Expected, overflows_of_draws_alone_are_called_so) {
  const Problem problem = drawn({"value_averaging", {1, 9, 1, 0, 4, 4, 0}, Format::fp16, Style::normal, 0, {}});
  const KernelUnderTest kernel{&first_form("value_averaging"), Format::fp16, 0, 1};
  KernelRuns runs;
  add_runs(runs, kernel, problem, default_draws);
  runs.drawn[3][0].second.data[0] = std::numeric_limits<double>::infinity();
  const Expectation expectation = expect(oracle_of(listed_room("value_averaging"), problem), kernel, problem, runs);
  const Expected& expected = expectation.tensors[0].second;
  EXPECT_TRUE(std::isinf(expected.sigma[0]));
  for (std::size_t i = 1; i < expected.sigma.size(); ++i) EXPECT_TRUE(std::isfinite(expected.sigma[i])) << i;
  EXPECT_EQ(judge(expected, expectation.emulated[0].second).verdict, Verdict::unsupported);
}

/// The style predicted_values shows a state's read that is rounded before it is taken from the values
/// (attention-gym#465), and others hide it.
TEST(Expected, predicted_values_show_what_rounds_a_read) {
  const auto rejected = [](const char* mechanism, Style style, Format read) {
    const Problem problem = drawn_forward({mechanism, {1, 40, 2, 0, 32, 16, 0}, Format::bf16, style, 3, {}});
    const KernelUnderTest kernel{&first_form(mechanism), Format::bf16, 0, 1};
    Policy policy = kernel.policy();
    policy.sites = policy.sites.with("W", read);
    return failures(judged_tensors(expected_on(problem, kernel), kernel.form->run(problem, policy, 0)));
  };
  for (const char* mechanism : {"deltanet", "gated_deltanet"}) {
    EXPECT_EQ(rejected(mechanism, Style::predicted_values, Format::fp32), 0) << mechanism;
    EXPECT_GT(rejected(mechanism, Style::predicted_values, Format::bf16), 0) << mechanism;
    EXPECT_EQ(rejected(mechanism, Style::normal, Format::bf16), 0) << mechanism;
  }
}

/// Where bounds are too wide for a verdict, those of the oracle in four words count.
TEST(Expected, learns_from_the_sharper_oracle) {
  const Room& room = listed_room("value_averaging");
  const Problem problem = drawn({"value_averaging", {1, 9, 1, 0, 4, 4, 0}, Format::bf16, Style::normal, 0, {}});
  Oracle blunt = oracle_of(room, problem);
  for (auto& [name, tensor] : blunt.tensors) std::ranges::fill(tensor.bound, 1.0);
  const Learnt learnt = learn({.room = room,
                               .kernel = {&first_form("value_averaging"), Format::bf16, 0, 1},
                               .problem = problem,
                               .oracle = blunt});
  EXPECT_TRUE(learnt.sharper.has_value());
  for (const auto& [name, expected] : learnt.expectations.front().tensors) EXPECT_FALSE(undecided_at(expected)) << name;
}

/// 50 digits say how far the words really are. In one style of three, or more.
TEST(Expected, bounds_hold_against_fifty_digits) {
  Share sampled(3);
  double tightest = 0;
  while (sampled.goes_on())
    for (const KernelRoom* kernels : kernel_rooms())
      for (const Style style : {Style::normal, Style::nearly_parallel_keys, Style::gate_ends, Style::subnormals}) {
        if (!sampled.takes()) continue;
        const Room* room = &listed_room(kernels->name);
        const KernelForm& form = kernels->forms.front();
        const Problem problem = small_problem(*room, form, Format::bf16, style);
        const BasicAnswer<HiLo> exact = room->values(problem, Tier::mp50);
        for (const auto& [name, tensor] : oracle_of(*room, problem).tensors) {
          const BasicArray<HiLo>& truth =
              name.starts_with("d_") ? exact.gradients.at(name.substr(2)) : exact.outputs.at(name);
          for (std::size_t i = 0; i < truth.data.size(); ++i) {
            const double off = (tensor.value[i].hi - truth.data[i].hi) + (tensor.value[i].lo - truth.data[i].lo);
            EXPECT_LE(std::fabs(off), tensor.bound[i]) << room->name << ' ' << name << place(tensor.shape, i);
            if (off != 0) tightest = std::max(tightest, std::fabs(off) / tensor.bound[i]);
          }
        }
      }
  EXPECT_GT(tightest, 0);  // w2 differs somewhere, or this compares a thing with itself
}

TEST(Expected, refuses_a_kernel_of_another_shape) {
  const KernelRoom& kernels = *kernel_rooms()[0];
  const Room& room = listed_room(kernels.name);
  const KernelForm& form = kernels.forms.front();
  const Problem problem = small_problem(room, form, Format::bf16, Style::normal);
  Oracle oracle = oracle_of(room, problem);
  oracle.tensors[0].second.shape.back() += 1;
  EXPECT_THROW(expect(oracle, {&form, Format::bf16, 0, 1}, problem, default_draws), InputError);
  oracle.tensors.clear();
  EXPECT_THROW(expect(oracle, {&form, Format::bf16, 0, 1}, problem, default_draws), InputError);
}

}  // namespace
}  // namespace assay
