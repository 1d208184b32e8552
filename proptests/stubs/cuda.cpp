// CUDA's driver on the host, as far as language/device calls it: tests load it in that one's place. Blocks run one
// after the other, and each is one thread.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <string>

namespace {

using Handle = void*;
using Address = unsigned long long;

struct Function {
  Handle code;
  bool asks;  // for the workspace
};
long block[2] = {1, 0};  // threads, and numbers that they share

void* at(Address address) {
  void* pointer = nullptr;
  std::memcpy(&pointer, &address, sizeof pointer);
  return pointer;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's
extern "C" {
// Set by tests.
bool stub_fails = false;

int cuInit(unsigned) { return 0; }
int cuDeviceGet(int* device, int) { return *device = 0; }
int cuDeviceGetAttribute(int* value, int, int) { return *value = 9, 0; }
int cuDeviceGetName(char* name, int size, int) {
  return std::snprintf(name, static_cast<std::size_t>(size), "stub"), 0;
}
int cuDevicePrimaryCtxRetain(Handle* context, int) { return *context = block, 0; }
int cuCtxPushCurrent_v2(Handle) { return 0; }
int cuCtxPopCurrent_v2(Handle* context) { return *context = block, 0; }
int cuGetErrorString(int, const char** text) { return *text = "the stub fails", 0; }
int cuModuleLoadData(Handle* module, const void* image) {
  *module = dlopen(static_cast<const char*>(image), RTLD_NOW | RTLD_LOCAL);
  return *module == nullptr ? 1 : 0;
}
int cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  static std::mutex guard;
  static std::deque<Function> all;
  const std::lock_guard lock(guard);
  all.push_back({dlsym(module, name), std::string(name).ends_with("_workspace")});
  *function = &all.back();
  return 0;
}
int cuModuleGetGlobal_v2(Address* address, std::size_t* bytes, Handle module, const char* name) {
  void* const found = dlsym(module, name);
  *address = reinterpret_cast<Address>(found == nullptr ? block : found), *bytes = sizeof block;
  return 0;
}
int cuFuncSetAttribute(Handle, int, int) { return 0; }
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) { return *free = *total = 1 << 30, 0; }
int cuDeviceGetDefaultMemPool(Handle* pool, int) { return *pool = block, 0; }
int cuMemPoolSetAttribute(Handle, int, void*) { return 0; }
int cuMemPoolTrimTo(Handle, std::size_t) { return 0; }
int cuMemAllocAsync(Address* address, std::size_t bytes, Handle) {
  *address = reinterpret_cast<Address>(::operator new(bytes));
  return 0;
}
int cuMemFreeAsync(Address address, Handle) { return ::operator delete(at(address)), 0; }
int cuMemcpyHtoDAsync_v2(Address target, const void* from, std::size_t bytes, Handle) {
  return std::memcpy(at(target), from, bytes), 0;
}
int cuMemcpyDtoHAsync_v2(void* target, Address from, std::size_t bytes, Handle) {
  return std::memcpy(target, at(from), bytes), 0;
}
int cuMemcpyDtoDAsync_v2(Address target, Address from, std::size_t bytes, Handle) {
  return std::memcpy(at(target), at(from), bytes), 0;
}
int cuMemsetD8Async(Address target, unsigned char value, std::size_t bytes, Handle) {
  return std::memset(at(target), value, bytes), 0;
}
int cuEventCreate(Handle* event, unsigned) { return *event = block, 0; }
int cuEventDestroy_v2(Handle) { return 0; }
int cuEventRecord(Handle, Handle) { return 0; }
int cuEventSynchronize(Handle) { return 0; }
int cuEventElapsedTime(float* milliseconds, Handle, Handle) { return *milliseconds = 1, 0; }
int cuDriverGetVersion(int* version) { return *version = 12000, 0; }
int cuStreamCreate(Handle* stream, unsigned) { return *stream = block, 0; }
int cuStreamDestroy_v2(Handle) { return 0; }
int cuStreamSynchronize(Handle) { return 0; }
int cuLaunchKernel(Handle handle, unsigned grid, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle,
                   void** arguments, void**) {
  const auto* const function = static_cast<const Function*>(handle);
  if (stub_fails || function->code == nullptr) return 1;
  if (function->asks)
    **static_cast<long**>(arguments[1]) = reinterpret_cast<long (*)(const void*)>(function->code)(arguments[0]);
  else
    for (int head = 0; head < static_cast<int>(grid); ++head)
      reinterpret_cast<void (*)(const void*, const void*, int)>(function->code)(arguments[0], arguments[1], head);
  return 0;
}
}
// NOLINTEND(readability-identifier-naming)
