#pragma once
// Runners of kernels beside the CPU executor.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// Kernels of the same rooms, forms and tile programs as the CPU executor's. Every function takes a room's name.
struct Device {
  std::string name, versions;  ///< "NVIDIA H200"; "driver 13.0, runtime 13.0"
  std::vector<Format> precisions;
  /// Why it cannot run that problem, or "".
  std::function<std::string(std::string_view room, const KernelForm&, const Problem&, Format)> obstacle;
  /// The tile shape of the KernelForm that does the same arithmetic.
  std::function<int(std::string_view room, const KernelForm&, const Problem&, Format)> tile;
  /// Outputs and gradients of a problem without obstacle. May be called by several threads.
  std::function<Answer(std::string_view room, const KernelForm&, const Problem&, Format)> run;
};

/// The GPU of this machine, or null.
const Device* gpu();
/// Why gpu() is null, as a clause; "" where it is not.
std::string why_no_gpu();

/// Where judges run the draws that they learn sigma from, and the truth of rooms that have slabs: "cpu", "gpu", or
/// "auto", which is the GPU if there is one and the problem is worth its start. Bits do not depend on it. Throws
/// InputError where a GPU is asked for and there is none.
void judge_on(std::string_view where);

}  // namespace assay
