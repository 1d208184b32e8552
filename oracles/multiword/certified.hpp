#pragma once
// Arguments and results of the engines.
#include <array>
#include <cstddef>
#include <vector>

#include "oracles/multiword/lanes/kernels.hpp"

namespace assay::words {

/// How an engine runs. The answer depends on `words` alone: every instruction set and thread count gives the same bits.
struct Effort {
  int words = 2;  ///< 2, 3 or 4: about 106, 159 or 212 bits
  int threads = 1;
  Isa isa = best_isa();
};

/// A matrix whose entries are sums of `words` doubles, each at most `bound` away from the exact answer for the inputs
/// as given. A bound of infinity says that nothing is known (overflow, or no proof).
struct Certified {
  int words = 0;
  std::size_t rows = 0, columns = 0;
  std::array<std::vector<double>, 4> word;
  std::vector<double> bound;

  Certified() = default;
  Certified(int w, std::size_t r, std::size_t c);

  /// Whether the bound of a row's first entry is at most target * the largest entry of the row.
  bool meets(std::size_t row, double target) const;
  /// Bounds of entries that overflowed, and NaN bounds, become infinity.
  void settle();
};

}  // namespace assay::words
