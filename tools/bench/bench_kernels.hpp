#pragma once
// The cost of the CPU emulation of every kernel form, beside the same program without rounding and the oracle.
#include <string>
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"

namespace assay {

struct KernelCost {
  std::string mechanism, form, precision, shape;
  double seconds = 0;     ///< processor time per query and head, outputs and, where the form has them, gradients
  double per_exact = 0;   ///< of the same program with no site rounded
  double per_oracle = 0;  ///< of the oracle's answer with its bounds
};

/// Two heads, one block of keys and values where heads share them; forms that take few queries get four. Empty if the
/// form cannot run that.
std::vector<KernelCost> bench_kernel(const Room& room, const KernelForm& form, const std::vector<Format>& precisions,
                                     int tokens, int dim);

}  // namespace assay
