#include "oracles/core/infer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "oracles/core/case_file.hpp"
#include "oracles/core/stored.hpp"
#include "reference/core/error.hpp"
#include "reference/core/random.hpp"

namespace assay {
namespace {

using Values = std::vector<double>;
constexpr double infinite = std::numeric_limits<double>::infinity();

/// Runs of a site that say how much of the error it makes; of those that say most, so many sets are looked at closely.
constexpr int screening_draws = 2;
constexpr std::size_t looked_at = 6;
/// Rows that are of one half together.
constexpr int block = 16;

/// Which elements a set of sites is fitted to; the rest confirm it.
std::vector<char> half_of(const Layout& n) {
  std::vector<char> mask(n.size());
  std::size_t i = 0;
  for (int h = 0; h < n.heads; ++h)
    for (int r = 0; r < n.rows; ++r)
      for (int c = 0; c < n.cols; ++c)
        mask[i++] = static_cast<char>((n.heads > 1 ? h : n.rows > block ? r / block : r * n.cols + c) % 2 == 0);
  return mask;
}

/// A format that kernels round `format` to where they save, or what they multiply in; exact where there is none.
Format coarser(Format format, Format precision) {
  if (format == Format::fp64) return Format::fp32;
  if (format == Format::fp32) return precision == Format::fp16 ? Format::fp16 : Format::bf16;
  return format == Format::tf32 ? Format::bf16 : Format::exact;
}

/// A site, or a group of sites, in a format that is coarser than the contract's.
struct Candidate {
  Contract::Rule rule;
  std::vector<Values> more = {};  ///< what that adds to the squared error, by case and tensor
};

std::vector<Candidate> candidates_of(const KernelUnderTest& kernel) {
  const tile::SiteTable sites = kernel.policy().sites;
  std::vector<Candidate> list;
  for (int i = 0; i < sites.size; ++i) {
    const tile::SiteTable::Entry& entry = sites.entries[i];
    const Format format = coarser(entry.format, kernel.precision);
    if (entry.role == tile::Role::output || entry.view() == "descale" || format == Format::exact) continue;
    list.push_back({{.site = std::string(entry.view()), .format = format}});
  }
  for (const SiteGroup& group : site_groups()) {
    const auto members = group.members(sites);
    if (members.empty() || group.name == "outputs") continue;
    const Format format = coarser(sites.at(members.front()), kernel.precision);
    if (format != Format::exact) list.push_back({{.site = std::string(group.name), .format = format}});
    if (group.name == "operands" && kernel.precision == Format::fp32)
      list.push_back({{.site = std::string(group.name), .format = Format::tf32}});
  }
  return list;
}

/// A case with all that does not depend on the contract.
struct Studied {
  const AnsweredCase& given;
  KernelRuns runs;  ///< under the contract of the precision
  Expectation expectation = {};
  std::vector<const Values*> got = {};
  std::vector<std::vector<char>> fitted = {};
  Values seen = {}, base = {};  ///< squared errors of the fitted half, by tensor: what was answered, what is allowed
};

double error_at(const Expected& e, const Values& got, std::size_t i) {
  return (got[i] - e.value[i].hi) - e.value[i].lo;
}

class Search {
 public:
  Search(std::span<const AnsweredCase> cases, const KernelUnderTest& kernel, const std::function<bool()>& stop)
      : kernel_(kernel), base_(Contract::of(kernel.precision)), stop_(stop) {
    kernel_.contract = &base_;
    for (const AnsweredCase& given : cases) studied_.push_back(study(given, studied_.size(), cases.size()));
    result_.contract = base_;
    result_.fitted = cases.size() > 1 ? "every other case" : "every other head, block of 16 tokens or element";
  }

  InferredContract run() {
    if (!is_finite()) return fail("an answer is not finite, which no rounding explains");
    if (passes_all(base_)) return result_.explained = true, std::move(result_);
    std::vector<Candidate> list = candidates_of(kernel_);
    for (Candidate& candidate : list) {
      if (time_is_up()) return fail("there was no time to try all sites");
      screen(candidate);
    }
    std::erase_if(list, [](const Candidate& c) {
      return std::all_of(c.more.begin(), c.more.end(), [](const Values& tensors) {
        return std::all_of(tensors.begin(), tensors.end(), [](double x) { return x == 0; });
      });
    });
    for (int size = 1; size <= inferred_sites; ++size)
      for (const std::vector<std::size_t>& set : best_sets(list, size)) {
        if (time_is_up()) return fail("there was no time to try all sets of sites");
        Contract contract = base_;
        for (const std::size_t c : set) contract.rules.push_back(list[c].rule);
        ++result_.tried;
        if (!passes_all(contract)) continue;
        result_.explained = true, result_.contract = std::move(contract);
        return std::move(result_);
      }
    return fail(text("no set of up to ", inferred_sites, " sites or groups in a coarser format explains the answers"));
  }

 private:
  bool time_is_up() const { return stop_ && stop_(); }
  InferredContract fail(std::string why) {
    result_.obstacle = std::move(why);
    return std::move(result_);
  }

  Expectation expectation_of(const AnsweredCase& given, const KernelUnderTest& kernel, KernelRuns& runs) const {
    add_runs(runs, kernel, given.problem, default_draws);
    Expectation e = expect(given.oracle, kernel, given.problem, runs);
    std::erase_if(e.tensors, [&](const auto& tensor) { return !given.got.contains(tensor.first); });
    for (auto& [name, expected] : e.tensors)
      if (const auto dtype = given.stored.find(name); dtype != given.stored.end())
        allow_storage(expected, dtype->second);
    return e;
  }

  Studied study(const AnsweredCase& given, std::size_t number, std::size_t count) const {
    Studied s{given, {}};
    s.expectation = expectation_of(given, kernel_, s.runs);
    for (const auto& [name, e] : s.expectation.tensors) {
      const Values& got = given.got.at(name).data;
      require(got.size() == e.value.size(), name, ": expected ", e.value.size(), " values, got ", got.size());
      s.got.push_back(&got);
      s.fitted.push_back(count > 1 ? std::vector<char>(got.size(), static_cast<char>(number % 2 == 0))
                                   : half_of(e.layout));
      double seen = 0, base = 0;
      for (std::size_t i = 0; i < got.size(); ++i)
        if (s.fitted.back()[i] != 0) {
          seen += std::pow(error_at(e, got, i), 2);
          if (std::isfinite(e.sigma[i])) base += e.sigma[i] * e.sigma[i];
        }
      s.seen.push_back(seen), s.base.push_back(base);
    }
    return s;
  }

  bool is_finite() const {
    return std::all_of(studied_.begin(), studied_.end(), [](const Studied& s) {
      return std::all_of(s.got.begin(), s.got.end(), [](const Values* v) {
        return std::all_of(v->begin(), v->end(), [](double x) { return std::isfinite(x); });
      });
    });
  }

  /// Random rounding at that site against none there, all others as the contract has them.
  void screen(Candidate& candidate) const {
    Contract contract = base_;
    contract.rules.push_back(candidate.rule);
    KernelUnderTest kernel = kernel_;
    kernel.contract = &contract;
    for (const Studied& s : studied_) {
      Values more(s.got.size());
      Policy policy = kernel.policy();
      policy.rounding = Rounding::jittered;
      for (int k = 0; k < screening_draws; ++k) {
        policy.seed = RandomBits{}.at(static_cast<std::uint64_t>(k));
        const Arrays coarse = flat(kernel.form->run(s.given.problem, policy, kernel.tile));
        for (std::size_t t = 0; t < more.size(); ++t) {
          const std::string& name = s.expectation.tensors[t].first;
          const auto same = [&](const auto& tensor) { return tensor.first == name; };
          const Array& fine = std::find_if(s.runs.drawn[static_cast<std::size_t>(k)].begin(),
                                           s.runs.drawn[static_cast<std::size_t>(k)].end(), same)
                                  ->second;
          const Array& exact = std::find_if(s.runs.exact.begin(), s.runs.exact.end(), same)->second;
          const Values& x = coarse.at(name).data;
          // Jittered rounding has twice the variance of rounding to nearest.
          for (std::size_t i = 0; i < x.size(); ++i)
            if (s.fitted[t][i] != 0)
              more[t] += (std::pow(x[i] - exact.data[i], 2) - std::pow(fine.data[i] - exact.data[i], 2)) /
                         (2 * screening_draws);
        }
      }
      for (double& x : more) x = std::isfinite(x) ? std::max(0.0, x) : infinite;
      candidate.more.push_back(std::move(more));
    }
  }

  /// By how much a set's squared errors are not those seen: the worst tensor, as a logarithm.
  double misfit(const std::vector<Candidate>& list, const std::vector<std::size_t>& set) const {
    double worst = 0;
    for (std::size_t s = 0; s < studied_.size(); ++s)
      for (std::size_t t = 0; t < studied_[s].seen.size(); ++t) {
        double expected = studied_[s].base[t];
        for (const std::size_t c : set) expected += list[c].more[s][t];
        const double seen = studied_[s].seen[t];
        if (expected == 0 && seen == 0) continue;
        worst = std::max(worst, expected > 0 && seen > 0 ? std::fabs(std::log2(seen / expected)) : infinite);
      }
    return worst;
  }

  std::vector<std::vector<std::size_t>> best_sets(const std::vector<Candidate>& list, int size) const {
    std::vector<std::pair<double, std::vector<std::size_t>>> ranked;
    std::vector<std::size_t> set;
    const std::function<void(std::size_t)> extend = [&](std::size_t from) {
      if (static_cast<int>(set.size()) == size) {
        const double x = misfit(list, set);
        if (std::isfinite(x)) ranked.emplace_back(x, set);
        return;
      }
      for (std::size_t c = from; c < list.size(); ++c) {
        set.push_back(c);
        extend(c + 1);
        set.pop_back();
      }
    };
    extend(0);
    std::sort(ranked.begin(), ranked.end());
    ranked.resize(std::min(ranked.size(), looked_at));
    std::vector<std::vector<std::size_t>> sets;
    for (auto& [x, best] : ranked) sets.push_back(std::move(best));
    return sets;
  }

  /// Whether a half is what a kernel of that contract answers: within every limit, and, where it allows more than the
  /// precision does, with errors as large as it says.
  bool fits(const Expected& e, const Expected& base, const Values& got, const std::vector<char>& fitted,
            bool half) const {
    double squares = 0, allowed = 0, plain = 0, count = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if ((fitted[i] != 0) != half) continue;
      if (!(excess_at(e, got, i) <= 1)) return false;
      const double z = e.sigma[i] > 0 && std::isfinite(e.sigma[i]) ? error_at(e, got, i) / e.sigma[i] : 0;
      squares += z * z, allowed += e.sigma[i] * e.sigma[i], plain += base.sigma[i] * base.sigma[i], ++count;
    }
    if (count == 0) return true;
    const double rms = std::sqrt(squares / count), limit = e.rms_limit + oracle_share;
    return rms <= limit && (allowed <= 2 * plain || rms * limit >= 1);
  }

  bool passes_all(const Contract& contract) const {
    KernelUnderTest kernel = kernel_;
    kernel.contract = &contract;
    std::vector<Expectation> expected;
    for (const bool half : {true, false})  // what fails to fit need not be confirmed
      for (std::size_t n = 0; n < studied_.size(); ++n) {
        const Studied& s = studied_[n];
        if (half) {
          KernelRuns runs;
          runs.exact = s.runs.exact;
          expected.push_back(contract.plain() ? s.expectation : expectation_of(s.given, kernel, runs));
        }
        for (std::size_t t = 0; t < s.got.size(); ++t) {
          const Expected &e = expected[n].tensors[t].second, &base = s.expectation.tensors[t].second;
          if (!fits(e, base, *s.got[t], s.fitted[t], half)) return false;
          if (!half && judge(e, *s.got[t]).verdict == Verdict::fail) return false;
        }
      }
    return true;
  }

  KernelUnderTest kernel_;
  Contract base_;
  const std::function<bool()>& stop_;
  std::vector<Studied> studied_;
  InferredContract result_;
};

}  // namespace

InferredContract infer_contract(std::span<const AnsweredCase> cases, const KernelUnderTest& kernel,
                                const std::function<bool()>& stop) {
  return Search(cases, kernel, stop).run();
}

std::string json_of(const InferredContract& inferred, const std::string& name) {
  Json sites = Json::object();
  for (const Contract::Rule& rule : inferred.contract.rules) sites[rule.site] = name_of(rule.format);
  return Json{{"name", name},
              {"description", "inferred from answers; fitted to " + inferred.fitted + ", confirmed on the rest"},
              {"base", name_of(inferred.contract.precision)},
              {"sites", std::move(sites)}}
             .dump(2) +
         '\n';
}

}  // namespace assay
