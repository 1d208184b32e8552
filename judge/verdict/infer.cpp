#include "judge/verdict/infer.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "files/case_file.hpp"
#include "judge/sigma/by_model.hpp"
#include "judge/sigma/model.hpp"
#include "judge/sigma/other_algorithms.hpp"
#include "judge/sigma/stored.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

using Values = std::vector<double>;

/// Rows that are of one half together.
constexpr int block = 16;
/// An answer is explained where a run that rounds there has this share of its squared error beyond what the precision's
/// contract makes anyhow. A site that happens to widen a tolerance has none.
constexpr double predicted_share = 0.5;
/// Fewer elements than that agree by chance.
constexpr double fewest_elements = 32;
/// The next site of a set must halve what is left by this much, or the set is left as it is.
constexpr double worthwhile_gain = 0.1;

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

/// A format that kernels round `format` to where they save; exact where there is none.
Format coarser(Format format, Format precision) {
  if (format == Format::fp64) return Format::fp32;
  if (format == Format::fp32) return precision == Format::fp16 ? Format::fp16 : Format::bf16;
  return format == Format::tf32 ? Format::bf16 : Format::exact;
}

/// A site, or a group of sites, in a format that is coarser than the contract's.
struct Candidate {
  Contract::Rule rule;
  bool cut = false;  ///< off towards zero
};

std::vector<Candidate> candidates_of(const KernelUnderTest& kernel) {
  const tile::SiteTable sites = kernel.policy().sites;
  std::vector<Candidate> list;
  const auto add = [&](std::string_view name, Format format, bool cut = false) {
    if (format != Format::exact) list.push_back({{.site = std::string(name), .format = format, .fixed = true}, cut});
  };
  for (int i = 0; i < sites.size; ++i) {
    const tile::SiteTable::Entry& entry = sites.entries[i];
    if (entry.role == tile::Role::output || entry.view() == "descale") continue;
    add(entry.view(), coarser(entry.format, kernel.precision));
  }
  for (const SiteGroup& group : site_groups()) {
    const auto members = group.members(sites);
    if (members.empty() || group.name == "outputs") continue;
    add(group.name, coarser(sites.at(members.front()), kernel.precision));
    if (group.name == "operands" && kernel.precision == Format::fp32)
      for (const bool cut : {false, true}) add(group.name, Format::tf32, cut);
  }
  return list;
}

Contract with(Contract contract, const Candidate& candidate) {
  contract.rules.push_back(candidate.rule);
  if (candidate.cut) contract.towards_zero.push_back(candidate.rule.site);
  if (candidate.rule.format == Format::tf32) {  // by tensor cores, which add up in blocks
    contract.products = products_per_rounding(Format::tf32);
    contract.accumulation.assign(std::begin(all_accumulations), std::end(all_accumulations));
  }
  return contract;
}

/// A case with all that does not depend on the contract.
struct Studied {
  const AnsweredCase& given;
  KernelRuns runs = {};  ///< under the contract of the precision
  Expectation expectation = {};
  std::vector<const Values*> got = {};
  std::vector<bool> fails = {};
  std::vector<std::vector<char>> fitted = {};
};

double error_at(const Expected& e, const Values& got, std::size_t i) {
  return (got[i] - e.value[i].hi) - e.value[i].lo;
}

/// Squares of the errors of elements of tensors that fail, in units of what the precision's contract allows, of which
/// it makes 1 for each: those seen, and those left by a prediction.
struct Squares {
  double seen = 0, left = 0, count = 0;
  double share() const {
    return count < fewest_elements ? 0 : std::min(1.0, (seen - left) / std::max(seen - count, seen / 2));
  }
};

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
    if (keeps(base_)) return result_.explained = true, std::move(result_);
    const std::vector<Candidate> list = candidates_of(kernel_);
    Contract contract = base_;
    std::string why;
    for (int size = 1; size <= inferred_sites; ++size) {
      const std::optional<Candidate> best = best_of(contract, list);
      if (time_is_up()) return fail("there was no time to try all sites");
      if (!best) break;
      contract = with(std::move(contract), *best);
      why = doubt(contract);
      if (!why.empty()) continue;
      leave_out_idle_sites(contract);
      result_.predicted = squares_of(contract, false).share();
      if (has_narrow_state(contract)) return result_.narrow_state = words_of(contract), fail(of_narrow_state(contract));
      result_.explained = true;
      result_.contract = std::move(contract);
      return std::move(result_);
    }
    return fail(contract.rules.empty() ? "no site or group in a coarser format predicts the errors"
                                       : "the best set, " + words_of(contract) + ", " + why);
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
    Studied s{given};
    s.expectation = expectation_of(given, kernel_, s.runs);
    for (const auto& [name, e] : s.expectation.tensors) {
      const Values& got = given.got.at(name).data;
      require(got.size() == e.value.size(), name, ": expected ", e.value.size(), " values, got ", got.size());
      s.got.push_back(&got);
      s.fails.push_back(judge(e, got).verdict == Verdict::fail);
      s.fitted.push_back(count > 1 ? std::vector<char>(got.size(), static_cast<char>(number % 2 == 0))
                                   : half_of(e.layout));
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

  /// The answer to that case of a kernel that rounds as `policy` says.
  Arrays answer_of(const Studied& s, Policy policy) const {
    policy.threads = kernel_.threads;
    return flat(kernel_.form->run(s.given.problem, policy, kernel_.tile));
  }

  /// By how much the coarser sites of that contract move the answers: the difference of two runs, and for what is cut
  /// off of a run that does nothing else and one that does not round.
  Arrays prediction_of(const Studied& s, const Contract& contract) const {
    const std::vector<std::string_view> cut = contract.cut_off_sites(kernel_.form->sites);
    const auto is_cut = [&](const tile::SiteTable::Entry& e) {
      return std::find(cut.begin(), cut.end(), e.view()) != cut.end();
    };
    const Policy fine = base_.policy(kernel_.form->sites);
    Policy coarse = contract.policy(kernel_.form->sites), cutting = coarse;
    cutting.rounding = Rounding::toward_zero;
    for (int i = 0; i < coarse.sites.size; ++i) {
      if (is_cut(coarse.sites.entries[i]))
        coarse.sites.entries[i].format = fine.sites.entries[i].format;
      else
        cutting.sites.entries[i].format = Format::exact;
    }
    Arrays moved = answer_of(s, coarse);
    const Arrays off = cut.empty() ? Arrays{} : answer_of(s, cutting);
    for (std::size_t t = 0; t < s.runs.emulated.size(); ++t) {
      const auto& [name, from] = s.runs.emulated[t];
      const Array& exact = s.runs.exact[t].second;
      Array& array = moved.at(name);
      for (std::size_t i = 0; i < array.data.size(); ++i) {
        array.data[i] -= from.data[i];
        if (!cut.empty()) array.data[i] += off.at(name).data[i] - exact.data[i];
      }
    }
    return moved;
  }

  /// The squares of one half of all cases.
  Squares squares_of(const Contract& contract, bool fitted) const {
    Squares sum;
    for (const Studied& s : studied_) {
      const Arrays moved = prediction_of(s, contract);
      for (std::size_t t = 0; t < s.got.size(); ++t) {
        if (!s.fails[t]) continue;
        const auto& [name, e] = s.expectation.tensors[t];
        const Values& by = moved.at(name).data;
        for (std::size_t i = 0; i < by.size(); ++i) {
          if ((s.fitted[t][i] != 0) != fitted || !(e.sigma[i] > 0 && std::isfinite(e.sigma[i]))) continue;
          const double z = error_at(e, *s.got[t], i) / e.sigma[i], left = z - by[i] / e.sigma[i];
          sum.seen += z * z, sum.left += left * left, ++sum.count;
        }
      }
    }
    return sum;
  }

  /// The site that leaves least of the fitted half's errors beside those of `contract`, if it is worth its name.
  std::optional<Candidate> best_of(const Contract& contract, const std::vector<Candidate>& list) const {
    const Squares now = contract.rules.empty() ? Squares{1, 1, 0} : squares_of(contract, true);
    double left = (now.left / now.seen) * (1 - worthwhile_gain);
    std::optional<Candidate> best;
    for (const Candidate& candidate : list) {
      if (time_is_up()) break;
      if (std::any_of(contract.rules.begin(), contract.rules.end(),
                      [&](const Contract::Rule& rule) { return rule.site == candidate.rule.site; }))
        continue;
      const Squares squares = squares_of(with(contract, candidate), true);
      if (!(squares.left < left * squares.seen)) continue;
      left = squares.left / squares.seen, best = candidate;
    }
    return best;
  }

  /// Why it explains nothing, or "": it predicts the half that it was not fitted to as well, all answers keep it, and
  /// some algorithm may answer so.
  std::string doubt(const Contract& contract) const {
    for (const bool fitted : {true, false})
      if (const double share = squares_of(contract, fitted).share(); !(share >= predicted_share))
        return text("has ", std::lround(100 * std::max(0.0, share)), "% of the squared error beyond the contract's ",
                    fitted ? "where it was fitted" : "where it was not fitted", ", of which it should have half");
    if (!keeps(contract)) return "predicts the errors, and answers fail under it, too";
    if (beyond_model(contract)) return "predicts the errors, and no algorithm in the precision errs so much";
    return "";
  }

  /// The judge's word, tensor by tensor.
  bool keeps(const Contract& contract) const {
    KernelUnderTest kernel = kernel_;
    kernel.contract = &contract;
    for (const Studied& s : studied_) {
      KernelRuns runs;
      runs.exact = s.runs.exact;
      const Expectation e = contract.plain() ? s.expectation : expectation_of(s.given, kernel, runs);
      for (std::size_t t = 0; t < s.got.size(); ++t)
        if (judge(e.tensors[t].second, *s.got[t]).verdict == Verdict::fail) return false;
    }
    return true;
  }

  /// Whether no algorithm in the precision of its operands answers so.
  bool beyond_model(const Contract& contract) const {
    Format precision = kernel_.precision;
    for (const Contract::Rule& rule : contract.rules)
      if (rule.site == "operands") precision = rule.format;
    for (const Studied& s : studied_) {
      const auto stored = [&](const std::string& name) {
        const auto known = s.given.stored.find(name);
        return known == s.given.stored.end() ? Format::fp32 : known->second;
      };
      const ModelRuns runs = model_runs(s.given.problem, precision, default_draws, kernel_.threads);
      OtherAlgorithms others(s.given.problem, s.given.oracle, precision, default_draws, kernel_.threads, stored);
      for (const auto& [name, e] : expect_by_model(s.given.oracle, runs, stored)) {
        const auto got = s.given.got.find(name);
        if (got != s.given.got.end() &&
            judge_by_model(e, precision, got->second.data, 1, &others, name).verdict == Verdict::fail)
          return true;
      }
    }
    return false;
  }

  /// A narrow state is what contracts are there to see. A user who was promised one asks for it by name.
  bool has_narrow_state(const Contract& contract) const {
    const tile::SiteTable& sites = kernel_.form->sites;
    for (const SiteGroup& group : site_groups())
      for (const std::string_view carried :
           group.name == "state" ? group.members(sites) : decltype(group.members(sites)){})
        for (const Contract::Rule& rule : contract.rules)
          if (rule.site == carried || rule.site == "state" || rule.site == "accumulators") return true;
    return false;
  }
  std::string of_narrow_state(const Contract& contract) const {
    return text(
        words_of(contract), " has ", std::lround(100 * result_.predicted),
        "% of the squared error, and a narrow state is a promise that its user must have: --contract bf16_state, "
        "or a file that says so, judges by it");
  }

  /// Greedy sets name what a later site makes idle.
  void leave_out_idle_sites(Contract& contract) const {
    for (std::size_t i = 0; contract.rules.size() > 1 && i < contract.rules.size();) {
      Contract fewer = contract;
      std::erase(fewer.towards_zero, fewer.rules[i].site);
      fewer.rules.erase(fewer.rules.begin() + static_cast<std::ptrdiff_t>(i));
      if (doubt(fewer).empty())
        contract = std::move(fewer);
      else
        ++i;
    }
  }

  KernelUnderTest kernel_;
  Contract base_;
  const std::function<bool()>& stop_;
  std::vector<Studied> studied_;
  InferredContract result_;
};

bool is_cut(const Contract& contract, const std::string& site) {
  return std::find(contract.towards_zero.begin(), contract.towards_zero.end(), site) != contract.towards_zero.end();
}

}  // namespace

InferredContract infer_contract(std::span<const AnsweredCase> cases, const KernelUnderTest& kernel,
                                const std::function<bool()>& stop) {
  return Search(cases, kernel, stop).run();
}

std::string words_of(const Contract& contract) {
  std::string words;
  for (const Contract::Rule& rule : contract.rules)
    words += text(words.empty() ? "" : ", ", rule.site, " in ", name_of(rule.format),
                  is_cut(contract, rule.site) ? " (cut off)" : "");
  return words;
}

std::string json_of(const InferredContract& inferred, const std::string& name) {
  Json sites = Json::object(), rounding = Json::object();
  for (const Contract::Rule& rule : inferred.contract.rules) {
    sites[rule.site] = name_of(rule.format);
    if (is_cut(inferred.contract, rule.site)) rounding[rule.site] = name_of(Rounding::toward_zero);
  }
  Json json{{"name", name},
            {"description", "inferred from answers; fitted to " + inferred.fitted + ", confirmed on the rest"},
            {"base", name_of(inferred.contract.precision)},
            {"sites", std::move(sites)}};
  if (!rounding.empty()) json["rounding"] = std::move(rounding);
  if (inferred.contract.products > 0) json["products"] = inferred.contract.products;
  for (const Accumulation way : inferred.contract.accumulation) json["accumulation"].push_back(name_of(way));
  return json.dump(2) + '\n';
}

}  // namespace assay
