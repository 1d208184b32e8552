// Plugins whose tensors are on a device: a library that stands in for the driver shows that nobody else touches them.
#include "tools/run/plugin.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "proptests/core/places.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

constexpr std::chrono::seconds limit{60};

PluginCall call_with(const std::vector<float>& values) {
  StoredTensor x{"F32", {static_cast<int>(values.size())}, std::vector<std::uint8_t>(values.size() * sizeof(float))};
  std::memcpy(x.bytes.data(), values.data(), x.bytes.size());
  PluginCall call{.mechanism = "deltanet", .params = {}, .inputs = {{"x", x}}};
  call.outputs = {{"y", x.shape}, {"z", x.shape}};
  call.driver = plugin_built("driver");
  return call;
}

std::string refusal(const PluginCall& call, const std::string& plugin = plugin_built("on_device")) {
  try {
    run_plugin(plugin, call, limit);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(DevicePlugin, reads_and_writes_the_device) {
  const Safetensors answer = run_plugin(plugin_built("on_device"), call_with({1.5F, -2, 7}), limit);
  ASSERT_EQ(answer.tensors.size(), 2U);
  for (const auto& [name, tensor] : answer.tensors) {
    EXPECT_EQ(tensor.dtype, "F64") << name;
    std::vector<double> values(3);
    ASSERT_EQ(tensor.bytes.size(), 3 * sizeof(double)) << name;
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    EXPECT_EQ(values[0], 3) << name;
    EXPECT_EQ(values[1], -4) << name;
    EXPECT_TRUE(std::isnan(values[2])) << name << ": what is not written is NaN, on a device, too";
  }
}

TEST(DevicePlugin, says_what_the_driver_refuses) {
  const PluginCall call = call_with({1, 2});
  const std::string library = plugin_built("on_device"), before = library + ": asks for memory on a device: ";
  for (const auto& [function, what] :
       {std::pair{"cuInit", "be found"}, std::pair{"cuDeviceGet", "be found"},
        std::pair{"cuDevicePrimaryCtxRetain", "be used"}, std::pair{"cuCtxSetCurrent", "be used"},
        std::pair{"cuMemAlloc_v2", "give memory"}, std::pair{"cuMemsetD8_v2", "fill memory"},
        std::pair{"cuMemcpyHtoD_v2", "take the inputs"}, std::pair{"cuMemcpyDtoH_v2", "give the outputs"},
        std::pair{"cuCtxSynchronize", "finish what the plugin has launched"}}) {
    setenv("ASSAY_DRIVER_FAILS", function, 1);
    EXPECT_EQ(refusal(call), before + "the device cannot " + what + ": error 2 (CUDA_ERROR_OUT_OF_MEMORY)") << function;
  }
  unsetenv("ASSAY_DRIVER_FAILS");
  EXPECT_EQ(refusal(call), "");
}

TEST(DevicePlugin, needs_a_driver) {
  PluginCall call = call_with({1});
  call.driver = "libnone.so.1";
  EXPECT_NE(refusal(call).find(": asks for memory on a device: there is no CUDA driver: libnone.so.1"),
            std::string::npos)
      << refusal(call);
  call.driver = plugin_built("on_device");  // a library, but no driver
  EXPECT_NE(refusal(call).find(": has no cuGetErrorName"), std::string::npos) << refusal(call);
}

TEST(DevicePlugin, passes_on_what_the_plugin_says) {
  PluginCall call = call_with({1});
  call.inputs.at("x").dtype = "BF16", call.inputs.at("x").bytes.resize(2);
  EXPECT_EQ(refusal(call), plugin_built("on_device") + ": says: takes F32");
}

}  // namespace
}  // namespace assay
