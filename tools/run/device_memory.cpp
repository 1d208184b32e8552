#include "tools/run/device_memory.hpp"

#include <dlfcn.h>

#include <algorithm>

#include "reference/core/error.hpp"

namespace assay {
namespace {

std::uint64_t address_of(const void* device) { return reinterpret_cast<std::uintptr_t>(device); }

}  // namespace

template <class F>
void CudaDriver::find(F*& function, const char* name) {
  function = reinterpret_cast<F*>(dlsym(handle_, name));
  require(function != nullptr, library_, ": has no ", name);
}

void CudaDriver::check(Result result, const char* what) {
  if (result == 0) return;
  const char* name = nullptr;
  if (error_name_(result, &name) != 0 || name == nullptr) name = "unknown";
  throw InputError(text("the device cannot ", what, ": error ", result, " (", name, ")"));
}

CudaDriver::CudaDriver(const std::string& library)
    : library_(library), handle_(dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
  require(handle_ != nullptr, "there is no CUDA driver: ", dlerror());
  Result (*initialize)(unsigned) = nullptr;
  Result (*device)(int*, int) = nullptr;
  Result (*retain)(Context*, int) = nullptr;
  Result (*make_current)(Context) = nullptr;
  // The names that the driver's own header gives these functions since CUDA 4.
  find(error_name_, "cuGetErrorName"), find(initialize, "cuInit"), find(device, "cuDeviceGet");
  find(retain, "cuDevicePrimaryCtxRetain"), find(make_current, "cuCtxSetCurrent");
  find(allocate_, "cuMemAlloc_v2"), find(fill_, "cuMemsetD8_v2");
  find(to_device_, "cuMemcpyHtoD_v2"), find(to_host_, "cuMemcpyDtoH_v2"), find(synchronize_, "cuCtxSynchronize");
  int first = 0;
  Context context = nullptr;
  check(initialize(0), "be found"), check(device(&first, 0), "be found");
  check(retain(&context, first), "be used"), check(make_current(context), "be used");
}

void* CudaDriver::allocate(std::size_t size) {
  size = std::max<std::size_t>(size, 1);
  Address device = 0;
  check(allocate_(&device, size), "give memory");
  check(fill_(device, 0xff, size), "fill memory");
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(device));  // NOLINT(performance-no-int-to-ptr)
}

void CudaDriver::copy_to_device(void* device, const void* host, std::size_t size) {
  if (size > 0) check(to_device_(address_of(device), host, size), "take the inputs");
}

void CudaDriver::copy_to_host(void* host, const void* device, std::size_t size) {
  if (size > 0) check(to_host_(host, address_of(device), size), "give the outputs");
}

void CudaDriver::synchronize() { check(synchronize_(), "finish what the plugin has launched"); }

}  // namespace assay
