#pragma once
// Numbers that a kernel holds, as far as the sizes of terms ask (oracles/scalars/sized.hpp).

namespace assay {

/// Significands of so many bits, and the smallest normal number, if what operands lose below it is asked for; else 0.
struct HeldIn {
  int bits;
  double smallest_normal = 0;
};

}  // namespace assay
