#include "kernels/gpu/launches.hpp"

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "kernels/core/pack.hpp"
#include "kernels/core/type_name.hpp"
#include "reference/core/error.hpp"

namespace assay::tile {
namespace {

thread_local const GpuRun* of_thread = nullptr;

std::string line_of(const char* kind, const std::type_info& type) { return text(kind, '(', type_name(type), ')'); }

/// Contracts let a device fuse products with sums, and warpgroups are of one architecture.
std::vector<std::string> options(const language::device::Gpu& gpu) {
  return {"--std=c++20", "--device-as-default-execution-space", "--gpu-architecture=" + gpu.architecture() + "a"};
}

}  // namespace

GpuKernels::GpuKernels(const language::device::Driver& driver, language::KeptTexts kept, language::GpuNews news)
    : gpu_(driver), news_(std::move(news)), programs_(gpu_, std::move(kept), news_.refuses, options(gpu_)) {}

void GpuKernels::make(const std::set<std::string>& lines, const std::string& what) {
  programs_.make(code, lines, what, [&](std::size_t missing) { news_.compiles(text(missing, " kernels of ", what)); });
}

language::device::Program GpuKernels::find(const char* kind, const std::type_info& type) {
  const std::lock_guard lock(guard_);
  language::device::Program& program = found_[{kind, &type}];
  if (program.run == nullptr) {
    const std::string line = line_of(kind, type);
    program = programs_.find(code, line, line, [] {});
    if (program.run == nullptr) throw DeviceError(text("a kernel does not compile: ", program.why, " (", line, ")"));
  }
  return program;
}

void GpuRun::launch(const char* kind, const std::type_info& type, std::size_t blocks,
                    std::span<const void* const> arguments, std::size_t bytes) const {
  if (lists()) {
    const std::lock_guard lock(guard_);
    lines_->insert(line_of(kind, type));
    return;
  }
  if (rests()) return;
  const language::device::Program program = kernels_->find(kind, type);
  if (program.start.arguments != bytes)
    throw std::logic_error("arguments of a kernel are not the device's: " + line_of(kind, type));
  // CUDA's, which reads them.
  auto** const read = const_cast<void**>(arguments.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  gpu().must(gpu().driver().launch(
      program.run, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(program.start.threads), 1, 1,
      static_cast<unsigned>(program.start.shared * sizeof(double)), stream_->get(), read, nullptr));
}

GpuMemory GpuRun::memory(std::size_t bytes) const {
  GpuMemory memory{nullptr, requests_++};
  ForwardMemory* const forward = tensors_ == nullptr ? nullptr : tensors_->forward;
  if (tensors_ != nullptr && tensors_->results.contains(memory.request)) {
    const auto& [name, tensor] = tensors_->results.at(memory.request);
    const std::size_t room = tensor.count * static_cast<std::size_t>(info(tensor.format).bits) / 8;
    require(room == bytes, name, ": expected room for ", bytes, " bytes, got ", room);
    memory.at = {static_cast<double*>(tensor.data), [](double*) {}}, memory.beside = tensor.beside;
  } else if (rests()) {
    return is_backward_ && forward != nullptr ? forward->arrays.at(memory.request) : memory;
  } else {
    memory.at = language::device::memory_on(stream_, (bytes + sizeof(double) - 1) / sizeof(double));
    if (memory.at == nullptr) throw DeviceError(text("the GPU has no room for ", bytes, " bytes"));
  }
  if (forward != nullptr && !is_backward_) forward->arrays.push_back(memory);
  return memory;
}

const GpuTensor& GpuRun::given(std::string_view name, const std::array<int, 3>& expected, Format format) const {
  const auto found = tensors_->given.find(name);
  require(found != tensors_->given.end(), name, ": its numbers are nowhere");
  const auto& [heads, rows, cols] = expected;
  const auto count = static_cast<std::size_t>(heads) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  require(found->second.count == count, name, ": expected ", heads, " heads of ", rows, " x ", cols, " numbers, got ",
          found->second.count);
  require(found->second.format == format, name, ": expected ", name_of(format), ", got ",
          name_of(found->second.format));
  return found->second;
}

const GpuRun& GpuRun::current() {
  if (of_thread == nullptr) throw std::logic_error("a kernel is launched outside of a run");
  return *of_thread;
}

InRun::InRun(const GpuRun& run)
    : entered_(run.lists() ? nullptr : std::make_unique<language::device::Entered>(run.gpu())) {
  of_thread = &run;
}
InRun::~InRun() { of_thread = nullptr; }

double run_timed(int repetitions, const std::function<void()>& launches) {
  launches();
  if (repetitions == 0) return 0;
  const GpuRun& run = GpuRun::current();
  const language::device::Driver& d = run.gpu().driver();
  const auto must = [&](language::device::Driver::Status status) { run.gpu().must(status); };
  language::device::Driver::Handle begin = nullptr, end = nullptr;
  must(d.create_event(&begin, 0)), must(d.create_event(&end, 0));
  must(d.record(begin, run.stream()->get()));
  for (int i = 0; i < repetitions; ++i) launches();
  must(d.record(end, run.stream()->get())), must(d.await_event(end));
  float milliseconds = 0;
  must(d.milliseconds(&milliseconds, begin, end));
  must(d.destroy_event(begin)), must(d.destroy_event(end));
  return static_cast<double>(milliseconds) / repetitions;
}

namespace {

/// The launch of a sequence of a pack.
struct PackedLaunch : pack::Request {
  const BlocksLaunch& launch;
  explicit PackedLaunch(const BlocksLaunch& what) : launch(what) {}
};

/// One launch for the sequences that have come to it.
void launch_packed(std::span<pack::Request* const> requests) {
  const BlocksLaunch& like = static_cast<const PackedLaunch&>(*requests[0]).launch;
  std::vector<std::byte> sequences(requests.size() * like.sequence_bytes);
  std::byte* next = sequences.data();
  int blocks = 0;
  for (const pack::Request* request : requests) {
    const BlocksLaunch& launch = static_cast<const PackedLaunch&>(*request).launch;
    std::memcpy(next, launch.args, launch.args_bytes);
    std::memcpy(next + launch.grid_at, launch.grid, launch.grid_bytes);
    std::memcpy(next + launch.first_at, &blocks, sizeof blocks);
    next += launch.sequence_bytes;
    blocks += launch.blocks;
  }
  if (blocks == 0) return;
  const GpuRun& run = GpuRun::current();
  const auto table = run.memory(sequences.size()).at;
  const language::device::Address address = language::device::address_of(table.get());
  if (!run.lists()) run.stream()->upload(address, sequences.data(), sequences.size()), run.stream()->wait();
  const int count = static_cast<int>(requests.size());
  const void* const arguments[] = {&address, &count};
  run.launch("ASSAY_PACK", like.type, static_cast<std::size_t>(blocks), arguments, like.sequence_bytes);
}

}  // namespace

void launch_blocks(const BlocksLaunch& launch, bool packs) {
  if (packs && pack::active()) {
    PackedLaunch request(launch);
    return pack::meet(pack::Place{launch_packed, reinterpret_cast<std::intptr_t>(&launch.type)}, request);
  }
  if (launch.blocks == 0) return;
  const void* const arguments[] = {launch.args, launch.grid};
  GpuRun::current().launch("ASSAY_LAUNCH", launch.type, static_cast<std::size_t>(launch.blocks), arguments,
                           launch.args_bytes);
}

void take_turns(const std::type_info& type, const void* turn, std::size_t bytes, std::size_t n) {
  constexpr std::size_t threads = 256;
  if (n == 0) return;
  const void* const arguments[] = {turn, &n};
  GpuRun::current().launch("ASSAY_TURNS", type, (n + threads - 1) / threads, arguments, bytes);
}

}  // namespace assay::tile
