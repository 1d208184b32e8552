#include "judge/sigma/other_algorithms.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "judge/contract/contract.hpp"
#include "judge/sigma/cumulated_gates.hpp"
#include "judge/sigma/model.hpp"
#include "judge/sigma/terms.hpp"
#include "judge/verdict/slices.hpp"
#include "kernels/core/kernel_room.hpp"

namespace assay {
namespace {

/// The policy of tensor cores, which cut off sums, and operands in tf32. Nothing else is rounded.
Policy cut_off(const Policy& contract, Format precision) {
  Policy policy = contract;
  policy.rounding = Rounding::toward_zero;
  for (int i = 0; i < policy.sites.size; ++i) {
    auto& [name, role, format, blocks] = policy.sites.entries[i];
    const bool cut = role == tile::Role::accumulator || (role == tile::Role::operand && precision == Format::tf32);
    if (!cut) format = Format::exact;
  }
  return policy;
}

std::vector<Policy> healthy_policies(const tile::SiteTable& sites, Format precision) {
  const Policy own = unstored(Policy::of(sites, precision));
  std::vector<Policy> list = {own};
  // Where operands are as wide as sums there are no tensor cores.
  if (precision != Format::fp32 && precision != Format::fp64) list.push_back(cut_off(own, precision));
  for (const Contract& named : library_contracts()) {
    const Contract contract = named.in(precision);
    if (contract.precision != precision || !contract.obstacle(sites).empty()) continue;
    const Policy policy = unstored(contract.policy(sites));
    if (!has_narrower_state(policy.sites, own.sites)) list.push_back(policy);
  }
  return list;
}

/// Whether that is the gradient of a log decay.
bool is_of_gate(std::string_view mechanism, std::string_view tensor) {
  const auto room = find_room(mechanism);
  if (room == nullptr || !tensor.starts_with("d_")) return false;
  const auto inputs = room->inputs();
  return std::any_of(inputs.begin(), inputs.end(), [&](const RoomFacts::Ranked& input) {
    return input.field.domain == Domain::log_decay && input.field.name == tensor.substr(2);
  });
}

/// The sizes of the terms of sums from the last row on, in every head and column.
void sum_from_the_end(std::vector<double>& sizes, const Layout& n) {
  const auto row = static_cast<std::size_t>(n.cols), head = row * static_cast<std::size_t>(n.rows);
  for (std::size_t i = sizes.size(); i-- > 0;)
    if (i % head + row < head) sizes[i] = std::max(sizes[i], sizes[i + row]);
}

/// How many tokens a problem has, or 1 where that means nothing.
int tokens_of(const Problem& problem) {
  const auto room = find_room(problem.mechanism);
  if (room == nullptr) return 1;
  for (const RoomFacts::Ranked& input : room->inputs()) {
    const auto found = problem.inputs.find(std::string(input.field.name));
    if (input.rank == 0 || input.field.axes[0] != Axis::seq_len || found == problem.inputs.end()) continue;
    const std::vector<int>& shape = found->second.shape;
    const auto rank = static_cast<std::size_t>(input.rank);
    if (shape.size() >= rank) return shape[shape.size() - rank];
  }
  return 1;
}

/// With at least these sigmas, or nothing where none is larger. The variances of sums over slices grow by what those of
/// their elements do.
std::optional<Expected> with_sigmas(const Expected& expected, const std::vector<double>& least) {
  std::vector<double> more(expected.sigma.size(), 0.0);
  bool any = false;
  for (std::size_t i = 0; i < more.size(); ++i) {
    const double sigma = expected.sigma[i];
    if (least[i] > sigma) more[i] = least[i] * least[i] - sigma * sigma, any = true;
  }
  if (!any) return std::nullopt;
  Expected wider = expected;
  for (std::size_t i = 0; i < more.size(); ++i) wider.sigma[i] = std::max(wider.sigma[i], least[i]);
  if (wider.gains.empty()) return wider;
  std::vector<double> squares = expected.gain_weight;
  for (double& weight : squares) weight *= weight;
  const std::vector<double> variances = slice_sums(expected.layout, squares, more);
  for (std::size_t s = 0; s < variances.size(); ++s)
    wider.gains[s].sigma = std::hypot(wider.gains[s].sigma, std::sqrt(variances[s]));
  return wider;
}

}  // namespace

bool has_narrower_state(const tile::SiteTable& sites, const tile::SiteTable& than) {
  const auto digits = [](const tile::SiteTable& of, std::string_view site) { return info(of.at(site)).mantissa_bits; };
  for (const SiteGroup& group : site_groups())
    if (group.name == "state")
      for (const std::string_view site : group.members(sites))
        if (digits(sites, site) < digits(than, site)) return true;
  return false;
}

bool multiplies_states(std::string_view mechanism, std::string_view tensor, Format precision) {
  const bool narrow_sums = precision == Format::fp32 || precision == Format::fp64 || precision == Format::exact;
  return !narrow_sums && is_of_gate(mechanism, tensor);
}

std::vector<Arrays> healthy_answers(const Problem& problem, Format precision, int threads) {
  const KernelRoom* kernels = find_kernels(kernel_rooms(), problem.mechanism);
  if (kernels == nullptr || precision == Format::exact) return {};
  const KernelForm& form = kernels->forms.front();
  if (!form.unstable.empty() || !form.obstacle(problem).empty()) return {};
  std::vector<Arrays> list;
  for (Policy policy : healthy_policies(form.sites, precision)) {
    policy.threads = threads;
    for (int tile = 0; tile < static_cast<int>(form.tiles.size()); ++tile)
      list.push_back(flat(form.run(problem, policy, tile)));
  }
  return list;
}

OtherAlgorithms::OtherAlgorithms(const Problem& problem, const Oracle& oracle, Format precision, int draws, int threads,
                                 std::function<Format(const std::string&)> stored, double rate)
    : problem_(problem),
      oracle_(oracle),
      precision_(precision),
      draws_(draws),
      threads_(threads),
      stored_(std::move(stored)),
      rate_(rate) {}

std::optional<Expected> OtherAlgorithms::with_terms(const std::string& tensor, const Expected& expected) {
  if (std::find(expected.sigma.begin(), expected.sigma.end(), 0.0) == expected.sigma.end()) return std::nullopt;
  const bool wide = precision_ == Format::fp64 || precision_ == Format::exact;
  const Format accumulators = wide ? Format::fp64 : Format::fp32;
  const std::vector<double>* sizes = sizes_of(tensor, terms_, term_sizes, accumulators, expected);
  if (sizes == nullptr) return std::nullopt;
  Expected kept = expected;
  for (std::size_t i = 0; i < kept.sigma.size(); ++i)
    if (kept.sigma[i] == 0) kept.sigma[i] = sigma_of_terms((*sizes)[i], accumulators);
  return kept;
}

const std::vector<double>* OtherAlgorithms::sizes_of(const std::string& tensor, std::optional<Arrays>& kept,
                                                     SizesIn* sizes, Format in, const Expected& expected) const {
  if (!kept) kept = sizes(problem_.mechanism, problem_, in, threads_).value_or(Arrays{});
  const auto found = kept->find(tensor);
  return found != kept->end() && found->second.data.size() == expected.sigma.size() ? &found->second.data : nullptr;
}

std::optional<Expected> OtherAlgorithms::below_normal(const std::string& tensor, const Expected& expected) {
  if (info(precision_).min_exponent <= info(Format::fp32).min_exponent) return std::nullopt;
  const std::vector<double>* sizes = sizes_of(tensor, below_normal_, sizes_below_normal, precision_, expected);
  if (sizes == nullptr) return std::nullopt;
  std::vector<double> least = *sizes;
  for (double& x : least) x = sigma_of_terms(x, precision_);
  return with_sigmas(expected, least);
}

std::optional<Expected> OtherAlgorithms::in_terms(const std::string& tensor, const Expected& expected) {
  if (precision_ == Format::exact) return std::nullopt;
  const std::vector<double>* known = sizes_of(tensor, operands_, term_sizes, precision_, expected);
  if (known == nullptr) return std::nullopt;
  std::vector<double> least = *known;
  if (is_of_gate(problem_.mechanism, tensor)) sum_from_the_end(least, expected.layout);
  // Where sums are as narrow as operands, every partial sum of a chunk rounds at that size, and not its operands alone.
  const bool narrow_sums = unit_roundoff(precision_) <= unit_roundoff(Format::fp32);
  const double roundings = narrow_sums ? std::clamp(tokens_of(problem_), 1, usual_chunk) : 1;
  for (double& x : least) x = std::sqrt(roundings) * sigma_of_terms(x, precision_);
  return with_sigmas(below_normal(tensor, expected).value_or(expected), least);
}

const Expected* OtherAlgorithms::drawn(Named<Expected>& kept, ModelRuns runs, const std::string& tensor) const {
  if (kept.empty()) {
    add_model_runs(runs, problem_, draws_, threads_);
    kept = expect_by_model(oracle_, runs, stored_, rate_, threads_);
  }
  const auto found = std::find_if(kept.begin(), kept.end(), [&](const auto& e) { return e.first == tensor; });
  return found == kept.end() ? nullptr : &found->second;
}

const Expected* OtherAlgorithms::in_stored_states(const std::string& tensor) {
  if (!multiplies_states(problem_.mechanism, tensor, precision_)) return nullptr;
  return drawn(in_stored_states_, {.precision = precision_, .states = PerturbedArithmetic::States::stored, .drawn = {}},
               tensor);
}

const Expected* OtherAlgorithms::in_one_chunk(const std::string& tensor) {
  if (tokens_of(problem_) <= usual_chunk || cumulated_decays(problem_, precision_).empty()) return nullptr;
  return drawn(in_one_chunk_, {.precision = precision_, .drawn = {}, .chunk = tokens_of(problem_)}, tensor);
}

std::optional<Expected> OtherAlgorithms::as_ours(const std::string& tensor, const Expected& expected) {
  if (!ours_) {
    ours_ = healthy_answers(problem_, precision_, threads_);
    Arrays exact;
    for (const auto& [name, truth] : oracle_.tensors) exact[name] = Array{truth.shape, nearest_doubles(truth.value)};
    for (std::size_t i = 0, n = ours_->size(); i < n; ++i)
      if (std::optional<Arrays> summed = with_gates_summed(problem_, exact, (*ours_)[i]))
        ours_->push_back(std::move(*summed));
  }
  const ModelFactor factor = model_factor(precision_);
  const ExactRun truth = ExactRun::at(expected.value);
  // Limits of a sigma that is known: what a kernel did is no estimate.
  Spread spread{.sigma = expected.sigma, .freedom = std::vector<double>(expected.sigma.size(), HUGE_VAL)};
  std::vector<double> gains(expected.gains.size()), off(expected.value.size());
  bool any = false;
  for (const Arrays& answer : *ours_) {
    const auto found = answer.find(tensor);
    if (found == answer.end() || found->second.data.size() != expected.value.size()) continue;
    if (judge(expected, found->second.data).excess * factor.passes <= factor.fails) continue;
    any = widen(spread, found->second.data, truth, expected.layout, 0, rate_) > 0 || any;
    if (gains.empty()) continue;
    for (std::size_t i = 0; i < off.size(); ++i) off[i] = truth.distance(found->second.data[i], i);
    const std::vector<double> sums = slice_sums(expected.layout, expected.gain_weight, off);
    for (std::size_t s = 0; s < gains.size(); ++s) gains[s] = std::max(gains[s], std::fabs(sums[s]));
  }
  if (!any) return std::nullopt;
  Expected wider = with_limits(expected, 1 / factor.passes);
  wider.sigma = std::move(spread.sigma);
  for (std::size_t s = 0; s < gains.size(); ++s) wider.gains[s].sigma = std::max(wider.gains[s].sigma, gains[s]);
  return wider;
}

}  // namespace assay
