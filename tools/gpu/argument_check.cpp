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

bool check_all() {
  bool ok = true;
  for (const GpuRoom* gpu : gpu_argument_rooms) {
    const std::string mechanism(gpu->name.substr(0, gpu->name.find('+')));
    const KernelRoom& room = *find_argument_kernels(mechanism);
    for (std::size_t f = 0; f < room.forms.size(); ++f)
      for (const Format precision : {Format::bf16, Format::fp16, Format::tf32, Format::fp64})
        for (const int keys : {1, 65, 200})
          for (const Case& c : cases(mechanism, f == 0 ? (keys + 1) / 2 : std::min(keys, 3), keys))
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
