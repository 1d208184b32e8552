#pragma once
// The mistakes in the papers and in their authors' code, each as a computation: the printed formula, run as written,
// against the corrected one. docs/errata.md is printed from this list.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/identities/exact_problem.hpp"

namespace assay::identities {

struct Erratum {
  std::string_view id;         ///< as in the specification: "E1", "G2"
  std::string_view place;      ///< "L(6)", "Alg 6 line 7"
  std::string_view printed;    ///< what it says
  std::string_view corrected;  ///< what it should say
  std::string_view quantity;   ///< what is off: "o", "dq"
  /// Both forms of the quantity, and what the reference says, on one seeded problem in 200 digits. Empty where the
  /// mistake has no numbers (a missing formula, a failing import).
  struct Values {
    Vector printed, corrected, reference;
  };
  std::function<Values()> values;
};

struct ErratumResult {
  double printed_error = 0, corrected_error = 0;  ///< relative, Euclidean norm, against the reference
  bool has_numbers = false;
  /// The corrected form is the reference and the printed one is not.
  bool confirmed = false;
};
ErratumResult measure(const Erratum& erratum);

struct ErrataChapter {
  std::string_view title;   ///< "Local linear attention and Parallax"
  std::string_view source;  ///< "lla-family.md, section 13"
  std::vector<Erratum> errata;
};
const std::vector<ErrataChapter>& errata();

/// Chapters that errata() puts together with those of programs.
ErrataChapter lla_errata();
ErrataChapter delta_errata();
/// The errata of mechanisms/identities/json/NAME.json. Defined in tools/lab/identity_rows.cpp.
std::vector<Erratum> program_errata(std::string_view name);

/// docs/errata.md.
std::string errata_page();

}  // namespace assay::identities
