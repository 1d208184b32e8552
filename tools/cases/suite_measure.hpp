#pragma once
// Which cases a suite is made of: every candidate is tried with every fault, and the cases that together show most of
// them are taken, one after the other.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracles/core/room.hpp"
#include "tools/cases/suite_cases.hpp"

namespace assay {

/// The case itself, with heads of that many dimensions.
CaseSpec spec_of(const Room& room, const SuiteCandidate& candidate, int dims, Format precision, std::uint64_t seed);

/// Every shape and style, numbers that bf16 has not in every gate, and every setting of the room.
std::vector<SuiteCandidate> suite_candidates(const Room& room);

/// The effect of a fault on the answers to a case.
struct Seen {
  bool differs = false;      ///< some bit is not the healthy kernel's
  bool shown = false;        ///< `assay check` as it is does not pass it
  bool by_contract = false;  ///< nor does it with the contract of the precision
};

/// All candidates and all faults of a mechanism.
struct SuiteMatrix {
  std::vector<SuiteCandidate> candidates;  ///< those on which the healthy kernel passes
  std::vector<std::string> faults;         ///< blind spots first
  std::size_t blind_spots = 0;             ///< so many of them
  std::vector<std::vector<Seen>> seen;     ///< by candidate, then by fault
};

struct SuiteOptions {
  int dims = 16;  ///< of the heads
  Format precision = Format::bf16;
  std::uint64_t seed = 0;
  int threads = 0;  ///< 0: all cores; the results do not depend on it
  bool planted = true;
};
/// Throws InputError if the mechanism has no kernel.
SuiteMatrix measure_suite(const Room& room, const std::vector<SuiteCandidate>& candidates, const SuiteOptions& options,
                          const std::function<void(std::size_t total)>& done);

/// Indices of at most `count` candidates among `allowed`, first one of every length and of all that a suite must have:
/// each shows most that those before it do not; where nothing is left, what they show least often; then the smaller
/// one.
std::vector<std::size_t> choose_cases(const SuiteMatrix& matrix, const std::vector<std::size_t>& allowed,
                                      std::size_t count);

/// The entry of a mechanism in tools/cases/suites.json.
Suite suite_of(const Room& room, const SuiteMatrix& matrix);

}  // namespace assay
