#pragma once
// The text that a device's compiler is given for slabs, followed by the line ASSAY_SLABS(W)
// (language/device/slabs.cpp). A host's compiler makes the same code for blocks of one thread.
#define ASSAY_WORDS_ISA device
#define ASSAY_WORDS_WIDTH 1
#if defined(__CUDACC__)
#define ASSAY_WORDS_ON_DEVICE
#include "oracles/multiword/blocks/device_std.hpp"
#endif
#include "oracles/multiword/blocks/delta_block_back.hpp"

namespace assay::words {

/// One block: its numbers are close if they are in `close`, and beside its others if that is null.
template <int W>
ASSAY_FUNCTION void run_block(const DeltaBlocks& x, std::size_t block, device::BlockColumns<W>& columns,
                              double* close) {
  double* const own = x.work + block * block_work(x.steps, x.length, x.keys, W, x.backward);
  device::DeltaBlockBack<W>(x, block, columns, close != nullptr ? close : own, own).run();
}

}  // namespace assay::words

// assay_start is what language/device/programs.hpp reads of it; a block has no memory of its own.
#if defined(__CUDACC__)
#define ASSAY_SLABS(W)                                                                                           \
  extern "C" __global__ void __launch_bounds__(assay::words::device::block_threads)                              \
      assay_run(const __grid_constant__ assay::words::DeltaBlocks x, const int is_close) {                       \
    extern __shared__ double close[];                                                                            \
    __shared__ assay::words::device::BlockColumns<W> columns;                                                    \
    assay::words::run_block<W>(x, blockIdx.x, columns, is_close != 0 ? close : nullptr);                         \
  }                                                                                                              \
  extern "C" __device__ const std::size_t assay_start[] = {assay::words::device::block_threads,                  \
                                                           sizeof(assay::words::device::BlockColumns<W>) / 8, 0, \
                                                           sizeof(assay::words::DeltaBlocks)};
#else
#define ASSAY_SLABS(W)                                                                                   \
  extern "C" void assay_run(const assay::words::DeltaBlocks& x, const int&, int block) {                 \
    assay::words::device::BlockColumns<W> columns;                                                       \
    assay::words::run_block<W>(x, static_cast<std::size_t>(block), columns, nullptr);                    \
  }                                                                                                      \
  extern "C" const std::size_t assay_start[] = {1, sizeof(assay::words::device::BlockColumns<W>) / 8, 0, \
                                                sizeof(assay::words::DeltaBlocks)};
#endif
