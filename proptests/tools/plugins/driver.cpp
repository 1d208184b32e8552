// Stands in for the CUDA driver's library: host memory under addresses that only its own functions, and plugins that
// know about it, translate. ASSAY_DRIVER_FAILS names a function that fails.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "proptests/tools/plugins/far_memory.hpp"

namespace {

int context;
bool is_current = false;

int result(const char* function) {
  const char* failing = std::getenv("ASSAY_DRIVER_FAILS");
  return failing != nullptr && std::strcmp(failing, function) == 0 ? 2 : 0;
}

void* host(std::uint64_t device) {
  return host_address(reinterpret_cast<void*>(device));  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): names of the driver
extern "C" {
int cuGetErrorName(int error, const char** name) {
  *name = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_CONTEXT";
  return 0;
}
int cuInit(unsigned) { return result("cuInit"); }
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return result("cuDeviceGet");
}
int cuDevicePrimaryCtxRetain(void** retained, int) {
  *retained = &context;
  return result("cuDevicePrimaryCtxRetain");
}
int cuCtxSetCurrent(void* current) {
  is_current = current == &context;
  return result("cuCtxSetCurrent");
}
int cuMemAlloc_v2(std::uint64_t* device, std::size_t size) {
  if (!is_current) return 201;
  *device = reinterpret_cast<std::uintptr_t>(::operator new(size)) ^ far_away;
  return result("cuMemAlloc_v2");
}
int cuMemsetD8_v2(std::uint64_t device, unsigned char value, std::size_t size) {
  std::memset(host(device), value, size);
  return result("cuMemsetD8_v2");
}
int cuMemcpyHtoD_v2(std::uint64_t device, const void* from, std::size_t size) {
  std::memcpy(host(device), from, size);
  return result("cuMemcpyHtoD_v2");
}
int cuMemcpyDtoH_v2(void* to, std::uint64_t device, std::size_t size) {
  std::memcpy(to, host(device), size);
  return result("cuMemcpyDtoH_v2");
}
int cuCtxSynchronize() { return result("cuCtxSynchronize"); }
}
// NOLINTEND(readability-identifier-naming)
