#include "tools/cases/program_suite.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "files/case_file.hpp"
#include "files/problem_file.hpp"
#include "judge/court/cache.hpp"
#include "judge/programs/formula.hpp"
#include "judge/sigma/model.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/suite_cases.hpp"

namespace assay {
namespace {

constexpr int dims = 8;
constexpr Format precision = Format::bf16;
/// Beyond, an error of the formula looks as it does before; what builds up is among the general cases.
constexpr int longest = 65;

/// A chunk and one token, two of them, three and a rest, a few tokens, one; and inputs that hide little.
std::vector<SuiteCandidate> general_cases(const Room& room) {
  const char* const few = has_queries(room.inputs()) ? "2,17/80,2" : "2,17,2";
  return {{"1,65,2,odd", Style::normal},    {"1,129,2", Style::slow_writes}, {"1,200,2", Style::long_memory},
          {few, Style::correlated_keys},    {"1,64,2", Style::mixed_gates},  {"1,64,2", Style::cancelling_values},
          {"1,65,2", Style::repeated_keys}, {"1,1,2", Style::normal}};
}

int length_of(const SuiteCandidate& c) { return c.extents(1).seq_len; }

/// Chooses one case after the other.
class Choice {
 public:
  Choice(const Room& room, const language::Mechanism& right, int threads)
      : room_(room), threads_(threads), wrong_(wrong_formulas(right, true)) {
    hidden_.resize(wrong_.size());
    std::iota(hidden_.begin(), hidden_.end(), 0);
    changes_.resize(wrong_.size());
  }

  /// Takes the case, unless the oracle has no answer to it.
  void take(const SuiteCandidate& candidate) {
    if (auto shown = shown_by(candidate)) add(candidate, *shown);
  }

  /// Puts those of the others that show most of what is hidden in places that nothing depends on.
  void improve(const std::vector<SuiteCandidate>& others, const std::function<void()>& tried) {
    if (hidden_.empty() && cases_.size() >= suite_size) return;
    std::vector<std::pair<const SuiteCandidate*, std::vector<std::size_t>>> known;
    for (const SuiteCandidate& candidate : others) {
      if (auto shown = shown_by(candidate)) known.emplace_back(&candidate, std::move(*shown));
      tried();
    }
    while (!known.empty()) {
      for (auto& [candidate, shown] : known)
        std::erase_if(shown, [&](std::size_t e) { return !std::binary_search(hidden_.begin(), hidden_.end(), e); });
      const auto best = std::max_element(
          known.begin(), known.end(), [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
      const bool is_full = cases_.size() >= suite_size;
      if (is_full && (best->second.empty() || !make_room(*best->first))) break;
      add(*best->first, best->second);
      known.erase(best);
    }
  }

  ProgramSuite finish() {
    ProgramSuite suite;
    suite.cases = std::move(cases_), suite.shows = std::move(shows_);
    suite.shown = wrong_.size() - hidden_.size();
    for (const std::size_t e : hidden_)
      if (changes_[e] != 0)
        suite.hidden.push_back(wrong_[e].what);
      else
        ++suite.no_change;
    suite.errors = wrong_.size() - suite.no_change;
    return suite;
  }

 private:
  /// The hidden errors that the case shows; nothing where the oracle has no answer.
  std::optional<std::vector<std::size_t>> shown_by(const SuiteCandidate& candidate) {
    try {
      const SeededCase seeded{find_room(room_.name), spec_of(room_, candidate, dims, precision, 0), candidate.fill};
      const ProblemFile file = read_problem(seeded.make(), "candidate");
      if (file.refusal) return std::nullopt;
      const Oracle oracle = oracle_of(room_, file.problem);
      const Named<Expected> may_be =
          expect_by_model(oracle, model_runs(file.problem, precision, default_draws, threads_),
                          [](const std::string&) { return precision; });
      ExpectedTensors expected;
      for (const auto& [tensor, e] : may_be) expected.emplace_back(tensor, &e);
      const std::vector<Fate> fates = fates_of(wrong_, hidden_, file.problem, expected, precision, threads_);
      std::vector<std::size_t> shown;
      for (std::size_t i = 0; i < hidden_.size(); ++i) {
        if (fates[i] == Fate::revealed) shown.push_back(hidden_[i]);
        if (fates[i] != Fate::no_change) changes_[hidden_[i]] = 1;
      }
      return shown;
    } catch (const InputError&) {  // not every number may fill every input, and a state may grow beyond all numbers
      return std::nullopt;
    }
  }

  void add(const SuiteCandidate& candidate, const std::vector<std::size_t>& shown) {
    cases_.push_back(candidate), shows_.push_back(shown.size());
    std::erase_if(hidden_, [&](std::size_t e) { return std::binary_search(shown.begin(), shown.end(), e); });
  }

  /// Drops the last case that shows nothing alone and whose length another one has, or the newcomer.
  bool make_room(const SuiteCandidate& newcomer) {
    for (std::size_t i = cases_.size(); i-- > 0;) {
      const int length = length_of(cases_[i]);
      const auto alike = std::ranges::count_if(cases_, [&](const SuiteCandidate& c) { return length_of(c) == length; });
      if (shows_[i] > 0 || (alike == 1 && length_of(newcomer) != length)) continue;
      cases_.erase(cases_.begin() + static_cast<std::ptrdiff_t>(i));
      shows_.erase(shows_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return false;
  }

  const Room& room_;
  int threads_;
  std::vector<WrongFormula> wrong_;
  std::vector<std::size_t> hidden_;  ///< errors that no case shows so far, sorted
  std::vector<char> changes_;        ///< of each error, whether it changed a number of some case
  std::vector<SuiteCandidate> cases_;
  std::vector<std::size_t> shows_;
};

// ---- what is kept

std::string packed(const ProgramSuite& suite) {
  Json cases = Json::array();
  for (const SuiteCandidate& c : suite.cases) cases.push_back({c.shape, name_of(c.style), c.fill});
  return Json{{"cases", cases},       {"shows", suite.shows},         {"errors", suite.errors},
              {"shown", suite.shown}, {"no_change", suite.no_change}, {"hidden", suite.hidden}}
      .dump();
}

/// Nothing where the bytes say none.
std::optional<ProgramSuite> unpacked(const std::string& bytes) try {
  const Json kept = Json::parse(bytes);
  ProgramSuite suite;
  for (const Json& c : kept.at("cases"))
    suite.cases.push_back({c.at(0), style_from(c.at(1).get<std::string>()).value(), {}, c.at(2).get<Fill>()});
  suite.shows = kept.at("shows").get<std::vector<std::size_t>>();
  suite.errors = kept.at("errors"), suite.shown = kept.at("shown"), suite.no_change = kept.at("no_change");
  suite.hidden = kept.at("hidden").get<std::vector<std::string>>();
  return suite.cases.empty() || suite.cases.size() != suite.shows.size() ? std::nullopt : std::optional(suite);
} catch (const std::exception&) {
  return std::nullopt;
}

/// All that the choice follows from: the program, and the hints that its cases are drawn by.
std::string key_of(const Room& room, const language::Program& program) {
  std::string key = "suite of the program " + program.digest();
  if (!room.is_program()) key += " of " + std::string(room.name);  // which takes other shapes than its program
  for (const language::Input& input : program.inputs)
    for (const auto& [name, value] : input.hint) key += ' ' + input.name + ' ' + name + '=' + value;
  return key;
}

ProgramSuite choose(const Room& room, const language::Mechanism& right, int threads,
                    const std::function<void(std::size_t total)>& done) {
  const std::vector<SuiteCandidate> general = general_cases(room);
  std::vector<SuiteCandidate> others = suite_candidates(room);
  std::erase_if(others, [&](const SuiteCandidate& c) {
    return length_of(c) > longest || std::any_of(general.begin(), general.end(), [&](const SuiteCandidate& g) {
             return g.style == c.style && g.shape == c.shape && c.fill.empty();
           });
  });
  Choice choice(room, right, threads);
  const std::size_t total = general.size() + others.size();
  for (const SuiteCandidate& candidate : general) choice.take(candidate), done(total);
  choice.improve(others, [&] { done(total); });
  ProgramSuite suite = choice.finish();
  require(!suite.cases.empty(), "suite: ", room.name, ": the oracle has an answer to no case of a suite");
  return suite;
}

}  // namespace

const ProgramSuite& program_suite(const Room& room, int threads, const std::function<void(std::size_t total)>& done) {
  static std::mutex guard;
  static std::map<std::string, std::unique_ptr<const ProgramSuite>> known;
  const auto right = formula_of(room.name);
  require(right != nullptr, "suite: no program defines ", room.name, ", so no cases can be chosen");
  const std::string key = key_of(room, right->program);
  const std::lock_guard lock(guard);
  std::unique_ptr<const ProgramSuite>& suite = known[key];
  if (suite != nullptr) return *suite;
  Cache cache;
  const std::optional<std::string> bytes = cache.find(key);
  std::optional<ProgramSuite> kept = bytes ? unpacked(*bytes) : std::nullopt;
  if (!kept) {
    kept = choose(room, *right, threads, done);
    cache.keep(key, packed(*kept));
  }
  suite = std::make_unique<const ProgramSuite>(std::move(*kept));
  return *suite;
}

}  // namespace assay
