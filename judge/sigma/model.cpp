#include "judge/sigma/model.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "judge/sigma/cumulated_decays.hpp"
#include "judge/sigma/cumulated_gates.hpp"
#include "oracles/core/room.hpp"
#include "oracles/multiword/parallel.hpp"
#include "oracles/scalars/perturbed.hpp"
#include "reference/core/error.hpp"
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

/// To 24 bits: sigma is known to a fifth, and a cache that keeps floats holds twice as many cases.
void shorten(std::vector<double>& list) {
  for (double& x : list)
    if (x >= std::numeric_limits<float>::min() && x <= std::numeric_limits<float>::max()) x = static_cast<float>(x);
}

ExactRun truth_of(const Oracle::Tensor& truth) {
  std::vector<double> value;
  value.reserve(truth.value.size());
  for (const HiLo& x : truth.value) value.push_back(x.hi);
  return {std::move(value), truth.value};
}

Expected expected_of(const Oracle::Tensor& truth, bool head_axis, const std::vector<std::vector<double>>& draws,
                     Format stored, const Limits& limits, Format precision) {
  const double factor = model_factor(precision).passes;
  Expected e{.shape = truth.shape,
             .layout = layout_of(truth.shape, head_axis && !truth.shape.empty()),
             .ulp_format = stored,
             .value = truth.value,
             .bound = truth.bound,
             .sigma = {},
             .reach = {}};
  // The truth itself, and no run in doubles, is what the draws are about.
  const Spread spread = spread_of(draws, truth_of(truth), e.layout, stored, 1);
  e.sigma = spread.sigma, e.freedom = spread.freedom, e.known_reach = factor * limits.sigmas;
  shorten(e.sigma), shorten(e.freedom), set_reach(e, factor);
  e.rms_limit = factor * rms_limit(spread, limits.tensor_rate);
  // Where operands are as wide as sums, every element shows such a gain, and one rounding of a sum is that of a whole
  // row.
  if (sums_are_narrow(precision)) return e;
  e.gain_weight = gain_weights(e);
  e.gains =
      expected_sums(draws, truth_of(truth), {}, e.layout, e.gain_weight, spread, limits.tensor_rate, JudgedSlices::all);
  for (SliceSum& sum : e.gains) sum.reach *= factor;
  return e;
}

}  // namespace

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
  runs.drawn.resize(all);
  words::in_parallel(all - known, threads, [&](std::size_t i) {
    const std::size_t k = known + i;
    const PerturbedArithmetic arithmetic(runs.precision, operands_of(runs.precision, k), RandomBits{}.at(k),
                                         runs.states);
    const CumulatedDecays read(problem, runs.precision, RandomBits{}.at(k));
    runs.drawn[k] = flat(room->emulated(read.problem()));
    read.take_back(runs.drawn[k]);
    cumulate_gates(problem, runs.precision, RandomBits{}.at(k), runs.drawn[k]);
    if (done) done();
  });
}

void set_reach(Expected& expected, double factor) {
  expected.reach.clear();
  expected.reach.reserve(expected.freedom.size());
  for (const double freedom : expected.freedom)
    expected.reach.push_back(factor * equivalent_sigmas(expected.known_reach / factor, freedom));
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
    for (const Arrays& drawn : runs.drawn) {
      const auto found = drawn.find(name);
      require(found != drawn.end() && found->second.data.size() == truth.value.size(), name,
              ": the model does not answer it");
    }
    known.push_back(&tensor);
  }
  Named<Expected> list(known.size());
  words::in_parallel(known.size(), threads, [&](std::size_t i) {
    const auto& [name, truth] = *known[i];
    std::vector<std::vector<double>> draws;
    draws.reserve(runs.drawn.size());
    for (const Arrays& drawn : runs.drawn) draws.push_back(drawn.find(name)->second.data);
    list[i] = {name, expected_of(truth, oracle.head_axis, draws, stored(name), limits, runs.precision)};
  });
  return list;
}

}  // namespace assay
