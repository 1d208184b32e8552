#include "judge/verdict/attribution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "judge/contract/site_meanings.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

using Values = std::vector<double>;
using Tensors = std::vector<Values>;  ///< in the order of a report

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Those that have elements, by name.
Named<Values> filled(const Answer& answer) {
  Named<Values> list;
  for (auto& [name, array] : named(answer))
    if (!array.data.empty()) list.emplace_back(name, std::move(array.data));
  return list;
}

Tensors tensors_of(const Answer& answer) {
  Tensors list;
  for (auto& [name, data] : filled(answer)) list.push_back(std::move(data));
  return list;
}

double squared_distance(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

Policy exact_policy(const KernelForm& form, int threads) {
  Policy policy = Policy::exact(form.sites);
  policy.threads = threads;
  return policy;
}

/// The contract's sites at which this problem makes the kernel round something.
std::vector<tile::SiteTable::Entry> active_sites(const KernelUnderTest& kernel, const Problem& problem) {
  std::map<std::string, SiteStats, std::less<>> stats;
  Policy policy = kernel.policy();
  policy.threads = 1, policy.stats = &stats;
  kernel.form->run(problem, policy, kernel.tile);
  std::vector<tile::SiteTable::Entry> active;
  for (int i = 0; i < policy.sites.size; ++i) {
    const tile::SiteTable::Entry& entry = policy.sites.entries[i];
    const auto seen = stats.find(entry.view());
    if (entry.format != Format::exact && seen != stats.end() && seen->second.roundings > 0) active.push_back(entry);
  }
  return active;
}

/// The answers of a kernel with randomised rounding at the contract's sites.
class Draws {
 public:
  Draws(const KernelUnderTest& kernel, const Problem& problem) : kernel_(kernel), problem_(problem) {}

  Answer draw(const tile::SiteTable& sites, int k) const {
    Policy policy = kernel_.policy();
    policy.sites = sites, policy.rounding = Rounding::jittered;
    policy.seed = RandomBits{}.at(static_cast<std::uint64_t>(k));
    return kernel_.form->run(problem_, policy, kernel_.tile);
  }
  /// The sum, for every tensor, of squared distances from `exact` over the draws.
  std::vector<double> squares(const tile::SiteTable& sites, const Tensors& exact, int draws) const {
    std::vector<double> sums(exact.size());
    for (int k = 0; k < draws; ++k) {
      const Tensors drawn = tensors_of(draw(sites, k));
      for (std::size_t t = 0; t < exact.size(); ++t) sums[t] += squared_distance(drawn[t], exact[t]);
    }
    return sums;
  }
  /// All sites exact but accumulators or, of a format, those that round a thousand times less coarsely than it.
  tile::SiteTable accumulators(std::optional<Format> beside = {}) const {
    const tile::SiteTable contract = kernel_.policy().sites;
    tile::SiteTable sites = contract.all(Format::exact);
    for (int i = 0; i < contract.size; ++i) {
      const auto& [name, role, format, blocks] = contract.entries[i];
      if (role != tile::Role::accumulator) continue;
      if (!beside || unit_roundoff(*beside) > 1000 * unit_roundoff(format)) sites.entries[i].format = format;
    }
    return sites;
  }
  /// All sites exact but that one. Where accumulators make next to nothing of the error, they round as they do beside a
  /// coarse site: without any, the CPU executor computes in long double, ten times slower.
  tile::SiteTable alone(const tile::SiteTable::Entry& site, bool are_exact) const {
    const bool all_exact = are_exact || site.role == tile::Role::accumulator;
    const tile::SiteTable others = all_exact ? kernel_.policy().sites.all(Format::exact) : accumulators(site.format);
    return others.with(site.view(), site.format, site.blocks);
  }

 private:
  const KernelUnderTest& kernel_;
  const Problem& problem_;
};

// ---- explanations: everything is in units of sigma ----

/// The answer, and how far a correct kernel may be off.
struct Observed {
  const Expectation& expectation;
  Tensors scale;  ///< sigma, or where it is zero the last rounding's
  Tensors z;

  Values in_sigmas(std::size_t t, const Values& tensor) const {
    const Expected& e = expectation.tensors[t].second;
    Values units(tensor.size());
    for (std::size_t i = 0; i < tensor.size(); ++i)
      units[i] = ((tensor[i] - e.value[i].hi) - e.value[i].lo) / scale[t][i];
    return units;
  }
};

Observed observe(const Expectation& expectation, const Named<Values>& got) {
  Observed seen{expectation, {}, {}};
  for (std::size_t t = 0; t < got.size(); ++t) {
    const Expected& e = expectation.tensors[t].second;
    double squares = 0;
    for (const HiLo& value : e.value) squares += value.hi * value.hi;
    const double typical = std::sqrt(squares / static_cast<double>(e.value.size()));
    Values scale = e.sigma;
    for (std::size_t i = 0; i < scale.size(); ++i)
      if (!(scale[i] > 0))
        scale[i] = spacing(e.ulp_format, std::max(std::fabs(e.value[i].hi), typical)) / std::sqrt(12.0);
    seen.scale.push_back(std::move(scale));
    seen.z.push_back(seen.in_sigmas(t, got[t].second));
  }
  return seen;
}

/// A kernel with the fault answers, in sigmas, about `mean`; `noise` is what its roundings have come to here, and
/// `variance` what they come to on average. Kernels that round the same values have the same noise, others less of it
/// in common.
struct Signature {
  Tensors mean, noise, variance;
};

/// (row mean)(column mean) / (mean), per head; of vectors the mean.
Values smoothed(const Values& x, const Layout& n) {
  const auto R = static_cast<std::size_t>(n.rows), C = static_cast<std::size_t>(n.cols);
  Values y(x.size());
  for (std::size_t first = 0; first < x.size(); first += R * C)
    guess_of_head(&x[first], R, C, R > 1 && C > 1, &y[first]);
  return y;
}

/// How much of the noise two kernels have in common.
constexpr double shared_parts[] = {0, 0.5, 0.8, 0.95, 0.99, 0.999, 0.9999, 1};
/// A kernel that has all of it in common still sums in another order: what that moves, in sigmas.
constexpr double least_spread = 0.1;

/// Twice the log likelihood; and whether no tensor is further off than the judge lets a correct one be.
struct Fit {
  double evidence = -infinite, left = 0;
  bool sufficient = true;
};

double difference(double a, double b) {
  if (std::isfinite(a) && std::isfinite(b)) return a - b;
  return std::isfinite(a) == std::isfinite(b) ? 0 : infinite;
}

Fit fit(const Observed& seen, const Signature& s, double shared) {
  Fit f{0, 0, true};
  for (std::size_t t = 0; t < seen.z.size(); ++t) {
    const Expected& e = seen.expectation.tensors[t].second;
    const auto N = static_cast<double>(e.value.size());
    double squares = 0, spread = 0, seen_squares = 0, left = 0;
    bool within = true;
    for (std::size_t i = 0; i < seen.z[t].size(); ++i) {
      const double own = shared == 1 ? 0 : (1 - shared * shared) * s.variance[t][i];
      const double x = difference(seen.z[t][i], s.mean[t][i] + (shared == 0 ? 0 : shared * s.noise[t][i]));
      if (!std::isfinite(x)) return {-infinite, infinite, false};
      const double w = own + least_spread * least_spread, allowed = std::max(1.0, w);
      f.evidence -= std::log(w) + x * x / w;
      squares += x * x / allowed, spread += allowed / N, seen_squares += seen.z[t][i] * seen.z[t][i];
      left += x * x;
      within = within && std::fabs(x) <= e.reach[i] * std::sqrt(allowed);
    }
    const double limit = (e.rms_limit + oracle_share) * (e.rms_limit + oracle_share), mean_square = squares / N;
    // A spread that is wide enough for anything explains nothing: what is seen must fill it, or be predicted but for
    // the few roundings that another order of sums turns the other way.
    const bool tells = spread < 2 || mean_square >= 1 / limit || left <= (1 - predicted) * seen_squares;
    f.left += left;
    f.sufficient = f.sufficient && within && mean_square <= limit && tells;
  }
  return f;
}

Fit best_fit(const Observed& seen, const Signature& s) {
  Fit best;
  best.sufficient = false;
  for (const double shared : shared_parts) {
    const Fit f = fit(seen, s, shared);
    if (std::pair(f.sufficient, f.evidence) > std::pair(best.sufficient, best.evidence)) best = f;
  }
  return best;
}

/// Formats that kernels use where the contract says `format`.
std::vector<Format> narrower(Format format) {
  switch (format) {
    case Format::fp64:
      return {Format::fp32};
    case Format::fp32:
      return {Format::fp16, Format::bf16};
    case Format::tf32:
      return {Format::bf16};
    case Format::bf16:
    case Format::fp16:
      return {Format::e4m3, Format::e5m2};
    case Format::e4m3:
      return {Format::e5m2};
    case Format::exact:
    case Format::e5m2:
    case Format::e2m1:
    case Format::int8:
    case Format::int4:
      break;
  }
  return {};
}

/// The answer of `run`, in sigmas; nothing where it throws or has other tensors.
template <class Run>
std::optional<Tensors> answered(const Observed& seen, const Run& run) {
  Tensors list;
  try {
    const Answer answer = run();
    for (auto& [name, tensor] : in_report_order(answer, seen.expectation))
      list.push_back(seen.in_sigmas(list.size(), tensor));
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return list;
}

Tensors minus(const Tensors& a, const Tensors& b) {
  Tensors c = a;
  for (std::size_t t = 0; t < a.size(); ++t)
    for (std::size_t i = 0; i < a[t].size(); ++i) c[t][i] = difference(a[t][i], b[t][i]);
  return c;
}

class Explainer {
 public:
  Explainer(const Expectation& expectation, const Named<Values>& got, const KernelUnderTest& kernel,
            const Problem& problem, const std::function<bool()>& stop)
      : seen_(observe(expectation, got)), kernel_(kernel), problem_(problem), stop_(stop) {
    for (const Values& z : seen_.z)
      for (const double x : z) squares_ += std::isfinite(x) ? x * x : 0;
    Signature healthy;
    for (std::size_t t = 0; t < seen_.z.size(); ++t) {
      healthy.mean.emplace_back(seen_.z[t].size(), 0.0);
      healthy.variance.emplace_back(seen_.z[t].size(), 1.0);
      healthy.noise.push_back(seen_.in_sigmas(t, expectation.emulated[t].second));
    }
    healthy_ = best_fit(seen_, healthy).evidence;
  }

  /// One run says which sites are worth a closer look.
  void try_sites() {
    constexpr std::size_t looked_at = 12;
    std::vector<SiteTrial> trials;
    for (const tile::SiteTable::Entry& entry : active_sites(kernel_, problem_))
      for (const Format format : narrower(entry.by_blocks() ? Format::exact : entry.format)) {
        std::optional<SiteTrial> best;
        for (std::size_t tile = 0; tile < kernel_.form->tiles.size() && !time_is_up(); ++tile) {
          SiteTrial trial{entry, format, static_cast<int>(tile), {}, {}, -infinite};
          if (run(trial) && (!best || trial.evidence > best->evidence)) best = std::move(trial);
        }
        if (best) trials.push_back(std::move(*best));
      }
    std::stable_sort(trials.begin(), trials.end(),
                     [](const SiteTrial& x, const SiteTrial& y) { return x.evidence > y.evidence; });
    trials.resize(std::min(trials.size(), looked_at));
    for (std::size_t i = 0; i < trials.size() && !time_is_up(); ++i) look_at(trials[i], std::span(trials).first(i));
  }

  /// Tries the planted faults, on problems whose runs are short.
  void try_faults() {
    for (const char* name : {"q", "k", "v"})
      if (const auto x = problem_.inputs.find(name); x != problem_.inputs.end() && x->second.shape.back() > 16) return;
    for (const Mutant& mutant : kernel_.form->mutants)
      try_kernel(Explanation::Kind::fault, mutant.name, text(mutant.name, ": ", mutant.what), *kernel_.form,
                 mutant.name);
  }

  void try_form(const KernelForm& form) {
    try_kernel(Explanation::Kind::form, form.name, text("form ", form.name, ": ", form.unstable), form, {});
  }

  Explanations finish() {
    auto& list = found_.list;
    std::stable_sort(list.begin(), list.end(), [](const Explanation& a, const Explanation& b) {
      return std::tuple(a.sufficient, a.evidence) > std::tuple(b.sufficient, b.evidence);
    });
    // Which of those that the data do not tell apart has the most is up to the kernel's last bits: names order them.
    const auto rest = std::find_if(list.begin(), list.end(), [&](const Explanation& e) {
      return !e.sufficient || list.front().evidence - e.evidence >= telling;
    });
    std::stable_sort(list.begin(), rest, [](const Explanation& a, const Explanation& b) {
      return std::tie(a.kind, a.name) < std::tie(b.kind, b.name);
    });
    return std::move(found_);
  }

 private:
  /// A kernel that is wrong with or without rounding.
  void try_kernel(Explanation::Kind kind, std::string_view name, const std::string& what, const KernelForm& form,
                  std::string_view fault) {
    std::optional<Explanation> best;
    KernelUnderTest wrong = kernel_;
    wrong.form = &form;
    for (std::size_t tile = 0; tile < form.tiles.size() && !time_is_up(); ++tile) {
      const auto run = [&](Policy policy) {
        policy.fault = fault, policy.threads = kernel_.threads;
        return answered(seen_, [&] { return form.run(problem_, policy, static_cast<int>(tile)); });
      };
      const auto as_contracted = run(wrong.policy()), exact = run(exact_policy(form, kernel_.threads));
      if (!as_contracted || !exact) continue;
      Signature s{*exact, minus(*as_contracted, *exact), {}};
      for (std::size_t t = 0; t < s.noise.size(); ++t) {
        Values squares = s.noise[t];
        for (double& x : squares) x = std::isfinite(x) ? x * x : 0;
        s.variance.push_back(smoothed(squares, seen_.expectation.tensors[t].second.layout));
        for (double& v : s.variance.back()) v = std::max(1.0, v);
      }
      const Explanation e = explanation(kind, name, what, best_fit(seen_, s));
      if (!best || std::pair(e.sufficient, e.evidence) > std::pair(best->sufficient, best->evidence)) best = e;
    }
    if (best && std::isfinite(best->evidence)) found_.list.push_back(std::move(*best));
  }

  Explanation explanation(Explanation::Kind kind, std::string_view name, std::string what, const Fit& f) const {
    return {kind,
            std::string(name),
            std::move(what),
            (f.evidence - healthy_) / 2,
            std::clamp(1 - f.left / squares_, 0.0, 1.0),
            f.sufficient && f.evidence > healthy_};
  }

  struct SiteTrial {
    tile::SiteTable::Entry site;
    Format format;
    int tile;
    Tensors rounded;  ///< what the kernel answers then
    Tensors squares;  ///< of it and of draws, summed
    double evidence;
  };

  tile::SiteTable sites_of(const SiteTrial& trial) const {
    return kernel_.policy().sites.with(trial.site.view(), trial.format);
  }
  Signature signature_of(const SiteTrial& trial, int runs) const {
    Signature s;
    s.noise = trial.rounded;
    for (std::size_t t = 0; t < trial.squares.size(); ++t) {
      s.variance.push_back(smoothed(trial.squares[t], seen_.expectation.tensors[t].second.layout));
      for (double& v : s.variance[t]) v = std::max(v / runs, 1.0);
      s.mean.emplace_back(s.variance[t].size(), 0.0);
    }
    return s;
  }
  /// Whether the site's roundings would be seen.
  bool run(SiteTrial& trial) const {
    Policy policy = kernel_.policy();
    policy.sites = sites_of(trial);
    auto rounded = answered(seen_, [&] { return kernel_.form->run(problem_, policy, trial.tile); });
    if (!rounded) return false;
    double largest = 0;
    for (Values z : *rounded) {
      double sum = 0;
      for (double& x : z) {
        if (!std::isfinite(x)) return false;
        x *= x, sum += x;
      }
      largest = std::max(largest, sum / static_cast<double>(z.size()));
      trial.squares.push_back(std::move(z));
    }
    trial.rounded = std::move(*rounded);
    trial.evidence = best_fit(seen_, signature_of(trial, 1)).evidence;
    return largest > 1.2;
  }
  /// Adds those of a draw: jittered rounding has twice the variance of nearest_even.
  static void add_squares(const Tensors& drawn, Tensors& squares) {
    for (std::size_t t = 0; t < drawn.size(); ++t)
      for (std::size_t i = 0; i < drawn[t].size(); ++i)
        if (std::isfinite(drawn[t][i])) squares[t][i] += drawn[t][i] * drawn[t][i] / 2;
  }
  /// Sites whose roundings are the same numbers share the draws of the first, and no number tells them apart.
  void look_at(SiteTrial& trial, std::span<const SiteTrial> before) {
    constexpr int draws = 3;
    KernelUnderTest kernel = kernel_;
    kernel.tile = trial.tile;
    const auto same =
        std::find_if(before.begin(), before.end(), [&](const SiteTrial& t) { return t.rounded == trial.rounded; });
    if (same != before.end()) trial.squares = same->squares;
    for (int k = 0; same == before.end() && k < draws; ++k) {
      const auto drawn = answered(seen_, [&] { return Draws(kernel, problem_).draw(sites_of(trial), k); });
      if (drawn) add_squares(*drawn, trial.squares);
    }
    found_.list.push_back(explanation(
        Explanation::Kind::site, trial.site.view(),
        text(site_in_words(problem_.mechanism, kernel_.form->name, trial.site.view()), " in ", name_of(trial.format)),
        best_fit(seen_, signature_of(trial, 1 + draws))));
  }

  bool time_is_up() const { return stop_ && stop_(); }

  Observed seen_;
  const KernelUnderTest& kernel_;
  const Problem& problem_;
  const std::function<bool()>& stop_;
  double healthy_ = 0, squares_ = 0;
  Explanations found_;
};

}  // namespace

namespace {
/// Below, it is the accumulators that are left as they are.
constexpr double least_share = 1e-6;
/// The share of an error that three digits hide.
constexpr double unseen_share = 1e-3;
}  // namespace

Named<Contributions> contributions_of(const KernelUnderTest& kernel, const Problem& problem, int draws) {
  Tensors exact;
  Named<Contributions> list;
  for (auto& [name, data] : filled(kernel.form->run(problem, exact_policy(*kernel.form, kernel.threads), kernel.tile)))
    list.emplace_back(name, Contributions{}), exact.push_back(std::move(data));
  const Draws random(kernel, problem);
  const tile::SiteTable contract = kernel.policy().sites;
  const std::vector<double> total = random.squares(contract, exact, draws);
  const std::vector<double> of_sums = random.squares(random.accumulators(), exact, draws);
  bool sums_are_seen = false;
  for (std::size_t t = 0; t < exact.size(); ++t) sums_are_seen = sums_are_seen || of_sums[t] > unseen_share * total[t];
  const std::vector<tile::SiteTable::Entry> sites = active_sites(kernel, problem);
  std::vector<std::vector<double>> shares;
  std::vector<double> sums(exact.size());
  for (const tile::SiteTable::Entry& site : sites) {
    shares.push_back(random.squares(random.alone(site, sums_are_seen), exact, draws));
    for (std::size_t t = 0; t < exact.size(); ++t) {
      double& share = shares.back()[t];
      share = total[t] > 0 ? share / total[t] : 0;
      sums[t] += share;
    }
  }
  // Two sites that round one after the other to the same grid do together what either does alone, and neither is missed
  // without the other: each gets half, the mean of what it does alone and of what is gone without it.
  for (std::size_t s = 0; s < sites.size(); ++s) {
    std::vector<char> large(exact.size());
    for (std::size_t t = 0; t < exact.size(); ++t) large[t] = sums[t] > 1.1 && shares[s][t] > 0.03;
    if (std::none_of(large.begin(), large.end(), [](char x) { return x != 0; })) continue;
    const std::vector<double> without = random.squares(contract.with(sites[s].view(), Format::exact), exact, draws);
    for (std::size_t t = 0; t < exact.size(); ++t)
      if (large[t] != 0) shares[s][t] = (shares[s][t] + std::clamp(1 - without[t] / total[t], 0.0, shares[s][t])) / 2;
  }
  for (std::size_t t = 0; t < exact.size(); ++t)
    for (std::size_t s = 0; s < sites.size(); ++s)
      if (shares[s][t] > least_share) {
        Contributions& c = list[t].second;
        c.sites.push_back({std::string(sites[s].view()), sites[s].format, sites[s].blocks, shares[s][t]});
        c.sum += shares[s][t];
      }
  for (auto& [name, c] : list)
    std::stable_sort(c.sites.begin(), c.sites.end(),
                     [](const SiteShare& a, const SiteShare& b) { return a.share > b.share; });
  return list;
}

Explanations explain(const Expectation& expectation, const Named<Values>& got, const KernelUnderTest& kernel,
                     const Problem& problem, const std::function<bool()>& stop) {
  Explainer explainer(expectation, got, kernel, problem, stop);
  // The kinds that are quick to try and say most come first, should time run out.
  explainer.try_faults();
  if (const KernelRoom* room = find_kernels(kernel_rooms(), problem.mechanism))
    for (const KernelForm& form : room->forms)
      if (!form.unstable.empty() && form.obstacle(problem).empty() &&
          (kernel.contract == nullptr || kernel.contract->obstacle(form.sites).empty()))
        explainer.try_form(form);
  explainer.try_sites();
  return explainer.finish();
}

}  // namespace assay
