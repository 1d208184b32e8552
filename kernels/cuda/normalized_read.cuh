#pragma once
// The launches of kernels/programs/normalized_read.hpp on the device, shared by the rooms whose arithmetic it is.
#include <optional>

#include "kernels/cuda/decayed_sums.cuh"
#include "kernels/programs/normalized_read.hpp"

namespace assay::tile {

/// A vector for each head as the first of the columns of a mass, and back.
template <class P, FixedString S>
DeviceArray as_column(const RecurrenceShape& shape, const Arrays& arrays, std::string_view name) {
  std::vector<double> column(static_cast<std::size_t>(shape.heads) * shape.key_dim * mass_columns);
  if (const auto it = arrays.find(name); it != arrays.end())
    for (std::size_t i = 0; i < it->second.data.size(); ++i) column[i * mass_columns] = it->second.data[i];
  return DeviceArray(format_of<P, S>, shape.heads, shape.key_dim, mass_columns, column);
}
inline Array as_vector(const RecurrenceShape& shape, const DeviceArray& column) {
  Array x(HostShape{shape.head_axis, shape.heads, shape.shared_heads}.shape(shape.heads, {shape.key_dim}));
  const std::vector<double> values = column.values();
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = values[i * mass_columns];
  return x;
}
/// A mass of 1 for so many tokens of every head, as values.
template <class P>
DeviceArray unit_masses(const RecurrenceShape& shape, int rows) {
  std::vector<double> first(static_cast<std::size_t>(shape.heads) * rows * mass_columns);
  for (std::size_t i = 0; i < first.size(); i += mass_columns) first[i] = 1;
  return DeviceArray(format_of<P, "V">, shape.heads, rows, mass_columns, first);
}

/// Sums and, where they are `Divided`, the mass: a second set of sums, with the weights of the values in the first of
/// its value columns.
template <class P, Format F, int D, bool Decays, bool Divided>
struct DeviceNormalizedSums {
  using Sums = DeviceSums<P, F, D, Decays, Divided>;
  using B = typename Sums::B;

  const RecurrenceShape& shape;
  const SumInputs<P>& x;
  DeviceArray initial_mass, final_mass_cotangent;
  Sums sums;
  std::optional<Sums> mass;
  DeviceArray o, dsums, dmass;
  typename P::Real eps;

  /// `weights` has no rows unless they are `Divided`; `eps_name`: the parameter that the denominator adds.
  DeviceNormalizedSums(const RecurrenceShape& s, const Problem& problem, const SumInputs<P>& inputs,
                       const DeviceArray& keys, const DeviceArray& values, const DeviceArray& weights,
                       const DeviceArray& decay, const DeviceArray& scale, std::string_view eps_name)
      : shape(s),
        x(inputs),
        initial_mass(as_column<P, "S0">(s, problem.inputs, "initial_normalizer")),
        final_mass_cotangent(as_column<P, "S0">(s, problem.cotangents, "final_normalizer")),
        sums(s, x.q, keys, values, decay, scale, x.initial_state, !problem.cotangents.empty()),
        o(result<P, "out">(s.heads, Divided ? s.len : 0, s.value_dim)),
        dsums(result<P, "dO">(s.heads, Divided ? s.len : 0, s.value_dim)),
        dmass(result<P, "dO">(s.heads, Divided ? s.len : 0, mass_columns)),
        eps(real<P>(parameter(problem, eps_name, 0.0))) {
    if constexpr (Divided) mass.emplace(s, x.q, keys, weights, decay, scale, initial_mass, !problem.cotangents.empty());
  }
  DeviceNormalizedSums(const DeviceNormalizedSums&) = delete;

  /// Parts of the gradients of q and k for each head.
  int parts() const { return sums.blocks + (Divided ? 1 : 0); }
  /// Decays are what they are, not their logs.
  void take_decays_as_they_are() {
    sums.logs = false;
    if constexpr (Divided) mass->logs = false;
  }
  void forward() {
    sums.forward();
    if constexpr (Divided) {
      mass->forward();
      launch<NormalizedRead<B, Sums::C, Sums::DV>, B, 1>({in<B>(sums.o), in<B>(mass->o), out<B>(o), eps, sums.blocks},
                                                         sums.grid());
    }
  }
  /// Parts of the gradients of q, k and log_decay, the first of every head.
  void backward(SumGradients<P>& d) {
    if constexpr (Divided) {
      launch<NormalizedReadBackward<B, Sums::C, Sums::DV, 2>, B, 1>(
          {in<B>(sums.o), in<B>(mass->o), in<B>(x.o_cotangent), out<B>(dsums), out<B>(dmass), eps, sums.blocks},
          BlockGrid{shape.heads, sums.chunks});
      mass->backward(dmass, final_mass_cotangent, d.dq_parts, d.dk_parts, d.dlog_decay_parts, sums.blocks);
    }
    sums.backward(Divided ? dsums : x.o_cotangent, x.final_cotangent, d.dq_parts, d.dk_parts, d.dlog_decay_parts);
  }
  Arrays outputs() const {
    const int heads = shape.heads, V = shape.value_dim;
    Arrays all{{"o", download(Divided ? o : sums.o, array_shape(shape, heads, shape.len, V))},
               {"final_state", download(sums.final_state, array_shape(shape, heads, shape.key_dim, V))}};
    if constexpr (Divided) all["final_normalizer"] = as_vector(shape, mass->final_state);
    return all;
  }
  /// Of q, k, the values that were summed and the initial states.
  Arrays gradients(const Problem& problem, const SumGradients<P>& d) const {
    const int shared = shape.shared_heads, heads = shape.heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
    Arrays all{{"q", download(d.dq, array_shape(shape, shared, len, K))},
               {"k", download(d.dk, array_shape(shape, shared, len, K))},
               {"v", download(sums.dv, array_shape(shape, heads, len, V))},
               {"initial_state", download(sums.dinitial_state, array_shape(shape, heads, K, V))}};
    if (Divided && problem.inputs.contains("initial_normalizer"))
      all["initial_normalizer"] = as_vector(shape, mass->dinitial_state);
    return all;
  }
};

}  // namespace assay::tile
