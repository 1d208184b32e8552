#pragma once
// Tensors that are on the GPU already, and results that stay there.
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reference/core/format.hpp"

namespace assay {

/// A tensor on the GPU: dense, in the order of a problem's axes, or with heads beside one another.
struct GpuTensor {
  void* data;
  Format format;
  std::size_t count;  ///< of its numbers
  int beside = 1;     ///< heads, as H in torch's [B, T, H, K]; one in [B, H, T, K]
};
using GpuTensors = std::map<std::string, GpuTensor, std::less<>>;

/// What a plan's request for memory got.
struct GpuMemory {
  std::shared_ptr<double> at;
  std::size_t request;  ///< the first is 0
  int beside = 1;       ///< heads of the array that it is for
};

/// Memory of a forward pass, in the order in which its plan asks for it: in the backward pass the same plan asks again.
struct ForwardMemory {
  std::vector<GpuMemory> arrays;
};

/// A result: which of a plan's requests for memory is its own, and what it got.
struct KeptTensor {
  GpuTensor tensor;
  std::size_t request;
};
/// The requests whose arrays end as results, by name ("o", "d_q").
using ResultRequests = std::map<std::string, std::size_t, std::less<>>;

}  // namespace assay
