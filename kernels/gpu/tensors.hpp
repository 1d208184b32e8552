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

/// A tensor on the GPU: dense, in the order of a problem's axes.
struct GpuTensor {
  void* data;
  Format format;
  std::size_t count;  ///< of its numbers
};
using GpuTensors = std::map<std::string, GpuTensor, std::less<>>;

/// Memory of a forward pass, in the order in which its plan asks for it: in the backward pass the same plan asks again.
struct ForwardMemory {
  std::vector<std::shared_ptr<double>> arrays;
};

/// A result, and the memory that it is in.
struct KeptTensor {
  GpuTensor tensor;
  std::shared_ptr<double> memory;
};

}  // namespace assay
