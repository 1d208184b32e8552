#pragma once
// Texts of draws on a GPU of NVIDIA: compiled at first use, a block of threads for each head, a stream for each draw.
#include <memory>
#include <string>

#include "language/answers/by_text.hpp"
#include "language/device/gpu.hpp"

namespace assay::language {

/// Null where there is no GPU, no driver or no compiler (libnvrtc); `why` is a clause that says which.
std::unique_ptr<TextExecutor> cuda_texts(KeptTexts kept, GpuNews news, std::string& why);

}  // namespace assay::language
