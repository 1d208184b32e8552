#pragma once
// Static policies, arrays on the device, grids and the launch of a tile program.
#include <cuda_runtime.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/core/pack.hpp"
#include "kernels/core/policy.hpp"
#include "kernels/cuda/device_array.hpp"
#include "kernels/cuda/gpu.hpp"
#include "kernels/cuda/mma_block.cuh"
#include "reference/core/problem.hpp"

namespace assay::tile {

/// The contract of a precision, fixed at compile time. A room names its own by inheriting: nvcc cannot spell a kernel
/// whose template arguments contain a value of class type.
template <const SiteTable& Sites, Format Precision>
struct StaticPolicy {
  using Real = std::conditional_t<Precision == Format::fp64, double, float>;
  static constexpr Format precision = Precision;
  static constexpr const SiteTable& sites = Sites;
  static constexpr SiteTable table = Sites.contract(Precision);
  static constexpr int products = Policy::products_per_rounding(Precision);
};

/// The scalar that a policy's gates and scales are given in.
template <class P>
typename P::Real real(double x) {
  return static_cast<typename P::Real>(x);
}

// ---- arrays ----------------------------------------------------------------------------

/// The named array in the format of site S; zeros if it is missing, as a cotangent may be.
template <class P, FixedString S>
DeviceArray upload(const Arrays& arrays, std::string_view name, int heads, int rows, int cols) {
  const auto it = arrays.find(name);
  if (it != arrays.end()) return DeviceArray(format_of<P, S>, heads, rows, cols, it->second.data);
  const std::vector<double> zeros(static_cast<std::size_t>(heads) * rows * cols);
  return DeviceArray(format_of<P, S>, heads, rows, cols, zeros);
}
/// An array that a kernel writes at site S.
template <class P, FixedString S>
DeviceArray result(int heads, int rows, int cols) {
  return DeviceArray(format_of<P, S>, heads, rows, cols);
}
inline Array download(const DeviceArray& a, std::vector<int> shape) { return Array(std::move(shape), a.values()); }

template <class B>
typename B::In in(const DeviceArray& a) {
  return {a.data(), a.rows(), a.cols(), a.head_rows()};
}
template <class B>
typename B::Out out(DeviceArray& a) {
  return {a.data(), a.rows(), a.cols(), a.head_rows()};
}
template <class B>
typename B::RowIn row_in(const DeviceArray& a, bool logs = true) {
  return {a.data(), a.rows(), a.head_rows(), logs};
}
template <class B>
typename B::RowOut row_out(DeviceArray& a) {
  return {a.data(), a.rows(), a.head_rows()};
}

// ---- grids -----------------------------------------------------------------------------

/// Row tiles of a triangle of work: heads in groups whose keys and values fit the L2 cache; inside a group the longest
/// tiles first.
struct RowGrid {
  int heads, tiles, step, group;
  bool first_is_longest;  // key tiles of a causal backward pass
  int items() const { return heads * tiles; }
  TILE_FN void get(int i, int& head, int& x) const {
    const int per = group * tiles, g = i / per, rest = i - g * per, size = imin(group, heads - g * group);
    head = g * group + rest % size;
    x = (first_is_longest ? rest / size : tiles - 1 - rest / size) * step;
  }
};
/// Tiles of `step` rows; `shared_bytes` is what one head's blocks read in common.
inline RowGrid row_grid(int heads, int rows, int step, double shared_bytes, bool first_is_longest = false) {
  constexpr double cache = 24e6;  // half of Hopper's L2
  const int group = static_cast<int>(std::clamp(cache / std::max(shared_bytes, 1.0), 1.0, static_cast<double>(heads)));
  return {heads, ceil_div(rows, step), step, group, first_is_longest};
}

/// Independent blocks 0, 1, ... of every head.
struct BlockGrid {
  int heads, blocks;
  int items() const { return heads * blocks; }
  TILE_FN void get(int i, int& head, int& x) const { head = i / blocks, x = i % blocks; }
};

// ---- launch ----------------------------------------------------------------------------
/// Bytes of a program's tiles; the executor's scratch memory follows. A program may have none.
template <class Kernel>
inline constexpr int tile_bytes = std::is_empty_v<typename Kernel::Smem> ? 0 : int(sizeof(typename Kernel::Smem));

template <class Kernel, class Block, int MinBlocks, class Grid>
__global__ void __launch_bounds__(Block::threads, MinBlocks)
    tile_kernel(const __grid_constant__ typename Kernel::Args args, const Grid grid) {
  extern __shared__ __align__(1024) unsigned char memory[];
  int head, x;
  grid.get(blockIdx.x, head, x);
  Block block(memory + tile_bytes<Kernel>);
  Kernel::run(block, *reinterpret_cast<typename Kernel::Smem*>(memory), args, head, x);
}

/// The part of a pack's launch for one sequence, on the device. Tensor maps in arguments are fenced in lines of 128.
template <class Args, class Grid>
struct alignas(128) PackedSequence {
  Args args;
  Grid grid;
  int first;  ///< of its blocks
};
/// That of a block: the last that begins at it or before.
template <class Sequence>
TILE_FN const Sequence& sequence_of(const Sequence* sequences, int count, int block) {
  int low = 0;
  for (int high = count; high - low > 1;) {
    const int middle = (low + high) / 2;
    (sequences[middle].first <= block ? low : high) = middle;
  }
  return sequences[low];
}

template <class Kernel, class Block, int MinBlocks, class Grid>
__global__ void __launch_bounds__(Block::threads, MinBlocks)
    packed_tile_kernel(const PackedSequence<typename Kernel::Args, Grid>* sequences, int count) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const auto sequence = sequence_of(sequences, count, blockIdx.x);  // copied: no store makes it be read again
  int head, x;
  sequence.grid.get(blockIdx.x - sequence.first, head, x);
  Block block(memory + tile_bytes<Kernel>);
  Kernel::run(block, *reinterpret_cast<typename Kernel::Smem*>(memory), sequence.args, head, x);
}

/// The launch of a sequence of a pack.
template <class Args, class Grid>
struct PackedLaunch : pack::Request {
  const Args& args;
  const Grid& grid;
  PackedLaunch(const Args& a, const Grid& g) : args(a), grid(g) {}
};

/// One launch for the sequences that have come to it: start(their table, their number, all their blocks).
template <class Args, class Grid, class Start>
void launch_packed(std::span<pack::Request* const> requests, Start start) {
  std::vector<PackedSequence<Args, Grid>> sequences;
  int blocks = 0;
  for (const pack::Request* request : requests) {
    const auto& launch = static_cast<const PackedLaunch<Args, Grid>&>(*request);
    sequences.push_back({launch.args, launch.grid, blocks});
    blocks += launch.grid.items();
  }
  if (blocks == 0) return;
  const DeviceBuffer table(sequences.size() * sizeof(sequences[0]));  // freed when the launch has read it
  cuda_check(cudaMemcpy(table.data(), sequences.data(), table.size(), cudaMemcpyHostToDevice));
  start(static_cast<const PackedSequence<Args, Grid>*>(table.data()), static_cast<int>(sequences.size()), blocks);
  cuda_check(cudaGetLastError());
}

/// Whether a pack launches the blocks of all sequences as one grid, which is a kernel of its own to compile: in the
/// precision that is measured. In the others the sequences share their arrays and launch one after another.
template <class Block>
inline constexpr bool packs_launches = Block::P::precision == Format::bf16;

/// Runs the blocks of `grid` on the default stream; MinBlocks of them are to fit on one multiprocessor. In a pack, with
/// those of the other sequences as one grid.
template <class Kernel, class Block, int MinBlocks, class Grid>
void launch(const typename Kernel::Args& args, const Grid& grid) {
  constexpr int bytes = tile_bytes<Kernel> + Block::scratch_bytes;
  static_assert(bytes <= 227 * 1024, "the tiles do not fit in shared memory");
  if constexpr (packs_launches<Block>) {
    if (pack::active()) {
      using Args = typename Kernel::Args;
      PackedLaunch<Args, Grid> request(args, grid);
      void (*const serve)(std::span<pack::Request* const>) = [](std::span<pack::Request* const> requests) {
        launch_packed<Args, Grid>(requests, [](const PackedSequence<Args, Grid>* sequences, int count, int blocks) {
          auto* const kernel = &packed_tile_kernel<Kernel, Block, MinBlocks, Grid>;
          cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
          kernel<<<blocks, Block::threads, bytes>>>(sequences, count);
        });
      };
      return pack::meet(pack::Place{serve}, request);
    }
  }
  if (grid.items() == 0) return;
  auto* const kernel = &tile_kernel<Kernel, Block, MinBlocks, Grid>;
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  kernel<<<grid.items(), Block::threads, bytes>>>(args, grid);
  cuda_check(cudaGetLastError());
}

/// Runs `launches`, and again between two events if a time is wanted; returns milliseconds, or 0.
template <class F>
double run_timed(const GpuTimes* times, F launches) {
  launches();
  if (times == nullptr) return 0;
  cudaEvent_t begin, end;
  cuda_check(cudaEventCreate(&begin));
  cuda_check(cudaEventCreate(&end));
  cuda_check(cudaEventRecord(begin));
  for (int i = 0; i < times->repetitions; ++i) launches();
  cuda_check(cudaEventRecord(end));
  cuda_check(cudaEventSynchronize(end));
  float milliseconds = 0;
  cuda_check(cudaEventElapsedTime(&milliseconds, begin, end));
  cuda_check(cudaEventDestroy(begin));
  cuda_check(cudaEventDestroy(end));
  return milliseconds / times->repetitions;
}

/// Head dimensions that kernels are compiled for: bf16 is the precision that is measured, the others check the code.
inline bool compiled_dim(int dim, Format precision) { return dim == 64 || (dim == 128 && precision == Format::bf16); }

/// Calls f.template operator()<Format, D>() with a compiled precision and head dimension.
template <class F>
auto with_instance(Format precision, int dim, F f) {
  if (precision == Format::fp16) return f.template operator()<Format::fp16, 64>();
  if (precision == Format::tf32) return f.template operator()<Format::tf32, 64>();
  if (precision == Format::fp64) return f.template operator()<Format::fp64, 64>();
  return dim <= 64 ? f.template operator()<Format::bf16, 64>() : f.template operator()<Format::bf16, 128>();
}

/// Why the compiled head dimensions cannot hold K and V, or "".
inline std::string device_dim_obstacle(int key_dim, int value_dim, Format precision) {
  if (precision == Format::e4m3) return "no device kernel of this mechanism is compiled in e4m3";
  for (const int d : {key_dim, value_dim})
    if (!compiled_dim(d, precision))
      return text("device kernels in ", name_of(precision), " are compiled for K and V of 64",
                  compiled_dim(128, precision) ? " or 128" : "", ", got ", d);
  return "";
}

}  // namespace assay::tile
