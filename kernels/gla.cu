// Gated linear attention on the device: launches and instances.
#include "kernels/cuda/channel_sums.cuh"
#include "kernels/gla.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct ChannelPolicy : StaticPolicy<gla_sites, F> {};

template <Format F, int D>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = ChannelPolicy<F>;
  using Sums = DeviceChannelSums<P, F, D>;
  using B = typename Sums::B;
  constexpr int C = Sums::C, DV = Sums::DV, pass_DV = Sums::pass_DV, stages = Sums::stages;
  Sums sums(shape, problem, shape.scale<double>(problem, Policy::of(gla_sites, F)));
  const double forward = run_timed(times, [&] {
    launch<ChannelUpdates<B, C, D, DV>, B, 1>(
        {in<B>(sums.x.k), in<B>(sums.x.v), in<B>(sums.log_decay), out<B>(sums.updates), row_out<B>(sums.totals),
         shape.len, shape.group, sums.blocks},
        sums.by_chunk());
    launch<StatePass<B, C, D, pass_DV, stages, true, false>, B, 1>(
        {in<B>(sums.x.initial_state), in<B>(sums.updates), row_in<B>(sums.totals), out<B>(sums.states),
         out<B>(sums.final_state), shape.len},
        sums.by_block());
    sums.read(sums.x.v);
  });
  if (times != nullptr) times->forward = forward;
  Answer answer{sums.outputs(), {}};
  if (problem.cotangents.empty()) return answer;
  const double backward = run_timed(times, [&] {
    sums.read_backward();
    launch<StatePass<B, C, D, pass_DV, stages, true, true>, B, 1>(
        {in<B>(sums.x.final_cotangent), in<B>(sums.updates), row_in<B>(sums.totals), out<B>(sums.adjoints),
         out<B>(sums.dinitial_state), shape.len},
        sums.by_block());
    sums.template gradients<false>(sums.x.v, sums.du, sums.scale);  // neither errors nor strengths
  });
  if (times != nullptr) times->backward = backward;
  answer.gradients = sums.all_gradients();
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
extern const GpuRoom gla = {"gla", tile::forms};
}
