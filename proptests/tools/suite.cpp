// assay suite: every suite finds what is planted, and which cases these are is what was measured. Its words are in
// proptests/transcripts/suite.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "files/problem_file.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/share.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/cases/suite_cases.hpp"
#include "tools/cases/suite_measure.hpp"
#include "tools/pages/suite_page.hpp"

namespace assay {
namespace {

/// Answers the cases of a suite as a kernel would. Heads have 8 dimensions: every kernel takes them, faults are planted
/// in them, and eight cases take seconds.
class SuiteRun : public CliFiles {
 protected:
  Ran suite(std::vector<std::string> args, const std::vector<std::string>& more = {}) const {
    args.insert(args.begin(), "suite");
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  }
  std::string file(const std::string& kind, int number) const {
    return path(kind + std::to_string(number) + ".safetensors");
  }
  /// The oracle's answers, rounded once to bf16.
  void answer_all() const {
    for (int number = 1; number <= suite_size; ++number) {
      Safetensors answer = right_answer(read_safetensors(file("case", number)));
      for (auto& [name, tensor] : answer.tensors) tensor = store(load(name, tensor), "BF16");
      write_safetensors(file("out", number), answer);
    }
  }
  /// Writes the answer of a kernel with that fault to one case.
  void plant(int number, const std::string& fault) const {
    const ProblemFile posed = read_problem(read_safetensors(file("case", number)), "case");
    const KernelForm& form = find_kernels(kernel_rooms(), posed.room->name)->forms.front();
    Policy policy = Policy::of(form.sites, Format::bf16);
    policy.fault = fault;
    TensorFile answer;
    for (const auto& [name, array] : flat(form.run(posed.problem, policy, 0)))
      answer.put(name, array, answer_field(*posed.room, name), posed.batch, "BF16");
    write_safetensors(file("out", number), std::move(answer).finish({}));
  }
  /// The oracle's answers pass; with one planted fault in the first case that case fails.
  void try_suite(const std::string& mechanism) const {
    const Ran written = suite({mechanism, "--write-cases", folder.string(), "--head-dim", "8", "--no-cotangents"});
    ASSERT_EQ(written.code, exit_passed) << written.err;
    answer_all();
    const std::vector<std::string> args = {mechanism, "--answers", folder.string(), "--head-dim",
                                           "8",       "--format",  "json"};
    const Ran right = suite(args);
    ASSERT_EQ(right.code, exit_passed) << right.out << right.err;
    EXPECT_EQ(Json::parse(right.out)["cases"].size(), static_cast<std::size_t>(suite_size));

    // The first two of the faults that change o: one case has them, and that one is named.
    const KernelForm& form = find_kernels(kernel_rooms(), mechanism)->forms.front();
    int planted = 0;
    for (const Mutant& mutant : form.mutants) {
      if (planted == 2) break;
      plant(1, std::string(mutant.name));
      Json all = Json::parse(suite(args, {"--case", "1", "--case", "2", "--contract", "bf16"}).out);
      if (all["passed"].get<bool>()) continue;
      ++planted;
      EXPECT_EQ(all["cases"][0]["verdict"], "FAIL") << mutant.name;
      EXPECT_EQ(all["cases"][1]["verdict"], "PASS") << mutant.name;
    }
    EXPECT_EQ(planted, 2) << mechanism;
  }
};

/// Tries one mechanism in twenty-five, or more; without gradients, for time.
TEST_F(SuiteRun, passes_the_oracle_rounded_and_fails_what_is_planted) {
  Share share(25);
  while (share.goes_on())
    for (const KernelRoom* room : kernel_rooms())
      if (share.takes()) try_suite(std::string(room->name));
}

/// Every mechanism with kernels has eight cases, each of which can be made; the page says which.
TEST(SuiteTable, has_every_mechanism) {
  std::size_t at = 0;
  for (const KernelRoom* room : kernel_rooms()) {
    ASSERT_LT(at, suites().size());
    const Suite& suite = suites()[at++];
    EXPECT_EQ(suite.mechanism, room->name);
    EXPECT_EQ(suite.cases.size(), static_cast<std::size_t>(suite_size)) << room->name;
    // A fault of a setting changes no number of a case that has it off: cases with settings show it.
    EXPECT_GE(20 * std::max(suite.by_contract, suite.shown_with_settings), 17 * suite.faults) << room->name;
    for (const SuiteBlindSpot& spot : suite.blind_spots)
      EXPECT_NE(suite_page().find("| " + spot.name + " |"), std::string::npos);
  }
  EXPECT_EQ(at, suites().size());
}

struct Range {
  Domain domain;
  double least, most;
};
/// Gates from closed to open, write strengths from none to all.
constexpr Range all_ranges[] = {
    {Domain::log_decay, -4096, -20},   {Domain::log_decay, -20, -5},        {Domain::log_decay, -5, -0.55},
    {Domain::log_decay, -0.55, 0},     {Domain::write_strength, 0, 0.05},   {Domain::write_strength, 0.4, 0.6},
    {Domain::write_strength, 0.95, 2}, {Domain::decay_fraction, 0.5, 0.94}, {Domain::decay_fraction, 0, 0.1}};

/// Every suite takes every input through its whole range, and has the shapes that kernels confuse.
TEST(SuiteTable, visits_every_range) {
  for (const Suite& suite : suites()) {
    const Room& room = listed_room(suite.mechanism);
    std::map<std::string, std::vector<double>> seen;
    bool has_batch = false, has_few_queries = false, has_odd = false;
    for (const SuiteCase& one : suite.cases) {
      const CaseSpec spec = spec_of(room, one.inputs, 8, Format::bf16, 0);
      has_batch |= spec.shape.batch > 1, has_few_queries |= spec.shape.queries() < spec.shape.seq_len;
      has_odd |= spec.shape.key_dim % 2 == 1 && spec.shape.key_dim != spec.shape.value_dim;
      const SeededCase seeded{find_room(suite.mechanism), spec, one.inputs.fill};
      const ProblemFile file = read_problem(seeded.make(), "case");
      for (const auto& [name, array] : file.problem.inputs)
        seen[name].insert(seen[name].end(), array.data.begin(), array.data.end());
    }
    EXPECT_TRUE(has_batch && has_odd) << room.name;
    EXPECT_EQ(has_few_queries, has_queries(room.inputs())) << room.name;
    for (const RoomFacts::Ranked& input : room.inputs())
      for (const Range& range : all_ranges) {
        if (input.field.place != Field::Place::input || input.field.domain != range.domain) continue;
        if (input.field.missing == Field::Missing::worked_out) continue;  // no suite gives it
        const auto is_inside = [&](double x) { return range.least <= x && x <= range.most; };
        EXPECT_TRUE(std::ranges::any_of(seen[std::string(input.field.name)], is_inside))
            << room.name << ' ' << input.field.name << " from " << range.least << " to " << range.most;
      }
  }
}

/// The table is what measuring says today, of the mechanism that takes least.
TEST(SuiteTable, is_what_is_measured) {
  const Room& room = listed_room("value_averaging");
  const SuiteMatrix matrix = measure_suite(room, suite_candidates(room), {}, [](std::size_t) {});
  EXPECT_EQ(json_of({suite_of(room, matrix)}), json_of({*find_suite(room.name)}));
}

/// First what shows most, then what shows most of the rest; each length once before one comes again.
TEST(SuiteChoice, is_greedy) {
  const auto seen = [](bool a, bool b, bool c) { return std::vector<Seen>{{a, a, a}, {b, b, b}, {c, c, c}}; };
  SuiteMatrix matrix;
  matrix.candidates = {{"1,65,2"}, {"1,65,2"}, {"1,65,2"}, {"1,9,2"}};
  matrix.faults = {"a", "b", "c"};
  matrix.seen = {seen(true, false, false), seen(true, true, false), seen(false, false, true),
                 seen(false, false, false)};
  EXPECT_EQ(choose_cases(matrix, {0, 1, 2, 3}, 8), (std::vector<std::size_t>{1, 3, 2, 0}));
  EXPECT_EQ(choose_cases(matrix, {0, 1, 2}, 2), (std::vector<std::size_t>{1, 2}));
  matrix.candidates[0].must = true;
  EXPECT_EQ(choose_cases(matrix, {0, 1, 2}, 2), (std::vector<std::size_t>{1, 0})) << "what a suite must have";
}

}  // namespace
}  // namespace assay
