// Tile programs with arguments on a GPU against their emulation on the CPU: a line for every form, precision and size
// of heads, and one for every tensor that is further from its emulation than tools/gpu/gpu_check.cpp allows: twice the
// emulation's own error, and what it does not model. Sequences packed have the bits that they have alone.
//   argument_check                  everything; exit 1 if anything fails
//   argument_check --subset         a case of every kernel, for memcheck
//   argument_check --only TEXT      what has TEXT in MECHANISM/FORM/PRECISION/KxV
//   argument_check --record FILE    writes what it did as a page; --memcheck TEXT: what memcheck said of the subset
//   argument_check --programs       no GPU: prints the programs that it compiles
//   argument_check --forms          no GPU: writes the page's forms alone
#include <exception>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "kernels/arguments/rooms.hpp"
#include "kernels/core/tensor_core.hpp"
#include "kernels/frontends/plan.hpp"
#include "kernels/gpu/argument_rooms.hpp"
#include "reference/core/error.hpp"
#include "tools/gpu/argument_cases.hpp"
#include "tools/gpu/checks.hpp"
#include "tools/gpu/sources.hpp"
#include "tools/run/device.hpp"

namespace assay {
namespace {

using device_cases::Case, device_cases::has_scores, device_cases::packed;

struct Options {
  bool subset = false, forms = false, programs = false;
  std::string only, record, memcheck = "not run";
};

// ---- what was found

/// Results of a form in a precision at a size of heads. Norms are relative to the case's largest tensor.
struct Tally {
  int cases = 0, tensors = 0, failed = 0, packs = 0;
  double error = 0, emulation = 0, difference = 0, of_allowed = 0;
};
struct Key {
  std::string mechanism, form, precision;
  int key_dim, value_dim;
  auto operator<=>(const Key&) const = default;
};
/// In the order of runs.
using Tallies = std::vector<std::pair<Key, Tally>>;

std::string words(const Key& key) {
  return text(key.mechanism, '/', key.form, '/', key.precision, '/', key.key_dim, 'x', key.value_dim);
}
std::string words(double x) {
  std::ostringstream out;
  out << std::setprecision(2) << std::scientific << x;
  return out.str();
}

double distance(const Array& a, const Array& b) {
  if (a.data.size() != b.data.size()) return INFINITY;
  double sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) sum += (a.data[i] - b.data[i]) * (a.data[i] - b.data[i]);
  return std::sqrt(sum);
}
bool same_bits(const Arrays& x, const Arrays& y) {
  const auto same = [](double a, double b) { return a == b || (a != a && b != b); };
  return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), [&](const auto& a, const auto& b) {
           return a.first == b.first && a.second.data.size() == b.second.data.size() &&
                  std::equal(a.second.data.begin(), a.second.data.end(), b.second.data.begin(), same);
         });
}

void fail(Tally& tally, const std::string& what, const std::string& why) {
  ++tally.failed;
  std::cout << "FAIL " << what << ": " << why << std::endl;
}

/// `floor`: what the emulation does not model.
void compare(const std::string& what, const Arrays& device, const Arrays& emulated, const Arrays& exact, double floor,
             Tally& tally) {
  // A gradient that cancels, as d_rho of one key, has errors of the size of its terms: those of the largest tensor.
  double terms = 0;
  for (const auto& [name, truth] : exact) terms = std::max(terms, distance(truth, Array(truth.shape)));
  for (const auto& [name, truth] : exact) {
    ++tally.tensors;
    const auto found = device.find(name);
    if (found == device.end()) {
      fail(tally, text(what, ' ', name), "the device has none");
      continue;
    }
    const double off = distance(found->second, emulated.at(name)), error = distance(emulated.at(name), truth),
                 allowed = 2 * error + floor * terms, size = terms > 0 ? terms : 1;
    tally.error = std::max(tally.error, distance(found->second, truth) / size);
    tally.emulation = std::max(tally.emulation, error / size),
    tally.difference = std::max(tally.difference, off / size);
    if (allowed > 0) tally.of_allowed = std::max(tally.of_allowed, off / allowed);
    if (!(off <= allowed))  // NaN, too
      fail(tally, text(what, ' ', name),
           text("device from emulation ", words(off), ", emulation from exact ", words(error), ", allowed ",
                words(allowed), ", size of terms ", words(terms)));
  }
}

// ---- one form in one precision at one size of heads

struct OnCpu {
  Answer emulated, exact;
};
struct Form {
  const KernelForm& cpu;
  const GpuForm& gpu;
  Format precision;
};

/// Tensor cores are emulated for all cases, or for none.
std::vector<OnCpu> on_cpu(const Form& form, const std::vector<Case>& cases) {
  static constexpr tile::TensorCore hopper;
  std::vector<OnCpu> all(cases.size());
  const auto run = [&](std::size_t i, Policy policy) {
    policy.threads = 1;
    return form.cpu.run(cases[i].problem, policy, form.gpu.tile(cases[i].problem, form.precision));
  };
  {
    const tile::TensorCoreEmulation cutting(hopper);
    on_all_cores(all.size(),
                 [&](std::size_t i) { all[i].emulated = run(i, Policy::of(form.cpu.sites, form.precision)); });
  }
  on_all_cores(all.size(), [&](std::size_t i) { all[i].exact = run(i, Policy::exact(form.cpu.sites)); });
  return all;
}

/// As in gpu_check: two units for each of the T + K products and sums on the way, and exponentials err by two.
double floor_of(const Form& form, const Problem& problem) {
  const std::vector<int>& keys = problem.inputs.at("k").shape;
  return 4 * (keys[1] + keys[2]) * unit_roundoff(form.precision == Format::fp64 ? Format::fp64 : Format::fp32);
}

Answer compare(const Form& form, const std::string& what, const Problem& problem, const OnCpu& cpu, Tally& tally) {
  ++tally.cases;
  try {
    const Answer device = run_on_gpu(form.gpu, problem, form.precision),
                 again = run_on_gpu(form.gpu, problem, form.precision);
    const double floor = floor_of(form, problem);
    compare(what, device.outputs, cpu.emulated.outputs, cpu.exact.outputs, floor, tally);
    compare(what + " d", device.gradients, cpu.emulated.gradients, cpu.exact.gradients, floor, tally);
    if (!same_bits(device.outputs, again.outputs) || !same_bits(device.gradients, again.gradients))
      fail(tally, what, "a second run has other bits");
    return device;
  } catch (const std::exception& e) {
    fail(tally, what, e.what());
    return {};
  }
}

/// Problems and their emulations.
struct Prepared {
  std::vector<Case> cases;
  std::vector<OnCpu> cpu;
};
Prepared prepare(const Form& form, std::vector<Case> cases, const Key& key, Tally& tally) {
  Prepared all;
  for (Case& one : cases) {
    std::string why = form.cpu.obstacle(one.problem);
    if (why.empty()) why = form.gpu.obstacle(one.problem, form.precision);
    if (why.empty())
      all.cases.push_back(std::move(one));
    else
      fail(tally, text(words(key), ", ", one.name), why);
  }
  all.cpu = on_cpu(form, all.cases);
  return all;
}

/// Each sequence as its emulation, and in a pack with the bits that it has alone.
void check_pack(const Form& form, const Key& key, bool forward_alone, Tally& tally) {
  std::vector<Case> sequences;
  for (Problem& p : packed(key.mechanism, key.key_dim, key.value_dim, form.gpu.name == "split_decode")) {
    if (forward_alone) p.cotangents.clear();
    sequences.push_back({text("sequence of ", p.inputs.at("k").shape[1]), std::move(p)});
  }
  const Prepared all = prepare(form, std::move(sequences), key, tally);
  std::vector<Problem> problems;
  std::vector<Answer> alone;
  for (std::size_t i = 0; i < all.cases.size(); ++i) {
    problems.push_back(all.cases[i].problem);
    alone.push_back(compare(form, text(words(key), ", ", all.cases[i].name), problems.back(), all.cpu[i], tally));
  }
  ++tally.packs;
  try {
    const std::vector<Answer> together = run_packed(form.gpu, problems, form.precision);
    for (std::size_t i = 0; i < together.size(); ++i)
      if (!same_bits(alone[i].outputs, together[i].outputs) || !same_bits(alone[i].gradients, together[i].gradients))
        fail(tally, text(words(key), ", ", all.cases[i].name), "other bits in a pack than alone");
  } catch (const std::exception& e) {
    fail(tally, text(words(key), ", a pack"), e.what());
  }
}

/// Or, where `programs` are wanted, lists them.
void check(const Form& form, const Key& key, const Options& options, Tallies& tallies,
           std::set<std::string>* programs) {
  if (words(key).find(options.only) == std::string::npos) return;
  const bool decodes = form.gpu.name == "split_decode", wide = key.key_dim != 64 || key.value_dim != 64,
             forward_alone = !form.cpu.has_gradients || (key.key_dim > 256 && has_scores(key.mechanism));
  std::vector<Case> cases;
  for (const int keys : {1, 65, 200}) {
    if ((options.subset || wide) && keys != 65) continue;
    const int queries = decodes ? std::min(keys, 3) : (keys + 1) / 2;
    std::vector<Case> of_length = device_cases::cases(key.mechanism, {queries, keys, key.key_dim, key.value_dim});
    if (options.subset) of_length = {of_length.back()};
    for (Case& one : of_length) {
      one.name += text(", ", keys, " keys");
      if (forward_alone) one.problem.cotangents.clear();
      cases.push_back(std::move(one));
    }
  }
  if (programs != nullptr) {
    for (const Case& one : cases)
      programs->merge(gpu_programs(form.gpu, one.problem, form.precision, form.precision == Format::bf16));
    return;
  }
  Tally& tally = tallies.emplace_back(key, Tally{}).second;
  const Prepared all = prepare(form, std::move(cases), key, tally);
  for (std::size_t i = 0; i < all.cases.size(); ++i)
    compare(form, text(words(key), ", ", all.cases[i].name), all.cases[i].problem, all.cpu[i], tally);
  if (!options.subset || form.precision == Format::bf16) check_pack(form, key, forward_alone, tally);
  std::cout << (tally.failed == 0 ? "ok   " : "FAIL ") << words(key) << ": " << tally.cases << " cases, "
            << tally.tensors << " tensors, device from exact " << words(tally.error) << ", emulation from exact "
            << words(tally.emulation) << ", device from emulation " << words(tally.difference)
            << ", of what is allowed " << words(tally.of_allowed) << std::endl;
}

/// Channels of keys and values: of every precision, and of bf16 alone.
std::vector<std::pair<int, int>> dims_of(std::string_view mechanism, Format precision) {
  if (precision != Format::bf16) return {{64, 64}};
  std::vector<std::pair<int, int>> all = {{64, 64}, {128, 128}, {256, 256}, {192, 128}, {24, 40}};
  if (mechanism == "softmax_attention") all.emplace_back(576, 512);
  return all;
}

std::string mechanism_of(const GpuRoom& room) { return std::string(room.name.substr(0, room.name.find('+'))); }

Tallies check_all(const Options& options, std::set<std::string>* programs = nullptr) {
  Tallies tallies;
  for (const GpuRoom* gpu : gpu_argument_rooms) {
    const std::string mechanism = mechanism_of(*gpu);
    const KernelRoom& room = *tile::kernel_rooms::with_arguments(mechanism);
    for (const GpuForm& form : gpu->forms)
      for (const KernelForm& cpu : room.forms)
        for (const Format precision : {Format::bf16, Format::fp16, Format::tf32, Format::fp64})
          for (const auto& [K, V] : dims_of(mechanism, precision))
            if (cpu.name == form.name)
              check({cpu, form, precision}, {mechanism, std::string(form.name), name_of(precision), K, V}, options,
                    tallies, programs);
  }
  return tallies;
}

// ---- the page

constexpr const char* introduction =
    "<!-- written by `argument_check --record` on a GPU -->\n\n# Kernels with arguments, on a device\n\n"
    "Every tile program that takes [arguments](../docs/arguments.md): its launches on a GPU beside its emulation on "
    "the CPU. A line is of a precision and\nof so many channels of keys and values. Errors are Frobenius norms, of the "
    "worst tensor, relative to the largest tensor of its case; a device may differ from its emulation by\ntwice the "
    "emulation's own error and by what fp32 sums differ by. Cases have each argument alone and all together, with one, "
    "65 and 200 keys (65 alone of heads that are not 64) and two\nvalue heads to a key head. Every line has a pack of "
    "six sequences, two of them of no token, whose bits are those of the sequences alone. Front ends are in all cases "
    "of\nrecurrences. "
    "Layouts, pages, V-first states and states inside of sequences are lists of which numbers a launch is given, made "
    "before it on the CPU, and no\nkernel sees them; property tests have them.\n\n";

/// Every form that takes arguments; `lines` of it, or that it has no launches.
std::string table(const std::map<std::string, std::string>& lines) {
  std::string all =
      "| mechanism | form | precision | K x V | cases | tensors | failed | device | emulation | difference | of what "
      "is "
      "allowed |\n| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (const GpuRoom* gpu : gpu_argument_rooms) {
    const std::string mechanism = mechanism_of(*gpu);
    for (const KernelForm& form : tile::kernel_rooms::with_arguments(mechanism)->forms) {
      const bool has_launches =
          std::any_of(gpu->forms.begin(), gpu->forms.end(), [&](const GpuForm& f) { return f.name == form.name; });
      const auto found = lines.find(text(mechanism, '/', form.name));
      all += found != lines.end() ? found->second
                                  : text("| ", mechanism, " | ", form.name, " | ",
                                         has_launches ? "not run" : "no launches on a device", " | | | | | | | | |\n");
    }
  }
  return all;
}

void write_page(std::ostream& out, const Tallies& tallies, const std::string& about) {
  std::map<std::string, std::string> lines;
  for (const auto& [key, tally] : tallies)
    lines[text(key.mechanism, '/', key.form)] +=
        text("| ", key.mechanism, " | ", key.form, " | ", key.precision, " | ", key.key_dim, " x ", key.value_dim,
             " | ", tally.cases, " | ", tally.tensors, " | ", tally.failed, " | ", words(tally.error), " | ",
             words(tally.emulation), " | ", words(tally.difference), " | ", words(tally.of_allowed), " |\n");
  out << introduction << about << "\n\n" << table(lines) << "\nSources: `" << argument_sources << "`\n";
}

std::string about(const Options& options, const GpuDevice& device) {
  return text(today(), ", ", device.name, ", driver ", device.driver, ", ", device.compiler,
              ". Memcheck of a case of every kernel: ", options.memcheck, '.');
}

int run(const Options& options) {
  if (options.forms) {
    write_page(std::cout, {}, "Not run yet.");
    return 0;
  }
  std::set<std::string> programs;
  check_all(options, &programs);
  if (options.programs) {
    for (const std::string& line : programs) std::cout << line << '\n';
    return 0;
  }
  require(gpu() != nullptr, why_no_gpu());
  make_gpu_programs(programs, "all cases");
  const Tallies tallies = check_all(options);
  int failed = tallies.empty() ? 1 : 0;
  for (const auto& [key, tally] : tallies) failed += tally.failed;
  std::cout << tallies.size() << " lines, " << failed << " failures\n";
  if (!options.record.empty()) {
    std::ofstream file(options.record);
    write_page(file, tallies, about(options, gpu_device()));
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  assay::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (word == "--subset")
      options.subset = true;
    else if (word == "--forms")
      options.forms = true;
    else if (word == "--programs")
      options.programs = true;
    else if (word == "--only")
      options.only = value();
    else if (word == "--record")
      options.record = value();
    else if (word == "--memcheck")
      options.memcheck = value();
    else {
      std::cerr << "argument_check: " << word << "?\n";
      return 2;
    }
  }
  try {
    return assay::run(options);
  } catch (const std::exception& e) {
    std::cerr << "argument_check: " << e.what() << '\n';
    return 3;
  }
}
