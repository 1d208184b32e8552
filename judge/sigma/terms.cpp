#include "judge/sigma/terms.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "judge/sigma/spread.hpp"
#include "reference/core/error.hpp"

namespace assay {

namespace sequential {
#define MECHANISM(name) Arrays terms_of_##name(const Problem& problem, int bits, int threads);
#include "mechanisms.def"
#undef MECHANISM
}  // namespace sequential

std::optional<Arrays> term_sizes(std::string_view room, const Problem& problem, Format accumulators, int threads) {
  struct Entry {
    std::string_view room;
    Arrays (*terms)(const Problem& problem, int bits, int threads);
  };
#define MECHANISM(name) {#name, sequential::terms_of_##name},
  static constexpr Entry all[] = {
#include "mechanisms.def"
  };
#undef MECHANISM
  const auto* const it = std::find_if(std::begin(all), std::end(all), [&](const Entry& e) { return e.room == room; });
  if (it == std::end(all)) return std::nullopt;
  try {
    return it->terms(problem, info(accumulators).mantissa_bits + 1, threads);
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
