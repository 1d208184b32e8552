#include "oracles/words/certified.hpp"

#include <cmath>
#include <limits>

namespace assay::words {

Certified::Certified(int w, std::size_t r, std::size_t c) : words(w), rows(r), columns(c), bound(r * c) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(w); ++i) word[i].resize(r * c);
}

void Certified::settle() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < bound.size(); ++i) {
    bool finite = bound[i] < infinity;
    for (std::size_t w = 0; w < static_cast<std::size_t>(words); ++w) finite = finite && std::isfinite(word[w][i]);
    if (!finite) bound[i] = infinity;
  }
}

}  // namespace assay::words
