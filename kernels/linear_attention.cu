// Linear attention on the device: launches and instances.
#include <optional>

#include "kernels/cuda/decayed_sums.cuh"
#include "kernels/linear_attention.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct SumPolicy : StaticPolicy<linear_attention_sites, F> {};

enum class Normalization { none, count, features };

Normalization normalization_of(const Problem& problem) {
  Normalization normalization = Normalization::none;
  OptionReader read(problem.params);
  read("normalization", normalization,
       {{"none", Normalization::none}, {"count", Normalization::count}, {"features", Normalization::features}});
  return normalization;
}

/// scale, or scale / t, t counted from 1, for every token of every head.
template <class P, Format F>
DeviceArray scales(const RecurrenceShape& shape, const Problem& problem) {
  const double scale = shape.scale<double>(problem, Policy::of(linear_attention_sites, F));
  std::vector<double> all(static_cast<std::size_t>(shape.heads) * shape.len, scale);
  if (normalization_of(problem) == Normalization::count)
    for (std::size_t i = 0; i < all.size(); ++i) all[i] /= static_cast<double>(i % shape.len + 1);
  return DeviceArray(format_of<P, "scale">, shape.heads, shape.len, 1, all);
}

/// A vector for each head as the first of the columns of a mass, and back.
template <class P, FixedString S>
DeviceArray as_column(const RecurrenceShape& shape, const Arrays& arrays, std::string_view name) {
  std::vector<double> column(static_cast<std::size_t>(shape.heads) * shape.key_dim * mass_columns);
  if (const auto it = arrays.find(name); it != arrays.end())
    for (std::size_t i = 0; i < it->second.data.size(); ++i) column[i * mass_columns] = it->second.data[i];
  return DeviceArray(format_of<P, S>, shape.heads, shape.key_dim, mass_columns, column);
}
Array as_vector(const RecurrenceShape& shape, const DeviceArray& column) {
  Array x(HostShape{shape.head_axis, shape.heads, shape.shared_heads}.shape(shape.heads, {shape.key_dim}));
  const std::vector<double> values = column.values();
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = values[i * mass_columns];
  return x;
}

Arrays gradients_of(const RecurrenceShape& shape, const DeviceArray& dq, const DeviceArray& dk, const DeviceArray& dv,
                    const DeviceArray& dinitial_state) {
  const int shared = shape.shared_heads, heads = shape.heads, len = shape.len;
  return {{"q", download(dq, array_shape(shape, shared, len, shape.key_dim))},
          {"k", download(dk, array_shape(shape, shared, len, shape.key_dim))},
          {"v", download(dv, array_shape(shape, heads, len, shape.value_dim))},
          {"initial_state", download(dinitial_state, array_shape(shape, heads, shape.key_dim, shape.value_dim))}};
}

template <Format F, int D, bool Features>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = SumPolicy<F>;
  const bool with_gradients = !problem.cotangents.empty();
  const int heads = shape.heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const SumInputs<P> x(shape, problem);
  const DeviceArray scale = scales<P, F>(shape, problem), open(format_of<P, "scale">, heads, 0, 1);
  DeviceSums<P, F, D, false, Features> sums(shape, x.q, x.k, x.v, open, scale, x.initial_state, with_gradients);
  using Sums = decltype(sums);
  using B = typename Sums::B;

  // Of the mass, where reads are normalized by features.
  const int mass_rows = Features ? len : 0;
  std::vector<double> first(static_cast<std::size_t>(heads) * mass_rows * mass_columns);
  for (std::size_t i = 0; i < first.size(); i += mass_columns) first[i] = 1;
  const DeviceArray ones(format_of<P, "V">, heads, mass_rows, mass_columns, first);
  const auto z = as_column<P, "S0">(shape, problem.inputs, "initial_normalizer");
  const auto dz = as_column<P, "S0">(shape, problem.cotangents, "final_normalizer");
  std::optional<Sums> mass;
  if (Features) mass.emplace(shape, x.q, x.k, ones, open, scale, z, with_gradients);
  auto o = result<P, "out">(heads, mass_rows, V);
  const auto eps = real<P>(parameter(problem, "eps", 0.0));
  const double forward = run_timed(times, [&] {
    sums.forward();
    if constexpr (Features) {
      mass->forward();
      launch<NormalizedRead<B, Sums::C, Sums::DV>, B, 1>({in<B>(sums.o), in<B>(mass->o), out<B>(o), eps, sums.blocks},
                                                         sums.grid());
    }
  });
  if (times != nullptr) times->forward = forward;
  Answer answer{{{"o", download(Features ? o : sums.o, array_shape(shape, heads, len, V))},
                 {"final_state", download(sums.final_state, array_shape(shape, heads, K, V))}},
                {}};
  if constexpr (Features) answer.outputs["final_normalizer"] = as_vector(shape, mass->final_state);
  if (!with_gradients) return answer;

  SumGradients<P> d(shape, sums.blocks + (Features ? 1 : 0), false);
  auto dsums = result<P, "dO">(heads, mass_rows, V), dmass = result<P, "dO">(heads, mass_rows, mass_columns);
  const double backward = run_timed(times, [&] {
    if constexpr (Features) {
      launch<NormalizedReadBackward<B, Sums::C, Sums::DV, 2>, B, 1>(
          {in<B>(sums.o), in<B>(mass->o), in<B>(x.o_cotangent), out<B>(dsums), out<B>(dmass), eps, sums.blocks},
          BlockGrid{heads, sums.chunks});
      mass->backward(dmass, dz, d.dq_parts, d.dk_parts, d.dlog_decay_parts, sums.blocks);
    }
    sums.backward(Features ? dsums : x.o_cotangent, x.final_cotangent, d.dq_parts, d.dk_parts, d.dlog_decay_parts);
    d.sum();
  });
  if (times != nullptr) times->backward = backward;
  answer.gradients = gradients_of(shape, d.dq, d.dk, sums.dv, sums.dinitial_state);
  if (Features && problem.inputs.contains("initial_normalizer"))
    answer.gradients["initial_normalizer"] = as_vector(shape, mass->dinitial_state);
  return answer;
}

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    return normalization_of(problem) == Normalization::features ? chunkwise<F, D, true>(shape, problem, times)
                                                                : chunkwise<F, D, false>(shape, problem, times);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom linear_attention = {"linear_attention", tile::forms};
}
