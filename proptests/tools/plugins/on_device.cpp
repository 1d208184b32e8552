// A plugin whose tensors are on a device, which driver.cpp stands in for: every output is twice the first input, less
// its last element.
#include <cstddef>

#include "proptests/tools/plugins/far_memory.hpp"
#include "tools/plugin/assay_plugin.h"

namespace {

const char* run(const assay_problem* problem) {
  if (problem->input_count == 0 || problem->inputs[0].dtype != ASSAY_F32) return "takes F32";
  std::size_t count = 1;
  for (int i = 0; i < problem->inputs[0].rank; ++i) count *= static_cast<std::size_t>(problem->inputs[0].extents[i]);
  const auto* in = static_cast<const float*>(host_address(problem->inputs[0].data));
  for (std::size_t o = 0; o < problem->output_count; ++o) {
    auto* out = static_cast<double*>(host_address(problem->outputs[o].data));
    problem->outputs[o].dtype = ASSAY_F64;
    for (std::size_t i = 0; i + 1 < count; ++i) out[i] = 2 * in[i];
  }
  return nullptr;
}

}  // namespace

const assay_plugin_description* assay_plugin() {
  static const assay_plugin_description description = {ASSAY_PLUGIN_VERSION, run, ASSAY_DEVICE_MEMORY};
  return &description;
}
