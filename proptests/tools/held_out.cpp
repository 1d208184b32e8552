// The held-out mutants: each changes a bit of its kernel's answers, and the calls that they are made of are healthy
// where nothing is planted in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "judge/held_out/faults.hpp"
#include "judge/held_out/rooms.hpp"
#include "judge/trial/fault_trials.hpp"
#include "proptests/laws/laws.hpp"

namespace assay {
namespace {

struct HeldOutForm {
  const KernelRoom* room;
  const KernelForm* form;
  friend std::ostream& operator<<(std::ostream& os, const HeldOutForm& f) {
    return os << f.room->name << ":" << f.form->name;
  }
};

std::vector<HeldOutForm> forms() {
  std::vector<HeldOutForm> list;
  for (const KernelRoom* room : held_out_rooms())
    for (const KernelForm& form : room->forms) list.push_back({room, &form});
  return list;
}

Policy policy_of(const KernelForm& form, Format precision, std::string_view fault) {
  Policy policy = Policy::of(form.sites, precision);
  policy.fault = fault;
  return policy;
}

class HeldOutMutants : public testing::TestWithParam<HeldOutForm> {};

TEST_P(HeldOutMutants, show_a_bit) {
  const auto& [room, form] = GetParam();
  const laws::Subject healthy = laws::subject(kernel_rooms(), room->name, form->name);
  std::set<std::string_view> silent;
  for (const Mutant& mutant : form->mutants) silent.insert(mutant.name);
  for (const FaultTrial& trial : fault_trials(healthy.room, healthy.form, fault_styles, fault_precisions, fault_seed)) {
    if (silent.empty()) break;
    const auto answer = [&, form = form](std::string_view fault) {
      return flat(form->run(trial.problem, policy_of(*form, trial.spec.precision, fault), trial.tile));
    };
    const Arrays right = answer("");
    EXPECT_EQ(right, flat(healthy.form.run(trial.problem, policy_of(*form, trial.spec.precision, ""), trial.tile)));
    std::erase_if(silent, [&](std::string_view fault) {
      const Arrays wrong = answer(fault);
      EXPECT_TRUE(std::equal(
          wrong.begin(), wrong.end(), right.begin(), right.end(),
          [](const auto& a, const auto& b) { return a.first == b.first && a.second.shape == b.second.shape; }))
          << fault << " answers other tensors";
      return wrong != right;
    });
  }
  std::ostringstream names;
  for (const std::string_view name : silent) names << name << ' ';
  EXPECT_EQ(names.str(), "");
}

INSTANTIATE_TEST_SUITE_P(all, HeldOutMutants, testing::ValuesIn(forms()), [](const auto& form) {
  return std::string(form.param.room->name) + "_" + std::string(form.param.form->name);
});

/// Two calls without a fault are one kernel: what a fault at the seam shows is the fault's. A seam in the middle of a
/// tile is the harder one.
TEST(HeldOut, sequences_in_two_calls_are_healthy) {
  int continued = 0;
  constexpr Style styles[] = {Style::normal};
  constexpr Format precisions[] = {Format::fp64};
  for (const auto& [room, form] : forms()) {
    const laws::Subject s = laws::subject(kernel_rooms(), room->name, form->name);
    if (!s.form.has_gradients) continue;
    for (const FaultTrial& trial : fault_trials(s.room, s.form, styles, precisions, fault_seed, exact_length)) {
      const Policy policy = policy_of(s.form, Format::fp64, "");
      const held_out::Call call{s.room, s.form, trial.problem, policy, trial.tile};
      if (!trial.problem.inputs.contains("initial_state") || !held_out::continues(call)) continue;
      const Arrays allowed = laws::allowance(s, trial.problem, Format::fp64, trial.tile);
      SCOPED_TRACE(trial.spec.repro());
      laws::expect_within(flat(held_out::in_two_calls(call, {})), flat(call.healthy()), allowed, 2);
      ++continued;
    }
  }
  EXPECT_GE(continued, 30);
}

/// One head of a few tokens and channels, or of one: what a fault needs and does not find shows nothing.
TEST(HeldOut, faults_stay_within_small_problems) {
  const Shape shapes[] = {{1, 1, 1, 1, 1, 1, 0}, {1, 5, 1, 1, 2, 3, 0}, {1, 17, 1, 1, 3, 1, 0}};
  int unchanged = 0, changed = 0;
  for (const auto& [room, form] : forms())
    for (Shape shape : shapes) {
      const Room& found = listed_room(room->name);
      if (!groups_heads(found.inputs())) shape.shared_heads = 0;
      if (form->name == "split_decode") shape.query_len = 1;
      const Problem p = found.make({std::string(room->name), shape, Format::fp32, Style::normal, 3, {}});
      if (!form->obstacle(p).empty()) continue;
      const Arrays healthy = flat(form->run(p, policy_of(*form, Format::fp32, ""), 0));
      for (const Mutant& mutant : form->mutants) {
        const Arrays wrong = flat(form->run(p, policy_of(*form, Format::fp32, mutant.name), 0));
        ASSERT_EQ(wrong.size(), healthy.size()) << room->name << ' ' << mutant.name;
        for (const auto& [tensor, array] : healthy)
          EXPECT_EQ(wrong.at(tensor).shape, array.shape) << room->name << ' ' << mutant.name << ' ' << tensor;
        (wrong == healthy ? unchanged : changed) += 1;
        const std::string_view name = mutant.name;
        const bool has_nothing = name == "rows_exchanged" || (name == "row_of_tile_before" && shape.seq_len < 17);
        EXPECT_TRUE(!has_nothing || wrong == healthy) << room->name << ' ' << name << ' ' << shape.seq_len;
      }
    }
  EXPECT_GT(unchanged, 100);
  EXPECT_GT(changed, 100);
}

/// Every kernel that a fault names is there, once, and no planted mutant has the fault's name.
TEST(HeldOut, faults_name_kernels) {
  std::set<std::tuple<std::string, std::string, std::string>> listed, there;
  for (const auto& [room, form] : forms())
    for (const Mutant& mutant : form->mutants) {
      EXPECT_TRUE(there.emplace(room->name, form->name, mutant.name).second) << mutant.name;
      for (const KernelForm& planted : find_kernels(kernel_rooms(), room->name)->forms)
        for (const Mutant& other : planted.mutants)
          EXPECT_FALSE(planted.name == form->name && other.name == mutant.name) << room->name << mutant.name;
    }
  std::set<std::string_view> names;
  for (const std::span<const held_out::Fault> faults :
       {held_out::input_faults(), held_out::option_faults(), held_out::sequence_faults(), held_out::output_faults(),
        held_out::gradient_faults()})
    for (const held_out::Fault& fault : faults) {
      EXPECT_TRUE(names.insert(fault.mutant.name).second) << fault.mutant.name << " is there twice";
      EXPECT_FALSE(fault.mutant.what.empty() || fault.mutant.seen.empty()) << fault.mutant.name;
      std::istringstream words{std::string(fault.kernels)};
      for (std::string word; words >> word;) {
        const std::string room = word.substr(0, word.find(':'));
        const KernelRoom* kernels = find_kernels(kernel_rooms(), room);
        ASSERT_NE(kernels, nullptr) << fault.mutant.name << ": " << room;
        const std::string form(word == room ? std::string(kernels->forms[0].name) : word.substr(room.size() + 1));
        EXPECT_TRUE(listed.emplace(room, form, fault.mutant.name).second) << fault.mutant.name << ": " << word;
      }
    }
  EXPECT_EQ(listed, there);
}

/// A third of all mutants at least.
TEST(HeldOut, are_a_third_of_all_mutants) {
  std::size_t held_out = 0, planted = 0;
  for (const auto& [room, form] : forms()) held_out += form->mutants.size();
  for (const KernelRoom* room : kernel_rooms())
    for (const KernelForm& form : room->forms) planted += form.unstable.empty() ? form.mutants.size() : 0;
  EXPECT_GE(3 * held_out, planted + held_out);
}

}  // namespace
}  // namespace assay
