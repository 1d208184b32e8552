#include "language/device/gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace assay::language::device {

Gpu::Gpu(const Driver& driver) : driver_(driver) {
  constexpr int processors = 16, major = 75, minor = 76, shared = 97;  // CU_DEVICE_ATTRIBUTE_...
  int device = 0, first = 0, second = 0;
  must(driver.init(0)), must(driver.device_get(&device, 0));
  must(driver.device_attribute(&multiprocessors_, processors, device));
  must(driver.device_attribute(&most_shared_, shared, device));
  must(driver.device_attribute(&first, major, device)), must(driver.device_attribute(&second, minor, device));
  architecture_ = fmt::format("sm_{}{}", first, second);
  must(driver.retain_context(&context_, device));
  constexpr int longest = 256;
  std::array<char, longest> letters{};
  must(driver.device_name(letters.data(), longest, device));
  name_ = letters.data();
  // While streams work, freed memory stays with this process: draws ask for the same sizes again and again.
  constexpr int release_threshold = 4;  // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
  std::uint64_t all = ~std::uint64_t{0};
  must(driver.default_pool(&pool_, device)), must(driver.set_pool(pool_, release_threshold, &all));
}

std::size_t Gpu::free_memory() const {
  const Entered entered(*this);
  std::size_t free = 0, total = 0;
  must(driver_.memory_info(&free, &total));
  return free;
}

void Gpu::must(Driver::Status status) const {
  if (status == 0) return;
  const char* text = nullptr;
  driver_.error_text(status, &text);
  throw DeviceFailure(text == nullptr ? "an error of CUDA" : text);
}

Stream::Stream(const Gpu& gpu) : gpu_(gpu) {
  gpu.must(gpu.driver().create_stream(&stream_, 1));
  ++gpu.streams_;
}
Stream::~Stream() {
  if (!is_own_) return;
  gpu_.driver().synchronise(stream_);  // what it copies lives until then
  gpu_.driver().destroy_stream(stream_);
  if (--gpu_.streams_ == 0) gpu_.driver().trim_pool(gpu_.pool_, 0);  // others in this process want memory, too
}

std::shared_ptr<double> memory_on(const std::shared_ptr<Stream>& stream, std::size_t numbers) {
  Address at = 0;
  const Driver& d = stream->gpu().driver();
  if (d.allocate(&at, std::max<std::size_t>(numbers, 1) * sizeof(double), stream->get()) != 0) return nullptr;
  return {reinterpret_cast<double*>(at),  // NOLINT(performance-no-int-to-ptr): CUDA's addresses are numbers
          [stream](double* p) { stream->gpu().driver().release(address_of(p), stream->get()); }};
}

std::vector<std::string> options_of_same_bits(const Gpu& gpu) {
  return {"--fmad=false", "--device-as-default-execution-space", "--gpu-architecture=" + gpu.architecture()};
}

std::string what_is_compiled(const Gpu& gpu, const Source& source) {
  int major = 0, minor = 0;
  gpu.driver().compiler_version(&major, &minor);
  std::string what = fmt::format("text nvrtc {}.{} {}", major, minor, source.digest_of_files);
  for (const std::string& option : source.options) what += ' ' + option;
  return what + '\n' + source.text;
}

std::string compiled(const Gpu& gpu, const Source& source) {
  const Driver& d = gpu.driver();
  Driver::Handle program = nullptr;
  if (d.create_program(&program, source.text.c_str(), "draws.cu", static_cast<int>(source.files.size()),
                       source.files.data(), source.names.data()) != 0)
    throw DeviceFailure("its compiler does not start");
  std::vector<const char*> list;
  for (const std::string& option : source.options) list.push_back(option.c_str());
  std::string binary, log;
  std::size_t bytes = 0;
  if (d.compile(program, static_cast<int>(list.size()), list.data()) == 0 && d.binary_size(program, &bytes) == 0) {
    binary.resize(bytes);
    if (d.binary(program, binary.data()) != 0) binary.clear();
  } else if (d.log_size(program, &bytes) == 0) {
    log.resize(bytes);
    d.log(program, log.data());
  }
  d.destroy_program(&program);
  if (binary.empty()) throw TextFailure("its compiler says: " + log.substr(0, log.find('\n')));
  return binary;
}

}  // namespace assay::language::device
