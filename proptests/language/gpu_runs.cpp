// Runs of tensors on a GPU that is the host: where heads and results lie, and the memory of a plan's halves.
#include <memory>
#include <string>

#include "kernels/gpu/device_array.hpp"
#include "kernels/gpu/launches.hpp"
#include "proptests/language/stub_gpu.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

class GpuRuns : public OnStubGpu {
 protected:
  std::unique_ptr<tile::GpuKernels> open() {
    std::string why;
    auto kernels = device::on_the_gpu(why, [&](const device::Driver& driver) {
      return std::make_unique<tile::GpuKernels>(driver, gpu.keeps(), GpuNews{});
    });
    EXPECT_NE(kernels, nullptr) << why;
    return kernels;
  }

  StubGpu gpu;
};

TEST_F(GpuRuns, HeadsLieBesideOneAnotherAndResultsWhereTheyAreAskedFor) {
  const auto kernels = open();
  float o[24];
  tile::TensorsOfRun tensors{{}, {{1, {"o", {o, Format::fp32, 24, 3}}}}};
  const tile::GpuRun run(*kernels, tensors);
  const tile::InRun here(run);
  const DeviceArray other(Format::fp32, 6, 2, 2), result(Format::fp32, 6, 2, 2);
  EXPECT_EQ(result.data(), o);
  EXPECT_EQ(result.kept().request, 1U);
  for (int head = 0; head < 6; ++head)
    for (int row = 0; row < 2; ++row) {  // in [2][2][3], or [6][2]
      const auto at = static_cast<std::size_t>(((head / 3) * 2 + row) * 3 + head % 3);
      EXPECT_EQ(result.lie().at(head, row), at);
      EXPECT_EQ(other.lie().at(head, row), static_cast<std::size_t>(head * 2 + row));
    }
  for (const int beside : {1, 3, 7, 96, 1000})
    for (int head = 0; head < 2'000'000; head += 1 + head / 5) {
      const DeviceArray array(Format::fp32, head + 1, 1, 1, GpuTensor{o, Format::fp32, 1, beside});
      ASSERT_EQ(array.lie().group(head), head / beside) << beside << ' ' << head;
    }
  tensors.results.at(1).second.count = 23;
  const tile::GpuRun short_run(*kernels, tensors);
  const tile::InRun there(short_run);
  const DeviceArray first(Format::fp32, 1, 1, 1);
  EXPECT_THROW(DeviceArray(Format::fp32, 6, 2, 2), InputError);
}

TEST_F(GpuRuns, TheSecondHalfHasTheMemoryOfTheFirst) {
  const auto kernels = open();
  const GpuTensors none;
  ForwardMemory forward;
  void *found = nullptr, *zeros = nullptr;
  for (const bool is_backward : {false, true}) {
    const tile::TensorsOfRun tensors{none, {}, nullptr, &forward};
    const tile::GpuRun run(*kernels, tensors);
    const tile::InRun here(run);
    EXPECT_EQ(run.rests(), is_backward);
    const DeviceArray array(Format::bf16, 2, 3, 8), filled = DeviceArray::zeros(Format::fp32, 1, 2, 4);
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
