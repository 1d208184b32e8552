#include "kernels/draws/gpu_draws.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>

#include "kernels/core/batch.hpp"
#include "kernels/core/once_per_kind.hpp"
#include "language/device/programs.hpp"

namespace assay {
namespace {

using language::device::address_of, language::device::DeviceFailure, language::device::Driver,
    language::device::Entered, language::device::Gpu, language::device::Program, language::device::Programs,
    language::device::Stream;
using tile::TileDevice;

/// What the programs of a form are compiled from.
std::string code_of(const KernelForm& form) {
  std::string code = "#include \"kernels/draws/on_device.hpp\"\n";
  if (is_with_arguments(form)) code += "#include \"kernels/frontends/on_device.hpp\"\n";
  return code;
}

/// Remembers which programs a draw asks for. Its memory is nobody's.
class Listing final : public TileDevice {
 public:
  std::set<std::string> lines;

  Memory memory(std::size_t) override { return {std::shared_ptr<void>(), &nowhere_}; }
  Memory memory_of(const std::vector<double>&) override { return memory(0); }
  void upload(const Memory&, const void*, std::size_t) override {}
  /// Ones: plans refuse decays of zero.
  void download(void* to, const Memory&, std::size_t bytes) override {
    std::fill_n(static_cast<double*>(to), bytes / sizeof(double), 1.0);
  }
  void launch(const std::string& program, const draws::TileLaunch&, const void*, std::size_t) override {
    lines.insert(program);
  }

 private:
  double nowhere_ = 0;
};

/// Inputs that several draws read at a time: uploaded once, and kept as long as one of them has them.
class Shared {
 public:
  template <class Upload>
  TileDevice::Memory find(const double* values, Upload uploaded) {
    const std::lock_guard lock(guard_);
    std::erase_if(present_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<double>& known = present_[values];
    TileDevice::Memory memory = known.lock();
    if (memory == nullptr) known = memory = uploaded();
    return memory;
  }

 private:
  std::mutex guard_;
  std::map<const double*, std::weak_ptr<double>> present_;
};

/// One draw on the GPU, which its thread has entered.
class Draw final : public TileDevice {
 public:
  Draw(const Gpu& gpu, const KernelForm& form, Programs& programs, Shared& shared)
      : gpu_(gpu), code_(code_of(form)), programs_(programs), shared_(shared), stream_(std::make_shared<Stream>(gpu)) {}

  Memory memory(std::size_t numbers) override {
    Memory all = language::device::memory_on(stream_, numbers);
    if (all == nullptr) throw NotDrawn("the GPU has no memory left for a draw");
    return all;
  }
  Memory memory_of(const std::vector<double>& values) override {
    return shared_.find(values.data(), [&] { return holding(values); });
  }
  void upload(const Memory& to, const void* from, std::size_t bytes) override {
    stream_->upload(address_of(to.get()), from, bytes);
    stream_->wait();  // what it comes from may be gone afterwards, and other streams may read it
  }
  void download(void* to, const Memory& from, std::size_t bytes) override {
    stream_->download(to, address_of(from.get()), bytes);
  }
  void launch(const std::string& line, const draws::TileLaunch& asked, const void* arguments,
              std::size_t bytes) override {
    if (asked.blocks == 0 && asked.elements == 0) return;
    const Program program = programs_.find(code_, line, line, [] {});
    if (program.run == nullptr) throw NotDrawn(program.why);
    if (program.start.arguments != bytes) throw std::logic_error("arguments of a draw are not the device's");
    constexpr std::size_t most_blocks = 4096;
    draws::TileLaunch launch = asked;
    const std::size_t threads = program.start.threads, turns = (asked.elements + threads - 1) / threads;
    launch.at_once =
        static_cast<int>(turns > 0 ? std::min(turns, most_blocks)
                                   : std::min<std::size_t>(static_cast<std::size_t>(asked.blocks),
                                                           2 * static_cast<std::size_t>(gpu_.multiprocessors())));
    const Memory own = memory(turns > 0 ? 0 : static_cast<std::size_t>(launch.at_once) * program.start.own);
    launch.memory = own.get();
    void* both[] = {&launch, const_cast<void*>(arguments)};  // NOLINT(cppcoreguidelines-pro-type-const-cast): CUDA's
    gpu_.must(gpu_.driver().launch(
        program.run, static_cast<unsigned>(launch.at_once), 1, 1, static_cast<unsigned>(threads), 1, 1,
        static_cast<unsigned>(program.start.shared * sizeof(double)), stream_->get(), both, nullptr));
  }

 private:
  const Gpu& gpu_;
  std::string code_;
  Programs& programs_;
  Shared& shared_;
  std::shared_ptr<Stream> stream_;
};

class TileDraws final : public DrawExecutor {
 public:
  TileDraws(const Driver& driver, language::KeptTexts kept, language::GpuNews news)
      : gpu_(driver),
        memory_(gpu_.free_memory()),
        news_(std::move(news)),
        programs_(gpu_, std::move(kept), news_.refuses) {}

  int at_once(const Problem& problem) override {
    constexpr std::size_t most = 16, kept = 12;  // states and adjoints of every chunk, in units of the inputs
    const std::size_t numbers = numbers_of(problem);
    if (has_failed_) return 0;
    return static_cast<int>(
        std::min(most, memory_ * 4 / 5 / (kept * sizeof(double) * std::max<std::size_t>(numbers, 1))));
  }

  Answer run(const KernelForm& form, const Problem& problem, const Policy& policy, int tile) override {
    try {
      prepare(form, problem, policy, tile);
      const Entered entered(gpu_);
      Draw draw(gpu_, form, programs_, shared_);
      const tile::OnDevice here(draw);
      return form.run(problem, policy, tile);
    } catch (const DeviceFailure& failure) {
      if (!has_failed_.exchange(true)) news_.fails(failure.what());
      throw NotDrawn(failure.what());
    }
  }

 private:
  /// Compiles what the first draw of a form asks for, side by side.
  void prepare(const KernelForm& form, const Problem& problem, const Policy& policy, int tile) {
    prepared_.get(
        text(reinterpret_cast<std::uintptr_t>(&form), ' ', tile, kind_of(problem)), [&](const tile::Nothing&) {
          Listing listing;
          {
            const tile::OnDevice here(listing);
            form.run(problem, policy, tile);
          }
          programs_.make(code_of(form), listing.lines, std::string(form.name),
                         [&](std::size_t missing) { news_.compiles(text(missing, " tile programs of ", form.name)); });
        });
  }

  Gpu gpu_;
  std::size_t memory_;
  language::GpuNews news_;
  Programs programs_;
  Shared shared_;
  std::atomic<bool> has_failed_ = false;
  OncePerKind<tile::Nothing> prepared_;
};

}  // namespace

std::size_t numbers_of(const Problem& problem) {
  std::size_t all = 0;
  for (const Arrays* arrays : {&problem.inputs, &problem.cotangents})
    for (const auto& [name, array] : *arrays) all += array.data.size();
  return all;
}

std::unique_ptr<DrawExecutor> gpu_draws(language::KeptTexts kept, language::GpuNews news, std::string& why) {
  return language::device::on_the_gpu(
      why, [&](const Driver& driver) { return std::make_unique<TileDraws>(driver, std::move(kept), std::move(news)); });
}

}  // namespace assay
