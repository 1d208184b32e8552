// A plugin that answers what lies in the folder that ASSAY_ANSWERS names: a file of doubles for each output. An output
// without a file is not written.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tools/plugin/assay_plugin.h"

namespace {

const char* run(const assay_problem* problem) {
  const char* folder = std::getenv("ASSAY_ANSWERS");
  if (folder == nullptr) return "expects a folder in ASSAY_ANSWERS";
  for (std::size_t i = 0; i < problem->output_count; ++i) {
    assay_output& output = problem->outputs[i];
    std::FILE* file = std::fopen((std::string(folder) + '/' + output.name).c_str(), "rb");
    if (file == nullptr) continue;
    std::size_t count = 1;
    for (int r = 0; r < output.rank; ++r) count *= static_cast<std::size_t>(output.extents[r]);
    output.dtype = ASSAY_F64;
    const bool is_whole = std::fread(output.data, sizeof(double), count, file) == count;
    std::fclose(file);
    if (!is_whole) return "a file is shorter than its output";
  }
  return nullptr;
}

}  // namespace

const assay_plugin_description* assay_plugin() {
  static const assay_plugin_description description = {ASSAY_PLUGIN_VERSION, run, ASSAY_HOST_MEMORY};
  return &description;
}
