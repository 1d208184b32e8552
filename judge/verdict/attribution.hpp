#pragma once
// Why a tensor is off: what each rounding site makes of its error, and which site rounded more coarsely, or which known
// fault, makes an error like the one that was seen. docs/judge-derivation.md derives both.
#include <functional>
#include <string>
#include <vector>

#include "judge/sigma/expected.hpp"

namespace assay {

/// The share of a site's roundings in a tensor's expected squared error.
struct SiteShare {
  std::string site;
  Format format = Format::exact;
  Blocks blocks = {};
  double share = 0;
};
struct Contributions {
  std::vector<SiteShare> sites;  ///< largest first; those without any are left out
  double sum = 0;                ///< of their shares: 1 where the errors of different sites are uncorrelated
};

/// The contributions to every tensor that the kernel answers: each site alone rounds, as the contract says, all others
/// are exact; against all of them at once. Randomised rounding, the mean of `draws` runs. Where sites do the same thing
/// twice (they round one after the other to one grid), they share it.
Named<Contributions> contributions_of(const KernelUnderTest& kernel, const Problem& problem, int draws);

/// One way in which a kernel can be wrong, and how well it explains what was answered.
struct Explanation {
  enum class Kind { site, form, fault } kind = Kind::site;
  std::string name;  ///< of the site, the form or the fault
  std::string
      what;  ///< "the state (S) in bf16"; "form log_domain: its weights cancel"; "scale_forgotten: o not scaled"
  double evidence = 0;      ///< log likelihood, against that of a correct kernel
  double explained = 0;     ///< share of the squared error, in units of sigma
  bool sufficient = false;  ///< whether a kernel with this fault could have answered so: no tensor is further off
};

/// Explanations whose evidence differs by less, a likelihood ratio of 1000, the data do not tell apart.
inline constexpr double telling = 6.9;
/// The share of what is seen that a cause must predict to be told where a wide spread would allow much more, and before
/// a contract that allows it.
inline constexpr double predicted = 0.99;

/// Explanations of what was answered, the best first: the sufficient ones, by their evidence; of those that the data do
/// not tell from the best, by kind and name.
struct Explanations {
  std::vector<Explanation> list;

  /// Whether the first one is a reason.
  bool known() const { return !list.empty() && list.front().sufficient; }
};

/// Explains `got`, in the order of `expectation`, by each site in each narrower format, by each form of the room that
/// is published and unstable, and by each fault that its form has to plant, all at each of the form's tile shapes. An
/// unstable form that answers fewer tensors explains nothing. Faults take problems of 16 dimensions at most; of larger
/// ones, they explain nothing. Nothing more is tried once `stop` says so.
Explanations explain(const Expectation& expectation, const Named<std::vector<double>>& got,
                     const KernelUnderTest& kernel, const Problem& problem, const std::function<bool()>& stop = {});

}  // namespace assay
