#include "language/device/driver.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <optional>

namespace assay::language::device {
namespace {

/// Where Python's packages of CUDA have the compiler, beside the package that this code is in.
std::vector<std::string> in_packages() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&Driver::find), &here) == 0 || here.dli_fname == nullptr) return {};
  std::vector<std::string> paths;
  const std::filesystem::path file = std::filesystem::absolute(here.dli_fname);
  for (auto folder = file.parent_path(); folder.has_relative_path(); folder = folder.parent_path())
    if (folder.filename() == "site-packages" || folder.filename() == "dist-packages") {
      paths.push_back(folder / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
      paths.push_back(folder / "nvidia/cu13/lib/libnvrtc.so.13");
    }
  return paths;
}

void* loaded(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

/// Functions of a library, found by name.
class Functions {
 public:
  explicit Functions(void* library) : library_(library) {}
  template <class F>
  void find(F*& function, const char* name) {
    function = reinterpret_cast<F*>(::dlsym(library_, name));
    all_ = all_ && function != nullptr;
  }
  bool all() const { return all_; }

 private:
  void* library_;
  bool all_ = true;
};

bool find_driver(Driver& d) {
  void* const library = loaded({"libcuda.so.1"});
  if (library == nullptr) return false;
  Functions functions(library);
  functions.find(d.init, "cuInit");
  functions.find(d.device_get, "cuDeviceGet");
  functions.find(d.device_attribute, "cuDeviceGetAttribute");
  functions.find(d.device_name, "cuDeviceGetName");
  functions.find(d.retain_context, "cuDevicePrimaryCtxRetain");
  functions.find(d.push_context, "cuCtxPushCurrent_v2");
  functions.find(d.pop_context, "cuCtxPopCurrent_v2");
  functions.find(d.error_text, "cuGetErrorString");
  functions.find(d.load_module, "cuModuleLoadData");
  functions.find(d.get_function, "cuModuleGetFunction");
  functions.find(d.get_global, "cuModuleGetGlobal_v2");
  functions.find(d.set_attribute, "cuFuncSetAttribute");
  functions.find(d.memory_info, "cuMemGetInfo_v2");
  functions.find(d.default_pool, "cuDeviceGetDefaultMemPool");
  functions.find(d.set_pool, "cuMemPoolSetAttribute");
  functions.find(d.trim_pool, "cuMemPoolTrimTo");
  functions.find(d.allocate, "cuMemAllocAsync");
  functions.find(d.release, "cuMemFreeAsync");
  functions.find(d.to_device, "cuMemcpyHtoDAsync_v2");
  functions.find(d.to_host, "cuMemcpyDtoHAsync_v2");
  functions.find(d.on_device, "cuMemcpyDtoDAsync_v2");
  functions.find(d.fill, "cuMemsetD8Async");
  functions.find(d.create_stream, "cuStreamCreate");
  functions.find(d.destroy_stream, "cuStreamDestroy_v2");
  functions.find(d.synchronise, "cuStreamSynchronize");
  functions.find(d.create_event, "cuEventCreate");
  functions.find(d.destroy_event, "cuEventDestroy_v2");
  functions.find(d.record, "cuEventRecord");
  functions.find(d.await_event, "cuEventSynchronize");
  functions.find(d.milliseconds, "cuEventElapsedTime");
  functions.find(d.version, "cuDriverGetVersion");
  functions.find(d.launch, "cuLaunchKernel");
  const bool all = functions.all();
  functions.find(d.encode_tensor_map, "cuTensorMapEncodeTiled");
  return all;
}

bool find_compiler(Driver& d) {
  std::vector<std::string> names = in_packages();
  names.insert(names.end(), {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"});
  void* const library = loaded(names);
  if (library == nullptr) return false;
  Functions functions(library);
  functions.find(d.create_program, "nvrtcCreateProgram");
  functions.find(d.destroy_program, "nvrtcDestroyProgram");
  functions.find(d.compile, "nvrtcCompileProgram");
  functions.find(d.binary_size, "nvrtcGetCUBINSize");
  functions.find(d.binary, "nvrtcGetCUBIN");
  functions.find(d.log_size, "nvrtcGetProgramLogSize");
  functions.find(d.log, "nvrtcGetProgramLog");
  functions.find(d.compiler_version, "nvrtcVersion");
  return functions.all();
}

struct Found {
  std::optional<Driver> driver;
  std::string why;

  Found() {
    Driver all{};
    if (!find_driver(all))
      why = "there is no driver of CUDA (libcuda.so.1)";
    else if (!find_compiler(all))
      why = "there is no compiler of CUDA (libnvrtc); `pip install nvidia-cuda-nvrtc-cu12` brings one";
    else
      driver = all;
  }
};

}  // namespace

const Driver* Driver::find(std::string& why) {
  static const Found found;
  why = found.why;
  return found.driver ? &*found.driver : nullptr;
}

}  // namespace assay::language::device
