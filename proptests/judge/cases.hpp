#pragma once
// Cases of tests, what is expected of a room's first form there, and the verdict on each tensor of an answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "judge/sigma/expected.hpp"
#include "judge/verdict/judge.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

inline const KernelForm& first_form(std::string_view room) { return find_kernels(kernel_rooms(), room)->forms.front(); }

inline Problem drawn(const CaseSpec& spec) { return listed_room(spec.mechanism).make(spec); }
/// Without cotangents.
inline Problem drawn_forward(const CaseSpec& spec) {
  Problem problem = drawn(spec);
  problem.cotangents.clear();
  return problem;
}

/// As that form takes it: with heads of their own where the room groups none, with three queries for a split decode,
/// and without cotangents for a form that has no gradients.
inline Problem drawn_for(const KernelForm& form, CaseSpec spec) {
  if (!groups_heads(listed_room(spec.mechanism).inputs())) spec.shape.shared_heads = 0;
  if (form.name == "split_decode") spec.shape.query_len = 3;
  return form.has_gradients ? drawn(spec) : drawn_forward(spec);
}

inline Expectation expected_on(const Problem& problem, const KernelUnderTest& kernel, int words = 2) {
  return expect(oracle_of(listed_room(problem.mechanism), problem, words), kernel, problem, default_draws);
}
/// Of the first form in its first tile shape, by the oracle in as many words as `assay report` takes at most.
inline Expectation expected_on(const CaseSpec& spec) {
  return expected_on(drawn(spec), {&first_form(spec.mechanism), spec.precision, 0, 1}, 4);
}
/// Of a kernel in fp64 whose runs are given, of a truth that no reference knows.
inline Expectation expected_of_runs(const Shape& shape, const Oracle& oracle, const KernelRuns& runs) {
  Problem problem = drawn({"value_averaging", shape, Format::fp64, Style::normal, 0, {}});
  problem.mechanism = "numbers that no reference knows";
  return expect(oracle, {&first_form("value_averaging"), Format::fp64, 0, 1}, problem, runs);
}

/// A tensor of an answer with what is expected of it, and the judgement.
struct JudgedTensor {
  const std::string& name;
  const Expected& expected;
  std::vector<double> got;
  Judgement judgement;
};
/// All of them, while `expectation` lives.
inline std::vector<JudgedTensor> judged_tensors(const Expectation& expectation, const Named<std::vector<double>>& got) {
  std::vector<JudgedTensor> all;
  for (std::size_t t = 0; t < got.size(); ++t) {
    const auto& [name, expected] = expectation.tensors[t];
    all.push_back({name, expected, got[t].second, judge(expected, got[t].second)});
  }
  return all;
}
inline std::vector<JudgedTensor> judged_tensors(const Expectation& expectation, const Answer& answer) {
  return judged_tensors(expectation, in_report_order(answer, expectation));
}
/// That of the contract's own rounding.
inline std::vector<JudgedTensor> judged_tensors(const Expectation& expectation) {
  return judged_tensors(expectation, expectation.emulated);
}

/// Expects that no tensor fails, and says how many there are.
inline int expect_no_alarm(const std::vector<JudgedTensor>& tensors, const std::string& where) {
  for (const auto& [name, expected, got, j] : tensors)
    EXPECT_NE(j.verdict, Verdict::fail) << where << ": " << name << ": " << j.reason;
  return static_cast<int>(tensors.size());
}
/// How many tensors fail.
inline int failures(const std::vector<JudgedTensor>& tensors) {
  return static_cast<int>(
      std::ranges::count_if(tensors, [](const JudgedTensor& t) { return t.judgement.verdict == Verdict::fail; }));
}

}  // namespace assay
