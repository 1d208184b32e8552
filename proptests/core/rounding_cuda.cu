// Software rounding against NVIDIA's: the conversions of cuda_fp8.h, cuda_fp16.h and cuda_bf16.h on the host, and the
// conversion instructions themselves where a device is present.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/core/rounding.hpp"

namespace assay {
namespace {

// Everything CUDA can convert a float or double to, on either side, widened back to double.
enum Conversion {
  e4m3_saturate,
  e4m3_ieee,
  e5m2_saturate,
  e5m2_ieee,
  e4m3_from_double,
  e5m2_from_double,
  bf16_nearest,
  bf16_toward_zero,
  bf16_from_double,
  fp16_nearest,
  fp16_toward_zero,
  fp16_from_double,
  host_conversions,
  fp32_nearest = host_conversions,
  fp32_toward_zero,
  tf32_nearest,
  tf32_toward_zero,
  device_conversions,
};

struct Meaning {
  const char* name;
  Format format;
  Rounding rounding;
  Overflow overflow;
  bool from_double;
};

constexpr Meaning meaning[] = {
    {"float to e4m3, satfinite", Format::e4m3, Rounding::nearest_even, Overflow::saturate, false},
    {"float to e4m3", Format::e4m3, Rounding::nearest_even, Overflow::ieee, false},
    {"float to e5m2, satfinite", Format::e5m2, Rounding::nearest_even, Overflow::saturate, false},
    {"float to e5m2", Format::e5m2, Rounding::nearest_even, Overflow::ieee, false},
    {"double to e4m3, satfinite", Format::e4m3, Rounding::nearest_even, Overflow::saturate, true},
    {"double to e5m2, satfinite", Format::e5m2, Rounding::nearest_even, Overflow::saturate, true},
    {"float to bf16, rn", Format::bf16, Rounding::nearest_even, Overflow::ieee, false},
    {"float to bf16, rz", Format::bf16, Rounding::toward_zero, Overflow::ieee, false},
    {"double to bf16", Format::bf16, Rounding::nearest_even, Overflow::ieee, true},
    {"float to fp16, rn", Format::fp16, Rounding::nearest_even, Overflow::ieee, false},
    {"float to fp16, rz", Format::fp16, Rounding::toward_zero, Overflow::ieee, false},
    {"double to fp16", Format::fp16, Rounding::nearest_even, Overflow::ieee, true},
    {"double to fp32, rn", Format::fp32, Rounding::nearest_even, Overflow::ieee, true},
    {"double to fp32, rz", Format::fp32, Rounding::toward_zero, Overflow::ieee, true},
    {"float to tf32, rn", Format::tf32, Rounding::nearest_even, Overflow::ieee, false},
    {"float to tf32, rz", Format::tf32, Rounding::toward_zero, Overflow::ieee, false},
};
static_assert(std::size(meaning) == device_conversions);

__host__ __device__ double widened(__nv_fp8_storage_t code, __nv_fp8_interpretation_t kind) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, kind)));
}

__host__ __device__ double converted(Conversion conversion, double x) {
  const float f = static_cast<float>(x);
  switch (conversion) {
    case e4m3_saturate:
      return widened(__nv_cvt_float_to_fp8(f, __NV_SATFINITE, __NV_E4M3), __NV_E4M3);
    case e4m3_ieee:
      return widened(__nv_cvt_float_to_fp8(f, __NV_NOSAT, __NV_E4M3), __NV_E4M3);
    case e5m2_saturate:
      return widened(__nv_cvt_float_to_fp8(f, __NV_SATFINITE, __NV_E5M2), __NV_E5M2);
    case e5m2_ieee:
      return widened(__nv_cvt_float_to_fp8(f, __NV_NOSAT, __NV_E5M2), __NV_E5M2);
    case e4m3_from_double:
      return widened(__nv_cvt_double_to_fp8(x, __NV_SATFINITE, __NV_E4M3), __NV_E4M3);
    case e5m2_from_double:
      return widened(__nv_cvt_double_to_fp8(x, __NV_SATFINITE, __NV_E5M2), __NV_E5M2);
    case bf16_nearest:
      return __bfloat162float(__float2bfloat16_rn(f));
    case bf16_toward_zero:
      return __bfloat162float(__float2bfloat16_rz(f));
    case bf16_from_double:
      return __bfloat162float(__double2bfloat16(x));
    case fp16_nearest:
      return __half2float(__float2half_rn(f));
    case fp16_toward_zero:
      return __half2float(__float2half_rz(f));
    case fp16_from_double:
      return __half2float(__double2half(x));
    default:
      break;
  }
#if defined(__CUDA_ARCH__)
  if (conversion == fp32_nearest) return __double2float_rn(x);
  if (conversion == fp32_toward_zero) return __double2float_rz(x);
#if __CUDA_ARCH__ >= 900
  std::uint32_t y = 0;
  if (conversion == tf32_nearest) asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(y) : "f"(f));
  if (conversion == tf32_toward_zero) asm("cvt.rz.tf32.f32 %0, %1;" : "=r"(y) : "f"(f));
  return __uint_as_float(y);
#endif
#endif
  return 0.0;
}

__global__ void convert(Conversion conversion, const double* x, double* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = converted(conversion, x[i]);
}

// Specials, every grid point and midpoint of the coded formats with its neighbours, and doubles or floats of all
// exponents.
std::vector<double> inputs(bool from_double) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto next = [&](double x, double to) {
    return from_double ? std::nextafter(x, to) : std::nextafter(static_cast<float>(x), static_cast<float>(to));
  };
  std::vector<double> x = {0.0,     inf,       std::numeric_limits<double>::quiet_NaN(), 464.0, 480.0, 61440.0,
                           65520.0, 0x1.ffp127};
  for (const Format format : {Format::bf16, Format::fp16, Format::e4m3, Format::e5m2})
    for (unsigned code = 0; code < (info(format).bits == 8 ? 0x7fu : 0x7fffu); ++code) {
      const double here = decode(static_cast<std::uint16_t>(code), format);
      const double midpoint = 0.5 * (here + decode(static_cast<std::uint16_t>(code + 1), format));
      if (!std::isfinite(midpoint)) continue;
      for (const double centre : {here, midpoint}) x.insert(x.end(), {next(centre, -inf), centre, next(centre, inf)});
    }
  const RandomBits random{4};
  for (std::uint64_t i = 0; i < 1'000'000; ++i)
    x.push_back(from_double ? std::bit_cast<double>(random.at(i))
                            : double{std::bit_cast<float>(static_cast<std::uint32_t>(random.at(i)))});
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) x.push_back(-x[i]);
  return x;
}

// NaN against NaN: CUDA's have no sign to keep.
void expect_same(const Meaning& m, const std::vector<double>& x, const std::vector<double>& y) {
  long differ = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = round_to(x[i], m.format, m.overflow, m.rounding);
    const bool same = std::isnan(expected)
                          ? std::isnan(y[i])
                          : std::bit_cast<std::uint64_t>(expected) == std::bit_cast<std::uint64_t>(y[i]);
    if (!same && differ++ == 0)
      ADD_FAILURE() << m.name << ": " << std::hexfloat << x[i] << " gives " << y[i] << ", round_to gives " << expected;
  }
  EXPECT_EQ(differ, 0) << m.name << ", of " << x.size();
}

TEST(Rounding, IsCudasOnTheHost) {
  for (int c = 0; c < host_conversions; ++c) {
    const std::vector<double> x = inputs(meaning[c].from_double);
    std::vector<double> y;
    for (const double value : x) y.push_back(converted(static_cast<Conversion>(c), value));
    expect_same(meaning[c], x, y);
  }
}

TEST(Rounding, IsCudasOnTheDevice) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  for (int c = 0; c < device_conversions; ++c) {
    if (meaning[c].format == Format::tf32 && properties.major < 9) continue;
    const std::vector<double> x = inputs(meaning[c].from_double);
    const int n = static_cast<int>(x.size());
    double *from = nullptr, *to = nullptr;
    ASSERT_EQ(cudaMalloc(&from, x.size() * sizeof(double)), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&to, x.size() * sizeof(double)), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(from, x.data(), x.size() * sizeof(double), cudaMemcpyHostToDevice), cudaSuccess);
    convert<<<(n + 255) / 256, 256>>>(static_cast<Conversion>(c), from, to, n);
    std::vector<double> y(x.size());
    ASSERT_EQ(cudaMemcpy(y.data(), to, x.size() * sizeof(double), cudaMemcpyDeviceToHost), cudaSuccess);
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
    cudaFree(from);
    cudaFree(to);
    expect_same(meaning[c], x, y);
  }
}

TEST(Formats, DecodeIsCudas) {
  for (unsigned code = 0; code < 256; ++code)
    for (const auto& [format, kind] : {std::pair{Format::e4m3, __NV_E4M3}, std::pair{Format::e5m2, __NV_E5M2}}) {
      const double ours = decode(static_cast<std::uint16_t>(code), format);
      const double cudas = widened(static_cast<__nv_fp8_storage_t>(code), kind);
      if (std::isnan(ours)) {
        EXPECT_TRUE(std::isnan(cudas)) << code;
      } else {
        EXPECT_EQ(std::bit_cast<std::uint64_t>(ours), std::bit_cast<std::uint64_t>(cudas)) << code;
      }
    }
}

}  // namespace
}  // namespace assay
