#pragma once
// The rooms' kernels on a GPU of NVIDIA, for code that knows no CUDA.
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gpu/tensors.hpp"
#include "language/device/gpu.hpp"
#include "reference/core/format.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// The GPU that this process runs kernels on, once and for all: `kept`, where compiled ones stay, and `news`, who is
/// told what takes time. False where there is none of compute capability 9.0, no driver or no compiler (libnvrtc);
/// `why` is a clause that says which.
bool open_gpu(language::KeptTexts kept, language::GpuNews news, std::string& why);

/// Its name and versions. Throws DeviceError if none is open.
struct GpuDevice {
  std::string name, driver, compiler;
  int multiprocessors = 0;
};
GpuDevice gpu_device();

/// Milliseconds of the kernels of one pass, by CUDA events: the mean of `repetitions` after a warm-up. A pass that was
/// not run stays 0.
struct GpuTimes {
  int repetitions = 10;
  double forward = 0, backward = 0;
};

/// One form of a room's kernels on the device; the same name as the KernelForm whose tile programs it runs.
struct GpuForm {
  std::string_view name;
  /// Why the device kernels cannot run that problem in that precision, or "".
  std::string (*obstacle)(const Problem& problem, Format precision);
  /// The tile shape of the KernelForm that does the same arithmetic: its emulation. Gradients of a delta rule's shared
  /// inputs may be summed from smaller value blocks than the CPU's; see chunk_of in the rooms.
  int (*tile)(const Problem& problem, Format precision);
  /// What run_on_gpu asks for: launches in the run that this thread is in.
  Answer (*run)(const Problem& problem, Format precision, GpuTimes* times);
  /// Whether inputs may be on the GPU: no host looks at their numbers, or at those of results.
  bool takes_tensors = false;
};

/// For keys and values that a room's first form is not compiled for.
struct WideGpuForm {
  int tile;  ///< the CPU's with the same chunk
  Answer (*run)(const Problem& problem, GpuTimes* times);
};
struct GpuRoom {
  std::string_view name;
  std::span<const GpuForm> forms;
  const WideGpuForm* wide = nullptr;
};

/// The precisions that kernels are compiled in; forward passes of softmax_attention and parallax alone in e4m3.
inline constexpr Format gpu_precisions[] = {Format::bf16, Format::fp16, Format::tf32, Format::fp64, Format::e4m3};

/// All rooms with device kernels, in the order of mechanisms.def.
std::span<const GpuRoom* const> gpu_rooms();
/// That form of that room, or null.
const GpuForm* find_gpu_form(std::string_view room, std::string_view form);

/// Why that problem cannot run on a device as that form in that precision (device or not), or "".
std::string gpu_obstacle(std::string_view room, std::string_view form, const Problem& problem, Format precision);
/// Outputs, and gradients if the problem has cotangents, all heads; timed unless `times` is null. The problem has
/// passed the door of its room and has no obstacle; a GPU is open. The first of a kind compiles its kernels, side by
/// side. Throws DeviceError.
Answer run_on_gpu(const GpuForm& form, const Problem& problem, Format precision, GpuTimes* times = nullptr);
/// The same of a problem whose arrays have shapes alone: `given` are its inputs and cotangents, by name. Those of its
/// answer that `found` names ("o", "d_q") are written there. In the order of a stream of CUDA (CUstream); does not
/// wait. With `forward`, of a problem with cotangents: the forward pass where that is empty, and later, with the same
/// inputs, the backward pass. Throws InputError where a form does not take tensors, or one has another format or size.
void run_on_gpu(const GpuForm& form, const Problem& problem, Format precision, const GpuTensors& given,
                const GpuTensors& found, void* stream, ForwardMemory* forward = nullptr);
/// Checks as much, without a GPU; the programs that it compiles.
std::set<std::string> gpu_programs(const GpuForm& form, const Problem& problem, Format precision,
                                   const GpuTensors& given, const GpuTensors& found);
/// The programs that this compiles (kernels/cuda/on_device.cuh), by the lines that name them; `packed`: and a pack of
/// such problems. Needs no GPU.
std::set<std::string> gpu_programs(const GpuForm& form, const Problem& problem, Format precision, bool packed = false);
/// Compiles them side by side, where many forms are about to run; `what` they are, for who is told.
void make_gpu_programs(const std::set<std::string>& lines, const std::string& what);
/// The answers to the problems of a batch (kernels/core/pack.hpp), their sequences packed in every launch: each the
/// bits of run_on_gpu on that problem alone. Throws InputError, by the number of the sequence, where one has an
/// obstacle or they are no batch.
std::vector<Answer> run_packed(const GpuForm& form, std::span<const Problem> problems, Format precision);

}  // namespace assay
