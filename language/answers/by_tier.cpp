#include "language/answers/by_tier.hpp"

#include <algorithm>
#include <cmath>

#include "language/answers/answer.hpp"
#include "language/answers/by_channels.hpp"
#include "language/answers/decimals.hpp"
#include "oracles/core/make_room.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

/// In as many words as it takes, up to four; nothing where these decide no comparison, or leave bounds that are too
/// wide: enclosures of any width do better. The bounds that W words leave say how many more will do.
template <class X>
std::optional<BasicAnswer<WordBall>> narrow_words(const Posed<X>& posed, bool gradients, WordEffort effort) {
  while (effort.words <= 4) {
    try {
      BasicAnswer<WordBall> found = detail::in_packs(posed, gradients, effort);
      const double ratio = assay::detail::widest(found);
      if (ratio <= word_target) return found;
      // A word more narrows everything by 2^-53 or so.
      effort.words += static_cast<int>(std::clamp(std::ceil(std::log2(ratio / word_target) / 53), 1.0, 3.0));
    } catch (const Undecided&) {
      effort.words += effort.words == 2 ? 2 : 1;  // nothing is left of them: one more would not do
    }
  }
  return std::nullopt;
}

}  // namespace

Decimals decimals(const Mechanism& mechanism, const BasicProblem<std::string>& problem, const DecimalOptions& options) {
  const Posed<std::string> posed(mechanism, problem);
  const bool gradients = posed.has_cotangents();
  if (!options.tier || *options.tier == Tier::ball) return detail::proven(posed, gradients, options.digits);
  if (const int words = words_of(*options.tier); words > 0) {
    const auto found = narrow_words(posed, gradients, {words, 1});
    return found ? assay::detail::word_decimals(*found, options.digits)
                 : detail::proven(posed, gradients, options.digits);
  }
  return assay::detail::with_scalar(*options.tier, [&]<class S>(const S&) {
    return assay::detail::printed(answer<S>(posed, gradients), options.digits);
  });
}

std::optional<BasicAnswer<Enclosed>> enclosed(const Mechanism& mechanism, const Problem& problem) {
  const Posed<double> posed(mechanism, problem);
  return detail::in_balls(posed, posed.has_cotangents(), 192, [](const BasicAnswer<Ball>& balls, bool last) {
    return assay::detail::narrow_pairs(balls, last);
  });
}

std::optional<BasicAnswer<Enclosed>> in_words(const Mechanism& mechanism, const Problem& problem,
                                              const WordEffort& effort) {
  const Posed<double> posed(mechanism, problem);
  const std::optional<ByChannels> apart = by_channels(mechanism, problem);
  auto found = apart ? narrow_words(Posed<double>(mechanism, apart->parts), posed.has_cotangents(), effort)
                     : narrow_words(posed, posed.has_cotangents(), effort);
  if (!found) return std::nullopt;
  if (apart) join_channels(mechanism, *apart, *found);
  return assay::detail::word_pairs(*found, effort.threads);
}

BasicAnswer<HiLo> values(const Mechanism& mechanism, const Problem& problem, Tier tier) {
  if (tier == Tier::ball || words_of(tier) > 0) {
    auto pairs = tier == Tier::ball ? std::nullopt : in_words(mechanism, problem, {words_of(tier), 1});
    if (!pairs) pairs = enclosed(mechanism, problem);
    require(pairs.has_value() || tier != Tier::ball, mechanism.program.name,
            ": no enclosure decides a comparison of equal numbers");
    if (!pairs) return values(mechanism, problem, Tier::mp100);
    return assay::detail::pairs_of(*pairs);
  }
  const Posed<double> posed(mechanism, problem);
  return assay::detail::with_scalar(
      tier, [&]<class S>(const S&) { return assay::detail::pairs_of(answer<S>(posed, posed.has_cotangents())); });
}

Answer shapes(const Mechanism& mechanism, const Problem& problem) {
  const Posed<double> posed(mechanism, problem);
  const Program& program = mechanism.asked(posed.has_cotangents());
  Answer answer;
  for (std::size_t r = 0; r < program.outputs.size(); ++r) {
    const Type& type = program.body->result_type(r);
    if (type.kind != Kind::real) continue;
    const detail::Place place = detail::place_of(posed, r, 0);
    const bool is_output = r < mechanism.program.outputs.size();
    (is_output ? answer.outputs : answer.gradients)[place.name].shape = place.shape(shape_of(type, posed.sizes()));
  }
  return answer;
}

Answer emulated(const Mechanism& mechanism, const Problem& problem) {
  const Posed<double> posed(mechanism, problem);
  return assay::detail::doubles_of(answer<Emulated>(posed, posed.has_cotangents()));
}

Arrays term_sizes(const Mechanism& mechanism, const Problem& problem, const HeldIn& numbers, int threads) {
  const Posed<double> posed(mechanism, problem);
  return reported_sizes(answer_in_sizes(posed, posed.has_cotangents(), numbers, threads));
}

BasicArrays<HiLo> slopes(const Mechanism& mechanism, const Problem& problem, const Arrays& tangent) {
  using D = Dual<Mp50>;
  const Posed<double> posed(mechanism, problem);
  return assay::detail::convert_arrays<HiLo>([](std::string_view, const D& x) { return assay::detail::hi_lo(x.slope); },
                                             slopes<D>(posed, tangent));
}

}  // namespace assay::language
