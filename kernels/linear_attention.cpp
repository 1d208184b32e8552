#include "kernels/linear_attention.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/launches/normalized_read_launch.hpp"

namespace assay::tile {
namespace {

enum class Normalization { none, count, features };

Normalization normalization_of(const Problem& problem) {
  Normalization normalization = Normalization::none;
  OptionReader read(problem.params);
  read("normalization", normalization,
       {{"none", Normalization::none}, {"count", Normalization::count}, {"features", Normalization::features}});
  return normalization;
}

/// o = scale / t times what the state reads, t counted from 1.
template <class T>
void divide_by_count(const RecurrenceShape& shape, const Policy& policy, HostArray<T>& scale) {
  const int first = Faults::choose(policy, "counts_from_two"_s, 1, 2);
  for (std::size_t i = 0; i < scale.data.size(); ++i)
    scale.data[i] /= static_cast<T>(first + static_cast<int>(i) % shape.len);
  HostBlock<T>(policy, ~0ULL).round("scale", scale.data.data(), scale.data.size());
}

template <class T>
Answer plain(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  DecayedSums<T> sums(shape, problem, policy, tile, {});
  if (normalization_of(problem) == Normalization::count) divide_by_count(shape, policy, sums.scale);
  sums.forward();
  Answer answer{{{"o", sums.o.array()}, {"final_state", sums.final_state.array()}}, {}};
  if (problem.cotangents.empty()) return answer;
  sums.make_parts();
  sums.backward(shape.input<T>(problem.cotangents, "o", shape.heads, shape.len, shape.value_dim),
                shape.input<T>(problem.cotangents, "final_state", shape.heads, shape.key_dim, shape.value_dim),
                sums.parts);
  answer.gradients = sums.gradients();
  return answer;
}

template <class T>
Answer by_features(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  NormalizedSums<T> reads(shape, problem, policy, tile, {.divided = true}, "eps");
  reads.forward();
  Answer answer{reads.outputs(), {}};
  if (problem.cotangents.empty()) return answer;
  reads.backward(problem);
  answer.gradients = reads.gradients(problem);
  return answer;
}

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_scalar(policy, [&]<class T>() {
    const Policy run = with_narrow_state(policy);
    return normalization_of(problem) == Normalization::features ? by_features<T>(shape, problem, run, tile)
                                                                : plain<T>(shape, problem, run, tile);
  });
}

constexpr auto mutants = joined(joined(sum_mutants, normalized_read_mutants),
                                std::array{Mutant{"counts_from_two", "o_t is divided by t + 1", "catalogue"}});

constexpr KernelForm forms[] = {
    {"chunkwise", "chunks in parallel: what each adds to the state, one pass over the states, what the queries read",
     linear_attention_sites, chunk_tiles, mutants, true, key_dim_obstacle, run_chunkwise},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom linear_attention = {"linear_attention", forms};
}

}  // namespace assay::tile
