// RetNet on the device: launches and instances.
#include <cmath>
#include <numeric>

#include "kernels/cuda/decayed_sums.cuh"
#include "kernels/retnet.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct SumPolicy : StaticPolicy<retnet_sites, F> {};

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  int head = 0;
  OptionReader read(problem.params);
  read("head", head);
  const double gamma = 1 - std::ldexp(1.0, -5 - head);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using P = SumPolicy<F>;
    const auto decay = for_all_tokens<P, "decay">(shape, gamma);
    Array by_token;
    Answer answer = decayed_answer<P, F, D>(shape, problem, retnet_sites, decay, false, times, by_token);
    if (problem.cotangents.empty()) return answer;
    Array& total = answer.gradients["log_decay"] =
        Array(shape.head_axis ? std::vector<int>{shape.heads} : std::vector<int>{});
    for (std::size_t h = 0; h < total.data.size(); ++h) {
      const auto first = by_token.data.begin() + static_cast<std::ptrdiff_t>(h) * shape.len;
      total.data[h] = std::accumulate(first, first + shape.len, 0.0);
    }
    return answer;
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom retnet = {"retnet", tile::forms};
}
