#include "kernels/linear_attention.hpp"

#include "kernels/core/decayed_sums_launch.hpp"
#include "kernels/core/kernel_room.hpp"

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

/// A vector for each head as the first of the columns of a mass, and back.
template <class T>
HostArray<T> as_column(const RecurrenceShape& shape, const Arrays& arrays, std::string_view name) {
  const auto x = shape.vector_input<T>(arrays, name, shape.heads, shape.key_dim);
  auto column = shape.output<T>(shape.heads, shape.key_dim, mass_columns);
  for (std::size_t i = 0; i < column.data.size(); ++i)
    column.data[i] = i % mass_columns == 0 ? x.data[i / mass_columns] : T(0);
  return column;
}
template <class T>
Array as_vector(const RecurrenceShape& shape, const HostArray<T>& column) {
  auto x = shape.output<T>(shape.heads, shape.key_dim, 1);
  x.shape.pop_back();
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = column.data[i * mass_columns];
  return x.array();
}

template <class T>
Answer by_features(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  using B = HostBlock<T>;
  DecayedSums<T> sums(shape, problem, policy, tile, {.divided = true}),
      mass(shape, problem, launch_policy(policy, 8), tile, {.divided = true});
  mass.v = shape.output<T>(shape.heads, shape.len, mass_columns);
  for (std::size_t i = 0; i < mass.v.data.size(); ++i) mass.v.data[i] = T(i % mass_columns == 0 ? 1 : 0);
  mass.initial_state = as_column<T>(shape, problem.inputs, "initial_normalizer");
  T eps = parameter<T>(problem, "eps", T(0));
  B(policy, ~0ULL).round("eps", &eps, 1);
  sums.forward();
  mass.forward();
  auto o = shape.output<T>(shape.heads, shape.len, shape.value_dim);
  const int tiles = sums.chunks(), blocks = sums.blocks();
  with_size(sums.size, [&]<int C, int D>() {
    host_launch<NormalizedRead<B, C, D>, T>(launch_policy(policy, 9), {sums.o.in(), mass.o.in(), o.out(), eps, blocks},
                                            shape.heads * tiles * blocks, sums.by_chunk());
  });
  Answer answer{{{"o", o.array()},
                 {"final_state", sums.final_state.array()},
                 {"final_normalizer", as_vector(shape, mass.final_state)}},
                {}};
  if (problem.cotangents.empty()) return answer;

  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", shape.heads, shape.len, shape.value_dim);
  auto dsums = o, dmass = mass.v;
  with_size(sums.size, [&]<int C, int D>() {
    host_launch<NormalizedReadBackward<B, C, D, 2>, T>(
        launch_policy(policy, 10), {sums.o.in(), mass.o.in(), o_cotangent.in(), dsums.out(), dmass.out(), eps, blocks},
        shape.heads * tiles, HeadBlocks{tiles});
  });
  sums.make_parts(1);
  sums.backward(dsums, shape.input<T>(problem.cotangents, "final_state", shape.heads, shape.key_dim, shape.value_dim),
                sums.parts);
  mass.backward(dmass, as_column<T>(shape, problem.cotangents, "final_normalizer"), sums.parts, blocks);
  answer.gradients = sums.gradients();
  if (problem.inputs.contains("initial_normalizer"))
    answer.gradients["initial_normalizer"] = as_vector(shape, mass.dinitial_state);
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

constexpr auto mutants = joined(
    sum_mutants,
    std::array{Mutant{"counts_from_two", "o_t is divided by t + 1", "catalogue"},
               Mutant{"eps_forgotten", "the denominator without eps", "catalogue"},
               Mutant{"mass_is_constant", "backward takes the denominator for a constant", "FLA normalize class"}});

constexpr KernelForm forms[] = {
    {"chunkwise", "chunks in parallel: what each adds to the state, one pass over the states, what the queries read",
     linear_attention_sites, chunk_tiles, mutants, true, key_dim_obstacle, run_chunkwise},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom linear_attention = {"linear_attention", forms};
}

}  // namespace assay::tile
