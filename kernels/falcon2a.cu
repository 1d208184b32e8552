// FALCON-2A on the device: launches and instances.
#include "kernels/cuda/falcon_rows.cuh"
#include "kernels/cuda/normalized_read.cuh"
#include "kernels/falcon2a.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct SumPolicy : StaticPolicy<falcon2a_sites, F> {};

bool normalizes(const Problem& problem) {
  bool features = false;
  OptionReader read(problem.params);
  read("normalization", features, {{"none", false}, {"features", true}});
  return features;
}

/// Of every row of a mass, its first column; rows of heads lie `mass_rows` and `first_rows` apart.
template <Format F>
__global__ void first_column_kernel(const Element<F>* mass, std::conditional_t<F == Format::fp64, double, float>* first,
                                    std::size_t rows, int of_head, std::size_t mass_rows, std::size_t first_rows) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  const std::size_t head = i / of_head, r = i % of_head;
  first[head * first_rows + r] = mass[(head * mass_rows + r) * mass_columns];
}
template <class P>
void first_column(const DeviceArray& mass, DeviceArray& first) {
  constexpr int threads = 256;
  constexpr Format F = format_of<P, "out">;
  const std::size_t rows = first.count();
  if (rows == 0) return;
  first_column_kernel<F><<<static_cast<unsigned>((rows + threads - 1) / threads), threads>>>(
      static_cast<const Element<F>*>(mass.data()), static_cast<typename P::Real*>(first.data()), rows, first.rows(),
      mass.head_rows(), first.head_rows());
  cuda_check(cudaGetLastError());
}

/// The last part of every head is the gains': it holds zeros where they add nothing.
template <class P, FixedString S>
DeviceArray zeros(const DeviceArray& like) {
  return DeviceArray(format_of<P, S>, like.heads(), like.rows(), like.cols(), std::vector<double>(like.count()));
}

template <Format F, int D, bool Features>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = SumPolicy<F>;
  using Reads = DeviceNormalizedSums<P, F, D, true, Features>;
  using B = typename Reads::B;
  constexpr int C = Reads::Sums::C, DV = Reads::Sums::DV;
  const int heads = shape.heads, len = shape.len, V = shape.value_dim, masses = Features ? len : 0;
  const DeviceFalconRows<P> rows(shape, problem);
  const SumInputs<P> inputs(shape, problem);
  const auto x = rows.template features_array<P>(problem);
  const auto beta = upload<P, "beta">(problem.inputs, "beta", heads, len, 1);
  const DeviceArray scale = for_all_tokens<P, "scale">(shape, 1), ones = unit_masses<P>(shape, masses);
  auto eta = result<P, "eta">(heads, len, 1), gamma = result<P, "gamma">(heads, len, 1);
  auto u = result<P, "V">(heads, len, V), weights = result<P, "V">(heads, masses, mass_columns);
  Reads reads(shape, problem, inputs, x, u, weights, gamma, scale, "eps_normalizer");
  reads.take_decays_as_they_are();
  const BlockGrid by_chunk{heads, reads.sums.chunks};
  const double forward = run_timed(times, [&] {
    launch<FalconGain<B, C, D>, B, 1>(
        {in<B>(x), row_in<B>(beta), row_in<B>(rows.lambda), row_in<B>(rows.active), row_out<B>(eta), row_out<B>(gamma),
         rows.eps, rows.floor, rows.options.coupling, shape.group},
        by_chunk);
    launch<StepValues<B, C, DV>, B, 1>({in<B>(inputs.v), row_in<B>(eta), out<B>(u), reads.sums.blocks},
                                       reads.sums.grid());
    if (Features) launch<StepValues<B, C, DV>, B, 1>({in<B>(ones), row_in<B>(eta), out<B>(weights), 1}, by_chunk);
    reads.forward();
  });
  if (times != nullptr) times->forward = forward;
  Answer answer{reads.outputs(), {}};
  if (problem.cotangents.empty()) return answer;

  require_open(gamma);
  SumGradients<P> d(shape, reads.parts() + 1, true);
  d.dq_parts = zeros<P, "part">(d.dq_parts), d.dlog_decay_parts = zeros<P, "scale">(d.dlog_decay_parts);
  auto dweight = result<P, "dbeta">(heads, masses, 1), deta = result<P, "dbeta">(heads, len, 1);
  auto dbeta = result<P, "dbeta">(heads, len, 1), dlambda = result<P, "dbeta">(heads, len, 1);
  auto dv = result<P, "out">(heads, len, V);
  const double backward = run_timed(times, [&] {
    reads.backward(d);
    sum_parts<P, "scale", "scale">(d.dlog_decay_parts, d.dlog_decay);
    if constexpr (Features) first_column<P>(reads.mass->dv, dweight);
    launch<StepValuesBackward<B, C, DV, 2>, B, 1>({in<B>(inputs.v), in<B>(reads.sums.dv), row_in<B>(eta),
                                                   row_in<B>(dweight), out<B>(dv), row_out<B>(deta), reads.sums.blocks},
                                                  by_chunk);
    launch<FalconGainBackward<B, C, D>, B, 1>(
        {in<B>(x), row_in<B>(beta), row_in<B>(rows.lambda), row_in<B>(rows.active), row_in<B>(deta),
         row_in<B>(d.dlog_decay), row_out<B>(dbeta), row_out<B>(dlambda), out<B>(d.dk_parts), rows.eps, rows.floor,
         rows.options.coupling, shape.group, reads.parts() + 1},
        by_chunk);
    d.sum();
  });
  if (times != nullptr) times->backward = backward;
  answer.gradients = reads.gradients(problem, d);
  rows.of_keys(problem, d.dk.values(), answer.gradients);
  answer.gradients["v"] = download(dv, array_shape(shape, heads, len, V));
  answer.gradients["beta"] = download(dbeta, token_shape(shape));
  answer.gradients["lambda"] = download(dlambda, token_shape(shape));
  return answer;
}

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    return normalizes(problem) ? chunkwise<F, D, true>(shape, problem, times)
                               : chunkwise<F, D, false>(shape, problem, times);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom falcon2a = {"falcon2a", tile::forms};
}
