#pragma once
// A tile program's blocks on a device.
#include "kernels/cuda/mma_block.cuh"

namespace assay::tile {

#if defined(__CUDACC__)
/// Bytes of a program's tiles; the executor's scratch memory follows. A program may have none.
template <class Kernel>
inline constexpr int tile_bytes = std::is_empty_v<typename Kernel::Smem> ? 0 : int(sizeof(typename Kernel::Smem));

/// MinBlocks blocks are to fit on one multiprocessor.
template <class Kernel, class Block, int MinBlocks, class Grid_>
struct BlockLaunch {
  using Args = typename Kernel::Args;
  using Grid = Grid_;
  static constexpr int threads = Block::threads, min_blocks = MinBlocks;
  static constexpr int bytes = tile_bytes<Kernel> + Block::scratch_bytes;
  TILE_FN static void run(unsigned char* memory, const Args& args, const Grid& grid, int block) {
    int head, x;
    grid.get(block, head, x);
    Block executor(memory + tile_bytes<Kernel>);
    Kernel::run(executor, *reinterpret_cast<typename Kernel::Smem*>(memory), args, head, x);
  }
  TILE_FN static void run_packed(unsigned char* memory, const PackedSequence<Args, Grid>& in_memory, int block) {
    const auto sequence = in_memory;  // no store makes it be read again
    run(memory, sequence.args, sequence.grid, block - sequence.first);
  }
};

/// The sequence of a pack's block: the last that begins at it or before.
template <class Sequence>
TILE_FN const Sequence& sequence_of(const Sequence* sequences, int count, int block) {
  int low = 0;
  for (int high = count; high - low > 1;) {
    const int middle = (low + high) / 2;
    (sequences[middle].first <= block ? low : high) = middle;
  }
  return sequences[low];
}
#else
/// MinBlocks blocks are to fit on one multiprocessor.
template <class Kernel, class Block, int MinBlocks, class Grid>
struct BlockLaunch {};
#endif

}  // namespace assay::tile

#if defined(__CUDACC__)
// assay_start is what language/device/programs.hpp reads of it.
#define ASSAY_START(...) extern "C" __device__ const std::size_t assay_start[] = {__VA_ARGS__};
#define ASSAY_TILES(L)                                                            \
  static_assert(L::bytes <= 227 * 1024, "the tiles do not fit in shared memory"); \
  static_assert(L::bytes % 8 == 0);
/// The blocks of a grid.
#define ASSAY_LAUNCH(...)                                                                               \
  using Launch = __VA_ARGS__;                                                                           \
  ASSAY_TILES(Launch)                                                                                   \
  extern "C" __global__ void __launch_bounds__(Launch::threads, Launch::min_blocks)                     \
      assay_run(const __grid_constant__ Launch::Args args, const __grid_constant__ Launch::Grid grid) { \
    extern __shared__ __align__(1024) unsigned char memory[];                                           \
    Launch::run(memory, args, grid, blockIdx.x);                                                        \
  }                                                                                                     \
  ASSAY_START(Launch::threads, Launch::bytes / 8, 0, sizeof(Launch::Args))
/// Those of all sequences of a pack.
#define ASSAY_PACK(...)                                                                             \
  using Launch = __VA_ARGS__;                                                                       \
  using Sequence = assay::tile::PackedSequence<Launch::Args, Launch::Grid>;                         \
  ASSAY_TILES(Launch)                                                                               \
  extern "C" __global__ void __launch_bounds__(Launch::threads, Launch::min_blocks)                 \
      assay_run(const Sequence* sequences, int count) {                                             \
    extern __shared__ __align__(1024) unsigned char memory[];                                       \
    Launch::run_packed(memory, assay::tile::sequence_of(sequences, count, blockIdx.x), blockIdx.x); \
  }                                                                                                 \
  ASSAY_START(Launch::threads, Launch::bytes / 8, 0, sizeof(Sequence))
#define ASSAY_TURNS(...)                                                                                          \
  using Turn = __VA_ARGS__;                                                                                       \
  extern "C" __global__ void __launch_bounds__(256) assay_run(const __grid_constant__ Turn turn, std::size_t n) { \
    const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;                                     \
    if (i < n) turn(i);                                                                                           \
  }                                                                                                               \
  ASSAY_START(256, 0, 0, sizeof(Turn))
#endif
