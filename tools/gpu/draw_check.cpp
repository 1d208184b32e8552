// Draws of tile programs on a GPU against the CPU's: the same rooms, contracts and seeds, bit for bit, and their times.
//   draw_check [--rooms NAME,...] [--lens N,...] [--heads N] [--dim D] [--draws K] [--time] [--forward] [--json]
//   draw_check --sources      the digests of what it was built from
// Exit 1 if any bit differs, 2 if nothing was compared.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "kernels/draws/gpu_draws.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "reference/core/inputs.hpp"
// Made by CMake.
#include <judge_sources.hpp>

namespace assay {
namespace {

struct Options {
  std::string rooms = ",";
  std::vector<int> lens = {70};
  int heads = 2, dim = 64, draws = 1;
  bool times = false, forward = false, json = false;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// How many numbers of two answers differ in a bit, and which tensors have some.
struct Difference {
  std::size_t numbers = 0, differ = 0;
  std::string tensors;

  void add(const std::string& name, const Array& a, const Array& b) {
    std::size_t of_tensor = a.data.size() == b.data.size() ? 0 : 1;
    for (std::size_t i = 0; i < std::min(a.data.size(), b.data.size()); ++i)
      of_tensor += std::bit_cast<std::uint64_t>(a.data[i]) != std::bit_cast<std::uint64_t>(b.data[i]) &&
                   !(a.data[i] != a.data[i] && b.data[i] != b.data[i]);
    numbers += a.data.size(), differ += of_tensor;
    if (of_tensor > 0) tensors += text(" ", name, ":", of_tensor, "/", a.data.size());
  }
  void add(const Arrays& a, const Arrays& b, const std::string& prefix) {
    for (const auto& [name, array] : a) {
      const auto it = b.find(name);
      if (it == b.end())
        ++differ, tensors += " no " + prefix + name;
      else
        add(prefix + name, array, it->second);
    }
  }
};

using Run = std::function<Answer(const Problem&, const Policy&)>;

std::vector<Answer> draws_of(const Run& run, const Problem& problem, const Policy& policy, int draws, bool together) {
  std::vector<Answer> answers(static_cast<std::size_t>(draws));
  std::vector<std::exception_ptr> errors(answers.size());
  const auto one = [&](std::size_t d) {
    Policy own = policy;
    own.seed = RandomBits{policy.seed}.at(d);
    try {
      answers[d] = run(problem, own);
    } catch (...) {
      errors[d] = std::current_exception();
    }
  };
  if (together) {
    std::vector<std::jthread> threads;
    for (std::size_t d = 0; d < answers.size(); ++d) threads.emplace_back(one, d);
  } else {
    for (std::size_t d = 0; d < answers.size(); ++d) one(d);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return answers;
}

/// How a comparison came out, for people or for the record; `what` says of what it is.
void tell(const Difference& all, const nlohmann::ordered_json& what, const std::string& name, const std::string& times,
          bool as_json) {
  if (as_json) {
    nlohmann::ordered_json line = what;
    line["numbers"] = all.numbers, line["differ"] = all.differ;
    std::string printed = "{";
    for (const auto& [key, value] : line.items())
      printed += text(printed.size() > 1 ? ", " : "", '"', key, "\": ", value.dump());
    std::puts((printed + "}").c_str());
  } else {
    std::printf("%-44s %9zu numbers %s%s%s\n", name.c_str(), all.numbers, all.differ == 0 ? "same bits" : "DIFFER",
                times.c_str(), all.tensors.c_str());
  }
  std::fflush(stdout);
}

bool check(const Run& host, const Run& device, const Problem& problem, const Policy& policy, const Options& options,
           nlohmann::ordered_json what, const std::string& name) {
  const double start = now();
  if (options.times) draws_of(device, problem, policy, 1, true);  // loads the code
  const double warm = now();
  const std::vector<Answer> on_device = draws_of(device, problem, policy, options.draws, true);
  const double between = now();
  const std::vector<Answer> on_host = draws_of(host, problem, policy, options.times ? 1 : options.draws, false);
  const double end = now();
  Difference all;
  for (std::size_t d = 0; d < on_host.size(); ++d)
    all.add(on_host[d].outputs, on_device[d].outputs, ""), all.add(on_host[d].gradients, on_device[d].gradients, "d");
  std::string times;
  if (options.times) {
    const double of_device = between - warm, of_host = (end - between) * options.draws;
    const unsigned cores = std::thread::hardware_concurrency();
    what["first_seconds"] = warm - start, what["draws"] = options.draws, what["gpu_seconds"] = of_device;
    what["cores"] = cores, what["cpu_seconds"] = of_host, what["ratio"] = of_host / of_device;
    times = text("  first ", warm - start, " s, ", options.draws, " draws: ", of_device, " s; CPU, ", cores,
                 " cores: ", of_host, " s; ratio ", of_host / of_device);
  }
  tell(all, what, name, times, options.json);
  return all.differ == 0 && all.numbers > 0;
}

bool check_room(DrawExecutor& gpu, const KernelRoom& room, const Options& options, int& compared) {
  bool passed = true;
  for (const KernelForm& form : room.forms)
    for (const int len : options.lens)
      for (const Format precision : {Format::bf16, Format::fp16, Format::fp32}) {
        if (options.times && precision != Format::bf16) continue;
        const int queries = form.name == "split_decode" ? std::min(len, 3) : 0;
        const CaseSpec spec{std::string(room.name),
                            {1, len, options.heads, 0, options.dim, options.dim, queries},
                            precision,
                            {},
                            0,
                            {}};
        for (const Rounding rounding : {Rounding::jittered, Rounding::nearest_even, Rounding::stochastic}) {
          if (rounding != Rounding::jittered && (options.times || precision != Format::bf16)) continue;
          Problem problem = find_room(room.name)->make(spec);
          if (!form.has_gradients || options.forward) problem.cotangents.clear();
          if (!form.obstacle(problem).empty()) continue;
          Policy policy = Policy::of(form.sites, precision);
          policy.rounding = rounding, policy.seed = 12345;
          const std::string name =
              text(room.name, '/', form.name, ' ', len, ' ', name_of(precision), ' ', name_of(rounding));
          try {
            const Run on_host = [&](const Problem& p, const Policy& how) { return form.run(p, how, 0); };
            const Run on_gpu = [&](const Problem& p, const Policy& how) { return gpu.run(form, p, how, 0); };
            passed &= check(on_host, on_gpu, problem, policy, options,
                            {{"room", room.name},
                             {"form", form.name},
                             {"len", len},
                             {"dim", options.dim},
                             {"precision", name_of(precision)},
                             {"rounding", name_of(rounding)}},
                            name);
            ++compared;
          } catch (const NotDrawn& error) {
            std::fprintf(stderr, "%-44s not compared: %s\n", name.c_str(), error.what());
          } catch (const std::exception& error) {
            std::fprintf(stderr, "%-44s %s\n", name.c_str(), error.what());
            passed = false;
          }
        }
      }
  return passed;
}

int run(const std::vector<std::string>& args) {
  if (args == std::vector<std::string>{"--sources"}) return std::cout << judge_sources << '\n', 0;
  Options options;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto next = [&] {
      if (++i == args.size()) throw InputError(args[i - 1] + ": a value is missing");
      return args[i];
    };
    if (args[i] == "--rooms")
      options.rooms = "," + next() + ",";
    else if (args[i] == "--lens") {
      options.lens.clear();
      const std::string list = next();
      for (const char* p = list.c_str(); *p != 0;) {
        char* end = nullptr;
        options.lens.push_back(static_cast<int>(std::strtol(p, &end, 10)));
        p = *end == ',' ? end + 1 : end;
      }
    } else if (args[i] == "--heads")
      options.heads = std::stoi(next());
    else if (args[i] == "--dim")
      options.dim = std::stoi(next());
    else if (args[i] == "--draws")
      options.draws = std::stoi(next());
    else if (args[i] == "--time")
      options.times = true;
    else if (args[i] == "--forward")
      options.forward = true;
    else if (args[i] == "--json")
      options.json = true;
    else
      throw InputError(args[i] + ": no such option");
  }
  bool passed = true;
  int compared = 0;
  std::string why;
  const TileNews news{
      [](const std::string&, std::size_t) {},
      [](const std::string& form, const std::string& says) { throw InputError(text(form, ": ", says)); },
      [](const std::string& failure) { throw InputError(failure); }};
  const auto gpu = gpu_draws({}, news, why);
  require(gpu != nullptr, why);
  for (const KernelRoom* room : kernel_rooms())
    if (options.rooms == "," || options.rooms.find("," + std::string(room->name) + ",") != std::string::npos)
      passed &= check_room(*gpu, *room, options, compared);
  if (compared == 0) throw InputError("nothing was compared");
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  try {
    return assay::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "draw_check: " << error.what() << "\n";
    return 2;
  }
}
