#pragma once
// Expectations of a kernel under its contract: the oracle's values and bounds, and sigma from the kernel's own tile
// program run with randomised rounding at exactly the contract's sites.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "judge/contract/contract.hpp"
#include "judge/verdict/judge.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/oracle.hpp"
#include "oracles/core/room.hpp"

namespace assay {

/// A form of a kernel, the contract that it keeps, and how it is run.
struct KernelUnderTest {
  const KernelForm* form = nullptr;
  Format precision = Format::bf16;
  int tile = 0;
  int threads = 1;
  const Contract* contract = nullptr;  ///< of that precision; null: the precision's own
  Policy policy() const;
};

/// How often a kernel is run to learn sigma, and for numbers that stand alone where that is too few:
/// docs/judge-derivation.md, "Sixteen draws are few: pooling".
constexpr int few_draws = 4, default_draws = 16, draws_of_numbers = 64;

/// The form whose spread says how far `form` may be off: itself, or the first of its room if it is unstable.
const KernelForm& measure_of(const KernelRoom& kernels, const KernelForm& form);

/// Expectations of every tensor that the kernel answers, and its answer under the contract's own rounding. A tensor of
/// which the oracle knows nothing, or of another shape, throws InputError.
struct Expectation {
  Named<Expected> tensors;
  Named<std::vector<double>> emulated;
};
/// `rate` is the share of this kernel in the run's rate of false alarms.
Expectation expect(const Oracle& oracle, const KernelUnderTest& kernel, const Problem& problem, int draws,
                   double rate = false_alarm_rate);

/// The same without the rounding of what leaves, which is known without drawing it. fp64's own is left where it is:
/// arrays are doubles anyhow.
Policy unstored(Policy policy);

/// A kernel's answers to a problem: as its contract rounds, with no rounding, and with randomised rounding.
struct KernelRuns {
  Named<Array> emulated, exact;
  std::vector<Named<Array>> drawn;
  /// More draws, of tensors of one element alone; the others are empty.
  std::vector<Named<Array>> numbers;
  std::vector<Named<Array>> witnesses;  ///< of other kernels that keep the contract
};
/// Runs the kernel until there are so many draws. The first ones do not depend on how many there are, and what `runs`
/// has already is not run again: its exact run may be that of the same form and tile under another contract.
void add_runs(KernelRuns& runs, const KernelUnderTest& kernel, const Problem& problem, int draws);
/// Runs the kernel until there are so many draws of tensors of one element.
void add_numbers(KernelRuns& runs, const KernelUnderTest& kernel, const Problem& problem, int draws);

/// Whether the oracle is not sharp enough for what is expected of some tensor that `wanted` holds (all of them if it is
/// null).
bool asks_for_words(const Expectation& expectation, const std::function<bool(const std::string&)>& wanted = {});
/// Whether some tensor of one element is known so little that zero would pass.
bool asks_for_draws(const Expectation& expectation, const std::function<bool(const std::string&)>& wanted = {});

/// As above, from runs that were made before.
Expectation expect(const Oracle& oracle, const KernelUnderTest& kernel, const Problem& problem, const KernelRuns& runs,
                   double rate = false_alarm_rate);
/// As above, of the kernel in each of these tile shapes, from the runs of each.
std::vector<Expectation> expect(const Oracle& oracle, const KernelUnderTest& kernel, std::span<const int> tiles,
                                const Problem& problem, std::span<const KernelRuns> runs,
                                double rate = false_alarm_rate);

/// The narrowest format that the contract stores anything in and that holds every number of a kernel's own answer.
Format stored_by(const Policy& contract, const std::vector<double>& own);

/// Another kernel's answer, its tensors in the order of `expectation`. Throws std::runtime_error if one is missing or
/// has another shape.
Named<std::vector<double>> in_report_order(const Answer& answer, const Expectation& expectation);

}  // namespace assay
