#pragma once
// The launches of kernels/programs/normalized_read.hpp, planned once for every device (kernels/host/host_device.hpp)
// and for the rooms whose arithmetic it is.
#include <optional>
#include <string_view>

#include "kernels/plans/decayed_sums.hpp"
#include "kernels/programs/normalized_read.hpp"

namespace assay::tile {

/// A vector for each of so many heads as the first of the columns of a mass, and back.
template <class Device>
typename Device::Values as_column(const Device& device, int heads, int K, const Arrays& arrays, std::string_view name) {
  std::vector<double> column(static_cast<std::size_t>(heads) * static_cast<std::size_t>(K) * mass_columns);
  if (const auto it = arrays.find(name); it != arrays.end())
    for (std::size_t i = 0; i < it->second.data.size(); ++i) column[i * mass_columns] = it->second.data[i];
  return device.template array<"S0">(heads, K, mass_columns, column);
}
template <class Device>
Array as_vector(const Device& device, const RecurrenceShape& shape, const typename Device::Values& column) {
  Array x(axes_of(shape.head_axis, shape.heads, {shape.key_dim}));
  const auto values = device.values(column);
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<double>(values[i * mass_columns]);
  return x;
}
/// A mass of 1 for so many tokens of every head, as values.
template <class Device>
typename Device::Values unit_masses(const Device& device, int heads, int rows) {
  std::vector<double> first(static_cast<std::size_t>(heads) * static_cast<std::size_t>(rows) * mass_columns);
  for (std::size_t i = 0; i < first.size(); i += mass_columns) first[i] = 1;
  return device.template array<"V">(heads, rows, mass_columns, first);
}

/// Sums and, where they are `Divided`, the mass: a second set of sums, with the weights of the values in the first of
/// its value columns.
template <class Tiles, bool Decays, bool Divided, class Device>
struct NormalizedPlan {  // NOLINT(cppcoreguidelines-special-member-functions): references assign nothing
  using B = typename Tiles::Executor;
  using Values = typename Device::Values;
  using Sums = SumsPlan<Tiles, Decays, Divided, Device>;
  const Device& device;
  const RecurrenceShape& shape;
  const Problem& problem;
  const Values initial_mass, final_mass_cotangent;
  Sums sums;
  std::optional<Sums> mass;
  Values o, dsums, dmass;
  const typename Device::Real eps;

  /// `weights` has no rows unless they are `Divided`; `eps_name`: the parameter that the denominator adds.
  NormalizedPlan(const Device& on, const RecurrenceShape& s, const Problem& what, const SumInputs<Device>& x,
                 const Values& keys, const Values& values, const Values& weights, const Values& decay, bool logs,
                 const Values& scale, std::string_view eps_name)
      : device(on),
        shape(s),
        problem(what),
        initial_mass(as_column(on, Divided ? s.heads : 0, s.key_dim, what.inputs, "initial_normalizer")),
        final_mass_cotangent(as_column(on, Divided ? s.heads : 0, s.key_dim, what.cotangents, "final_normalizer")),
        sums(on, s, x.q, keys, values, s.value_dim, decay, logs, scale, x.initial_state, !what.cotangents.empty()),
        o(on.template result<"out">(s.heads, Divided ? s.len : 0, s.value_dim)),
        dsums(on.template result<"dO">(s.heads, Divided ? s.len : 0, s.value_dim)),
        dmass(on.template result<"dO">(s.heads, Divided ? s.len : 0, mass_columns)),
        eps(on.template gate<"eps">(what, eps_name)) {
    if constexpr (Divided)
      mass.emplace(on.part(8), s, x.q, keys, weights, mass_columns, decay, logs, scale, initial_mass,
                   !what.cotangents.empty());
  }
  NormalizedPlan(const NormalizedPlan&) = delete;

  /// Parts of the gradients of q and k for each head.
  static constexpr int parts = Divided ? 2 : 1;

  void forward() {
    sums.forward();
    if constexpr (Divided) {
      mass->forward();
      device.template launch<NormalizedRead<B, Tiles::tokens, Tiles::values>, B>(
          9, shape.heads, sums.of_chunks, {sums.o.in(), mass->o.in(), o.out(), eps, sums.blocks});
    }
  }
  void backward(const SumCotangents<Device>& cotangents, SumGradients<Decays, Device>& d) {
    if constexpr (Divided) {
      device.template launch<NormalizedReadBackward<B, Tiles::tokens, Tiles::values, 2>, B>(
          10, shape.heads, sums.chunks,
          {sums.o.in(), mass->o.in(), cotangents.o.in(), dsums.out(), dmass.out(), eps, sums.blocks});
      mass->backward(dmass, final_mass_cotangent, d, 1);
    }
    sums.backward(Divided ? dsums : cotangents.o, cotangents.final_state, d);
  }

  Arrays outputs() const {
    Arrays all{{"o", device.array_of(Divided ? o : sums.o, {shape.len, shape.value_dim})},
               {"final_state", device.array_of(sums.final_state, {shape.key_dim, shape.value_dim})}};
    if constexpr (Divided) all["final_normalizer"] = as_vector(device, shape, mass->final_state);
    return all;
  }
  /// The gradients of q, k, the values that were summed and the initial states.
  Arrays gradients(const SumGradients<Decays, Device>& d) const {
    const int len = shape.len, K = shape.key_dim, V = shape.value_dim;
    Arrays all{{"q", device.array_of(d.dq, {len, K})},
               {"k", device.array_of(d.dk, {len, K})},
               {"v", device.array_of(sums.dv, {len, V})},
               {"initial_state", device.array_of(sums.dinitial_state, {K, V})}};
    if constexpr (Divided)
      if (problem.inputs.contains("initial_normalizer"))
        all["initial_normalizer"] = as_vector(device, shape, mass->dinitial_state);
    return all;
  }
};

}  // namespace assay::tile
