#include "kernels/gpu/gpu.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "kernels/core/batch.hpp"
#include "kernels/core/kernel_room.hpp"
#include "kernels/gpu/launches.hpp"
// Made by CMake: GPU_ROOM(name) for every room with launch code.
#include <gpu_room_list.hpp>

namespace assay {
namespace on_gpu {
#define GPU_ROOM(name) extern const GpuRoom name;
ASSAY_GPU_ROOMS
#undef GPU_ROOM
}  // namespace on_gpu

namespace {

std::string version_text(int version) { return text(version / 1000, '.', version % 1000 / 10); }

const KernelForm* find_kernel_form(std::string_view room, std::string_view form) {
  const KernelRoom* kernels = find_kernels(kernel_rooms(), room);
  if (kernels == nullptr) return nullptr;
  const auto it =
      std::find_if(kernels->forms.begin(), kernels->forms.end(), [&](const auto& f) { return f.name == form; });
  return it == kernels->forms.end() ? nullptr : &*it;
}

struct Opened {
  std::unique_ptr<tile::GpuKernels> kernels;
  std::mutex guard{}, running{};
  std::map<std::string, std::once_flag> prepared{};
};
Opened& opened() {
  static Opened one;
  return one;
}
tile::GpuKernels& kernels() {
  if (opened().kernels == nullptr) throw DeviceError("no GPU is open");
  return *opened().kernels;
}

/// What launches(run) asks for.
template <class F>
std::set<std::string> listed(F launches) {
  std::set<std::string> lines;
  launches(tile::GpuRun(lines));
  return lines;
}
/// In a run on the GPU or in one that lists.
Answer answer_in(const tile::GpuRun& run, const GpuForm& form, const Problem& problem, Format precision,
                 GpuTimes* times) {
  const tile::InRun here(run);
  return form.run(problem, precision, run.lists() ? nullptr : times);
}
std::vector<Answer> answers_in(const tile::GpuRun& run, const GpuForm& form, std::span<const Problem> problems,
                               Format precision) {
  return pack::run_batch(
      problems, [&](const Problem& p) { return form.obstacle(p, precision); },
      [&](const Problem& p) { return answer_in(run, form, p, precision, nullptr); });
}

/// Compiles what launches(run) would launch, once for each `kind`.
template <class F>
void prepare(const std::string& kind, const GpuForm& form, F launches) {
  std::once_flag* once = nullptr;
  {
    const std::lock_guard lock(opened().guard);
    once = &opened().prepared[kind];
  }
  std::call_once(*once, [&] { kernels().make(listed(launches), std::string(form.name)); });
}
std::string kind_of(const GpuForm& form, const Problem& problem, Format precision) {
  return text(reinterpret_cast<std::uintptr_t>(&form), ' ', name_of(precision), kind_of(problem));
}

}  // namespace

bool open_gpu(language::KeptTexts kept, language::GpuNews news, std::string& why) {
  if (opened().kernels != nullptr) return true;
  auto found = language::device::on_the_gpu(why, [&](const language::device::Driver& driver) {
    return std::make_unique<tile::GpuKernels>(driver, std::move(kept), std::move(news));
  });
  if (found == nullptr) return false;
  if (found->gpu().architecture() != "sm_90") {
    why =
        text("kernels run on compute capability 9.0, and ", found->gpu().name(), " has ", found->gpu().architecture());
    return false;
  }
  opened().kernels = std::move(found);
  return true;
}

GpuDevice gpu_device() {
  const language::device::Gpu& gpu = kernels().gpu();
  int driver = 0, major = 0, minor = 0;
  gpu.must(gpu.driver().version(&driver)), gpu.must(gpu.driver().compiler_version(&major, &minor));
  return {gpu.name(), version_text(driver), text("nvrtc ", major, '.', minor), gpu.multiprocessors()};
}

std::span<const GpuRoom* const> gpu_rooms() {
#define GPU_ROOM(name) &on_gpu::name,
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

Answer run_on_gpu(const GpuForm& form, const Problem& problem, Format precision, GpuTimes* times) {
  const auto answer = [&](const tile::GpuRun& run) { return answer_in(run, form, problem, precision, times); };
  prepare(kind_of(form, problem, precision), form, answer);
  const std::lock_guard lock(opened().running);  // what is timed runs alone
  return answer(tile::GpuRun(kernels()));
}

std::vector<Answer> run_packed(const GpuForm& form, std::span<const Problem> problems, Format precision) {
  const auto answers = [&](const tile::GpuRun& run) { return answers_in(run, form, problems, precision); };
  if (!problems.empty()) prepare(text("pack of ", kind_of(form, problems[0], precision)), form, answers);
  const std::lock_guard lock(opened().running);
  return answers(tile::GpuRun(kernels()));
}

std::set<std::string> gpu_programs(const GpuForm& form, const Problem& problem, Format precision, bool packed) {
  return listed([&](const tile::GpuRun& run) {
    if (packed) answers_in(run, form, std::span(&problem, 1), precision);
    answer_in(run, form, problem, precision, nullptr);
  });
}

void make_gpu_programs(const std::set<std::string>& lines, const std::string& what) { kernels().make(lines, what); }

}  // namespace assay
