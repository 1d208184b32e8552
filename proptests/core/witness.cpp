#include "proptests/core/witness.hpp"

#include <algorithm>
#include <iterator>

#include "reference/core/error.hpp"

namespace assay {

namespace reference_witnesses {
#define MECHANISM(name) extern const Witness name;
#define REFERENCE(name) extern const Witness name;
#include "mechanisms.def"
#undef MECHANISM
}  // namespace reference_witnesses

const Witness& witness_of(std::string_view room) {
#define MECHANISM(name) &reference_witnesses::name,
#define REFERENCE(name) &reference_witnesses::name,
  static constexpr const Witness* all[] = {
#include "mechanisms.def"
  };
#undef MECHANISM
  const auto* const it =
      std::find_if(std::begin(all), std::end(all), [&](const Witness* one) { return one->name == room; });
  require(it != std::end(all), room, ": no such room");
  return **it;
}

}  // namespace assay
