#pragma once
// Tile programs with arguments on the device.
#include "kernels/cuda/gpu.hpp"

namespace assay {

namespace gpu {
extern const GpuRoom softmax_attention_with_arguments, parallax_with_arguments;
}

/// Their rooms. Problems are those of kernels/arguments/rooms.hpp.
inline constexpr const GpuRoom* gpu_argument_rooms[] = {&gpu::softmax_attention_with_arguments,
                                                        &gpu::parallax_with_arguments};

}  // namespace assay
