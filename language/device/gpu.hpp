#pragma once
// The GPU that a process sees first, and code that its compiler makes at first use.
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "language/device/driver.hpp"

namespace assay::language {

/// Where compiled texts are kept from one process to the next.
struct KeptTexts {
  std::function<std::optional<std::string>(const std::string& what)> find;
  std::function<void(const std::string& what, std::string_view bytes)> keep;
};

/// Told what takes time, of what the CPU does, since the GPU does not take it, and of the first failure, after which
/// the CPU does all.
struct GpuNews {
  std::function<void(const std::string& what)> compiles;
  std::function<void(const std::string& what, const std::string& why)> refuses;
  std::function<void(const std::string& why)> fails;
};

namespace device {

using Address = Driver::Address;

/// What a GPU or its compiler could not do: the CPU does it.
struct DeviceFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Why it does not take one text.
struct TextFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Gpu {
 public:
  explicit Gpu(const Driver& driver);

  const Driver& driver() const { return driver_; }
  const std::string& name() const { return name_; }
  const std::string& architecture() const { return architecture_; }
  Driver::Handle context() const { return context_; }
  int multiprocessors() const { return multiprocessors_; }
  /// The most bytes that threads of a block may share.
  std::size_t most_shared() const { return static_cast<std::size_t>(most_shared_); }
  std::size_t free_memory() const;
  void must(Driver::Status status) const;

 private:
  friend class Stream;

  const Driver& driver_;
  Driver::Handle context_ = nullptr, pool_ = nullptr;
  mutable std::atomic<int> streams_ = 0;
  std::string name_, architecture_;
  int multiprocessors_ = 0, most_shared_ = 0;
};

/// This thread is the GPU's while it lives; it was somebody's before.
class Entered {
 public:
  explicit Entered(const Gpu& gpu) : gpu_(gpu) { gpu.must(gpu.driver().push_context(gpu.context())); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  ~Entered() {
    Driver::Handle ignored = nullptr;
    gpu_.driver().pop_context(&ignored);
  }

 private:
  const Gpu& gpu_;
};

class Stream {
 public:
  explicit Stream(const Gpu& gpu);
  /// Somebody else's, which outlives this.
  Stream(const Gpu& gpu, Driver::Handle others) : gpu_(gpu), stream_(others), is_own_(false) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();
  const Gpu& gpu() const { return gpu_; }
  Driver::Handle get() const { return stream_; }
  void wait() const { gpu_.must(gpu_.driver().synchronise(stream_)); }
  void upload(Address to, const void* from, std::size_t bytes) const {
    if (bytes > 0) gpu_.must(gpu_.driver().to_device(to, from, bytes, stream_));
  }
  void copy(Address to, Address from, std::size_t bytes) const {
    if (bytes > 0) gpu_.must(gpu_.driver().on_device(to, from, bytes, stream_));
  }
  void fill(Address to, unsigned char value, std::size_t bytes) const {
    if (bytes > 0) gpu_.must(gpu_.driver().fill(to, value, bytes, stream_));
  }
  /// And waits.
  void download(void* to, Address from, std::size_t bytes) const {
    if (bytes > 0) gpu_.must(gpu_.driver().to_host(to, from, bytes, stream_));
    wait();
  }

 private:
  const Gpu& gpu_;
  Driver::Handle stream_ = nullptr;
  bool is_own_ = true;
};

/// Doubles on the GPU, freed in the order of the stream; null where there is no room.
std::shared_ptr<double> memory_on(const std::shared_ptr<Stream>& stream, std::size_t numbers);
inline Address address_of(const void* p) { return reinterpret_cast<Address>(p); }

/// Options of texts that have the CPU's bits: a product rounds before it is added to something.
std::vector<std::string> options_of_same_bits(const Gpu& gpu);
/// What is compiled: a text, the compiler's options, and files that it includes.
struct Source {
  const std::string& text;
  std::vector<std::string> options;
  std::vector<const char*> names{}, files{};
  std::string digest_of_files{};
};
/// All that a binary depends on.
std::string what_is_compiled(const Gpu& gpu, const Source& source);
/// Throws TextFailure with what the compiler says.
std::string compiled(const Gpu& gpu, const Source& source);

/// load(binary) of one that is kept, or else of a new one, which is kept from now on; says so before it compiles.
template <class T, class Say, class Load>
T made_of(const Gpu& gpu, const KeptTexts& kept, const Source& source, Say says, Load load) {
  const std::string what = what_is_compiled(gpu, source);
  if (const auto binary = kept.find ? kept.find(what) : std::nullopt) try {
      return load(*binary);
    } catch (const std::runtime_error&) {  // another driver's, say
    }
  says();
  const std::string binary = compiled(gpu, source);
  if (kept.keep) kept.keep(what, binary);
  return load(binary);
}

/// make(driver), a pointer; null where there is no GPU, no driver or no compiler (libnvrtc): `why` is a clause that
/// says which.
template <class Make>
auto on_the_gpu(std::string& why, Make make) -> decltype(make(std::declval<const Driver&>())) {
  if (const Driver* const driver = Driver::find(why)) try {
      return make(*driver);
    } catch (const DeviceFailure& failure) {
      why = std::string("there is no GPU: ") + failure.what();
    }
  return nullptr;
}

}  // namespace device
}  // namespace assay::language
