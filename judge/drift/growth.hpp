#pragma once
// How an error grows along a sequence: laws fitted to it, and how far one can be told from another.
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace assay {

/// e(t)^2 = floor^2 + rise^2 g(t / time): what every token adds by itself, and what is carried along.
enum class Law {
  bounded,            ///< g = 0
  root,               ///< g = t: roundings of either sign, and nothing is forgotten
  saturating_root,    ///< g = 1 - exp(-t): the same where errors are forgotten, in so much time
  linear,             ///< g = t^2: roundings that lean to one side
  saturating_linear,  ///< g = (1 - exp(-t))^2: the same where errors are forgotten
  exponential,        ///< g = exp(2 t): what carries errors on amplifies them
};
inline constexpr Law all_laws[] = {Law::bounded,           Law::root,       Law::saturating_root, Law::linear,
                                   Law::saturating_linear, Law::exponential};
/// "bounded", "sqrt(t)", "saturating sqrt(t)", "t", "saturating t", "exp(t)".
std::string_view name_of(Law law);
constexpr bool has_time(Law law) {
  return law == Law::saturating_root || law == Law::saturating_linear || law == Law::exponential;
}
/// Its formula in floor, rise and time.
std::string_view formula_of(Law law);

/// An error measured around a token.
struct GrowthPoint {
  double tokens = 0, error = 0;
};

/// A law with its constants.
struct Growth {
  Law law = Law::bounded;
  double floor = 0, rise = 0;
  double time = 1;         ///< in tokens; 1 where the law has none of its own
  double scatter = 0;      ///< root mean square of what the points' natural logarithms differ by from its own
  double probability = 0;  ///< against the other laws, all equally likely before

  double at(double tokens) const;
};

/// A law that is this probable is not ruled out.
inline constexpr double fair_probability = 0.05;

/// The facts about an error besides its points.
struct GrowthFacts {
  /// Root mean square of what logarithms of points are off by because others could have been measured as well. Laws
  /// whose scatter is no larger are equally near.
  double spread = 1e-3;
  /// Tokens in which the recurrence forgets all but 1/e of a perturbation's square: infinite where it forgets nothing,
  /// negative where it amplifies.
  std::optional<double> memory;
  /// Up to where laws are to hold; 0: up to the last point.
  double horizon = 0;
};

/// All laws, the most probable first.
struct GrowthFit {
  std::vector<Growth> laws;
  /// Laws that are not ruled out, with constants that are fair_probability times as likely as their best ones or more;
  /// empty where the horizon is the last point.
  std::vector<Growth> open;

  const Growth& best() const { return laws.front(); }
  /// The smallest and the largest error at `tokens` of what is open.
  double low(double tokens) const;
  double high(double tokens) const;
};

/// The least any fit takes.
inline constexpr std::size_t fewest_growth_points = 6;

/// Least squares of the logarithms, in two models of what is left: independent from point to point, or that of a walk,
/// whose squared distances from the start at s < t correlate like s / t. Each law has the constants of the likelier
/// one; probabilities are from the Bayesian information criterion (Schwarz 1978) of both. Points whose error is 0 or
/// not finite are left out; nothing where fewer than fewest_growth_points are left. A memory longer than a third of the
/// points gives the time of what saturates; a law that contradicts it has to be a thousand times as likely as another.
/// Bits do not depend on libm.
std::optional<GrowthFit> fit_growth(std::span<const GrowthPoint> points, const GrowthFacts& facts = {});

}  // namespace assay
