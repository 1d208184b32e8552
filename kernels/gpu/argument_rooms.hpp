#pragma once
// Tile programs with arguments on the device.
#include "kernels/gpu/gpu.hpp"

namespace assay {

namespace on_gpu {
extern const GpuRoom softmax_attention_with_arguments, parallax_with_arguments, deltanet_with_arguments,
    gated_deltanet_with_arguments, comba_with_arguments, linear_attention_with_arguments, retnet_with_arguments,
    mamba2_with_arguments, gla_with_arguments, kda_with_arguments;
}

/// Their rooms. Problems are those of kernels/arguments/rooms.hpp.
inline constexpr const GpuRoom* gpu_argument_rooms[] = {&on_gpu::softmax_attention_with_arguments,
                                                        &on_gpu::parallax_with_arguments,
                                                        &on_gpu::deltanet_with_arguments,
                                                        &on_gpu::gated_deltanet_with_arguments,
                                                        &on_gpu::comba_with_arguments,
                                                        &on_gpu::linear_attention_with_arguments,
                                                        &on_gpu::retnet_with_arguments,
                                                        &on_gpu::mamba2_with_arguments,
                                                        &on_gpu::gla_with_arguments,
                                                        &on_gpu::kda_with_arguments};

}  // namespace assay
