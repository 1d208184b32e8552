#include "proptests/core/mutants.hpp"

#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "judge/trial/fault_trials.hpp"

namespace assay::laws {
namespace {

/// A case, the healthy kernel's answer to it and what is expected of that: both computed when they are first asked for.
struct Trial : FaultTrial {
  explicit Trial(FaultTrial trial) : FaultTrial(std::move(trial)) {}
  std::optional<Expectation> expectation = {};
  std::optional<Arrays> answer = {};

  const Arrays& answer_of(const Subject& healthy) {
    if (!answer) answer = flat(healthy.form.run(problem, Policy::of(healthy.form.sites, spec.precision), tile));
    return *answer;
  }
  const Expectation& expected_of(const Subject& healthy) {
    if (!expectation)
      expectation =
          expect(oracle_of(healthy.room, problem), {&healthy.form, spec.precision, tile, 1}, problem, default_draws);
    return *expectation;
  }
};

/// Those of `assay-lab mutants`, made once for a form; of `mdn:log_domain` with its two decays exchanged.
std::vector<Trial>& trials(const Subject& s) {
  static std::map<const KernelForm*, std::vector<Trial>> all;
  std::vector<Trial>& list = all[&s.form];
  if (list.empty())
    for (FaultTrial& trial : fault_trials(s.room, s.form, fault_styles, fault_precisions_of(s.form), fault_seed)) {
      Arrays& inputs = trial.problem.inputs;
      // Without a fault this form is right only where momenta decay no faster than states.
      if (s.form.name == "log_domain") std::swap(inputs.at("log_alpha"), inputs.at("log_mu"));
      list.emplace_back(std::move(trial));
    }
  return list;
}

}  // namespace

std::vector<PlantedFault> planted_faults(std::string_view room) {
  std::vector<PlantedFault> list;
  for (const KernelForm& form : find_kernels(kernel_rooms(), room)->forms)
    for (const Mutant& m : form.mutants)
      list.push_back({std::string(room), std::string(form.name), std::string(m.name)});
  return list;
}

std::string unmatched_faults(std::string_view room) {
  std::string unmatched;
  for (const KernelForm& form : find_kernels(kernel_rooms(), room)->forms) {
    if (!form.unstable.empty()) continue;  // it shares programs that its room's healthy forms answer for
    std::set<std::string, std::less<>> asked, listed;
    for (const Mutant& m : form.mutants) listed.emplace(m.name);
    for (const Trial& trial : trials(subject(kernel_rooms(), room, form.name))) {
      Policy policy = Policy::of(form.sites, trial.spec.precision);
      policy.asked = &asked;
      form.run(trial.problem, policy, trial.tile);
    }
    std::vector<std::string> apart;
    std::set_symmetric_difference(asked.begin(), asked.end(), listed.begin(), listed.end(), std::back_inserter(apart));
    for (const std::string& name : apart) unmatched += text(form.name, ':', name, ' ');
  }
  return unmatched;
}

std::string conviction(const PlantedFault& fault) {
  const Subject healthy = subject(kernel_rooms(), fault.room, fault.form);
  for (Trial& trial : trials(healthy)) {
    Policy policy = Policy::of(healthy.form.sites, trial.spec.precision);
    policy.fault = fault.mutant;
    const Arrays got = flat(healthy.form.run(trial.problem, policy, trial.tile));
    const Arrays& right = trial.answer_of(healthy);
    if (got == right) continue;  // no bit shows it here
    for (const auto& [name, expected] : trial.expected_of(healthy).tensors) {
      // An error that an unstable form makes by itself is no evidence against a mutant.
      if (!healthy.form.unstable.empty() && judge(expected, right.at(name).data).verdict == Verdict::fail) continue;
      const Judgement j = judge(expected, got.at(name).data);
      if (j.verdict == Verdict::fail) return trial.spec.repro() + ": " + name + ": " + j.reason;
    }
  }
  return "";
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Mutants);  // programs without rooms have this unit, too
TEST_P(Mutants, is_killed) { EXPECT_NE(conviction(GetParam()), ""); }

}  // namespace assay::laws
