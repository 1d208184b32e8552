#include "tools/cases/suite_measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "files/problem_file.hpp"
#include "judge/contract/contract.hpp"
#include "judge/hypotheses/conventions.hpp"
#include "judge/sigma/by_model.hpp"
#include "judge/sigma/expected.hpp"
#include "judge/sigma/model.hpp"
#include "judge/sigma/stored.hpp"
#include "oracles/core/in_order.hpp"
#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"
#include "tools/cases/case_flags.hpp"

namespace assay {
namespace {

using Tensors = Named<std::vector<double>>;

/// One token; a ragged first chunk, of two sequences; a chunk of 64, and one token more, where keys and values are odd
/// and differ; two chunks and one token; three and a rest.
constexpr std::string_view lengths[] = {"1", "17", "64", "65", "129", "200"};
/// Where every style is tried, and what builds up; where gates are filled.
constexpr std::string_view few = "17", usual_length = "64", boundary = "65", longer = "129", longest = "200";
constexpr Style styles_that_build_up[] = {Style::repeated_keys, Style::long_memory, Style::slow_writes,
                                          Style::mixed_gates};
constexpr std::size_t usual_block = 64;
/// A blind spot counts as so many other faults: it is what suites are for.
constexpr double weight_of_blind_spots = 4;

/// The values of a gate: just above a power of two and between two numbers of bf16, so that a kernel which rounds
/// it there is off by as much as it can be, always in one direction.
constexpr const char* decays[] = {"-0.01569", "-0.06275", "-0.50196"};
constexpr const char* strengths[] = {"0.01569", "0.50196", "0.998", "1.9961"};

/// Where there may be, a few queries are the last of more keys.
std::string shape_text(const Room& room, std::string_view tokens) {
  const std::vector<RoomFacts::Ranked> inputs = room.inputs();
  return fmt::format("{},{}{},{}{}", tokens == few ? 2 : 1, tokens, tokens == few && has_queries(inputs) ? "/80" : "",
                     groups_heads(inputs) ? "4/2" : "2", tokens == boundary ? ",odd" : "");
}

/// Whether no other style takes some input of the room through its whole range, or the state to where it predicts.
bool is_needed(const std::vector<RoomFacts::Ranked>& inputs, Style style) {
  const auto has = [&](Domain domain) {
    return std::ranges::any_of(inputs, [&](const RoomFacts::Ranked& r) { return r.field.domain == domain; });
  };
  if (style == Style::mixed_gates) return has(Domain::log_decay) || has(Domain::decay_fraction);
  return style == Style::predicted_values && has(Domain::write_strength) && !has(Domain::gradient_weight);
}

/// The answers of one form to one case, with the expected ones.
class CaseOnTrial {
 public:
  CaseOnTrial(const Room& room, const KernelForm& form, ProblemFile file, Format precision)
      : room_(room),
        form_(form),
        file_(std::move(file)),
        kernel_{&form, precision, 0, 1},
        oracle_(oracle_of(room, file_.problem)),
        expectation_(expect(oracle_, kernel_, file_.problem, default_draws)) {
    if (asks_for_words(expectation_)) {
      oracle_ = oracle_of(room, file_.problem, 4);
      expectation_ = expect(oracle_, kernel_, file_.problem, default_draws);
    }
    model_ = expect_by_model(oracle_, model_runs(file_.problem, precision, default_draws, 1),
                             [&](const std::string& name) { return stored_by_contract(name); });
  }

  const Problem& problem() const { return file_.problem; }
  const ProblemFile& file() const { return file_; }
  const Tensors& healthy() const { return expectation_.emulated; }
  const Oracle& oracle() const { return oracle_; }
  const KernelUnderTest& kernel() const { return kernel_; }

  /// Whether a right kernel passes, by both kinds of evidence.
  bool is_fair() const {
    for (std::size_t t = 0; t < healthy().size(); ++t)
      if (judge(expectation_.tensors[t].second, healthy()[t].second).verdict != Verdict::pass ||
          by_model(healthy()[t]) != Verdict::pass)
        return false;
    return true;
  }

  Seen judge_all(const Tensors& got) const {
    Seen seen;
    for (std::size_t t = 0; t < got.size(); ++t) {
      if (got[t].second == healthy()[t].second) continue;
      seen.differs = true;
      if (judge(expectation_.tensors[t].second, got[t].second).verdict != Verdict::fail) continue;
      seen.by_contract = true;
      seen.shown = seen.shown || by_model(got[t]) != Verdict::pass;
    }
    return seen;
  }
  Tensors ordered(const Answer& answer) const { return in_report_order(answer, expectation_); }

 private:
  Format stored_by_contract(const std::string& name) const {
    for (const auto& [tensor, expected] : expectation_.tensors)
      if (tensor == name) return expected.stored;
    return Format::fp64;
  }
  Verdict by_model(const std::pair<std::string, std::vector<double>>& got) const {
    for (const auto& [tensor, expected] : model_)
      if (tensor == got.first) return judge_by_model(expected, kernel_.precision, got.second).verdict;
    return Verdict::error;  // the model knows all that the contract knows
  }

  const Room& room_;
  const KernelForm& form_;
  ProblemFile file_;
  KernelUnderTest kernel_;
  Oracle oracle_;
  Expectation expectation_;
  Named<Expected> model_;
};

/// In front of the names of misunderstood conventions, and at the end of some.
constexpr std::string_view convention_mark = "convention: ", normalised = " normalised";

/// By the fault's name what a kernel with it answers.
using Faults = std::vector<std::pair<std::string, std::function<Tensors()>>>;

/// Faults: inputs stored more widely than the case's precision, in bf16, and the state carried between tokens, in bf16.
Faults blind_spots_of(const CaseOnTrial& trial) {
  Faults faults;
  for (const auto& [name, dtype] : trial.file().dtypes) {
    if (!is_narrower(Format::bf16, dtype) || !trial.problem().inputs.contains(name)) continue;
    faults.emplace_back(name + " in bf16", [&trial, name = name] {
      Problem problem = trial.problem();
      for (double& x : problem.inputs.at(name).data) x = round_to(x, Format::bf16);
      const KernelUnderTest& kernel = trial.kernel();
      return trial.ordered(kernel.form->run(problem, kernel.policy(), kernel.tile));
    });
  }
  for (const SiteGroup& group : site_groups()) {
    if (group.name != "state" || group.members(trial.kernel().form->sites).empty()) continue;
    faults.emplace_back("state in bf16", [&trial] {
      Contract contract = Contract::of(trial.kernel().precision);
      contract.rules.push_back({"state", Format::bf16});
      KernelUnderTest narrow = trial.kernel();
      narrow.contract = &contract;
      return trial.ordered(narrow.form->run(trial.problem(), narrow.policy(), narrow.tile));
    });
  }
  return faults;
}

Faults planted_in(const CaseOnTrial& trial, const KernelForm& form) {
  Faults faults;
  for (const Mutant& mutant : form.mutants)
    faults.emplace_back(mutant.name, [&trial, &form, name = std::string(mutant.name)] {
      const KernelUnderTest kernel = trial.kernel();
      Policy policy = kernel.policy();
      policy.fault = name;
      return trial.ordered(form.run(trial.problem(), policy, kernel.tile));
    });
  return faults;
}

/// The healthy kernel's answer, moved by what the convention changes of the truth.
Tensors moved(const CaseOnTrial& trial, const Arrays& changed, bool outputs_alone) {
  Tensors got = trial.healthy();
  for (auto& [name, values] : got) {
    if (outputs_alone && name.starts_with("d_")) continue;
    const auto found = changed.find(name);
    const auto truth = std::find_if(trial.oracle().tensors.begin(), trial.oracle().tensors.end(),
                                    [&n = name](const auto& tensor) { return tensor.first == n; });
    if (found == changed.end() || found->second.data.size() != values.size()) continue;
    const std::vector<double>& other = found->second.data;
    if (std::any_of(other.begin(), other.end(), [](double x) { return std::isnan(x); })) continue;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += other[i] - truth->second.value[i].hi;
  }
  return got;
}

Faults conventions_in(const CaseOnTrial& trial) {
  Faults faults;
  const auto scene = std::make_shared<hypotheses::Scene>(*trial.file().room, trial.problem(), trial.file().batch);
  for (hypotheses::Convention& convention : hypotheses::conventions_of(*scene)) {
    // One mistake counts once, in the blocks that most kernels have.
    if (convention.block != 0 && convention.block != usual_block) continue;
    // A kernel that normalises inside has another gradient, too; one without gradients must show it in the outputs.
    const bool outputs_alone = convention.key.ends_with(normalised);
    faults.emplace_back(std::string(convention_mark) + convention.key,
                        [&trial, scene, outputs_alone, answer = std::move(convention.answer)] {
                          return moved(trial, answer(*scene), outputs_alone);
                        });
  }
  return faults;
}

struct Tried {
  bool fair = false;
  std::vector<std::pair<std::string, Seen>> blind, others;
};

std::vector<std::pair<std::string, Seen>> try_all(const CaseOnTrial& trial, const Faults& faults) {
  std::vector<std::pair<std::string, Seen>> seen;
  for (const auto& [name, answer] : faults) {
    Seen one;
    try {
      one = trial.judge_all(answer());
    } catch (const InputError&) {  // no kernel can have done so
    }
    seen.emplace_back(name, one);
  }
  return seen;
}

Tried try_candidate(const Room& room, const KernelForm& form, const SuiteCandidate& candidate,
                    const SuiteOptions& options) {
  Tried tried;
  try {
    const int dims = form.iterative ? std::min(options.dims, 8) : options.dims;
    SeededCase seeded{find_room(room.name), spec_of(room, candidate, dims, options.precision, options.seed),
                      candidate.fill};
    ProblemFile file = read_problem(seeded.make(), "candidate");
    if (!form.obstacle(file.problem).empty()) return tried;
    const CaseOnTrial trial(room, form, std::move(file), options.precision);
    if (!trial.is_fair()) return tried;
    tried.blind = try_all(trial, blind_spots_of(trial));
    if (options.planted) tried.others = try_all(trial, planted_in(trial, form));
    for (auto& one : try_all(trial, conventions_in(trial)))
      if (one.first.ends_with(normalised))
        tried.blind.emplace_back(one.first.substr(convention_mark.size()) + " inside", one.second);
      else
        tried.others.push_back(std::move(one));
    tried.fair = true;
  } catch (const InputError&) {  // not every number may fill every input
  }
  return tried;
}

SuiteCase case_at(const SuiteMatrix& matrix, std::size_t at) {
  const auto count = [&](bool Seen::*how) { return static_cast<int>(std::ranges::count(matrix.seen[at], true, how)); };
  return {matrix.candidates[at], count(&Seen::shown), count(&Seen::by_contract)};
}

}  // namespace

CaseSpec spec_of(const Room& room, const SuiteCandidate& candidate, int dims, Format precision, std::uint64_t seed) {
  return {.mechanism = std::string(room.name),
          .shape = candidate.extents(dims),
          .precision = precision,
          .style = candidate.style,
          .seed = seed,
          .params = candidate.params};
}

std::vector<SuiteCandidate> suite_candidates(const Room& room) {
  std::vector<SuiteCandidate> list;
  const std::vector<RoomFacts::Ranked> inputs = room.inputs();
  const auto add = [&](std::string_view tokens, Style style, Fill fill = {}) {
    list.push_back({shape_text(room, tokens), style, {}, std::move(fill), is_needed(inputs, style)});
  };
  for (const std::string_view tokens : lengths) add(tokens, Style::normal);
  for (const Style style : all_styles)
    if (style != Style::normal) add(usual_length, style);
  for (const Style style : styles_that_build_up)
    for (const std::string_view tokens : {boundary, longest}) add(tokens, style);
  for (const Style style : {Style::integers, Style::ill_conditioned}) add(few, style);
  for (const RoomFacts::Ranked& ranked : inputs) {
    const Field& field = ranked.field;
    const std::string name(field.name);
    if (field.place != Field::Place::input || field.missing == Field::Missing::worked_out) continue;
    if (field.domain == Domain::log_decay)
      for (const char* number : decays) add(longest, Style::normal, {{name, number}});
    if (field.domain == Domain::write_strength || field.domain == Domain::gradient_weight ||
        field.domain == Domain::decay_fraction || field.domain == Domain::gain)
      for (const char* number : strengths)
        for (const Style style : {Style::normal, Style::long_memory}) add(longer, style, {{name, number}});
  }
  const std::vector<Params> variants = room.variants();
  for (std::size_t v = 1; v < variants.size(); ++v)  // at every length but one token
    list.push_back({shape_text(room, lengths[1 + v % (std::size(lengths) - 1)]), Style::normal, variants[v], {}, true});
  return list;
}

SuiteMatrix measure_suite(const Room& room, const std::vector<SuiteCandidate>& candidates, const SuiteOptions& options,
                          const std::function<void(std::size_t total)>& done) {
  const KernelRoom* kernels = find_kernels(kernel_rooms(), room.name);
  require(kernels != nullptr, "suite: ", room.name, " has no kernel, and so no faults that can be planted");
  const KernelForm& form = kernels->forms.front();
  std::vector<Tried> all(candidates.size());
  in_order(
      candidates.size(), {.threads = options.threads},
      [&](std::size_t i) { return try_candidate(room, form, candidates[i], options); },
      [&](std::size_t i, Tried&& tried) { all[i] = std::move(tried); }, [&](std::size_t) { done(candidates.size()); });
  SuiteMatrix matrix;
  std::map<std::string, std::size_t> index;
  const auto name = [&](const auto& list) {
    for (const auto& [fault, seen] : list)
      if (index.emplace(fault, matrix.faults.size()).second) matrix.faults.push_back(fault);
  };
  for (const Tried& tried : all) name(tried.blind);
  matrix.blind_spots = matrix.faults.size();
  for (const Tried& tried : all) name(tried.others);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].fair) continue;
    matrix.candidates.push_back(candidates[i]);
    matrix.seen.emplace_back(matrix.faults.size());
    for (const auto* list : {&all[i].blind, &all[i].others})
      for (const auto& [fault, seen] : *list) matrix.seen.back()[index.at(fault)] = seen;
  }
  return matrix;
}

std::vector<std::size_t> choose_cases(const SuiteMatrix& matrix, const std::vector<std::size_t>& allowed,
                                      std::size_t count) {
  const std::size_t faults = matrix.faults.size();
  std::vector<int> covered(2 * faults);
  std::vector<std::size_t> chosen;
  const auto shape = [&](std::size_t c) { return matrix.candidates[c].extents(1); };
  const auto tokens = [&](std::size_t c) { return shape(c).own() * shape(c).seq_len; };
  const auto need = [&](std::size_t c) {
    const SuiteCandidate& one = matrix.candidates[c];
    return one.must ? std::string(name_of(one.style)) + flags_of(one.params) : std::string();
  };
  // Kernels break at lengths that ours do not: first every length once, and while there is room for them, what a suite
  // must have.
  std::set<int> lengths_left;
  std::set<std::string> needs_left;
  for (const std::size_t c : allowed) {
    lengths_left.insert(shape(c).seq_len);
    if (matrix.candidates[c].must) needs_left.insert(need(c));
  }
  const auto covers = [&](std::size_t c, std::size_t item) {
    const Seen& seen = matrix.seen[c][item / 2];
    return item % 2 == 0 ? seen.shown : seen.by_contract;
  };
  while (chosen.size() < std::min(count, allowed.size())) {
    std::size_t best = 0;
    double most = -1;
    const bool is_short = needs_left.size() >= count - chosen.size();
    const bool any = lengths_left.empty() && needs_left.empty();
    for (const std::size_t c : allowed) {
      if (std::find(chosen.begin(), chosen.end(), c) != chosen.end()) continue;
      const bool needed = needs_left.contains(need(c));
      if (!needed && (is_short || (!any && !lengths_left.contains(shape(c).seq_len)))) continue;
      double worth = 0;  // what shows for the n-th time is worth 4^-n: sums of powers of two have no order
      for (std::size_t i = 0; i < covered.size(); ++i)
        if (covers(c, i)) worth += std::ldexp(i < 2 * matrix.blind_spots ? weight_of_blind_spots : 1, -2 * covered[i]);
      if (worth > most || (worth == most && tokens(c) < tokens(best))) best = c, most = worth;
    }
    chosen.push_back(best), lengths_left.erase(shape(best).seq_len), needs_left.erase(need(best));
    for (std::size_t i = 0; i < covered.size(); ++i) covered[i] += covers(best, i) ? 1 : 0;
  }
  return chosen;
}

Suite suite_of(const Room& room, const SuiteMatrix& matrix) {
  std::vector<std::size_t> all(matrix.candidates.size()), plain;
  std::iota(all.begin(), all.end(), 0);
  std::copy_if(all.begin(), all.end(), std::back_inserter(plain),
               [&](std::size_t c) { return matrix.candidates[c].params.empty(); });
  const auto cases = choose_cases(matrix, plain, suite_size);
  const auto settings = plain.size() < all.size() ? choose_cases(matrix, all, suite_size) : std::vector<std::size_t>();
  const auto first = [&](const std::vector<std::size_t>& chosen, std::size_t fault, bool Seen::*how) {
    const auto found = std::ranges::find_if(chosen, [&](std::size_t c) { return matrix.seen[c][fault].*how; });
    return found == chosen.end() ? 0 : static_cast<int>(found - chosen.begin()) + 1;
  };
  Suite suite;
  suite.mechanism = room.name;
  for (const std::size_t c : cases) suite.cases.push_back(case_at(matrix, c));
  for (const std::size_t c : settings) suite.with_settings.push_back(case_at(matrix, c));
  for (std::size_t f = 0; f < matrix.faults.size(); ++f) {
    const bool differs = std::any_of(all.begin(), all.end(), [&](std::size_t c) { return matrix.seen[c][f].differs; });
    if (!differs) continue;
    const int by_check = first(cases, f, &Seen::shown), by_promise = first(cases, f, &Seen::by_contract);
    ++suite.faults, suite.shown += by_check > 0 ? 1 : 0, suite.by_contract += by_promise > 0 ? 1 : 0;
    suite.shown_with_settings += first(settings, f, &Seen::shown) > 0 ? 1 : 0;
    if (by_promise == 0) suite.unseen.push_back(matrix.faults[f]);
    if (f < matrix.blind_spots) suite.blind_spots.push_back({matrix.faults[f], by_check, by_promise});
  }
  return suite;
}

}  // namespace assay
