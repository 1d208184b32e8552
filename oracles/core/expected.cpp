#include "oracles/core/expected.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

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

/// The narrowest of the contract's storage formats that holds every element.
Format storage_of(const std::vector<double>& tensor, const tile::SiteTable& contract) {
  Format stored = Format::fp64;
  for (int i = 0; i < contract.size; ++i) {
    const auto& [name, role, format] = contract.entries[i];
    if (role == tile::Role::operand || format == Format::exact) continue;
    if (info(format).mantissa_bits < info(stored).mantissa_bits &&
        std::all_of(tensor.begin(), tensor.end(), [f = format](double x) { return representable(f, x); }))
      stored = format;
  }
  return stored;
}

/// Site of the stores that leave a kernel. What it reads back itself passes another one.
constexpr std::string_view output_site = "out";
bool has_store(const Policy& contract) { return contract.sites.find(output_site) >= 0; }

/// That contract's policy with operands kept where it rounds them to less than an accumulator has, none where it does
/// not. The last rounding is left out: it is known, and larger in an element's neighbours than what operands leave.
std::optional<Policy> with_operands_kept(const Policy& contract) {
  const tile::SiteTable& sites = contract.sites;
  int accumulator = 0;
  for (int i = 0; i < sites.size; ++i)
    if (sites.entries[i].role == tile::Role::accumulator)
      accumulator = std::max(accumulator, info(sites.entries[i].format).mantissa_bits);
  Policy kept = contract;
  bool any = false;
  for (int i = 0; i < sites.size; ++i) {
    const auto& [name, role, format] = sites.entries[i];
    if (role != tile::Role::operand || info(format).mantissa_bits >= accumulator) continue;
    kept.sites.entries[i].format = Format::exact, any = true;
  }
  if (has_store(contract)) kept.sites = kept.sites.with(output_site, Format::fp64);
  return any ? std::optional(kept) : std::nullopt;
}

/// The reference in doubles, computed when it is first asked for.
class ReferenceInDoubles {
 public:
  explicit ReferenceInDoubles(const Problem& problem) : problem_(problem) {}

  /// Its tensor of that name; null where there is no reference.
  const std::vector<HiLo>* find(std::string_view name) {
    if (!asked_)
      if (const Room* room = find_room(problem_.mechanism)) answer_ = named(room->values(problem_, Tier::fp64));
    asked_ = true;
    for (const auto& [known, array] : answer_)
      if (known == name) return &array.data;
    return nullptr;
  }

 private:
  const Problem& problem_;
  bool asked_ = false;
  Named<BasicArray<HiLo>> answer_;
};

/// Where even the run that rounds nowhere is off by more than sigma, the program is wrong, or the truth is a residue
/// that numbers of its size do not hold, such as a weight's distance from one. What the reference in doubles misses
/// there, a correct program may miss as well.
void take_in_lost_residues(Expected& e, const std::string& name, const std::vector<double>& exact,
                           ReferenceInDoubles& reference) {
  std::vector<std::size_t> beyond;
  for (std::size_t i = 0; i < exact.size(); ++i)
    if (!(std::fabs((exact[i] - e.value[i].hi) - e.value[i].lo) <= e.sigma[i] + e.bound[i])) beyond.push_back(i);
  const std::vector<HiLo>* doubles = beyond.empty() ? nullptr : reference.find(name);
  if (doubles == nullptr) return;
  std::vector<double> missed(exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double off = ((*doubles)[i].hi - e.value[i].hi) - e.value[i].lo;
    missed[i] = std::isfinite(off) ? std::fabs(off) : 0;
  }
  for (const std::size_t i : beyond) e.sigma[i] = std::max(e.sigma[i], with_neighbours(missed, e.layout, i));
}

/// Indices of the elements that overflow under the contract's rounding, in `own` or in a draw, and not without it. They
/// become zero everywhere: they say nothing of how others spread.
std::vector<std::size_t> take_out_overflows(std::vector<std::vector<double>>& draws, std::vector<double>& own,
                                            std::vector<double>& exact) {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto overflows = [i](const std::vector<double>& run) { return !std::isfinite(run[i]); };
    if (overflows(exact) || !(overflows(own) || std::any_of(draws.begin(), draws.end(), overflows))) continue;
    list.push_back(i);
    own[i] = exact[i] = 0;
    for (std::vector<double>& draw : draws) draw[i] = 0;
  }
  return list;
}

/// The exact run where the oracle says what its doubles leave out: at the truth, where that is no further from them
/// than two doubles are from each other, or lost in the last place of `largest`, the answer's largest number. Elsewhere
/// the program means another number.
ExactRun located(std::vector<double> run, const Expected& e, double largest) {
  std::vector<HiLo> at(run.size());
  for (std::size_t i = 0; i < run.size(); ++i) {
    const double left_out = std::fabs((run[i] - e.value[i].hi) - e.value[i].lo);
    const double resolution = std::max(spacing(Format::fp64, run[i]), unit_roundoff(Format::fp64) * largest);
    at[i] = left_out <= resolution && left_out > e.bound[i] ? e.value[i] : HiLo{run[i], 0};
  }
  return {std::move(run), std::move(at)};
}

/// What the runs say of one of their tensors, of which `e` knows the shape and the oracle's answer.
Expected learnt(Expected e, const KernelRuns& runs, std::size_t tensor, const Policy& contract, const Limits& limits,
                double largest, ReferenceInDoubles& reference) {
  std::vector<double> own = runs.emulated[tensor].second.data, exact = runs.exact[tensor].second.data;
  std::vector<std::vector<double>> draws;
  draws.reserve(runs.drawn.size());
  for (const Named<Array>& draw : runs.drawn) draws.push_back(draw[tensor].second.data);
  const Format stored = storage_of(own, contract.sites);
  e.ulp_format = has_store(contract) ? contract.sites.at(output_site) : stored;
  const std::vector<std::size_t> overflowing = take_out_overflows(draws, own, exact);
  std::vector<double> wide;
  if (!runs.wide.empty()) wide = runs.wide[tensor].second.data;
  const ExactRun located_exact = located(exact, e, largest);
  Spread spread = spread_of(draws, located_exact, e.layout, stored);
  e.rms_limit = rms_limit(spread, limits.tensor_rate);
  e.stall = take_in_own_rounding(spread, own, located_exact, e.layout, limits.sigmas, limits.tensor_rate);
  if (!wide.empty()) {
    for (const std::size_t i : overflowing) wide[i] = 0;
    e.stall = std::max(e.stall,
                       take_in_own_rounding(spread, wide, located_exact, e.layout, limits.sigmas, limits.tensor_rate));
  }
  e.sigma = spread.sigma, e.freedom = spread.freedom, e.stored = stored, e.known_reach = limits.sigmas;
  e.reach.reserve(e.sigma.size());
  for (const double freedom : spread.freedom) e.reach.push_back(equivalent_sigmas(limits.sigmas, freedom));
  take_in_lost_residues(e, runs.emulated[tensor].first, exact, reference);
  for (const std::size_t i : overflowing) e.sigma[i] = infinite;
  // What sigma has from elsewhere, all elements may have alike: nothing is known of its sums.
  for (std::size_t i = 0; i < e.sigma.size(); ++i)
    e.weight.push_back(e.sigma[i] > 0 && e.sigma[i] == spread.sigma[i] ? 1 / e.sigma[i] : 0);
  std::vector<double> undrawn(e.sigma.size());
  for (std::size_t i = 0; i < e.sigma.size(); ++i)
    undrawn[i] = std::max(0.0, spread.sigma[i] * spread.sigma[i] - spread.drawn[i]);
  e.sums = expected_sums(draws, located_exact, own, e.layout, e.weight, undrawn, limits.tensor_rate);
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
  if (runs.wide.empty())
    if (const std::optional<Policy> kept = with_operands_kept(contract)) runs.wide = answer(*kept);
  Policy policy = contract;
  policy.rounding = Rounding::jittered;
  // The last rounding is known without drawing it. fp64's own is left where it is: arrays are doubles anyhow.
  if (has_store(contract)) policy.sites = contract.sites.with(output_site, Format::fp64);
  while (static_cast<int>(runs.drawn.size()) < draws) {
    policy.seed = RandomBits{}.at(runs.drawn.size());
    runs.drawn.push_back(answer(policy));
  }
}

Expectation expect(const Oracle& oracle, const KernelUnderTest& kernel, const Problem& problem, int draws,
                   double rate) {
  KernelRuns runs;
  add_runs(runs, kernel, problem, draws);
  return expect(oracle, kernel, problem, runs, rate);
}

namespace {

/// `largest` is the answer's largest number.
Expectation expectation_of(const Oracle& oracle, const KernelUnderTest& kernel, const KernelRuns& runs, double rate,
                           double largest, ReferenceInDoubles& reference) {
  const Policy contract = kernel.policy();
  const Named<Array>& emulated = runs.emulated;
  std::size_t tensors = 0, elements = 0;
  for (const auto& [name, array] : emulated) tensors += array.data.empty() ? 0 : 1, elements += array.data.size();
  const Limits limits = limits_of(rate, std::max<std::size_t>(tensors, 1), std::max<std::size_t>(elements, 1));
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
    expectation.tensors.emplace_back(name, learnt(blank, runs, t, contract, limits, largest, reference));
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
  ReferenceInDoubles reference(problem);
  double largest = 0;
  for (const auto& [name, tensor] : oracle.tensors)
    for (const HiLo& value : tensor.value) largest = std::max(largest, std::fabs(value.hi));
  std::vector<Expectation> expectations;
  KernelUnderTest one = kernel;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    one.tile = tiles[i];
    expectations.push_back(expectation_of(oracle, one, runs[i], rate, largest, reference));
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
