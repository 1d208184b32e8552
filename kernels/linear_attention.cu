// Linear attention on the device: launches and instances.
#include "kernels/cuda/normalized_read.cuh"
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

template <Format F, int D, bool Features>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = SumPolicy<F>;
  const SumInputs<P> x(shape, problem);
  const DeviceArray scale = scales<P, F>(shape, problem), open(format_of<P, "scale">, shape.heads, 0, 1),
                    ones = unit_masses<P>(shape, Features ? shape.len : 0);
  DeviceNormalizedSums<P, F, D, false, Features> reads(shape, problem, x, x.k, x.v, ones, open, scale, "eps");
  const double forward = run_timed(times, [&] { reads.forward(); });
  if (times != nullptr) times->forward = forward;
  Answer answer{reads.outputs(), {}};
  if (problem.cotangents.empty()) return answer;

  SumGradients<P> d(shape, reads.parts(), false);
  const double backward = run_timed(times, [&] {
    reads.backward(d);
    d.sum();
  });
  if (times != nullptr) times->backward = backward;
  answer.gradients = reads.gradients(problem, d);
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
