// Formats that a problem would show in a kernel, and formats that it would hide: proptests/transcripts/detects.md has
// masks, inputs in bf16 and keys that are normalised.
#include "judge/verdict/detectability.hpp"

#include <gtest/gtest.h>

#include "judge/trial/fault_trials.hpp"
#include "proptests/judge/cases.hpp"

namespace assay {
namespace {

/// A format told as shown fails, and formats told as hidden pass: the same kernel under the narrower contract.
TEST(Detectability, formats_are_those_at_which_the_verdict_turns) {
  const CaseSpec spec{"gla", {1, 120, 2, 0, 16, 16, 0}, Format::bf16, Style::long_memory, 3, {}};
  const KernelForm& form = first_form(spec.mechanism);
  KernelUnderTest kernel{&form, spec.precision, smallest_tile(form), 1};
  const Problem problem = drawn_forward(spec);
  Expectation o = expected_on(problem, kernel);
  std::erase_if(o.tensors, [](const auto& tensor) { return tensor.first != "o"; });
  const Detectability d = detectability_of(listed_room(spec.mechanism), kernel, problem, {&o, 1});
  const auto fails = [&](Format state) {
    Contract contract = Contract::of(spec.precision);
    contract.rules.push_back({"state", state});
    kernel.contract = &contract;
    return failures(judged_tensors(o, form.run(problem, kernel.policy(), kernel.tile))) > 0;
  };
  ASSERT_TRUE(d.shown.has_value());
  EXPECT_TRUE(fails(*d.shown));
  for (const Format format : d.hidden) EXPECT_FALSE(fails(format)) << name_of(format);
}

/// Faults in some heads show no more than the same in all, and a case says which.
TEST(Detectability, some_heads_show_no_more_than_all) {
  for (const std::string mechanism : {"gla", "gated_deltanet"}) {
    const KernelForm& form = first_form(mechanism);
    const KernelUnderTest kernel{&form, Format::bf16, smallest_tile(form), 1};
    const Problem problem = drawn({mechanism, {1, 80, 4, 0, 16, 16, 0}, Format::bf16, Style::long_memory, 3, {}});
    const Expectation expected = expected_on(problem, kernel);
    const auto asked = [&](std::size_t most) {
      return detectability_of(listed_room(mechanism), kernel, problem, {&expected, 1}, 1, most);
    };
    const Detectability all = asked(most_numbers_with_faults), some = asked(1);
    EXPECT_EQ(std::pair(all.heads, all.all_heads), std::pair(0, 0)) << mechanism;
    EXPECT_EQ(std::pair(some.heads, some.all_heads), std::pair(1, 4)) << mechanism;
    EXPECT_EQ(some.sentence().substr(some.sentence().rfind(';')), "; in 1 of 4 heads");
    ASSERT_TRUE(all.short_mask && some.short_mask && all.shown && some.shown) << mechanism;
    EXPECT_EQ(some.short_mask->tested * 4, all.short_mask->tested) << mechanism;
    EXPECT_LE(some.short_mask->rows, all.short_mask->rows) << mechanism;
    EXPECT_GE(some.short_mask->keys, all.short_mask->keys) << mechanism;
    EXPECT_GE(unit_roundoff(*some.shown), unit_roundoff(*all.shown)) << mechanism;
    for (const std::string& name : all.unseen)
      EXPECT_TRUE(std::ranges::find(some.unseen, name) != some.unseen.end()) << mechanism << ": " << name;
  }
}

}  // namespace
}  // namespace assay
