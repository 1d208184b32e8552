// An example of a plugin on a GPU: the forward of DeltaNet, token by token, in fp32, a thread for every value channel.
// Compiled by the tests; by hand: nvcc -std=c++20 -shared -Xcompiler -fPIC -I. tools/plugin/deltanet_on_device.cu -o
// deltanet.so
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tools/plugin/assay_plugin.h"

namespace {

/// A tensor of F32 or BF16.
struct Numbers {
  const void* data;
  bool bf16;
  __device__ float operator[](std::int64_t i) const {
    return bf16 ? __uint_as_float(std::uint32_t{static_cast<const std::uint16_t*>(data)[i]} << 16)
                : static_cast<const float*>(data)[i];
  }
};

struct Shape {
  std::int64_t len, heads, shared, key_dim, value_dim;
};

/// Block (h, b) is a head; the state is kept where it ends, in final_state.
__global__ void deltanet(Numbers q, Numbers k, Numbers v, Numbers beta, Numbers initial_state, float* o,
                         float* final_state, Shape n, float scale) {
  const std::int64_t h = blockIdx.x, b = blockIdx.y, K = n.key_dim, V = n.value_dim, first = (b * n.heads + h) * K * V;
  float* S = final_state + first;
  for (std::int64_t c = threadIdx.x; c < V; c += blockDim.x) {
    for (std::int64_t r = 0; r < K; ++r) S[r * V + c] = initial_state[first + r * V + c];
    for (std::int64_t t = 0; t < n.len; ++t) {
      const std::int64_t at = (b * n.len + t) * n.heads + h;
      const std::int64_t key = ((b * n.len + t) * n.shared + h / (n.heads / n.shared)) * K;
      float read = 0, answer = 0;
      for (std::int64_t r = 0; r < K; ++r) read += k[key + r] * S[r * V + c];
      const float update = beta[at] * (v[at * V + c] - read);
      for (std::int64_t r = 0; r < K; ++r) {
        S[r * V + c] += k[key + r] * update;
        answer += q[key + r] * S[r * V + c];
      }
      o[at * V + c] = scale * answer;
    }
  }
}

const assay_input* input(const assay_problem& problem, const char* name) {
  for (std::size_t i = 0; i < problem.input_count; ++i)
    if (std::strcmp(problem.inputs[i].name, name) == 0) return &problem.inputs[i];
  return nullptr;
}

float* output(const assay_problem& problem, const char* name) {
  for (std::size_t i = 0; i < problem.output_count; ++i)
    if (std::strcmp(problem.outputs[i].name, name) == 0) return static_cast<float*>(problem.outputs[i].data);
  return nullptr;
}

const char* run(const assay_problem* problem) {
  if (std::strcmp(problem->mechanism, "deltanet") != 0) return "this is DeltaNet's kernel";
  const char* const names[] = {"q", "k", "v", "beta", "initial_state"};
  Numbers in[5];
  for (int i = 0; i < 5; ++i) {
    const assay_input* tensor = input(*problem, names[i]);
    if (tensor == nullptr) return "needs q, k, v, beta and initial_state";
    if (tensor->dtype != ASSAY_F32 && tensor->dtype != ASSAY_BF16) return "takes F32 and BF16";
    in[i] = {tensor->data, tensor->dtype == ASSAY_BF16};
  }
  float *o = output(*problem, "o"), *final_state = output(*problem, "final_state");
  if (o == nullptr || final_state == nullptr || problem->output_count != 2) return "answers o and final_state";
  const std::int64_t *values = input(*problem, "v")->extents, *keys = input(*problem, "k")->extents;
  float scale = 1 / std::sqrt(static_cast<float>(keys[3]));
  for (std::size_t i = 0; i < problem->param_count; ++i)
    if (std::strcmp(problem->params[i].name, "scale") == 0) scale = std::strtof(problem->params[i].value, nullptr);
  const dim3 heads(static_cast<unsigned>(values[2]), static_cast<unsigned>(values[0]));
  deltanet<<<heads, 128>>>(in[0], in[1], in[2], in[3], in[4], o, final_state,
                           {values[1], values[2], keys[2], keys[3], values[3]}, scale);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace

const assay_plugin_description* assay_plugin() {
  static const assay_plugin_description description = {ASSAY_PLUGIN_VERSION, run, ASSAY_DEVICE_MEMORY};
  return &description;
}
