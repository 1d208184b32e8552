// The style predicted_values: what rounds a state's read before it is taken from the values fails there, and passes on
// others.
#include <gtest/gtest.h>

#include <algorithm>

#include "judge/sigma/expected.hpp"
#include "judge/trial/fault_trials.hpp"
#include "kernels/core/policy.hpp"
#include "oracles/core/oracle.hpp"

namespace assay {
namespace {

/// How many tensors of the first form of a room fail by a contract that names every rounding if the state's read is
/// rounded to that format before it is taken from the values (attention-gym#465).
long rejected(const char* mechanism, Style style, Format read) {
  const CaseSpec spec{mechanism, {1, 40, 2, 0, 32, 16, 0}, Format::bf16, style, 3, {}};
  const Room& room = listed_room(spec.mechanism);
  const KernelForm& form = find_kernels(kernel_rooms(), spec.mechanism)->forms.front();
  Problem problem = room.make(spec);
  problem.cotangents.clear();
  Policy policy = Policy::of(form.sites, spec.precision);
  policy.sites = policy.sites.with("W", read);
  const Arrays got = flat(form.run(problem, policy, 0));
  const Expectation expected = expect(oracle_of(room, problem), {&form, spec.precision, 0, 1}, problem, default_draws);
  return std::count_if(expected.tensors.begin(), expected.tensors.end(), [&](const auto& tensor) {
    return judge(tensor.second, got.at(tensor.first).data).verdict == Verdict::fail;
  });
}

TEST(PredictedValues, show_a_read_that_is_rounded_before_it_is_subtracted) {
  for (const char* mechanism : {"deltanet", "gated_deltanet"}) {
    EXPECT_EQ(rejected(mechanism, Style::predicted_values, Format::fp32), 0) << mechanism;
    EXPECT_GT(rejected(mechanism, Style::predicted_values, Format::bf16), 0) << mechanism;
    EXPECT_EQ(rejected(mechanism, Style::normal, Format::bf16), 0) << mechanism;
  }
}

}  // namespace
}  // namespace assay
