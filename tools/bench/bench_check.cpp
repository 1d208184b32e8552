#include "tools/bench/bench_check.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>

#include "files/problem_file.hpp"
#include "judge/court/case_trial.hpp"
#include "judge/court/seeded_case.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"
#include "tools/run/device.hpp"

namespace assay {
namespace {

enum Part : std::size_t { reading, truth, draws, judging };

/// The processor time of all threads.
double processor_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Adds up what every phase takes, from when it begins to when the next one does.
class Stopwatch {
 public:
  explicit Stopwatch(CheckMeasured& to) : to_(to) {}

  void begin(std::size_t phase) {
    const std::lock_guard lock(guard_);
    const double processor = processor_time();
    const auto now = std::chrono::steady_clock::now();
    to_.processor_of[phase_] += processor - processor_;
    to_.seconds_of[phase_] += std::chrono::duration<double>(now - now_).count();
    phase_ = phase, processor_ = processor, now_ = now;
  }

 private:
  CheckMeasured& to_;
  std::mutex guard_;
  std::size_t phase_ = reading;
  double processor_ = processor_time();
  std::chrono::steady_clock::time_point now_ = std::chrono::steady_clock::now();
};

double nearest(const HiLo& x) { return x.hi; }
double nearest(const Enclosed& x) { return x.value.hi; }

/// An answer rounded once, without gradients of numbers that stand alone: few kernels have them, and chance says how
/// many draws they ask for.
template <class N>
Safetensors file_of(const ProblemFile& file, const BasicAnswer<N>& answer) {
  TensorFile to;
  const auto put = [&](const std::string& name, const BasicArray<N>& array) {
    Array values(array.shape);
    std::ranges::transform(array.data, values.data.begin(), [](const N& x) { return nearest(x); });
    to.put(name, std::move(values), answer_field(*file.room, name), file.batch, "BF16");
  };
  for (const auto& [name, array] : answer.outputs) put(name, array);
  for (const auto& [name, array] : answer.gradients)
    if (answer_field(*file.room, "d_" + name).field.place != Field::Place::param) put("d_" + name, array);
  return std::move(to).finish({});
}
Safetensors answer_to(const ProblemFile& file, int threads) {
  if (const auto answer = file.room->in_words(file.problem, {2, threads})) return file_of(file, *answer);
  return file_of(file, file.room->values(file.problem, Tier::fp64));
}

CheckMeasured check_once(const Room& room, const Shape& shape, bool gradients, int threads, std::uint64_t seed) {
  threads = words::threads_or_all(threads);
  CaseSpec spec{std::string(room.name), shape, Format::bf16, Style::normal, seed, room.variants().front()};
  spec.cotangents = gradients;
  const Safetensors problem = arguments::draw_case(spec, "bench");
  const std::vector<std::uint8_t> answer = serialize(answer_to(read_problem(problem, "case"), threads)),
                                  posed = serialize(problem);
  CheckMeasured measured;
  for (const auto& [name, tensor] : problem.tensors)
    measured.numbers += static_cast<double>(BasicArray<char>(tensor.shape).count());
  Stopwatch watch(measured);
  CaseTrial trial(parse_safetensors(posed, "case"), {.threads = threads, .detects = true}, "case");
  watch.begin(truth);
  trial.prepare();
  watch.begin(reading);
  const GivenAnswer got = trial.read(parse_safetensors(answer, "answer"), {}, "answer");
  watch.begin(judging);
  trial.judge(
      got, [](const std::string&) { return true; }, "", nullptr,
      [&](std::string_view what, std::size_t done, std::size_t total) {
        watch.begin(what != "judging" && done < total ? draws : judging);
      });
  watch.begin(reading);
  for (std::size_t p = 0; p < check_phases.size(); ++p)
    measured.processor += measured.processor_of[p], measured.seconds += measured.seconds_of[p];
  return measured;
}

}  // namespace

CheckMeasured measure_check(const Room& room, const Shape& shape, bool gradients, int threads, std::uint64_t seed,
                            std::string_view judges) {
  std::array<int, 2> ends{};
  require(pipe(ends.data()) == 0, "no pipe to a process of its own");
  const pid_t child = fork();
  require(child >= 0, "no process of its own to measure in");
  if (child == 0) {
    int code = 1;
    try {
      judge_on(judges);
      const CheckMeasured measured = check_once(room, shape, gradients, threads, seed);
      code = write(ends[1], &measured, sizeof measured) == static_cast<ssize_t>(sizeof measured) ? 0 : 1;
    } catch (const std::exception&) {  // said by the parent
    }
    _exit(code);
  }
  close(ends[1]);
  CheckMeasured measured;
  const bool whole = read(ends[0], &measured, sizeof measured) == static_cast<ssize_t>(sizeof measured);
  close(ends[0]);
  rusage usage{};
  int status = 0;
  wait4(child, &status, 0, &usage);
  require(whole, room.name, ": no verdict on a case of ", text_of(shape));
  measured.memory = 1024.0 * static_cast<double>(usage.ru_maxrss);
  return measured;
}

bool has_check_cost(const Room& room) { return find_kernels(kernel_rooms(), room.name) != nullptr; }

std::string cost_line(const Room& room) {
  constexpr int heads = 2, dim = 64;
  constexpr double quick = 30;  // seconds
  // Where chance asks for more draws, or more words, a check takes up to ten times as long: the least of three seeds.
  const auto measured = [&](int tokens, int d, bool gradients) {
    const Shape shape{1, tokens, heads, 0, d, d, 0};
    CheckMeasured least = measure_check(room, shape, gradients, 1, 1);
    for (std::uint64_t seed = 2; seed <= 3 && least.processor < quick; ++seed)
      if (CheckMeasured other = measure_check(room, shape, gradients, 1, seed); other.processor < least.processor)
        least = other;
    return least;
  };
  constexpr int few = 128;
  const CheckMeasured shorter = measured(few, dim, true);
  const bool is_slow = shorter.processor > 0.8;
  const int many = is_slow ? 512 : 1024, middle = is_slow ? few : 512;
  const CheckMeasured longer = measured(many, dim, true), wider = measured(middle, 2 * dim, true),
                      forward = measured(middle, dim, false);
  const double rate = shorter.processor / few / heads, later = longer.processor / many / heads;
  const double quadratic = std::clamp((later - rate) / (many - few), 0.0, later / many);
  const double linear = std::max(0.0, later - quadratic * many);
  const double of_middle = heads * middle * (linear + quadratic * middle);
  const double power = std::clamp(std::log2(wider.processor / of_middle), 0.0, 3.0);
  const double bytes = std::max(64.0, (longer.memory - shorter.memory) / (longer.numbers - shorter.numbers));
  std::string line = fmt::format("      {{\"{}\", {:.3g}, {:.3g}, {:.2g}, {:.2g}, {:.0f}", room.name, linear, quadratic,
                                 power, std::min(1.0, forward.processor / of_middle), bytes);
  for (const double part : longer.processor_of) line += fmt::format(", {:.2g}", part / longer.processor);
  return line + "},\n";
}

}  // namespace assay
