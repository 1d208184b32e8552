#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "files/in_words.hpp"
#include "judge/verdict/detectability.hpp"
#include "tools/cases/check_costs.hpp"

namespace assay {
namespace {

/// Bytes of the program itself, before it has read a case.
constexpr double of_program = 1e8;

std::string two_digits(double x) { return x < 99.5 ? fmt::format("{:.2g}", x) : fmt::format("{:.0f}", x); }

/// The share of judging that planted faults take where all heads get them: gated_deltanet and kda at 1,2048,8,128.
constexpr double faults_in_judging = 0.6;

/// The cost of d channels, in units of 64. Below them a score, or a step, still costs what does not depend on d: the
/// line through the cost at 64 and at 128.
double of_channels(double d, double power) {
  const double share = std::min(1.0, std::exp2(power) - 1);
  return d < 1 ? 1 - share * (1 - std::max(d, 0.25)) : std::pow(d, power);
}

/// A line of the page: seconds of two cores.
std::string page_line(const CheckCost& cost) {
  const auto at = [&](const Shape& shape) {
    const std::size_t numbers = 4 * static_cast<std::size_t>(shape.own() * shape.seq_len * shape.key_dim);
    return check_estimate(cost.mechanism, shape, true, numbers).value();
  };
  const Estimate small = at({1, 1024, 4, 0, 64, 64, 0}), middle = at({1, 2048, 8, 0, 128, 128, 0}),
                 large = at({2, 4096, 8, 0, 128, 128, 0});
  return fmt::format("| `{}` | {} | {} | {}, {} | {} | {:.0f} / {:.0f} / {:.0f} / {:.0f} % |\n", cost.mechanism,
                     spoken_time(on_cores(small.of(1), 2)), spoken_time(on_cores(middle.of(1), 2)),
                     spoken_time(on_cores(large.of(1), 2)), spoken_size(large.bytes),
                     spoken_time(on_cores(large.of(1.0 / 16), 2)), 100 * cost.reading, 100 * cost.truth,
                     100 * cost.draws, 100 * cost.judging);
}

}  // namespace

std::optional<Estimate> check_estimate(std::string_view mechanism, const Shape& shape, bool gradients,
                                       std::size_t numbers) {
  const auto costs = check_costs();
  const auto known = std::ranges::find_if(costs, [&](const CheckCost& cost) { return cost.mechanism == mechanism; });
  if (known == costs.end()) return std::nullopt;
  const double queries = shape.queries(), keys = shape.seq_len;
  const double dims = std::sqrt(static_cast<double>(shape.key_dim) * std::max(shape.value_dim, 1)) / 64;
  Estimate estimate;
  estimate.seconds = shape.own() * (known->linear * queries + known->quadratic * queries * keys) *
                     of_channels(dims, known->power) * (gradients ? 1 : known->forward);
  estimate.draws = estimate.seconds * known->draws;
  estimate.faults = estimate.seconds * known->judging * faults_in_judging;
  estimate.seconds -= estimate.faults;
  estimate.with_faults = std::max(
      1.0 / shape.own(), static_cast<double>(most_numbers_with_faults) / std::max(1.0, static_cast<double>(numbers)));
  estimate.bytes = of_program + known->bytes * static_cast<double>(numbers);
  return estimate;
}

std::string cost_sentence(const Estimate& whole, int parts, int judged, int threads, bool can_sample) {
  const auto time_of = [&](double some) { return spoken_time(on_cores(whole.of(some / parts), threads)); };
  std::string sentence =
      fmt::format("takes about {} on {} and {}", time_of(judged), counted(threads, "core"), spoken_size(whole.bytes));
  if (judged == parts && can_sample && parts > 2)
    sentence += fmt::format("; --sample 2 judges 2 of {} parts in {}", parts, time_of(2));
  return sentence;
}

std::string spoken_time(double seconds) {
  if (seconds < 100) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 1 : 0);
  if (seconds < 6000) return fmt::format("{:.0f} minutes", seconds / 60);
  return fmt::format("{} hours", two_digits(seconds / 3600));
}

std::string spoken_size(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.0f} MB", bytes / 1e6) : two_digits(bytes / 1e9) + " GB";
}

std::string costs_page() {
  std::string page =
      R"(<!-- written by `assay-lab docs`; tools/cases/check_costs.cpp has the numbers, which `assay-lab bench check --docs` measures -->

# What a check costs

`assay check` with gradients, an empty cache and two cores, by shape B,T,H,d, and what the memory of the last shape is; `--sample 1` of it, one head of 16, is the column after. Worked out from measurements at 128 and 1024 tokens (of rooms that solve, 512) and d = 64 and 128. At 200, 512 and 2048 tokens of 2 heads of 64 the estimate was 0.69 to 1.30 times what softmax attention, Parallax, gated DeltaNet and KDA took (`assay-lab bench check`).
A twelfth of a check is one core's alone. On 16 cores `gated_deltanet` took 15 to 19 s at 1,4096,16,128, and all processors 200 s, or 6.5 s with an H200; `softmax_attention` took 36 s and 480 s, or 12.5 s (`assay-lab bench check --threads 16`).
Four draws of the model decide most checks; a gradient of a single number (`d_bandwidth`) may ask for 8, 16 or 64, and they take as many times as long. So may a kernel whose errors are near their limits: the table is of answers that are rounded once, and torch's attention in bf16,
0.37 of the allowed error off at 1,1024,4,64, asked for 8 draws of its gradients, and the check took 1.7 times as long. Where a contract decides (`--contract`, `--tile`), a check takes 12 to 16 times as long: of softmax attention 10.6 s of processor for 0.7 at 1,512,2,64, of gated DeltaNet 5.3 for 0.4,
of Parallax 17 for 1.0, of GLA 4.6 for 0.4, and of Mesa 24 for 1.7 (`assay check --no-cache --quick`). A check that is repeated takes a tenth: truth and sigma are kept ([check.md](check.md#what-is-kept)). Before it starts, `check` says what it will take, if
that is more than ten seconds: by this table, times what a small draw takes on the machine at that moment.

The split: reading the files / truth / draws, of our own tile program and of the model / judging, with what the case could have shown. The latter is looked for in two million numbers at most: with 8 heads of 128
at 2048 tokens, where it is one head, `gated_deltanet` took 0.86 and `kda` 1.33 times the estimate.

| mechanism | 1,1024,4,64 | 1,2048,8,128 | 2,4096,8,128 | `--sample 1` | read / truth / draws / judge |
|---|---|---|---|---|---|
)";
  for (const CheckCost& cost : check_costs()) page += page_line(cost);
  return page + R"(
    build/assay-lab bench check --mechanism gated_deltanet --tokens 512 --heads 4 --dim 128

measures one shape on your machine: seconds, seconds of all processors, what was estimated of these, peak memory, and the split.
`--tokens 192,200,256` puts lengths side by side. Of `softmax_attention` with 4 heads of 64 these took 0.7, 0.8 and 1.1 s of all processors, of `gated_deltanet` 1.0, 1.1 and
1.4 s: an odd length asks for nothing more.
)";
}

}  // namespace assay
