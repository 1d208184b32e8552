#pragma once
// The rooms' kernels on the device, for code that knows no CUDA.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/core/format.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// Whether a device that the kernels are compiled for (compute capability 9.0) is present.
bool gpu_available();

/// Names and versions of the device that the kernels run on. Throws DeviceError if there is none.
struct GpuDevice {
  std::string name, driver, runtime;
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
  /// Outputs, and gradients if the problem has cotangents, all heads; timed unless `times` is null. The problem has
  /// passed the door of its room and has no obstacle. Throws DeviceError.
  Answer (*run)(const Problem& problem, Format precision, GpuTimes* times);
};

struct GpuRoom {
  std::string_view name;
  std::span<const GpuForm> forms;
};

/// The precisions that kernels are compiled in; forward passes of softmax_attention and parallax alone in e4m3.
inline constexpr Format gpu_precisions[] = {Format::bf16, Format::fp16, Format::tf32, Format::fp64, Format::e4m3};

/// All rooms with device kernels, in the order of mechanisms.def.
std::span<const GpuRoom* const> gpu_rooms();
/// That form of that room, or null.
const GpuForm* find_gpu_form(std::string_view room, std::string_view form);

/// Why that problem cannot run on a device as that form in that precision (device or not), or "".
std::string gpu_obstacle(std::string_view room, std::string_view form, const Problem& problem, Format precision);
/// The device's answer; nothing if there is no device, or there is an obstacle. Throws DeviceError.
std::optional<Answer> run_on_gpu(std::string_view room, std::string_view form, const Problem& problem,
                                 Format precision);
/// The answers to the problems of a batch (kernels/core/pack.hpp), their sequences packed in every launch: each the
/// bits of form.run on that problem alone. Throws InputError, by the number of the sequence, where one has an obstacle
/// or they are no batch.
std::vector<Answer> run_packed(const GpuForm& form, std::span<const Problem> problems, Format precision);

}  // namespace assay
