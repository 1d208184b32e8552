#define ASSAY_WORDS_ISA device
#define ASSAY_WORDS_WIDTH 1
#define ASSAY_WORDS_ON_DEVICE
#include <cuda_runtime.h>

#include "kernels/cuda/device_array.hpp"
#include "kernels/draws/draw_memory.hpp"
#include "kernels/truth/slabs.hpp"
#include "oracles/multiword/blocks/delta_block_back.hpp"
#include "oracles/multiword/blocks/delta_blocks.hpp"

namespace assay {
namespace {

using namespace words;

template <int W>
__global__ void __launch_bounds__(device::block_threads)
    slabs_kernel(const __grid_constant__ DeltaBlocks x, bool is_close) {
  extern __shared__ double close[];
  __shared__ device::BlockColumns<W> columns;
  double* own = x.work + blockIdx.x * block_work(x.steps, x.length, x.keys, W, x.backward);
  device::DeltaBlockBack<W>(x, blockIdx.x, columns, is_close ? close : own, own).run();
}

/// Bytes that a block of the kernel may have beside its columns.
template <int W>
std::size_t most_close() {
  static const std::size_t most = [] {
    int all = 0;
    cuda_check(cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    cudaFuncAttributes of_kernel;
    cuda_check(cudaFuncGetAttributes(&of_kernel, slabs_kernel<W>));
    const std::size_t left = static_cast<std::size_t>(all) - of_kernel.sharedSizeBytes;
    cuda_check(
        cudaFuncSetAttribute(slabs_kernel<W>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(left)));
    return left;
  }();
  return most;
}

template <int W>
void launch(const DeltaBlocks& x, std::size_t blocks) {
  const std::size_t bytes = block_close(x.keys, W) * sizeof(double);
  const bool is_close = bytes <= most_close<W>();
  slabs_kernel<W><<<static_cast<unsigned>(blocks), static_cast<unsigned>(device::block_threads), is_close ? bytes : 0,
                    cudaStreamPerThread>>>(x, is_close);
  cuda_check(cudaGetLastError());
}

}  // namespace

bool run_slabs_on_gpu(SlabRun& run) try {
  const BlocksRun blocks(run);
  const draws::Memory up(blocks.up().size()), work(blocks.work()), down(blocks.down());
  up.upload(blocks.up());
  const DeltaBlocks x = blocks.arguments(up.data(), work.data(), down.data());
  if (run.prepared.words == 2) launch<2>(x, blocks.blocks());
  if (run.prepared.words == 3) launch<3>(x, blocks.blocks());
  if (run.prepared.words == 4) launch<4>(x, blocks.blocks());
  blocks.take(down.values(), run);
  return true;
} catch (const NotDrawn&) {
  return false;
}

}  // namespace assay
