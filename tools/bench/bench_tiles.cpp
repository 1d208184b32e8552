#include "tools/bench/bench_tiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "files/embedded.hpp"
#include "kernels/core/kernel_room.hpp"
#include "kernels/draws/gpu_draws.hpp"
#include "language/device/slabs.hpp"
#include "oracles/core/room.hpp"
#include "oracles/multiword/delta.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"
#include "reference/core/inputs.hpp"
#include "reference/core/sha256.hpp"
#include "tools/bench/beside.hpp"

namespace assay {
namespace {

void add(ComparedBits& all, const words::Certified& found, const words::Certified& right) {
  for (std::size_t w = 0; w < static_cast<std::size_t>(right.words); ++w) all.add(found.word[w], right.word[w]);
  all.add(found.bound, right.bound);
}

std::string seconds(double x) { return fmt::format("{:.3f}", x); }

// ---- tile programs

/// With the first settings that the form takes.
Problem problem_of(const KernelRoom& room, const KernelForm& form, int tokens, int heads, Format precision) {
  constexpr int dim = 64;
  const int queries = form.name == "split_decode" ? 3 : 0;
  Problem problem;
  for (const Setting& setting : form.settings()) {
    problem = find_room(room.name)->make({.mechanism = std::string(room.name),
                                          .shape = {1, tokens, heads, 0, dim, dim, queries},
                                          .precision = precision,
                                          .style = setting.style,
                                          .params = setting.params});
    if (form.obstacle(problem).empty()) break;
  }
  if (!form.has_gradients) problem.cotangents.clear();
  return problem;
}

Policy policy_of(const KernelForm& form, Format precision, Rounding rounding, std::uint64_t seed) {
  Policy policy = Policy::of(form.sites, precision);
  policy.rounding = rounding, policy.seed = seed;
  return policy;
}

void compare(DrawExecutor& gpu, const KernelRoom& room, const KernelForm& form, ComparedBits& all) {
  const auto at = [&](Format precision, Rounding rounding) {
    const Problem problem = problem_of(room, form, 70, 2, precision);
    if (!form.obstacle(problem).empty()) return;
    const Policy policy = policy_of(form, precision, rounding, 12345);
    const Answer found = gpu.run(form, problem, policy, 0), right = form.run(problem, policy, 0);
    all.add(found, right);
  };
  for (const Rounding rounding : {Rounding::jittered, Rounding::nearest_even, Rounding::stochastic})
    at(Format::bf16, rounding);
  at(Format::fp16, Rounding::jittered), at(Format::fp32, Rounding::jittered);
}

std::vector<std::string> row_of(DrawExecutor& gpu, const KernelRoom& room, const KernelForm& form,
                                std::size_t& differ) {
  constexpr std::size_t draws = 16;
  ComparedBits all;
  compare(gpu, room, form, all);
  const Problem problem = problem_of(room, form, 1024, 8, Format::bf16);
  std::string on_gpu = "-", on_cpu = "-";
  if (form.obstacle(problem).empty()) {
    const auto policy = [&](std::size_t k) { return policy_of(form, Format::bf16, Rounding::jittered, k); };
    Answer found = gpu.run(form, problem, policy(0), 0), right;  // compiles it
    on_gpu = seconds(seconds_of(
        [&] { words::in_parallel(draws, draws, [&](std::size_t k) { gpu.run(form, problem, policy(k), 0); }); }));
    on_cpu = seconds(static_cast<double>(draws) * seconds_of([&] { right = form.run(problem, policy(0), 0); }));
    all.add(found, right);
  }
  differ += all.differ;
  const std::string name = text(room.name, '/', form.name);
  return {name, digest_of_device_code(name), std::to_string(all.numbers), std::to_string(all.differ), on_gpu, on_cpu};
}

// ---- slabs of truth

using words::DeltaDecay;
using words::DeltaError;

struct Rule {
  const char* rooms;
  DeltaDecay decay;
  DeltaError error;
};
constexpr Rule rules[] = {{"linear_attention", DeltaDecay::none, DeltaError::none},
                          {"mamba2", DeltaDecay::per_step, DeltaError::none},
                          {"gla", DeltaDecay::per_channel, DeltaError::none},
                          {"deltanet", DeltaDecay::none, DeltaError::decayed},
                          {"gated_deltanet", DeltaDecay::per_step, DeltaError::decayed},
                          {"gated_deltanet, undecayed", DeltaDecay::per_step, DeltaError::undecayed},
                          {"kda", DeltaDecay::per_channel, DeltaError::decayed}};

struct Size {
  std::size_t T, K, V;
};

/// One head's numbers.
struct Head {
  std::vector<double> q, k, v, beta, log_decay, initial, d_o, d_state;
  words::DeltaProblem problem;

  Head(const Rule& rule, const Size& size, std::uint64_t seed) {
    std::mt19937_64 bits(seed * 31 + size.K);
    const auto numbers = [&](std::size_t n, double largest) {
      std::vector<double> x(n);
      for (double& e : x) e = largest * (std::ldexp(static_cast<double>(bits() >> 11), -52) - 1);
      return x;
    };
    const auto [T, K, V] = size;
    const std::size_t decays = rule.decay == DeltaDecay::none ? 0 : rule.decay == DeltaDecay::per_step ? T : T * K;
    q = numbers(T * K, 1), k = numbers(T * K, std::sqrt(3 / static_cast<double>(K)));
    v = numbers(T * V, 1), beta = numbers(rule.error == DeltaError::none ? 0 : T, 1), log_decay = numbers(decays, 0.01);
    initial = numbers(K * V, 1), d_o = numbers(T * V, 1), d_state = numbers(K * V, 1);
    for (double& x : beta) x = std::fabs(x);
    for (double& x : log_decay) x = -std::fabs(x);
    problem = {T, K, V, q, k, v, beta, log_decay, initial, rule.error, words::reciprocal_sqrt(static_cast<double>(K))};
  }
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;
  ~Head() = default;

  words::DeltaGradients answer(int words) const {
    return words::delta_backward(problem, {d_o, d_state}, {words, 1, words::best_isa()});
  }
};

language::SlabsOnGpu& slabs() {
  static std::string why;
  static const auto gpu = language::slabs_on_gpu({}, strict_news(), why);
  require(gpu != nullptr, "slabs on a GPU: ", why);
  return *gpu;
}
bool run_slabs(words::SlabRun& run) {
  require(slabs().run(run), "the GPU's memory does not suffice for slabs");
  return true;
}
constexpr words::SlabExecutor on_gpu = {[](std::size_t, std::size_t, std::size_t, int, bool) { return 1; }, run_slabs};

/// Seconds of both, of `heads` heads.
std::pair<double, double> compare(const Rule& rule, const Size& size, int words, std::size_t heads, ComparedBits& all) {
  std::vector<std::unique_ptr<Head>> of;
  for (std::size_t h = 0; h < heads; ++h) of.push_back(std::make_unique<Head>(rule, size, h));
  std::vector<words::DeltaGradients> found(heads), right(heads);
  const auto answer = [&](std::vector<words::DeltaGradients>& to) {
    words::in_parallel(heads, static_cast<int>(heads), [&](std::size_t h) { to[h] = of[h]->answer(words); });
  };
  words::slabs_with(&on_gpu);
  answer(found);  // compiles it
  const double gpu = seconds_of([&] { answer(found); });
  words::slabs_with(nullptr);
  const double cpu = seconds_of([&] { answer(right); });
  for (std::size_t h = 0; h < heads; ++h) {
    const words::DeltaGradients &a = found[h], &b = right[h];
    add(all, a.answer.o, b.answer.o), add(all, a.answer.final_state, b.answer.final_state);
    add(all, a.q, b.q), add(all, a.k, b.k), add(all, a.v, b.v), add(all, a.beta, b.beta);
    add(all, a.log_decay, b.log_decay), add(all, a.initial_state, b.initial_state);
  }
  return {gpu, cpu};
}

/// Nor white space, which a formatter moves.
std::string without_comments(std::string_view text) {
  std::string code;
  bool is_comment = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    is_comment = text[i] != '\n' && (is_comment || text.substr(i, 2) == "//");
    if (!is_comment && text[i] != ' ' && text[i] != '\n') code += text[i];
  }
  return code;
}

}  // namespace

std::string digest_of_device_code(const std::string& row) {
  const std::string room = row.substr(0, row.find('/'));
  const KernelRoom* const kernels = find_kernels(kernel_rooms(), room);
  if (kernels == nullptr && room != "slabs") return "";
  // All that is compiled, without the rooms of other families and what comes before and after recurrences.
  std::set<std::string_view> others{"arguments", "cuda", "frontends", "launches"};
  for (const KernelRoom* other : kernel_rooms())
    if (kernels == nullptr || other->folder != kernels->folder) others.insert(other->folder);
  Sha256 all;
  for (const EmbeddedText& file : embedded_device_code) {
    const std::string_view path = file.path, below = path.substr(path.find('/') + 1);
    const bool is_of_slabs = file.folder() == "oracles";
    if (path == "kernels/core/products.hpp") continue;  // of launches of contracts
    if (is_of_slabs == (room == "slabs") && !others.contains(below.substr(0, below.find('/'))))
      all.update(path).update(without_comments(file.text));
  }
  constexpr std::size_t digits = 12;
  return all.hex().substr(0, digits);
}

std::vector<std::string> kept_row(const std::string& page, const std::vector<std::string>& first) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells;
    for (std::size_t at = 2, end = 0; (end = line.find(" |", at)) != std::string::npos; at = end + 3)
      cells.push_back(line.substr(at, end - at));
    if (cells.size() > first.size() && std::equal(first.begin(), first.end(), cells.begin())) return cells;
  }
  return {};
}

Table tiles_on_gpu(const std::vector<std::string>& rooms, const std::string& kept, std::size_t& differ) {
  std::string why;
  const auto gpu = gpu_draws({}, strict_news(), why);
  require(gpu != nullptr, "draws on a GPU: ", why);
  Table table =
      Table().words({"form", "source"}).numbers({"numbers", "differ", "16 draws, s", "16 draws on the CPU, s"});
  std::vector<std::pair<const KernelRoom*, const KernelForm*>> forms;
  for (const KernelRoom* room : kernel_rooms())
    if (rooms.empty() || std::ranges::find(rooms, room->name) != rooms.end())
      for (const KernelForm& form : room->forms) forms.emplace_back(room, &form);
  for (const auto& [room, form] : forms) {
    const std::string name = text(room->name, '/', form->name);
    table.rows.push_back(kept_row(kept, {name, digest_of_device_code(name)}));
  }
  // Compiles them side by side: the slowest program of a form leaves most cores idle.
  words::in_parallel(forms.size(), static_cast<int>(forms.size()), [&](std::size_t i) {
    ComparedBits unread;
    if (table.rows[i].empty()) compare(*gpu, *forms[i].first, *forms[i].second, unread);
  });
  for (std::size_t i = 0; i < forms.size(); ++i)
    if (table.rows[i].empty()) table.rows[i] = row_of(*gpu, *forms[i].first, *forms[i].second, differ);
  return table;
}

Table slabs_on_gpu_beside_cpu(const std::string& kept, std::size_t& differ) {
  Table table = Table().words({"truth", "source", "rooms"}).numbers({"numbers", "differ", "GPU, s", "CPU, s"});
  for (const Rule& rule : rules) {
    table.rows.push_back(kept_row(kept, {"slabs", digest_of_device_code("slabs"), rule.rooms}));
    if (!table.rows.back().empty()) continue;
    ComparedBits all;
    for (int words = 2; words <= 4; ++words)
      for (const Size& size : {Size{37, 19, 45}, Size{50, 128, 131}}) compare(rule, size, words, 2, all);
    const auto [gpu, cpu] = compare(rule, {4096, 128, 128}, 2, 16, all);
    differ += all.differ;
    table.rows.back() = {"slabs",
                         digest_of_device_code("slabs"),
                         rule.rooms,
                         std::to_string(all.numbers),
                         std::to_string(all.differ),
                         seconds(gpu),
                         seconds(cpu)};
  }
  return table;
}

}  // namespace assay
