#pragma once
// Draws of tile programs on a GPU of NVIDIA: kernels/draws/on_device.hpp, compiled at first use, a stream for each
// draw.
#include <functional>
#include <memory>
#include <string>

#include "kernels/draws/drawn.hpp"
#include "language/device/gpu.hpp"

namespace assay {

/// Told what takes time, of forms that the GPU does not take, and of the first failure, after which the CPU draws all.
struct TileNews {
  std::function<void(const std::string& form, std::size_t programs)> compiles;
  std::function<void(const std::string& form, const std::string& why)> refuses;
  std::function<void(const std::string& why)> fails;
};

/// Of inputs and cotangents.
std::size_t numbers_of(const Problem& problem);

/// Null where there is no GPU, no driver or no compiler (libnvrtc); `why` is
/// a clause that says which.
std::unique_ptr<DrawExecutor> gpu_draws(language::KeptTexts kept, TileNews news, std::string& why);

}  // namespace assay
