#pragma once
// Which contract a kernel keeps, read off its answers: the fewest sites whose coarser rounding explains them.
// docs/contracts.md, "Inferring a contract", says what that takes.
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "oracles/core/expected.hpp"

namespace assay {

/// A problem, and what somebody's kernel answered to it.
struct AnsweredCase {
  const Problem& problem;
  const Oracle& oracle;
  Arrays got;                                 ///< by the names of a report; what is missing is not judged
  std::map<std::string, Format> stored = {};  ///< their dtypes, as far as they are known
};

/// What is coarser than in the contract of the precision, and why nothing is where nothing explains the answers.
struct InferredContract {
  bool explained = false;
  Contract contract;     ///< that of the precision, with a rule for each of the sites
  std::string fitted;    ///< on what it was fitted: "even heads", "cases 1, 3"
  std::string obstacle;  ///< one sentence, where nothing explains them
  int tried = 0;         ///< sets of sites that were compared with all that was fitted
};

/// The most sites, or groups, that an explanation may name.
inline constexpr int inferred_sites = 3;

/// The smallest set of sites of `kernel` which, rounded more coarsely, makes the answers what a kernel of that contract
/// gives: none of the judge's limits is exceeded, and what is allowed is used, for whoever allows everything explains
/// nothing. Sets are fitted to half of what was answered (every other case, head, block of 16 tokens or element) and
/// confirmed on all. Nothing more is tried once `stop` says so.
InferredContract infer_contract(std::span<const AnsweredCase> cases, const KernelUnderTest& kernel,
                                const std::function<bool()>& stop = {});

/// As JSON, to be read by parse_contract.
std::string json_of(const InferredContract& inferred, const std::string& name);

}  // namespace assay
