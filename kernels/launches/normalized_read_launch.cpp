#include "kernels/launches/normalized_read_launch.hpp"

#include "kernels/programs/normalized_read.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {
namespace {

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

}  // namespace

template <class T>
NormalizedSums<T>::NormalizedSums(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile,
                                  SumKind kind, std::string_view eps_name)
    : sums(shape, problem, policy, tile, kind),
      mass(shape, problem, launch_policy(policy, 8), tile, kind),
      eps(parameter<T>(problem, eps_name, T(0))) {
  if (!divided()) return;
  mass.v = shape.output<T>(shape.heads, shape.len, mass_columns);
  for (std::size_t i = 0; i < mass.v.data.size(); ++i) mass.v.data[i] = T(i % mass_columns == 0 ? 1 : 0);
  mass.initial_state = as_column<T>(shape, problem.inputs, "initial_normalizer");
  HostBlock<T>(policy, ~0ULL).round("eps", &eps, 1);
}

template <class T>
void NormalizedSums<T>::forward() {
  sums.forward();
  if (!divided()) return;
  mass.forward();
  const RecurrenceShape& shape = sums.shape;
  o = shape.output<T>(shape.heads, shape.len, shape.value_dim);
  with_size(sums.size, [&]<int C, int D>() {
    host_launch<NormalizedRead<HostBlock<T>, C, D>, T>(launch_policy(sums.policy, 9),
                                                       {sums.o.in(), mass.o.in(), o.out(), eps, sums.blocks()},
                                                       shape.heads * sums.chunks() * sums.blocks(), sums.by_chunk());
  });
}

template <class T>
void NormalizedSums<T>::backward(const Problem& problem, int more) {
  const RecurrenceShape& shape = sums.shape;
  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", shape.heads, shape.len, shape.value_dim);
  const auto end = shape.input<T>(problem.cotangents, "final_state", shape.heads, shape.key_dim, shape.value_dim);
  sums.make_parts(parts() - sums.blocks() + more);
  if (!divided()) return sums.backward(o_cotangent, end, sums.parts);
  auto dsums = o, dmass = mass.v;
  with_size(sums.size, [&]<int C, int D>() {
    host_launch<NormalizedReadBackward<HostBlock<T>, C, D, 2>, T>(
        launch_policy(sums.policy, 10),
        {sums.o.in(), mass.o.in(), o_cotangent.in(), dsums.out(), dmass.out(), eps, sums.blocks()},
        shape.heads * sums.chunks(), HeadBlocks{sums.chunks()});
  });
  sums.backward(dsums, end, sums.parts);
  mass.backward(dmass, as_column<T>(shape, problem.cotangents, "final_normalizer"), sums.parts, sums.blocks());
}

template <class T>
Arrays NormalizedSums<T>::outputs() const {
  Arrays out{{"o", divided() ? o.array() : sums.o.array()}, {"final_state", sums.final_state.array()}};
  if (divided()) out["final_normalizer"] = as_vector(sums.shape, mass.final_state);
  return out;
}

template <class T>
Arrays NormalizedSums<T>::gradients(const Problem& problem) const {
  Arrays d = sums.gradients();
  if (problem.inputs.contains("initial_normalizer"))
    d["initial_normalizer"] = as_vector(sums.shape, mass.dinitial_state);
  return d;
}

template struct NormalizedSums<double>;
template struct NormalizedSums<long double>;

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
