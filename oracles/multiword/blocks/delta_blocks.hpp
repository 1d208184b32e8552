#pragma once
// A slab run as blocks of threads take it: one array up, one array back.
#include <cstddef>
#include <vector>

#include "oracles/multiword/blocks/delta_arguments.hpp"
#include "oracles/multiword/slab_executor.hpp"

namespace assay::words {

class BlocksRun {
 public:
  explicit BlocksRun(const SlabRun& run);

  std::size_t blocks() const { return blocks_; }
  const std::vector<double>& up() const { return up_; }
  std::size_t work() const { return work_; }  ///< numbers
  std::size_t down() const { return down_; }
  /// Where these arrays are.
  DeltaBlocks arguments(const double* up, double* work, double* down) const;
  /// Puts what came back in its places.
  void take(const std::vector<double>& down, SlabRun& run) const;

 private:
  std::size_t put(const double* first, std::size_t count);

  DeltaBlocks all_{};  ///< addresses in it count from 0
  std::vector<double> up_;
  std::size_t words_, blocks_, work_, down_ = 0;
  std::vector<std::size_t> up_at_;
};

/// Bytes that a run of that size takes elsewhere.
double bytes_of_blocks(std::size_t steps, std::size_t keys, std::size_t values, int words, bool backward);

}  // namespace assay::words
