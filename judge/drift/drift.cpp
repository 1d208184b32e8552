#include "judge/drift/drift.hpp"

#include <limits>
#include <map>
#include <memory>

#include "judge/programs/program_form.hpp"
#include "judge/sigma/expected.hpp"
#include "judge/sigma/spread.hpp"
#include "kernels/core/tile.hpp"
#include "kernels/draws/drawn.hpp"
#include "language/laws.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"
#include "reference/core/random.hpp"

namespace assay {
namespace {

constexpr std::string_view output_site = "out";
constexpr double log2_e = 1.4426950408889634;

bool is_by_token(const RoomFacts::Ranked& r) {
  return r.rank > 0 && (r.field.axes[0] == Axis::seq_len || r.field.axes[0] == Axis::query_len);
}

/// Elements of one head and token.
std::size_t row_size(const std::vector<int>& shape) {
  std::size_t size = 1;
  for (std::size_t r = 2; r < shape.size(); ++r) size *= static_cast<std::size_t>(shape[r]);
  return size;
}

/// Rows [from, to) of every head.
Array rows(const Array& a, int from, int to) {
  const std::size_t size = row_size(a.shape), T = static_cast<std::size_t>(a.shape[1]);
  Array part;
  part.shape = a.shape;
  part.shape[1] = to - from;
  for (std::size_t h = 0; h < static_cast<std::size_t>(a.shape[0]); ++h)
    part.data.insert(part.data.end(),
                     a.data.begin() + static_cast<std::ptrdiff_t>((h * T + static_cast<std::size_t>(from)) * size),
                     a.data.begin() + static_cast<std::ptrdiff_t>((h * T + static_cast<std::size_t>(to)) * size));
  return part;
}

double square(double x) { return x * x; }

/// The error of an element, exactly enough where the two are close.
double off(double got, const HiLo& value) { return (got - value.hi) - value.lo; }

struct Squares {
  double error = 0, value = 0;
  double relative() const { return error == 0 ? 0 : std::sqrt(error / value); }
  Squares& operator+=(const Squares& other) { return error += other.error, value += other.value, *this; }
};

Squares squares_of(const std::vector<double>& got, const std::vector<HiLo>& value, std::size_t from, std::size_t to) {
  Squares s;
  for (std::size_t i = from; i < to; ++i) s.error += square(off(got[i], value[i])), s.value += square(value[i].hi);
  return s;
}

/// The squares of token t of a tensor [H][T][d].
Squares squares_at(const Array& got, const std::vector<HiLo>& value, int t) {
  const std::size_t size = row_size(got.shape), T = static_cast<std::size_t>(got.shape[1]);
  Squares s;
  for (std::size_t h = 0; h < static_cast<std::size_t>(got.shape[0]); ++h) {
    const std::size_t from = (h * T + static_cast<std::size_t>(t)) * size;
    s += squares_of(got.data, value, from, from + size);
  }
  return s;
}

bool all_finite(const Arrays& arrays) {
  for (const auto& [name, array] : arrays)
    if (!std::all_of(array.data.begin(), array.data.end(), [](double x) { return std::isfinite(x); })) return false;
  return true;
}

/// 64 * 2^(j / 3), in integers.
long window_end(std::size_t j) {
  constexpr long thirds[] = {64, 81, 102};
  return thirds[j % 3] << (j / 3);
}

/// The kernel's own policy.
Policy policy_of(const DriftSpec& spec) {
  Policy policy = Policy::of(spec.form->sites, spec.precision);
  for (const auto& [site, format] : spec.sites) policy.sites = policy.sites.with(site, format);
  policy.threads = 1;
  return policy;
}

/// The form whose spread says how far the kernel may be off.
const KernelForm& measure_of(const DriftSpec& spec) {
  return spec.form->unstable.empty() ? *spec.form
                                     : measure_of(*find_kernels(kernel_rooms(), spec.room->name), *spec.form);
}

/// The policy of a correct kernel of the precision. Nothing is rounded to `exact`, but arrays are doubles: its states
/// and outputs are no better than fp64's.
Policy contract_of(const DriftSpec& spec) {
  Policy policy = Policy::of(measure_of(spec).sites, spec.precision == Format::exact ? Format::fp64 : spec.precision);
  policy.threads = 1;
  return policy;
}

/// A trajectory that carries its own states on.
class StreamedExact {
 public:
  StreamedExact(const DriftSpec& spec, std::unique_ptr<Trajectory> trajectory)
      : room_(*spec.room), output_(spec.output), trajectory_(std::move(trajectory)) {}

  const BasicArrays<HiLo>& advance(const Problem& segment) {
    Problem problem = segment;
    if (!values_.empty()) {
      Arrays left;  // counts for its shapes: the trajectory knows the numbers better
      for (const auto& [from, to] : carried_names(room_))
        if (const auto it = values_.find(from); it != values_.end())
          left[from] = Array(it->second.shape, nearest_doubles(it->second.data));
      carry_on(room_, before_, left, problem);
    }
    values_ = trajectory_->advance(problem);
    before_ = segment;
    return values_;
  }
  const BasicArrays<HiLo>& values() const { return values_; }
  const BasicArray<HiLo>& outputs() const { return values_.find(output_)->second; }

 private:
  const Room& room_;
  std::string output_;
  std::unique_ptr<Trajectory> trajectory_;
  Problem before_;
  BasicArrays<HiLo> values_;
};

/// The estimated error of outputs in W2, relatively, from those in double.
double off_by(const std::vector<HiLo>& fine, const std::vector<HiLo>& rough) {
  Squares s;
  for (std::size_t i = 0; i < fine.size(); ++i) s += {square(off(rough[i].hi, fine[i])), square(fine[i].hi)};
  return s.relative() * w2_over_double;
}

/// Sets `drift.proven_off`: the first segments' exact outputs against their proven enclosure.
void prove_start(const DriftSpec& spec, const Segments& segments, Drift& drift) {
  constexpr long wanted = 256;
  std::vector<Problem> start;
  for (long i = 0; i < segments.count() && segments.begin(i) < wanted; ++i) start.push_back(segments.at(i));
  const Problem whole = joined(*spec.room, start);
  const Oracle oracle = oracle_of(*spec.room, whole);
  if (is_program_form(spec.form->name)) require_equal(*spec.form, whole, oracle, spec.threads);
  StreamedExact exact(spec, spec.room->trajectory(Tier::w2));
  Squares squares;
  std::size_t first = 0;
  for (const Problem& segment : start) {
    exact.advance(segment);
    const BasicArray<HiLo>& o = exact.outputs();
    const auto truth = std::find_if(oracle.tensors.begin(), oracle.tensors.end(),
                                    [&](const auto& tensor) { return tensor.first == spec.output; });
    const std::size_t size = row_size(o.shape), T = static_cast<std::size_t>(o.shape[1]),
                      all = static_cast<std::size_t>(truth->second.shape[1]);
    for (std::size_t n = 0; n < o.data.size(); ++n) {
      const std::size_t at = (n / (T * size) * all + first) * size + n % (T * size);
      const HiLo& x = truth->second.value[at];
      squares +=
          {square(std::fabs((o.data[n].hi - x.hi) + (o.data[n].lo - x.lo)) + truth->second.bound[at]), square(x.hi)};
    }
    first += T;
  }
  drift.proven_off = squares.relative();
  drift.proven_tokens = segments.begin(static_cast<long>(start.size()));
}

/// A correct kernel, run with randomised rounding several times, and what its spread makes of errors.
class Budget {
 public:
  explicit Budget(const DriftSpec& spec) : output_(spec.output) {
    if (spec.draws == 0 || spec.budget > 0) return;
    Policy policy = contract_of(spec);
    stored_ = policy.sites.at(output_site);
    policy.rounding = Rounding::jittered;
    // The last rounding is known without drawing it.
    policy.sites = policy.sites.with(output_site, Format::fp64);
    Policy exact = Policy::exact(policy.sites);
    exact.threads = 1;
    kernels_.emplace_back(*spec.room, measure_of(spec), exact, spec.tile);
    for (int k = 0; k < spec.draws; ++k) {
      policy.seed = RandomBits{spec.inputs.seed}.at(static_cast<std::uint64_t>(k));
      kernels_.emplace_back(*spec.room, measure_of(spec), policy, spec.tile);
    }
    drawn_.resize(static_cast<std::size_t>(spec.draws));
  }

  /// The number of runs: of the kernel without roundings and of every draw; 0 if there is no such budget.
  std::size_t runs() const { return kernels_.size(); }
  void advance(std::size_t run, const Problem& segment) {
    std::vector<double>& outputs = run == 0 ? exact_ : drawn_[run - 1];
    outputs = kernels_[run].advance(segment).outputs.find(output_)->second.data;
  }

  /// Judges the outputs of the segment that starts at `first`.
  void judge(const Array& got, const std::vector<HiLo>& value, long first, long segments, Drift& drift) const {
    const Spread spread = spread_of(drawn_, exact_, layout_of(got.shape, true), stored_);
    const double limit = rms_limit(spread, false_alarm_rate / static_cast<double>(segments));
    const std::size_t size = row_size(got.shape), T = static_cast<std::size_t>(got.shape[1]);
    double squares = 0;
    std::optional<std::size_t> past;
    const auto sigmas_at = [&](std::size_t i) {
      // No answer is nearer to the truth than the nearest double, which draws that never leave it do not see.
      const double sigma = std::max(spread.sigma[i], std::fabs(value[i].lo)),
                   apart = std::fabs(off(got.data[i], value[i]));
      return apart == 0 ? 0 : apart / sigma;
    };
    for (std::size_t i = 0; i < got.data.size(); ++i) {
      const double sigmas = sigmas_at(i);
      squares += square(sigmas);
      drift.worst_sigmas = std::max(drift.worst_sigmas, sigmas);
      if (sigmas <= equivalent_sigmas(element_sigmas, spread.freedom[i])) continue;
      if (!past || i / size % T < *past / size % T) past = i;
    }
    if (past && !drift.first_past)
      drift.first_past = {first + static_cast<long>(*past / size % T),
                          text(output_, '[', *past / size / T, "][", *past % size, ']'), sigmas_at(*past)};
    const double rms = std::sqrt(squares / static_cast<double>(got.data.size()));
    if (!(rms <= limit) && !drift.first_past_in_segment) drift.first_past_in_segment = {first, output_, rms};
  }

 private:
  std::string output_;
  Format stored_ = Format::fp64;
  std::vector<StreamedKernel> kernels_;
  std::vector<double> exact_;
  std::vector<std::vector<double>> drawn_;
};

/// The first token whose error is larger than the budget that was given.
void judge_relative(const DriftSpec& spec, const Array& got, const std::vector<HiLo>& value, long first, Drift& drift) {
  const Squares all = squares_of(got.data, value, 0, got.data.size());
  const int T = got.shape[1];
  for (int t = 0; t < T && !drift.first_past; ++t)
    if (!(std::sqrt(squares_at(got, value, t).error * T) <= spec.budget * std::sqrt(all.value)))
      drift.first_past = {first + t, spec.output, 0};
}

/// The series of the output and of every state that is carried.
std::vector<DriftSeries> series_of(const DriftSpec& spec, const BasicArrays<HiLo>& values) {
  std::vector<DriftSeries> list;
  list.push_back({spec.output, {}, {}, {}});
  for (const auto& [from, to] : carried_names(*spec.room))
    if (to.starts_with("initial_") && values.contains(from)) list.push_back({from, {}, {}, {}});
  return list;
}

/// Adds the errors of a segment's answer to the windows of every series.
void add_errors(const Arrays& got, const BasicArrays<HiLo>& values, long first, long end,
                std::vector<DriftSeries>& list) {
  const std::string& output = list.front().tensor;
  for (DriftSeries& series : list) {
    const Array& array = got.find(series.tensor)->second;
    const std::vector<HiLo>& value = values.find(series.tensor)->second.data;
    if (series.tensor == output) {
      for (int t = 0; t < array.shape[1]; ++t) {
        const Squares s = squares_at(array, value, t);
        series.windows.add(first + t, s.error, s.value);
      }
    } else {
      const Squares s = squares_of(array.data, value, 0, array.data.size());
      series.windows.add(end - 1, s.error, s.value);
    }
  }
}

/// A kernel over a whole prefix.
struct Prefix {
  std::vector<DriftSeries> series;  ///< none if its numbers overflow there
  /// The outputs' error if only the states that segments pass on were off, and if only these were right.
  DriftWindows carried, fresh;
};

Prefix prefix_of(const DriftSpec& spec, const Segments& segments) {
  StreamedKernel kernel(*spec.room, *spec.form, policy_of(spec), spec.tile);
  StreamedExact exact(spec, spec.room->trajectory(Tier::w2));
  Prefix prefix;
  Problem before;
  Arrays left;
  for (long i = 0; i < segments.count(); ++i) {
    const Problem segment = segments.at(i);
    const BasicArrays<HiLo>& values = exact.advance(segment);
    Problem from_kernel = segment;
    if (i > 0) carry_on(*spec.room, before, left, from_kernel);
    Answer answer = kernel.advance(segment);
    if (!all_finite(answer.outputs)) return {};
    if (prefix.series.empty()) prefix.series = series_of(spec, values);
    add_errors(answer.outputs, values, segments.begin(i), segments.begin(i + 1), prefix.series);
    const BasicArray<HiLo>& o = exact.outputs();
    const Array& got = answer.outputs.find(spec.output)->second;
    const BasicArrays<HiLo> continued = spec.room->trajectory(Tier::w2)->advance(from_kernel);
    const std::vector<HiLo>& reached = continued.find(spec.output)->second.data;
    Array passed_on = got;
    for (std::size_t n = 0; n < o.data.size(); ++n)
      passed_on.data[n] = (reached[n].hi - o.data[n].hi) + (reached[n].lo - o.data[n].lo);
    const std::vector<HiLo> none(o.data.size());
    for (int t = 0; t < got.shape[1]; ++t) {
      const long token = segments.begin(i) + t;
      const double value = squares_at(got, o.data, t).value;
      prefix.carried.add(segments.begin(i), squares_at(passed_on, none, t).error, value);  // as old as its states
      prefix.fresh.add(token, squares_at(got, reached, t).error, value);
    }
    before = segment, left = std::move(answer.outputs);
  }
  for (DriftSeries& series : prefix.series) series.windows.close();
  prefix.carried.close(), prefix.fresh.close();
  return prefix;
}

/// The mean sequence's errors, and the root mean square of what one sequence's logarithms differ by.
struct Pooled {
  std::vector<GrowthPoint> points;
  double spread = GrowthFacts().spread;
};

/// Pools all windows but the first one.
Pooled pooled(const std::vector<const DriftWindows*>& sequences) {
  Pooled result;
  const auto count = static_cast<double>(sequences.size());
  double variances = 0, windows = 0;
  for (std::size_t w = 0; w < sequences.front()->all().size(); ++w) {
    DriftWindow sum = sequences.front()->all()[w];
    if (sum.first == 0) continue;
    double logs = 0, squares = 0;
    for (std::size_t r = 0; r < sequences.size(); ++r) {
      const DriftWindow& one = sequences[r]->all()[w];
      if (r > 0) sum.error_squared += one.error_squared, sum.squared += one.squared;
      const double log = one.error() > 0 ? tile::lg2(one.error()) / log2_e : std::numeric_limits<double>::quiet_NaN();
      logs += log, squares += log * log;
    }
    if (sum.error_squared > 0 && sum.squared > 0) result.points.push_back({sum.position(), sum.error()});
    if (count < 2 || !std::isfinite(squares)) continue;
    variances += std::max(0.0, squares - logs * logs / count) / (count - 1), ++windows;
  }
  if (windows > 0) result.spread = std::max(result.spread, std::sqrt(variances / windows));
  return result;
}

/// `fit` of an error to which every segment adds `fresh` of its own.
GrowthFit with_fresh(GrowthFit fit, double fresh) {
  for (std::vector<Growth>* list : {&fit.laws, &fit.open})
    for (Growth& g : *list) g.floor = std::sqrt(square(g.floor) + square(fresh));
  return fit;
}

/// Fits the prefixes of several sequences, none of which goes further.
void predict(const DriftSpec& spec, Drift& drift) {
  std::vector<Prefix> prefixes(static_cast<std::size_t>(spec.sequences));
  words::in_parallel(prefixes.size() + 1, spec.threads, [&](std::size_t r) {
    if (r == prefixes.size()) {
      drift.memory = memory_of(spec, spec.prefix);
      return;
    }
    CaseSpec inputs = spec.inputs;
    if (r > 0) inputs.seed = Stream(inputs.seed, "drift/sequence").bits(r);
    prefixes[r] = prefix_of(spec, Segments(*spec.room, inputs, spec.prefix, spec.segment));
  });
  std::erase_if(prefixes, [](const Prefix& prefix) { return prefix.series.empty(); });
  drift.sequences = static_cast<int>(prefixes.size());
  if (prefixes.empty()) return;
  const auto windows_of = [&](auto&& of) {
    std::vector<const DriftWindows*> list(prefixes.size());
    std::transform(prefixes.begin(), prefixes.end(), list.begin(), [&](const Prefix& prefix) { return &of(prefix); });
    return list;
  };
  const auto fitted = [&](const Pooled& pool) {
    return fit_growth(pool.points, {pool.spread / std::sqrt(static_cast<double>(prefixes.size())), drift.memory,
                                    static_cast<double>(spec.tokens)});
  };
  for (std::size_t i = 0; i < prefixes.front().series.size(); ++i) {
    DriftSeries& series = drift.series.emplace_back();
    series.tensor = prefixes.front().series[i].tensor;
    const Pooled whole = pooled(windows_of([i](const Prefix& p) -> auto& { return p.series[i].windows; }));
    series.spread = whole.spread;
    series.early = fitted(whole);
    if (series.tensor != spec.output || !series.early) continue;
    // The error that is passed on grows; that which every segment adds does not. Their sum hides the law of the first.
    const Pooled carried = pooled(windows_of([](const Prefix&p) -> auto& { return p.carried; })),
                 fresh = pooled(windows_of([](const Prefix&p) -> auto& { return p.fresh; }));
    if (std::optional<GrowthFit> fit = fitted(carried); fit && !fresh.points.empty())
      series.early = with_fresh(std::move(*fit), fresh.points.back().error);
  }
}

/// The sites at which the kernel's numbers change, in the order of the table.
std::vector<std::string> rounding_sites(const DriftSpec& spec, const Segments& segments) {
  std::map<std::string, SiteStats, std::less<>> stats;
  Policy policy = policy_of(spec);
  policy.stats = &stats;
  StreamedKernel kernel(*spec.room, *spec.form, policy, spec.tile);
  constexpr long enough = 1024;  // tokens
  for (long i = 0; i < segments.count() && segments.begin(i) < enough; ++i) kernel.advance(segments.at(i));
  std::vector<std::string> names;
  for (int i = 0; i < policy.sites.size; ++i) {
    const auto it = stats.find(policy.sites.entries[i].view());
    // Programs say where they round, and not by how much.
    if (it != stats.end() && (it->second.error_squared > 0 || spec.room->is_program())) names.push_back(it->first);
  }
  return names;
}

/// Runs every site alone over the prefix.
void attribute(const DriftSpec& spec, Drift& drift, const DriftDone& done) {
  const Segments segments(*spec.room, spec.inputs, std::min(spec.tokens, spec.prefix), spec.segment);
  const std::vector<std::string> names = rounding_sites(spec, segments);
  const Policy whole = policy_of(spec);
  struct Run {
    StreamedKernel kernel;
    DriftWindows windows;
    Squares squares;
  };
  std::vector<Run> runs;
  // All sites, none, each one.
  const auto add = [&](const Policy& policy) {
    runs.push_back({StreamedKernel(*spec.room, *spec.form, policy, spec.tile), {}, {}});
  };
  add(whole);
  Policy alone = whole;
  alone.sites = whole.sites.all(Format::exact);
  add(alone);
  for (const std::string& name : names) {
    alone.sites = whole.sites.all(Format::exact).with(name, whole.sites.at(name), whole.sites.entry(name).blocks);
    add(alone);
  }
  StreamedExact exact(spec, spec.room->trajectory(Tier::w2));
  for (long i = 0; i < segments.count(); ++i) {
    const Problem segment = segments.at(i);
    exact.advance(segment);
    const std::vector<HiLo>& value = exact.outputs().data;
    words::in_parallel(runs.size(), spec.threads, [&](std::size_t r) {
      const Answer answer = runs[r].kernel.advance(segment);
      const Array& got = answer.outputs.find(spec.output)->second;
      for (int t = 0; t < got.shape[1]; ++t) {
        const Squares s = squares_at(got, value, t);
        runs[r].windows.add(segments.begin(i) + t, s.error, s.value);
        runs[r].squares += s;
      }
    });
    if (done) done(static_cast<std::size_t>(segments.count()), "sites alone");
  }
  drift.prefix_error = runs[0].squares.relative();
  drift.unrounded_error = runs[1].squares.relative();
  double sum = 0;
  for (std::size_t r = 2; r < runs.size(); ++r) sum += runs[r].squares.error;
  const GrowthFacts facts{std::max(GrowthFacts().spread, drift.series.front().spread), drift.memory};
  for (std::size_t r = 2; r < runs.size(); ++r) {
    runs[r].windows.close();
    drift.sites.push_back({names[r - 2], whole.sites.at(names[r - 2]), runs[r].squares.relative(),
                           sum > 0 ? runs[r].squares.error / sum : 0,
                           fit_growth(runs[r].windows.points(spec.prefix), facts)});
  }
  std::ranges::stable_sort(drift.sites, [](const DriftSite& a, const DriftSite& b) { return a.share > b.share; });
}

void check(const DriftSpec& spec) {
  const std::string obstacle = stream_obstacle(*spec.room, spec.inputs.params);
  require(obstacle.empty(), obstacle);
  for (const auto& [site, format] : spec.sites)
    require(spec.form->sites.find(site) >= 0, spec.room->name, ' ', spec.form->name, " has no site ", site);
  require(spec.draws == 0 || measure_of(spec).sites.find(output_site) >= 0, spec.room->name, ' ', spec.form->name,
          ": no site stores the outputs");
  require(spec.draws == 0 || spec.draws >= 3, "a spread takes three draws or more, got ", spec.draws);
}

}  // namespace

Segments::Segments(const Room& room, CaseSpec spec, long tokens, int segment)
    : room_(room), spec_(std::move(spec)), tokens_(tokens), segment_(segment) {
  require(tokens >= 1 && segment >= 1, "a sequence takes a token or more, and so does a segment");
}

Problem Segments::at(long i) const {
  CaseSpec spec = spec_;
  spec.mechanism = room_.name;
  spec.shape.seq_len = static_cast<int>(begin(i + 1) - begin(i)), spec.shape.query_len = 0;
  if (i > 0) spec.seed = Stream(spec_.seed, "drift/segment").bits(static_cast<std::uint64_t>(i));
  Problem problem = room_.make(spec);
  problem.cotangents.clear();
  return problem;
}

void carry_on(const Room& room, const Problem& before, const Arrays& outputs, Problem& next) {
  bool has_tail = false;
  for (const auto& [from, to] : carried_names(room)) {
    const auto it = outputs.find(from);
    const bool tail = to.starts_with("tail_");
    if (it == outputs.end() || (!tail && !room.is_program() && !before.inputs.contains(to))) continue;
    next.inputs[to] = it->second;
    has_tail |= tail;
  }
  const bool shifted = room.shifted(next.params);
  const auto fields = room.inputs();
  // A program has such a switch if it says so.
  const bool starts = !room.is_program() || find_field(fields, "sequence_start") != nullptr;
  if (starts && (shifted || has_tail)) next.params["sequence_start"] = false;
  for (const RoomFacts::Ranked& r : fields) {
    constexpr std::string_view carry = "_carry";
    if (!shifted || !r.field.name.ends_with(carry)) continue;
    const auto of = before.inputs.find(r.field.name.substr(0, r.field.name.size() - carry.size()));
    if (of == before.inputs.end()) continue;
    const int T = of->second.shape[1];
    Array last = rows(of->second, T - 1, T);
    last.shape.erase(last.shape.begin() + 1);
    next.inputs[std::string(r.field.name)] = std::move(last);
  }
}

Problem joined(const Room& room, const std::vector<Problem>& segments) {
  Problem whole = segments.front();
  for (const RoomFacts::Ranked& r : room.inputs()) {
    const auto it = whole.inputs.find(r.field.name);
    if (it == whole.inputs.end() || !is_by_token(r)) continue;
    Array& array = it->second;
    const std::size_t size = row_size(array.shape);
    array.shape[1] = 0, array.data.clear();
    for (const Problem& segment : segments) array.shape[1] += segment.inputs.find(it->first)->second.shape[1];
    for (std::size_t h = 0; h < static_cast<std::size_t>(array.shape[0]); ++h)
      for (const Problem& segment : segments) {
        const Array& part = segment.inputs.find(it->first)->second;
        const std::size_t rows_size = static_cast<std::size_t>(part.shape[1]) * size;
        const auto from = part.data.begin() + static_cast<std::ptrdiff_t>(h * rows_size);
        array.data.insert(array.data.end(), from, from + static_cast<std::ptrdiff_t>(rows_size));
      }
  }
  return whole;
}

Answer StreamedKernel::advance(const Problem& segment) {
  Problem problem = segment;
  if (segment_ > 0) carry_on(room_, before_, left_, problem);
  Policy policy = policy_;
  policy.seed = RandomBits{policy_.seed}.at(static_cast<std::uint64_t>(segment_));
  Answer answer = draw(form_, problem, policy, tile_);
  ++segment_, before_ = segment, left_ = answer.outputs;
  return answer;
}

void DriftWindows::add(long token, double error_squared, double squared) {
  while (windows_.empty() || token >= windows_.back().last)
    windows_.push_back({windows_.empty() ? 0 : windows_.back().last, window_end(windows_.size())});
  DriftWindow& w = windows_.back();
  w.tokens += static_cast<double>(token) + 1, ++w.count;
  w.error_squared += error_squared, w.squared += squared;
}

void DriftWindows::close() {
  std::erase_if(windows_, [](const DriftWindow& w) { return w.count == 0; });
  if (windows_.size() < 2) return;
  const DriftWindow last = windows_.back();
  DriftWindow& before = windows_[windows_.size() - 2];
  if (2 * last.count >= before.count) return;
  before.last = last.last, before.tokens += last.tokens, before.count += last.count;
  before.error_squared += last.error_squared, before.squared += last.squared;
  windows_.pop_back();
}

std::vector<GrowthPoint> DriftWindows::points(long last) const {
  std::vector<GrowthPoint> list;
  for (const DriftWindow& w : windows_)
    if (w.first > 0 && w.last <= last && w.squared > 0) list.push_back({w.position(), w.error()});
  return list;
}

bool Drift::decided() const {
  if (series.empty()) return true;
  const auto& windows = series.front().windows.all();
  return std::ranges::all_of(
      windows, [&](const DriftWindow& w) { return w.error_squared == 0 || reference_off <= oracle_share * w.error(); });
}

bool Drift::failed() const {
  const bool surprised = std::ranges::any_of(
      series, [](const DriftSeries& s) { return s.has_prediction() && s.determined() && !s.predicted_well(); });
  return overflows_at || first_past || first_past_in_segment || surprised;
}

bool Drift::passed() const {
  return decided() && !failed() &&
         std::ranges::all_of(series, [](const DriftSeries& s) { return !s.has_prediction() || s.determined(); });
}

double DriftSeries::low() const { return early->low(ended_at) * tile::ex2(-2 * spread * log2_e); }
double DriftSeries::high() const { return early->high(ended_at) * tile::ex2(2 * spread * log2_e); }

std::optional<double> memory_of(const DriftSpec& spec, long tokens) {
  const Segments segments(*spec.room, spec.inputs, tokens, spec.segment);
  StreamedExact healthy(spec, spec.room->trajectory(Tier::fp64)), perturbed(spec, spec.room->trajectory(Tier::fp64));
  struct Left {
    double tokens = 0, squared = 0;
  };
  std::vector<Left> left(1);
  // A difference of doubles is no smaller than this part of them.
  constexpr double rounding = 0x1p-80;
  for (long i = 0; i < segments.count() && left.back().squared >= left.front().squared * rounding; ++i) {
    Problem segment = segments.at(i);
    healthy.advance(segment);
    if (i == 0)
      for (const auto& [from, to] : carried_names(*spec.room)) {
        if (!to.starts_with("initial_") || !segment.inputs.contains(to)) continue;
        const Stream stream(spec.inputs.seed, "drift/perturbation");
        std::uint64_t n = 0;
        for (double& x : segment.inputs[to].data) {
          const double apart = stream.normal(n++);
          x += apart, left.front().squared += apart * apart;
        }
      }
    if (left.front().squared == 0) return std::nullopt;
    perturbed.advance(segment);
    double squared = 0;
    for (const auto& [from, to] : carried_names(*spec.room)) {
      const auto it = healthy.values().find(from);
      if (it == healthy.values().end() || !to.starts_with("initial_")) continue;
      const std::vector<HiLo>& moved = perturbed.values().find(from)->second.data;
      for (std::size_t n = 0; n < moved.size(); ++n) squared += square(moved[n].hi - it->second.data[n].hi);
    }
    left.push_back({static_cast<double>(segments.begin(i + 1)), squared});
  }
  if (!std::isfinite(left.back().squared)) return std::nullopt;
  const Left last = left.back();
  Left half = left.front();
  for (const Left& l : left)
    if (2 * l.tokens <= last.tokens) half = l;
  const double least = std::max(last.squared, left.front().squared * rounding * rounding);
  const double rate = tile::lg2(half.squared / least) / log2_e / (last.tokens - half.tokens);
  // A perturbation that changes by less than a thousandth up to the end does not change.
  if (std::fabs(rate) * static_cast<double>(spec.tokens) < 1e-3) return std::numeric_limits<double>::infinity();
  return 1 / rate;
}

std::string output_of(const Room& room) {
  std::string first;
  for (const RoomFacts::Ranked& r : room.outputs()) {
    if (r.field.name == "o") return "o";
    if (first.empty() && is_by_token(r)) first = r.field.name;
  }
  return first;
}

std::string stream_obstacle(const Room& room, const Params& params) {
  if (room.is_program()) {
    if (output_of(room).empty()) return text(room.name, " has no output with a row for every token");
    return language::stream_obstacle(room);
  }
  if (room.trajectory(Tier::fp64) == nullptr)
    return text(room.name, " is no recurrence that takes up the states of the segment before");
  const auto it = params.find("normalization");
  if (it != params.end())
    if (const auto* word = std::get_if<std::string>(&it->second); word != nullptr && *word == "count")
      return text(room.name, ": normalization = count counts every segment from its own start");
  return "";
}

Drift measure_drift(const DriftSpec& spec, const DriftDone& done) {
  check(spec);
  const Segments segments(*spec.room, spec.inputs, spec.tokens, spec.segment);
  Drift drift;
  drift.spec = spec;
  Problem segment = segments.at(0);
  const std::string obstacle = spec.form->obstacle(segment);
  require(obstacle.empty(), spec.room->name, ' ', spec.form->name, ": ", obstacle);
  prove_start(spec, segments, drift);

  // A prediction is one of what lies well ahead.
  if (spec.tokens >= 2 * spec.prefix) predict(spec, drift);

  StreamedKernel kernel(*spec.room, *spec.form, policy_of(spec), spec.tile);
  StreamedExact exact(spec, spec.room->trajectory(Tier::w2)), rough(spec, spec.room->trajectory(Tier::fp64));
  Budget budget(spec);
  Problem next;
  Answer answer;
  for (long i = 0; i < segments.count(); ++i) {
    words::in_parallel(4 + budget.runs(), spec.threads, [&](std::size_t task) {
      if (task == 0)
        exact.advance(segment);
      else if (task == 1)
        answer = kernel.advance(segment);
      else if (task == 2)
        rough.advance(segment);
      else if (task == 3)
        next = i + 1 < segments.count() ? segments.at(i + 1) : Problem();
      else
        budget.advance(task - 4, segment);
    });
    const BasicArrays<HiLo>& values = exact.values();
    if (drift.series.empty()) drift.series = series_of(spec, values);
    const long first = segments.begin(i), end = segments.begin(i + 1);
    if (!all_finite(answer.outputs)) {
      drift.overflows_at = first;
      break;
    }
    drift.tokens = end;
    drift.reference_off = std::max(drift.reference_off, off_by(exact.outputs().data, rough.outputs().data));
    add_errors(answer.outputs, values, first, end, drift.series);
    const Array& o = answer.outputs.find(spec.output)->second;
    const std::vector<HiLo>& o_value = exact.outputs().data;
    if (spec.budget > 0)
      judge_relative(spec, o, o_value, first, drift);
    else if (budget.runs() > 0)
      budget.judge(o, o_value, first, segments.count(), drift);
    std::swap(segment, next);
    if (done) done(static_cast<std::size_t>(segments.count()), text(end, " tokens"));
  }
  for (DriftSeries& series : drift.series) {
    series.windows.close();
    const auto& windows = series.windows.all();
    series.fit = fit_growth(series.windows.points(std::numeric_limits<long>::max()),
                            {std::max(GrowthFacts().spread, series.spread), drift.memory});
    if (drift.tokens < 2 * spec.prefix) series.early.reset();  // it overflowed
    if (!windows.empty() && windows.back().squared > 0)
      series.ended_at = windows.back().position(), series.ended = windows.back().error();
  }
  if (spec.by_site) attribute(spec, drift, done);
  return drift;
}

}  // namespace assay
