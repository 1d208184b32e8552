#include "kernels/retnet.hpp"

#include <cmath>
#include <numeric>

#include "kernels/core/kernel_room.hpp"
#include "kernels/launches/decayed_sums_launch.hpp"

namespace assay::tile {
namespace {

/// gamma = 1 - 2^{-5-head} at every token: no exponential of a logarithm is as exact.
template <class T>
HostArray<T> decays(const RecurrenceShape& shape, const Problem& problem, const Policy& policy) {
  int head = 0;
  OptionReader read(problem.params);
  read("head", head);
  const int exponent = Faults::choose(policy, "heads_from_one"_s, -5 - head, -6 - head);
  T gamma = 1 - std::ldexp(T(1), exponent);
  HostBlock<T>(policy, ~0ULL).round("decay", &gamma, 1);
  HostArray<T> decay = shape.output<T>(shape.heads, shape.len, 1);
  std::fill(decay.data.begin(), decay.data.end(), gamma);
  return decay;
}

/// The gradient of log gamma: the sum over all tokens.
template <class T>
Array over_tokens(const RecurrenceShape& shape, const HostArray<T>& parts) {
  Array sums(shape.head_axis ? std::vector<int>{shape.heads} : std::vector<int>{});
  for (std::size_t h = 0; h < sums.data.size(); ++h) {
    const auto first = parts.data.begin() + static_cast<std::ptrdiff_t>(h) * parts.rows;
    sums.data[h] = static_cast<double>(std::accumulate(first, first + parts.rows, T(0)));
  }
  return sums;
}

template <class T>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  DecayedSums<T> sums(shape, problem, policy, tile, {.decays = true});
  sums.decay = decays<T>(shape, problem, policy), sums.logs = false;
  sums.forward();
  Answer answer{{{"o", sums.o.array()}, {"final_state", sums.final_state.array()}}, {}};
  if (problem.cotangents.empty()) return answer;
  sums.make_parts();
  sums.backward(shape.input<T>(problem.cotangents, "o", shape.heads, shape.len, shape.value_dim),
                shape.input<T>(problem.cotangents, "final_state", shape.heads, shape.key_dim, shape.value_dim),
                sums.parts);
  answer.gradients = sums.gradients();
  answer.gradients["log_decay"] = over_tokens(shape, sums.log_decay_gradient());
  return answer;
}

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  const auto run = [&]<class T>() { return chunkwise<T>(shape, problem, with_narrow_state(policy), tile); };
  return with_scalar(policy, run);
}

constexpr auto mutants = joined(joined(sum_mutants, decay_mutants),
                                std::array{Mutant{"heads_from_one", "gamma = 1 - 2^{-6-head}", "catalogue"}});

constexpr KernelForm forms[] = {
    {"chunkwise", "chunks in parallel: what each adds to the state, one pass over the states, what the queries read",
     retnet_sites, chunk_tiles, mutants, true, key_dim_obstacle, run_chunkwise},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom retnet = {"retnet", forms};
}

}  // namespace assay::tile
