// An example of a plugin: the forward of DeltaNet, token by token, in fp32. On a GPU this would be a launch, with
// ASSAY_DEVICE_MEMORY. Compiled by the tests; by hand: g++ -std=c++20 -O2 -shared -fPIC -I. tools/plugin/deltanet.cpp
// -o deltanet.so
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tools/plugin/assay_plugin.h"

namespace {

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

std::vector<float> numbers(const assay_input& tensor) {
  std::size_t count = 1;
  for (int r = 0; r < tensor.rank; ++r) count *= static_cast<std::size_t>(tensor.extents[r]);
  std::vector<float> values(count);
  if (tensor.dtype == ASSAY_F32) std::memcpy(values.data(), tensor.data, count * sizeof(float));
  if (tensor.dtype == ASSAY_BF16)
    for (std::size_t i = 0; i < count; ++i)
      values[i] = std::bit_cast<float>(std::uint32_t{static_cast<const std::uint16_t*>(tensor.data)[i]} << 16);
  return values;
}

const char* run(const assay_problem* problem) {
  if (std::strcmp(problem->mechanism, "deltanet") != 0) return "this is DeltaNet's kernel";
  const char* const names[] = {"q", "k", "v", "beta", "initial_state"};
  std::vector<float> in[5];
  for (int i = 0; i < 5; ++i) {
    const assay_input* tensor = input(*problem, names[i]);
    if (tensor == nullptr) return "needs q, k, v, beta and initial_state";
    if (tensor->dtype != ASSAY_F32 && tensor->dtype != ASSAY_BF16) return "takes F32 and BF16";
    in[i] = numbers(*tensor);
  }
  const auto& [q, k, v, beta, state] = in;
  float *o = output(*problem, "o"), *final_state = output(*problem, "final_state");
  if (o == nullptr || final_state == nullptr || problem->output_count != 2) return "answers o and final_state";
  const int64_t* v_shape = input(*problem, "v")->extents;
  const int64_t* k_shape = input(*problem, "k")->extents;
  const int64_t B = v_shape[0], T = v_shape[1], H = v_shape[2], V = v_shape[3], shared = k_shape[2], K = k_shape[3];
  float scale = 1 / std::sqrt(static_cast<float>(K));
  for (std::size_t i = 0; i < problem->param_count; ++i)
    if (std::strcmp(problem->params[i].name, "scale") == 0) scale = std::strtof(problem->params[i].value, nullptr);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h) {
      float* S = final_state + (b * H + h) * K * V;
      std::memcpy(S, state.data() + (b * H + h) * K * V, static_cast<std::size_t>(K * V) * sizeof(float));
      for (int64_t t = 0; t < T; ++t) {
        const int64_t at = (b * T + t) * H + h, shared_at = (b * T + t) * shared + h / (H / shared);
        const float *query = q.data() + shared_at * K, *key = k.data() + shared_at * K;
        for (int64_t c = 0; c < V; ++c) {
          float read = 0, answer = 0;
          for (int64_t r = 0; r < K; ++r) read += key[r] * S[r * V + c];
          const float update = beta[static_cast<std::size_t>(at)] * (v[static_cast<std::size_t>(at * V + c)] - read);
          for (int64_t r = 0; r < K; ++r) {
            S[r * V + c] += key[r] * update;
            answer += query[r] * S[r * V + c];
          }
          o[at * V + c] = scale * answer;
        }
      }
    }
  return nullptr;
}

}  // namespace

const assay_plugin_description* assay_plugin() {
  static const assay_plugin_description description = {ASSAY_PLUGIN_VERSION, run, ASSAY_HOST_MEMORY};
  return &description;
}
