// The oracle's slabs on a GPU: all words and all bounds, of outputs and of gradients, have the CPU's bits.
//   truth_check [--quick] [--json]     a line for each problem, with the times of both; exit 1 if any bit differs
//   truth_check --sources              the digests of what it was built from
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "language/device/slabs.hpp"
#include "oracles/multiword/delta.hpp"
#include "oracles/multiword/parallel.hpp"
// Made by CMake.
#include <judge_sources.hpp>

namespace {

using namespace assay::words;

std::atomic<std::size_t> taken = 0;  // of the GPU; what it leaves, the CPU computes
bool run_on_gpu(SlabRun& run) {
  static std::string why;
  static const auto gpu = assay::language::slabs_on_gpu(
      {}, [] {}, why);
  const bool took = gpu != nullptr && gpu->run(run);
  if (took) ++taken;
  return took;
}
constexpr SlabExecutor on_gpu = {[](std::size_t, std::size_t, std::size_t, int, bool) { return 1; }, run_on_gpu};

/// A rule, by the rooms whose it is.
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
  std::size_t T, K, V, heads;
};

std::vector<double> numbers(std::size_t n, double size, std::mt19937_64& bits) {
  std::vector<double> x(n);
  for (double& e : x) e = size * (std::ldexp(static_cast<double>(bits() >> 11), -52) - 1);
  return x;
}

/// One head's numbers.
struct Head {
  std::vector<double> q, k, v, beta, log_decay, initial, d_o, d_state;

  Head(const Rule& rule, const Size& size, std::uint64_t seed) {
    std::mt19937_64 bits(seed * 31 + size.K);
    const std::size_t T = size.T, K = size.K, V = size.V;
    const std::size_t decays = rule.decay == DeltaDecay::none ? 0 : rule.decay == DeltaDecay::per_step ? T : T * K;
    q = numbers(T * K, 1, bits), k = numbers(T * K, std::sqrt(3 / static_cast<double>(K)), bits);
    v = numbers(T * V, 1, bits), beta = numbers(T, 1, bits), log_decay = numbers(decays, 0.01, bits);
    initial = numbers(K * V, 1, bits), d_o = numbers(T * V, 1, bits), d_state = numbers(K * V, 1, bits);
    for (double& x : beta) x = std::fabs(x);
    for (double& x : log_decay) x = -std::fabs(x);
  }
  DeltaProblem problem(const Rule& rule, const Size& size) const {
    DeltaProblem x;
    x.steps = size.T, x.keys = size.K, x.values = size.V, x.q = q, x.k = k, x.v = v, x.log_decay = log_decay;
    if (rule.error != DeltaError::none) x.beta = beta;
    x.initial_state = initial, x.error = rule.error, x.scale = reciprocal_sqrt(static_cast<double>(size.K));
    return x;
  }
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::size_t differing(const std::vector<double>& a, const std::vector<double>& b) {
  std::size_t count = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    count += std::bit_cast<std::uint64_t>(a[i]) != std::bit_cast<std::uint64_t>(b[i]) ? 1 : 0;
  return count;
}

struct Compared {
  std::size_t numbers = 0, differ = 0;
  std::string where;

  void add(const char* name, const Certified& a, const Certified& b) {
    std::size_t of_words = 0;
    for (std::size_t w = 0; w < static_cast<std::size_t>(a.words); ++w) of_words += differing(a.word[w], b.word[w]);
    const std::size_t of_bounds = differing(a.bound, b.bound);
    numbers += (static_cast<std::size_t>(a.words) + 1) * a.bound.size(), differ += of_words + of_bounds;
    if (of_words + of_bounds > 0)
      where += " " + std::string(name) + ": " + std::to_string(of_words) + " words, " + std::to_string(of_bounds) +
               " bounds";
  }
  void add(const DeltaGradients& a, const DeltaGradients& b) {
    add("o", a.answer.o, b.answer.o), add("final_state", a.answer.final_state, b.answer.final_state);
    add("d_q", a.q, b.q), add("d_k", a.k, b.k), add("d_v", a.v, b.v), add("d_beta", a.beta, b.beta);
    add("d_log_decay", a.log_decay, b.log_decay), add("d_initial_state", a.initial_state, b.initial_state);
  }
};

DeltaGradients answer_of(const Rule& rule, const Size& size, const Head& head, int words, bool gradients, int threads) {
  const DeltaProblem x = head.problem(rule, size);
  const Effort effort{words, threads, best_isa()};
  if (gradients) return delta_backward(x, {head.d_o, head.d_state}, effort);
  DeltaGradients d;
  d.answer = delta_forward(x, effort);
  return d;
}

bool same_bits(const Rule& rule, const Size& size, int words, bool gradients, bool as_json) {
  std::vector<Head> heads;
  for (std::size_t h = 0; h < size.heads; ++h) heads.emplace_back(rule, size, h);
  std::vector<DeltaGradients> got(size.heads);
  taken = 0;
  const auto on_device = [&] {
    const double start = seconds();
    in_parallel(size.heads, static_cast<int>(size.heads),
                [&](std::size_t h) { got[h] = answer_of(rule, size, heads[h], words, gradients, 1); });
    return seconds() - start;
  };
  slabs_with(&on_gpu);
  on_device();
  const double gpu = on_device();
  slabs_with(nullptr);
  // The CPU, as many heads as it has cores, or all.
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency()), some = std::min(cores, size.heads);
  std::vector<DeltaGradients> want(some);
  const double start = seconds();
  in_parallel(some, static_cast<int>(some),
              [&](std::size_t h) { want[h] = answer_of(rule, size, heads[h], words, gradients, 1); });
  const double cpu = (seconds() - start) * static_cast<double>(size.heads) / static_cast<double>(some);
  Compared all;
  for (std::size_t h = 0; h < some; ++h) all.add(got[h], want[h]);
  const char* line = as_json
                         ? R"({"rule": "%s", "tokens": %zu, "keys": %zu, "values": %zu, "heads": %zu, "words": %d, )"
                           R"("gradients": %s, "numbers": %zu, "differ": %zu, "gpu_seconds": %.4f, "cores": %zu, )"
                           R"("cpu_seconds": %.4f, "ratio": %.1f})"
                         : "%s T %zu K %zu V %zu heads %zu words %d gradients %s: %zu numbers, %zu bits differ; "
                           "GPU %.4f s, CPU, %zu cores, %.4f s, ratio %.1f";
  std::printf(line, rule.rooms, size.T, size.K, size.V, size.heads, words, gradients ? "true" : "false", all.numbers,
              all.differ, gpu, cores, cpu, cpu / gpu);
  std::puts("");
  std::fflush(stdout);
  if (!all.where.empty()) std::fprintf(stderr, "truth_check: differ:%s\n", all.where.c_str());
  if (taken != 2 * size.heads) std::fputs("truth_check: the GPU's memory did not suffice\n", stderr);
  return all.differ == 0 && all.numbers > 0 && taken == 2 * size.heads;
}

}  // namespace

int main(int argc, char** argv) try {
  bool quick = false, as_json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--sources") return std::puts(assay::judge_sources), 0;
    quick |= flag == "--quick", as_json |= flag == "--json";
    if (flag != "--quick" && flag != "--json") {
      std::fputs("truth_check: expected --quick, --json or --sources\n", stderr);
      return 2;
    }
  }
  bool same = true;
  const auto compare = [&](const Rule& rule, const Size& size, int words, bool gradients) {
    same = same_bits(rule, size, words, gradients, as_json) && same;
  };
  for (const Rule& rule : rules)
    for (int words = 2; words <= 4; ++words)
      for (const bool gradients : {false, true})
        for (const Size& size : {Size{37, 19, 45, 2}, Size{50, 128, 131, 2}}) compare(rule, size, words, gradients);
  compare(rules[4], {1, 1, 1, 1}, 2, true);
  if (!quick)
    for (const Rule& rule : rules)
      for (const bool gradients : {false, true}) compare(rule, {4096, 128, 128, 16}, 2, gradients);
  std::fputs(same ? "truth_check: all bits are the CPU's\n" : "truth_check: bits differ\n", stderr);
  return same ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "truth_check: %s\n", error.what());
  return 2;
}
