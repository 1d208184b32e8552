#include "tools/run/device.hpp"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>

#include "judge/court/cache.hpp"
#include "language/device/cuda_texts.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"

#ifdef ASSAY_HAS_CUDA
#include "kernels/cuda/gpu.hpp"
#include "kernels/draws/drawn.hpp"
#include "kernels/draws/rooms.hpp"
#include "kernels/truth/slabs.hpp"
#include "oracles/multiword/blocks/delta_blocks.hpp"
#endif

namespace assay {
namespace {

void require_place(std::string_view where) {
  require(where == "auto" || where == "cpu" || where == "gpu", "judge: expected auto, cpu or gpu, got ", where);
}

/// Texts of draws on the GPU, which is looked for when the first draw is worth it.
class TextsOnGpu final : public language::TextExecutor {
 public:
  /// From now on draws of fewer multiplications are the CPU's.
  void from(double multiplications) { least_ = multiplications; }

  std::string name() const override { return gpu_ == nullptr ? "no GPU" : gpu_->name(); }
  bool is_worth(double multiplications) override {
    return multiplications >= least_ && is_there() && gpu_->is_worth(multiplications);
  }
  bool run(const language::Emitted& text, language::TextRun& run) override { return gpu_->run(text, run); }
  bool is_there() {
    std::call_once(looked_for_, [this] {
      const auto cache = std::make_shared<Cache>();
      const language::KeptTexts kept{
          [cache](const std::string& what) { return cache->find(what); },
          [cache](const std::string& what, std::string_view bytes) { cache->keep(what, bytes); }};
      const language::TextNews news{
          [](const std::string& program) {
            std::cerr << text("assay: compiles ", program, " for the GPU, once, which takes about 2 s\n");
          },
          [](const std::string& program, const std::string& why) {
            std::cerr << text("assay: the CPU draws ", program, ", because the GPU does not take it: ", why, '\n');
          },
          [](const std::string& why) {
            std::cerr << text("assay: the CPU draws, because the GPU has failed: ", why, '\n');
          }};
      gpu_ = language::cuda_texts(kept, news, why_);
    });
    return gpu_ != nullptr;
  }
  const std::string& why_not() const { return why_; }

 private:
  std::atomic<double> least_ = 0;
  std::once_flag looked_for_;
  std::unique_ptr<language::TextExecutor> gpu_;
  std::string why_;
};

/// Whether draws by texts go to a GPU from now on, as far as is known; `why_not`: a clause.
bool draw_texts_on(std::string_view where, std::string& why_not) {
  constexpr double few = 1 << 28;  // below this the CPU is done before a GPU has started
  static TextsOnGpu texts;
  texts.from(where == "gpu" ? 0 : few);
  const bool may = where == "auto" || (where == "gpu" && texts.is_there());
  language::draw_by_text(may ? &texts : nullptr);
  if (!may) why_not = texts.why_not();
  return may;
}

constexpr std::string_view same_bits_on_cpu = "; leave it out, and the CPU judges to the same bits";

}  // namespace

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

std::size_t numbers_of(const Problem& problem) {
  std::size_t all = 0;
  for (const Arrays* arrays : {&problem.inputs, &problem.cotangents})
    for (const auto& [name, array] : *arrays) all += array.data.size();
  return all;
}

/// The memory of a draw, at most, in units of its inputs: states and their adjoints of every chunk.
constexpr std::size_t kept = 12;
int draws_that_fit(const Problem& problem) {
  constexpr std::size_t most = 16;
  const std::size_t of_draw = kept * sizeof(double) * std::max<std::size_t>(numbers_of(problem), 1);
  return static_cast<int>(std::min(most, draw_memory() * 4 / 5 / of_draw));
}
/// Below this the CPU is done before a GPU has started.
int draws_worth_starting(const Problem& problem) {
  constexpr std::size_t few = 1 << 16;
  return numbers_of(problem) < few ? 0 : draws_that_fit(problem);
}

constexpr DrawExecutor always = {drawn_form, draws_that_fit}, worth_it = {drawn_form, draws_worth_starting};

/// Heads of truth at a time; the host has what they find until it is put together.
int slabs_that_fit(std::size_t steps, std::size_t keys, std::size_t values, int words, bool backward) {
  constexpr double most = 16;
  const double of_head = words::bytes_of_blocks(steps, keys, values, words, backward);
  return static_cast<int>(std::min(most, static_cast<double>(draw_memory()) * 4 / 5 / of_head));
}
/// Below this a core is done with a head before a GPU has started.
int slabs_worth_starting(std::size_t steps, std::size_t keys, std::size_t values, int words, bool backward) {
  constexpr std::size_t few = 1 << 22;
  return steps * keys * values < few ? 0 : slabs_that_fit(steps, keys, values, words, backward);
}

constexpr words::SlabExecutor slabs = {slabs_that_fit, run_slabs_on_gpu},
                              slabs_worth_it = {slabs_worth_starting, run_slabs_on_gpu};

}  // namespace

void judge_on(std::string_view where) {
  require_place(where);
  const bool can = where != "cpu" && gpu_available();
  std::string why_not;
  require(draw_texts_on(where, why_not) || can || where != "gpu", "--judge gpu: ", why_not, same_bits_on_cpu);
  draw_with(!can ? nullptr : where == "gpu" ? &always : &worth_it);
  words::slabs_with(!can ? nullptr : where == "gpu" ? &slabs : &slabs_worth_it);
}

const Device* gpu() {
  static const std::optional<Device> device = gpu_available() ? std::optional(device_of(gpu_device())) : std::nullopt;
  return device ? &*device : nullptr;
}
std::string why_no_gpu() { return "no GPU of compute capability 9.0 is present"; }

#else

void judge_on(std::string_view where) {
  require_place(where);
  std::string why_not;
  require(draw_texts_on(where, why_not) || where != "gpu", "--judge gpu: ", why_not, same_bits_on_cpu);
}

const Device* gpu() { return nullptr; }
std::string why_no_gpu() { return "this build has no device kernels: nvcc was not found when it was configured"; }

#endif

}  // namespace assay
