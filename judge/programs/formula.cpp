#include "judge/programs/formula.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "arguments/file_rooms.hpp"
#include "arguments/programs/library.hpp"
#include "judge/sigma/by_model.hpp"
#include "judge/sigma/model.hpp"
#include "language/program/mutants.hpp"
#include "language/room.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// Whether no number differs by more than roundings of doubles.
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0, off = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::fabs(a[i])), off = std::max(off, std::fabs(a[i] - b[i]));
  return off <= 1e-10 * largest;
}

/// The program of the case: its mechanism's, or what its arguments join that with.
std::shared_ptr<const language::Mechanism> program_of(const Problem& problem) {
  const auto joined = arguments::joined_mechanism(problem);
  return joined != nullptr ? joined : formula_of(problem.mechanism, problem.params);
}

Answer answer_of(const Problem& problem, const language::Mechanism& mechanism) {
  const bool joined = arguments::joined_mechanism(problem) != nullptr;
  return joined ? arguments::answer_in_doubles(problem, mechanism) : language::answer_in_doubles(mechanism, problem);
}

Fate fate_of(const WrongFormula& wrong, const Problem& problem, const ExpectedTensors& expected, Format precision,
             const Arrays& right) {
  Arrays answer;
  try {
    answer = flat(answer_of(problem, wrong.mechanism));
  } catch (const InputError&) {
    return Fate::revealed;  // a number that does not exist is a failure of any kernel
  }
  Fate fate = Fate::no_change;
  for (const auto& [tensor, may_be] : expected) {
    const std::vector<double>& got = answer.at(tensor).data;
    if (same(right.at(tensor).data, got)) continue;
    fate = Fate::passes;
    if (judge_by_model(*may_be, precision, got).verdict == Verdict::fail) return Fate::revealed;
  }
  return fate;
}

}  // namespace

std::shared_ptr<const language::Mechanism> formula_of(std::string_view mechanism, const Params& params) {
  if (auto own = language::find_mechanism(mechanism)) return own;
  if (arguments::find_mechanism_program(mechanism) == nullptr) return nullptr;
  return std::make_shared<const language::Mechanism>(arguments::mechanism_program(mechanism, params));
}

std::vector<WrongFormula> wrong_formulas(const language::Mechanism& right, bool gradients) {
  std::vector<WrongFormula> list;
  for (language::Mutant& mutant : language::mutants_of(right.program))
    list.push_back({std::move(mutant.what), language::Mechanism(mutant.program)});
  if (!gradients) return list;
  for (language::Mutant& mutant : language::mutants_of(right.gradient))
    list.push_back({"gradient " + mutant.what, language::Mechanism(right.program, std::move(mutant.program))});
  return list;
}

std::vector<Fate> fates_of(const std::vector<WrongFormula>& wrong, const std::vector<std::size_t>& which,
                           const Problem& problem, const ExpectedTensors& expected, Format precision, int threads) {
  const Arrays right = flat(answer_of(problem, *program_of(problem)));
  std::vector<Fate> fates(which.size());
  words::in_parallel(which.size(), threads,
                     [&](std::size_t i) { fates[i] = fate_of(wrong[which[i]], problem, expected, precision, right); });
  return fates;
}

FormulaErrors try_formula_errors(const CaseTrial& trial, const std::vector<ReportRow>& rows) {
  const Problem& problem = trial.file().problem;
  const auto right = program_of(problem);
  require(right != nullptr, "--mutants: ", problem.mechanism, " is no program; `assay-lab mutants --mechanism ",
          problem.mechanism, "` tries the planted bugs of its kernels");
  const std::vector<WrongFormula> wrong = wrong_formulas(*right, !problem.cotangents.empty());
  std::vector<std::size_t> all(wrong.size());
  std::iota(all.begin(), all.end(), 0);
  ExpectedTensors expected;
  for (const ReportRow& row : rows)
    if (row.expected != nullptr) expected.emplace_back(row.tensor, row.expected.get());
  const std::vector<Fate> fates =
      fates_of(wrong, all, problem, expected, trial.kernel().precision, trial.kernel().threads);
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
