#pragma once
// Which contract a kernel keeps, read off its answers: the fewest sites whose coarser rounding predicts their errors.
// docs/contracts.md, "Inferring a contract", says what that takes.
#include <functional>
#include <map>
#include <span>
#include <string>

#include "judge/sigma/expected.hpp"

namespace assay {

/// A problem, and a kernel's answer to it.
struct AnsweredCase {
  const Problem& problem;
  const Oracle& oracle;
  Arrays got;                                 ///< by the names of a report; what is missing is not judged
  std::map<std::string, Format> stored = {};  ///< their dtypes, as far as they are known
};

/// The sites that are coarser than in the precision's contract, or why none is where nothing explains the answers.
struct InferredContract {
  bool explained = false;
  Contract contract = {};         ///< that of the precision, with a rule for each of the sites
  std::string fitted = {};        ///< on what it was fitted: "every other head, ..."
  std::string obstacle = {};      ///< one sentence, where nothing explains them
  std::string narrow_state = {};  ///< "S in bf16", where that predicts them, and is a promise that a user must have
  double predicted =
      0;  ///< share of the squared error beyond the precision's, on what was not fitted, of a run with those sites
};

/// The most sites, or groups, that an explanation may name.
inline constexpr int inferred_sites = 3;

/// The smallest set of sites of `kernel` which, rounded more coarsely, makes the answers what a kernel of that contract
/// gives. It must predict: a run that rounds there has most of the very errors that were answered, number by number, on
/// what it was not fitted to, too. None of the judge's limits is exceeded under it, and the model does not fail.
/// A set that only allows more explains nothing. Nothing more is tried once `stop` says so.
InferredContract infer_contract(std::span<const AnsweredCase> cases, const KernelUnderTest& kernel,
                                const std::function<bool()>& stop = {});

/// The rules of a contract that was inferred: "vbar in bf16, operands in tf32 (cut off)"; "" where there are none.
std::string words_of(const Contract& contract);

/// As JSON, to be read by parse_contract.
std::string json_of(const InferredContract& inferred, const std::string& name);

}  // namespace assay
