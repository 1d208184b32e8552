// portable_ex2 has the host's bits on the device.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/core/same_bits.hpp"
#include "proptests/core/ex2_digest.hpp"

namespace assay::tile {
namespace {

__global__ void powers(std::uint32_t* bits) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < Ex2Arguments::count) bits[i] = bits_of(portable_ex2(of_bits(bits[i])));
}

TEST(PortableEx2, HasTheHostsBitsOnTheDevice) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
  std::vector<std::uint32_t> bits(Ex2Arguments::count);
  for (std::uint32_t i = 0; i < Ex2Arguments::count; ++i) bits[i] = Ex2Arguments::bits(i);
  std::uint32_t* on_device = nullptr;
  const std::size_t bytes = bits.size() * sizeof(bits[0]);
  ASSERT_EQ(cudaMalloc(&on_device, bytes), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(on_device, bits.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
  powers<<<(Ex2Arguments::count + 255) / 256, 256>>>(on_device);
  ASSERT_EQ(cudaMemcpy(bits.data(), on_device, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(digest_of_ex2([&](std::uint32_t i) { return bits[i]; }), ex2_digest);

  const std::uint32_t special[] = {0x7fc00000, 0xff800000, 0xc2fd0000};  // NaN, -infinity, -126.5
  ASSERT_EQ(cudaMemcpy(on_device, special, sizeof special, cudaMemcpyHostToDevice), cudaSuccess);
  powers<<<1, 3>>>(on_device);
  ASSERT_EQ(cudaMemcpy(bits.data(), on_device, sizeof special, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_GT(bits[0] & 0x7fffffff, 0x7f800000U);
  EXPECT_EQ(bits[1], 0U);
  EXPECT_EQ(bits[2], 0U);
  EXPECT_EQ(cudaFree(on_device), cudaSuccess);
}

}  // namespace
}  // namespace assay::tile
