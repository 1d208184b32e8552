#include "proptests/core/mutants.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

namespace assay::laws {
namespace {

/// A case, and what is expected of the healthy kernel on it: computed when it is first asked for.
struct Trial {
  CaseSpec spec;
  int tile;
  Problem problem;
  std::optional<Expectation> expectation = {};

  const Expectation& expected_of(const Subject& healthy) {
    if (!expectation)
      expectation = expect(oracle_of(healthy.room, problem), {&healthy.form, spec.precision, tile, 1}, problem,
                           default_draws(spec.precision));
    return *expectation;
  }
};

/// Long enough for several tiles and a ragged end, several groups of heads, each setting of the room; fp32 shows what
/// is lost to a narrower format, bf16 what a user runs. Settings change fastest: most faults show in all styles, some
/// in one setting. Made once for a form.
std::vector<Trial>& trials(const Subject& s) {
  static std::map<const KernelForm*, std::vector<Trial>> all;
  std::vector<Trial>& list = all[&s.form];
  if (!list.empty()) return list;
  const int smallest = static_cast<int>(s.form.tiles.size()) - 1;
  const Shape shape = s.form.iterative ? Shape{1, 43, 4, 2, 8, 6, 0} : Shape{1, 43, 4, 2, 16, 12, 0};
  for (const Style style : {Style::normal, Style::rising_scores, Style::long_memory})
    for (const Format precision : {Format::fp32, Format::bf16})
      for (const Params& params : s.room.variants()) {
        CaseSpec spec{std::string(s.room.name), shape, precision, style, 11, params};
        if (!groups_heads(s.room.inputs())) spec.shape.shared_heads = 0;
        if (s.form.name == "split_decode") spec.shape.query_len = 3;
        Problem problem = s.room.make(spec);
        if (!s.form.obstacle(problem).empty()) continue;
        list.push_back({spec, smallest, std::move(problem)});
      }
  return list;
}

}  // namespace

std::vector<PlantedFault> planted_faults(std::string_view room) {
  std::vector<PlantedFault> list;
  for (const KernelForm& form : find_kernels(mutant_rooms(), room)->forms)
    for (const Mutant& m : form.mutants)
      list.push_back({std::string(room), std::string(form.name), std::string(m.name)});
  return list;
}

std::string unmatched_faults(std::string_view room) {
  std::string unmatched;
  for (const KernelForm& form : find_kernels(mutant_rooms(), room)->forms) {
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
  const Subject planted = subject(mutant_rooms(), fault.room, fault.form);
  for (Trial& trial : trials(healthy)) {
    Policy policy = Policy::of(planted.form.sites, trial.spec.precision);
    policy.fault = fault.mutant;
    const Arrays got = flat(planted.form.run(trial.problem, policy, trial.tile));
    if (got == flat(healthy.form.run(trial.problem, policy, trial.tile))) continue;  // no bit shows it here
    for (const auto& [name, expected] : trial.expected_of(healthy).tensors) {
      const Judgement j = judge(expected, got.at(name).data);
      if (j.verdict == Verdict::fail) return trial.spec.repro() + ": " + name + ": " + j.reason;
    }
  }
  return "";
}

}  // namespace assay::laws
