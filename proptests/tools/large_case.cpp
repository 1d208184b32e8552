// Large cases: what fails in one part of them fails, what does not is judged as any case is, and who waits hears of it
// before all is judged.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "judge/court/case_trial.hpp"
#include "judge/court/seeded_case.hpp"
#include "proptests/laws/property.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/run/checked.hpp"

namespace assay {
namespace {

Safetensors case_of(const std::string& mechanism, const Shape& shape, std::uint64_t seed) {
  return arguments::draw_case({.mechanism = mechanism, .shape = shape, .precision = Format::bf16, .seed = seed}, "0");
}

/// The answer with one tensor an eighth too large, in one head [B, T, H, d] or, of head -1, in all.
void damage(Safetensors& answer, const std::string& name, int head) {
  StoredTensor& tensor = answer.tensors.at(name);
  Array array = load(name, tensor);
  const auto heads = static_cast<std::size_t>(array.shape[2]), row = static_cast<std::size_t>(array.shape[3]);
  for (std::size_t i = 0; i < array.data.size(); ++i)
    if (head < 0 || i / row % heads == static_cast<std::size_t>(head)) array.data[i] *= 1.125;
  tensor = store(array, tensor.dtype);
}

/// The rows of a check in which so many numbers are no large case.
std::map<std::string, ReportRow> judged(const Safetensors& problem, const Safetensors& answer, std::size_t large) {
  CaseTrial trial(problem, {.threads = 1, .detects_of_wrong = false, .large = large}, "case");
  trial.prepare();
  std::map<std::string, ReportRow> rows;
  for (const ReportRow& row : trial.judge(
           trial.read(answer, {}, "answer"), [](const std::string&) { return true; }, ""))
    rows.emplace(row.tensor, row);
  return rows;
}

/// A part says FAIL of what all of it says FAIL of; of no other tensor, and of none that is right.
TEST(LargeCase, fails_in_a_part_what_fails_in_all) {
  laws::check_property([] {
    const bool attention = *rc::gen::arbitrary<bool>();
    const Shape shape{
        .batch = 2, .seq_len = 9, .heads = 4, .shared_heads = attention ? 2 : 0, .key_dim = 8, .value_dim = 8};
    const Safetensors problem =
        case_of(attention ? "softmax_attention" : "gated_deltanet", shape, *rc::gen::inRange<std::uint64_t>(0, 1000));
    Safetensors answer = right_answer(problem);
    std::set<std::string> wrong;
    for (const std::string name : {"o", "d_q", "d_v"}) {
      if (*rc::gen::arbitrary<bool>()) continue;
      const int heads = answer.tensors.at(name).shape[2];
      damage(answer, name, *rc::gen::inRange(-1, heads)), wrong.insert(name);
    }
    const auto whole = judged(problem, answer, most_numbers_with_faults), parts = judged(problem, answer, 1);
    RC_ASSERT(whole.size() == parts.size());
    for (const auto& [name, row] : whole) {
      const ReportRow& in_part = parts.at(name);
      const bool fails = row.judgement.verdict == Verdict::fail;
      RC_ASSERT(fails == (in_part.judgement.verdict == Verdict::fail));
      RC_ASSERT(fails == wrong.contains(name));
      RC_ASSERT(fails || in_part.judgement.verdict == row.judgement.verdict);
    }
  });
}

class LongCheck : public CliFiles {
 protected:
  /// What is said on standard error of a check that takes long from the first second on.
  std::string said(const Safetensors& problem, const Safetensors& answer) {
    write_safetensors(std::filesystem::path(path("case.st")), problem);
    write_safetensors(std::filesystem::path(path("out.st")), answer);
    CheckOptions options;
    options.problem = path("case.st"), options.answer = path("out.st");
    options.standard.threads = 1, options.long_check = 0;
    std::ostringstream out, err;
    Console console{out, err, false};
    check_case(options, console);
    return err.str();
  }
};

TEST_F(LongCheck, tells_of_one_part_before_it_judges_all) {
  const Safetensors problem = case_of("linear_attention", {2, 9, 4, 0, 4, 4, 0}, 1);
  Safetensors answer = right_answer(problem);
  EXPECT_NE(said(problem, answer).find("no tensor is beyond the model's limits in head "), std::string::npos);
  damage(answer, "d_q", -1);
  const std::string wrong = said(problem, answer);
  EXPECT_NE(wrong.find(": d_q is beyond the model's limits in head "), std::string::npos) << wrong;
  EXPECT_NE(wrong.find(", 1 of 8 parts (--sample 1 --sample-seed "), std::string::npos) << wrong;
}

/// Of attention some query rows, where a head is more than an eighth; of a recurrence then nothing.
TEST_F(LongCheck, looks_at_an_eighth_at_most) {
  const Safetensors attention = case_of("softmax_attention", {1, 16, 2, 0, 8, 8, 0}, 1);
  const std::string rows = said(attention, right_answer(attention));
  EXPECT_NE(rows.find(" of 2 parts (--sample 1 --sample-rows 4 --sample-seed "), std::string::npos) << rows;
  const Safetensors recurrence = case_of("gated_deltanet", {1, 16, 2, 0, 8, 8, 0}, 1);
  EXPECT_EQ(said(recurrence, right_answer(recurrence)), "");
}

}  // namespace
}  // namespace assay
