#pragma once
// The cases of `assay suite`: of every mechanism with kernels the eight that together show most, as they were measured.
#include <string>
#include <string_view>
#include <vector>

#include "judge/court/seeded_case.hpp"

namespace assay {

inline constexpr int suite_size = 8;

/// A case, but for head dimension, precision and seed.
struct SuiteCandidate {
  std::string shape;  ///< B,T,H as `assay case` takes them, and ",odd" where keys and values differ
  Style style = Style::normal;
  Params params = {};
  Fill fill = {};
  bool must = false;                                                       ///< a suite has one of its style and params
  std::string flags() const { return flags_of(fill) + flags_of(params); }  ///< " --fill beta=0.99", or ""
  /// Its extents with heads of `dims`; of an odd one keys have one less, values half of them and one.
  Shape extents(int dims) const;
};

struct SuiteCase {
  SuiteCandidate inputs;
  int shows = 0, by_contract = 0;  ///< faults, with `assay check` as it is and with the contract of the precision
};

/// Something that data of every day hide.
struct SuiteBlindSpot {
  std::string name;                ///< "beta in bf16"
  int shown = 0, by_contract = 0;  ///< the first case that shows it, from 1; 0: none does
};

struct Suite {
  std::string mechanism;
  int faults = 0;                  ///< that show in a bit of some candidate
  int shown = 0, by_contract = 0;  ///< of them, those that one of the cases shows
  std::vector<SuiteCase> cases;    ///< of the mechanism without settings, the one that shows most first
  std::vector<SuiteBlindSpot> blind_spots;
  std::vector<std::string> unseen;       ///< faults that no case shows by a contract
  std::vector<SuiteCase> with_settings;  ///< chosen from cases with settings, too; empty where there are none
  int shown_with_settings = 0;           ///< of `faults`
};

/// tools/cases/suites.json, in the order of the registry.
const std::vector<Suite>& suites();
/// The suite of that mechanism, or null.
const Suite* find_suite(std::string_view mechanism);
/// The text of such a file, a mechanism a line.
std::string json_of(const std::vector<Suite>& suites);

}  // namespace assay
