#include "oracles/core/expected.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/core/error.hpp"

namespace assay {
namespace {

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

/// A multiple of what every reference's work grows with.
double work(const Problem& problem) {
  double largest = 0, longest = 1;
  for (const auto& [name, array] : problem.inputs) {
    largest = std::max(largest, static_cast<double>(array.data.size()));
    for (const int n : array.shape) longest = std::max(longest, static_cast<double>(n));
  }
  return largest * longest;
}

/// Below this much work, 50 digits take a fraction of a second.
constexpr double small_work = 1e4;

/// How far w2 is from the truth, by how far fp64, the same computation with the same amplification, is from w2. Every
/// w2 operation is within 40 u^2, u = 2^-53 (w2.hpp: log), one of fp64 typically off by u / 3: their errors compare
/// like 120 u to 1.
constexpr double w2_over_fp64 = 128 * 0x1p-53;

/// For every element the largest `apart` in its row or in its column, whichever is smaller: single elements can be
/// right by luck, while rows and columns may differ by many orders of magnitude. In vectors, the largest of the head.
std::vector<double> smoothed(const std::vector<double>& apart, const Layout& layout) {
  const auto R = static_cast<std::size_t>(layout.rows), C = static_cast<std::size_t>(layout.cols);
  std::vector<double> smooth(apart.size());
  for (std::size_t first = 0; first < apart.size(); first += R * C) {
    std::vector<double> row(R), col(C);
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t c = 0; c < C; ++c) {
        const double x = apart[first + r * C + c];
        row[r] = std::max(row[r], x), col[c] = std::max(col[c], x);
      }
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t c = 0; c < C; ++c)
        smooth[first + r * C + c] = C == 1 ? col[c] : R == 1 ? row[r] : std::min(row[r], col[c]);
  }
  return smooth;
}

/// The relative error of storing a value as hi + lo.
constexpr double two_doubles = 0x1p-106;

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

}  // namespace

Oracle oracle_of(const Room& room, const Problem& problem) {
  auto values = named(room.values(problem, Tier::w2));
  const bool small = work(problem) <= small_work;
  auto other = named(room.values(problem, small ? Tier::mp50 : Tier::fp64));
  Oracle oracle;
  oracle.head_axis = has_head_axis(problem);
  for (std::size_t t = 0; t < values.size(); ++t) {
    auto& [name, value] = values[t];
    const std::vector<HiLo>& second = other[t].second.data;
    std::vector<double> bound(value.data.size());
    for (std::size_t i = 0; i < bound.size(); ++i) {
      bound[i] = std::fabs((value.data[i].hi - second[i].hi) + (value.data[i].lo - second[i].lo));
      if (std::isnan(bound[i])) bound[i] = std::numeric_limits<double>::infinity();
    }
    if (small)
      value.data = second;
    else
      for (double& x : bound = smoothed(bound, layout_of(value.shape, oracle.head_axis && !value.shape.empty())))
        x *= w2_over_fp64;
    for (std::size_t i = 0; i < bound.size(); ++i) bound[i] += two_doubles * std::fabs(value.data[i].hi);
    oracle.tensors.emplace_back(name, Oracle::Tensor{value.shape, std::move(value.data), std::move(bound)});
  }
  return oracle;
}

Policy KernelUnderTest::policy() const {
  Policy policy = Policy::of(form->sites, precision);
  policy.threads = threads;
  return policy;
}

Expectation expect(const Oracle& oracle, const KernelUnderTest& kernel, const Problem& problem, int draws) {
  const Policy contract = kernel.policy();
  const auto answer = [&](const Policy& policy) { return named(kernel.form->run(problem, policy, kernel.tile)); };

  const auto emulated = answer(contract);
  Policy policy = Policy::exact(kernel.form->sites);
  policy.threads = kernel.threads;
  const auto exact = answer(policy);
  std::vector<Named<Array>> drawn;
  policy = contract;
  policy.rounding = Rounding::jittered;
  // The last rounding is known without drawing it. fp64's own is left where it is: arrays are doubles anyhow.
  const bool has_store = contract.sites.find(output_site) >= 0;
  if (has_store) policy.sites = contract.sites.with(output_site, Format::fp64);
  for (int k = 0; k < draws; ++k) {
    policy.seed = RandomBits{}.at(static_cast<std::uint64_t>(k));
    drawn.push_back(answer(policy));
  }

  Expectation expectation;
  for (std::size_t t = 0; t < emulated.size(); ++t) {
    const auto& [name, array] = emulated[t];
    const auto known = std::find_if(oracle.tensors.begin(), oracle.tensors.end(),
                                    [&n = name](const auto& tensor) { return tensor.first == n; });
    require(known != oracle.tensors.end(), name, ": the kernel answers it, the oracle does not");
    const Oracle::Tensor& truth = known->second;
    require(truth.shape == array.shape, name, ": the kernel's shape is not the oracle's");
    if (array.data.empty()) continue;

    Expected e{.shape = truth.shape,
               .layout = layout_of(truth.shape, oracle.head_axis && !truth.shape.empty()),
               .value = truth.value,
               .bound = truth.bound,
               .sigma = {},
               .reach = {}};
    const Format stored = storage_of(array.data, contract.sites);
    e.ulp_format = has_store ? contract.sites.at(output_site) : stored;
    std::vector<std::vector<double>> samples;
    samples.reserve(drawn.size());
    for (const Named<Array>& draw : drawn) samples.push_back(draw[t].second.data);
    Spread spread = spread_of(samples, exact[t].second.data, e.layout, stored);
    e.rms_limit = rms_limit(spread, false_alarm_rate);
    e.sigma = std::move(spread.sigma);
    e.reach.reserve(e.sigma.size());
    for (const double freedom : spread.freedom) e.reach.push_back(equivalent_sigmas(element_sigmas, freedom));
    expectation.tensors.emplace_back(name, std::move(e));
    expectation.emulated.emplace_back(name, array.data);
  }
  return expectation;
}

}  // namespace assay
