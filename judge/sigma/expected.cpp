#include "judge/sigma/expected.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "judge/forms/sequential.hpp"
#include "judge/sigma/cumulated_gates.hpp"
#include "judge/sigma/stored.hpp"
#include "judge/sigma/terms.hpp"
#include "kernels/draws/drawn.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// The contract's storage formats, in the order of their sites.
std::vector<Format> storage_formats(const tile::SiteTable& contract) {
  std::vector<Format> formats;
  for (int i = 0; i < contract.size; ++i) {
    const auto& [name, role, format, blocks] = contract.entries[i];
    if (role != tile::Role::operand && format != Format::exact &&
        std::find(formats.begin(), formats.end(), format) == formats.end())
      formats.push_back(format);
  }
  return formats;
}

/// Site of the stores that leave a kernel. Numbers that it reads back itself pass another one.
constexpr std::string_view output_site = "out";
bool has_store(const Policy& contract) { return contract.sites.find(output_site) >= 0; }

/// The widest format in which the contract accumulates.
Format accumulators_of(const tile::SiteTable& sites) {
  Format widest = Format::bf16;
  for (int i = 0; i < sites.size; ++i) {
    const auto& [name, role, format, blocks] = sites.entries[i];
    if (role == tile::Role::accumulator && info(format).mantissa_bits > info(widest).mantissa_bits) widest = format;
  }
  return widest;
}

/// How that contract is drawn.
Policy drawing(const Policy& contract) {
  Policy policy = unstored(contract);
  policy.rounding = Rounding::jittered;
  return policy;
}

/// The contract of a kernel that has none is that of its precision.
Contract contract_of(const KernelUnderTest& kernel) {
  return kernel.contract == nullptr ? Contract::of(kernel.precision) : *kernel.contract;
}

/// A policy that cuts off the sites that may be, and rounds nothing else: by how much these lean. Draws have the rest.
std::optional<Policy> cutting(const KernelUnderTest& kernel, const Policy& contract) {
  const std::vector<std::string_view> sites = contract_of(kernel).cut_off_sites(kernel.form->sites);
  if (sites.empty()) return std::nullopt;
  Policy cut = contract;
  cut.rounding = Rounding::toward_zero;
  for (int i = 0; i < cut.sites.size; ++i)
    if (std::find(sites.begin(), sites.end(), cut.sites.entries[i].view()) == sites.end())
      cut.sites.entries[i].format = Format::exact;
  return cut;
}

/// The contract with those of its operands kept that it rounds to less than an accumulator has, and with `between`,
/// what it stores and reads back; nothing if there are none. The last rounding is left out: it is known, and larger in
/// an element's neighbours than what operands leave.
std::optional<Policy> with_operands_kept(const Policy& contract, bool between) {
  const int accumulator = info(accumulators_of(contract.sites)).mantissa_bits;
  Policy kept = contract;
  bool any = false;
  for (int i = 0; i < contract.sites.size; ++i) {
    const auto& [name, role, format, blocks] = contract.sites.entries[i];
    const bool keeps = role == tile::Role::operand || (between && role == tile::Role::output && name != output_site);
    if (!keeps || info(format).mantissa_bits >= accumulator) continue;
    kept.sites.entries[i].format = Format::exact, any = true;
  }
  if (!any) return std::nullopt;
  return unstored(kept);
}

/// Kernels that keep the contract and are not among its draws: operands and what is stored between are kept, and sums
/// are made in the other ways that it allows.
std::vector<Policy> witnesses_of(const KernelUnderTest& kernel) {
  const Policy contract = kernel.policy();
  const int accumulator = info(accumulators_of(contract.sites)).mantissa_bits;
  const std::optional<Policy> all_kept = with_operands_kept(contract, true);
  if (!all_kept) return {};
  Policy kept = *all_kept;
  const std::vector<Accumulation> ways = contract_of(kernel).accumulations(kernel.form->sites);
  const auto allowed = [&](Accumulation way) { return std::find(ways.begin(), ways.end(), way) != ways.end(); };
  // A sum that is narrower than others is so where it is stored, not after every product.
  Policy summed = kept;
  for (int i = 0; i < summed.sites.size; ++i) {
    auto& [name, role, format, blocks] = summed.sites.entries[i];
    if (role == tile::Role::accumulator && info(format).mantissa_bits < accumulator) format = Format::exact;
  }
  Policy cut_off = summed;
  if (allowed(Accumulation::one_by_one)) kept = summed, kept.products = 1;
  std::vector<Policy> list = {kept};
  cut_off.rounding = Rounding::toward_zero, cut_off.sites = cut_off.sites.with(tile::Role::gate, Format::exact);
  if (allowed(Accumulation::cut_off)) list.push_back(cut_off);
  if (const std::optional<Policy> cut = cutting(kernel, contract)) list.push_back(*cut);
  return list;
}

/// Kernels that keep their operands and round all else as the contract does, nearest_even and a few times at random.
/// They answer an error that an operand's rounding absorbs (it becomes zero with it in all draws).
std::vector<Policy> absorbing_nothing(const Policy& contract) {
  std::optional<Policy> kept = with_operands_kept(contract, false);
  if (!kept) return {};
  std::vector<Policy> list = {*kept};
  kept->rounding = Rounding::jittered;
  constexpr int at_random = 3;
  for (int k = 0; k < at_random; ++k) {
    kept->seed = RandomBits{}.at(static_cast<std::uint64_t>(draws_of_numbers + k));  // no draw's
    list.push_back(*kept);
  }
  return list;
}

/// The problem of one draw: the rows of inputs that a kernel may multiply by a factor before it rounds them are rounded
/// on the grid that some factor gives them.
Problem with_factors(const Problem& problem, const Contract& contract, std::span<const std::string_view> inputs,
                     std::uint64_t draw) {
  Problem other = problem;
  for (const std::string_view factored : inputs) {
    const std::string name(factored);
    const auto input = other.inputs.find(name);
    if (input == other.inputs.end() || input->second.shape.empty()) continue;
    const Stream factors(draw, name + ", factors"), rounded(draw, name + ", rounded");
    const auto columns = static_cast<std::size_t>(std::max(1, input->second.shape.back()));
    std::vector<double>& x = input->second.data;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double factor = 1 + factors.uniform(i / columns);
      x[i] = round_to(x[i] * factor, contract.precision, Rounding::jittered, rounded.bits(i)) / factor;
    }
  }
  return other;
}

/// The sizes of an answer's terms, computed when they are first asked for, from whatever thread.
class Terms {
 public:
  Terms(const Problem& problem, const KernelUnderTest& kernel)
      : problem_(problem),
        accumulators_(accumulators_of(kernel.policy().sites)),
        of_solves_(kernel.form->iterative),
        threads_(kernel.threads) {}

  /// The sizes for all tensors; null where they are not known.
  const Arrays* all() {
    std::call_once(asked_, [&] { sizes_ = term_sizes(problem_.mechanism, problem_, accumulators_, threads_); });
    return sizes_ ? &*sizes_ : nullptr;
  }
  /// The sizes for the tensor of that name; null where they are not known.
  const std::vector<double>* find(const std::string& name) {
    const Arrays* sizes = all();
    if (sizes == nullptr) return nullptr;
    const auto known = sizes->find(name);
    return known == sizes->end() ? nullptr : &known->second.data;
  }
  Format accumulators() const { return accumulators_; }
  bool of_solves() const { return of_solves_; }

 private:
  const Problem& problem_;
  Format accumulators_;
  bool of_solves_;
  int threads_;
  std::once_flag asked_;
  std::optional<Arrays> sizes_;
};

/// No element is known better than a product and the sum that it goes into, each rounded at the size of the element's
/// terms, unless its arithmetic is exact in any order. The sizes know nothing of what a solve divides by: there they
/// count up to the tensor's largest number, unless the element shows that it is made of larger ones.
void keep_terms_rounded(Expected& e, const std::vector<double>& sizes, Terms& terms, const std::vector<double>& exact) {
  double largest = 0;
  for (const HiLo& value : e.value) largest = std::max(largest, std::fabs(value.hi));
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!(sizes[i] > 0 && std::isfinite(sizes[i]))) continue;
    const bool missed = !(std::fabs((exact[i] - e.value[i].hi) - e.value[i].lo) <= e.sigma[i] + e.bound[i]);
    const double size = !terms.of_solves() || missed || e.sigma[i] == 0 ? sizes[i] : std::min(sizes[i], largest);
    e.sigma[i] = std::max(e.sigma[i], sigma_of_terms(size, terms.accumulators()));
  }
}

/// Whether operands' roundings leave nothing to those of sums: where these are alone, in the witness that keeps its
/// operands, no element is off by an eighth of sigma. To know the sizes of its terms takes a run of the reference. The
/// witness says nothing about an exact zero, for it may be a difference that the tile program makes of equal numbers:
/// its sigma has to be that of a rounding in the tensor's largest number.
bool drowns_sums(const Expected& e, const std::vector<double>& witness, const ExactRun& exact, Format accumulators) {
  double largest = 0;
  for (const HiLo& value : e.value) largest = std::max(largest, std::fabs(value.hi));
  for (std::size_t i = 0; i < e.sigma.size(); ++i) {
    if (!(e.sigma[i] > 0 && std::fabs(exact.distance(witness[i], i)) <= e.sigma[i] / 8)) return false;
    if (e.value[i].hi == 0 && (largest == 0 || e.sigma[i] < sigma_of_terms(largest, accumulators) / 8)) return false;
  }
  return true;
}

/// Indices of the elements that overflow under the contract's rounding, in `own` or in a draw, and not without it. They
/// become zero everywhere: they say nothing of how others spread.
std::vector<std::size_t> take_out_overflows(std::vector<std::vector<double>>& draws,
                                            std::vector<std::vector<double>>& witnesses, std::vector<double>& exact) {
  std::vector<std::size_t> list;
  const std::vector<double>& own = witnesses.front();
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto overflows = [i](const std::vector<double>& run) { return !std::isfinite(run[i]); };
    if (overflows(exact) || !(overflows(own) || std::any_of(draws.begin(), draws.end(), overflows))) continue;
    list.push_back(i);
    exact[i] = 0;
    for (auto* runs : {&draws, &witnesses})
      for (std::vector<double>& run : *runs) run[i] = 0;
  }
  return list;
}

/// The exact run where the oracle says what its doubles leave out: at the truth, where that is no further from them
/// than two doubles are from each other, or lost in the last place of the terms that it is a sum of (of the tensor's
/// largest number, where those are not known). Elsewhere the program means another number.
ExactRun located(std::vector<double> run, const Expected& e, const std::string& name, Terms& terms) {
  double largest = 0;
  for (const HiLo& value : e.value) largest = std::max(largest, std::fabs(value.hi));
  std::vector<HiLo> at(run.size());
  for (std::size_t i = 0; i < run.size(); ++i) {
    const double left_out = std::fabs((run[i] - e.value[i].hi) - e.value[i].lo);
    at[i] = {run[i], 0};
    if (!(left_out > e.bound[i])) continue;
    double resolution = spacing(Format::fp64, run[i]);
    if (left_out > resolution) {
      const std::vector<double>* sizes = terms.find(name);
      resolution = std::max(resolution, unit_roundoff(Format::fp64) * (sizes != nullptr ? (*sizes)[i] : largest));
    }
    if (left_out <= resolution) at[i] = e.value[i];
  }
  return {std::move(run), std::move(at)};
}

/// Whether every row of that tensor, or each element, is known to round without asking how large its terms are.
bool rounds_in_all(const Oracle& oracle, const std::string& name, bool each, const Terms& terms) {
  const auto known =
      std::find_if(oracle.tensors.begin(), oracle.tensors.end(), [&](const auto& t) { return t.first == name; });
  if (known == oracle.tensors.end()) return false;
  const Oracle::Tensor& truth = known->second;
  const std::size_t row =
      each ? 1 : static_cast<std::size_t>(layout_of(truth.shape, oracle.head_axis && !truth.shape.empty()).cols);
  for (std::size_t first = 0; first < truth.value.size(); first += row) {
    bool exact = true;
    for (std::size_t i = first; exact && i < first + row; ++i)
      exact = may_be_exact(truth.value[i], truth.bound[i], terms.accumulators());
    if (exact) return false;
  }
  return true;
}

/// The errors of gates' gradients where they are summed up from the end of the sequence: such a kernel keeps the
/// contract, too.
GateErrors gate_errors_of(const Oracle& oracle, const Problem& problem, const KernelUnderTest& kernel,
                          const KernelRuns& runs, Terms& terms) {
  const Policy contract = kernel.policy();
  Format operands = accumulators_of(contract.sites);
  for (int i = 0; i < contract.sites.size; ++i) {
    const auto& [name, role, format, blocks] = contract.sites.entries[i];
    if (role == tile::Role::operand && info(format).mantissa_bits < info(operands).mantissa_bits) operands = format;
  }
  const auto arrays = [](const Named<Array>& run) { return Arrays(run.begin(), run.end()); };
  GateErrors errors = gate_errors(
      problem, operands, arrays(runs.emulated),
      [&](const std::string& gain, const std::string& loss, bool each) {
        const auto rounds = [&](const std::string& name) { return rounds_in_all(oracle, name, each, terms); };
        return rounds(gain) && rounds(loss) ? nullptr : terms.all();
      },
      default_draws);
  // Where operands are as wide as sums, each rounding of dq and dk is one of their own. Libraries sum what they have.
  const bool of_library = !contract_of(kernel).sources.empty();
  if (errors.variances.empty() || (operands != terms.accumulators() && !of_library)) return errors;
  const auto all = [&](const std::vector<Named<Array>>& list) {
    std::vector<Arrays> of_all;
    of_all.reserve(list.size());
    for (const Named<Array>& run : list) of_all.push_back(arrays(run));
    return of_all;
  };
  add_errors_of_runs(problem, arrays(runs.exact), all(runs.drawn), all(runs.witnesses), errors);
  return errors;
}

/// Takes errors of those variances into account, and puts what samples of them make of the first witness among the
/// witnesses. Where the contract's own run overflows in what a gate's gradient is summed up from, nothing is known of
/// the sum: its index joins `overflowing`.
void add_gate_errors(const GateErrors& errors, const std::string& name, Spread& spread,
                     std::vector<std::vector<double>>& witnesses, std::vector<std::size_t>& overflowing) {
  const std::vector<double> own = witnesses.front();
  const auto variances = errors.variances.find(name);
  if (variances == errors.variances.end()) return;
  const auto known = [&](std::size_t i) { return std::isfinite(variances->second.data[i]); };
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!known(i)) {
      overflowing.push_back(i);
      continue;
    }
    const double before = spread.sigma[i] * spread.sigma[i], after = before + variances->second.data[i];
    spread.sigma[i] = std::sqrt(after), spread.drawn[i] += variances->second.data[i];
    if (before > 0) spread.freedom[i] *= (after / before) * (after / before);
  }
  for (const Arrays& sample : errors.samples) {
    std::vector<double>& witness = witnesses.emplace_back(own);
    for (std::size_t i = 0; i < own.size(); ++i)
      if (known(i)) witness[i] += sample.at(name).data[i];
  }
}

/// Draws whose gates are summed up: such errors grow from token to token, and so do sums over tokens. Each takes the
/// sample after its own, which is independent of it, and `doubled` times the variance, as draws have.
void sum_gates(const GateErrors& errors, const std::string& name, double doubled,
               std::vector<std::vector<double>>& draws) {
  if (!errors.variances.contains(name)) return;
  for (std::size_t k = 0; k < draws.size(); ++k) {
    const std::vector<double>& sample = errors.samples[(k + 1) % errors.samples.size()].at(name).data;
    for (std::size_t i = 0; i < sample.size(); ++i)
      if (std::isfinite(sample[i])) draws[k][i] += std::sqrt(doubled) * sample[i];
  }
}

/// The expectation that the runs give for one of their tensors; `e` knows its shape and the oracle's answer.
Expected learnt(Expected e, const KernelRuns& runs, std::size_t tensor, const Policy& contract, const Limits& limits,
                Terms& terms, const GateErrors& gates) {
  const auto& [name, own] = runs.emulated[tensor];
  const bool number = own.data.size() == 1;
  std::vector<double> exact = runs.exact[tensor].second.data;
  std::vector<std::vector<double>> draws, witnesses{own.data};
  for (const Named<Array>& draw : runs.drawn) draws.push_back(draw[tensor].second.data);
  for (const Named<Array>& draw : runs.numbers)
    if (number) draws.push_back(draw[tensor].second.data);
  for (const Named<Array>& witness : runs.witnesses) witnesses.push_back(witness[tensor].second.data);
  const bool kept = witnesses.size() > 1;
  const Format stored = stored_by(contract, own.data);
  e.ulp_format = has_store(contract) ? contract.sites.at(output_site) : stored;
  std::vector<std::size_t> overflowing = take_out_overflows(draws, witnesses, exact);
  const ExactRun located_exact = located(exact, e, name, terms);
  Spread spread = spread_of(draws, located_exact, e.layout, stored);
  add_gate_errors(gates, name, spread, witnesses, overflowing);
  sum_gates(gates, name, spread.doubled, draws);
  e.draws = static_cast<int>(draws.size());
  e.rms_limit = rms_limit(spread, limits.tensor_rate);
  for (const std::vector<double>& witness : witnesses) {
    double& by = &witness == &witnesses.front() ? e.stall : e.widened;
    by = std::max(by, widen(spread, witness, located_exact, e.layout, limits.sigmas, limits.tensor_rate));
  }
  e.sigma = spread.sigma, e.freedom = spread.freedom, e.stored = stored, e.known_reach = limits.sigmas;
  e.reach.reserve(e.sigma.size());
  for (const double freedom : spread.freedom) e.reach.push_back(equivalent_sigmas(limits.sigmas, freedom));
  const std::vector<double>* sizes =
      kept && drowns_sums(e, witnesses[1], located_exact, terms.accumulators()) ? nullptr : terms.find(name);
  if (sizes != nullptr) keep_terms_rounded(e, *sizes, terms, exact);
  for (const std::size_t i : overflowing) e.sigma[i] = infinite;
  // All elements may share a sigma that has another source: nothing is known of its sums.
  for (std::size_t i = 0; i < e.sigma.size(); ++i)
    e.weight.push_back(e.sigma[i] > 0 && e.sigma[i] == spread.sigma[i] ? 1 / e.sigma[i] : 0);
  e.sums = expected_sums(draws, located_exact, witnesses, e.layout, e.weight, spread, limits.tensor_rate,
                         JudgedSlices::coarse);
  return e;
}

}  // namespace

Policy KernelUnderTest::policy() const {
  Policy policy = contract == nullptr ? Policy::of(form->sites, precision) : contract->policy(form->sites);
  policy.threads = threads;
  return policy;
}

Policy unstored(Policy policy) {
  if (has_store(policy)) policy.sites = policy.sites.with(output_site, Format::fp64);
  return policy;
}

Format stored_by(const Policy& contract, const std::vector<double>& own) {
  return narrowest_of(storage_formats(contract.sites), own);
}

const KernelForm& measure_of(const KernelRoom& kernels, const KernelForm& form) {
  return form.unstable.empty() ? form : kernels.forms.front();
}

namespace {

Named<Array> drawn_of(const KernelUnderTest& kernel, const Problem& problem, const Policy& policy) {
  const Contract contract = contract_of(kernel);
  const std::vector<std::string_view> inputs = contract.factored(kernel.form->sites);
  if (inputs.empty()) return named(draw(*kernel.form, problem, policy, kernel.tile));
  return named(draw(*kernel.form, with_factors(problem, contract, inputs, policy.seed), policy, kernel.tile));
}

/// The parts that query heads add to the gradients of what they share, as a contract stores them that sums them later.
class StoredParts {
 public:
  StoredParts(const KernelUnderTest& kernel, const Problem& problem) {
    const auto q = problem.inputs.find("q");
    if (!contract_of(kernel).per_query_head || q == problem.inputs.end() || q->second.shape.size() != 3) return;
    const int heads = q->second.shape[0];
    Problem alone = problem;
    bool shared = false;
    for (auto& [name, array] : alone.inputs) {
      if (array.shape.size() != 3 || array.shape[0] >= heads) continue;
      shared = true;
      array = repeated(array, heads / array.shape[0]);
    }
    if (!shared || problem.cotangents.empty()) return;
    const Policy contract = kernel.policy();
    stored_ = has_store(contract) ? contract.sites.at(output_site) : kernel.precision;
    Policy exact = Policy::exact(kernel.form->sites);
    exact.threads = kernel.threads;
    parts_ = named(kernel.form->run(alone, exact, kernel.tile));
  }

  /// Adds the roundings of the parts to a draw.
  void round_in(Named<Array>& draw, std::uint64_t seed) const {
    for (std::size_t t = 0; t < parts_.size(); ++t) {
      Array& sum = draw[t].second;
      const Array& part = parts_[t].second;
      if (sum.shape.size() != 3 || part.shape == sum.shape) continue;
      const Stream random(seed, draw[t].first + ", per query head");
      const std::size_t head = part.data.size() / static_cast<std::size_t>(part.shape[0]);
      const auto group = static_cast<std::size_t>(part.shape[0] / sum.shape[0]);
      for (std::size_t i = 0; i < part.data.size(); ++i)
        sum.data[i / head / group * head + i % head] +=
            round_to(part.data[i], stored_, Rounding::jittered, random.bits(i)) - part.data[i];
    }
  }

 private:
  static Array repeated(const Array& array, int times) {
    Array more{array.shape, {}};
    more.shape[0] *= times;
    const std::size_t head = array.data.size() / static_cast<std::size_t>(array.shape[0]);
    for (std::size_t i = 0; i < array.data.size(); i += head)
      for (int k = 0; k < times; ++k)
        more.data.insert(more.data.end(), array.data.begin() + static_cast<std::ptrdiff_t>(i),
                         array.data.begin() + static_cast<std::ptrdiff_t>(i + head));
    return more;
  }

  Format stored_ = Format::exact;
  Named<Array> parts_;
};

}  // namespace

void add_runs(KernelRuns& runs, const KernelUnderTest& kernel, const Problem& problem, int draws) {
  const auto answer = [&](const Policy& policy) { return named(draw(*kernel.form, problem, policy, kernel.tile)); };
  const Policy contract = kernel.policy();
  if (runs.emulated.empty()) runs.emulated = answer(contract);
  if (runs.exact.empty()) {
    Policy policy = Policy::exact(kernel.form->sites);
    policy.threads = kernel.threads;
    runs.exact = answer(policy);
  }
  if (runs.drawn.empty())
    for (const Policy& witness : witnesses_of(kernel)) runs.witnesses.push_back(answer(witness));
  const StoredParts parts(kernel, problem);
  const std::size_t first = runs.drawn.size(), wanted = static_cast<std::size_t>(std::max(draws, 0));
  if (first >= wanted) return;
  if (first < few_draws && wanted >= few_draws)
    for (const Policy& witness : absorbing_nothing(contract)) runs.witnesses.push_back(answer(witness));
  runs.drawn.resize(wanted);
  // A tile program shares its own launches among the threads.
  const int at_once = is_reference(*kernel.form) ? kernel.threads : draws_at_once(*kernel.form, problem);
  words::in_parallel(wanted - first, at_once, [&](std::size_t k) {
    Policy policy = drawing(contract);
    policy.seed = RandomBits{}.at(first + k);
    runs.drawn[first + k] = drawn_of(kernel, problem, policy);
    parts.round_in(runs.drawn[first + k], policy.seed);
  });
}

void add_numbers(KernelRuns& runs, const KernelUnderTest& kernel, const Problem& problem, int draws) {
  const Policy policy = drawing(kernel.policy());
  for (std::size_t k = runs.drawn.size() + runs.numbers.size(); k < static_cast<std::size_t>(draws); ++k) {
    Policy own = policy;
    own.seed = RandomBits{}.at(k);
    Named<Array>& draw = runs.numbers.emplace_back(drawn_of(kernel, problem, own));
    for (auto& [name, array] : draw)
      if (array.data.size() != 1) array = {};
  }
}

bool asks_for_words(const Expectation& expectation, const std::function<bool(const std::string&)>& wanted) {
  return std::any_of(expectation.tensors.begin(), expectation.tensors.end(),
                     [&](const auto& t) { return (!wanted || wanted(t.first)) && undecided_at(t.second); });
}

bool asks_for_draws(const Expectation& expectation, const std::function<bool(const std::string&)>& wanted) {
  return std::any_of(expectation.tensors.begin(), expectation.tensors.end(), [&](const auto& t) {
    const Expected& e = t.second;
    return (!wanted || wanted(t.first)) && e.value.size() == 1 && std::isfinite(e.sigma[0]) && e.sigma[0] > 0 &&
           std::fabs(e.value[0].hi) <= e.reach[0] * e.sigma[0] + e.bound[0];
  });
}

Expectation expect(const Oracle& oracle, const KernelUnderTest& kernel, const Problem& problem, int draws,
                   double rate) {
  KernelRuns runs;
  add_runs(runs, kernel, problem, draws);
  return expect(oracle, kernel, problem, runs, rate);
}

namespace {

Expectation expectation_of(const Oracle& oracle, const KernelUnderTest& kernel, const Problem& problem,
                           const KernelRuns& runs, double rate, Terms& terms) {
  const Policy contract = kernel.policy();
  const Named<Array>& emulated = runs.emulated;
  std::size_t tensors = 0, elements = 0;
  for (const auto& [name, array] : emulated) tensors += array.data.empty() ? 0 : 1, elements += array.data.size();
  tensors = std::max<std::size_t>(tensors, 1), elements = std::max<std::size_t>(elements, 1);
  // 16 draws say whether a number that stands alone takes 64: the limits of both share its part.
  const Limits limits = limits_of(rate, tensors, elements), of_numbers = limits_of(rate / 2, tensors, elements);
  const GateErrors gates = gate_errors_of(oracle, problem, kernel, runs, terms);
  Expectation expectation;
  std::vector<std::size_t> runs_of;  // of each expected tensor, its place in a run
  for (std::size_t t = 0; t < emulated.size(); ++t) {
    const auto& [name, array] = emulated[t];
    const auto known = std::find_if(oracle.tensors.begin(), oracle.tensors.end(),
                                    [&n = name](const auto& tensor) { return tensor.first == n; });
    require(known != oracle.tensors.end(), name, ": the kernel answers it, the oracle does not");
    const Oracle::Tensor& truth = known->second;
    require(truth.shape == array.shape, name, ": the kernel's shape is not the oracle's");
    if (array.data.empty()) continue;
    expectation.tensors.emplace_back(
        name, Expected{.shape = truth.shape,
                       .layout = layout_of(truth.shape, oracle.head_axis && !truth.shape.empty()),
                       .value = truth.value,
                       .bound = truth.bound,
                       .sigma = {},
                       .reach = {}});
    expectation.emulated.emplace_back(name, array.data);
    runs_of.push_back(t);
  }
  words::in_parallel(runs_of.size(), kernel.threads, [&](std::size_t i) {
    Expected& e = expectation.tensors[i].second;
    const Limits& own = e.value.size() == 1 ? of_numbers : limits;  // before anything is moved
    e = learnt(std::move(e), runs, runs_of[i], contract, own, terms, gates);
  });
  return expectation;
}

}  // namespace

Expectation expect(const Oracle& oracle, const KernelUnderTest& kernel, const Problem& problem, const KernelRuns& runs,
                   double rate) {
  return std::move(expect(oracle, kernel, std::span(&kernel.tile, 1), problem, std::span(&runs, 1), rate).front());
}

std::vector<Expectation> expect(const Oracle& oracle, const KernelUnderTest& kernel, std::span<const int> tiles,
                                const Problem& problem, std::span<const KernelRuns> runs, double rate) {
  Terms terms(problem, kernel);
  std::vector<Expectation> expectations;
  KernelUnderTest one = kernel;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    one.tile = tiles[i];
    expectations.push_back(expectation_of(oracle, one, problem, runs[i], rate, terms));
  }
  return expectations;
}

Named<std::vector<double>> in_report_order(const Answer& answer, const Expectation& expectation) {
  const Named<Array> answered = named(answer);
  Named<std::vector<double>> list;
  for (const auto& [name, expected] : expectation.tensors) {
    const auto known =
        std::find_if(answered.begin(), answered.end(), [&n = name](const auto& tensor) { return tensor.first == n; });
    if (known == answered.end()) throw std::runtime_error(name + ": the kernel does not answer it");
    if (known->second.shape != expected.shape) throw std::runtime_error(name + ": the kernel answers another shape");
    list.emplace_back(name, known->second.data);
  }
  return list;
}

}  // namespace assay
