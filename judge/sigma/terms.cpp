#include "judge/sigma/terms.hpp"

#include <algorithm>
#include <iterator>

#include "reference/core/error.hpp"

namespace assay {

namespace sequential {
#define MECHANISM(name) Arrays terms_of_##name(const Problem& problem, int bits);
#include "mechanisms.def"
#undef MECHANISM
}  // namespace sequential

std::optional<Arrays> term_sizes(std::string_view room, const Problem& problem, Format accumulators) {
  struct Entry {
    std::string_view room;
    Arrays (*terms)(const Problem& problem, int bits);
  };
#define MECHANISM(name) {#name, sequential::terms_of_##name},
  static constexpr Entry all[] = {
#include "mechanisms.def"
  };
#undef MECHANISM
  const auto* const it = std::find_if(std::begin(all), std::end(all), [&](const Entry& e) { return e.room == room; });
  if (it == std::end(all)) return std::nullopt;
  try {
    return it->terms(problem, info(accumulators).mantissa_bits + 1);
  } catch (const Refusal&) {
    return std::nullopt;
  }
}

}  // namespace assay
