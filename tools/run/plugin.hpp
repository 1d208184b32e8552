#pragma once
// Kernels in shared libraries: tools/plugin/assay_plugin.h from the other side.
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "files/safetensors.hpp"
#include "reference/core/problem.hpp"
#include "tools/run/child.hpp"
#include "tools/run/device_memory.hpp"

namespace assay {

/// A call of a plugin: its mechanism and tensors.
struct PluginCall {
  std::string mechanism;
  Params params;
  std::map<std::string, StoredTensor> inputs;
  std::vector<std::pair<std::string, std::vector<int>>> outputs = {};  ///< names and shapes
  std::string dtype = "F32";                         ///< of the outputs, unless the plugin says otherwise
  std::string driver = CudaDriver::default_library;  ///< of plugins that want device memory
  std::uint8_t around = 0xff;                        ///< every byte in front of and behind an input: NaN in every dtype
};

/// The plugin at `path`, called in processes that know nothing of what this one has learnt since it was made.
class PluginProcess {
 public:
  /// Throws InputError if there is no such file. `folder` is as for ChildKeeper.
  explicit PluginProcess(std::string path, const std::filesystem::path& folder = {});

  /// Calls it in a process of its own, where it may crash; throws InputError, one sentence that starts with the path,
  /// if it does, has not answered within the limit, has no entry of this version, or says that it cannot. Numbers that
  /// it has left unwritten are NaN. A signal that tells this process to end meanwhile is raised again afterwards.
  Safetensors run(const PluginCall& call, std::chrono::duration<double> limit);

 private:
  std::string path_;
  ChildKeeper keeper_;
};

/// Calls the plugin at `path` once.
Safetensors run_plugin(const std::string& path, const PluginCall& call, std::chrono::duration<double> limit);

}  // namespace assay
