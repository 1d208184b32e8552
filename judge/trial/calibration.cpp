#include "judge/trial/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "judge/forms/sequential.hpp"
#include "judge/sigma/expected.hpp"
#include "judge/trial/fault_trials.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

bool same(const Rounds& a, const Rounds& b) {
  return a.form == b.form && a.tile == b.tile && a.contract.name == b.contract.name;
}

/// A contract of that precision with other rules, called `name`.
Contract contract_of(Format precision, const char* name, std::vector<Contract::Rule> rules) {
  Contract contract = Contract::of(precision);
  contract.name += text(", ", name), contract.rules = std::move(rules);
  return contract;
}

Contract sums_of(Format precision, int products) {
  Contract contract = contract_of(precision, text("sums of ", products).c_str(), {});
  contract.products = products;
  return contract;
}

KernelUnderTest under_test(const Rounds& r) { return {r.form, r.contract.precision, r.tile, 1, &r.contract}; }

/// Whether the judge would decide nothing.
bool is_undecided(const Expected& e) {
  for (std::size_t i = 0; i < e.sigma.size(); ++i)
    if (!std::isfinite(e.sigma[i]) || !std::isfinite(e.bound[i]) ||
        (e.sigma[i] > 0 && !(e.bound[i] <= oracle_share * e.sigma[i])))
      return true;
  return false;
}

}  // namespace

std::string_view name_of(Fit fit) {
  constexpr std::string_view names[] = {"same", "wider", "biased", "other"};
  return names[static_cast<int>(fit)];
}

std::vector<HealthyVariant> healthy_variants(std::string_view room, const KernelForm& form, Format precision) {
  const Contract plain = Contract::of(precision);
  std::vector<HealthyVariant> list;
  const auto by_itself = [&](const std::string& name, const Rounds& rounds, Fit fit = Fit::same) {
    list.push_back({name, rounds, rounds, fit});
  };
  const auto tile_name = [&](int tile) { return text("tile ", form.tiles[static_cast<std::size_t>(tile)]); };
  for (int tile = 0; tile < static_cast<int>(form.tiles.size()); ++tile)
    by_itself(tile_name(tile), {&form, tile, plain});
  for (const int products : {1, 4, 16})
    if (products != products_per_rounding(precision))
      by_itself(text("sums of ", products), {&form, 0, sums_of(precision, products)});

  const Contract wide = contract_of(precision, "operands not rounded", {{"operands", Format::exact}});
  const bool has_operands = wide.obstacle(form.sites).empty();
  if (has_operands) by_itself("operands wide", {&form, 0, wide});
  if (form.sites.find("P") >= 0)
    by_itself("P wide", {&form, 0, contract_of(precision, "P not rounded", {{"P", Format::exact}})});
  if (form.sites.find("Oin") >= 0)
    by_itself("D of a wide o", {&form, 0, contract_of(precision, "Oin not rounded", {{"Oin", Format::exact}})});
  if (precision == Format::bf16)
    for (const std::string_view name : {"bf16_state", "fla"})
      if (const Contract* named = find_contract(name); named->obstacle(form.sites).empty())
        // Factors may be rounded into operands: our kernels round the operands alone.
        by_itself(std::string(name), {&form, 0, *named}, named->factored(form.sites).empty() ? Fit::same : Fit::wider);

  // Operations in fp64 are the machine's, which round to nearest alone: they have no draws.
  const bool has_draws = precision != Format::fp64;
  const Rounds token_by_token{sequential_form(room), 0, plain}, from_p_and_dp{product_sum_form(room), 0, plain};
  const bool has_backward = from_p_and_dp.form != nullptr && form.has_gradients;
  if (has_draws) by_itself("token by token", token_by_token);
  if (has_draws && has_backward) by_itself("D of P and dP", from_p_and_dp);

  const Rounds standard{&form, 0, plain};
  Contract truncating = contract_of(precision, "toward zero", {});
  truncating.rounding = Rounding::toward_zero;
  by_itself("toward zero", {&form, 0, truncating}, Fit::biased);
  if (has_operands) list.push_back({"operands wide, by the contract", {&form, 0, wide}, standard, Fit::wider});
  const int smallest = smallest_tile(form);
  if (smallest != 0)
    list.push_back({text(tile_name(smallest), ", by ", tile_name(0)), {&form, smallest, plain}, standard, Fit::other});
  list.push_back({"token by token, by the contract", token_by_token, standard, Fit::other});
  if (has_backward) list.push_back({"D of P and dP, by the contract", from_p_and_dp, standard, Fit::other});
  return list;
}

std::vector<std::string> variant_names(std::string_view room, const KernelForm& form) {
  std::vector<std::string> names;
  for (const Format precision : all_formats) {
    if (precision == Format::exact) continue;
    // Each after the one that it follows in its own precision.
    auto at = names.begin();
    for (const HealthyVariant& v : healthy_variants(room, form, precision)) {
      auto known = std::find(names.begin(), names.end(), v.name);
      if (known == names.end()) known = names.insert(at, v.name);
      at = known + 1;
    }
  }
  return names;
}

void Gauge::add(const Expected& e, const std::vector<double>& got) {
  if (is_undecided(e)) {
    ++undecided;
    return;
  }
  ++tensors;
  widened += e.stall > 0 || e.widened > 0 ? 1 : 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double z = z_at(e, got, i), excess = excess_at(e, got, i);
    beyond_limit += excess <= 1 ? 0 : 1;
    of_limit = std::max(of_limit, excess);
    if (!(e.sigma[i] > 0)) {
      ++exact_elements;
      continue;
    }
    ++elements;
    beyond_seven += z <= element_sigmas ? 0 : 1;
    squares += z * z;
    largest = std::max(largest, z);
    const double at = excess > 0 ? (1 - std::log2(excess)) * per_octave : std::numeric_limits<double>::infinity();
    ++slack[static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(per_octave * octaves)))];
  }
}

void Gauge::join(const Gauge& other) {
  tensors += other.tensors, widened += other.widened, elements += other.elements,
      exact_elements += other.exact_elements;
  beyond_seven += other.beyond_seven, beyond_limit += other.beyond_limit, undecided += other.undecided;
  squares += other.squares;
  largest = std::max(largest, other.largest), of_limit = std::max(of_limit, other.of_limit);
  for (std::size_t b = 0; b < slack.size(); ++b) slack[b] += other.slack[b];
}

double Gauge::rms() const { return elements == 0 ? 0 : std::sqrt(squares / static_cast<double>(elements)); }

double Gauge::median_slack() const {
  std::uint64_t below = 0;
  for (std::size_t b = 0; b + 1 < slack.size(); ++b) {
    below += slack[b];
    if (2 * below >= elements && elements > 0)
      return std::exp2((static_cast<double>(b) + 0.5) / per_octave - 1);  // the middle of the bin
  }
  return std::numeric_limits<double>::infinity();
}

std::vector<Gauge> gauge(const Room& room, const std::vector<HealthyVariant>& variants, const Problem& problem) {
  struct Standard {
    Rounds rounds;
    Named<Array> exact;
    Expectation expectation;
  };
  const Oracle oracle = oracle_of(room, problem);
  std::optional<Oracle> sharper;
  std::vector<Standard> standards;
  const auto standard_of = [&](const Rounds& rounds) -> const Standard& {
    const auto known = std::ranges::find_if(standards, [&](const Standard& s) { return same(s.rounds, rounds); });
    if (known != standards.end()) return *known;
    const KernelUnderTest kernel = under_test(rounds);
    KernelRuns runs;
    for (const Standard& s : standards)  // where nothing rounds, contracts do not differ
      if (s.rounds.form == rounds.form && s.rounds.tile == rounds.tile) runs.exact = s.exact;
    add_runs(runs, kernel, problem, default_draws);
    Expectation found = expect(oracle, kernel, problem, runs);
    if (std::any_of(found.tensors.begin(), found.tensors.end(), [](const auto& t) { return is_undecided(t.second); })) {
      if (!sharper) sharper = oracle_of(room, problem, 4);
      found = expect(*sharper, kernel, problem, runs);
    }
    standards.push_back({rounds, std::move(runs.exact), std::move(found)});
    return standards.back();
  };

  for (const HealthyVariant& v : variants) standard_of(v.standard);
  std::vector<Gauge> gauges;
  for (const HealthyVariant& v : variants) {
    const Expectation& expectation = standard_of(v.standard).expectation;
    // A kernel that has been run for its own spread is not run again.
    const auto own = std::ranges::find_if(standards, [&](const Standard& s) { return same(s.rounds, v.kernel); });
    Gauge& gauge = gauges.emplace_back();
    if (own == standards.end()) {
      const Answer answer = v.kernel.form->run(problem, under_test(v.kernel).policy(), v.kernel.tile);
      const auto answered = in_report_order(answer, expectation);
      for (std::size_t t = 0; t < answered.size(); ++t) gauge.add(expectation.tensors[t].second, answered[t].second);
      continue;
    }
    for (const auto& [name, expected] : expectation.tensors) {
      const auto answered = std::find_if(own->expectation.emulated.begin(), own->expectation.emulated.end(),
                                         [&n = name](const auto& tensor) { return tensor.first == n; });
      if (answered == own->expectation.emulated.end())
        throw std::runtime_error(name + ": the variant does not answer it");
      gauge.add(expected, answered->second);
    }
  }
  return gauges;
}

}  // namespace assay
