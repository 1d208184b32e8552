// Local linear attention (L), Table 2: how far conjugate gradients with products in bf16 are from a direct solve.
#include <cmath>

#include "reference/core/error.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"
#include "tools/papers/paper.hpp"
#include "tools/papers/trial.hpp"

namespace assay {
namespace {

constexpr int tokens = 256, dims = 64;

struct Printed {
  long steps;
  double absolute, relative;
};
constexpr Printed printed[] = {{1, 1.49e-3, 1.898},  {2, 4.51e-4, 0.651},  {4, 9.13e-5, 0.129}, {8, 1.98e-5, 0.016},
                               {16, 1.72e-5, 0.011}, {32, 1.72e-5, 0.011}, {64, 1.72e-5, 0.011}};

Problem problem_of(std::uint64_t seed, bool unit) {
  Problem problem{.id = "lla-table-2", .mechanism = "lla", .params = {}, .inputs = {}, .cotangents = {}};
  problem.params["bandwidth"] = round_trip(std::sqrt(dims));
  for (const char* name : {"q", "k", "v"})
    problem.inputs[name] = trial::drawn_rows(seed, name, tokens, dims, unit && name[0] != 'v' ? 1 : 0, Format::bf16);
  const Stream ridge(seed, "lambda");
  Array lambda({1, tokens});
  for (std::size_t i = 0; i < lambda.data.size(); ++i)
    lambda.data[i] = round_to(1 / (1 + std::exp(-ridge.normal(i))), Format::fp32);
  problem.inputs["lambda"] = lambda;
  return problem;
}

double mean_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

/// A table of one kind of data, and the errors in bf16, which it adds to the curves.
Table measured(bool unit, const PaperOptions& options, std::vector<trial::Curve>& curves,
               const std::function<void(std::string_view)>& done) {
  Problem problem = problem_of(options.seed, unit);
  const std::vector<double> truth = trial::exact(problem, "o");
  problem.params["solver"] = std::string("cg");
  const std::string kind = unit ? "length 1" : "N(0, 1)";
  Table table = Table().numbers({"steps", "paper: relative", "bf16: relative", "fp32: relative",
                                 "no rounding: relative", "paper: absolute", "bf16: absolute"});
  trial::Curve ours{"bf16, " + kind, {}}, steps{"no rounding, " + kind, {}};
  for (const Printed& row : printed) {
    problem.params["iterations"] = row.steps;
    const std::vector<double> got = trial::emulated(problem, "tiled", Format::bf16, "o", options.threads);
    const double in_bf16 = trial::relative_error(got, truth),
                 in_fp32 = trial::relative_error(trial::emulated(problem, "tiled", Format::fp32, "o", options.threads),
                                                 truth),
                 alone = trial::relative_error(trial::exact(problem, "o"), truth), at = static_cast<double>(row.steps);
    table.add(row.steps, trial::shown(row.relative), trial::shown(in_bf16), trial::shown(in_fp32), trial::shown(alone),
              trial::shown(row.absolute), trial::shown(mean_distance(got, truth)));
    ours.points.emplace_back(at, in_bf16), steps.points.emplace_back(at, alone);
    done(text(kind, ", ", row.steps, " steps"));
  }
  curves.push_back(std::move(ours)), curves.push_back(std::move(steps));
  return table;
}

}  // namespace

PaperResult lla_table_2(const PaperOptions& options, const std::function<void(std::string_view)>& done) {
  PaperResult result;
  std::vector<trial::Curve> curves = {{"the paper's", {}}};
  for (const Printed& row : printed) curves[0].points.emplace_back(static_cast<double>(row.steps), row.relative);
  for (const bool unit : {false, true})
    result.tables.emplace_back(unit ? "queries and keys of length 1" : "queries and keys N(0, 1)",
                               measured(unit, options, curves, done));
  result.plots = {trial::curves("LLA Table 2: error of o against the steps of conjugate gradients", "steps",
                                "relative error", curves)};
  result.chosen = {
      "data, norm and seed are not in the paper, nor which tensor was compared; here: the output o of one head,",
      text(tokens, " tokens, K = V = ", dims,
           "; queries and keys of two kinds, values N(0, 1), all in bf16; bandwidth"),
      "sqrt(K), ridge sigmoid(N(0, 1)) for each query (L (27)) in the unit of the weights' sum, as the authors' code "
      "has it;",
      "relative: Frobenius norms; absolute: the mean over the elements; truth: a direct solve in doubles"};
  result.says = {
      "The shape is theirs: the error falls with the steps to a floor, and the floor is the rounding to bf16, for "
      "without it the error goes on falling.",
      "How fast it falls and where it stops is the data's affair: keys of length 1 beside such a ridge take two steps, "
      "keys N(0, 1) take all.",
      "With keys N(0, 1) some rows pass near a pole before they have converged (1 - rho.zbar near 0, docs/errata.md, "
      "15d): a few more steps may be worse."};
  return result;
}

}  // namespace assay
