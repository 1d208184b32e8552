#include "judge/sigma/model.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "judge/sigma/cumulated_gates.hpp"
#include "oracles/core/room.hpp"
#include "oracles/multiword/parallel.hpp"
#include "oracles/scalars/perturbed.hpp"
#include "reference/core/error.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay {

namespace {

/// fp32 and fp64: sums are as narrow as what they sum.
bool sums_are_narrow(Format precision) {
  return precision == Format::fp32 || precision == Format::fp64 || precision == Format::exact;
}

/// Draw k of tf32: tensor cores cut operands off, other code rounds them; half of the draws do either.
PerturbedArithmetic::Operands operands_of(Format precision, std::size_t draw) {
  const bool cut = precision == Format::tf32 && draw % 2 == 1;
  return cut ? PerturbedArithmetic::Operands::cut_off : PerturbedArithmetic::Operands::nearest;
}

/// The problem with those of its inputs rounded by block, at random. In cases with arguments the rows of heads may lie
/// side by side (`layout`): nothing is rounded there.
Problem in_blocks(const Problem& problem, const BlockOperands& operands, std::uint64_t seed) {
  Problem rounded = problem;
  if (problem.params.contains("layout")) return rounded;
  for (const auto& [name, format] : operands.inputs) {
    const auto input = rounded.inputs.find(name);
    if (input == rounded.inputs.end() || input->second.shape.size() < 2 || input->second.data.empty()) continue;
    Array& x = input->second;
    const auto cols = static_cast<std::size_t>(x.shape.back()),
               rows = static_cast<std::size_t>(x.shape[x.shape.size() - 2]);
    RandomBits random{Stream(seed, name + ", in blocks").bits(0), 0};
    for (std::size_t first = 0; first < x.data.size(); first += rows * cols)
      round_by_blocks(x.data.data() + first, rows, cols, format, Rounding::jittered, random);
  }
  return rounded;
}

/// To the 16 bits that three bytes of a float hold: sigma is known to a fifth, and a cache holds more cases.
void shorten(std::vector<double>& list, int threads) {
  constexpr double split = 0x1p37 + 1;  // Dekker, Numer. Math. 18, 1971
  words::for_each_in_parallel(list.size(), threads, [&](std::size_t i) {
    double& x = list[i];
    if (x >= std::numeric_limits<float>::min() && x <= std::numeric_limits<float>::max())
      x = x * split - (x * split - x);
  });
}

/// The draws of one tensor, and of a number those of its terms where they add up to it.
struct Drawn {
  std::vector<std::span<const double>> draws;
  std::vector<std::vector<double>> terms;

  Drawn(const ModelRuns& runs, const std::string& name, std::size_t size) {
    bool add_up = true;
    for (std::size_t k = 0; k < runs.drawn.size(); ++k) {
      const auto found = runs.drawn[k].find(name);
      require(found != runs.drawn[k].end() && found->second.data.size() == size, name,
              ": the model does not answer it");
      draws.emplace_back(found->second.data);
      const auto known = runs.terms[k].find(name);
      add_up = add_up && size == 1 && known != runs.terms[k].end() && is_sum(known->second, draws.back()[0]);
      if (add_up) terms.push_back(known->second);
    }
    if (!add_up) terms.clear();
  }

 private:
  /// Up to the additions' own errors, a rounding of fp32 each.
  static bool is_sum(const std::vector<double>& terms, double x) {
    double sum = 0, size = 0;
    for (const double term : terms) sum += term, size += std::fabs(term);
    return std::fabs(x - sum) <= static_cast<double>(terms.size()) * spacing(Format::fp32, size);
  }
};

Expected expected_of(const Oracle::Tensor& truth, bool head_axis, const Drawn& drawn, Format stored,
                     const Limits& limits, Format precision, int threads) {
  const double factor = model_factor(precision).passes;
  Expected e{.shape = truth.shape,
             .layout = layout_of(truth.shape, head_axis && !truth.shape.empty()),
             .ulp_format = stored,
             .value = truth.value,
             .bound = truth.bound,
             .sigma = {},
             .reach = {},
             .stored = stored};
  // The truth itself, and no run in doubles, is what the draws are about.
  const ExactRun exact = ExactRun::at(truth.value);
  const Spread spread = spread_of(drawn.draws, exact, e.layout, stored, 1, drawn.terms, threads);
  e.sigma = spread.sigma, e.freedom = spread.freedom, e.known_reach = factor * limits.sigmas;
  shorten(e.sigma, threads), shorten(e.freedom, threads), set_reach(e, factor, threads);
  e.rms_limit = factor * rms_limit(spread, limits.tensor_rate);
  // Where operands are as wide as sums, every element shows such a gain, and one rounding of a sum is that of a whole
  // row.
  if (sums_are_narrow(precision)) return e;
  e.gain_weight = gain_weights(e, threads);
  e.gains = expected_sums(drawn.draws, exact, {}, e.layout, e.gain_weight, spread, limits.tensor_rate,
                          JudgedSlices::all, threads);
  for (SliceSum& sum : e.gains) sum.reach *= factor;
  return e;
}

}  // namespace

BlockOperands BlockOperands::of(const Policy& policy, Format precision) {
  BlockOperands operands;
  if (!policy.sites.has_blocks()) return operands;
  constexpr std::pair<std::string_view, const char*> of_sites[] = {{"Q", "q"}, {"K", "k"}, {"V", "v"}};
  for (const auto& [site, input] : of_sites)
    if (policy.sites.find(site) >= 0 && policy.sites.entry(site).by_blocks())
      operands.inputs[input] = {policy.sites.at(site), policy.sites.entry(site).blocks};
  if (const int at = policy.sites.find("P"); at >= 0) {
    const Format weights = policy.sites.entries[at].format;
    if (info(weights).mantissa_bits < info(precision).mantissa_bits) operands.weights = weights;
  }
  return operands;
}

std::string BlockOperands::key() const {
  std::string key;
  for (const auto& [input, format] : inputs) key += text(' ', input, ' ', name_of(format.format, format.blocks));
  return weights == Format::exact ? key : text(key, " weights ", name_of(weights));
}

ModelRuns model_runs(const Problem& problem, Format precision, int draws, int threads,
                     const std::function<void()>& done) {
  ModelRuns runs{.precision = precision, .drawn = {}};
  add_model_runs(runs, problem, draws, threads, done);
  return runs;
}

void add_model_runs(ModelRuns& runs, const Problem& problem, int draws, int threads,
                    const std::function<void()>& done) {
  const std::shared_ptr<const Room> room = find_room(problem.mechanism);
  require(room != nullptr, problem.mechanism, ": no such mechanism");
  const std::size_t known = runs.drawn.size(), all = std::max(known, static_cast<std::size_t>(draws));
  runs.drawn.resize(all), runs.terms.resize(all);
  // Where there are more threads than draws, each draw has several, for its heads.
  const int of_each = words::threads_of_each(threads, all - known);
  const auto draw = [&](std::size_t k, std::uint64_t seed) {
    const Format factors = runs.operands.weights == Format::exact ? runs.precision : runs.operands.weights;
    const PerturbedArithmetic arithmetic(factors, operands_of(runs.precision, k), seed, runs.states, of_each);
    const CumulatedDecays read(problem, runs.precision, seed, runs.chunk);
    runs.drawn[k] = runs.operands.none() ? flat(room->emulated(read.problem()))
                                         : flat(room->emulated(in_blocks(read.problem(), runs.operands, seed)));
    runs.terms[k] = arithmetic.terms();
    read.take_back(runs.drawn[k]);
    cumulate_gates(problem, runs.precision, seed, of_each, runs.drawn[k]);
  };
  words::in_parallel(all - known, threads, [&](std::size_t i) {
    // One that has no answer, as where a matrix is no longer definite, is no kernel's that answers with numbers.
    constexpr std::uint64_t tries = 8;
    for (std::uint64_t n = 0; n < tries; ++n) try {
        draw(known + i, RandomBits{}.at((n << 32) + known + i));
        break;
      } catch (const Refusal&) {
        if (n + 1 == tries) throw;
      }
    if (done) done();
  });
}

void set_reach(Expected& expected, double factor, int threads) {
  expected.reach.resize(expected.freedom.size());
  words::for_each_in_parallel(expected.freedom.size(), threads, [&](std::size_t i) {
    expected.reach[i] = factor * equivalent_sigmas(expected.known_reach / factor, expected.freedom[i]);
  });
}

ModelFactor model_factor(Format precision) {
  return sums_are_narrow(precision) ? ModelFactor{3, 5} : ModelFactor{2, 5};
}

Named<Expected> expect_by_model(const Oracle& oracle, const ModelRuns& runs,
                                const std::function<Format(const std::string&)>& stored, double rate, int threads) {
  std::size_t tensors = 0, elements = 0;
  for (const auto& [name, truth] : oracle.tensors)
    tensors += truth.value.empty() ? 0 : 1, elements += truth.value.size();
  const Limits limits = limits_of(rate, std::max<std::size_t>(tensors, 1), std::max<std::size_t>(elements, 1));
  std::vector<const Named<Oracle::Tensor>::value_type*> known;
  for (const auto& tensor : oracle.tensors) {
    const auto& [name, truth] = tensor;
    if (truth.value.empty()) continue;
    known.push_back(&tensor);
  }
  Named<Expected> list(known.size());
  // Where there are more threads than large tensors, which are most of the work, each has several.
  const auto large = std::ranges::count_if(known, [&](const auto* t) { return 8 * t->second.value.size() > elements; });
  const int of_each = words::threads_of_each(threads, static_cast<std::size_t>(large));
  words::in_parallel(known.size(), threads, [&](std::size_t i) {
    const auto& [name, truth] = *known[i];
    const Drawn drawn(runs, name, truth.value.size());
    list[i] = {name, expected_of(truth, oracle.head_axis, drawn, stored(name), limits, runs.precision, of_each)};
  });
  return list;
}

}  // namespace assay
