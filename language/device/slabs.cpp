#include "language/device/slabs.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "language/device/programs.hpp"
#include "oracles/multiword/blocks/delta_blocks.hpp"
#include "reference/core/error.hpp"

namespace assay::language {

using device::address_of, device::DeviceFailure, device::Driver, device::Entered, device::Gpu, device::memory_on,
    device::Program, device::Programs, device::Stream;

struct SlabsOnGpu::Parts {
  Gpu gpu;
  std::size_t memory;
  GpuNews news;
  Programs programs;
  std::mutex compiling{};
  std::atomic<bool> has_failed = false;

  Parts(const Driver& driver, KeptTexts kept, GpuNews told)
      : gpu(driver), memory(gpu.free_memory()), news(std::move(told)), programs(gpu, std::move(kept), news.refuses) {}

  Program program(int words) {
    const std::lock_guard lock(compiling);  // others want the same
    const std::string what = text("truth in ", words, " words");
    return programs.find("#include \"oracles/multiword/blocks/on_device.hpp\"\n", text("ASSAY_SLABS(", words, ')'),
                         what, [&] { news.compiles(what); });
  }
  void fail(const std::string& why) {
    if (!has_failed.exchange(true)) news.fails(why);
  }
};

SlabsOnGpu::SlabsOnGpu(const Driver& driver, KeptTexts kept, GpuNews news)
    : parts_(std::make_unique<Parts>(driver, std::move(kept), std::move(news))) {}
SlabsOnGpu::~SlabsOnGpu() = default;

int SlabsOnGpu::at_once(std::size_t steps, std::size_t keys, std::size_t values, int words, bool backward) const {
  if (parts_->has_failed) return 0;
  constexpr double most = 16;  // the host has what they find until it is put together
  const double of_head = words::bytes_of_blocks(steps, keys, values, words, backward);
  return static_cast<int>(std::min(most, static_cast<double>(parts_->memory) * 4 / 5 / of_head));
}

bool SlabsOnGpu::run(words::SlabRun& run) try {
  const Gpu& gpu = parts_->gpu;
  const Entered entered(gpu);
  const Program program = parts_->program(run.prepared.words);
  if (!program.why.empty()) return false;
  const words::BlocksRun blocks(run);
  const auto stream = std::make_shared<Stream>(gpu);
  const auto up = memory_on(stream, blocks.up().size()), work = memory_on(stream, blocks.work()),
             down = memory_on(stream, blocks.down());
  if (up == nullptr || work == nullptr || down == nullptr) return false;
  stream->upload(address_of(up.get()), blocks.up().data(), blocks.up().size() * sizeof(double));
  words::DeltaBlocks x = blocks.arguments(up.get(), work.get(), down.get());
  if (program.start.arguments != sizeof x) throw std::logic_error("arguments of slabs are not the device's");
  constexpr int dynamic_shared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  const std::size_t close = words::block_close(x.keys, static_cast<std::size_t>(run.prepared.words)) * sizeof(double);
  int is_close = close + program.start.shared * sizeof(double) <= gpu.most_shared() ? 1 : 0;
  const std::size_t shared = is_close != 0 ? close : 0;
  gpu.must(gpu.driver().set_attribute(program.run, dynamic_shared, static_cast<int>(shared)));
  void* arguments[] = {&x, &is_close};
  gpu.must(gpu.driver().launch(program.run, static_cast<unsigned>(blocks.blocks()), 1, 1,
                               static_cast<unsigned>(program.start.threads), 1, 1, static_cast<unsigned>(shared),
                               stream->get(), arguments, nullptr));
  std::vector<double> found(blocks.down());
  stream->download(found.data(), address_of(down.get()), found.size() * sizeof(double));
  blocks.take(found, run);
  return true;
} catch (const DeviceFailure& failure) {
  parts_->fail(failure.what());
  return false;
}

std::unique_ptr<SlabsOnGpu> slabs_on_gpu(KeptTexts kept, GpuNews news, std::string& why) {
  return device::on_the_gpu(why, [&](const Driver& driver) {
    return std::make_unique<SlabsOnGpu>(driver, std::move(kept), std::move(news));
  });
}

}  // namespace assay::language
