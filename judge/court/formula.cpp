#include "judge/court/formula.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "arguments/file_rooms.hpp"
#include "judge/sigma/by_model.hpp"
#include "judge/sigma/model.hpp"
#include "language/program/mutants.hpp"
#include "language/room.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// What became of a mutant.
enum class Fate { revealed, passes, no_change };

/// A program with one error.
struct Wrong {
  std::string what;
  language::Mechanism mechanism;
};

std::vector<Wrong> wrong_programs(const language::Mechanism& right, bool gradients) {
  std::vector<Wrong> list;
  for (language::Mutant& mutant : language::mutants_of(right.program))
    list.push_back({std::move(mutant.what), language::Mechanism(std::move(mutant.program))});
  if (!gradients) return list;
  for (language::Mutant& mutant : language::mutants_of(right.gradient))
    list.push_back({"gradient " + mutant.what, language::Mechanism(right.program, std::move(mutant.program))});
  return list;
}

/// Whether no number differs by more than roundings of doubles.
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0, off = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::fabs(a[i])), off = std::max(off, std::fabs(a[i] - b[i]));
  return off <= 1e-10 * largest;
}

/// The program of the case: its mechanism, or what its arguments join it with.
const language::Mechanism* program_of(const Problem& problem) {
  const language::Mechanism* joined = arguments::joined_mechanism(problem);
  return joined != nullptr ? joined : language::find_mechanism(problem.mechanism);
}

Answer answer_of(const Problem& problem, const language::Mechanism& mechanism) {
  const bool joined = arguments::joined_mechanism(problem) != nullptr;
  return joined ? arguments::answer_in_doubles(problem, mechanism) : language::answer_in_doubles(mechanism, problem);
}

Fate fate_of(const Wrong& wrong, const CaseTrial& trial, const std::vector<ReportRow>& rows, const Arrays& right) {
  const Problem& problem = trial.file().problem;
  Arrays answer;
  try {
    answer = flat(answer_of(problem, wrong.mechanism));
  } catch (const InputError&) {
    return Fate::revealed;  // a number that does not exist is a failure of any kernel
  }
  Fate fate = Fate::no_change;
  for (const ReportRow& row : rows) {
    if (row.expected == nullptr) continue;
    const std::vector<double>& got = answer.at(row.tensor).data;
    if (same(right.at(row.tensor).data, got)) continue;
    fate = Fate::passes;
    const Format precision = trial.kernel().precision;
    if (judge_by_model(*row.expected, precision, got).verdict == Verdict::fail) return Fate::revealed;
  }
  return fate;
}

}  // namespace

FormulaErrors try_formula_errors(const CaseTrial& trial, const std::vector<ReportRow>& rows) {
  const Problem& problem = trial.file().problem;
  const language::Mechanism* right = program_of(problem);
  require(right != nullptr, "--mutants: ", problem.mechanism, " is no program; `assay mutants --mechanism ",
          problem.mechanism, "` tries the planted bugs of its kernels");
  const std::vector<Wrong> wrong = wrong_programs(*right, !problem.cotangents.empty());
  const Arrays expected = flat(answer_of(problem, *right));
  std::vector<Fate> fates(wrong.size());
  words::in_parallel(wrong.size(), trial.kernel().threads,
                     [&](std::size_t i) { fates[i] = fate_of(wrong[i], trial, rows, expected); });
  const auto named = [&](Fate fate) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < wrong.size(); ++i)
      if (fates[i] == fate) names.push_back(wrong[i].what);
    return names;
  };
  FormulaErrors errors{.passes = named(Fate::passes), .no_change = named(Fate::no_change)};
  errors.counted = wrong.size() - errors.no_change.size(), errors.revealed = errors.counted - errors.passes.size();
  return errors;
}

}  // namespace assay
