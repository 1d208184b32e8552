#include "tools/run/device.hpp"

#include <algorithm>
#include <mutex>
#include <optional>

#include "tools/cases/case_flags.hpp"

#ifdef ASSAY_HAS_CUDA
#include "kernels/cuda/gpu.hpp"
#endif

namespace assay {

#ifdef ASSAY_HAS_CUDA

namespace {

Device device_of(const GpuDevice& found) {
  Device device;
  device.name = found.name;
  device.versions = "driver " + found.driver + ", runtime " + found.runtime;
  // In the order of a report.
  for (const Format precision : case_precisions)
    if (std::find(std::begin(gpu_precisions), std::end(gpu_precisions), precision) != std::end(gpu_precisions))
      device.precisions.push_back(precision);
  device.obstacle = [](std::string_view room, const KernelForm& form, const Problem& problem, Format precision) {
    return gpu_obstacle(room, form.name, problem, precision);
  };
  device.tile = [](std::string_view room, const KernelForm& form, const Problem& problem, Format precision) {
    return find_gpu_form(room, form.name)->tile(problem, precision);
  };
  device.run = [](std::string_view room, const KernelForm& form, const Problem& problem, Format precision) {
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    return find_gpu_form(room, form.name)->run(problem, precision, nullptr);
  };
  return device;
}

}  // namespace

const Device* gpu() {
  static const std::optional<Device> device = gpu_available() ? std::optional(device_of(gpu_device())) : std::nullopt;
  return device ? &*device : nullptr;
}
std::string why_no_gpu() { return "no GPU of compute capability 9.0 is present"; }

#else

const Device* gpu() { return nullptr; }
std::string why_no_gpu() { return "this build has no device kernels: nvcc was not found when it was configured"; }

#endif

}  // namespace assay
