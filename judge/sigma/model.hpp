#pragma once
// Evidence `model`: could any healthy algorithm in this precision have answered so? No tile program and no sites: the
// reference and its gradient, with every operand of every contraction off by one rounding (docs/judge-derivation.md,
// "Model").
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "judge/sigma/cumulated_decays.hpp"
#include "judge/sigma/expected.hpp"
#include "judge/verdict/judge.hpp"
#include "kernels/core/policy.hpp"
#include "oracles/core/room.hpp"
#include "oracles/scalars/perturbed.hpp"
#include "reference/core/blocks.hpp"
#include "reference/core/format.hpp"

namespace assay {

/// Operands that a contract keeps as multiples of scales of blocks, as the model reads them.
struct BlockOperands {
  std::map<std::string, BlockFormat> inputs = {};  ///< by name: rounded once, as arrays of heads [rows][columns]
  Format weights = Format::exact;  ///< which the factors of all contractions have; exact: they have the precision

  /// Those of a policy; none where it has no blocks.
  static BlockOperands of(const Policy& policy, Format precision);
  bool none() const { return inputs.empty() && weights == Format::exact; }
  /// All that draws depend on.
  std::string key() const;
};

/// The reference's answers under errors of one rounding, drawn so many times. Does not depend on the number of threads.
struct ModelRuns {
  Format precision = Format::bf16;
  PerturbedArithmetic::States states = PerturbedArithmetic::States::wide;
  std::vector<Arrays> drawn;  ///< by the names of a report
  using Terms = std::map<std::string, std::vector<double>>;
  std::vector<Terms> terms = {};  ///< of gradients of one number: PerturbedArithmetic::terms()
  BlockOperands operands = {};
  int chunk = usual_chunk;  ///< running sums of decays begin again after so many tokens
};
/// `done` hears of every draw that has ended, on the thread that made it.
ModelRuns model_runs(const Problem& problem, Format precision, int draws, int threads,
                     const std::function<void()>& done = {});
/// Draws until there are so many. The first ones do not depend on how many there are.
void add_model_runs(ModelRuns& runs, const Problem& problem, int draws, int threads,
                    const std::function<void()>& done = {});

/// By what factor a healthy kernel may exceed the model's own limits: `passes` and it is right, beyond `fails` no
/// healthy algorithm known answers so. Between them the model does not decide.
struct ModelFactor {
  double passes = 2, fails = 5;
};
/// The factors for operands in that precision: measured on kernels of others (docs/judge-derivation.md, "Model").
ModelFactor model_factor(Format precision);

/// Sets the reach of each element, from the freedom with which its sigma is known; limits are multiplied by `factor`.
void set_reach(Expected& expected, double factor, int threads = 1);

/// Expectations of every tensor of the oracle, the limits already multiplied by model_factor().passes. `stored` says in
/// which format a tensor is stored; `rate` is the probability that a healthy kernel fails.
Named<Expected> expect_by_model(const Oracle& oracle, const ModelRuns& runs,
                                const std::function<Format(const std::string&)>& stored, double rate = false_alarm_rate,
                                int threads = 1);

}  // namespace assay
