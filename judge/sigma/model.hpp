#pragma once
// Evidence `model`: could any healthy algorithm in this precision have answered so? No tile program and no sites: the
// reference and its gradient, with every operand of every contraction off by one rounding (docs/judge-derivation.md,
// "Model").
#include <functional>
#include <string>
#include <vector>

#include "judge/sigma/expected.hpp"
#include "judge/verdict/judge.hpp"
#include "oracles/core/room.hpp"
#include "oracles/scalars/perturbed.hpp"
#include "reference/core/format.hpp"

namespace assay {

/// The reference's answers under errors of one rounding, drawn so many times. Does not depend on the number of threads.
struct ModelRuns {
  Format precision = Format::bf16;
  PerturbedArithmetic::States states = PerturbedArithmetic::States::wide;
  std::vector<Arrays> drawn;  ///< by the names of a report
};
/// `done` hears of every draw that has ended, on the thread that made it.
ModelRuns model_runs(const Problem& problem, Format precision, int draws, int threads,
                     const std::function<void()>& done = {});
/// Draws until there are so many. The first ones do not depend on how many there are.
void add_model_runs(ModelRuns& runs, const Problem& problem, int draws, int threads,
                    const std::function<void()>& done = {});

/// Whether that room has draws: those that have kernels, and programs.
bool has_model(std::string_view mechanism);

/// By what factor a healthy kernel may exceed the model's own limits: `passes` and it is right, beyond `fails` no
/// healthy algorithm known answers so. Between them the model does not decide.
struct ModelFactor {
  double passes = 2, fails = 5;
};
/// Of operands in that precision: measured on kernels of others (docs/judge-derivation.md, "Model").
ModelFactor model_factor(Format precision);

/// What is expected of every tensor of the oracle, the limits already multiplied by model_factor().passes.
/// `stored` says in which format a tensor is stored; `rate` is the probability that a healthy kernel fails.
Named<Expected> expect_by_model(const Oracle& oracle, const ModelRuns& runs,
                                const std::function<Format(const std::string&)>& stored,
                                double rate = false_alarm_rate);

/// Whether algorithms differ in that tensor of a mechanism by whether they store states as operands: a gate's gradient,
/// a sum of products of two states. What is expected where they do is asked for when a tensor is beyond what is
/// expected where they do not.
bool multiplies_states(std::string_view mechanism, std::string_view tensor, Format precision);

/// What is expected of tensors that multiply states where these are stored as operands; drawn when it is first asked.
class InStoredStates {
 public:
  /// All that it is given must live as long.
  InStoredStates(const Problem& problem, const Oracle& oracle, Format precision, int draws, int threads,
                 std::function<Format(const std::string&)> stored, double rate = false_alarm_rate);
  /// Null of a tensor in which all algorithms are alike.
  const Expected* operator()(const std::string& tensor);

 private:
  const Problem& problem_;
  const Oracle& oracle_;
  Format precision_;
  int draws_, threads_;
  std::function<Format(const std::string&)> stored_;
  double rate_;
  Named<Expected> expected_;
};

/// Judges by the model: PASS up to the factor that passes, FAIL beyond the one that fails, UNDECIDED between, and where
/// an algorithm that stores states as operands is not beyond the latter; `in_stored_states` may be null.
Judgement judge_by_model(const Expected& expected, Format precision, const std::vector<double>& got,
                         const std::function<const Expected*()>& in_stored_states = {}, bool has_contracts = true);

}  // namespace assay
