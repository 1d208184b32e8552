#include "judge/trial/kill_table.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "arguments/file_case.hpp"
#include "files/case_file.hpp"
#include "files/names.hpp"
#include "files/problem_file.hpp"
#include "judge/court/argument_form.hpp"
#include "judge/court/judge_rows.hpp"
#include "judge/court/shrink.hpp"
#include "judge/held_out/arguments.hpp"
#include "judge/held_out/rooms.hpp"
#include "judge/sigma/by_model.hpp"
#include "judge/sigma/expected.hpp"
#include "judge/sigma/model.hpp"
#include "judge/sigma/other_algorithms.hpp"
#include "judge/trial/argument_cases.hpp"
#include "oracles/core/in_order.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "reference/core/random.hpp"

namespace assay {

namespace {

/// Cases in which most roundings change nothing. Exact arithmetic needs room for numbers that grow: what has room in
/// fp32 is the first dozens of tokens.
struct ExactTrials {
  Style style;
  Format precision;
  int seq_len;
};
constexpr ExactTrials exact_trials[] = {{Style::integers, Format::fp64, fault_length},
                                        {Style::integers, Format::fp64, exact_length},
                                        {Style::integers, Format::fp64, 2},
                                        {Style::dyadic, Format::fp64, fault_length},
                                        {Style::dyadic, Format::fp64, 32},
                                        {Style::dyadic, Format::fp64, 2},
                                        {Style::dyadic, Format::fp32, exact_length}};

constexpr int power_seeds = 60;  ///< found under all of them, a fault is found with 95% at that confidence
constexpr int power_lengths[] = {64, 128, 256, 512, 1024, 2048, 4096};
/// Styles whose states forget slowly, or move slowly.
constexpr Style power_styles[] = {Style::long_memory, Style::slow_writes};

/// A form, healthy where no fault is planted; and the one with held-out faults, or null.
struct Subject {
  std::shared_ptr<const Room> room;
  const KernelForm *healthy, *held_out;

  /// The forms whose faults are asked for.
  std::vector<const KernelForm*> twins(HeldOut which) const {
    std::vector<const KernelForm*> list;
    if (which != HeldOut::only) list.push_back(healthy);
    if (which != HeldOut::no && held_out != nullptr) list.push_back(held_out);
    return list;
  }
};

/// The form of that name, or null.
const KernelForm* form_named(const KernelRoom* room, std::string_view name) {
  if (room == nullptr) return nullptr;
  const auto it = std::ranges::find_if(room->forms, [&](const KernelForm& form) { return form.name == name; });
  return it == room->forms.end() ? nullptr : &*it;
}

void add_subjects_with_arguments(std::vector<Subject>& list, const std::string& mechanism) {
  const std::string name = mechanism + std::string(arguments::room_suffix);
  const KernelRoom* kernels = find_argument_forms(name);
  if (kernels == nullptr) return;
  const KernelRoom* held_out = held_out_with_arguments(name);
  for (const KernelForm& form : kernels->forms)
    list.push_back({find_room(name), &form, form_named(held_out, form.name)});
}

std::vector<Subject> subjects_of(const MutantOptions& options) {
  for (const std::string& name : options.mechanisms)
    require(!room_named(name, "--mechanism")->is_program(), "--mechanism: ", name,
            " is a program, and has no kernel of ours; `assay check --mutants` tries errors in its formula");
  const std::span<const KernelRoom* const> held_out = held_out_rooms();
  std::vector<Subject> list;
  for (const Room* room : rooms()) {
    if (!asks_for(options.mechanisms, room->name)) continue;
    if (options.arguments) {
      add_subjects_with_arguments(list, std::string(room->name));
      continue;
    }
    const KernelRoom* kernels = find_kernels(kernel_rooms(), room->name);
    if (kernels == nullptr) continue;
    for (const KernelForm& form : kernels->forms)
      if (form.unstable.empty())
        list.push_back({find_room(room->name), &form, form_named(find_kernels(held_out, room->name), form.name)});
  }
  require(!list.empty(), "--mechanism: none of these has kernels", options.arguments ? " with arguments" : "");
  return list;
}

/// The cases with arguments of a form.
std::vector<FaultTrial> argument_trials(const Subject& s, const MutantOptions& options) {
  std::vector<FaultTrial> trials;
  for (ArgumentCase& one : argument_cases(arguments::without_suffix(s.room->name))) {
    if (one.form != s.healthy->name) continue;
    if (!options.precisions.empty()) one.request.precision = options.precisions.front();
    one.request.seed += options.seed - fault_seed;
    CaseSpec spec{one.request.mechanism, one.request.shape, one.request.precision, {}, one.request.seed, {}};
    trials.push_back({std::move(spec), smallest_tile(*s.healthy),
                      read_problem(arguments::draw_case(one.request, ""), std::string(one.name)).problem,
                      command_of(one.request)});
  }
  return trials;
}

/// Work of `count` pieces by that many threads, each piece's result at its own place.
template <class Result, class Work, class Name>
std::vector<Result> in_parallel(std::size_t count, int threads, Work work, Name name, const WorkDone& done) {
  std::vector<Result> results;
  in_order(
      count, {.threads = threads}, work, [&](std::size_t, Result&& result) { results.push_back(std::move(result)); },
      [&](std::size_t i) { done(count, name(i)); });
  return results;
}

using Tensors = Named<std::vector<double>>;

/// A form at one of its tile shapes, on a case.
struct Run {
  const Room& room;
  const KernelForm& form;
  Format precision;
  int tile;
  const Problem& problem;
  int seq_len;

  KernelUnderTest kernel() const { return {&form, precision, tile, 1}; }
};

/// The facts about a case before anyone is judged.
struct Known {
  Expectation expectation;
  Tensors baseline = {};          ///< for those rules that want one; empty where only the judge is asked
  Named<Expected> by_model = {};  ///< empty where only the judge is asked
  std::shared_ptr<const Oracle> oracle = {};
  std::shared_ptr<OtherAlgorithms> others = {};
  Format precision = Format::exact;
  int keys = 0;
};

bool fails_by_model(const Known& known, const Tensors& answer) {
  return std::any_of(known.by_model.begin(), known.by_model.end(), [&](const auto& tensor) {
    const auto found = std::ranges::find_if(answer, [&](const auto& got) { return got.first == tensor.first; });
    if (found == answer.end()) return false;
    OtherAlgorithms* const others = known.others.get();
    return judge_by_model(tensor.second, known.precision, found->second, 1, others, tensor.first).verdict ==
           Verdict::fail;
  });
}

/// The judge's verdict on an answer, or on one of its tensors.
struct Judged {
  LayerReport layers;  ///< of the tensors that are not the healthy kernel's
  std::string reason;  ///< of the first tensor that fails
  bool vacuous = false, undecided = false, unsupported = false;
};
Judged judged(const Known& known, const Tensors& answer, bool of_healthy, std::string_view only = {}) {
  Judged result;
  for (std::size_t t = 0; t < answer.size(); ++t) {
    const auto& [name, expected] = known.expectation.tensors[t];
    if (!only.empty() && name != only) continue;
    if (!of_healthy && answer[t].second == known.expectation.emulated[t].second) continue;
    const Judgement j = judge(expected, answer[t].second);
    result.layers.join(layers_of(expected, answer[t].second, j));
    result.vacuous |= j.verdict == Verdict::vacuous || j.verdict == Verdict::unseen;
    result.undecided |= j.verdict == Verdict::undecided;
    result.unsupported |= j.verdict == Verdict::unsupported;
    if (j.verdict == Verdict::fail && result.reason.empty()) result.reason = name + ": " + j.reason;
  }
  return result;
}

enum class Rules { judge, all };

/// As `assay report` judges.
Known known_of(const Run& run, Rules rules) {
  const KernelUnderTest kernel = run.kernel();
  auto oracle = std::make_shared<const Oracle>(oracle_of(run.room, run.problem));
  Learnt learnt = learn({.room = run.room, .kernel = kernel, .problem = run.problem, .oracle = *oracle});
  Known known{.expectation = std::move(learnt.expectations.front()), .precision = run.precision, .keys = run.seq_len};
  if (rules == Rules::judge) return known;
  Policy policy = kernel.policy();
  policy.rounding = Rounding::jittered;
  policy.seed = Stream(0, "baseline").bits(0);  // none of the draws
  known.baseline = in_report_order(run.form.run(run.problem, policy, run.tile), known.expectation);
  if (learnt.sharper) oracle = std::make_shared<const Oracle>(*learnt.sharper);
  std::map<std::string, Format> formats;
  for (const auto& [name, truth] : oracle->tensors) formats[name] = Format::fp64;
  for (const auto& [name, expected] : known.expectation.tensors) formats[name] = expected.ulp_format;
  const auto stored = [formats](const std::string& tensor) { return formats.at(tensor); };
  known.by_model = expect_by_model(*oracle, model_runs(run.problem, run.precision, default_draws, 1), stored);
  known.others = std::make_shared<OtherAlgorithms>(run.problem, *oracle, run.precision, default_draws, 1, stored);
  known.oracle = std::move(oracle);
  return known;
}

/// The rules that reject one of the answer's tensors: the judge if it has a `reason`, rivals, and the model.
std::vector<bool> rejections(const Known& known, const Tensors& answer, const std::string& reason) {
  std::vector<bool> rejected(rule_count());
  rejected[judge_rule] = !reason.empty();
  rejected[model_rule()] = fails_by_model(known, answer);
  for (std::size_t t = 0; t < known.baseline.size() && t < answer.size(); ++t) {
    const auto& [name, expected] = known.expectation.tensors[t];
    const std::vector<double> want = nearest_doubles(expected.value);
    const Evidence evidence{.dtype = expected.ulp_format,
                            .gradient = name.starts_with("d_"),
                            .of_key_or_value = name == "d_k" || name == "d_v",
                            .keys = known.keys,
                            .want = want,
                            .got = answer[t].second,
                            .baseline = known.baseline[t].second};
    for (std::size_t r = 0; r < rivals().size(); ++r)
      if (!rejected[r + 1] && !rivals()[r].accepts(evidence)) rejected[r + 1] = true;
  }
  return rejected;
}

// ---- kill table ----------------------------------------------------------------------------------------------------

/// One case of one form, and what became of every mutant on it.
struct TrialResult {
  struct Seen {
    bool shown = false;
    Judged judged;
    std::vector<bool> rejected;
  };
  std::string alarm;           ///< why the judge rejects the healthy kernel, if it does
  std::vector<bool> rejected;  ///< the rules that do
  std::vector<Seen> mutants;
};

TrialResult run_trial(const Subject& s, const FaultTrial& trial, HeldOut which) {
  const Known known = known_of(
      {*s.room, *s.healthy, trial.spec.precision, trial.tile, trial.problem, trial.spec.shape.seq_len}, Rules::all);
  const Tensors& healthy = known.expectation.emulated;
  TrialResult result;
  result.alarm = judged(known, healthy, true).reason;
  result.rejected = rejections(known, healthy, result.alarm);
  for (const KernelForm* twin : s.twins(which))
    for (const Mutant& mutant : twin->mutants) {
      Policy policy = KernelUnderTest{twin, trial.spec.precision, trial.tile, 1}.policy();
      policy.fault = mutant.name;
      const Tensors got = in_report_order(twin->run(trial.problem, policy, trial.tile), known.expectation);
      TrialResult::Seen& seen = result.mutants.emplace_back();
      seen.shown = got != healthy;  // NaN is not equal to itself
      if (!seen.shown) continue;
      seen.judged = judged(known, got, false);
      seen.rejected = rejections(known, got, seen.judged.reason);
    }
  return result;
}

void enter(MutantRow& row, const TrialResult& result, const TrialResult::Seen& seen, const FaultTrial& trial) {
  const Format precision = trial.spec.precision;
  ++row.trials;
  if (!seen.shown) return;
  ++row.shown[precision];
  for (std::size_t r = 0; r < row.kills.size(); ++r)
    if (seen.rejected[r] && !result.rejected[r]) ++row.kills[r][precision];
  if (result.rejected[judge_rule]) return;
  row.layers.join(seen.judged.layers);
  if (row.conviction.empty() && !seen.judged.reason.empty()) row.conviction = trial.repro() + ": " + seen.judged.reason;
}

// ---- healthy runs --------------------------------------------------------------------------------------------------

struct HealthyCase {
  const Subject* subject = nullptr;
  CaseSpec spec;
  Problem problem;
  int tile = 0;
};

/// The case of that number: lengths around the edges of tiles, every style, precision, setting and tile shape.
HealthyCase healthy_case(const std::vector<Subject>& subjects, const MutantOptions& options, int number) {
  const Subject& s = subjects[static_cast<std::size_t>(number) % subjects.size()];
  for (int attempt = 0;; ++attempt) {
    const Stream stream(options.seed, text("healthy/", number, "/", attempt));
    std::uint64_t at = 0;
    const auto one_of = [&](const auto& list) {
      return std::data(list)[stream.integer(at++, static_cast<int>(std::size(list)))];
    };
    CaseSpec spec{.mechanism = std::string(s.room->name), .shape = {}, .seed = stream.bits(1000) >> 32};
    spec.style = one_of(all_styles);
    spec.precision = options.precisions.empty() ? one_of(case_precisions) : one_of(options.precisions);
    spec.params = one_of(s.room->variants());
    spec.shape.seq_len = one_of(std::vector{1, 2, 15, 16, 17, 31, 32, 33, 47, 49, 63, 64, 65, 70});
    spec.shape.key_dim = one_of(std::vector{1, 2, 5, 8, 16});
    spec.shape.value_dim = one_of(std::vector{1, 3, 8, 16});
    spec.shape.shared_heads = one_of(std::vector{1, 2});
    spec.shape.heads = spec.shape.shared_heads * one_of(std::vector{1, 2});
    if (s.healthy->iterative) {  // each step is a pass over the keys, and eight bits leave no small error to a solve
      if (info(spec.precision).bits == 8) spec.precision = Format::fp16;
      spec.shape.seq_len = std::min(spec.shape.seq_len, 17);
      spec.shape.key_dim = std::min(spec.shape.key_dim, 8);
      spec.shape.heads = spec.shape.shared_heads;
    }
    if (const auto blocks = spec.params.find("blocks"); blocks != spec.params.end()) {
      const int count = static_cast<int>(std::get<long>(blocks->second));
      spec.shape.key_dim = (spec.shape.key_dim + count - 1) / count * count;  // they are equally large
    }
    if (!groups_heads(s.room->inputs())) spec.shape.shared_heads = 0;
    if (s.healthy->name == "split_decode") spec.shape.query_len = std::min(3, spec.shape.seq_len);
    Problem problem = s.room->make(spec);
    if (!s.healthy->obstacle(problem).empty()) continue;
    if (!s.healthy->has_gradients) problem.cotangents.clear();
    return {&s, std::move(spec), std::move(problem), stream.integer(at++, static_cast<int>(s.healthy->tiles.size()))};
  }
}

struct HealthyResult {
  bool answered = false, widened = false, widened_sums = false;
  int tensors = 0;
  Judged judged;
  std::vector<bool> rejected;
  std::string command;
};

/// `assay report` of that case alone.
std::string report_command(const HealthyCase& c) {
  const KernelForm& form = *c.subject->healthy;
  const std::string tile = c.tile == 0 ? "" : text(" --tile ", form.tiles[static_cast<std::size_t>(c.tile)]);
  return text("build/assay report --mechanism ", c.spec.mechanism, " --form ", form.name, tile, " --precision ",
              name_of(c.spec.precision), " --device cpu --shape ", text_of(c.spec.shape), " --style ",
              name_of(c.spec.style), " --seed ", c.spec.seed, flags_of(c.spec.params));
}

HealthyResult run_healthy_case(const HealthyCase& c, Rules rules) {
  HealthyResult result;
  result.command = report_command(c);
  std::optional<Known> known;
  try {
    known = known_of({*c.subject->room, *c.subject->healthy, c.spec.precision, c.tile, c.problem, c.spec.shape.seq_len},
                     rules);
  } catch (const InputError&) {  // no enclosure decides a comparison of equal numbers
    return result;
  }
  const Tensors& answer = known->expectation.emulated;
  result.answered = true, result.tensors = static_cast<int>(answer.size());
  result.judged = judged(*known, answer, true);
  for (const auto& [name, expected] : known->expectation.tensors) {
    result.widened = result.widened || expected.stall > 0;
    result.widened_sums = result.widened_sums || std::ranges::any_of(expected.sums, &SliceSum::widened);
  }
  result.rejected = rejections(*known, answer, result.judged.reason);
  return result;
}

// ---- shrinking -----------------------------------------------------------------------------------------------------

/// A mutant, and whether a tensor fails on a case.
struct Faulty {
  const Subject& subject;
  std::string_view mutant;

  /// Throws InputError where the kernel does not take the case.
  bool fails(const CaseSpec& spec) const {
    const KernelForm& healthy = *subject.healthy;
    const Problem problem = subject.room->make(spec);
    const std::string obstacle = healthy.obstacle(problem);
    require(obstacle.empty(), obstacle);
    const int tile = smallest_tile(healthy);
    Policy policy = KernelUnderTest{&healthy, spec.precision, tile, 1}.policy();
    policy.fault = mutant;
    const Answer got = healthy.run(problem, policy, tile), right = healthy.run(problem, policy.healthy(), tile);
    if (got.outputs == right.outputs && got.gradients == right.gradients) return false;
    const Expectation expected =
        expect(oracle_of(*subject.room, problem), {&healthy, spec.precision, tile, 1}, problem, shrink_draws);
    const Tensors answers = in_report_order(got, expected);
    for (std::size_t t = 0; t < answers.size(); ++t)
      if (judge(expected.tensors[t].second, answers[t].second).verdict == Verdict::fail) return true;
    return false;
  }
  bool fails_if_taken(const CaseSpec& spec) const {
    try {
      return fails(spec);
    } catch (const InputError&) {
      return false;
    }
  }

  static constexpr int shrink_draws = 8;
};

/// Every style, precision and setting, over a few seeds.
bool shows_in_one_head(const Faulty& faulty, CaseSpec spec) {
  constexpr std::uint64_t seeds = 3;
  spec.shape.batch = spec.shape.heads = 1, spec.shape.shared_heads = 0;
  for (std::uint64_t seed = spec.seed, end = seed + seeds; seed < end; ++seed)
    for (const Style style : all_styles)
      for (const Format precision : fault_precisions)
        for (const Params& params : faulty.subject.room->variants()) {
          spec.seed = seed, spec.style = style, spec.precision = precision, spec.params = params;
          if (faulty.fails_if_taken(spec)) return true;
        }
  return false;
}

std::optional<ShrinkRow> shrink_fault(const Faulty& faulty, std::uint64_t seed) {
  const Subject& s = faulty.subject;
  CaseSpec spec{std::string(s.room->name), {2, 109, 4, 2, 16, 12, 0}, Format::bf16, Style::normal, seed, {}};
  if (s.healthy->iterative) spec.shape = {2, fault_length, 4, 2, 8, 6, 0};
  const bool grouped = groups_heads(s.room->inputs());
  if (!grouped) spec.shape.shared_heads = 0;
  if (s.healthy->name == "split_decode") spec.shape.query_len = 3;
  for (const Style style : fault_styles)
    for (const Format precision : {Format::bf16, Format::fp32})
      for (const Params& params : s.room->variants()) {
        spec.style = style, spec.precision = precision, spec.params = params;
        if (!faulty.fails_if_taken(spec)) continue;
        const Shrunk shrunk = shrink(
            spec, grouped, [&](const CaseSpec& smaller) { return faulty.fails(smaller); }, usual_shrink_runs);
        const Shape& shape = shrunk.spec.shape;
        ShrinkRow row{s.room->name, s.healthy->name, faulty.mutant, shrunk.spec, shrunk.runs, shrunk.stopped};
        const bool few = shape.seq_len <= few_tokens && shape.key_dim <= few_dims && shape.value_dim <= few_dims;
        row.small = few && shape.own() == 1 && !shrunk.stopped;
        row.one_group = few && shape.shared() == 1 && !shrunk.stopped;
        row.shows_in_one_head = row.small || shows_in_one_head(faulty, spec);
        return row;
      }
  return {};
}

// ---- power ---------------------------------------------------------------------------------------------------------

/// Ends early where enough seeds have missed it to say that the power is below 95%: in o, and in all outputs unless
/// that is `known_in_all` from a shorter length.
PowerRow power_at(const Subject& s, std::string_view mutant, Style style, int seq_len, std::uint64_t first_seed,
                  bool known_in_all) {
  constexpr int misses = 3;
  PowerRow row{.room = s.room->name, .form = s.healthy->name, .style = style, .seq_len = seq_len};
  const int tile = smallest_tile(*s.healthy);
  const auto goes_on = [&] {
    return row.seeds - row.in_reads < misses || (!known_in_all && row.seeds - row.detected < misses);
  };
  while (row.seeds < power_seeds && goes_on()) {
    CaseSpec spec{.mechanism = std::string(s.room->name),
                  .shape = {.seq_len = seq_len, .heads = 1, .key_dim = 16, .value_dim = 16},
                  .style = style,
                  .seed = first_seed + static_cast<std::uint64_t>(row.seeds)};
    if (s.healthy->iterative) spec.shape.key_dim = spec.shape.value_dim = 8;
    Problem problem = s.room->make(spec);
    problem.cotangents.clear();  // a state rounded in the forward pass shows there
    const Known known = known_of({*s.room, *s.healthy, spec.precision, tile, problem, seq_len}, Rules::judge);
    Policy policy = KernelUnderTest{s.healthy, spec.precision, tile, 1}.policy();
    policy.fault = mutant;
    const Tensors got = in_report_order(s.healthy->run(problem, policy, tile), known.expectation);
    const Judged read = judged(known, got, false, "o");
    ++row.seeds;
    row.detected += judged(known, got, false).reason.empty() ? 0 : 1;
    row.in_reads += read.reason.empty() ? 0 : 1;
    row.alarms += judged(known, known.expectation.emulated, true).reason.empty() ? 0 : 1;
    row.rms += (read.layers.rms - row.rms) / row.seeds;
  }
  return row;
}

template <class Wanted>
int count(const std::vector<MutantRow>& rows, Wanted wanted) {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(), wanted));
}

}  // namespace

std::string_view name_of(HeldOut which) {
  return which == HeldOut::too ? "too" : which == HeldOut::only ? "only" : "no";
}

std::string MutantOptions::command() const {
  std::string command = "build/assay-lab mutants";
  for (const std::string& mechanism : mechanisms) command += " --mechanism " + mechanism;
  for (const Format precision : precisions) command += text(" --precision ", name_of(precision));
  if (trials > 0) command += text(" --trials ", trials);
  if (healthy > 0) command += text(" --healthy ", healthy);
  if (healthy_only) command += " --healthy-only";
  if (shrinks) command += " --shrink";
  if (!power.empty()) command += " --power " + power;
  if (!power.empty() && power_tokens != MutantOptions{}.power_tokens) command += text(" --power-tokens ", power_tokens);
  if (arguments) command += " --arguments";
  if (held_out != HeldOut::too) command += text(" --held-out ", name_of(held_out));
  return command + text(" --seed ", seed);
}

int KillTable::shown() const {
  return count(rows, [](const MutantRow& row) { return row.shown.total() > 0; });
}
int KillTable::shown(Format precision) const {
  return count(rows, [&](const MutantRow& row) { return row.shown[precision] > 0; });
}
int KillTable::killed(std::size_t rule) const {
  return count(rows, [&](const MutantRow& row) { return row.killed(rule); });
}
int KillTable::killed(std::size_t rule, Format precision) const {
  return count(rows, [&](const MutantRow& row) { return row.kills[rule][precision] > 0; });
}
int KillTable::killed(Layer layer) const {
  return count(rows, [&](const MutantRow& row) { return row.killed() && row.layers.rejected_by(layer); });
}
double KillTable::share_of_cases(std::size_t rule) const {
  double cases = 0, kills = 0;
  for (const MutantRow& row : rows) cases += row.shown.total(), kills += row.kills[rule].total();
  return cases > 0 ? kills / cases : 0;
}
KillTable KillTable::part(bool held_out) const {
  KillTable table = *this;
  std::erase_if(table.rows, [held_out](const MutantRow& row) { return row.held_out != held_out; });
  return table;
}
std::vector<Format> KillTable::precisions() const {
  std::vector<Format> list;
  for (const Format format : all_formats)
    if (shown(format) > 0) list.push_back(format);
  return list;
}

KillTable make_kill_table(const MutantOptions& options, const WorkDone& done) {
  const std::vector<Subject> subjects = subjects_of(options);
  struct Task {
    const Subject* subject;
    FaultTrial trial;
  };
  std::vector<Task> tasks;
  for (std::size_t place = 0; place < subjects.size(); ++place) {
    if (place % static_cast<std::size_t>(options.parts) != static_cast<std::size_t>(options.part - 1)) continue;
    const Subject& s = subjects[place];
    const std::span<const Format> precisions =
        options.precisions.empty() ? fault_precisions_of(*s.healthy) : options.precisions;
    std::vector<FaultTrial> trials = options.arguments
                                         ? argument_trials(s, options)
                                         : fault_trials(*s.room, *s.healthy, fault_styles, precisions, options.seed);
    for (const ExactTrials& of : options.arguments ? std::span<const ExactTrials>() : exact_trials)
      for (FaultTrial& exact :
           fault_trials(*s.room, *s.healthy, {&of.style, 1}, {&of.precision, 1}, options.seed, of.seq_len)) {
        const bool met = std::any_of(trials.begin(), trials.end(), [&](const FaultTrial& other) {
          return other.spec.precision == exact.spec.precision && other.problem.params == exact.problem.params &&
                 other.problem.inputs == exact.problem.inputs;
        });
        if (!met) trials.push_back(std::move(exact));  // softmax attention has no numbers of its own in `dyadic`
      }
    if (options.trials > 0 && trials.size() > static_cast<std::size_t>(options.trials))
      trials.erase(trials.begin() + options.trials, trials.end());
    for (FaultTrial& trial : trials) tasks.push_back({&s, std::move(trial)});
  }
  const std::vector<TrialResult> results = in_parallel<TrialResult>(
      tasks.size(), options.threads,
      [&](std::size_t i) { return run_trial(*tasks[i].subject, tasks[i].trial, options.held_out); },
      [&](std::size_t i) { return text(tasks[i].subject->room->name, " ", tasks[i].subject->healthy->name); }, done);

  KillTable table{.options = options, .rows = {}, .alarms = std::vector<int>(rule_count()), .judged = {}};
  std::size_t first = 0;  // row of the subject's first mutant
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto& [subject, trial] = tasks[i];
    if (i == 0 || tasks[i - 1].subject != subject) {
      first = table.rows.size();
      for (const KernelForm* twin : subject->twins(options.held_out))
        for (const Mutant& mutant : twin->mutants)
          table.rows.push_back({.room = subject->room->name,
                                .form = subject->healthy->name,
                                .mutant = &mutant,
                                .shown = {},
                                .kills = std::vector<Counts>(rule_count()),
                                .layers = {},
                                .conviction = {},
                                .held_out = twin == subject->held_out});
      table.places.resize(table.rows.size(), static_cast<std::size_t>(subject - subjects.data()));
    }
    const TrialResult& result = results[i];
    ++table.healthy_runs;
    if (!result.alarm.empty()) table.judged.push_back(trial.repro() + ": " + result.alarm);
    for (std::size_t r = 0; r < table.alarms.size(); ++r) table.alarms[r] += result.rejected[r] ? 1 : 0;
    for (std::size_t m = 0; m < result.mutants.size(); ++m)
      enter(table.rows[first + m], result, result.mutants[m], trial);
  }
  return table;
}

HealthyTable run_healthy(const MutantOptions& options, const WorkDone& done) {
  const std::vector<Subject> subjects = subjects_of(options);
  HealthyTable table{.asked = options.healthy, .rejected = std::vector<int>(rule_count()), .alarms = {}};
  const auto take = [&](std::size_t, const HealthyResult& result) {
    ++table.drawn;
    if (!result.answered) {
      ++table.unanswered;
      return;
    }
    ++table.runs;
    table.tensors += result.tensors, table.widened += result.widened ? 1 : 0;
    table.widened_sums += result.widened_sums ? 1 : 0;
    for (std::size_t r = 0; r < table.rejected.size(); ++r) table.rejected[r] += result.rejected[r] ? 1 : 0;
    if (!result.judged.reason.empty())
      table.alarms.push_back({result.command, result.judged.reason});
    else if (result.judged.unsupported)
      ++table.overflowing;
    else if (result.judged.undecided)
      ++table.undecided;
    else if (result.judged.vacuous)
      ++table.vacuous;
  };
  const auto count = static_cast<std::size_t>(options.healthy);
  in_order(
      count, {options.threads, options.seconds},
      [&](std::size_t i) {
        return run_healthy_case(healthy_case(subjects, options, static_cast<int>(i)),
                                options.healthy_only ? Rules::judge : Rules::all);
      },
      take,
      [&](std::size_t i) {
        const Subject& s = subjects[i % subjects.size()];
        done(count, text("healthy ", s.room->name, " ", s.healthy->name));
      });
  return table;
}

std::vector<ShrinkRow> measure_shrinking(const MutantOptions& options, const std::function<bool()>& takes,
                                         const WorkDone& done) {
  const std::vector<Subject> subjects = subjects_of(options);
  std::vector<Faulty> faults;
  for (const Subject& s : subjects)
    for (const Mutant& mutant : s.healthy->mutants)
      if (takes()) faults.push_back({s, mutant.name});
  const auto results = in_parallel<std::optional<ShrinkRow>>(
      faults.size(), options.threads, [&](std::size_t i) { return shrink_fault(faults[i], options.seed); },
      [&](std::size_t i) { return text("shrink ", faults[i].subject.room->name, " ", faults[i].mutant); }, done);
  std::vector<ShrinkRow> rows;
  for (const std::optional<ShrinkRow>& row : results)
    if (row) rows.push_back(*row);
  return rows;
}

std::vector<PowerRow> measure_power(const MutantOptions& options, const WorkDone& done) {
  std::vector<Subject> subjects = subjects_of(options);
  std::erase_if(subjects, [&](const Subject& s) {
    return std::ranges::none_of(s.healthy->mutants, [&](const Mutant& m) { return m.name == options.power; });
  });
  require(!subjects.empty(), "--power: none of these kernels has a mutant ", options.power);
  const auto subject_of = [&](std::size_t i) -> const Subject& { return subjects[i / std::size(power_styles)]; };
  const auto lists = in_parallel<std::vector<PowerRow>>(
      subjects.size() * std::size(power_styles), options.threads,
      [&](std::size_t i) {
        std::vector<PowerRow> rows;
        for (const int seq_len : power_lengths) {
          if (seq_len > options.power_tokens) break;
          const Style style = power_styles[i % std::size(power_styles)];
          const bool found = std::ranges::any_of(rows, [](const PowerRow& row) { return row.detected == power_seeds; });
          rows.push_back(power_at(subject_of(i), options.power, style, seq_len, options.seed, found));
          if (rows.back().in_reads == power_seeds) break;
        }
        return rows;
      },
      [&](std::size_t i) { return text("power ", subject_of(i).room->name, " ", subject_of(i).healthy->name); }, done);
  std::vector<PowerRow> rows;
  for (const std::vector<PowerRow>& list : lists) rows.insert(rows.end(), list.begin(), list.end());
  return rows;
}

}  // namespace assay
