#include "oracles/identities/errata.hpp"

#include <fmt/format.h>

#include <cmath>

namespace assay::identities {
namespace {

/// A mistake is off by more than any rounding, the corrected form by less than any formula: the page's numbers lie
/// between 1e-7 and 10, two correct forms in 200 digits within 1e-150.
constexpr double visible = 1e-10, invisible = 1e-150;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) (out += c == '|' ? "\\" : "") += c;
  return out;
}

}  // namespace

ErratumResult measure(const Erratum& erratum) {
  if (!erratum.values) return {0, 0, false, true};
  const Erratum::Values v = erratum.values();
  IdentityResult corrected;
  if (erratum.proof) {
    corrected = erratum.proof();
  } else {
    corrected.error = static_cast<double>(relative_error(v.corrected, v.reference));
    corrected.passed = corrected.error <= invisible;
  }
  ErratumResult result{static_cast<double>(relative_error(v.printed, v.reference)), corrected.error, true, false};
  result.confirmed = norm(v.reference) > 0 && !(result.printed_error <= visible) && corrected.passed;
  return result;
}

const std::vector<ErrataChapter>& errata() {
  static const std::vector<ErrataChapter> all = {
      {"Local linear attention and Parallax",
       "lla-family.md, sections 13 and 15; L is the paper on local linear attention, P the one on Parallax",
       program_errata("lla_errata")},
      {"Momentum DeltaNet and its baselines", "delta-family.md, section 8", program_errata("delta_errata")},
      {"FALCON", "falcon-family.md, section 7", program_errata("falcon_errata")}};
  return all;
}

std::string errata_page() {
  std::string page =
      "<!-- written by `assay-lab docs`; edit mechanisms/identities instead -->\n\n# Errata of the sources\n\n"
      "Formulas of the papers and of their authors' code that do not compute what they should. Every row with a number "
      "has\n"
      "three programs, which `ctest -R Errata` compares: the printed form, run as it is written in 200 digits, misses "
      "the\n"
      "mechanism by the relative error given; the corrected one is proven to be the mechanism, gradients included. "
      "Where\n"
      "enclosures decide nothing, or no program has the options, it agrees to 150 digits.\n";
  for (const ErrataChapter& chapter : errata()) {
    page += fmt::format("\n## {}\n\nSource: {}.\n\n", chapter.title, chapter.source);
    page += "| id | place | printed | corrected | off | error as printed |\n| --- | --- | --- | --- | --- | --- |\n";
    for (const Erratum& e : chapter.errata) {
      const ErratumResult r = measure(e);
      page += fmt::format("| {} | {} | {} | {} | {} | {} |\n", e.id, escaped(e.place), escaped(e.printed),
                          escaped(e.corrected), e.quantity,
                          !r.has_numbers                   ? "-"
                          : std::isfinite(r.printed_error) ? fmt::format("{:.2g}", r.printed_error)
                                                           : "not finite");
    }
  }
  return page;
}

}  // namespace assay::identities
