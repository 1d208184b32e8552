// Tile programs with arguments on a GPU against their emulation on the CPU: a line for every tensor, exit 1 if one is
// further from it than tools/gpu/gpu_check.cpp allows: twice the emulation's own error, and what it does not model.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <vector>

#include "kernels/arguments/gpu_rooms.hpp"
#include "kernels/arguments/rooms.hpp"
#include "reference/core/random.hpp"

namespace assay {
namespace {

constexpr int heads = 4, kv_heads = 2, dim = 64;

Array drawn(const std::string& name, std::vector<int> shape, double size = 1) {
  Array array(std::move(shape));
  const Stream stream(0, name);
  for (std::size_t i = 0; i < array.data.size(); ++i)
    array.data[i] = round_to(size * (2 * stream.uniform(i) - 1), Format::bf16);
  return array;
}

Problem operands(const std::string& mechanism, int queries, int keys) {
  Problem p;
  p.mechanism = mechanism;
  p.inputs = {{"q", drawn("q", {heads, queries, dim}, 2)},
              {"k", drawn("k", {kv_heads, keys, dim}, 2)},
              {"v", drawn("v", {kv_heads, keys, dim})},
              {"bandwidth", Array({}, {8.0})}};
  if (mechanism == "parallax") p.inputs["rho"] = drawn("rho", {heads, queries, dim}, 0.25);
  p.cotangents = {{"o", drawn("d_o", {heads, queries, dim})}, {"lse", drawn("d_lse", {heads, queries})}};
  p.params = {{"window_left", -1L}, {"window_right", 0L}};
  return p;
}

struct Case {
  const char* name;
  Problem problem;
};

/// What each argument does, alone and with others.
std::vector<Case> cases(const std::string& mechanism, int queries, int keys) {
  const Problem base = operands(mechanism, queries, keys);
  std::vector<Case> all;
  const auto add = [&](const char* name, auto change) {
    all.push_back({name, base});
    change(all.back().problem);
  };
  add("lse", [](Problem&) {});
  add("cap", [](Problem& p) { p.params["soft_cap"] = std::string("2"); });
  add("slopes", [&](Problem& p) { p.inputs["alibi_slopes"] = drawn("slopes", {heads}, 0.25); });
  add("signed slopes", [&](Problem& p) {
    p.inputs["alibi_slopes"] = drawn("slopes", {heads}, 0.25), p.params["signed"] = true,
    p.params["window_right"] = -1L;
  });
  for (const char* place : {"after", "before_cap", "before_scale"})
    add(place, [&](Problem& p) {
      p.inputs["bias"] = drawn("bias", {heads, queries, keys}), p.params["soft_cap"] = std::string("2");
      if (place != std::string_view("after")) p.params[place] = true;
    });
  add("mask", [&](Problem& p) {
    Array mask = drawn("mask", {queries, keys});
    for (double& x : mask.data) x = x > 0 ? 1 : 0;
    p.inputs["mask"] = std::move(mask), p.params["window_right"] = -1L;
  });
  add("documents", [&](Problem& p) {
    p.inputs["documents_q"] = Array({queries}), p.inputs["documents_k"] = Array({keys});
    for (int i = 0; i < queries; ++i)
      p.inputs["documents_q"].data[static_cast<std::size_t>(i)] = (i + keys - queries) / 20;
    for (int j = 0; j < keys; ++j) p.inputs["documents_k"].data[static_cast<std::size_t>(j)] = j / 20;
  });
  add("window from the start", [](Problem& p) { p.params["window_left"] = 30L, p.params["from_start"] = true; });
  if (mechanism == "softmax_attention")
    add("sink", [&](Problem& p) {
      p.inputs["sink"] = drawn("sink", {heads}, 3), p.inputs["has_sink"] = Array({heads}, {1, 1, 0, 1});
    });
  return all;
}

// ---- recurrences with front ends

Problem recurrence_operands(const std::string& mechanism, int len) {
  Problem p;
  p.mechanism = mechanism;
  p.inputs = {{"q", drawn("q", {kv_heads, len, dim}, 2)},
              {"k", drawn("k", {kv_heads, len, dim}, 2)},
              {"v", drawn("v", {heads, len, dim})},
              {"initial_state", drawn("initial_state", {heads, dim, dim}, 0.125)}};
  if (mechanism == "comba") p.inputs["p"] = drawn("p", {kv_heads, len, dim}, 2);
  p.cotangents = {{"o", drawn("d_o", {heads, len, dim})}, {"final_state", drawn("d_final", {heads, dim, dim}, 0.125)}};
  p.params = {{"l2_norm", std::string("root")}, {"l2_eps", std::string("0.5")}};
  return p;
}

/// Which inputs a recurrence has beside q, k and v.
struct Gates {
  bool decays, channels, strengths, steps;
};
Gates gates_of(const std::string& mechanism) {
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), mechanism) != names.end();
  };
  return {is({"gated_deltanet", "comba", "mamba2", "gla", "kda"}), is({"gla", "kda"}),
          is({"deltanet", "gated_deltanet", "comba", "kda"}), mechanism == "mamba2"};
}

/// Numbers of every token, or of every channel of it.
std::vector<int> of_tokens(const Gates& gates, int len) {
  return gates.channels ? std::vector<int>{heads, len, dim} : std::vector<int>{heads, len};
}
Array negative(Array array) {
  for (double& x : array.data) x = -std::fabs(x);
  return array;
}

std::vector<Case> recurrence_cases(const std::string& mechanism, int len) {
  const Gates gates = gates_of(mechanism);
  Problem base = recurrence_operands(mechanism, len);
  if (gates.strengths) base.inputs["beta"] = drawn("beta", {heads, len}, 0.5);
  for (double& x : base.inputs["beta"].data) x = std::fabs(x);
  if (!gates.strengths) base.inputs.erase("beta");
  if (gates.decays) base.inputs["log_decay"] = negative(drawn("log_decay", of_tokens(gates, len), 0.25));
  if (mechanism == "retnet") base.params["head"] = 3L;
  std::vector<Case> all;
  const auto add = [&](const char* name, auto change) {
    all.push_back({name, base});
    change(all.back().problem);
  };
  for (const char* kind : {"root", "sum", "max"})
    add(kind, [&](Problem& p) { p.params["l2_norm"] = std::string(kind); });
  if (gates.decays)
    for (const char* gate : {"softplus", "bounded", "logsigmoid"})
      add(gate, [&](Problem& p) {
        p.inputs.erase("log_decay");
        p.inputs["a"] = drawn("a", of_tokens(gates, len), 3);
        p.inputs["dt_bias"] = drawn("dt_bias", gates.channels ? std::vector<int>{heads, dim} : std::vector<int>{heads});
        p.params["gate"] = std::string(gate);
        if (gate != std::string_view("logsigmoid")) p.inputs["a_log"] = drawn("a_log", {heads});
        p.params["lower_bound"] = std::string("-2"), p.params["gate_normalizer"] = std::string("16");
        p.params["gate_min"] = std::string("-0.125"), p.params["has_minimum"] = true;
        p.params["softplus_threshold"] = std::string("2"), p.params["has_threshold"] = true;
      });
  if (gates.strengths)
    add("strength", [&](Problem& p) {
      p.inputs.erase("beta");
      p.inputs["b"] = drawn("b", {heads, len}, 3);
      p.params["beta_scale"] = std::string("2");
    });
  if (gates.steps)
    add("step", [&](Problem& p) {
      p.inputs.erase("log_decay");
      p.inputs["dt"] = drawn("dt", {heads, len}, 2), p.inputs["dt_bias"] = drawn("dt_bias", {heads});
      p.inputs["rate"] = negative(drawn("rate", {heads}));
      p.inputs["skip"] = drawn("skip", {heads, dim}), p.inputs["z"] = drawn("z", {heads, len, dim}, 3);
      p.params["dt_softplus"] = true, p.params["scale"] = std::string("1");
      p.params["dt_min"] = std::string("0.25"), p.params["dt_max"] = std::string("1"), p.params["has_maximum"] = true;
    });
  return all;
}

double distance(const Array& a, const Array& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) sum += (a.data[i] - b.data[i]) * (a.data[i] - b.data[i]);
  return std::sqrt(sum);
}

bool compare(const std::string& what, const Arrays& device, const Arrays& emulated, const Arrays& exact, double floor) {
  bool ok = true;
  // What cancels, as d_rho of one key does, leaves errors of the size of its terms: those of the largest tensor.
  double terms = 0;
  for (const auto& [name, truth] : exact) terms = std::max(terms, distance(truth, Array(truth.shape)));
  for (const auto& [name, truth] : exact) {
    const double off = distance(device.at(name), emulated.at(name)), error = distance(emulated.at(name), truth);
    const bool fine = off <= 2 * error + floor * terms;  // false of NaN
    ok = ok && fine;
    std::cout << (fine ? "ok   " : "FAIL ") << what << ' ' << name << std::setprecision(3) << ": device from emulation "
              << off << ", emulation from exact " << error << ", size of terms " << terms << '\n';
  }
  return ok;
}

bool check(const KernelForm& form, const GpuForm& gpu, const Case& c, Format precision) {
  Problem problem = c.problem;
  if (!form.has_gradients) problem.cotangents.clear();
  const std::string what = std::string(c.problem.mechanism) + ' ' + std::string(form.name) + ' ' +
                           std::string(name_of(precision)) + ", " + c.name + ',';
  if (const std::string why = gpu.obstacle(problem, precision); !why.empty()) {
    std::cout << "none " << what << ' ' << why << '\n';
    return true;
  }
  const int tile = gpu.tile(problem, precision);
  const Answer emulated = form.run(problem, Policy::of(form.sites, precision), tile),
               exact = form.run(problem, Policy::exact(form.sites), tile),
               device = gpu.run(problem, precision, nullptr);
  // As in gpu_check: two units for each of the T + K products and sums on the way, and exponentials err by two.
  const double unit = unit_roundoff(precision == Format::fp64 ? Format::fp64 : Format::fp32);
  const double floor = 4 * (c.problem.inputs.at("k").shape[1] + dim) * unit;
  const bool outputs = compare(what, device.outputs, emulated.outputs, exact.outputs, floor);
  return compare(what + " d", device.gradients, emulated.gradients, exact.gradients, floor) && outputs;
}

bool has_scores(std::string_view mechanism) { return mechanism == "softmax_attention" || mechanism == "parallax"; }

bool check_all() {
  bool ok = true;
  for (const GpuRoom* gpu : gpu_argument_rooms) {
    const std::string mechanism(gpu->name.substr(0, gpu->name.find('+')));
    const KernelRoom& room = *tile::kernel_rooms::with_arguments(mechanism);
    for (std::size_t f = 0; f < gpu->forms.size(); ++f)
      for (const Format precision : {Format::bf16, Format::fp16, Format::tf32, Format::fp64})
        for (const int keys : {1, 65, 200})
          for (const Case& c : has_scores(mechanism)
                                   ? cases(mechanism, f == 0 ? (keys + 1) / 2 : std::min(keys, 3), keys)
                                   : recurrence_cases(mechanism, keys))
            ok = check(room.forms[f], gpu->forms[f], c, precision) && ok;
  }
  return ok;
}

}  // namespace
}  // namespace assay

int main() {
  if (!assay::gpu_available()) {
    std::cerr << "argument_check: no GPU of compute capability 9.0\n";
    return 2;
  }
  return assay::check_all() ? 0 : 1;
}
