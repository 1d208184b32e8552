#include "judge/sigma/terms.hpp"

#include <cmath>
#include <memory>

#include "judge/sigma/spread.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

std::optional<Arrays> sizes_in(std::string_view room, const Problem& problem, const HeldIn& numbers, int threads) {
  const std::shared_ptr<const Room> known = find_room(room);
  if (known == nullptr) return std::nullopt;
  try {
    return known->term_sizes(problem, numbers, threads);
  } catch (const Refusal&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<Arrays> term_sizes(std::string_view room, const Problem& problem, Format accumulators, int threads) {
  return sizes_in(room, problem, {info(accumulators).mantissa_bits + 1}, threads);
}

std::optional<Arrays> sizes_below_normal(std::string_view room, const Problem& problem, Format operands, int threads) {
  const FormatInfo format = info(operands);
  return sizes_in(room, problem, {format.mantissa_bits + 1, std::ldexp(1.0, format.min_exponent)}, threads);
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
