#pragma once
// Texts of draws on a GPU of NVIDIA: compiled at first use, a block of threads for each head, a stream for each draw.
#include <functional>
#include <memory>
#include <string>

#include "language/answers/by_text.hpp"
#include "language/device/gpu.hpp"

namespace assay::language {

/// Told what takes time, of programs that the evaluator draws, since the GPU does not take them, and of the first
/// failure, after which it draws all.
struct TextNews {
  std::function<void(const std::string& program)> compiles;
  std::function<void(const std::string& program, const std::string& why)> refuses;
  std::function<void(const std::string& why)> fails;
};

/// Null where there is no GPU, no driver or no compiler (libnvrtc); `why` is a clause that says which.
std::unique_ptr<TextExecutor> cuda_texts(KeptTexts kept, TextNews news, std::string& why);

}  // namespace assay::language
