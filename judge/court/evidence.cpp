#include "judge/court/evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "files/problem_file.hpp"
#include "judge/contract/contract.hpp"
#include "judge/court/cache.hpp"
#include "judge/court/head_part.hpp"
#include "judge/sigma/by_model.hpp"
#include "judge/sigma/other_algorithms.hpp"
#include "judge/sigma/spread.hpp"
#include "judge/sigma/stored.hpp"
#include "judge/verdict/locate.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "oracles/multiword/parallel_sums.hpp"

namespace assay {
namespace {

/// Tensors of fewer elements than this are numbers that stand alone.
constexpr std::size_t single_numbers = 8;

std::string times(double x) { return fmt::format("{:.{}f} times", x, x < 10 ? 1 : 0); }

/// The judgement with its advice as the end of its reason.
Judgement with_advice(Judgement j) {
  if (!j.advice.empty()) j.reason += "; " + std::exchange(j.advice, {});
  return j;
}

Weighed weighed_of(const Judgement& j, double factor = 1) {
  return {j.verdict, j.excess * factor, with_advice(j).reason};
}

/// The reason of a tensor of which no kernel of the contract answers numbers; `reason` names one that is none.
std::string unseen_by_overflow(const std::string& reason, const std::string& contract) {
  return text("nothing to see: ", reason, "; the roundings of contract ", contract,
              " overflow, too: the case's numbers are too large for it");
}

/// The same trial under that kernel's contract.
Trial under(const Trial& trial, const KernelUnderTest& kernel) {
  Trial other = trial;
  other.kernel = kernel, other.others = {};
  other.detects = false;
  return other;
}

bool is_finite(const std::vector<double>& x) {
  return std::all_of(x.begin(), x.end(), [](double one) { return std::isfinite(one); });
}

/// Limits are below 8 sigmas whatever the tensor, and one run is seldom below a quarter of its sigma.
constexpr double of_any = 32;

/// How many times a run's root mean square an answer may err and keep the limits that more runs would show. Its own
/// limit allows a kernel that errs sqrt(2) times as much as kernels do on average; what is left of it, squared, is how
/// far a run may be below that (quantiles of chi-square, in as many numbers as most of the error is in).
double farthest(const ReportRow& row, double rate) {
  if (row.expected == nullptr) return of_any;
  double squares = 0, fourth = 0;
  for (const double sigma : row.expected->sigma) {
    const double square = sigma * sigma;
    squares += square, fourth += square * square;
  }
  if (!(fourth > 0)) return of_any;
  const Spread most{.sigma = {}, .freedom = {}, .independent = squares * squares / fourth, .draws = default_draws};
  const double limit = std::max(row.expected->rms_limit, rms_limit(most, rate));
  return std::min(of_any, limit * limit * limit / 2);
}

double rms_between(const std::vector<double>& x, const Oracle::Tensor& truth) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(x[i] - truth.value[i].hi, 2);
  return std::sqrt(sum / static_cast<double>(x.size()));
}

/// Whether an answer errs at all like a run, at most `far` times as much: otherwise more runs would not allow it.
bool errs_like(const std::vector<double>& run, const std::vector<double>& answer, const Oracle::Tensor& truth,
               double far) {
  return is_finite(run) ? rms_between(answer, truth) <= far * rms_between(run, truth) : !is_finite(answer);
}

/// Tensors, by name.
using Tensors = std::set<std::string>;

/// The rows of Trial::others for those tensors that do not keep the contract by a wide margin in the tile program's
/// form: a kernel whose form is not known may be of any. Each is run when it is first asked for. Refers to what it is
/// made of.
class OtherForms {
 public:
  /// `settled`: tensors that no form allows.
  OtherForms(const Trial& trial, const std::vector<ReportRow>& rows, const Answer& got, const Arrays& answered,
             const Tensors& settled = {})
      : trial_(trial), got_(got), answered_(answered) {
    if (trial.others == nullptr || trial.kernel.form == nullptr) return;
    for (const ReportRow& row : rows) {
      if (settled.contains(row.tensor)) continue;
      // A row that no form allows needs no other form.
      const bool kept = row.judgement.verdict != Verdict::fail && row.judgement.excess <= wide_margin;
      if (kept || (trial.strict_dtypes && !row.stored.empty())) continue;
      rejected_[row.tensor] = farthest(row, trial.false_alarms), blank_ = row;
    }
    blank_.by_model.reset(), blank_.by_contract.reset(), blank_.evidence.clear(), blank_.detects.reset();
  }

  /// The row of that tensor in the first form of which it keeps such a part of the limits; or null.
  const ReportRow* passing(const std::string& tensor, double margin = 1) {
    if (!rejected_.contains(tensor)) return nullptr;
    if (!forms_) forms_ = trial_.others();
    for (std::size_t n = 0; n < forms_->size(); ++n) {
      if (n == judged_.size()) judged_.push_back(judged_by((*forms_)[n]));
      for (const ReportRow& row : judged_[n])
        if (row.tensor == tensor && keeps(row, margin)) return &row;
    }
    return nullptr;
  }

 private:
  /// Whether the answer is within such a part of the form's limits.
  bool keeps(const ReportRow& row, double margin) const {
    return is_within(row.judgement.verdict) &&
           (margin == 1 || row.expected == nullptr ||
            !rejects(with_limits(*row.expected, margin), answered_.at(row.tensor).data));
  }

  std::vector<ReportRow> judged_by(const OtherForm& form) {
    Trial other = under(trial_, trial_.kernel);
    other.kernel.form = form.form.get(), other.kernel.tile = 0;
    other.tiles.clear(), other.phase = {};
    ReportRow row = blank_;
    const std::string first = text("--form ", row.form, ' ');
    if (const std::size_t at = row.command.find(first); at != std::string::npos && form.is_named)
      row.command.replace(at, first.size(), text("--form ", form.form->name, ' '));
    row.form = form.form->name;
    std::vector<ReportRow> rows;
    try {
      const Tensors near = near_to(emulated(other));
      if (near.empty()) return {};
      rows = judge_rows(other, row, got_, [&](const auto& name) { return near.contains(name); });
    } catch (const InputError&) {  // its arithmetic overflows: infinities have no difference
      rows = blank_rows(other, row, [&](const auto& name) { return rejected_.contains(name); });
      for (ReportRow& judged : rows) judged.judgement.verdict = Verdict::unsupported;
    }
    for (ReportRow& judged : rows) {
      judged.evidence = text("contract ", judged.contract, ", ", form.how);
      if (judged.judgement.verdict != Verdict::unsupported || is_finite(answered_.at(judged.tensor).data)) continue;
      judged.judgement.verdict = Verdict::unseen;
      judged.judgement.reason = unseen_by_overflow("the answer has numbers that are none", judged.contract);
    }
    return rows;
  }

  /// The rejected tensors that err at all like one run of a form; more runs would allow no other.
  Tensors near_to(const Named<std::vector<double>>& run) const {
    Tensors near;
    for (const auto& [name, truth] : trial_.oracle.tensors)
      for (const auto& [tensor, values] : run)
        if (const auto far = rejected_.find(name);
            tensor == name && far != rejected_.end() && errs_like(values, answered_.at(name).data, truth, far->second))
          near.insert(name);
    return near;
  }

  const Trial& trial_;
  const Answer& got_;
  const Arrays& answered_;  // the same, flat
  ReportRow blank_;
  std::map<std::string, double> rejected_;  // how many times as large as a run's their errors may be
  std::optional<std::vector<OtherForm>> forms_;
  std::vector<std::vector<ReportRow>> judged_;  // by form
};

/// Searches the other contracts for one under which a tensor passes.
using PassingRow = std::function<const ReportRow*(const ReportRow& row)>;

/// Adds to the reason of a FAIL by a contract which of the two kinds it is.
void say_which(ReportRow& row, const Judgement& by_model, double factor) {
  if (row.judgement.verdict != Verdict::fail) return;
  const double excess = by_model.excess * factor;
  if (passes(by_model.verdict))
    row.judgement.reason += text("; within any algorithm's error (", times(excess), " its own roundings, up to ",
                                 factor, " pass), beyond contract ", row.contract);
  else if (by_model.verdict == Verdict::fail)
    row.judgement.reason += text("; beyond any algorithm (", times(excess), " what the precision rounds)");
  else if (by_model.verdict == Verdict::undecided)
    row.judgement.reason += text("; left open by the model (", by_model.reason, "), beyond contract ", row.contract);
}

/// Names another contract that allows a FAIL by a contract, where that is not beyond any algorithm.
void say_who_allows(std::vector<ReportRow>& rows, const PassingRow& passing) {
  for (ReportRow& row : rows) {
    if (row.judgement.verdict != Verdict::fail || !row.by_model || row.by_model->verdict == Verdict::fail) continue;
    if (const ReportRow* found = passing(row)) row.judgement.reason += "; passes under contract " + found->contract;
  }
}

/// Expectations of the tensors of `rows` by the model.
class ModelTrial {
 public:
  ModelTrial(const Trial& trial, Format precision, const std::vector<ReportRow>& rows, const Arrays& answered)
      : trial_(trial),
        answered_(answered),
        threads_(trial.kernel.threads),
        of_each_(words::threads_of_each(threads_, rows.size())),
        runs_{.precision = precision, .drawn = {}} {
    if (const KernelUnderTest& kernel = trial.kernel; kernel.form != nullptr && kernel.contract != nullptr &&
                                                      kernel.contract->has_blocks() && precision == kernel.precision)
      runs_.operands = BlockOperands::of(kernel.policy(), precision);
    const Named<Oracle::Tensor>& tensors = trial.oracle.tensors;
    std::vector<Format> formats(tensors.size());
    words::in_parallel(tensors.size(), threads_, [&](std::size_t t) { formats[t] = format_of(tensors[t].first); });
    for (std::size_t t = 0; t < tensors.size(); ++t)
      stored_[tensors[t].first] = formats[t], open_.insert(tensors[t].first);
    const auto leaves_open = [&](const std::function<bool(const ReportRow&)>& is_open) {
      std::vector<char> open(rows.size());
      words::in_parallel(rows.size(), threads_, [&](std::size_t i) { open[i] = is_open(rows[i]) ? 1 : 0; });
      open_.clear();
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (open[i] != 0) open_.insert(rows[i].tensor);
      return !open_.empty();
    };
    for (const int draws : {few_draws, 8, default_draws}) {
      learn(draws);
      if (!leaves_open([&](const ReportRow& row) { return !settles(row) && !(is_large(trial) && fails_by_far(row)); }))
        return;
    }
    // A number that stands alone has no neighbours to learn sigma from, and gets more draws where they may show it.
    if (leaves_open([&](const ReportRow& row) { return shows_later(row); })) learn(draws_of_numbers);
  }

  /// All that what is expected depends on.
  std::string key() const {
    std::string key = fmt::format("model {} {} draws {} rate {} sharp {}", trial_.digest, name_of(runs_.precision),
                                  draws_, trial_.false_alarms, sharp_);
    key += runs_.operands.key();
    for (const auto& [name, format] : stored_) key += fmt::format(" {}:{}", name, name_of(format));
    for (const auto& [name, expected] : expected_->tensors) key += fmt::format(" {} of {}", expected.draws, name);
    return key;
  }

  /// The expectations of all tensors, without what the kernel answers.
  const Expectation& all() const { return *expected_; }

  /// The expectation of the row's tensor; null where nothing is known of it. It changes where judge() asks for more.
  std::shared_ptr<const Expected> expected(const ReportRow& row) {
    const auto found = find(row.tensor);
    if (found == expected_->tensors.end()) return nullptr;
    found->second.place = row.place;
    return {expected_, &found->second};  // all are kept while one is
  }

  /// The judgement of the row's tensor by the limits alone; nothing where nothing is known of it.
  std::optional<Judgement> judge_by_limits(const ReportRow& row) {
    const auto values = answered_.find(row.tensor);
    const auto found = find(row.tensor);
    if (values == answered_.end() || found == expected_->tensors.end()) return std::nullopt;
    if (const auto passed = passed_.find(row.tensor); passed != passed_.end()) return passed->second;
    found->second.place = row.place;
    return judge_by_model(found->second, runs_.precision, values->second.data, threads_);
  }

  /// As above, and by what else could allow it: if few draws were enough to fail it and something does, by all draws.
  std::optional<Judgement> judge(const ReportRow& row) {
    const auto found = find(row.tensor);
    const bool by_few = !is_part(trial_) && found != expected_->tensors.end() && found->second.draws < default_draws &&
                        !passed_.contains(row.tensor) && fails_by_far(row);
    std::optional<Judgement> judgement = judge_by_these_draws(row);
    if (!by_few || judgement->verdict == Verdict::fail) return judgement;
    open_ = {row.tensor}, others_.reset();
    learn(default_draws);
    return judge_by_these_draws(row);
  }

 private:
  /// Where the oracle is not sharp enough it is asked again in four words.
  std::optional<Judgement> judge_by_these_draws(const ReportRow& row) {
    const auto values = answered_.find(row.tensor);
    if (values == answered_.end()) return std::nullopt;
    for (;;) {
      const std::shared_ptr<const Expected> found = expected(row);
      if (found == nullptr) return std::nullopt;
      if (const auto passed = passed_.find(row.tensor); passed != passed_.end()) return passed->second;
      Judgement judgement = judge_by_model(*found, runs_.precision, values->second.data, threads_, &others(),
                                           row.tensor, find_kernels(kernel_rooms(), trial_.room.name) != nullptr);
      if (judgement.verdict != Verdict::undecided || judgement.bound_over_sigma <= oracle_share || sharp_)
        return judgement;
      sharp_ = true;
      for (const auto& [name, known] : expected_->tensors) open_.insert(name);
      learn(draws_);
    }
  }

  Named<Expected>::iterator find(const std::string& tensor) {
    return std::find_if(expected_->tensors.begin(), expected_->tensors.end(),
                        [&](const auto& e) { return e.first == tensor; });
  }

  /// Of chi-square / freedom, so many normal deviations from its middle (Wilson and Hilferty, PNAS 17, 1931).
  static double quantile_of_variance(double freedom, double deviations) {
    const double spread = 2 / (9 * freedom), root = std::max(0.0, 1 - spread + deviations * std::sqrt(spread));
    return root * root * root;
  }

  /// Whether it is as far beyond what FAILs as that is beyond what passes. Limits of few draws raise no more false
  /// alarms than those of many: these would tell a close call.
  bool fails_by_far(const ReportRow& row) {
    const auto found = find(row.tensor);
    const auto values = answered_.find(row.tensor);
    if (found == expected_->tensors.end() || values == answered_.end()) return false;
    const Judgement j = judge_by_model(found->second, runs_.precision, values->second.data, of_each_);
    const auto [passes, fails] = model_factor(runs_.precision);
    return j.verdict == Verdict::fail && j.excess > fails / passes * (fails / passes);
  }

  /// Whether a few draws are enough: the answer would pass if every sigma were as small as they leave possible, each
  /// with the probability that a healthy element is beyond its limit. Then more draws say nothing else. Nor do they of
  /// a number in which there is nothing to see, nor of copies that another tensor rejects and this one never will.
  bool settles(const ReportRow& row) {
    const auto found = find(row.tensor);
    const auto values = answered_.find(row.tensor);
    if (found == expected_->tensors.end() || values == answered_.end()) return true;  // more draws know nothing either
    const Expected& e = found->second;
    const double factor = model_factor(runs_.precision).passes, sigmas = e.known_reach / factor;
    const double squares = words::sum_of_blocks(e.sigma.size(), of_each_, [&](std::size_t first, std::size_t last) {
      double sum = 0;
      for (std::size_t i = first; i < last; ++i) {
        const double z = z_at(e, values->second.data, i), squared = z * z * quantile_of_variance(e.freedom[i], sigmas);
        if (!(squared <= e.known_reach * e.known_reach)) return std::numeric_limits<double>::infinity();
        sum += squared;
      }
      return sum;
    });
    if (std::sqrt(squares / static_cast<double>(std::max<std::size_t>(e.sigma.size(), 1))) > factor) return false;
    const Judgement j = judge_by_model(e, runs_.precision, values->second.data, of_each_);
    if (j.verdict == Verdict::pass) {
      const std::lock_guard lock(guard_);
      passed_[row.tensor] = j;
    }
    if (j.verdict == Verdict::vacuous)
      return !trial_.strict && hides_as_much_later(e, values->second.data) && is_shown_by_others(j);
    return j.verdict == Verdict::pass ||
           (j.verdict == Verdict::unseen && e.value.size() < single_numbers && !shows_later(row));
  }

  /// Whether limits of as many draws as there may be would let such copies pass, too, were every sigma as small as one
  /// in a thousand is.
  bool hides_as_much_later(Expected e, const std::vector<double>& got) const {
    constexpr double rare = 3;  // normal deviations
    for (std::size_t i = 0; i < e.sigma.size(); ++i) {
      e.sigma[i] /= std::sqrt(quantile_of_variance(e.freedom[i], rare));
      e.freedom[i] = std::max(e.freedom[i], default_draws - 1.0);
    }
    set_reach(e, model_factor(runs_.precision).passes);
    return judge_by_model(e, runs_.precision, got, of_each_).verdict == Verdict::vacuous;
  }

  bool is_shown_by_others(const Judgement& vacuous) const {
    Shown shown;
    for (const auto& [name, expected] : expected_->tensors)
      if (const auto values = answered_.find(name); values != answered_.end())
        add_shown(judge_by_model(expected, runs_.precision, values->second.data, of_each_), shown);
    return is_shown(vacuous, shown);
  }

  /// Whether so many draws as numbers that stand alone get would show one that zero stands for now, if sigma stays as
  /// it is.
  bool shows_later(const ReportRow& row) {
    const auto found = find(row.tensor);
    if (found == expected_->tensors.end() || found->second.value.size() >= single_numbers) return false;
    const Expected& e = found->second;
    const double factor = model_factor(runs_.precision).passes, known = e.known_reach / factor;
    for (std::size_t i = 0; i < e.value.size(); ++i) {
      const double size = std::fabs(e.value[i].hi) - e.bound[i], sigma = e.sigma[i];
      double now = e.reach[i],
             later = factor * equivalent_sigmas(known, std::max(e.freedom[i], draws_of_numbers - 1.0));
      if (e.value.size() == 1) {  // whose root mean square is its own, and has the closer limit
        const double rate = limits_of(trial_.false_alarms, expected_->tensors.size(), 1).tensor_rate;
        const auto limit = [rate](double draws) {
          return rms_limit({.sigma = {}, .freedom = {}, .independent = 1, .draws = draws}, rate);
        };
        now = std::min(now, e.rms_limit);
        // Draws that know it as well; of what is known for certain (equivalent_sigmas), those that there are.
        const double seen = e.freedom[i] < 1e9 ? e.freedom[i] + 1 : e.draws,
                     later_seen = std::max<double>(seen, draws_of_numbers);
        later = std::min(later, e.rms_limit * limit(later_seen) / limit(seen));
      }
      if (sigma > 0 && size <= now * sigma && size > later * sigma) return true;
    }
    return false;
  }

  OtherAlgorithms& others() {
    if (!others_)
      others_.emplace(
          trial_.problem, trial_.oracle, runs_.precision, draws_, trial_.kernel.threads,
          [&](const std::string& name) { return stored_.at(name); }, trial_.false_alarms);
    return *others_;
  }

  /// In which a tensor of the answer is stored: as its numbers show, or its file says where that is narrower (fp8).
  Format format_of(const std::string& tensor) const {
    const auto found = answered_.find(tensor);
    if (found == answered_.end()) return Format::fp64;
    const Format shown = stored_format(found->second.data);
    const auto dtype = trial_.stored.find(tensor);
    return dtype != trial_.stored.end() && is_narrower(dtype->second, shown) ? dtype->second : shown;
  }

  void draw() {
    const auto all = static_cast<std::size_t>(draws_);
    if (runs_.drawn.size() >= all) return;
    std::atomic<std::size_t> done = runs_.drawn.size();
    const auto tell = [&] {
      if (trial_.phase) trial_.phase("draws of the model", done++, all);
    };
    tell();
    done = runs_.drawn.size() + 1;
    add_model_runs(runs_, trial_.problem, draws_, trial_.kernel.threads, tell);
  }

  /// Learns from so many draws what is expected of the tensors that are open.
  void learn(int draws) {
    draws_ = draws;
    for (auto& [name, expected] : by_model()) {
      expected.draws = draws;
      passed_.erase(name);
      if (const auto known = find(name); known != expected_->tensors.end())
        known->second = std::move(expected);
      else
        expected_->tensors.emplace_back(name, std::move(expected));
    }
  }

  Named<Expected> by_model() {
    std::string question = key() + " asked";
    for (const std::string& name : open_) question += ' ' + name;
    Named<Expected> kept = kept_in(trial_.cache, question, [&] {
      draw();
      const std::optional<Oracle> sharp =
          sharp_ ? std::optional(oracle_of(trial_.room, trial_.problem, 4)) : std::nullopt;
      Named<Expected> list = expect_by_model(
          sharp ? *sharp : trial_.oracle, runs_, [&](const std::string& name) { return stored_.at(name); },
          trial_.false_alarms, trial_.kernel.threads);
      std::erase_if(list, [&](const auto& one) { return !open_.contains(one.first); });
      if (trial_.cache != nullptr)
        for (auto& [name, expected] : list) leave_out_what_follows(expected, sharp_);
      return list;
    });
    if (trial_.cache != nullptr)
      for (auto& [name, expected] : kept)
        put_in_what_follows(expected, name, trial_.oracle, model_factor(runs_.precision).passes, trial_.kernel.threads);
    return kept;
  }

  const Trial& trial_;
  const Arrays& answered_;
  int threads_, of_each_;                 // of all tensors, and of each where they go side by side
  std::map<std::string, Format> stored_;  // by tensor
  ModelRuns runs_;
  int draws_ = 0;
  Tensors open_;  // tensors that ask for draws
  std::shared_ptr<Expectation> expected_ = std::make_shared<Expectation>();
  std::map<std::string, Judgement> passed_;  // of tensors that pass by what is expected now
  std::mutex guard_;                         // of these
  std::optional<OtherAlgorithms> others_;
  bool sharp_ = false;
};

/// With sigma so many times as large and the same limits: slices of a healthy algorithm may spread by as much.
Expected widened(Expected expected, double factor) {
  for (double& sigma : expected.sigma) sigma *= factor;
  for (double& reach : expected.reach) reach /= factor;
  expected.rms_limit /= factor;
  return expected;
}

/// Says of rows beyond fp32's own error whether they are right in tf32: kernels that are called with fp32 multiply in
/// that other precision unless it is forbidden.
void say_tf32(const Trial& trial, std::vector<ReportRow>& rows, const Arrays& answered, const Wanted& wanted) {
  if (trial.kernel.precision != Format::fp32) return;
  std::optional<ModelTrial> tf32;
  for (ReportRow& row : rows) {
    if (!wanted(row.tensor)) continue;
    if (row.judgement.verdict != Verdict::fail && row.judgement.verdict != Verdict::undecided) continue;
    if (!row.by_model || passes(row.by_model->verdict)) continue;
    if (!tf32) tf32.emplace(trial, Format::tf32, rows, answered);
    if (const std::optional<Judgement> j = tf32->judge(row); j && j->verdict == Verdict::pass)
      row.judgement.reason += "; right if its products are in tf32: --precision tf32 allows that";
  }
}

}  // namespace

std::vector<const Contract*> OtherContracts::known(const Trial& trial, Format precision) {
  if (contracts_.empty())
    for (const Contract& contract : named_contracts()) contracts_.push_back(contract.in(trial.kernel.precision));
  std::vector<const Contract*> list;
  for (const Contract& contract : contracts_)
    // What four bits allow excuses no kernel that says it has more.
    if (contract.precision == precision && contract.name != trial.kernel.contract->name && !contract.has_blocks() &&
        contract.obstacle(trial.kernel.form->sites).empty())
      list.push_back(&contract);
  return list;
}

const std::vector<ReportRow>& OtherContracts::rows(const Contract& contract, const Trial& trial, const ReportRow& row,
                                                   const Answer& got,
                                                   const std::function<bool(const std::string&)>& wanted) {
  const auto known = found_.find(contract.name);
  if (known != found_.end()) return known->second;
  KernelUnderTest kernel = trial.kernel;
  kernel.contract = &contract;
  std::vector<ReportRow> rows = judge_rows(under(trial, kernel), row, got, wanted);
  for (ReportRow& judged : rows) judged.expected.reset(), judged.errors.reset();  // ten numbers for each element
  return found_[contract.name] = std::move(rows);
}

namespace {

/// The model's judgement of every row; nothing for rows of which it knows nothing.
using ByModel = std::vector<std::optional<Judgement>>;

/// The rows under the trial's own contract, which is asked when this is called.
using ByContract = std::function<std::vector<ReportRow>(const Tensors& settled)>;
/// The answer of `emulated` for the trial; the kernel runs once, when this is first called.
using Emulation = std::function<const Named<std::vector<double>>&()>;

/// The kernel in the first of the trial's tile shapes.
KernelUnderTest at_first_tile(const Trial& trial) {
  KernelUnderTest first = trial.kernel;
  if (!trial.tiles.empty()) first.tile = trial.tiles.front();
  return first;
}

/// In which format the contract stores what its kernel answers. One group of heads tells.
Named<Format> stored_by_contract(const Trial& trial) {
  const auto stored = [&] {
    const HeadGroups groups = head_groups(trial.room, trial.problem);
    const bool falls_apart = groups.known && groups.shared > 1;
    const Problem part = falls_apart ? groups_of(trial.room, trial.problem, groups, 0, 1) : trial.problem;
    const KernelUnderTest first = at_first_tile(trial);
    const Policy policy = first.policy();
    Named<Format> list;
    for (const auto& [name, array] : flat(first.form->run(part, policy, first.tile)))
      if (!array.data.empty()) list.emplace_back(name, stored_by(policy, array.data));
    return list;
  };
  return kept_in(trial.cache, text("stored ", trial.digest, ' ', key_of(trial.kernel)), stored);
}

/// The errors that pass unseen where the model decides. A narrower state shows where no contract may allow it: beyond
/// what the model leaves open.
Detectability seen_by_model(const Trial& trial, ModelTrial& model) {
  const ModelFactor factor = model_factor(trial.kernel.precision);
  return detectability_of(trial.room, at_first_tile(trial), trial.problem, {&model.all(), 1},
                          factor.fails / factor.passes);
}

/// Whether draws of the contract could allow any of what the model does not: it leaves a tensor open, or one run of the
/// kernel, in any of its tile shapes, errs at all like what it fails. Of numbers that are none, draws say more. What a
/// tensor hides and another shows is no such thing.
bool contract_may_allow(const Trial& trial, const std::vector<ReportRow>& rows, const ByModel& by_model,
                        const Arrays& answered, const Tensors& settled, const Emulation& own) {
  Tensors failing;
  Shown shown;
  for (const std::optional<Judgement>& j : by_model)
    if (j) add_shown(*j, shown);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::optional<Judgement>& j = by_model[i];
    if ((j && passes(j->verdict)) || settled.contains(rows[i].tensor)) continue;
    if (j && j->verdict == Verdict::vacuous && !trial.strict && is_shown(*j, shown)) continue;
    if (!j || j->verdict != Verdict::fail || !is_finite(answered.at(rows[i].tensor).data)) return true;
    failing.insert(rows[i].tensor);
  }
  const auto errs_alike = [&](const Named<std::vector<double>>& run) {
    for (const auto& [name, truth] : trial.oracle.tensors)
      for (const auto& [tensor, values] : run)
        if (name == tensor && failing.contains(name) &&
            (!is_finite(values) || errs_like(values, answered.at(name).data, truth, of_any)))
          return true;
    return false;
  };
  if (failing.empty()) return false;
  if (errs_alike(own())) return true;
  Trial other = under(trial, trial.kernel);
  return std::any_of(trial.tiles.begin() + (trial.tiles.empty() ? 0 : 1), trial.tiles.end(), [&](int tile) {
    other.tiles.assign(1, tile);
    return errs_alike(emulated(other));
  });
}

/// Where the model decides: asks the contract where it may allow what the model does not, or where both kinds of
/// evidence are asked for. What it cannot allow fails under it.
void ask_besides(const Trial& trial, const ByModel& by_model, const Arrays& answered, std::vector<ReportRow>& rows,
                 const Tensors& settled, const ByContract& by_contract, const Emulation& own) {
  if (trial.both || contract_may_allow(trial, rows, by_model, answered, settled, own)) {
    rows = by_contract(settled);
    return;
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (by_model[i] && by_model[i]->verdict == Verdict::fail) rows[i].judgement.verdict = Verdict::fail;
  note_dtypes(trial, stored_by_contract(trial), rows);
}

/// Says what the case shows, which takes as long as the verdict; who waits hears the verdict before.
void add_detects(const Trial& trial, ModelTrial& model, std::vector<ReportRow>& rows) {
  const Verdict worst = worst_of(rows);
  if (!trial.detects || (!trial.detects_of_wrong && worst == Verdict::fail)) return;
  if (trial.phase)
    trial.phase(text(worst == Verdict::pass ? "every tensor passes; " : "", "what the case could have shown"), 0, 0);
  const Detectability seen = kept_in(trial.cache, text("detects ", model.key(), ' ', key_of(trial.kernel)),
                                     [&] { return seen_by_model(trial, model); });
  for (ReportRow& row : rows) row.detects = seen;
}

/// The row's verdict is the model's. `form` is that of another algorithm whose limits it keeps, or null.
void rest_on_model(const Trial& trial, ReportRow& row, const Judgement& j, std::shared_ptr<const Expected> expected,
                   const std::vector<double>& got, const ReportRow* form) {
  row.judgement = with_advice(j);
  row.judgement.verdict = beside_contract(j, row.by_contract ? &row.by_contract->verdict : nullptr);
  if (form != nullptr && row.judgement.verdict == Verdict::fail) {
    row.judgement.verdict = beside_contract(j, &form->judgement.verdict);
    if (row.judgement.verdict != Verdict::fail)
      row.judgement.reason += text("; ", form->evidence, ", allows it, by no wide margin");
  } else if (row.judgement.verdict == Verdict::unseen && j.not_finite)
    row.judgement.reason = unseen_by_overflow(j.reason, row.contract);
  else if (row.judgement.verdict != j.verdict)
    row.judgement.reason += text("; contract ", row.contract, " allows it: --contract ", row.contract);
  row.evidence = "model", row.ulp_format = name_of(expected->ulp_format), row.draws = expected->draws, row.stall = 0;
  row.where.clear(), row.errors.reset(), row.expected = std::move(expected);
  if (row.judgement.verdict == Verdict::fail)
    show_where(row, axes_in_trial(trial, row.tensor, row.expected->shape),
               deviations_of(widened(*row.expected, model_factor(trial.kernel.precision).passes), got));
}

/// Adds the model's evidence to the row and lets `decides` set the verdict.
void weigh(const Trial& trial, ReportRow& row, const Judgement& j, const std::shared_ptr<const Expected>& expected,
           const std::vector<double>& got, Decides decides, const PassingRow& passing, OtherForms& forms) {
  const auto [factor, fails] = model_factor(trial.kernel.precision);
  const bool was_asked = row.draws > 0;  // sigma was learnt from draws of the contract
  if (was_asked) row.by_contract = weighed_of(row.judgement);
  const auto closer = [&, factor = factor, fails = fails](const ReportRow& judged) {
    return by_closer_limits(judged.judgement, judged.expected.get(), j, *expected, fails / factor, got);
  };
  const Judgement by_contract = was_asked && decides == Decides::model ? closer(row) : row.judgement;
  row.by_model = weighed_of(j, factor);
  // Its dtype is refused, whatever it is worth.
  if (decides == Decides::model && trial.strict_dtypes && !row.stored.empty()) return;
  const ReportRow* other = nullptr;
  const bool is_known = was_asked || row.judgement.verdict == Verdict::fail;  // not contract_may_allow
  const Basis basis = decide(
      decides, j, is_known ? &by_contract : nullptr,
      [&](double margin) { return (other = forms.passing(row.tensor, margin)) != nullptr; },
      [&] { return (other = passing(row)) != nullptr; });
  if (other != nullptr) row.judgement = closer(*other), row.by_contract = weighed_of(row.judgement);
  switch (basis) {
    case Basis::model:
      return rest_on_model(trial, row, j, expected, got,
                           j.verdict == Verdict::fail ? forms.passing(row.tensor) : nullptr);
    case Basis::contract:
      row.judgement = by_contract;
      row.evidence =
          trial.room.is_program() ? text("form ", row.form, ", ", row.contract) : text("contract ", row.contract);
      if (decides == Decides::contract) say_which(row, j, factor);
      return;
    case Basis::other_form:
      row.evidence = other->evidence, row.command = other->command;
      return;
    case Basis::other_contract:
      row.evidence = text("contract ", other->contract);
      return;
  }
}

/// Tensors of a large answer that fail in one group of its heads, whatever else could allow them there: all in the
/// group in which the worst is farthest off, and what is left in its own worst one.
class Parts {
 public:
  Parts() = default;
  Parts(const Trial& trial, ModelTrial& model, std::vector<ReportRow>& rows, const Answer& got,
        const Arrays& answered) {
    const std::optional<HeadGroups> groups = groups_of_large(trial);
    if (!groups) return;
    const ReportRow blank = rows.front();
    std::map<std::string, int> worst;
    int common = 0;
    double farthest = 0;
    for (const ReportRow& row : rows) {
      const std::optional<Judgement> j = model.judge_by_limits(row);
      if (!j || j->verdict != Verdict::fail) continue;
      const auto group = worst_group(trial, *groups, row.tensor, *model.expected(row), answered.at(row.tensor).data);
      if (!group) continue;
      worst[row.tensor] = *group;
      if (j->excess > farthest) farthest = j->excess, common = *group;
    }
    const auto ask = [&](int group, const auto& is_asked) {
      Tensors tensors;
      for (const auto& [name, own] : worst)
        if (!settled_.contains(name) && is_asked(own)) tensors.insert(name);
      if (!tensors.empty())
        judge(std::make_unique<HeadPart>(trial, got, *groups, group, has_gradient(tensors)), tensors, blank, rows);
    };
    ask(common, [](int) { return true; });
    for (int group = 0; group < groups->shared; ++group)
      if (group != common) ask(group, [group](int own) { return own == group; });
  }

  /// Those that fail in their group.
  const Tensors& settled() const { return settled_; }

  /// As the function of that name does, of what failed in a part.
  void say_tf32_of(std::vector<ReportRow>& rows) const {
    for (const auto& one : parts_)
      say_tf32(one.first->trial(), rows, flat(one.first->answer()),
               [&](const std::string& name) { return one.second.contains(name); });
  }

 private:
  static bool has_gradient(const Tensors& tensors) {
    return std::ranges::any_of(tensors, [](const auto& name) { return name.starts_with("d_"); });
  }

  void judge(std::unique_ptr<HeadPart> part, const Tensors& tensors, const ReportRow& blank,
             std::vector<ReportRow>& rows) {
    OtherContracts others;
    Tensors failing;
    const auto asked = [&](const std::string& name) { return tensors.contains(name); };
    for (const ReportRow& judged : judge_by_both(part->trial(), blank, part->answer(), asked, Decides::model, others)) {
      if (judged.judgement.verdict != Verdict::fail || !judged.by_model) continue;
      settled_.insert(judged.tensor), failing.insert(judged.tensor);
      for (ReportRow& row : rows)
        if (row.tensor == judged.tensor) row.by_contract = judged.by_contract;
    }
    parts_.emplace_back(std::move(part), std::move(failing));
  }

  std::vector<std::pair<std::unique_ptr<HeadPart>, Tensors>> parts_;
  Tensors settled_;
};

/// What the limits alone say of every row; where some were `rejected` by more than these, others stay open.
ByModel judge_by_limits(const Trial& trial, ModelTrial& model, const std::vector<ReportRow>& rows,
                        const Tensors& rejected) {
  ByModel by_model;
  for (const ReportRow& row : rows) {
    std::optional<Judgement>& j = by_model.emplace_back(model.judge_by_limits(row));
    if (!j || j->verdict != Verdict::fail || rejected.empty() || rejected.contains(row.tensor)) continue;
    j->verdict = Verdict::undecided;
    j->reason = text(j->excess * model_factor(trial.kernel.precision).passes,
                     " times what the precision's roundings do in the recurrence itself");
    j->advice = "another tensor FAILs, so nothing that could allow this was asked: --tensor asks";
  }
  return by_model;
}

/// What the model says of every row by all that could allow it; nothing, in a part, of what does not FAIL.
ByModel judge_by_all(const Trial& trial, ModelTrial& model, const std::vector<ReportRow>& rows) {
  ByModel by_model;
  for (const ReportRow& row : rows) {
    std::optional<Judgement>& j = by_model.emplace_back(model.judge(row));
    if (is_part(trial) && j && j->verdict != Verdict::fail) j.reset();
  }
  return by_model;
}

/// `answered`: as `got`, flat.
void weigh_all(const Trial& trial, std::vector<ReportRow>& rows, const Answer& got, const Arrays& answered,
               Decides decides, const PassingRow& passing, const ByContract& by_contract) {
  ModelTrial model(trial, trial.kernel.precision, rows, answered);
  if (trial.phase) trial.phase("judging", 0, 0);
  Parts parts;
  if (decides == Decides::model && !trial.both && !trial.limits_alone) parts = {trial, model, rows, got, answered};
  const bool by_limits = trial.limits_alone || !parts.settled().empty();
  ByModel by_model =
      by_limits ? judge_by_limits(trial, model, rows, parts.settled()) : judge_by_all(trial, model, rows);
  Tensors settled;  // of which nothing more is asked
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (by_limits || (is_part(trial) && !by_model[i])) settled.insert(rows[i].tensor);
  std::optional<Named<std::vector<double>>> run;
  const Emulation own = [&]() -> const Named<std::vector<double>>& {
    if (!run) run = emulated(trial);
    return *run;
  };
  if (by_contract) ask_besides(trial, by_model, answered, rows, settled, by_contract, own);
  OtherForms forms(trial, rows, got, answered, settled);
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (by_model[i])
      weigh(trial, rows[i], *by_model[i], model.expected(rows[i]), answered.at(rows[i].tensor).data, decides, passing,
            forms);
  if (!is_part(trial))
    say_tf32(trial, rows, answered, [&](const std::string& name) { return !settled.contains(name); });
  parts.say_tf32_of(rows);
  if (by_contract) add_detects(trial, model, rows);
}

/// The rows under the trial's own contract: of a large trial by few draws, if all that counts is beyond by far then.
std::vector<ReportRow> rows_by_contract(const Trial& trial, const ReportRow& row, const Answer& got,
                                        const Wanted& wanted, const Tensors& settled) {
  Trial other = under(trial, trial.kernel);
  if (is_large(trial)) {
    other.draws = few_draws;
    const auto [passes, fails] = model_factor(trial.kernel.precision);
    std::vector<ReportRow> rows = judge_rows(other, row, got, wanted);
    if (std::ranges::all_of(rows, [&, far = fails / passes](const ReportRow& judged) {
          return settled.contains(judged.tensor) ||
                 (judged.judgement.verdict == Verdict::fail && judged.judgement.excess > far);
        }))
      return rows;
    other.draws = default_draws;
  }
  return judge_rows(other, row, got, wanted);
}

}  // namespace

std::vector<ReportRow> judge_by_both(const Trial& trial, const ReportRow& row, const Answer& got,
                                     const std::function<bool(const std::string&)>& wanted, Decides decides,
                                     OtherContracts& others) {
  const bool by_model = decides == Decides::model;
  std::vector<ReportRow> rows = by_model ? blank_rows(trial, row, wanted) : judge_rows(trial, row, got, wanted);
  const Arrays answered = flat(got);
  if (!by_model) {
    OtherForms forms(trial, rows, got, answered);
    for (ReportRow& judged : rows)
      if (judged.judgement.verdict == Verdict::fail)
        if (const ReportRow* allowed = forms.passing(judged.tensor)) judged = *allowed;
  }
  const PassingRow passing = [&](const ReportRow& open) -> const ReportRow* {
    for (const Contract* contract : others.known(trial, trial.kernel.precision))
      for (const ReportRow& found : others.rows(*contract, trial, row, got, wanted))
        if (found.tensor == open.tensor && found.judgement.verdict == Verdict::pass) return &found;
    return nullptr;
  };
  ByContract asked;
  if (by_model && trial.kernel.form != nullptr)
    asked = [&](const Tensors& settled) { return rows_by_contract(trial, row, got, wanted, settled); };
  weigh_all(trial, rows, got, answered, decides, passing, asked);
  if (!by_model) say_who_allows(rows, passing);
  return rows;
}

}  // namespace assay
