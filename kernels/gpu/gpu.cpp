#include "kernels/gpu/gpu.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

#include "kernels/core/batch.hpp"
#include "kernels/core/kernel_room.hpp"
#include "kernels/core/once_per_kind.hpp"
#include "kernels/gpu/launches.hpp"
#include "reference/core/error.hpp"
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
  std::mutex running{};
  OncePerKind<ResultRequests> prepared{};
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

/// The result that stands for such an array of an answer; null: a host has its numbers.
const KeptTensor* kept_of(const tile::GpuRun& run, const Array& array) {
  std::size_t count = 1;
  for (const int n : array.shape) count *= static_cast<std::size_t>(n);
  for (std::size_t i = 0; array.data.size() == 1 && i < run.kept().size(); ++i)
    if (array.data[0] == static_cast<double>(i) && run.kept()[i].tensor.count == count) return &run.kept()[i];
  return nullptr;
}
/// The result of a run of tensors that goes to that one.
const KeptTensor& kept_of(const tile::GpuRun& run, const Answer& answer, std::string_view name,
                          const GpuTensor& tensor) {
  const bool is_gradient = name.starts_with("d_");
  const Arrays& arrays = is_gradient ? answer.gradients : answer.outputs;
  const auto at = arrays.find(is_gradient ? name.substr(2) : name);
  require(at != arrays.end() && !at->second.shape.empty() && kept_of(run, at->second) != nullptr, name,
          ": these kernels do not leave it on the GPU");
  const KeptTensor& kept = *kept_of(run, at->second);
  require(tensor.format == kept.tensor.format, name, ": expected room for ", name_of(kept.tensor.format), ", got ",
          name_of(tensor.format));
  require(tensor.count == kept.tensor.count, name, ": expected room for ", kept.tensor.count, " numbers, got ",
          tensor.count);
  return kept;
}

/// Compiles the programs that are listed, once for each `kind`.
template <class F>
void prepare(const std::string& kind, const GpuForm& form, F lists) {
  opened().prepared.get(kind, [&](ResultRequests&) { kernels().make(lists(), std::string(form.name)); });
}
std::string kind_of(const GpuForm& form, const Problem& problem, Format precision) {
  return text(reinterpret_cast<std::uintptr_t>(&form), ' ', name_of(precision), kind_of(problem));
}
/// The programs of a run of tensors, and which requests for memory are those of results.
std::pair<std::set<std::string>, ResultRequests> listed_with_tensors(const GpuForm& form, const Problem& problem,
                                                                     Format precision, const GpuTensors& given,
                                                                     const GpuTensors& found) {
  require(form.takes_tensors, form.name, " does not take tensors on the GPU");
  for (const auto& [name, value] : problem.params)  // others are looked up among an input's numbers
    require(name == "scale" || name == "bandwidth" || name == "causal" || name == "window", name,
            ": not with tensors on the GPU");
  std::set<std::string> lines;
  const tile::TensorsOfRun tensors{given};
  const tile::GpuRun run(lines, &tensors);
  const Answer answer = answer_in(run, form, problem, precision, nullptr);
  for (const auto& [name, tensor] : found) kept_of(run, answer, name, tensor);
  ResultRequests requests;
  for (const auto& [arrays, prefix] : {std::pair(&answer.outputs, ""), std::pair(&answer.gradients, "d_")})
    for (const auto& [name, array] : *arrays)
      if (const KeptTensor* kept = kept_of(run, array)) requests[prefix + name] = kept->request;
  return {lines, requests};
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
  prepare(kind_of(form, problem, precision), form, [&] { return listed(answer); });
  const std::lock_guard lock(opened().running);  // what is timed runs alone
  return answer(tile::GpuRun(kernels()));
}

void run_on_gpu(const GpuForm& form, const Problem& problem, Format precision, const GpuTensors& given,
                const GpuTensors& found, void* stream, ForwardMemory* forward) {
  std::string kind = "tensors of " + kind_of(form, problem, precision);
  for (const auto& [name, array] : problem.inputs)
    for (const int n : array.shape) kind += text(' ', n);
  const ResultRequests& requests = opened().prepared.get(kind, [&](ResultRequests& of) {
    auto [lines, all] = listed_with_tensors(form, problem, precision, given, found);
    of = std::move(all);
    kernels().make(lines, std::string(form.name));
  });
  tile::TensorsOfRun tensors{given, {}, stream, forward};
  for (const auto& result : found) {
    const auto request = requests.find(result.first);
    require(request != requests.end(), result.first, ": these kernels do not leave it on the GPU");
    tensors.results.emplace(request->second, result);
  }
  const tile::GpuRun run(kernels(), tensors);
  const Answer answer = answer_in(run, form, problem, precision, nullptr);
  for (const auto& [name, tensor] : found)
    if (kept_of(run, answer, name, tensor).tensor.data != tensor.data)
      throw std::logic_error(name + " is not where it was asked for");
}

std::set<std::string> gpu_programs(const GpuForm& form, const Problem& problem, Format precision,
                                   const GpuTensors& given, const GpuTensors& found) {
  return listed_with_tensors(form, problem, precision, given, found).first;
}

std::vector<Answer> run_packed(const GpuForm& form, std::span<const Problem> problems, Format precision) {
  const auto answers = [&](const tile::GpuRun& run) { return answers_in(run, form, problems, precision); };
  if (!problems.empty())
    prepare(text("pack of ", kind_of(form, problems[0], precision)), form, [&] { return listed(answers); });
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
