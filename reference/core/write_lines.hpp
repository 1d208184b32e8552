#pragma once
// What a step of the FALCON rooms writes, as a line of numbers.
#include <type_traits>

#include "reference/core/falcon.hpp"
#include "reference/core/lines.hpp"

namespace assay {
inline namespace ASSAY_REFERENCES {

/// x_t of a row that writes, or its gradient.
template <class In>
auto features(const WriteOptions& options, In& in, int t) {
  using X = std::remove_reference_t<decltype(write_feature(options, in, t, 0))>;
  return Line<X>{&write_feature(options, in, t, 0), 1, in.k.size(1)};
}

}  // namespace ASSAY_REFERENCES
}  // namespace assay
