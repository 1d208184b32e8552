// Errors before and after: noise is let go at the stated rate, and what has become worse is found. The verb is in
// proptests/transcripts/baseline.md and plugin.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "judge/sigma/expected.hpp"
#include "kernels/core/kernel_room.hpp"
#include "tools/baseline/baseline_change.hpp"

namespace assay {
namespace {

/// Errors of o and the gradients from six seeds, with one site of the contract in another format.
std::vector<BaselineRow> rows_with(std::string_view site, Format format) {
  const Room& room = listed_room("deltanet");
  const KernelForm& form = find_kernels(kernel_rooms(), "deltanet")->forms.front();
  std::vector<BaselineRow> rows;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Problem problem =
        room.make({"deltanet", {1, 100, 2, 1, 16, 16, 0}, Format::bf16, Style::long_memory, seed, {}});
    Policy policy = Policy::of(form.sites, Format::bf16);
    if (!site.empty()) policy.sites = policy.sites.with(site, format);
    const Answer got = form.run(problem, policy, 2);
    for (const auto& [name, truth] : oracle_of(room, problem).tensors) {
      const Array& array = name.starts_with("d_") ? got.gradients.at(name.substr(2)) : got.outputs.at(name);
      double errors = 0, values = 0;
      for (std::size_t i = 0; i < array.data.size(); ++i) {
        const double x = array.data[i] - truth.value[i].hi;
        errors += x * x, values += truth.value[i].hi * truth.value[i].hi;
      }
      auto row = std::find_if(rows.begin(), rows.end(), [&n = name](const BaselineRow& r) { return r.tensor == n; });
      if (row == rows.end()) row = rows.insert(rows.end(), {"cpu", "deltanet", "chunkwise", "bf16", "", name});
      row->relative_error.push_back(std::sqrt(errors / values));
    }
  }
  return rows;
}

/// A looser policy is found, a change of nothing but rounding is not: the store rounds all that fp32 and tf32 differ
/// in.
TEST(BaselineRows, finds_a_state_in_bf16) {
  const std::vector<BaselineRow> before = rows_with("", Format::exact);
  for (const Comparison& c : compare_rows(before, rows_with("QK", Format::fp64)))
    EXPECT_TRUE(c.change == Change::noise || c.change == Change::same) << c.row.tensor << ' ' << c.growth;
  // o reads the state in bf16 in any case.
  for (const Comparison& c : compare_rows(before, rows_with("S", Format::bf16))) {
    if (c.row.tensor == "final_state") {
      EXPECT_EQ(c.change, Change::worse) << c.growth << ' ' << c.noise;
    }
  }
}

BaselineRow row_of(std::string tensor, std::vector<double> errors) {
  BaselineRow row{"cpu", "m", "f", "bf16", "", std::move(tensor)};
  row.relative_error = std::move(errors), row.verdicts.assign(row.relative_error.size(), "PASS");
  return row;
}

/// No more than the stated part of pairs of sets from one law is worse; numbers twice as far off always are.
TEST(BaselineRows, keep_their_false_alarm_rate) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  const auto draw = [&](int elements, double scale) {
    std::vector<double> errors;
    for (int seed = 0; seed < 8; ++seed) {
      double squares = 0;
      for (int i = 0; i < elements; ++i) squares += std::pow(normal(random), 2);
      errors.push_back(scale * std::sqrt(squares / elements));
    }
    return errors;
  };
  constexpr double rate = 0.02;
  constexpr int trials = 4000;
  for (const int elements : {1, 3, 100}) {
    int alarms = 0, found = 0;
    for (int k = 0; k < trials; ++k) {
      const BaselineRow a = row_of("x", draw(elements, 1)), b = row_of("x", draw(elements, 1)),
                        c = row_of("x", draw(elements, 2));
      alarms += compare_rows({a}, {b}, rate)[0].change == Change::worse ? 1 : 0;
      found += compare_rows({a}, {c}, rate)[0].change == Change::worse ? 1 : 0;
    }
    EXPECT_LE(alarms, rate * trials + 4 * std::sqrt(rate * trials)) << elements;
    EXPECT_GT(alarms, elements == 100 ? 0.5 * rate * trials : 0) << elements;
    if (elements == 100) {
      EXPECT_EQ(found, trials);
    }
  }
}

TEST(BaselineRows, know_what_is_exact_and_what_is_no_number) {
  const auto change = [](std::vector<double> a, std::vector<double> b) {
    return compare_rows({row_of("x", std::move(a))}, {row_of("x", std::move(b))})[0].change;
  };
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(change({0, 0, 0}, {0, 0, 0}), Change::same);
  EXPECT_EQ(change({0, 0, 0}, {0, 1e-9, 0}), Change::worse);
  EXPECT_EQ(change({1e-9, 1e-9, 2e-9}, {0, 0, 0}), Change::better);
  EXPECT_EQ(change({1e-9, 0, 2e-9}, {1e-9, 3e-9, 0}), Change::noise);
  EXPECT_EQ(change({1e-9, 1e-9, 2e-9}, {1e-9, nan, 1e-9}), Change::worse);
  EXPECT_EQ(change({1e-9, 1e-9, 2e-9}, {1e-9, infinite, 1e-9}), Change::worse);
  EXPECT_EQ(change({1e-9, nan, 2e-9}, {1e-9, 1e-9, 1e-9}), Change::better);
  EXPECT_EQ(change({infinite, 1e-9, 2e-9}, {0, 0, 0}), Change::better);
  // A row that passed and fails is worse, however small the error.
  BaselineRow failing = row_of("x", {1e-9, 1e-9, 2e-9});
  failing.verdicts[1] = "FAIL";
  const Comparison c = compare_rows({row_of("x", {1e-9, 1e-9, 2e-9})}, {failing})[0];
  EXPECT_EQ(c.change, Change::worse);
  EXPECT_EQ(c.why, "was never FAIL, and is");
}

}  // namespace
}  // namespace assay
