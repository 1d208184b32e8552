// Plugins whose tensors are on a device: a library that stands in for the driver shows that nothing else touches them.
// The sentences on refusals are in proptests/transcripts/plugin.md.
#include "tools/run/plugin.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

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

TEST(DevicePlugin, needs_a_driver) {
  PluginCall call = call_with({1});
  call.driver = "libnone.so.1";
  try {
    run_plugin(plugin_built("on_device"), call, limit);
    FAIL() << "there is no such driver";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("there is no CUDA driver: libnone.so.1"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace assay
