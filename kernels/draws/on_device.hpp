#pragma once
// The text that a device's compiler is given for a launch of draws, followed by one line of ASSAY_TILE_PROGRAM or
// ASSAY_EACH (kernels/draws/gpu_draws.cpp): DrawBlock, all tile programs, and how they start. A host's compiler
// makes the same code for blocks of one thread.
#define ASSAY_DEVICE_CODE
#if defined(__CUDACC__)
#include "oracles/multiword/blocks/device_std.hpp"
#endif
#include "kernels/draws/draw_functions.hpp"
#if defined(__CUDACC__)
// Names of the device's functions in tile programs are names of these from here on.
#define exp2 assay_exp2
#define log2 assay_log2
#define tanh assay_tanh
#define fmax assay_fmax
#endif
#include "kernels/attention/lla.hpp"
#include "kernels/attention/parallax.hpp"
#include "kernels/attention/softmax_attention.hpp"
#include "kernels/decayed/gla.hpp"
#include "kernels/decayed/linear_attention.hpp"
#include "kernels/decayed/mamba2.hpp"
#include "kernels/decayed/retnet.hpp"
#include "kernels/delta/comba.hpp"
#include "kernels/delta/deltanet.hpp"
#include "kernels/delta/gated_deltanet.hpp"
#include "kernels/delta/kda.hpp"
#include "kernels/delta/mdn.hpp"
#include "kernels/draws/between.hpp"
#include "kernels/draws/draw_block.hpp"
#include "kernels/draws/draw_channels.hpp"
#include "kernels/draws/draw_columns.hpp"
#include "kernels/draws/draw_decays.hpp"
#include "kernels/draws/tile_launch.hpp"
#include "kernels/falcon/falcon1.hpp"
#include "kernels/falcon/falcon2.hpp"
#include "kernels/falcon/falcon2_lite.hpp"
#include "kernels/falcon/falcon2a.hpp"
#include "kernels/falcon/falcon3.hpp"
#include "kernels/falcon/falcon3a.hpp"
#include "kernels/programs/tensor_inverse.hpp"
#include "kernels/ridge/affine_mesanet.hpp"
#include "kernels/ridge/mesanet.hpp"
#include "kernels/uniform/affine_linear_attention.hpp"
#include "kernels/uniform/value_averaging.hpp"

#if !defined(__CUDACC__)
namespace assay::tile {
inline double ex2(double x) { return draws::exp2_of(x); }
inline double lg2(double x) { return draws::log2_of(x); }
}  // namespace assay::tile
#endif

namespace assay::draws {

/// Tiles, and then what threads exchange in memory.
template <class Kernel>
inline constexpr std::size_t block_doubles = (sizeof(typename Kernel::Smem) + 7) / 8 + Exchange::far;

/// Those of the blocks that are run in place of block `first`, and it.
template <class Kernel>
DRAW_FN void run_blocks(const TileLaunch& launch, const typename Kernel::Args& args, int first, double* near) {
  double* const own = launch.memory + static_cast<std::size_t>(first) * block_doubles<Kernel>;
  auto& shared = *reinterpret_cast<typename Kernel::Smem*>(own + Exchange::far);
  for (int i = first; i < launch.blocks; i += launch.at_once) {
    DrawBlock block(launch.policy, static_cast<std::uint64_t>(i), {near, own});
    Kernel::run(block, shared, args, i / launch.of_head, i % launch.of_head * launch.rows);
    barrier();
  }
}

}  // namespace assay::draws

// assay_start is what language/device/programs.hpp reads of it.
#if defined(__CUDACC__)
#define ASSAY_START(...) extern "C" __device__ const std::size_t assay_start[] = {__VA_ARGS__};
#define ASSAY_TILE_PROGRAM(...)                                                                                       \
  using Kernel = __VA_ARGS__;                                                                                         \
  extern "C" __global__ void __launch_bounds__(assay::draws::threads, 2)                                              \
      assay_run(const __grid_constant__ assay::draws::TileLaunch launch, const __grid_constant__ Kernel::Args args) { \
    extern __shared__ __align__(16) double near[];                                                                    \
    assay::draws::run_blocks<Kernel>(launch, args, blockIdx.x, near);                                                 \
  }                                                                                                                   \
  ASSAY_START(assay::draws::threads, assay::draws::Exchange::near, assay::draws::block_doubles<Kernel>,               \
              sizeof(Kernel::Args))
#define ASSAY_EACH(...)                                                                           \
  using Each = __VA_ARGS__;                                                                       \
  extern "C" __global__ void assay_run(const __grid_constant__ assay::draws::TileLaunch launch,   \
                                       const __grid_constant__ Each each) {                       \
    for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < launch.elements; \
         i += gridDim.x * std::size_t{blockDim.x})                                                \
      each(i);                                                                                    \
  }                                                                                               \
  ASSAY_START(assay::draws::threads, 0, 0, sizeof(Each))
#else
#define ASSAY_START(...) extern "C" const std::size_t assay_start[] = {__VA_ARGS__};
#define ASSAY_TILE_PROGRAM(...)                                                                            \
  using Kernel = __VA_ARGS__;                                                                              \
  extern "C" void assay_run(const assay::draws::TileLaunch& launch, const Kernel::Args& args, int block) { \
    static double near[assay::draws::Exchange::near];                                                      \
    assay::draws::run_blocks<Kernel>(launch, args, block, near);                                           \
  }                                                                                                        \
  ASSAY_START(1, 0, assay::draws::block_doubles<Kernel>, sizeof(Kernel::Args))
#define ASSAY_EACH(...)                                                                            \
  using Each = __VA_ARGS__;                                                                        \
  extern "C" void assay_run(const assay::draws::TileLaunch& launch, const Each& each, int block) { \
    for (std::size_t i = 0; block == 0 && i < launch.elements; ++i) each(i);                       \
  }                                                                                                \
  ASSAY_START(1, 0, 0, sizeof(Each))
#endif
