#include "tools/bench/bench_rooms.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "reference/core/inputs.hpp"
#include "tools/bench/bench_engines.hpp"

namespace assay {
namespace {

constexpr int heads = 8;

template <class F>
double timed(F&& f) {
  const double start = words::processor_time();
  f();
  return words::processor_time() - start;
}

double peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

double log2_worst(const BasicAnswer<Enclosed>& answer) {
  double worst = 0;
  for (const auto* arrays : {&answer.outputs, &answer.gradients})
    for (const auto& [name, array] : *arrays) {
      double largest = 0, bound = 0;
      for (const Enclosed& x : array.data) {
        largest = std::max(largest, std::abs(x.value.hi));
        bound = std::max(bound, x.bound);
      }
      if (bound > 0) worst = std::max(worst, bound / largest);
    }
  return worst > 0 && std::isfinite(worst) ? std::log2(worst) : 0;
}

Problem problem_of(const Room& room, int tokens, int dim, int count) {
  const int shared = groups_heads(room.inputs()) ? count : 0;
  return room.make({std::string(room.name),
                    {1, tokens, count, shared, dim, dim, 0},
                    Format::bf16,
                    Style::normal,
                    1,
                    room.variants().front()});
}

}  // namespace

std::vector<RoomCost> bench_room(const Room& room, int tokens, int dim, double bin_float) {
  const Problem all = problem_of(room, tokens, dim, heads), one = problem_of(room, tokens, dim, 1);
  if (!room.in_words(problem_of(room, 4, 2, 1), {})) return {};
  std::vector<RoomCost> rows;
  const auto add = [&](Tier tier, double seconds, double log2_bound) {
    rows.push_back(
        {std::string(room.name), std::string(name_of(tier)), seconds / tokens, 0, 0, 0, log2_bound, peak_memory()});
  };
  for (const Tier tier : {Tier::fp64, Tier::mp50}) add(tier, timed([&] { room.values(one, tier); }), 0);
  for (const Tier tier : {Tier::w2, Tier::w3, Tier::w4}) {
    double bound = 0;
    const double seconds = timed([&] {
      if (const auto answer = room.in_words(all, {words_of(tier), 1})) bound = log2_worst(*answer);
    });
    add(tier, seconds / heads, bound);
  }
  for (RoomCost& row : rows) {
    row.per_double = row.seconds / rows[0].seconds, row.faster = rows[1].seconds / row.seconds;
    row.of_bin_float = bin_float * row.faster;
  }
  return rows;
}

}  // namespace assay
