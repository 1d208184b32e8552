#include "language/device/cuda_texts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "language/device/gpu.hpp"
#include "oracles/scalars/emulated.hpp"

namespace assay::language {
namespace {

using device::Address, device::DeviceFailure, device::Driver, device::Entered, device::Gpu, device::made_of,
    device::Stream, device::TextFailure;

/// As the prelude of emitted texts has it.
struct Launch {
  Address inputs, outputs, workspace;
  std::array<int, most_free_lengths> length;
  int heads, segment;
};

constexpr std::size_t aligned_to = 256;
std::size_t padded(std::size_t bytes) { return (bytes + aligned_to - 1) / aligned_to * aligned_to; }

/// How much memory draws may have at once.
class Budget {
 public:
  explicit Budget(std::size_t bytes) : bytes_(bytes) {}
  bool ever_has(std::size_t bytes) const { return bytes <= bytes_; }
  /// Waits until others have given back enough.
  void take(std::size_t bytes) {
    std::unique_lock lock(guard_);
    given_back_.wait(lock, [&] { return taken_ + bytes <= bytes_; });
    taken_ += bytes;
  }
  void give_back(std::size_t bytes) {
    const std::lock_guard lock(guard_);
    taken_ -= bytes;
    given_back_.notify_all();
  }

 private:
  std::mutex guard_;
  std::condition_variable given_back_;
  std::size_t bytes_, taken_ = 0;
};

/// Memory of the GPU for what a stream does, handed out piece by piece. Other streams do not wait for its end, only for
/// the budget, which has to have that much.
class Memory {
 public:
  Memory(const Gpu& gpu, Budget& budget, std::size_t bytes, const Stream& stream)
      : gpu_(gpu), budget_(budget), bytes_(bytes), stream_(stream) {
    budget.take(bytes);
    const Driver::Status status = gpu.driver().allocate(&first_, bytes, stream.get());
    if (status != 0) budget.give_back(bytes);
    gpu.must(status);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    gpu_.driver().release(first_, stream_.get());
    budget_.give_back(bytes_);
  }
  Address take(std::size_t bytes) {
    const Address here = first_ + taken_;
    taken_ += padded(bytes);
    return here;
  }

 private:
  const Gpu& gpu_;
  Budget& budget_;
  std::size_t bytes_;
  const Stream& stream_;
  Address first_ = 0;
  std::size_t taken_ = 0;
};

/// A text that was compiled for how draws err and the lengths of its axes but those that are the launch's.
struct Compiled {
  Driver::Handle run = nullptr, ask = nullptr;  ///< none if the GPU does not take it
  unsigned threads = 1, shared_bytes = 0;
  std::map<decltype(Launch::length), std::size_t> workspace;  ///< bytes that a block needs, by the lengths
};

class CudaTexts final : public TextExecutor {
 public:
  CudaTexts(const Driver& driver, KeptTexts kept, GpuNews news)
      : gpu_(driver), kept_(std::move(kept)), news_(std::move(news)), budget_(gpu_.free_memory() / 5 * 4) {}

  std::string name() const override { return gpu_.name(); }
  bool is_worth(double) override { return !has_failed_; }
  bool run(const Emitted& text, TextRun& run) override {
    try {
      const Entered entered(gpu_);
      return launch(text, run);
    } catch (const DeviceFailure& failure) {
      if (!has_failed_.exchange(true)) news_.fails(failure.what());
      return false;
    }
  }

 private:
  std::vector<std::string> options_of(const Emitted& text, const TextRun& run) const {
    std::vector<std::string> options = options_of_same_bits(gpu_);
    options.insert(options.end(), {"--std=c++17", fmt::format("-DASSAY_CUT_OFF={}", run.draw.shift != 0 ? 1 : 0),
                                   fmt::format("-DASSAY_NARROW={}", run.draw.narrow),
                                   fmt::format("-DASSAY_EVERY={}", run.draw.every)});
    for (const std::string& macro : text.macros) {
      const std::string axis = macro.substr(std::string_view("ASSAY_").size());
      options.push_back(fmt::format("-D{}={}", macro, extent_of({axis, 0}, run.sizes)));
    }
    return options;
  }

  Compiled& find(const Emitted& text, const TextRun& run) {
    const std::vector<std::string> options = options_of(text, run);
    const std::string key = fmt::format("{}", fmt::join(options, " ")) + text.text;
    const auto known = compiled_.find(key);
    if (known != compiled_.end()) return known->second;
    const std::string program = text.name.substr(std::string_view("assay_").size());
    try {
      return compiled_[key] = made_of<Compiled>(
                 gpu_, kept_, {text.text, options}, [&] { news_.compiles(program); },
                 [&](const std::string& binary) { return loaded(text, binary); });
    } catch (const TextFailure& failure) {
      news_.refuses(program, failure.what());
      return compiled_[key] = {};
    }
  }

  Compiled loaded(const Emitted& text, const std::string& binary) const {
    constexpr int dynamic_shared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    const Driver& d = gpu_.driver();
    Driver::Handle module = nullptr;
    gpu_.must(d.load_module(&module, binary.data()));
    Compiled one;
    gpu_.must(d.get_function(&one.run, module, text.name.c_str()));
    gpu_.must(d.get_function(&one.ask, module, (text.name + "_workspace").c_str()));
    Address block = 0;
    std::size_t bytes = 0;
    gpu_.must(d.get_global(&block, &bytes, module, (text.name + "_block").c_str()));
    std::array<std::int64_t, 2> numbers{};
    const Stream stream(gpu_);
    gpu_.must(d.to_host(numbers.data(), block, sizeof numbers, stream.get()));
    stream.wait();
    one.threads = static_cast<unsigned>(numbers[0]);
    one.shared_bytes = static_cast<unsigned>(numbers[1]) * static_cast<unsigned>(sizeof(double));
    if (d.set_attribute(one.run, dynamic_shared, static_cast<int>(one.shared_bytes)) != 0)
      throw TextFailure("it needs more shared memory than there is");
    return one;
  }

  /// The bytes of workspace that a block needs.
  std::size_t asked(const Compiled& text, Launch launch) {
    std::int64_t numbers = 0;
    const Stream stream(gpu_);
    Memory memory(gpu_, budget_, sizeof numbers, stream);
    Address to = memory.take(sizeof numbers);
    void* arguments[] = {&launch, &to};
    gpu_.must(gpu_.driver().launch(text.ask, 1, 1, 1, 1, 1, 1, 0, stream.get(), arguments, nullptr));
    gpu_.must(gpu_.driver().to_host(&numbers, to, sizeof numbers, stream.get()));
    stream.wait();
    return static_cast<std::size_t>(numbers) * sizeof(double);
  }

  /// The compiled text, and the workspace of a block. Throws DeviceFailure if something has failed meanwhile.
  std::pair<Compiled, std::size_t> prepared(const Emitted& text, const TextRun& run, const Launch& launch) {
    const std::lock_guard lock(guard_);  // others want the same one
    if (has_failed_) throw DeviceFailure("it has failed before");
    Compiled& compiled = find(text, run);
    if (compiled.run == nullptr) return {compiled, 0};
    auto known = compiled.workspace.find(launch.length);
    if (known == compiled.workspace.end())
      known = compiled.workspace.emplace(launch.length, asked(compiled, launch)).first;
    return {compiled, known->second};
  }

  bool launch(const Emitted& text, TextRun& run) {
    constexpr int steps_of_segment = 64;
    Launch launch{};
    for (std::size_t i = 0; i < text.lengths.size(); ++i) launch.length[i] = extent_of({text.lengths[i], 0}, run.sizes);
    launch.heads = run.heads, launch.segment = steps_of_segment;
    const auto [compiled, of_block] = prepared(text, run, launch);
    if (compiled.run == nullptr) return false;
    const std::size_t work = of_block * static_cast<std::size_t>(run.heads);
    std::size_t bytes = padded(work);
    const auto add = [&bytes](const auto& arrays) {
      bytes += padded(arrays.size() * sizeof(Address));
      for (const auto& array : arrays) bytes += padded(array.size() * sizeof(double));
    };
    static_assert(sizeof(Emulated) == sizeof(double) && std::is_trivially_copyable_v<Emulated>);
    add(run.inputs), add(run.outputs);
    if (!budget_.ever_has(bytes)) return false;
    const Stream stream(gpu_);
    Memory memory(gpu_, budget_, bytes, stream);
    launch.workspace = memory.take(work);
    const std::vector<Address> inputs = places(memory, run.inputs), outputs = places(memory, run.outputs);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      put(inputs[i], run.inputs[i].data(), run.inputs[i].size() * sizeof(double), stream);
    launch.inputs = list(memory, inputs, stream), launch.outputs = list(memory, outputs, stream);
    void* arguments[] = {&launch, &run.draw};
    gpu_.must(gpu_.driver().launch(compiled.run, static_cast<unsigned>(run.heads), 1, 1, compiled.threads, 1, 1,
                                   compiled.shared_bytes, stream.get(), arguments, nullptr));
    stream.wait();
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (!run.outputs[i].empty())
        gpu_.must(gpu_.driver().to_host(run.outputs[i].data(), outputs[i], run.outputs[i].size() * sizeof(double),
                                        stream.get()));
    stream.wait();
    return true;
  }

  void put(Address to, const void* from, std::size_t bytes, const Stream& stream) const {
    if (bytes > 0) gpu_.must(gpu_.driver().to_device(to, from, bytes, stream.get()));
  }
  template <class Arrays>
  static std::vector<Address> places(Memory& memory, const Arrays& arrays) {
    std::vector<Address> places;
    for (const auto& array : arrays) places.push_back(memory.take(array.size() * sizeof(double)));
    return places;
  }
  /// The addresses themselves, where the GPU finds them.
  Address list(Memory& memory, const std::vector<Address>& places, const Stream& stream) const {
    const Address at = memory.take(places.size() * sizeof(Address));
    put(at, places.data(), places.size() * sizeof(Address), stream);
    return at;
  }

  Gpu gpu_;
  KeptTexts kept_;
  GpuNews news_;
  std::atomic<bool> has_failed_ = false;
  Budget budget_;
  std::mutex guard_;
  std::map<std::string, Compiled> compiled_;
};

}  // namespace

std::unique_ptr<TextExecutor> cuda_texts(KeptTexts kept, GpuNews news, std::string& why) {
  return device::on_the_gpu(
      why, [&](const Driver& driver) { return std::make_unique<CudaTexts>(driver, std::move(kept), std::move(news)); });
}

}  // namespace assay::language
