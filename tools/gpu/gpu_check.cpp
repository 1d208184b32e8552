// The device kernels against the CPU emulation of the same tile programs and against those programs without rounding.
// Prints a table and, if asked, enters the rooms that were run into the record that records/gpu keeps.
#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/core/batch.hpp"
#include "kernels/core/kernel_room.hpp"
#include "kernels/core/tensor_core.hpp"
#include "kernels/gpu/gpu.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "reference/core/inputs.hpp"
#include "tools/gpu/checks.hpp"
#include "tools/gpu/record.hpp"
#include "tools/gpu/sources.hpp"
#include "tools/run/device.hpp"

namespace assay {
namespace {

constexpr tile::TensorCore hopper;

enum ExitCode { exit_passed = 0, exit_failed = 1, exit_usage = 2, exit_broken = 3 };

struct Case {
  const KernelForm* kernel;
  const KernelForm* exact;  ///< what is meant: the room's first form if `kernel` is unstable
  const GpuForm* gpu;
  CaseSpec spec;
  Setting setting;
  bool by_default;  ///< the setting that a form is run with at every shape

  bool unstable() const { return kernel != exact; }
};

void take_out_probe(Problem& problem) {
  problem.cotangents.clear();
  std::vector<double>& rho = problem.inputs.at("rho").data;
  std::fill(rho.begin(), rho.end(), 0.0);
}
/// Multiplies a tensor's heads by powers of two, in turn.
void scale_heads(Problem& problem, const char* name, int first, int second) {
  const auto it = problem.inputs.find(name);
  if (it == problem.inputs.end()) return;
  const std::size_t heads = static_cast<std::size_t>(it->second.shape[0]), size = it->second.data.size() / heads;
  for (std::size_t i = 0; i < it->second.data.size(); ++i)
    it->second.data[i] = std::ldexp(it->second.data[i], i / size < heads / 2 ? first : second);
}

/// Without cotangents for a form that has forward passes alone. In e4m3 kernels have forward passes alone too, and
/// there are heads that this format holds in units of them alone. Their outputs stay alike in size, or the larger head
/// would be all that a norm sees.
Problem problem_of(const Case& c, const CaseSpec& spec) {
  const KernelForm& form = *c.kernel;
  Problem problem = listed_room(spec.mechanism).make(spec);
  if (!form.has_gradients) problem.cotangents.clear();
  if (c.setting.without_probe) take_out_probe(problem);
  if (c.setting.exchanges_decays) std::swap(problem.inputs.at("log_alpha"), problem.inputs.at("log_mu"));
  if (spec.precision != Format::e4m3) return problem;
  problem.cotangents.clear();
  scale_heads(problem, "q", -13, 10), scale_heads(problem, "rho", -13, 10);
  scale_heads(problem, "k", 13, -10), scale_heads(problem, "v", -14, -15);
  return problem;
}

bool decodes(const GpuForm& form) { return form.name == "split_decode"; }

/// Rooms of that name, or all where no name is given.
using Chosen = std::set<std::string, std::less<>>;
bool is_chosen(const Chosen& rooms, std::string_view room) { return rooms.empty() || rooms.contains(room); }

/// The form of the CPU that a device's emulates.
const KernelForm& kernel_of(const GpuRoom& room, const GpuForm& form) {
  const KernelRoom* kernels = find_kernels(kernel_rooms(), room.name);
  const auto kernel = std::ranges::find_if(kernels->forms, [&](const KernelForm& f) { return f.name == form.name; });
  require(kernel != kernels->forms.end(), room.name, " has no CPU form '", form.name, "'");
  return *kernel;
}

/// Adds what a form can run of lengths around tiles and chunks, of two value heads to a query head's worth of keys
/// where heads share, and of both head dimensions.
void add_cases(const GpuRoom& room, const GpuForm& form, bool subset, std::string_view only, std::vector<Case>& all) {
  const KernelForm& kernel = kernel_of(room, form);
  const KernelForm& first = find_kernels(kernel_rooms(), room.name)->forms.front();
  const auto add = [&](Format precision, int len, int dim, const Setting& setting, bool by_default) {
    if (text(room.name, '/', form.name, '/', name_of(precision), '/', dim).find(only) == std::string::npos) return;
    const Shape shape{
        1, len, 4, groups_heads(listed_room(room.name).inputs()) ? 2 : 0, dim, dim, std::min(len, setting.queries)};
    Case c{&kernel, kernel.unstable.empty() ? &kernel : &first,
           &form,   {std::string(room.name), shape, precision, setting.style, 0, setting.params},
           setting, by_default};
    const Problem problem = problem_of(c, c.spec);
    if (form.obstacle(problem, precision).empty() && kernel.obstacle(problem).empty()) all.push_back(std::move(c));
  };
  const std::vector<Setting> settings = kernel.settings();
  for (const Format precision : gpu_precisions)
    for (const int dim : {64, 128}) {
      for (const int len : {1, 63, 64, 65, 200, 257})
        if (!subset || len == 65) add(precision, len, dim, settings[0], true);
      for (std::size_t i = 1; dim == 64 && i < settings.size(); ++i)
        add(precision, subset ? 65 : 200, dim, settings[i], false);
    }
}
std::vector<Case> cases(bool subset, const Chosen& rooms, std::string_view only) {
  std::vector<Case> all;
  for (const GpuRoom* room : gpu_rooms())
    for (const GpuForm& form : room->forms)
      if (is_chosen(rooms, room->name)) add_cases(*room, form, subset, only, all);
  return all;
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}
double distance(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(sum);
}

/// Elements that are equal, or NaN both.
bool same_bits(const Array& x, const Array& y) {
  return x.shape == y.shape && std::equal(x.data.begin(), x.data.end(), y.data.begin(),
                                          [](double a, double b) { return a == b || (a != a && b != b); });
}
bool same_bits(const Arrays& x, const Arrays& y) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first && same_bits(a.second, b.second); });
}

/// One tensor of one case, or the worst of several cases. Errors are Frobenius norms relative to `scale`.
struct Comparison {
  double error = 0, emulation_error = 0, difference = 0, identical = 1;
  std::size_t same = 0, elements = 0;  ///< of all cases
  bool ok = true;
  int undetermined = 0;  ///< cases that say nothing: rounding leaves no digit of an unstable form's answer

  void merge(const Comparison& other) {
    undetermined += other.undetermined;
    if (other.undetermined > 0) return;
    const auto worse = [](double a, double b) { return a != a || b <= a ? a : b; };  // NaN is the worst
    error = worse(error, other.error);
    emulation_error = worse(emulation_error, other.emulation_error);
    difference = worse(difference, other.difference);
    identical = std::min(identical, other.identical);
    same += other.same, elements += other.elements;
    ok = ok && other.ok;
  }
  double share() const { return elements == 0 ? 1 : static_cast<double>(same) / static_cast<double>(elements); }
};

/// How far a device's result may be from its emulation's: `times` the emulation's error, or `drawn`, the largest of
/// others; and `floor`, what the emulation does not model, relative to `scale`. Where an `unstable` form may err by all
/// of its answer, NaN or not, there is nothing to compare.
struct Allowance {
  double times, drawn, floor;
  bool unstable = false;
};

Comparison compare(const Array& device, const Array& emulation, const Array& exact, double scale,
                   const Allowance& allowance) {
  Comparison c;
  if (device.shape != emulation.shape || device.shape != exact.shape) {
    c.ok = false;
    return c;
  }
  if (exact.data.empty()) return c;  // the pairs of a sequence that has written none
  // A tensor of zeros (the scatter of a single token) has no scale: then 0 is right and all else infinitely wrong.
  const auto relative = [&](double d) { return d == 0 ? 0 : d / scale; };
  c.error = relative(distance(device.data, exact.data));
  c.emulation_error = relative(distance(emulation.data, exact.data));
  c.difference = relative(distance(device.data, emulation.data));
  c.elements = device.data.size();
  for (std::size_t i = 0; i < c.elements; ++i) c.same += device.data[i] == emulation.data[i];
  c.identical = c.share();
  const double drawn = relative(allowance.drawn);
  c.ok = c.difference <= allowance.times * std::max(c.emulation_error, drawn) + allowance.floor;  // false for NaN
  if (allowance.unstable && !(c.emulation_error <= 1 && drawn <= 1)) c.undetermined = 1, c.ok = true;
  return c;
}

using Comparisons = std::map<std::string, Comparison, std::less<>>;

/// The CPU's answers to a case: its program as the contract rounds it, the same without rounding to compare with, and
/// three more draws of the roundings where it solves systems or is unstable. The rest that an iteration leaves depends
/// on every rounding on its way, and so do sums that cancel in an unstable form: errors differ by factors from one draw
/// to the next, and the emulation's alone may be lucky.
struct OnCpu {
  Problem problem;
  Answer emulation, exact;
  std::vector<Answer> drawn;
};

std::vector<OnCpu> on_cpu(const std::vector<Case>& cases) {
  std::vector<OnCpu> all(cases.size());
  const auto run = [&](std::size_t i, const KernelForm& form, const Policy& policy) {
    const Problem& problem = all[i].problem;
    return form.run(problem, policy, cases[i].gpu->tile(problem, cases[i].spec.precision));
  };
  {
    const tile::TensorCoreEmulation cutting(hopper);
    on_all_cores(cases.size(), [&](std::size_t i) {
      const Case& c = cases[i];
      all[i].problem = problem_of(c, c.spec);
      all[i].emulation = run(i, *c.kernel, Policy::of(c.kernel->sites, c.spec.precision));
    });
  }
  on_all_cores(cases.size(), [&](std::size_t i) {
    const Case& c = cases[i];
    all[i].exact = run(i, *c.exact, Policy::exact(c.exact->sites));
    Policy jittered = Policy::of(c.kernel->sites, c.spec.precision);
    jittered.rounding = Rounding::jittered;
    for (jittered.seed = 1; (c.kernel->iterative || c.unstable()) && jittered.seed <= 3; ++jittered.seed)
      all[i].drawn.push_back(run(i, *c.kernel, jittered));
  });
  return all;
}

/// Every tensor of a case. `rerun_identical` says whether a second run gave the same bits.
Comparisons run_case(const Case& c, const OnCpu& cpu, bool& rerun_identical) {
  const auto& [problem, emulation, exact, drawn] = cpu;
  const Format precision = c.spec.precision;
  const Answer device = run_on_gpu(*c.gpu, problem, precision), again = run_on_gpu(*c.gpu, problem, precision);
  rerun_identical = same_bits(device.outputs, again.outputs) && same_bits(device.gradients, again.gradients);

  // Errors of the device's exponentials and logarithms grow as roundings do in an unstable form: two units, and half
  // a one when they are rounded, where a draw errs by one at most.
  const double units = c.unstable() ? 2.5 : 1;
  const auto worst_drawn = [units, &draws = drawn](const Array& of_exact, auto of) {
    double worst = 0;
    for (const Answer& answer : draws) {
      const double error = units * distance(of(answer).data, of_exact.data);
      worst = error <= worst ? worst : error;  // NaN is the worst, and stays
    }
    return worst;
  };

  // Exponentials err by 2 units, and accumulators that no model of a tensor core is for (in e4m3, and of warpgroups)
  // truncate where the emulation rounds: two units for each of the T + K products and sums on the way to an element,
  // the unit being the accumulator's.
  const double unit = unit_roundoff(precision == Format::fp64 ? Format::fp64 : Format::fp32);
  const double floor = 2 * (c.spec.shape.seq_len + c.spec.shape.key_dim) * 2 * unit;
  // Two results that err by no more than the worst known differ by no more than twice that: a device that differs by
  // more errs by more. But where all is lost in one cancellation, one number is all of an error, and in fp64, where no
  // emulation has the device's bits, the device's is one more draw: the four known are all below a k-th of the distance
  // of two, for normal numbers, with probability E[(sqrt(2 / pi) |x| / k)^4] = 12 / (pi^2 k^4): 2e-5 for 16.
  const double times = c.unstable() && !hopper.takes(precision) ? 16 : 2;
  const auto allowance = [&](const Array& of_exact, auto of, double more = 0) {
    return Allowance{times, worst_drawn(of_exact, of), floor + times * more, c.unstable()};
  };
  double cotangent = 0;
  for (const auto& [name, array] : problem.cotangents) cotangent = std::hypot(cotangent, norm(array.data));

  Comparisons result;
  for (const auto& [name, array] : exact.outputs) {
    const auto of = [&tensor = name](const Answer& answer) -> const Array& { return answer.outputs.at(tensor); };
    result[name] = compare(of(device), of(emulation), array, norm(array.data), allowance(array, of));
  }
  for (const auto& [name, array] : exact.gradients) {
    // A gradient may vanish (one token attends to itself alone): its errors then have the cotangents' size. The
    // bandwidth's is minus <q, dq> / h, so its errors are those of dq times |q| / h.
    const double size = std::max(norm(array.data), floor * cotangent);
    const auto of = [&tensor = name](const Answer& answer) -> const Array& { return answer.gradients.at(tensor); };
    if (name != "bandwidth") {
      const bool vanishes = size == floor * cotangent;
      result["d" + name] = compare(of(device), of(emulation), array, vanishes ? cotangent : size, allowance(array, of));
      continue;
    }
    const auto dq = [](const Answer& answer) -> const Array& { return answer.gradients.at("q"); };
    const double h = std::stod(std::get<std::string>(problem.params.at("bandwidth")));
    const double scale = norm(problem.inputs.at("q").data) * std::max(norm(dq(exact).data), floor * cotangent) / h;
    const double from_dq =
        distance(dq(emulation).data, dq(exact).data) / std::max(norm(dq(exact).data), floor * cotangent);
    result["d" + name] = compare(of(device), of(emulation), array, scale, allowance(array, of, from_dq));
  }
  return result;
}

/// The share of a form's outputs in bf16 that have the bits of its emulation, at least: those of a recurrence hang on
/// one another's roundings through the state.
double least_agreement(const KernelForm& form) { return form.independent_rows ? 0.99 : 0.97; }

/// Lengths of the sequences that are packed: one token, and around tiles and chunks.
constexpr int packed_lengths[] = {1, 43, 64, 65, 130};

/// Whether a batch is made of that case's form, precision, dimensions and settings: once of each.
bool stands_for_batch(const Case& c) { return c.spec.shape.seq_len == 65 || !c.by_default; }

/// The case at those of packed_lengths that the form can run, a seed for each.
std::vector<Problem> batch_of(const Case& c) {
  std::vector<Problem> problems;
  CaseSpec spec = c.spec;
  for (const int len : packed_lengths) {
    spec.shape.seq_len = len;
    spec.shape.query_len = std::min(len, c.spec.shape.query_len);
    // A broadcast input comes in every kind, by the seed; a batch has one kind of it.
    const std::size_t s = problems.size();
    for (int tries = 0; problems.size() == s || (!pack::obstacle(problems).empty() && tries < 100); ++tries) {
      problems.resize(s);
      ++spec.seed;
      problems.push_back(problem_of(c, spec));
    }
    if (!c.gpu->obstacle(problems[s], spec.precision).empty() || !c.kernel->obstacle(problems[s]).empty())
      problems.resize(s);
  }
  return problems;
}

/// Where the sequences of a batch, packed, have other bits than alone, or "".
std::string packed_difference(const Case& c) {
  const std::vector<Problem> problems = batch_of(c);
  const Format precision = c.spec.precision;
  const std::vector<Answer> packed = run_packed(*c.gpu, problems, precision);
  for (std::size_t s = 0; s < problems.size(); ++s) {
    const Answer alone = run_on_gpu(*c.gpu, problems[s], precision);
    const auto where = [&](const Arrays& got, const Arrays& want, std::string_view prefix) -> std::string {
      if (got.size() != want.size()) return "another number of tensors";
      for (const auto& [name, array] : want)
        if (!same_bits(got.at(name), array)) return text(prefix, name);
      return "";
    };
    std::string tensor = where(packed[s].outputs, alone.outputs, "");
    if (tensor.empty()) tensor = where(packed[s].gradients, alone.gradients, "d");
    if (!tensor.empty()) return text(tensor, " of sequence ", s);
  }
  return "";
}

/// The shapes that a form is timed at, B,T,H,K,V.
std::vector<Shape> timed_shapes(const GpuRoom& room, const GpuForm& form) {
  if (decodes(form))
    return {{1, 16384, 64, 16, 64, 64, 1},
            {1, 16384, 64, 16, 128, 128, 1},
            {1, 32768, 64, 8, 128, 128, 1},
            {32, 32768, 64, 8, 128, 128, 1}};
  std::vector<Shape> shapes = {{2, 4096, 8, 8, 64, 64, 0}, {2, 4096, 8, 8, 128, 128, 0}};
  if (form.name == "tiled" && (room.name == "softmax_attention" || room.name == "parallax")) {
    shapes.push_back({4, 4096, 16, 16, 128, 128, 0});
    shapes.push_back({1, 16384, 16, 16, 128, 128, 0});
  }
  if (room.name == "deltanet") shapes.push_back({4, 8192, 16, 16, 128, 128, 0});
  return shapes;
}

/// A seeded problem whose batch entries are all the first: kernels take the same time, and numbers are drawn once.
Problem repeated(CaseSpec spec) {
  const int batch = std::exchange(spec.shape.batch, 1);
  Problem problem = listed_room(spec.mechanism).make(spec);
  for (Arrays* arrays : {&problem.inputs, &problem.cotangents})
    for (auto& [name, array] : *arrays) {
      if (array.shape.empty()) continue;
      const std::vector<double> first = array.data;
      array.shape[0] *= batch;
      array.data.reserve(first.size() * static_cast<std::size_t>(batch));
      for (int i = 1; i < batch; ++i) array.data.insert(array.data.end(), first.begin(), first.end());
    }
  return problem;
}

/// The least traffic of a forward pass, in bytes of bf16: its inputs and its outputs, once.
double bytes_of(const Problem& problem, const Answer& answer) {
  double elements = 0;
  for (const Arrays* arrays : {&problem.inputs, &answer.outputs})
    for (const auto& [name, array] : *arrays) elements += static_cast<double>(array.data.size());
  return 2 * elements;
}

/// Where a room's defaults are of no use at such shapes: FALCON-3 descends on the window of its paper.
Params timed_params(const GpuRoom& room, const GpuForm& form) {
  if (room.name == "falcon3" && form.name == "chunkwise") return {{"window", 4L}};
  return kernel_of(room, form).settings()[0].params;
}

/// Large shapes in bf16, timed by events, by room; `rooms` and `only` as of cases.
std::map<std::string, nlohmann::json, std::less<>> times(const Chosen& rooms, std::string_view only) {
  std::map<std::string, nlohmann::json, std::less<>> all;
  for (const GpuRoom* room : gpu_rooms())
    for (const GpuForm& form : room->forms) {
      std::vector<CaseSpec> specs;
      for (const Shape& shape : timed_shapes(*room, form))
        if (is_chosen(rooms, room->name) &&
            text(room->name, '/', form.name, "/bf16/", shape.key_dim).find(only) != std::string::npos)
          specs.push_back({std::string(room->name), shape, Format::bf16, Style::normal, 0, timed_params(*room, form)});
      const std::size_t with_probe = specs.size();
      if (room->name == "parallax" && specs.size() > 2) specs.push_back(specs[2]);
      std::vector<Problem> problems(specs.size());
      on_all_cores(specs.size(), [&](std::size_t i) { problems[i] = repeated(specs[i]); });
      for (std::size_t i = 0; i < specs.size(); ++i) {
        const CaseSpec& spec = specs[i];
        const Shape& shape = spec.shape;
        Problem problem = std::move(problems[i]);
        if (i >= with_probe) take_out_probe(problem);
        if (!form.obstacle(problem, spec.precision).empty()) continue;
        Arrays cotangents;  // a forward pass that keeps nothing for a backward one
        std::swap(cotangents, problem.cotangents);
        GpuTimes times, both;
        double bytes = bytes_of(problem, run_on_gpu(form, problem, spec.precision, &times));
        std::swap(cotangents, problem.cotangents);
        if (!decodes(form) && !problem.cotangents.empty()) run_on_gpu(form, problem, spec.precision, &both);
        times.backward = both.backward;
        std::printf("%-18s %-13s %-22s forward %8.3f ms", spec.mechanism.c_str(), std::string(form.name).c_str(),
                    text_of(shape).c_str(), times.forward);
        if (i >= with_probe) bytes -= 2 * static_cast<double>(problem.inputs.at("rho").data.size());  // is not read
        nlohmann::json entry = {{"form", form.name},
                                {"precision", name_of(spec.precision)},
                                {"shape", text_of(shape)},
                                {"bytes", bytes},
                                {"forward_ms", times.forward}};
        if (!spec.params.empty()) entry["params"] = flags_of(spec.params);
        if (i >= with_probe) {
          std::printf("  W_R = 0");
          entry["without_probe"] = true;
        }
        if (times.backward > 0) {
          std::printf("  backward %8.3f ms", times.backward);
          entry["backward_ms"] = times.backward;
        }
        std::printf("\n");
        std::fflush(stdout);
        all[spec.mechanism].push_back(std::move(entry));
      }
    }
  return all;
}

/// Prints how many elements of every tensor have the emulation's bits, with sums of products that are rounded and with
/// those of tensor cores: one case of every form, precision and head dimension; `rooms` and `only` as of cases.
void print_agreement(const Chosen& rooms, std::string_view only) {
  std::printf("%-18s %-13s %-5s %4s %-16s %10s %10s\n", "room", "form", "in", "K", "tensor", "rounded", "cut off");
  for (const Case& c : cases(false, rooms, only)) {
    const Format precision = c.spec.precision;
    if (c.spec.shape.seq_len != 200 || !c.by_default) continue;
    if (!hopper.takes(precision)) continue;
    const Problem problem = problem_of(c, c.spec);
    const auto emulation = [&] {
      return c.kernel->run(problem, Policy::of(c.kernel->sites, precision), c.gpu->tile(problem, precision));
    };
    const Answer device = run_on_gpu(*c.gpu, problem, precision), rounded = emulation();
    const tile::TensorCoreEmulation cutting(hopper);
    const Answer cut = emulation();
    const auto print = [&](const std::string& tensor, const Array& x, const Array& y, const Array& z) {
      const auto share = [&](const Array& other) { return 100 * compare(x, other, other, 1, {}).identical; };
      std::printf("%-18s %-13s %-5s %4d %-16s %9.3f%% %9.3f%%\n", c.spec.mechanism.c_str(),
                  std::string(c.gpu->name).c_str(), name_of(precision), c.spec.shape.key_dim, tensor.c_str(), share(y),
                  share(z));
    };
    for (const auto& [name, x] : device.outputs) print(name, x, rounded.outputs.at(name), cut.outputs.at(name));
    for (const auto& [name, x] : device.gradients)
      print("d" + name, x, rounded.gradients.at(name), cut.gradients.at(name));
    std::fflush(stdout);
  }
}

struct Arguments {
  bool subset = false, sources = false, programs = false, times = false, agreement = false;
  Chosen rooms;
  std::string records, due, memcheck, only;
};

/// "a,b" of rooms that have device kernels.
Chosen rooms_named(const std::string& list) {
  Chosen names;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    const std::string name = list.substr(at, end - at);
    const auto known = gpu_rooms();
    require(std::any_of(known.begin(), known.end(), [&](const GpuRoom* room) { return room->name == name; }),
            "--rooms: '", name, "' has no device kernels");
    names.insert(name);
    at = end + 1;
  }
  return names;
}

Arguments parse(const std::vector<std::string>& args) {
  Arguments a;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto value = [&] {
      require(i + 1 < args.size(), args[i], ": expected a value");
      return args[++i];
    };
    if (args[i] == "--subset")
      a.subset = true;
    else if (args[i] == "--sources")
      a.sources = true;
    else if (args[i] == "--programs")
      a.programs = true;
    else if (args[i] == "--times")
      a.times = true;
    else if (args[i] == "--agreement")
      a.agreement = true;
    else if (args[i] == "--rooms")
      a.rooms = rooms_named(value());
    else if (args[i] == "--due")
      a.due = value();
    else if (args[i] == "--records")
      a.records = value();
    else if (args[i] == "--only")
      a.only = value();
    else if (args[i] == "--memcheck")
      a.memcheck = value();
    else
      throw InputError(
          text("unknown argument '", args[i],
               "'; gpu_check takes --rooms NAME,..., --subset, --times, --agreement, --only ROOM/FORM/PRECISION/K, "
               "--sources, --programs, --due DIRECTORY, --records DIRECTORY and --memcheck RESULT"));
  }
  require(a.records.empty() || (!a.subset && a.only.empty()), "--records: a part of a room's cases is no record of it");
  return a;
}

/// "NVIDIA H200" is records/gpu/nvidia-h200.json.
std::string file_name(std::string name) {
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9')) c = '-';
  }
  return name + ".json";
}

/// The device's record, or null if it has none.
nlohmann::json read_record(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return nullptr;
  std::ifstream in(path);
  nlohmann::json record = nlohmann::json::parse(in, nullptr, false);
  require(record.is_object(), path.string(), ": expected a record, got something else");
  return record;
}
void write_record(const std::filesystem::path& path, const nlohmann::json& record) {
  std::filesystem::create_directories(path.parent_path());
  const std::filesystem::path part = path.string() + ".part";
  std::ofstream out(part);
  out << record.dump(1) << '\n';
  require(static_cast<bool>(out.flush()), part.string(), ": could not be written");
  std::filesystem::rename(part, path);
}

/// The results of the cases of a form in a precision and head dimension.
struct Group {
  const KernelForm* form = nullptr;
  Comparisons tensors;
  int cases = 0, batches = 0, failed_batches = 0;
};
struct GroupName {
  std::string room, form, precision;
  int dim;
  auto operator<=>(const GroupName&) const = default;
};
struct Outcome {
  std::map<GroupName, Group> groups;
  std::map<std::string, int, std::less<>> failed;  ///< cases of each room
};

/// As %.3g.
std::string short_number(double x) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.3g", x);
  return digits.data();
}
template <class... A>
void print_failure(std::string_view room, std::string_view form, const A&... what) {
  std::printf("FAIL %s %s: %s\n", std::string(room).c_str(), std::string(form).c_str(), text(what...).c_str());
}

/// Runs a case, and its batch where it stands for one.
void try_case(const Case& c, const OnCpu& cpu, Outcome& outcome) {
  const auto fail = [&](const auto&... what) {
    print_failure(c.spec.mechanism, c.gpu->name, what..., " (", c.spec.repro(), ')');
  };
  bool rerun_identical = false;
  const Comparisons tensors = run_case(c, cpu, rerun_identical);
  Group& group = outcome.groups[{c.spec.mechanism, std::string(c.gpu->name), std::string(name_of(c.spec.precision)),
                                 c.spec.shape.key_dim}];
  group.form = c.kernel;
  ++group.cases;
  bool ok = rerun_identical;
  for (const auto& [name, comparison] : tensors) {
    group.tensors[name].merge(comparison);
    ok = ok && comparison.ok;
    if (!comparison.ok)
      fail(name, " differs from its emulation by ", short_number(comparison.difference), ", which errs by ",
           short_number(comparison.emulation_error));
  }
  if (!rerun_identical) fail("a second run gave other bits");
  int& failed = outcome.failed[c.spec.mechanism];
  failed += ok ? 0 : 1;
  if (stands_for_batch(c)) {
    const std::string different = packed_difference(c);
    ++group.batches;
    if (!different.empty()) {
      ++group.failed_batches, ++failed;
      fail("packed with others, ", different, " has other bits than alone");
    }
  }
  std::fflush(stdout);
}

/// Each case has its own limit of differences; this is about all of them, where an element more or less is no matter.
void require_agreement(Outcome& outcome) {
  for (const auto& [key, group] : outcome.groups) {
    const auto o = group.tensors.find("o");
    if (key.precision != "bf16" || !group.form->unstable.empty() || o == group.tensors.end()) continue;
    const double share = o->second.share(), least = least_agreement(*group.form);
    if (share >= least) continue;
    ++outcome.failed[key.room];
    std::array<char, 16> percent{};
    std::snprintf(percent.data(), percent.size(), "%.3f%%", 100 * share);
    print_failure(key.room, key.form, percent.data(), " of o in bf16 at K = ", key.dim,
                  " have the bits of their emulation, expected at least ", short_number(100 * least), '%');
  }
}

/// Every tensor of a form is determined by some case in every precision, of whichever K.
void require_determined(Outcome& outcome) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, int> determined;
  for (const auto& [key, group] : outcome.groups)
    for (const auto& [name, c] : group.tensors)
      determined[{key.room, key.form, key.precision, name}] += group.cases - c.undetermined;
  for (const auto& [key, count] : determined) {
    if (count > 0) continue;
    const auto& [room, form, precision, name] = key;
    ++outcome.failed[room];
    print_failure(room, form, "no case in ", precision, " determines ", name);
  }
}

/// Prints the group's rows and enters them into the room's record.
void enter(const GroupName& key, const Group& group, nlohmann::json& room) {
  std::printf("%-18s %-13s %-5s %4d %d batches of %d packed sequences, %d with other bits than alone\n",
              key.room.c_str(), key.form.c_str(), key.precision.c_str(), key.dim, group.batches,
              static_cast<int>(std::size(packed_lengths)), group.failed_batches);
  const nlohmann::json head = {{"form", key.form}, {"precision", key.precision}, {"key_dim", key.dim}};
  const auto add = [&](const char* list, const nlohmann::json& rest) {
    room[list].push_back(head);
    room[list].back().update(rest);
  };
  add("packed", {{"lengths", packed_lengths}, {"batches", group.batches}, {"failed", group.failed_batches}});
  for (const auto& [name, c] : group.tensors) {
    std::printf("%-18s %-13s %-5s %4d %-16s %10.3e %10.3e %10.3e %9.3f%%%s\n", key.room.c_str(), key.form.c_str(),
                key.precision.c_str(), key.dim, name.c_str(), c.error, c.emulation_error, c.difference,
                100 * c.identical, c.undetermined > 0 ? text(", ", c.undetermined, " undetermined").c_str() : "");
    add("results", {{"tensor", name},
                    {"cases", group.cases},
                    {"error", c.error},
                    {"emulation_error", c.emulation_error},
                    {"difference", c.difference},
                    {"identical", c.identical}});
    if (c.undetermined > 0) room["results"].back()["undetermined"] = c.undetermined;
  }
}

/// This run's entry in the record of each room.
nlohmann::json measured_of(const Arguments& arguments, const GpuDevice& device, const Digests& digests,
                           const Outcome& outcome) {
  nlohmann::json measured = {{"device", device.name}, {"rooms", nlohmann::json::object()}};
  for (const auto& [room, count] : outcome.failed) {
    measured["rooms"][room] = {{"date", today()},
                               {"device", device.name},
                               {"multiprocessors", device.multiprocessors},
                               {"driver", device.driver},
                               {"compiler", device.compiler},
                               {"sources", digests.at(room)},
                               {"failed", count},
                               {"results", nlohmann::json::array()},
                               {"packed", nlohmann::json::array()}};
    if (!arguments.memcheck.empty()) measured["rooms"][room]["memcheck"] = arguments.memcheck;
  }
  for (const auto& [key, group] : outcome.groups) enter(key, group, measured["rooms"][key.room]);
  if (!arguments.subset && arguments.only.empty())
    for (auto& [room, of_room] : times(arguments.rooms, {})) measured["rooms"][room]["times"] = std::move(of_room);
  return measured;
}

/// What cases compile, alone and packed.
std::set<std::string> programs(const std::vector<Case>& cases) {
  std::set<std::string> all;
  for (const Case& c : cases)
    all.merge(gpu_programs(*c.gpu, problem_of(c, c.spec), c.spec.precision, stands_for_batch(c)));
  return all;
}

int run_cases(const Arguments& arguments, const GpuDevice& device, const Digests& digests) {
  std::printf("%-18s %-13s %-5s %4s %-16s %10s %10s %10s %10s\n", "room", "form", "in", "K", "tensor", "error",
              "emulation", "difference", "identical");
  const std::vector<Case> chosen = cases(arguments.subset, arguments.rooms, arguments.only);
  require(!chosen.empty(), "--only ", arguments.only, ": no case is called so");
  make_gpu_programs(programs(chosen), "all cases");
  const std::vector<OnCpu> cpu = on_cpu(chosen);
  Outcome outcome;
  for (std::size_t i = 0; i < chosen.size(); ++i) try_case(chosen[i], cpu[i], outcome);
  require_agreement(outcome);
  require_determined(outcome);
  const nlohmann::json measured = measured_of(arguments, device, digests, outcome);
  int failed = 0;
  for (const auto& [room, count] : outcome.failed) failed += count;
  if (failed == 0)
    std::printf("every case agrees with its emulation, reruns to the same bits and has them in a pack\n");
  else
    std::printf("%d cases failed\n", failed);
  if (!arguments.records.empty()) {
    const std::filesystem::path path = std::filesystem::path(arguments.records) / file_name(device.name);
    write_record(path, merged(read_record(path), measured, digests));
    std::printf("%s\n", path.string().c_str());
  }
  return failed == 0 ? exit_passed : exit_failed;
}

int check(const Arguments& arguments) {
  if (arguments.sources) {
    std::cout << gpu_sources << '\n';
    return exit_passed;
  }
  if (arguments.programs) {
    for (const std::string& line : programs(cases(arguments.subset, arguments.rooms, arguments.only)))
      std::cout << line << '\n';
    return exit_passed;
  }
  require(gpu() != nullptr, "no kernel was run: ", why_no_gpu());
  const GpuDevice device = gpu_device();
  const auto digests = nlohmann::json::parse(gpu_sources).get<Digests>();
  if (!arguments.due.empty()) {
    std::string list;
    for (const std::string& room :
         rooms_due(read_record(std::filesystem::path(arguments.due) / file_name(device.name)), digests))
      list += (list.empty() ? "" : ",") + room;
    std::cout << list << '\n';
    return exit_passed;
  }
  std::printf("%s, driver %s, %s\n", device.name.c_str(), device.driver.c_str(), device.compiler.c_str());
  if (arguments.agreement) {
    print_agreement(arguments.rooms, arguments.only);
    return exit_passed;
  }
  if (arguments.times) {
    times(arguments.rooms, arguments.only);
    return exit_passed;
  }
  return run_cases(arguments, device, digests);
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  try {
    return assay::check(assay::parse({argv + 1, argv + argc}));
  } catch (const assay::InputError& e) {
    std::cerr << "gpu_check: " << e.what() << '\n';
    return assay::exit_usage;
  } catch (const std::exception& e) {
    std::cerr << "gpu_check: " << e.what() << '\n';
    return assay::exit_broken;
  }
}
