// The dtypes of an answer: a right answer in fewer bits passes. The words on it, and --strict-dtypes, are in
// proptests/transcripts/check.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "files/problem_file.hpp"
#include "judge/court/case_trial.hpp"
#include "judge/court/seeded_case.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/share.hpp"
#include "proptests/tools/cli.hpp"

namespace assay {
namespace {

/// The oracle's own answer, each tensor rounded once to `dtype`.
Safetensors exact_answer(const CaseTrial& trial, const std::string& dtype) {
  TensorFile to;
  for (const auto& [name, truth] : trial.oracle().tensors) {
    if (truth.value.empty()) continue;
    Array array(truth.shape);
    std::transform(truth.value.begin(), truth.value.end(), array.data.begin(), [](const HiLo& x) { return x.hi; });
    to.put(name, std::move(array), answer_field(*trial.file().room, name), trial.file().batch, dtype);
  }
  return std::move(to).finish({});
}

const auto all = [](const std::string&) { return true; };

/// The verdicts on the exact answer to a room's case of so many tokens, stored in `dtype`.
std::vector<ReportRow> verdicts(const Room& room, int tokens, const std::string& dtype, Style style = Style::normal) {
  const CaseSpec spec{.mechanism = std::string(room.name),
                      .shape = {1, tokens, 2, 0, 8, 8, 0},
                      .style = style,
                      .seed = static_cast<std::uint64_t>(tokens)};
  CaseTrial trial(arguments::draw_case(spec, "0"), {.threads = 1}, "case");
  trial.prepare();
  return trial.judge(trial.read(exact_answer(trial, dtype), {}, "answer"), all, "");
}

/// The exact answer rounded once is the best that a kernel can do that stores so few bits.
TEST(Stored, the_exact_answer_rounded_once_passes_in_every_room) {
  std::size_t tensors = 0, narrow = 0, passed = 0;
  Share share(12);
  while (share.goes_on())
    for (const KernelRoom* kernels : kernel_rooms())
      for (const int tokens : {1, 2, 3, 4, 5, 6, 7, 8, 64})
        for (const char* dtype : {"BF16", "F16"}) {
          if (!share.takes()) continue;
          for (const ReportRow& row : verdicts(listed_room(kernels->name), tokens, dtype)) {
            ++tensors, narrow += row.stored.empty() ? 0 : 1;
            passed += row.judgement.verdict == Verdict::pass ? 1 : 0;
            // Tensors that so few numbers cannot tell from zeros, or the oracle from its bound, are so in any dtype.
            EXPECT_NE(row.judgement.verdict, Verdict::fail) << kernels->name << ", T = " << tokens << ", " << dtype
                                                            << ", " << row.tensor << ": " << row.judgement.reason;
          }
        }
  EXPECT_GT(narrow, tensors / 8) << "of " << tensors;
  EXPECT_GT(passed, tensors / 2) << "of " << tensors;
}

/// Who waits hears the verdict before it is looked for what the case could have shown.
TEST(Stored, a_verdict_is_heard_first) {
  const CaseSpec spec{.mechanism = "deltanet", .shape = {1, 40, 2, 0, 8, 8, 0}};
  CaseTrial trial(arguments::draw_case(spec, "0"), {.threads = 1, .detects = true}, "case");
  trial.prepare();
  std::string last;
  trial.judge(trial.read(exact_answer(trial, "BF16"), {}, "answer"), all, "", nullptr,
              [&](std::string_view what, std::size_t, std::size_t) { last = what; });
  EXPECT_EQ(last, "every tensor passes; what the case could have shown");
}

/// Numbers that are ties, or that must be exact, or that are all the same.
TEST(Stored, so_does_that_to_odd_numbers) {
  Share share(24);
  while (share.goes_on())
    for (const KernelRoom* kernels : kernel_rooms())
      for (const Style style : {Style::dyadic, Style::integers, Style::repeated_keys, Style::long_memory})
        for (const char* dtype : {"BF16", "F16", "F8_E4M3"}) {
          if (!share.takes()) continue;
          for (const ReportRow& row : verdicts(listed_room(kernels->name), 40, dtype, style)) {
            if (row.judgement.reason.find("not a finite number") != std::string::npos) continue;  // beyond 448 or 65504
            EXPECT_NE(row.judgement.verdict, Verdict::fail) << kernels->name << ' ' << name_of(style) << ' ' << dtype
                                                            << ' ' << row.tensor << ": " << row.judgement.reason;
          }
        }
}

}  // namespace
}  // namespace assay
