#include "oracles/core/expected.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "oracles/core/stored.hpp"
#include "oracles/core/terms.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

template <class X>
Named<BasicArray<X>> named(BasicAnswer<X> answer) {
  Named<BasicArray<X>> list;
  for (auto& [name, array] : answer.outputs) list.emplace_back(name, std::move(array));
  for (auto& [name, array] : answer.gradients) list.emplace_back("d_" + name, std::move(array));
  return list;
}

/// Arrays with heads have one axis more, and every room has a matrix.
bool has_head_axis(const Problem& problem) {
  return std::any_of(problem.inputs.begin(), problem.inputs.end(),
                     [](const auto& input) { return input.second.shape.size() == 3; });
}

/// The contract's storage formats, in the order of their sites.
std::vector<Format> storage_formats(const tile::SiteTable& contract) {
  std::vector<Format> formats;
  for (int i = 0; i < contract.size; ++i) {
    const auto& [name, role, format] = contract.entries[i];
    if (role != tile::Role::operand && format != Format::exact &&
        std::find(formats.begin(), formats.end(), format) == formats.end())
      formats.push_back(format);
  }
  return formats;
}

/// Site of the stores that leave a kernel. What it reads back itself passes another one.
constexpr std::string_view output_site = "out";
bool has_store(const Policy& contract) { return contract.sites.find(output_site) >= 0; }

/// The widest format in which the contract accumulates.
Format accumulators_of(const tile::SiteTable& sites) {
  Format widest = Format::bf16;
  for (int i = 0; i < sites.size; ++i) {
    const auto& [name, role, format] = sites.entries[i];
    if (role == tile::Role::accumulator && info(format).mantissa_bits > info(widest).mantissa_bits) widest = format;
  }
  return widest;
}

/// How that contract is drawn. The last rounding is known without drawing it. fp64's own is left where it is: arrays
/// are doubles anyhow.
Policy drawing(const Policy& contract) {
  Policy policy = contract;
  policy.rounding = Rounding::jittered;
  if (has_store(contract)) policy.sites = contract.sites.with(output_site, Format::fp64);
  return policy;
}

/// Kernels that keep the contract and are not among its draws: operands and what is stored between are kept where it
/// rounds them to less than an accumulator has, and sums are made in the two other ways that hardware has, one product
/// at a time or cut off towards zero. The last rounding is left out: it is known, and larger in an element's neighbours
/// than what operands leave.
std::vector<Policy> witnesses_of(const KernelUnderTest& kernel) {
  const Policy contract = kernel.policy();
  const int accumulator = info(accumulators_of(contract.sites)).mantissa_bits;
  Policy kept = contract;
  bool any = false, narrow_sums = false;
  for (int i = 0; i < contract.sites.size; ++i) {
    const auto& [name, role, format] = contract.sites.entries[i];
    if (role == tile::Role::accumulator && info(format).mantissa_bits < accumulator) narrow_sums = true;
    const bool between = role == tile::Role::operand || (role == tile::Role::output && name != output_site);
    if (!between || info(format).mantissa_bits >= accumulator) continue;
    kept.sites.entries[i].format = Format::exact, any = true;
  }
  if (!any) return {};
  if (has_store(contract)) kept.sites = kept.sites.with(output_site, Format::fp64);
  // A contract that says how many products are summed before they are rounded is kept to it; and where a state is
  // narrower than other sums, one that rounds it at every product has another contract.
  const bool any_sums = !narrow_sums && (kernel.contract == nullptr || kernel.contract->products == 0);
  if (!any_sums || contract.products == 1) return {kept};
  Policy cut_off = kept;
  kept.products = 1;
  cut_off.rounding = Rounding::toward_zero, cut_off.sites = cut_off.sites.with(tile::Role::gate, Format::exact);
  return {kept, cut_off};
}

/// The sizes of an answer's terms, computed when they are first asked for.
class Terms {
 public:
  Terms(const Problem& problem, const KernelUnderTest& kernel)
      : problem_(problem), accumulators_(accumulators_of(kernel.policy().sites)), of_solves_(kernel.form->iterative) {}

  /// Of the tensor of that name; null where they are not known.
  const std::vector<double>* find(const std::string& name) {
    if (!asked_) sizes_ = term_sizes(problem_.mechanism, problem_, accumulators_);
    asked_ = true;
    if (!sizes_) return nullptr;
    const auto known = sizes_->find(name);
    return known == sizes_->end() ? nullptr : &known->second.data;
  }
  Format accumulators() const { return accumulators_; }
  bool of_solves() const { return of_solves_; }

 private:
  const Problem& problem_;
  Format accumulators_;
  bool of_solves_, asked_ = false;
  std::optional<Arrays> sizes_;
};

/// No element is known better than a product and the sum that it goes into, each rounded at the size of the element's
/// terms, unless its arithmetic is exact in any order. What a solve divides by, its sizes know nothing of: there they
/// count up to the tensor's largest number, unless the element shows that it is made of larger ones.
void keep_terms_rounded(Expected& e, const std::vector<double>& sizes, Terms& terms, const std::vector<double>& exact) {
  double largest = 0;
  for (const HiLo& value : e.value) largest = std::max(largest, std::fabs(value.hi));
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!(sizes[i] > 0 && std::isfinite(sizes[i]))) continue;
    const bool missed = !(std::fabs((exact[i] - e.value[i].hi) - e.value[i].lo) <= e.sigma[i] + e.bound[i]);
    const double size = !terms.of_solves() || missed || e.sigma[i] == 0 ? sizes[i] : std::min(sizes[i], largest);
    e.sigma[i] = std::max(e.sigma[i], spacing(terms.accumulators(), size) * std::sqrt(2 / 12.0));
  }
}

/// Whether operands' roundings leave nothing to those of sums: where these are alone, in the first witness after the
/// contract's own run, no element is off by an eighth of sigma. To know the sizes of its terms takes a run of the
/// reference.
bool drowns_sums(const std::vector<double>& sigma, const std::vector<std::vector<double>>& witnesses,
                 const ExactRun& exact) {
  if (witnesses.size() < 2) return false;
  for (std::size_t i = 0; i < sigma.size(); ++i)
    if (!(sigma[i] > 0 && std::fabs(exact.distance(witnesses[1][i], i)) <= sigma[i] / 8)) return false;
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

/// What the runs say of one of their tensors, of which `e` knows the shape and the oracle's answer.
Expected learnt(Expected e, const KernelRuns& runs, std::size_t tensor, const Policy& contract, const Limits& limits,
                Terms& terms) {
  const auto& [name, own] = runs.emulated[tensor];
  const bool number = own.data.size() == 1;
  std::vector<double> exact = runs.exact[tensor].second.data;
  std::vector<std::vector<double>> draws, witnesses{own.data};
  for (const Named<Array>& draw : runs.drawn) draws.push_back(draw[tensor].second.data);
  for (const Named<Array>& draw : runs.numbers)
    if (number) draws.push_back(draw[tensor].second.data);
  for (const Named<Array>& witness : runs.witnesses) witnesses.push_back(witness[tensor].second.data);
  const Format stored = narrowest_of(storage_formats(contract.sites), own.data);
  e.ulp_format = has_store(contract) ? contract.sites.at(output_site) : stored;
  const std::vector<std::size_t> overflowing = take_out_overflows(draws, witnesses, exact);
  const ExactRun located_exact = located(exact, e, name, terms);
  Spread spread = spread_of(draws, located_exact, e.layout, stored);
  e.draws = spread.draws;
  e.rms_limit = rms_limit(spread, limits.tensor_rate);
  for (const std::vector<double>& witness : witnesses) {
    double& by = &witness == &witnesses.front() ? e.stall : e.widened;
    by = std::max(by, widen(spread, witness, located_exact, e.layout, limits.sigmas, limits.tensor_rate));
  }
  e.sigma = spread.sigma, e.freedom = spread.freedom, e.stored = stored, e.known_reach = limits.sigmas;
  e.reach.reserve(e.sigma.size());
  for (const double freedom : spread.freedom) e.reach.push_back(equivalent_sigmas(limits.sigmas, freedom));
  const std::vector<double>* sizes = drowns_sums(e.sigma, witnesses, located_exact) ? nullptr : terms.find(name);
  if (sizes != nullptr) keep_terms_rounded(e, *sizes, terms, exact);
  for (const std::size_t i : overflowing) e.sigma[i] = infinite;
  // What sigma has from elsewhere, all elements may have alike: nothing is known of its sums.
  for (std::size_t i = 0; i < e.sigma.size(); ++i)
    e.weight.push_back(e.sigma[i] > 0 && e.sigma[i] == spread.sigma[i] ? 1 / e.sigma[i] : 0);
  std::vector<double> undrawn(e.sigma.size());
  for (std::size_t i = 0; i < e.sigma.size(); ++i)
    undrawn[i] = std::max(0.0, spread.sigma[i] * spread.sigma[i] - spread.drawn[i]);
  e.sums = expected_sums(draws, located_exact, witnesses, e.layout, e.weight, undrawn, limits.tensor_rate);
  return e;
}

}  // namespace

Arrays flat(Answer answer) {
  Arrays all = std::move(answer.outputs);
  for (auto& [name, array] : answer.gradients) all["d_" + name] = std::move(array);
  return all;
}

Oracle oracle_of(const Room& room, const Problem& problem, int words) {
  std::optional<BasicAnswer<Enclosed>> proven = room.in_words(problem, {.words = words});
  if (!proven) proven = room.enclosed(problem);
  require(proven.has_value(), room.name, ": no enclosure decides a comparison of equal numbers");
  return oracle_of(problem, std::move(*proven));
}

Oracle oracle_of(const Problem& problem, BasicAnswer<Enclosed> answer) {
  Oracle oracle;
  oracle.head_axis = has_head_axis(problem);
  for (auto& [name, array] : named(std::move(answer))) {
    Oracle::Tensor tensor{array.shape, {}, {}};
    for (const Enclosed& x : array.data) tensor.value.push_back(x.value), tensor.bound.push_back(x.bound);
    oracle.tensors.emplace_back(name, std::move(tensor));
  }
  return oracle;
}

Policy KernelUnderTest::policy() const {
  Policy policy = contract == nullptr ? Policy::of(form->sites, precision) : contract->policy(form->sites);
  policy.threads = threads;
  return policy;
}

const KernelForm& measure_of(const KernelRoom& kernels, const KernelForm& form) {
  return form.unstable.empty() ? form : kernels.forms.front();
}

void add_runs(KernelRuns& runs, const KernelUnderTest& kernel, const Problem& problem, int draws) {
  const auto answer = [&](const Policy& policy) { return named(kernel.form->run(problem, policy, kernel.tile)); };
  const Policy contract = kernel.policy();
  if (runs.emulated.empty()) runs.emulated = answer(contract);
  if (runs.exact.empty()) {
    Policy policy = Policy::exact(kernel.form->sites);
    policy.threads = kernel.threads;
    runs.exact = answer(policy);
  }
  if (runs.drawn.empty())
    for (const Policy& witness : witnesses_of(kernel)) runs.witnesses.push_back(answer(witness));
  Policy policy = drawing(contract);
  while (static_cast<int>(runs.drawn.size()) < draws) {
    policy.seed = RandomBits{}.at(runs.drawn.size());
    runs.drawn.push_back(answer(policy));
  }
}

void add_numbers(KernelRuns& runs, const KernelUnderTest& kernel, const Problem& problem, int draws) {
  const Policy policy = drawing(kernel.policy());
  for (std::size_t k = runs.drawn.size() + runs.numbers.size(); k < static_cast<std::size_t>(draws); ++k) {
    Policy own = policy;
    own.seed = RandomBits{}.at(k);
    Named<Array>& draw = runs.numbers.emplace_back(named(kernel.form->run(problem, own, kernel.tile)));
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

Expectation expectation_of(const Oracle& oracle, const KernelUnderTest& kernel, const KernelRuns& runs, double rate,
                           Terms& terms) {
  const Policy contract = kernel.policy();
  const Named<Array>& emulated = runs.emulated;
  std::size_t tensors = 0, elements = 0;
  for (const auto& [name, array] : emulated) tensors += array.data.empty() ? 0 : 1, elements += array.data.size();
  tensors = std::max<std::size_t>(tensors, 1), elements = std::max<std::size_t>(elements, 1);
  // Of a number that stands alone 16 draws say whether it takes 64: the limits of both share its part.
  const Limits limits = limits_of(rate, tensors, elements), of_numbers = limits_of(rate / 2, tensors, elements);
  Expectation expectation;
  for (std::size_t t = 0; t < emulated.size(); ++t) {
    const auto& [name, array] = emulated[t];
    const auto known = std::find_if(oracle.tensors.begin(), oracle.tensors.end(),
                                    [&n = name](const auto& tensor) { return tensor.first == n; });
    require(known != oracle.tensors.end(), name, ": the kernel answers it, the oracle does not");
    const Oracle::Tensor& truth = known->second;
    require(truth.shape == array.shape, name, ": the kernel's shape is not the oracle's");
    if (array.data.empty()) continue;

    const Expected blank{.shape = truth.shape,
                         .layout = layout_of(truth.shape, oracle.head_axis && !truth.shape.empty()),
                         .value = truth.value,
                         .bound = truth.bound,
                         .sigma = {},
                         .reach = {}};
    const bool number = array.data.size() == 1;
    expectation.tensors.emplace_back(name, learnt(blank, runs, t, contract, number ? of_numbers : limits, terms));
    expectation.emulated.emplace_back(name, array.data);
  }
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
    expectations.push_back(expectation_of(oracle, one, runs[i], rate, terms));
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
