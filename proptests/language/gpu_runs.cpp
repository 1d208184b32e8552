// The halves of a plan on a GPU that is the host: a backward pass has the memory of its forward pass.
#include <memory>
#include <string>

#include "kernels/gpu/device_array.hpp"
#include "kernels/gpu/launches.hpp"
#include "proptests/language/stub_gpu.hpp"

namespace assay::language {
namespace {

class GpuRuns : public OnStubGpu {};

TEST_F(GpuRuns, TheSecondHalfHasTheMemoryOfTheFirst) {
  StubGpu gpu;
  std::string why;
  const auto kernels = device::on_the_gpu(why, [&](const device::Driver& driver) {
    return std::make_unique<tile::GpuKernels>(driver, gpu.keeps(), GpuNews{});
  });
  ASSERT_NE(kernels, nullptr) << why;
  const GpuTensors none;
  ForwardMemory forward;
  void *found = nullptr, *zeros = nullptr;
  for (const bool is_backward : {false, true}) {
    const tile::GpuRun run(*kernels, none, nullptr, &forward);
    const tile::InRun here(run);
    EXPECT_EQ(run.rests(), is_backward);
    const DeviceArray array(Format::bf16, 2, 3, 8), filled(Format::fp32, 1, 2, 4, nullptr);
    if (!is_backward) found = array.data(), zeros = filled.data();
    EXPECT_EQ(array.data(), found);
    EXPECT_EQ(filled.data(), zeros);
    EXPECT_EQ(*static_cast<const float*>(filled.data()), is_backward ? 7 : 0) << "zeros are not filled in again";
    *static_cast<float*>(filled.data()) = 7;  // as a forward pass writes
    run.end_forward();
    EXPECT_EQ(run.rests(), !is_backward);
    EXPECT_EQ(DeviceArray(Format::fp32, 1, 2, 4).data() != nullptr, is_backward) << "a gradient";
    EXPECT_EQ(forward.arrays.size(), 2U);
  }
}

}  // namespace
}  // namespace assay::language
