#pragma once
// The mistakes in the papers and in their authors' code, each as programs: the printed formula, run as written, the
// corrected one, and the mechanism. docs/errata.md is printed from this list.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/identities/identities.hpp"

namespace assay::identities {

struct Erratum {
  std::string id;         ///< as in the specification: "E1", "G2"
  std::string place;      ///< "L(6)", "Alg 6 line 7"
  std::string printed;    ///< what it says
  std::string corrected;  ///< what it should say
  std::string quantity;   ///< what is off: "o", "dq"
  /// Both forms of the quantity, and what the reference says, on one seeded problem in 200 digits; the corrected form
  /// is empty where it is proven. Empty where the mistake has no numbers (a missing formula, a failing import).
  struct Values {
    Vector printed, corrected, reference;
  };
  std::function<Values()> values;
  /// That the corrected form is the reference, gradients included, where enclosures decide that.
  std::function<IdentityResult()> proof = {};
};

struct ErratumResult {
  /// Relative, Euclidean norm, against the reference; of what is proven the bound.
  double printed_error = 0, corrected_error = 0;
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

/// The errata of mechanisms/identities/json/NAME.json. Defined in tools/lab/identity_rows.cpp.
std::vector<Erratum> program_errata(std::string_view name);

/// docs/errata.md.
std::string errata_page();

}  // namespace assay::identities
