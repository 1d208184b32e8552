#include "judge/sigma/terms.hpp"

#include <cmath>
#include <memory>

#include "judge/sigma/spread.hpp"
#include "reference/core/error.hpp"

namespace assay {

std::optional<Arrays> term_sizes(std::string_view room, const Problem& problem, Format accumulators, int threads) {
  const std::shared_ptr<const Room> known = find_room(room);
  if (known == nullptr) return std::nullopt;
  try {
    return known->term_sizes(problem, info(accumulators).mantissa_bits + 1, threads);
  } catch (const Refusal&) {
    return std::nullopt;
  }
}

double sigma_of_terms(double size, Format accumulators) {
  return size > 0 && std::isfinite(size) ? spacing(accumulators, size) * std::sqrt(2 / 12.0) : 0;
}

bool may_be_exact(const HiLo& x, double bound, Format accumulators) {
  const double size = std::fabs(x.hi);
  constexpr double least = 0x1p-960;  // what doubles lose below, sizes do not see
  if (!(size > least)) return true;
  const int bits = info(accumulators).mantissa_bits + 1;
  const double last = std::ldexp(1.0, std::ilogb(size) + 1 - bits);
  const double rest = std::fabs((x.hi - std::rint(x.hi / last) * last) + x.lo);
  // Terms of a unit are at least one unit and at most 2^bits together, and a rest beside them is at most
  // 2^-(bits + 2) of the unit. A thousandth is for the roundings of that rest.
  return !(rest > bound + 1.001 * std::ldexp(size, -bits - 2));
}

}  // namespace assay
