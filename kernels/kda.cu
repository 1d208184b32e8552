// Kimi Delta Attention on the device: launches and instances.
#include "kernels/cuda/channel_sums.cuh"
#include "kernels/kda.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct ChannelPolicy : StaticPolicy<kda_sites, F> {};

template <Format F, int D>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = ChannelPolicy<F>;
  using Sums = DeviceChannelSums<P, F, D>;
  using B = typename Sums::B;
  constexpr int C = Sums::C, pass_DV = Sums::pass_DV, stages = Sums::stages;
  const int heads = shape.heads, len = shape.len, V = shape.value_dim;
  Sums sums(shape, problem, shape.scale<double>(problem, Policy::of(kda_sites, F)));
  const auto beta = upload<P, "beta">(problem.inputs, "beta", heads, len, 1);
  auto inverse = result<P, "Tc">(heads, sums.chunks * C, C);
  auto reads = result<P, "Xc">(heads, len, shape.key_dim), writes = result<P, "Zc">(heads, len, shape.key_dim);
  auto u = result<P, "U">(heads, len, V);
  const double forward = run_timed(times, [&] {
    launch<ChannelSystem<B, C, D>, B, 1>({in<B>(sums.x.k), in<B>(sums.log_decay), row_in<B>(beta), out<B>(inverse),
                                          out<B>(reads), out<B>(writes), row_out<B>(sums.totals), len, shape.group},
                                         BlockGrid{heads, sums.chunks});
    launch<DeltaPass<B, C, D, pass_DV, stages>, B, 1>(
        {in<B>(reads), in<B>(writes), in<B>(sums.x.v), in<B>(inverse), in<B>(sums.x.initial_state), row_in<B>(beta),
         row_in<B>(sums.totals), out<B>(u), out<B>(sums.states), out<B>(sums.final_state), len},
        sums.by_block());
    sums.read(u);
  });
  if (times != nullptr) times->forward = forward;
  Answer answer{sums.outputs(), {}};
  if (problem.cotangents.empty()) return answer;
  auto errors = result<P, "E">(heads, len, V), dbeta = result<P, "dbeta">(heads, len, 1);
  const double backward = run_timed(times, [&] {
    sums.read_backward();
    launch<DeltaAdjointPass<B, C, D, pass_DV, stages>, B, 1>(
        {in<B>(reads), in<B>(writes), in<B>(sums.du), in<B>(sums.updates), in<B>(inverse),
         in<B>(sums.x.final_cotangent), row_in<B>(beta), row_in<B>(sums.totals), out<B>(errors), out<B>(sums.adjoints),
         out<B>(sums.dinitial_state), len},
        sums.by_block());
    sums.template gradients<true>(u, errors, beta);
    sum_parts<P, "dbeta", "dbeta">(sums.dbeta_parts, dbeta);
  });
  if (times != nullptr) times->backward = backward;
  answer.gradients = sums.all_gradients();
  answer.gradients["beta"] = download(dbeta, token_shape(shape));
  return answer;
}

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim,
                       [&]<Format F, int D>() { return chunkwise<F, D>(shape, problem, times); });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, channel_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom kda = {"kda", tile::forms};
}
