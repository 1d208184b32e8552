#pragma once
// The cases of `assay suite`: of every mechanism with kernels the eight that together show most, as they were measured.
#include <span>
#include <string_view>
#include <vector>

namespace assay {

inline constexpr int suite_size = 8;

/// One case, but for head dimension, precision and seed.
struct SuiteCase {
  std::string_view shape;          ///< B,T,H as `assay case` takes them
  std::string_view style;          ///< of its inputs
  std::string_view params;         ///< " --param window=5", or ""
  std::string_view fill;           ///< " --fill beta=0.99", or ""
  int shows = 0, by_contract = 0;  ///< faults, with `assay check` as it is and with the contract of the precision
};

/// Something that data of every day hide.
struct SuiteBlindSpot {
  std::string_view name;           ///< "beta in bf16"
  int shown = 0, by_contract = 0;  ///< the first case that shows it, from 1; 0: none does
};

struct Suite {
  std::string_view mechanism;
  int faults = 0;                  ///< that show in a bit of some candidate
  int shown = 0, by_contract = 0;  ///< of them, those that one of the cases shows
  std::vector<SuiteCase> cases;    ///< of the mechanism without settings, the one that shows most first
  std::vector<SuiteBlindSpot> blind_spots;
  std::string_view unseen;               ///< faults that no case shows by a contract
  std::vector<SuiteCase> with_settings;  ///< chosen from cases with settings, too; empty where there are none
  int shown_with_settings = 0;           ///< of `faults`
};

/// As `assay suite --measure` has written them down, in the order of the registry.
std::span<const Suite> suites();
/// Of that mechanism, or null.
const Suite* find_suite(std::string_view mechanism);

}  // namespace assay
