#pragma once
// Memory of the first CUDA device, by way of the driver, which is loaded when it is asked for: nothing here needs CUDA
// to compile, to link or to start.
#include <cstddef>
#include <cstdint>
#include <string>

namespace assay {

/// The driver, with the primary context of the first device current on this thread. Whatever fails throws InputError,
/// one sentence. Memory is given back when the process ends.
class CudaDriver {
 public:
  /// Loads `library`; the driver's own name is default_library.
  explicit CudaDriver(const std::string& library);

  static constexpr const char* default_library = "libcuda.so.1";

  /// `size` bytes on the device, 1 at least, every byte 0xff.
  void* allocate(std::size_t size);
  void copy_to_device(void* device, const void* host, std::size_t size);
  void copy_to_host(void* host, const void* device, std::size_t size);
  /// Waits for everything that has been launched, and throws if any of it has failed.
  void synchronize();

 private:
  using Result = int;
  using Address = std::uint64_t;
  using Context = void*;

  template <class F>
  void find(F*& function, const char* name);
  void check(Result result, const char* what);

  std::string library_;
  void* handle_;
  Result (*error_name_)(Result, const char**) = nullptr;
  Result (*allocate_)(Address*, std::size_t) = nullptr;
  Result (*fill_)(Address, unsigned char, std::size_t) = nullptr;
  Result (*to_device_)(Address, const void*, std::size_t) = nullptr;
  Result (*to_host_)(void*, Address, std::size_t) = nullptr;
  Result (*synchronize_)() = nullptr;
};

}  // namespace assay
