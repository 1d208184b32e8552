// The oracle's delta slab on a GPU, its own source with a warp for a vector: all words and all bounds have the CPU's
// bits. Prints a line for each problem, with the times of both; exit 1 if any bit differs.
#define ASSAY_WORDS_ISA warp
#define ASSAY_WORDS_WIDTH 32
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "oracles/multiword/delta.hpp"
#include "oracles/multiword/delta_prepared.hpp"
#include "oracles/multiword/lanes/delta_slab.hpp"

namespace {

using namespace assay::words;

void must(cudaError_t status, int line = __builtin_LINE()) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "truth_check: line %d: %s\n", line, cudaGetErrorString(status));
  std::exit(2);
}

/// Numbers on the device.
class OnDevice {
 public:
  explicit OnDevice(std::size_t n) : n_(n) { must(cudaMalloc(&data_, std::max<std::size_t>(n, 1) * sizeof(double))); }
  explicit OnDevice(const std::vector<double>& x) : OnDevice(x.size()) {
    if (n_ > 0) must(cudaMemcpy(data_, x.data(), n_ * sizeof(double), cudaMemcpyHostToDevice));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice(OnDevice&&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  OnDevice& operator=(OnDevice&&) = delete;
  ~OnDevice() { cudaFree(data_); }
  double* get() const { return data_; }
  std::vector<double> back() const {
    std::vector<double> x(n_);
    if (n_ > 0) must(cudaMemcpy(x.data(), data_, n_ * sizeof(double), cudaMemcpyDeviceToHost));
    return x;
  }

 private:
  double* data_ = nullptr;
  std::size_t n_;
};

/// What a block's warp takes: 32 columns, block x of copy y of the problem.
struct Launch {
  DeltaSlab slab;
  const double* initial_state;  // [keys][stride]
  double *out, *bound;          // [copy][word][steps][stride], [copy][steps][stride]
  double *state, *error;        // [copy][keys][word][stride], [copy][stride]
};

template <int W>
__global__ void __launch_bounds__(32) run_slabs(Launch x) {
  extern __shared__ double state[];
  const std::size_t stride = x.slab.value_stride, at = std::size_t{blockIdx.x} * 32, rows = x.slab.steps * stride;
  const std::size_t lane = threadIdx.x, K = x.slab.keys;
  for (std::size_t i = 0; i < K; ++i)
    for (std::size_t w = 0; w < W; ++w)
      state[(i * W + w) * 32 + lane] = w == 0 ? x.initial_state[i * stride + at + lane] : 0;
  double* out[4];
  for (std::size_t w = 0; w < 4; ++w) out[w] = x.out + (blockIdx.y * W + w % W) * rows + at;
  double* error = x.error + blockIdx.y * stride + at;
  error[lane] = 0;
  x.slab.v += at, x.slab.state = state, x.slab.error = error, x.slab.out = out;
  x.slab.out_bound = x.bound + blockIdx.y * rows + at;
  __syncwarp();
  warp::delta_slab<W>(x.slab);
  for (std::size_t i = 0; i < K * W; ++i) x.state[(blockIdx.y * K * W + i) * stride + at + lane] = state[i * 32 + lane];
}

struct Problem {
  std::size_t T, K, V, copies;
  DeltaDecay decay;
  DeltaError error;
  int words;
};

std::vector<double> numbers(std::size_t n, double size, std::mt19937_64& bits) {
  std::vector<double> x(n);
  for (double& e : x) e = size * (std::ldexp(static_cast<double>(bits() >> 11), -52) - 1);
  return x;
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <int W>
float launched(const Launch& x, const Problem& p, std::size_t stride) {
  const auto shared = static_cast<int>(p.K * W * 32 * sizeof(double));
  must(cudaFuncSetAttribute(run_slabs<W>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  cudaEvent_t start, stop;
  must(cudaEventCreate(&start)), must(cudaEventCreate(&stop));
  must(cudaEventRecord(start));
  run_slabs<W><<<dim3(static_cast<unsigned>(stride / 32), static_cast<unsigned>(p.copies)), 32, shared>>>(x);
  must(cudaEventRecord(stop)), must(cudaDeviceSynchronize());
  float ms = 0;
  must(cudaEventElapsedTime(&ms, start, stop));
  must(cudaEventDestroy(start)), must(cudaEventDestroy(stop));
  return ms;
}

/// Numbers of all copies that have other bits than the CPU's.
std::size_t differing(const std::vector<double>& got, const std::vector<double>& want, std::size_t rows,
                      std::size_t columns, std::size_t got_rows, std::size_t stride, std::size_t offset,
                      std::size_t step) {
  std::size_t count = 0;
  for (std::size_t first = 0; first < got.size(); first += got_rows * stride)
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j)
        if (got[first + (offset + i * step) * stride + j] != want[i * columns + j]) ++count;
  return count;
}

bool same_bits(const Problem& p) {
  std::mt19937_64 bits(p.T * 31 + p.K);
  const std::size_t decays = p.decay == DeltaDecay::none ? 0 : p.decay == DeltaDecay::per_step ? p.T : p.T * p.K;
  auto q = numbers(p.T * p.K, 1, bits), k = numbers(p.T * p.K, std::sqrt(3 / static_cast<double>(p.K)), bits);
  auto v = numbers(p.T * p.V, 1, bits), beta = numbers(p.T, 1, bits), log_decay = numbers(decays, 0.01, bits);
  auto initial = numbers(p.K * p.V, 1, bits);
  for (double& x : log_decay) x = -std::fabs(x);
  DeltaProblem x;
  x.steps = p.T, x.keys = p.K, x.values = p.V, x.q = q, x.k = k, x.v = v, x.beta = beta, x.log_decay = log_decay;
  x.initial_state = initial, x.error = p.error, x.scale = reciprocal_sqrt(static_cast<double>(p.K));
  const Effort effort{p.words, 1, best_isa()};
  const double start = seconds();
  const DeltaAnswer want = delta_forward(x, effort);
  const double on_cpu = seconds() - start;

  const Prepared y = prepare(x, effort, 32);
  const std::size_t W = static_cast<std::size_t>(p.words), rows = p.T * y.stride;
  const std::vector<double> scale(x.scale.word.begin(), x.scale.word.end());
  const auto* first = reinterpret_cast<const double*>(y.bound.data());
  const OnDevice dq(q), dk(k), dv(y.v), db(y.beta), dd(y.decay), ds(scale),
      bounds(std::vector<double>(first, first + y.bound.size() * sizeof(DeltaBound) / sizeof(double))),
      di(padded(initial, p.K, p.V, y.stride)), out(p.copies * W * rows), bound(p.copies * rows),
      state(p.copies * p.K * W * y.stride), error(p.copies * y.stride);
  Launch launch{slab_of(x, y, 0, 0, p.T), di.get(), out.get(), bound.get(), state.get(), error.get()};
  DeltaSlab& s = launch.slab;
  s.q = dq.get(), s.k = s.p = dk.get(), s.v = dv.get(), s.beta = db.get(), s.decay = dd.get(), s.scale = ds.get();
  s.bound = reinterpret_cast<const DeltaBound*>(bounds.get());
  float ms = 0;
  for (int run = 0; run < 2; ++run)
    ms = p.words == 2   ? launched<2>(launch, p, y.stride)
         : p.words == 3 ? launched<3>(launch, p, y.stride)
                        : launched<4>(launch, p, y.stride);
  const auto o = out.back(), b = bound.back(), end = state.back(), e = error.back();
  std::size_t off = differing(b, want.o.bound, p.T, p.V, p.T, y.stride, 0, 1);
  for (std::size_t w = 0; w < W; ++w) {
    off += differing(o, want.o.word[w], p.T, p.V, W * p.T, y.stride, w * p.T, 1);
    off += differing(end, want.final_state.word[w], p.K, p.V, p.K * W, y.stride, w, W);
  }
  off += differing(e, std::vector<double>(want.final_state.bound.begin(), want.final_state.bound.begin() + p.V), 1, p.V,
                   1, y.stride, 0, 1);
  std::printf(
      "T %zu K %zu V %zu heads %zu decay %d error %d words %d: %zu bits differ; GPU %.2f ms, one CPU %.2f ms a head\n",
      p.T, p.K, p.V, p.copies, static_cast<int>(p.decay), static_cast<int>(p.error), p.words, off, ms, 1e3 * on_cpu);
  return off == 0;
}

}  // namespace

int main() {
  bool same = true;
  for (const DeltaDecay decay : {DeltaDecay::none, DeltaDecay::per_step, DeltaDecay::per_channel})
    for (const DeltaError error : {DeltaError::none, DeltaError::undecayed, DeltaError::decayed})
      for (int words = 2; words <= 4; ++words) same = same_bits({37, 19, 45, 2, decay, error, words}) && same;
  same = same_bits({1, 1, 1, 1, DeltaDecay::per_step, DeltaError::decayed, 2}) && same;
  for (const std::size_t copies : {1, 16, 64})
    same = same_bits({1024, 128, 128, copies, DeltaDecay::per_step, DeltaError::decayed, 2}) && same;
  same = same_bits({4096, 128, 128, 16, DeltaDecay::per_step, DeltaError::decayed, 2}) && same;
  same = same_bits({1024, 128, 128, 16, DeltaDecay::per_channel, DeltaError::decayed, 2}) && same;
  std::puts(same ? "truth_check: all bits are the CPU's" : "truth_check: bits differ");
  return same ? 0 : 1;
}
