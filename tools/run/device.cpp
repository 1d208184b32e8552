#include "tools/run/device.hpp"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>

#include "judge/court/cache.hpp"
#include "kernels/draws/drawn.hpp"
#include "kernels/draws/gpu_draws.hpp"
#include "kernels/gpu/gpu.hpp"
#include "language/device/cuda_texts.hpp"
#include "language/device/driver.hpp"
#include "language/device/slabs.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"

namespace assay {
namespace {

void require_place(std::string_view where) {
  require(where == "auto" || where == "cpu" || where == "gpu", "judge: expected auto, cpu or gpu, got ", where);
}

language::KeptTexts kept_texts() {
  const auto cache = std::make_shared<Cache>();
  return {[cache](const std::string& what) { return cache->find(what); },
          [cache](const std::string& what, std::string_view bytes) { cache->keep(what, bytes); }};
}
/// What standard error says; `seconds`: about, of a compilation.
language::GpuNews news(int seconds) {
  return {[seconds](const std::string& what) {
            std::cerr << text("assay: compiles ", what, " for the GPU, once, which takes about ", seconds, " s\n");
          },
          [](const std::string& what, const std::string& why) {
            std::cerr << text("assay: the CPU does ", what, ", because the GPU does not take it: ", why, '\n');
          },
          [](const std::string& why) {
            std::cerr << text("assay: the CPU goes on, because the GPU has failed: ", why, '\n');
          }};
}

/// What draws on the GPU, which is looked for when the first draw is worth it.
template <class Executor>
class OnGpu {
 public:
  using Find = std::unique_ptr<Executor> (*)(std::string& why);
  explicit OnGpu(Find find) : find_(find) {}

  Executor* there() {
    std::call_once(looked_for_, [this] { gpu_ = find_(why_); });
    return gpu_.get();
  }
  const std::string& why_not() const { return why_; }

 private:
  Find find_;
  std::once_flag looked_for_;
  std::unique_ptr<Executor> gpu_;
  std::string why_;
};

/// Draws by texts.
class TextsOnGpu final : public language::TextExecutor {
 public:
  /// From now on draws of fewer multiplications are the CPU's.
  void from(double multiplications) { least_ = multiplications; }

  std::string name() const override { return "the GPU"; }
  bool is_worth(double multiplications) override {
    return multiplications >= least_ && gpu.there() != nullptr && gpu.there()->is_worth(multiplications);
  }
  bool run(const language::Emitted& text, language::TextRun& run) override { return gpu.there()->run(text, run); }

  OnGpu<language::TextExecutor> gpu{[](std::string& why) { return language::cuda_texts(kept_texts(), news(2), why); }};

 private:
  std::atomic<double> least_ = 0;
};

/// Draws of tile programs.
class TilesOnGpu final : public DrawExecutor {
 public:
  /// From now on draws of fewer numbers are the CPU's.
  void from(std::size_t numbers) { least_ = numbers; }

  int at_once(const Problem& problem) override {
    return numbers_of(problem) < least_ || gpu_.there() == nullptr ? 0 : gpu_.there()->at_once(problem);
  }
  Answer run(const KernelForm& form, const Problem& problem, const Policy& policy, int tile) override {
    return gpu_.there()->run(form, problem, policy, tile);
  }

 private:
  OnGpu<DrawExecutor> gpu_{[](std::string& why) { return gpu_draws(kept_texts(), news(10), why); }};
  std::atomic<std::size_t> least_ = 0;
};

OnGpu<language::SlabsOnGpu>& slabs_there() {
  static OnGpu<language::SlabsOnGpu> gpu{
      [](std::string& why) { return language::slabs_on_gpu(kept_texts(), news(2), why); }};
  return gpu;
}
int slabs_at_once(std::size_t steps, std::size_t keys, std::size_t values, int words, bool backward) {
  language::SlabsOnGpu* const gpu = slabs_there().there();
  return gpu == nullptr ? 0 : gpu->at_once(steps, keys, values, words, backward);
}
/// Below this a core is done with a head before a GPU has started.
int slabs_worth_starting(std::size_t steps, std::size_t keys, std::size_t values, int words, bool backward) {
  constexpr std::size_t few = 1 << 22;
  return steps * keys * values < few ? 0 : slabs_at_once(steps, keys, values, words, backward);
}
bool run_slabs(words::SlabRun& run) { return slabs_there().there()->run(run); }
constexpr words::SlabExecutor slabs = {slabs_at_once, run_slabs}, slabs_worth_it = {slabs_worth_starting, run_slabs};

/// Whether draws and truth go to a GPU from now on, as far as is known; `why_not`: a clause.
bool draw_on(std::string_view where, std::string& why_not) {
  constexpr double few = 1 << 28;  // below these the CPU is done before a GPU has started
  constexpr std::size_t few_numbers = 1 << 16;
  static TextsOnGpu texts;
  static TilesOnGpu tiles;
  texts.from(where == "gpu" ? 0 : few), tiles.from(where == "gpu" ? 0 : few_numbers);
  const bool may = where == "auto" || (where == "gpu" && texts.gpu.there() != nullptr);
  language::draw_by_text(may ? &texts : nullptr);
  draw_with(may ? &tiles : nullptr);
  words::slabs_with(!may ? nullptr : where == "gpu" ? &slabs : &slabs_worth_it);
  if (!may) why_not = texts.gpu.why_not();
  return may;
}

constexpr std::string_view same_bits_on_cpu = "; leave it out, and the CPU judges to the same bits";

}  // namespace

void judge_on(std::string_view where) {
  require_place(where);
  std::string why_not;
  require(draw_on(where, why_not) || where != "gpu", "--judge gpu: ", why_not, same_bits_on_cpu);
}

namespace {

Device device_of(const GpuDevice& found) {
  Device device;
  device.name = found.name;
  device.versions = "driver " + found.driver + ", " + found.compiler;
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
    return run_on_gpu(*find_gpu_form(room, form.name), problem, precision);
  };
  return device;
}

}  // namespace

const Device* gpu() {
  static const std::optional<Device> device =
      why_no_gpu().empty() ? std::optional(device_of(gpu_device())) : std::nullopt;
  return device ? &*device : nullptr;
}
std::string why_no_gpu() {
  static const std::string found = [] {
    std::string why;
    const auto nobody = [](const auto&...) {};  // what is refused is an error
    // The cache is nobody's business where there is no driver.
    const bool there = language::device::Driver::find(why) != nullptr &&
                       open_gpu(kept_texts(), {news(10).compiles, nobody, nobody}, why);
    return there ? "" : why;
  }();
  return found;
}

}  // namespace assay
