#pragma once
// A GPU that is the host (proptests/stubs). It needs a compiler when it runs.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "language/device/gpu.hpp"
#include "proptests/core/places.hpp"
#include "reference/core/error.hpp"

namespace assay::language {

/// Its driver and its compiler, in the places of CUDA's, and what of compiled code was kept.
struct StubGpu {
  std::map<std::string, std::string> kept;
  bool *fails, *breaks;  ///< every launch; the random numbers of emitted texts

  StubGpu() {
    void* const driver = dlopen(STUB_FOLDER "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void* const compiler = dlopen(STUB_FOLDER "/libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    require(driver != nullptr && compiler != nullptr, dlerror());
    fails = static_cast<bool*>(dlsym(driver, "stub_fails"));
    breaks = static_cast<bool*>(dlsym(compiler, "stub_breaks"));
  }
  KeptTexts keeps() {
    return {[this](const std::string& what) {
              const auto found = kept.find(what);
              return found == kept.end() ? std::nullopt : std::optional(found->second);
            },
            [this](const std::string& what, std::string_view bytes) { kept[what] = bytes; }};
  }
};

/// Tests with it.
class OnStubGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(compiler())) GTEST_SKIP() << compiler() << ": no compiler is here";
  }
};

}  // namespace assay::language
