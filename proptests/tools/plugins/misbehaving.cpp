// A plugin that does what the variable ASSAY_MISBEHAVES says.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "tools/plugin/assay_plugin.h"

namespace {

bool is(const char* what) {
  const char* how = std::getenv("ASSAY_MISBEHAVES");
  return how != nullptr && std::strcmp(how, what) == 0;
}

const char* run(const assay_problem* problem) {
  if (is("crash")) {
    std::signal(SIGSEGV, SIG_DFL);  // sanitizers have a handler of their own
    std::raise(SIGSEGV);
  }
  if (is("abort")) {
    std::printf("about to abort\n");
    std::fflush(stdout);
    std::abort();
  }
  if (is("exit")) std::_Exit(5);
  if (is("exit_0")) std::_Exit(0);
  if (is("throw")) throw std::runtime_error("thrown");
  if (is("hang"))
    for (;;) pause();
  if (is("refuse")) return "not today,\nnot tomorrow";
  for (std::size_t i = 0; i < problem->output_count; ++i) {
    assay_output& output = problem->outputs[i];
    if (is("dtype")) output.dtype = 9;
    if (!is("bf16_zeros") && !is("exit_filled")) continue;
    std::size_t count = 1;
    for (int r = 0; r < output.rank; ++r) count *= static_cast<std::size_t>(output.extents[r]);
    output.dtype = ASSAY_BF16;
    std::memset(output.data, 0, 2 * count);
  }
  if (is("exit_filled")) std::exit(0);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  if (is("overwrites")) *static_cast<unsigned char*>(const_cast<void*>(problem->inputs[0].data)) ^= 1;
  return nullptr;
}

}  // namespace

const assay_plugin_description* assay_plugin() {
  static const assay_plugin_description healthy = {ASSAY_PLUGIN_VERSION, run, ASSAY_HOST_MEMORY};
  static const assay_plugin_description newer = {ASSAY_PLUGIN_VERSION + 1, run, ASSAY_HOST_MEMORY};
  static const assay_plugin_description older = {1, run, 77};  // has no `memory` yet
  static const assay_plugin_description none = {0, run, ASSAY_HOST_MEMORY};
  static const assay_plugin_description elsewhere = {ASSAY_PLUGIN_VERSION, run, 77};
  static const assay_plugin_description empty = {ASSAY_PLUGIN_VERSION, nullptr, ASSAY_HOST_MEMORY};
  if (is("null")) return nullptr;
  if (is("version")) return &newer;
  if (is("version_0")) return &none;
  if (is("version_1")) return &older;
  if (is("memory")) return &elsewhere;
  return is("no_run") ? &empty : &healthy;
}
