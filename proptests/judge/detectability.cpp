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

}  // namespace
}  // namespace assay
