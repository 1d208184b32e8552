// Faults that problems would show: masks and narrow states are told where they fail, and not where nothing would.
#include "judge/verdict/detectability.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "judge/trial/fault_trials.hpp"
#include "proptests/judge/cases.hpp"

namespace assay {
namespace {

/// The first form of a room in its smallest tile, forward, of which o alone is judged.
struct JudgedForm {
  KernelUnderTest kernel;
  Problem problem;
  Expectation o;

  explicit JudgedForm(const CaseSpec& spec, void (*change)(Problem&) = nullptr)
      : kernel{&first_form(spec.mechanism), spec.precision, smallest_tile(first_form(spec.mechanism)), 1},
        problem(drawn_forward(spec)) {
    if (change != nullptr) change(problem);
    o = expected_on(problem, kernel);
    std::erase_if(o.tensors, [](const auto& tensor) { return tensor.first != "o"; });
  }
};
Detectability of(const CaseSpec& spec, void (*change)(Problem&) = nullptr) {
  const JudgedForm judged(spec, change);
  return detectability_of(listed_room(spec.mechanism), judged.kernel, judged.problem, {&judged.o, 1});
}

CaseSpec spec_of(const char* mechanism, Style style, int tokens = 60) {
  return {mechanism, {1, tokens, 2, 0, 16, 16, 0}, Format::bf16, style, 3, {}};
}

TEST(Detectability, a_mask_off_by_one_key_shows_in_nearly_every_row) {
  for (const char* mechanism :
       {"softmax_attention", "parallax", "deltanet", "gated_deltanet", "affine_linear_attention"}) {
    const Detectability d = of(spec_of(mechanism, Style::normal));
    ASSERT_TRUE(d.short_mask && d.long_mask) << mechanism;
    for (const MaskFault& mask : {*d.short_mask, *d.long_mask}) {
      EXPECT_EQ(mask.keys, 1) << mechanism;
      EXPECT_EQ(mask.tested, 2 * 59) << mechanism;
      EXPECT_GE(mask.rows, 100) << mechanism;
    }
  }
}

/// Every query reads the first key alone, but for one that reads all that it sees alike.
template <int attentive>
void distract(Problem& problem) {
  Array &q = problem.inputs.at("q"), &k = problem.inputs.at("k");
  for (std::size_t i = 0; i < q.data.size(); ++i) {
    const int token = static_cast<int>(i) / q.shape[2] % q.shape[1];
    q.data[i] = token == attentive ? 0 : 8, k.data[i] = token == 0 ? 8 : 0;
  }
}

/// The last query has a key to lose and none to gain, the first one the other way round.
TEST(Detectability, tells_a_short_mask_from_a_long_one) {
  const CaseSpec spec = spec_of("softmax_attention", Style::normal, 3);
  const Detectability last = of(spec, distract<2>), first = of(spec, distract<0>);
  ASSERT_TRUE(last.short_mask && first.long_mask);
  EXPECT_EQ(last.short_mask->tested, 2);  // a row of each head
  EXPECT_EQ(first.long_mask->tested, 2);
  EXPECT_FALSE(last.long_mask || first.short_mask);
}

/// All values are alike, and so is o, whatever a query sees.
TEST(Detectability, values_that_are_alike_hide_every_mask) {
  const Detectability d = of(spec_of("softmax_attention", Style::normal), [](Problem& problem) {
    for (double& v : problem.inputs.at("v").data) v = 1;
  });
  if (d.short_mask) {
    EXPECT_EQ(d.short_mask->keys, 0);
    EXPECT_EQ(d.short_mask->rows, 0);
    EXPECT_TRUE(d.sentence().starts_with("no short mask, no long mask; ")) << d.sentence();
  }
}

TEST(Detectability, without_a_mask_there_is_none_to_show) {
  for (const char* mechanism : {"softmax_attention", "deltanet"})  // one query
    EXPECT_TRUE(of(spec_of(mechanism, Style::normal, 1)).sentence().starts_with("no mask; ")) << mechanism;
  CaseSpec spec = spec_of("softmax_attention", Style::normal);
  spec.params["causal"] = false;
  const Detectability d = of(spec);
  EXPECT_FALSE(d.short_mask || d.long_mask);
  EXPECT_EQ(d.group, "accumulators");
  EXPECT_TRUE(d.sentence().starts_with("no mask; accumulators in ")) << d.sentence();
}

/// With a dead memory o reads nothing that was carried.
TEST(Detectability, the_state_is_judged_by_what_is_read_of_it) {
  const Detectability long_memory = of(spec_of("mamba2", Style::long_memory, 200)),
                      dead = of(spec_of("mamba2", Style::dead_memory, 200));
  EXPECT_EQ(long_memory.group, "state");
  ASSERT_TRUE(long_memory.shown.has_value());
  EXPECT_LE(unit_roundoff(*long_memory.shown), unit_roundoff(Format::bf16)) << long_memory.sentence();
  EXPECT_FALSE(dead.shown.has_value()) << dead.sentence();
  EXPECT_TRUE(dead.sentence().ends_with("; no narrower state")) << dead.sentence();
}

/// A format told as shown fails, and formats told as hidden pass: the same kernel under the narrower contract.
TEST(Detectability, formats_are_those_at_which_the_verdict_turns) {
  const CaseSpec spec = spec_of("gla", Style::long_memory, 120);
  const Detectability d = of(spec);
  const JudgedForm judged(spec);
  const auto fails = [&](Format state) {
    Contract contract = Contract::of(spec.precision);
    contract.rules.push_back({"state", state});
    const Policy policy =
        KernelUnderTest{judged.kernel.form, spec.precision, judged.kernel.tile, 1, &contract}.policy();
    return failures(judged_tensors(judged.o, judged.kernel.form->run(judged.problem, policy, judged.kernel.tile))) > 0;
  };
  ASSERT_TRUE(d.shown.has_value());
  EXPECT_TRUE(fails(*d.shown));
  for (const Format format : d.hidden) EXPECT_FALSE(fails(format)) << name_of(format);
}

/// Changes of inputs in a kernel that these data do not show, and others do.
TEST(Detectability, names_what_data_of_every_day_hide) {
  const auto sees = [](const Detectability& d, const char* name) {
    return std::find(d.unseen.begin(), d.unseen.end(), name) == d.unseen.end();
  };
  const Detectability usual = of(spec_of("deltanet", Style::normal));
  for (const char* name : {"beta in bf16", "k normalised inside", "state in bf16"})
    EXPECT_FALSE(sees(usual, name)) << name;
  EXPECT_FALSE(sees(of(spec_of("gated_deltanet", Style::normal)), "log_decay in bf16"));
  // The keys of linear attention have other norms than 1.
  EXPECT_TRUE(sees(of(spec_of("linear_attention", Style::normal)), "k normalised inside"));
  // Where all is rounded to fp32, nothing in bf16 hides.
  CaseSpec exact = spec_of("deltanet", Style::normal);
  exact.precision = Format::fp32;
  EXPECT_TRUE(sees(of(exact), "beta in bf16"));
  // And numbers that bf16 has hide nothing, for nothing is rounded.
  const Detectability half = of(spec_of("deltanet", Style::normal), [](Problem& problem) {
    for (double& x : problem.inputs.at("beta").data) x = 0.5;
  });
  EXPECT_TRUE(sees(half, "beta in bf16"));
}

}  // namespace
}  // namespace assay
