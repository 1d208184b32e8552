#include "oracles/multiword/certified.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay::words {

Certified::Certified(int w, std::size_t r, std::size_t c) : words(w), rows(r), columns(c), bound(r * c) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(w); ++i) word[i].resize(r * c);
}

bool Certified::meets(std::size_t row, double target) const {
  double largest = 0;
  for (std::size_t c = 0; c < columns; ++c) largest = std::max(largest, std::fabs(word[0][row * columns + c]));
  return bound[row * columns] <= target * largest;
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
