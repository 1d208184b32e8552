// The model of a tensor core's sums against the device's: blocks of random factors through mma.sync, where there is
// one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/tensor_core.hpp"
#include "kernels/cuda/mma_block.cuh"
#include "reference/core/rounding.hpp"

namespace assay::tile {
namespace {

constexpr int rows = 16, cols = 8, products = 64;  // of so many blocks

/// A warp for each product C[rows][cols] += A[rows][depth] B[depth][cols].
template <Format F>
__global__ void multiply_add(const float* a, const float* b, float* c) {
  constexpr int depth = Atom<F>::depth;
  const int row = static_cast<int>(threadIdx.x) / 4, pair = static_cast<int>(threadIdx.x) % 4 * 2;
  a += blockIdx.x * rows * depth, b += blockIdx.x * depth * cols, c += blockIdx.x * rows * cols;
  const auto of_a = [&](int r, int k) { return a[r * depth + k]; };
  const auto of_b = [&](int k) { return b[k * cols + row]; };
  typename Atom<F>::Register left[4], right[2];
  for (int i = 0; i < 4; ++i) {
    const int r = row + i % 2 * 8, k = i / 2;
    if constexpr (F == Format::tf32)
      left[i] = __float_as_uint(of_a(r, pair / 2 + 4 * k));
    else
      left[i] = pack2<F>(of_a(r, pair + 8 * k), of_a(r, pair + 8 * k + 1));
  }
  for (int i = 0; i < 2; ++i) {
    if constexpr (F == Format::tf32)
      right[i] = __float_as_uint(of_b(pair / 2 + 4 * i));
    else
      right[i] = pack2<F>(of_b(pair + 8 * i), of_b(pair + 8 * i + 1));
  }
  float sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = c[(row + i / 2 * 8) * cols + pair + i % 2];
  Atom<F>::mma(sums, left, right[0], right[1]);
  for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * cols + pair + i % 2] = sums[i];
}

struct Blocks {
  std::vector<float> a, b, c;
};

/// Kinds of sums in kernels, and kinds on which models differ: other exponents, zeros, sums that cancel.
constexpr const char* kinds[] = {"normal",    "all exponents", "weights", "no sum yet",
                                 "large sum", "subnormal sum", "zeros",   "cancelling"};

Blocks blocks(const std::string& kind, Format format, int depth) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> exponent(-7, 6);
  const auto factor = [&](bool left) {
    double x = normal(random);
    if (kind == "all exponents") x = std::ldexp(x, exponent(random));
    if (kind == "weights" && left) x = std::fabs(x) / 30 * std::exp(-std::fabs(normal(random)));
    if (kind == "zeros" && random() % 3 == 0) x = 0;
    return static_cast<float>(round_to(x, format));
  };
  Blocks x;
  for (int i = 0; i < products * rows * depth; ++i) x.a.push_back(factor(true));
  for (int i = 0; i < products * depth * cols; ++i) x.b.push_back(factor(false));
  const double size = kind == "no sum yet" ? 0 : kind == "large sum" ? 1000 : kind == "subnormal sum" ? 1e-39 : 3;
  for (int i = 0; i < products * rows * cols; ++i) {
    double sum = size * normal(random);
    if (kind == "cancelling") {
      const int block = i / (rows * cols), r = i / cols % rows, j = i % cols;
      double all = 0;
      for (int k = 0; k < depth; ++k)
        all += double{x.a[(block * rows + r) * depth + k]} * double{x.b[(block * depth + k) * cols + j]};
      sum = -all * (1 + 1e-5 * normal(random));
    }
    x.c.push_back(static_cast<float>(sum));
  }
  return x;
}

template <Format F>
std::vector<float> on_device(const Blocks& x) {
  float *a = nullptr, *b = nullptr, *c = nullptr;
  const auto upload = [](float*& to, const std::vector<float>& from) {
    EXPECT_EQ(cudaMalloc(&to, from.size() * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(to, from.data(), from.size() * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
  };
  upload(a, x.a), upload(b, x.b), upload(c, x.c);
  multiply_add<F><<<products, 32>>>(a, b, c);
  std::vector<float> sums(x.c.size());
  EXPECT_EQ(cudaMemcpy(sums.data(), c, sums.size() * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
  for (float* p : {a, b, c}) cudaFree(p);
  return sums;
}

/// The share of sums that have the model's bits.
double agreement(const TensorCore& core, const Blocks& x, const std::vector<float>& sums, Format format, int depth) {
  std::size_t same = 0;
  const std::vector<double> a(x.a.begin(), x.a.end()), b(x.b.begin(), x.b.end());
  std::vector<double> c(x.c.begin(), x.c.end());
  for (int i = 0; i < products * rows; ++i)
    core.multiply_add(&c[i * cols], &a[i * depth], &b[i / rows * depth * cols], depth, cols, format);
  for (std::size_t i = 0; i < c.size(); ++i) same += c[i] == double{sums[i]};
  return static_cast<double>(same) / static_cast<double>(c.size());
}

template <Format F>
void compare_with_device() {
  constexpr int depth = Atom<F>::depth;
  const TensorCore others[] = {{1, false}, {3, false}, {2, true}};
  double of_other[3] = {1, 1, 1};
  for (const char* kind : kinds) {
    const Blocks x = blocks(kind, F, depth);
    const std::vector<float> sums = on_device<F>(x);
    EXPECT_EQ(agreement(TensorCore{}, x, sums, F, depth), 1) << kind;
    for (int i = 0; i < 3; ++i) of_other[i] = std::min(of_other[i], agreement(others[i], x, sums, F, depth));
  }
  for (const double share : of_other) EXPECT_LT(share, 0.95);
}

TEST(TensorCore, AddsAsTheModelDoes) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  if (properties.major != 9) GTEST_SKIP() << "the model is Hopper's, and this is " << properties.name;
  compare_with_device<Format::bf16>();
  compare_with_device<Format::fp16>();
  compare_with_device<Format::tf32>();
}

}  // namespace
}  // namespace assay::tile
