#pragma once
// Kernels in shared libraries: tools/plugin/assay_plugin.h from the other side.
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/safetensors.hpp"
#include "reference/core/problem.hpp"
#include "tools/device_memory.hpp"

namespace assay {

/// What a plugin is asked.
struct PluginCall {
  std::string mechanism;
  Params params;
  std::map<std::string, StoredTensor> inputs;
  std::vector<std::pair<std::string, std::vector<int>>> outputs = {};  ///< names and shapes
  std::string dtype = "F32";                         ///< of the outputs, unless the plugin says otherwise
  std::string driver = CudaDriver::default_library;  ///< of plugins that want device memory
  std::uint8_t around = 0xff;                        ///< every byte in front of and behind an input: NaN in every dtype
};

/// Runs the plugin at `path` in a child process, where it may crash; throws InputError, one sentence that starts with
/// the path, if it does, has not answered within the limit, has no entry of this version, or says that it cannot. What
/// it has left unwritten is NaN. A signal that tells this process to end meanwhile is raised again afterwards.
Safetensors run_plugin(const std::string& path, const PluginCall& call, std::chrono::duration<double> limit);

}  // namespace assay
