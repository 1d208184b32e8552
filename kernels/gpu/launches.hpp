#pragma once
// Launches of tile programs on a GPU of NVIDIA, each compiled at first use (kernels/cuda/on_device.cuh).
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "kernels/cuda/arguments.hpp"
#include "kernels/gpu/tensors.hpp"
#include "language/device/programs.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// The GPU refused something; the message says what.
using DeviceError = language::device::DeviceFailure;

namespace tile {

/// The GPU that this process runs kernels on, and their programs.
class GpuKernels {
 public:
  /// Throws DeviceError if there is none.
  GpuKernels(const language::device::Driver& driver, language::KeptTexts kept, language::GpuNews news);

  const language::device::Gpu& gpu() const { return gpu_; }
  /// That of a launch of this kind (ASSAY_LAUNCH, ASSAY_PACK or ASSAY_TURNS) and type.
  language::device::Program find(const char* kind, const std::type_info& type);
  /// Compiles those of `lines` that have no program yet, side by side; `what` they are, for who is told.
  void make(const std::set<std::string>& lines, const std::string& what);

 private:
  static constexpr const char* code = "#include \"kernels/cuda/on_device.cuh\"\n";
  language::device::Gpu gpu_;
  language::GpuNews news_;
  language::device::Programs programs_;
  std::mutex guard_;
  std::map<std::pair<std::string_view, const std::type_info*>, language::device::Program> found_;
};

/// Of a problem whose arrays have shapes alone: its inputs and cotangents, by name, where results go, by the request
/// for memory, and somebody's stream, in whose order all happens. With `forward` a run is one half of the plan: the
/// forward pass where that is empty, and else the backward pass.
struct TensorsOfRun {
  const GpuTensors& given;
  std::map<std::size_t, std::pair<std::string, GpuTensor>> results{};
  void* stream = nullptr;
  ForwardMemory* forward = nullptr;
};

/// What a thread launches goes to a run: on the GPU, in order, or, where `lines` are listed, nowhere. It ends on the
/// thread that it began on.
class GpuRun {
 public:
  /// `tensors` live as long.
  GpuRun(GpuKernels& kernels, const TensorsOfRun& tensors)
      : kernels_(&kernels),
        tensors_(&tensors),
        is_backward_(tensors.forward != nullptr && !tensors.forward->arrays.empty()),
        rests_(is_backward_),
        entered_(std::make_unique<language::device::Entered>(kernels.gpu())),
        stream_(std::make_shared<language::device::Stream>(kernels.gpu(), tensors.stream)) {}
  explicit GpuRun(GpuKernels& kernels)
      : kernels_(&kernels),
        entered_(std::make_unique<language::device::Entered>(kernels.gpu())),
        stream_(std::make_shared<language::device::Stream>(kernels.gpu())) {}
  /// Lists programs. Arrays have no memory then, and are full of ones.
  explicit GpuRun(std::set<std::string>& lines, const TensorsOfRun* tensors = nullptr)
      : lines_(&lines), tensors_(tensors) {}

  bool lists() const { return lines_ != nullptr; }
  /// Whether nothing happens on the GPU: in a run that lists, and in the half of a plan that is not this run's.
  bool rests() const { return lists() || rests_; }
  void end_forward() const { rests_ = tensors_ != nullptr && tensors_->forward != nullptr && !rests_; }
  /// Whether results stay on the GPU.
  bool keeps() const { return tensors_ != nullptr; }
  /// The given tensor of that name. Throws InputError unless it has that format and as many numbers as `expected`,
  /// [heads][rows][cols].
  const GpuTensor& given(std::string_view name, const std::array<int, 3>& expected, Format format) const;
  /// The results that a plan has made arrays of.
  std::vector<KeptTensor>& kept() const { return kept_; }
  const std::shared_ptr<language::device::Stream>& stream() const { return stream_; }
  const language::device::Gpu& gpu() const { return kernels_->gpu(); }
  /// Arguments: their addresses, and the bytes of the first, which the device knows.
  void launch(const char* kind, const std::type_info& type, std::size_t blocks, std::span<const void* const> arguments,
              std::size_t bytes) const;
  /// Bytes on the GPU. Throws DeviceError if there is no room, InputError where a result's are not as many.
  GpuMemory memory(std::size_t bytes) const;

  /// That of this thread.
  static const GpuRun& current();

 private:
  GpuKernels* kernels_ = nullptr;
  std::set<std::string>* lines_ = nullptr;
  const TensorsOfRun* tensors_ = nullptr;
  bool is_backward_ = false;
  mutable bool rests_ = false;
  mutable std::size_t requests_ = 0;
  mutable std::mutex guard_;
  std::unique_ptr<language::device::Entered> entered_;
  std::shared_ptr<language::device::Stream> stream_;
  mutable std::vector<KeptTensor> kept_;  // which go first
};

/// This thread's launches are that run's until this ends.
class InRun {
 public:
  explicit InRun(const GpuRun& run);
  InRun(const InRun&) = delete;
  InRun& operator=(const InRun&) = delete;
  ~InRun();

 private:
  std::unique_ptr<language::device::Entered> entered_;
};

/// Runs `launches`, and again between two events if a time is wanted; returns milliseconds, or 0.
double run_timed(int repetitions, const std::function<void()>& launches);

/// A launch of blocks: its type, its arguments and its grid in memory, and where a pack's table has them.
struct BlocksLaunch {
  const std::type_info& type;
  const void *args, *grid;
  std::size_t args_bytes, grid_bytes;
  int blocks;
  std::size_t sequence_bytes, grid_at, first_at;  ///< of PackedSequence
};
/// `packs`: in a pack, with the blocks of the other sequences as one grid, which is a program of its own; else the
/// sequences share their arrays and launch one after another.
void launch_blocks(const BlocksLaunch& launch, bool packs);
/// Where a T lies after so many bytes.
template <class T>
constexpr std::size_t after(std::size_t bytes) {
  return (bytes + alignof(T) - 1) / alignof(T) * alignof(T);
}
template <class Launch, class Args, class Grid>
void launch_blocks(const Args& args, const Grid& grid, bool packs) {
  using Sequence = PackedSequence<Args, Grid>;
  constexpr std::size_t grid_at = after<Grid>(sizeof args), first_at = after<int>(grid_at + sizeof grid);
  launch_blocks(
      {typeid(Launch), &args, &grid, sizeof args, sizeof grid, grid.items(), sizeof(Sequence), grid_at, first_at},
      packs);
}

/// turn(i) for each i < n. In a pack every sequence has a launch of its own, for that is no tile program.
void take_turns(const std::type_info& type, const void* turn, std::size_t bytes, std::size_t n);
template <class Turn>
void take_turns(const Turn& turn, std::size_t n) {
  take_turns(typeid(Turn), &turn, sizeof turn, n);
}

}  // namespace tile
}  // namespace assay
