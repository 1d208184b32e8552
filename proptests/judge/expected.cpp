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
#include "proptests/judge/noise.hpp"

namespace assay {
namespace {

Problem small_problem(const Room& room, const KernelForm& form, Format precision, Style style) {
  CaseSpec spec{.mechanism = std::string(room.name),
                .shape = {.seq_len = 80, .heads = 2, .shared_heads = 1, .key_dim = 16, .value_dim = 16},
                .precision = precision,
                .style = style,
                .seed = 11,
                .params = {}};
  if (!groups_heads(room.inputs())) spec.shape.shared_heads = 0;
  if (form.iterative) spec.shape.key_dim = spec.shape.value_dim = 8;
  Problem problem = room.make(spec);
  if (!form.obstacle(problem).empty()) {
    spec.shape.query_len = 3;
    problem = room.make(spec);
  }
  if (!form.has_gradients) problem.cotangents.clear();
  return problem;
}

/// One in 13 forms and precisions, or more.
TEST(Expected, healthy_kernels_are_near_sigma) {
  Share sampled(13);
  while (sampled.goes_on())
    for (const KernelRoom* kernels : kernel_rooms())
      for (const KernelForm& form : kernels->forms)
        for (const Format precision : {Format::fp32, Format::bf16, Format::fp16, Format::tf32}) {
          if (!form.unstable.empty() || !sampled.takes()) continue;
          const Room* room = &listed_room(kernels->name);
          const Problem problem = small_problem(*room, form, precision, Style::normal);
          const Expectation expectation =
              expect(oracle_of(*room, problem), {&form, precision, 0, 1}, problem, default_draws);
          EXPECT_FALSE(expectation.tensors.empty());
          for (std::size_t t = 0; t < expectation.tensors.size(); ++t) {
            const auto& [name, expected] = expectation.tensors[t];
            const Judgement j = judge(expected, expectation.emulated[t].second);
            // A number that stands alone can take more draws than these.
            if (expected.value.size() == 1 && j.verdict == Verdict::unseen) continue;
            EXPECT_EQ(j.verdict, Verdict::pass)
                << room->name << ' ' << form.name << ' ' << name_of(precision) << ' ' << name << ' ' << j.reason;
            if (std::ranges::all_of(expected.sigma,
                                    [](double sigma) { return sigma == 0; })) {  // copies of what came in
              EXPECT_EQ(j.max_error, 0) << room->name << ' ' << form.name << ' ' << name;
              continue;
            }
            if (expected.value.size() < 100) continue;  // few elements are near sigma only on average
            // The more a tensor's elements err together, the further the judge lets their mean be from 1, and the less
            // it says: the gradients of a decay, or all that reads retnet's one decay. Gates have sums of q.dq - k.dk
            // among them, whose errors are added to sigma.
            const bool of_gate = name.starts_with("d_log_");
            if (expected.widened == 0 &&
                !of_gate) {  // other kernels that keep the contract are further off, and may be
              EXPECT_GT(j.rms_z, std::min(0.7, 1 / j.rms_limit))
                  << room->name << ' ' << form.name << ' ' << name_of(precision) << ' ' << name;
            }
            EXPECT_LT(j.rms_z, std::max(1.3, j.rms_limit))
                << room->name << ' ' << form.name << ' ' << name_of(precision) << ' ' << name;
          }
        }
}

/// One division, whose residual is so small that no draw moves it: the nearest double is right, its neighbour is not.
TEST(Expected, the_nearest_double_is_right) {
  const Room& room = listed_room("value_averaging");
  const KernelForm& form = find_kernels(kernel_rooms(), "value_averaging")->forms.front();
  const Problem problem = room.make({"value_averaging", {1, 32, 4, 0, 2, 16, 0}, Format::fp64, Style::integers, 0, {}});
  const Expectation expectation =
      expect(oracle_of(room, problem, 4), {&form, Format::fp64, 0, 1}, problem, default_draws);
  for (std::size_t t = 0; t < expectation.tensors.size(); ++t) {
    const auto& [name, expected] = expectation.tensors[t];
    std::vector<double> got = expectation.emulated[t].second;
    EXPECT_EQ(judge(expected, got).verdict, Verdict::pass) << name << ' ' << judge(expected, got).reason;
    bool between = false;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double lo = std::fabs(expected.value[i].lo),
                   spacing = std::nextafter(std::fabs(got[i]), 1e300) - std::fabs(got[i]);
      if (lo == 0 || expected.sigma[i] > lo || expected.reach[i] * lo > 0.5 * spacing)
        continue;  // others may well be an ulp away
      between = true;
      got[i] = std::nextafter(got[i], 1e300);
      break;
    }
    EXPECT_EQ(judge(expected, got).verdict, between ? Verdict::fail : Verdict::pass) << name;
  }
}

/// The expectation of a kernel's default tile on a seeded case, in as many words as `assay report` takes at most.
Expectation expected_on(const CaseSpec& spec, Problem& problem) {
  const Room& room = listed_room(spec.mechanism);
  problem = room.make(spec);
  return expect(oracle_of(room, problem, 4),
                {&find_kernels(kernel_rooms(), spec.mechanism)->forms.front(), spec.precision, 0, 1}, problem,
                default_draws);
}

/// Weights next to one, whose distance from it no double holds: gradients that are nothing else, and integers beside
/// which they vanish. These were false alarms.
TEST(Expected, residues_that_doubles_lose_are_no_fault) {
  const Json rows = test_table("judge/false_alarms.json").at("residues");
  for (const Json& row : rows) {
    const CaseSpec spec = spec_from(row);
    Problem problem;
    const Expectation expectation = expected_on(spec, problem);
    for (std::size_t t = 0; t < expectation.tensors.size(); ++t) {
      const auto& [name, expected] = expectation.tensors[t];
      std::vector<double> got = expectation.emulated[t].second;
      const Judgement j = judge(expected, got);
      EXPECT_NE(j.verdict, Verdict::fail) << spec.repro() << ": " << name << ": " << j.reason;
      if (j.verdict != Verdict::pass || spec.precision != Format::fp64) continue;
      got[got.size() / 2] += 1e-3 * (1 + std::fabs(got[got.size() / 2]));  // any other error still is one
      EXPECT_EQ(judge(expected, got).verdict, Verdict::fail) << spec.repro() << ": " << name;
    }
  }
}

/// All of a state stalls, in two heads to opposite sides: the whole tensor's errors add up to nothing but their own
/// rounding. This was a false alarm.
TEST(Expected, sums_count_what_draws_show) {
  const CaseSpec spec{"deltanet",   {1, 64, 2, 1, 5, 1, 0},
                      Format::e4m3, Style::slow_writes,
                      3400436706,   {{"alignment", "next_latent"}, {"sequence_start", false}}};
  Problem problem;
  const Expectation expectation = expected_on(spec, problem);
  for (std::size_t t = 0; t < expectation.tensors.size(); ++t) {
    const auto& [name, expected] = expectation.tensors[t];
    const Judgement j = judge(expected, expectation.emulated[t].second);
    EXPECT_NE(j.verdict, Verdict::fail) << name << ": " << j.reason;
    if (name != "final_state") continue;
    EXPECT_EQ(j.verdict, Verdict::pass) << j.reason;
    for (std::size_t i = 0; i < expected.sigma.size(); ++i)
      EXPECT_NEAR(std::fabs(expectation.emulated[t].second[i] - expected.value[i].hi), expected.sigma[i],
                  0.01 * expected.sigma[i]);
  }
}

/// No tensor of a healthy kernel's own answer fails, in the tiles of a row and with its draws. All of these were false
/// alarms.
TEST(Expected, healthy_kernels_raise_no_alarm) {
  const Json rows = test_table("judge/false_alarms.json").at("healthy");
  for (const Json& row : rows) {
    const CaseSpec spec = spec_from(row);
    const std::string tile_name = row.value("tile", std::string());
    const Room& room = listed_room(spec.mechanism);
    const Problem problem = room.make(spec);
    const KernelForm& form = find_kernels(kernel_rooms(), spec.mechanism)->forms.front();
    const auto tile =
        tile_name.empty() ? form.tiles.begin() : std::ranges::find(form.tiles, std::string_view(tile_name));
    ASSERT_NE(tile, form.tiles.end()) << tile_name;
    const KernelUnderTest kernel{&form, spec.precision, static_cast<int>(tile - form.tiles.begin()), 1};
    const int draws = row.value("draws", default_draws);
    const Expectation expectation = expect(oracle_of(room, problem), kernel, problem, draws, false_alarm_rate / 2);
    for (std::size_t t = 0; t < expectation.tensors.size(); ++t) {
      const auto& [name, expected] = expectation.tensors[t];
      const Judgement j = judge(expected, expectation.emulated[t].second);
      EXPECT_NE(j.verdict, Verdict::fail) << spec.repro() << ": " << name << ": " << j.reason;
    }
  }
}

/// Means of columns are divided by the same counts: roundings agree, and lean in other columns where products are
/// summed in another order. This was a false alarm.
TEST(Expected, sums_lean_in_other_columns_in_another_order) {
  const CaseSpec spec{"value_averaging", {1, 65, 2, 0, 1, 16, 0}, Format::fp32, Style::normal, 444846562, {}};
  const KernelForm& form = find_kernels(kernel_rooms(), spec.mechanism)->forms.front();
  Problem problem;
  const Expectation expectation = expected_on(spec, problem);
  Contract other = Contract::of(spec.precision);
  other.name += ", in another order";
  bool widened = false;
  for (const int products : {2, 4}) {
    other.products = products;
    const Answer answer = form.run(problem, KernelUnderTest{&form, spec.precision, 0, 1, &other}.policy(), 0);
    const auto got = in_report_order(answer, expectation);
    for (std::size_t t = 0; t < got.size(); ++t) {
      const Expected& expected = expectation.tensors[t].second;
      widened = widened || std::ranges::any_of(expected.sums, &SliceSum::widened);
      const Judgement j = judge(expected, got[t].second);
      EXPECT_NE(j.verdict, Verdict::fail) << products << ' ' << got[t].first << ": " << j.reason;
    }
  }
  EXPECT_TRUE(widened);
}

/// The exact run, too, loses the last place of an answer's largest number: elements that are all
/// off by that much the same way, though none beyond its own limit, are no fault, and any more is one.
TEST(Expected, the_last_place_of_the_largest_number_is_no_fault) {
  const Room& room = listed_room("value_averaging");
  Problem problem = room.make({"value_averaging", {1, 65, 1, 0, 2, 1, 0}, Format::fp64, Style::normal, 0, {}});
  problem.mechanism = "numbers that no reference knows";
  const KernelForm& form = find_kernels(kernel_rooms(), "value_averaging")->forms.front();
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
    const Expectation expectation = expect(oracle, {&form, Format::fp64, 0, 1}, problem, runs);
    return judge(expectation.tensors[0].second, runs.emulated[0].second.data).verdict;
  };
  EXPECT_NE(verdict(0x1p-55), Verdict::fail);
  EXPECT_NE(verdict(0x1p-53), Verdict::fail);
  EXPECT_EQ(verdict(0x1.8p-53), Verdict::fail);
}

/// All runs answer one, a double next to the truth: that it is less than a spacing off is what sigma is, of the
/// elements and of their sums. Of another number than the truth, or of a truth that is not known so well, it is not.
TEST(Expected, distances_are_taken_from_the_truth) {
  const Room& room = listed_room("value_averaging");
  Problem problem = room.make({"value_averaging", {1, 65, 1, 0, 2, 1, 0}, Format::fp64, Style::normal, 0, {}});
  problem.mechanism = "numbers that no reference knows";
  const KernelForm& form = find_kernels(kernel_rooms(), "value_averaging")->forms.front();
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
    return expect(oracle, {&form, Format::fp64, 0, 1}, problem, runs).tensors[0].second;
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

/// Where a contract's draws round to zero, what erred before that is gone with it: D of an o in bf16 in a row of dS
/// that e4m3 flushes; the weight of a single key, 1 - y.(k - kbar), whose terms are 16 times as large. Kernels that
/// keep their operands answer it, in any order of their sums, and so where operands in e4m3 make equal what sums leave
/// apart. These were false alarms.
TEST(Expected, what_operands_absorb_is_no_fault) {
  const CaseSpec equal{"parallax",
                       {1, 70, 2, 1, 16, 16, 0},
                       Format::e4m3,
                       Style::outlier_channels,
                       0,
                       listed_room("parallax").variants()[1]};
  const CaseSpec attention{
      "softmax_attention", {1, 70, 2, 1, 16, 16, 0}, Format::e4m3, Style::outlier_channels, 20261212, {{"window", 5L}}};
  const CaseSpec one_step{"lla",        {1, 37, 2, 1, 8, 8, 0},
                          Format::tf32, Style::long_memory,
                          20261213,     {{"iterations", 2L}, {"solver", "cg"}, {"tolerance", "0"}}};
  CaseSpec direct = one_step;
  direct.seed = 20261217, direct.params = {{"lambda_mode", "absolute"}};
  for (const CaseSpec& spec : {equal, attention, one_step, direct}) {
    Contract wide = Contract::of(spec.precision);
    wide.name += ", operands not rounded", wide.rules = {{"operands", Format::exact}};
    const KernelForm& form = find_kernels(kernel_rooms(), spec.mechanism)->forms.front();
    Problem problem;
    const Expectation expectation = expected_on(spec, problem);
    for (const int products : {0, 1, 4}) {
      wide.products = products;
      const Answer answer = form.run(problem, KernelUnderTest{&form, spec.precision, 0, 1, &wide}.policy(), 0);
      const auto got = in_report_order(answer, expectation);
      for (std::size_t t = 0; t < got.size(); ++t) {
        const Judgement j = judge(expectation.tensors[t].second, got[t].second);
        EXPECT_NE(j.verdict, Verdict::fail)
            << spec.repro() << ' ' << products << ' ' << got[t].first << ": " << j.reason;
      }
    }
  }
}

/// lla with values that are a little larger.
Answer wrong_lla(const Problem& problem, const Policy& policy, int tile) {
  Problem other = problem;
  for (double& x : other.inputs.at("v").data) x *= 1 + 0x1p-40;
  return find_kernels(kernel_rooms(), "lla")->forms.front().run(other, policy, tile);
}

/// A program with another formula is off by more than the reference in doubles: nothing is excused.
TEST(Expected, a_wrong_formula_is_no_residue) {
  const CaseSpec spec{"lla",        {1, 17, 2, 2, 8, 3, 0},
                      Format::fp64, Style::integers,
                      4262100216,   {{"lambda_mode", "max"}, {"window", 5L}}};
  const Room& room = listed_room("lla");
  const Problem problem = room.make(spec);
  KernelForm wrong = find_kernels(kernel_rooms(), "lla")->forms.front();
  wrong.run = wrong_lla;
  const Expectation expectation =
      expect(oracle_of(room, problem, 4), {&wrong, spec.precision, 0, 1}, problem, default_draws);
  int seen = 0;
  for (std::size_t t = 0; t < expectation.tensors.size(); ++t) {
    const auto& [name, expected] = expectation.tensors[t];
    if (name != "o") continue;
    EXPECT_EQ(judge(expected, expectation.emulated[t].second).verdict, Verdict::fail);
    ++seen;
  }
  EXPECT_EQ(seen, 1);
}

/// A gate's gradient is finite where what kernels sum it up from overflows: nothing is known of it, and it is no FAIL.
TEST(Expected, gates_of_what_overflows_are_unknown) {
  const CaseSpec spec{"mdn", {1, 31, 4, 2, 1, 16, 0}, Format::fp16, Style::integers, 2796830200, {}};
  Problem problem;
  const Expectation expectation = expected_on(spec, problem);
  int unknown = 0;
  for (std::size_t t = 0; t < expectation.tensors.size(); ++t) {
    const auto& [name, expected] = expectation.tensors[t];
    EXPECT_NE(judge(expected, expectation.emulated[t].second).verdict, Verdict::fail) << name;
    for (std::size_t i = 0; i < expected.sigma.size(); ++i) {
      EXPECT_FALSE(std::isnan(expected.sigma[i]) || std::isnan(expected.reach[i])) << name << ' ' << i;
      unknown += name == "d_log_mu" && std::isinf(expected.sigma[i]) ? 1 : 0;
    }
  }
  EXPECT_GT(unknown, 0);
}

/// fp16 cannot hold the parts of this gradient: that is no fault of a kernel, and no PASS either.
TEST(Expected, overflows_of_the_contract_are_called_so) {
  const CaseSpec spec{"falcon3a", {1, 33, 4, 2, 2, 8, 0}, Format::fp16, Style::integers, 3273758488, {{"window", 1L}}};
  Problem problem;
  const Expectation expectation = expected_on(spec, problem);
  bool seen = false;
  for (std::size_t t = 0; t < expectation.tensors.size(); ++t) {
    const auto& [name, expected] = expectation.tensors[t];
    std::vector<double> got = expectation.emulated[t].second;
    const bool overflows = !std::ranges::all_of(got, [](double x) { return std::isfinite(x); });
    EXPECT_EQ(judge(expected, got).verdict, overflows ? Verdict::unsupported : Verdict::pass) << name;
    seen = seen || overflows;
    const auto finite = std::ranges::find_if(expected.sigma, [](double sigma) { return std::isfinite(sigma); });
    if (finite == expected.sigma.end()) continue;
    got[static_cast<std::size_t>(finite - expected.sigma.begin())] = -std::numeric_limits<double>::infinity();
    EXPECT_EQ(judge(expected, got).verdict, Verdict::fail) << name;
  }
  EXPECT_TRUE(seen);
}

/// The same where a draw overflows and the contract's own run does not; of the others' sigma it says nothing.
TEST(Expected, overflows_of_draws_alone_are_called_so) {
  const Room& room = listed_room("value_averaging");
  const Problem problem = room.make({"value_averaging", {1, 9, 1, 0, 4, 4, 0}, Format::fp16, Style::normal, 0, {}});
  const KernelUnderTest kernel{&find_kernels(kernel_rooms(), "value_averaging")->forms.front(), Format::fp16, 0, 1};
  KernelRuns runs;
  add_runs(runs, kernel, problem, default_draws);
  runs.drawn[3][0].second.data[0] = std::numeric_limits<double>::infinity();
  const Expectation expectation = expect(oracle_of(room, problem), kernel, problem, runs);
  const Expected& expected = expectation.tensors[0].second;
  EXPECT_TRUE(std::isinf(expected.sigma[0]));
  for (std::size_t i = 1; i < expected.sigma.size(); ++i) EXPECT_TRUE(std::isfinite(expected.sigma[i])) << i;
  EXPECT_EQ(judge(expected, expectation.emulated[0].second).verdict, Verdict::unsupported);
}

/// Where bounds are too wide for a verdict, those of the oracle in four words count.
TEST(Expected, learns_from_the_sharper_oracle) {
  const Room& room = listed_room("value_averaging");
  const Problem problem = room.make({"value_averaging", {1, 9, 1, 0, 4, 4, 0}, Format::bf16, Style::normal, 0, {}});
  const KernelForm& form = find_kernels(kernel_rooms(), "value_averaging")->forms.front();
  Oracle blunt = oracle_of(room, problem);
  for (auto& [name, tensor] : blunt.tensors) std::ranges::fill(tensor.bound, 1.0);
  const Learnt learnt =
      learn({.room = room, .kernel = {&form, Format::bf16, 0, 1}, .problem = problem, .oracle = blunt});
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
