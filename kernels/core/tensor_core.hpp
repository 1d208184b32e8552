#pragma once
// How Hopper's tensor cores add products of narrow factors to an fp32 accumulator (arXiv 2512.07004): the products of a
// block are exact; they and the accumulator are cut off, towards zero, some bits below the last place that fp32 would
// have at the largest exponent among them, the exponent of a product being the sum of its factors'; the sum of what is
// left is exact, and is cut off to fp32, towards zero. proptests/core/tensor_core_cuda.cu compares mma.sync with it,
// but for factors that are subnormal, which are taken to have the least exponent, and for sums beyond fp32.
#include "reference/core/format.hpp"

namespace assay::tile {

struct TensorCore {
  int extra_bits = 2;       ///< below fp32's last place
  bool normalized = false;  ///< a product has the exponent of its value

  /// Whether its instructions have factors in that format.
  bool takes(Format factors) const {
    return factors == Format::bf16 || factors == Format::fp16 || factors == Format::tf32;
  }
  /// c[j] += sum_{k < depth} a[k] b[k * cols + j], one block; c is on fp32's grid, a and b are on that of `factors`.
  void multiply_add(double* c, const double* a, const double* b, int depth, int cols, Format factors) const;
};

/// While one lives, the CPU executor sums products of narrow factors as that tensor core does. For comparisons with a
/// device: contracts and the judge do not know it, and it does not round at random. One at a time, and no kernel may be
/// running when it comes or goes.
class TensorCoreEmulation {
 public:
  explicit TensorCoreEmulation(const TensorCore& core) { current_ = &core; }
  ~TensorCoreEmulation() { current_ = nullptr; }
  TensorCoreEmulation(const TensorCoreEmulation&) = delete;
  TensorCoreEmulation& operator=(const TensorCoreEmulation&) = delete;
  static const TensorCore* current() { return current_; }

 private:
  static inline const TensorCore* current_ = nullptr;
};

}  // namespace assay::tile
