// Sigma against kernels that are right: what the gauge counts, and that it would see a sigma that is not theirs.
// proptests/transcripts/calibrate.md has what it sees of their own.
#include "judge/trial/calibration.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "judge/forms/sequential.hpp"
#include "judge/sigma/expected.hpp"
#include "proptests/judge/cases.hpp"
#include "reference/core/inputs.hpp"

namespace assay {
namespace {

Expected column_of(const std::vector<double>& sigma, double reach) {
  const auto n = sigma.size();
  return {.shape = {static_cast<int>(n)},
          .layout = {1, static_cast<int>(n), 1},
          .value = std::vector<HiLo>(n),
          .bound = std::vector<double>(n),
          .sigma = sigma,
          .reach = std::vector<double>(n, reach)};
}

TEST(Gauge, counts_what_it_is_given) {
  Gauge g;
  g.add(column_of({1, 1, 2, 0, 0}, 14), {3, -7.5, 0, 0, 0.25});
  EXPECT_EQ(g.tensors, 1U);
  EXPECT_EQ(g.elements, 3U);
  EXPECT_EQ(g.exact_elements, 2U);
  EXPECT_EQ(g.beyond_seven, 1U);
  EXPECT_EQ(g.beyond_limit, 1U);  // the last one should be exact
  EXPECT_DOUBLE_EQ(g.rms(), std::sqrt((9 + 56.25) / 3));
  EXPECT_EQ(g.largest, 7.5);
  // 14/7.5, 14/3, and no error at all
  EXPECT_NEAR(g.median_slack() / (14.0 / 3), 1, 0.05);
  EXPECT_EQ(g.widened, 0U);
  Expected stalled = column_of({1}, 7);
  stalled.stall = 2;
  Gauge of_stalled;
  of_stalled.add(stalled, {1});
  EXPECT_EQ(of_stalled.widened, 1U);
  Gauge twice = g;
  twice.join(g);
  EXPECT_EQ(twice.elements, 6U);
  EXPECT_DOUBLE_EQ(twice.rms(), g.rms());
  EXPECT_EQ(twice.median_slack(), g.median_slack());
}

TEST(Gauge, counts_NaN_as_beyond_and_leaves_out_what_is_undecided) {
  Gauge g;
  g.add(column_of({1, 1}, 7), {std::numeric_limits<double>::quiet_NaN(), 0});
  EXPECT_EQ(g.beyond_seven, 1U);
  EXPECT_EQ(g.beyond_limit, 1U);
  Expected dull = column_of({1, 1}, 7);
  dull.bound[1] = 0.1;
  g.add(dull, {100, 100});
  EXPECT_EQ(g.undecided, 1U);
  EXPECT_EQ(g.elements, 2U);
}

struct Calibrated {
  const Room& room;
  const KernelForm& form;
  Problem problem;
};
Calibrated trial_of(std::string_view name, Format precision) {
  const Room& room = listed_room(name);
  return {room, first_form(name),
          drawn({std::string(name), {1, 70, 2, 0, 16, 16, 0}, precision, Style::normal, 3, {}})};
}

/// The purpose of the interval: half as much again, or a third less, is seen.
TEST(Calibration, sees_a_sigma_that_is_not_the_kernels) {
  for (const std::string_view name : {"value_averaging", "softmax_attention", "deltanet"}) {
    const Calibrated trial = trial_of(name, Format::bf16);
    const Expectation expectation =
        expect(oracle_of(trial.room, trial.problem), {&trial.form, Format::bf16, 0, 1}, trial.problem, 12);
    const auto rms_with = [&](double factor) {
      Gauge g;
      for (std::size_t t = 0; t < expectation.tensors.size(); ++t) {
        Expected e = expectation.tensors[t].second;
        for (double& sigma : e.sigma) sigma *= factor;
        g.add(e, expectation.emulated[t].second);
      }
      return g.rms();
    };
    EXPECT_LT(rms_with(1.5), 0.7) << name;
    EXPECT_GT(rms_with(0.65), 1.3) << name;
  }
}

/// A contract that knows less than what the kernel rounds.
TEST(Calibration, sees_a_site_that_the_contract_leaves_out) {
  const Calibrated trial = trial_of("softmax_attention", Format::bf16);
  std::vector<HealthyVariant> variants = healthy_variants("softmax_attention", trial.form, Format::bf16);
  const auto wide = std::find_if(variants.begin(), variants.end(), [](const auto& v) { return v.name == "P wide"; });
  ASSERT_NE(wide, variants.end());
  const HealthyVariant rounds_p = {"P not in the contract", variants.front().kernel, wide->standard};
  const Gauge seen = gauge(trial.room, {rounds_p}, trial.problem).front();
  EXPECT_GT(seen.rms(), 1.3);
}

TEST(HealthyVariants, are_eight_or_more_of_every_form_and_have_names_of_their_own) {
  for (const KernelRoom* kernels : kernel_rooms())
    for (const KernelForm& form : kernels->forms)
      for (const Format precision : all_formats) {
        if (precision == Format::exact) continue;
        const auto variants = healthy_variants(kernels->name, form, precision);
        std::set<std::string> names;
        for (const HealthyVariant& v : variants) names.insert(v.name);
        EXPECT_EQ(names.size(), variants.size());
        EXPECT_GE(variants.size(), 8U) << kernels->name << ' ' << form.name << ' ' << name_of(precision);
        const std::vector<std::string> all = variant_names(kernels->name, form);
        for (const std::string& name : names) EXPECT_EQ(std::count(all.begin(), all.end(), name), 1) << name;
      }
}

/// Without rounding, the reference in double; the other softmax has the same mathematics.
TEST(SequentialForms, answer_what_the_oracle_does) {
  for (const KernelRoom* kernels : kernel_rooms())
    for (const KernelForm* form : {sequential_form(kernels->name), product_sum_form(kernels->name)}) {
      if (form == nullptr) continue;
      const Calibrated trial = trial_of(kernels->name, Format::bf16);
      const Arrays answer = flat(form->run(trial.problem, Policy::exact(form->sites), 0));
      for (const auto& [name, tensor] : oracle_of(trial.room, trial.problem).tensors) {
        const Array& got = answer.at(name);
        double largest = 0, off = 0;
        for (std::size_t i = 0; i < got.data.size(); ++i) {
          largest = std::max(largest, std::fabs(tensor.value[i].hi));
          off = std::max(off, std::fabs(got.data[i] - tensor.value[i].hi));
        }
        EXPECT_LE(off, 0x1p-24 * largest) << kernels->name << ' ' << form->name << ' ' << name;
      }
    }
  EXPECT_EQ(sequential_form("rls"), nullptr);
}

}  // namespace
}  // namespace assay
