#include "kernels/cuda/gpu.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/core/batch.hpp"
#include "kernels/core/kernel_room.hpp"
#include "kernels/cuda/device_array.hpp"
// Made by CMake: GPU_ROOM(name) for every room with launch code.
#include <gpu_room_list.hpp>

namespace assay {
namespace gpu {
#define GPU_ROOM(name) extern const GpuRoom name;
ASSAY_GPU_ROOMS
#undef GPU_ROOM
}  // namespace gpu

namespace {

std::string version_text(int version) { return text(version / 1000, '.', version % 1000 / 10); }

const KernelForm* find_kernel_form(std::string_view room, std::string_view form) {
  const KernelRoom* kernels = find_kernels(kernel_rooms(), room);
  if (kernels == nullptr) return nullptr;
  const auto it =
      std::find_if(kernels->forms.begin(), kernels->forms.end(), [&](const auto& f) { return f.name == form; });
  return it == kernels->forms.end() ? nullptr : &*it;
}

}  // namespace

bool gpu_available() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return false;
  int major = 0, minor = 0;
  return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
         cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0) == cudaSuccess && major == 9 &&
         minor == 0;
}

GpuDevice gpu_device() {
  cudaDeviceProp properties;
  int driver = 0, runtime = 0;
  cuda_check(cudaGetDeviceProperties(&properties, 0));
  cuda_check(cudaDriverGetVersion(&driver));
  cuda_check(cudaRuntimeGetVersion(&runtime));
  return {properties.name, version_text(driver), version_text(runtime), properties.multiProcessorCount};
}

std::span<const GpuRoom* const> gpu_rooms() {
#define GPU_ROOM(name) &gpu::name,
  static constexpr const GpuRoom* all[] = {ASSAY_GPU_ROOMS};
#undef GPU_ROOM
  return all;
}

const GpuForm* find_gpu_form(std::string_view room, std::string_view form) {
  for (const GpuRoom* r : gpu_rooms())
    for (const GpuForm& f : r->forms)
      if (r->name == room && f.name == form) return &f;
  return nullptr;
}

std::string gpu_obstacle(std::string_view room, std::string_view form, const Problem& problem, Format precision) {
  const GpuForm* gpu_form = find_gpu_form(room, form);
  const KernelForm* kernel_form = find_kernel_form(room, form);
  if (gpu_form == nullptr || kernel_form == nullptr) return text(room, " has no device kernel '", form, "'");
  if (std::find(std::begin(gpu_precisions), std::end(gpu_precisions), precision) == std::end(gpu_precisions))
    return text("no device kernel is compiled in ", name_of(precision));
  const std::string obstacle = kernel_form->obstacle(problem);
  return obstacle.empty() ? gpu_form->obstacle(problem, precision) : obstacle;
}

std::optional<Answer> run_on_gpu(std::string_view room, std::string_view form, const Problem& problem,
                                 Format precision) {
  if (!gpu_available() || !gpu_obstacle(room, form, problem, precision).empty()) return std::nullopt;
  return find_gpu_form(room, form)->run(problem, precision, nullptr);
}

std::vector<Answer> run_packed(const GpuForm& form, std::span<const Problem> problems, Format precision) {
  return pack::run_batch(
      problems, [&](const Problem& p) { return form.obstacle(p, precision); },
      [&](const Problem& p) { return form.run(p, precision, nullptr); });
}

}  // namespace assay
