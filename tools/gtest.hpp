#pragma once
// For tests of kernels with GoogleTest (docs/check.md):
//
//   EXPECT_VERDICT(pass, assay::judge("case.safetensors", {{"o", assay::tensor({1, 100, 2, 32}, o)}}));
//
// A test that fails says which tensor is wrong, where, and by which command that can be seen again.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "judge/court/judge_answer.hpp"
#include "tools/print/explain.hpp"
#include "tools/run/child.hpp"

namespace assay {

/// A folder for the files of one failure of the test that runs, in one that is this process's alone. Throws
/// InputError if there can be none.
inline std::filesystem::path failure_folder() {
  static int failures = 0;
  static const std::filesystem::path own = make_private_folder(testing::TempDir());
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = test == nullptr ? "no_test" : std::string(test->test_suite_name()) + '.' + test->name();
  for (char& c : name) c = c == '/' ? '.' : c;
  return own / (name + '.' + std::to_string(failures++));
}

/// The failure of `expression`, which the macros put in brackets: the verdict that it came to instead.
inline testing::AssertionResult other_verdict(std::string expression, Verdict got, Verdict expected) {
  if (expression.starts_with('(') && expression.ends_with(')'))
    expression = expression.substr(1, expression.size() - 2);
  return testing::AssertionFailure() << expression << " is " << name_of(got) << ", not " << name_of(expected) << '\n';
}

inline testing::AssertionResult verdict_is(const char*, const char* expression, Verdict expected,
                                           const Judged& judged) {
  if (judged.verdict == expected) return testing::AssertionSuccess();
  return other_verdict(expression, judged.verdict, expected) << explain(judged, failure_folder);
}

/// Whether one tensor, judged by an expectation, has the expected verdict.
inline testing::AssertionResult verdict_is(const char*, const char* expression, Verdict expected,
                                           const Judgement& judgement) {
  if (judgement.verdict == expected) return testing::AssertionSuccess();
  return other_verdict(expression, judgement.verdict, expected) << judgement.reason;
}

}  // namespace assay

#define EXPECT_VERDICT(expected, ...) \
  EXPECT_PRED_FORMAT2(::assay::verdict_is, ::assay::Verdict::expected, (__VA_ARGS__))
#define ASSERT_VERDICT(expected, ...) \
  ASSERT_PRED_FORMAT2(::assay::verdict_is, ::assay::Verdict::expected, (__VA_ARGS__))
