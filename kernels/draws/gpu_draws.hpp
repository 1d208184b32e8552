#pragma once
// Draws of tile programs on a GPU of NVIDIA: kernels/draws/on_device.hpp, compiled at first use, a stream for each
// draw.
#include <memory>
#include <string>

#include "kernels/draws/drawn.hpp"
#include "language/device/gpu.hpp"

namespace assay {

/// Of inputs and cotangents.
std::size_t numbers_of(const Problem& problem);

/// Null where there is no GPU, no driver or no compiler (libnvrtc); `why` is a clause that says which.
std::unique_ptr<DrawExecutor> gpu_draws(language::KeptTexts kept, language::GpuNews news, std::string& why);

}  // namespace assay
