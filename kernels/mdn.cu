// Momentum DeltaNet on the device: launches and instances.
#include "kernels/cuda/decay_scan.cuh"
#include "kernels/cuda/recurrence.cuh"
#include "kernels/mdn.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct MomentumPolicy : StaticPolicy<mdn_sites_of_all_forms, F> {};

/// A chunk and the value columns of a block, in a pass over the states and in what is done for all chunks at once, that
/// fit in shared memory beside two states and what is added to them. `tile` is the CPU's with the same chunk. Narrow
/// blocks of a pass fill the device and take short steps, and columns do not touch each other there.
struct MomentumChunk {
  int tile, length, pass_values, values;
};
template <Format F, int D>
constexpr MomentumChunk momentum_chunk() {
  if (F == Format::fp64) return {2, 16, 16, 16};
  if (F == Format::tf32) return {2, 16, 16, 32};
  return {1, 32, 16, D == 64 ? 64 : 32};
}
int momentum_tile(const Problem&, Format precision) {
  return precision == Format::fp64 || precision == Format::tf32 ? 2 : 1;
}

template <class To, class F>
MomentumRows<To> each_row(MomentumRows<DeviceArray>& rows, F f) {
  return {f(rows.a), f(rows.b),       f(rows.late_a),  f(rows.late_b), f(rows.g),
          f(rows.r), f(rows.total_a), f(rows.total_b), f(rows.total_m)};
}

/// Outputs, and gradients if they are wanted.
template <Format F, int D, template <ExecutorTypes, int, int> class Weights>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, bool with_gradients, GpuTimes* times) {
  using P = MomentumPolicy<F>;
  constexpr MomentumChunk sizes = momentum_chunk<F, D>();
  constexpr int C = sizes.length, DV = sizes.values, pass_DV = sizes.pass_values, stages = 3;
  using B = MmaBlock<P, C / 16>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, DV), group = shape.group;
  const BlockGrid by_block{heads, ceil_div(V, pass_DV)}, by_chunk{heads, chunks * blocks};
  const auto scale = real<P>(shape.scale<double>(problem, Policy::of(mdn_sites, F)));
  const auto q = upload<P, "Q">(problem.inputs, "q", shared, len, K);
  const auto k = upload<P, "K">(problem.inputs, "k", shared, len, K);
  const auto p = upload<P, "Kp">(problem.inputs, "p", shared, len, K);
  const auto v = upload<P, "V">(problem.inputs, "v", heads, len, V);
  const auto log_alpha = upload<P, "decay">(problem.inputs, "log_alpha", heads, len, 1);
  const auto log_mu = upload<P, "decay">(problem.inputs, "log_mu", heads, len, 1);
  const auto beta = upload<P, "beta">(problem.inputs, "beta", heads, len, 1);
  const auto eta = upload<P, "eta">(problem.inputs, "eta", heads, len, 1);
  const auto initial_state = upload<P, "S0">(problem.inputs, "initial_state", heads, K, V);
  const auto initial_momentum = upload<P, "M0">(problem.inputs, "initial_momentum", heads, K, V);
  auto weights = result<P, "Gamma">(heads, chunks * C, C), late_weights = result<P, "Gamma">(heads, chunks * C, C);
  auto inverse = result<P, "Tc">(heads, chunks * C, C);
  const auto of_token = [&] { return result<P, "decay">(heads, len, 1); };
  const auto of_chunk = [&] { return result<P, "decay">(heads, chunks * D, 1); };
  MomentumRows<DeviceArray> arrays{of_token(), of_token(), of_token(), of_token(), of_token(),
                                   of_token(), of_chunk(), of_chunk(), of_chunk()};
  const auto rows = each_row<typename B::RowIn>(arrays, [](DeviceArray& x) { return row_in<B>(x); });
  const MomentumGates<B> gates{row_in<B>(log_alpha), row_in<B>(log_mu), row_in<B>(beta),
                               each_row<typename B::RowOut>(arrays, [](DeviceArray& x) { return row_out<B>(x); }), len};
  auto errors = result<P, "E">(heads, len, V), o = result<P, "out">(heads, len, V);
  auto states = result<P, "Sc">(heads, chunks * D, V), momenta = result<P, "Mc">(heads, chunks * D, V);
  auto final_state = result<P, "end">(heads, K, V), final_momentum = result<P, "end">(heads, K, V);
  const double forward = run_timed(times, [&] {
    launch<MomentumSystem<B, C, D, Weights<B, C, D>>, B, 1>(
        {in<B>(k), in<B>(p), gates, row_in<B>(eta), out<B>(weights), out<B>(late_weights), out<B>(inverse), group},
        BlockGrid{heads, chunks});
    launch<MomentumPass<B, C, D, pass_DV, stages>, B, 1>(
        {in<B>(k), in<B>(p), in<B>(v), in<B>(inverse), in<B>(initial_state), in<B>(initial_momentum), row_in<B>(eta),
         rows, out<B>(errors), out<B>(states), out<B>(momenta), out<B>(final_state), out<B>(final_momentum), len,
         group},
        by_block);
    launch<MomentumOutputs<B, C, D, DV>, B, 1>({in<B>(q), in<B>(k), in<B>(errors), in<B>(states), in<B>(momenta),
                                                in<B>(weights), row_in<B>(eta), rows, out<B>(o), scale, group, blocks},
                                               by_chunk);
  });
  if (times != nullptr) times->forward = forward;
  const auto state_shape = array_shape(shape, heads, K, V);
  Answer answer{{{"o", download(o, array_shape(shape, heads, len, V))},
                 {"final_state", download(final_state, state_shape)},
                 {"final_momentum", download(final_momentum, state_shape)}},
                {}};
  if (!with_gradients) return answer;

  const auto o_cotangent = upload<P, "dO">(problem.cotangents, "o", heads, len, V);
  const auto state_cotangent = upload<P, "S0">(problem.cotangents, "final_state", heads, K, V);
  const auto momentum_cotangent = upload<P, "M0">(problem.cotangents, "final_momentum", heads, K, V);
  auto derrors = result<P, "dE">(heads, len, V), dv = result<P, "out">(heads, len, V);
  auto dvalues = result<P, "dR">(heads, len, V);
  auto state_updates = result<P, "dW">(heads, chunks * D, V), momentum_updates = result<P, "dW">(heads, chunks * D, V);
  auto state_adjoints = result<P, "Gc">(heads, chunks * D, V),
       momentum_adjoints = result<P, "Nc">(heads, chunks * D, V);
  auto dinitial_state = result<P, "end">(heads, K, V), dinitial_momentum = result<P, "end">(heads, K, V);
  const auto of_keys = [&] { return result<P, "part">(heads * blocks, len, K); };
  const auto of_gates = [&](int parts) { return result<P, "decay">(parts, len, 1); };
  auto dq_parts = of_keys(), dk_parts = of_keys(), dp_parts = of_keys();
  auto dlog_alpha_parts = of_gates(heads * blocks), dlog_mu_parts = of_gates(heads * blocks);
  auto dbeta_parts = of_gates(heads * blocks), deta_parts = of_gates(heads * blocks);
  auto dq = result<P, "out">(shared, len, K), dk = result<P, "out">(shared, len, K);
  auto dp = result<P, "out">(shared, len, K);
  auto dlog_alpha = of_gates(heads), dlog_mu = of_gates(heads), dbeta = of_gates(heads), deta = of_gates(heads);
  const double backward = run_timed(times, [&] {
    launch<MomentumReads<B, C, D, DV>, B, 1>(
        {in<B>(q), in<B>(k), in<B>(o_cotangent), in<B>(weights), row_in<B>(eta), rows, out<B>(derrors),
         out<B>(state_updates), out<B>(momentum_updates), scale, group, blocks},
        by_chunk);
    launch<MomentumAdjointPass<B, C, D, pass_DV, stages>, B, 1>(
        {in<B>(k), in<B>(p), in<B>(derrors), in<B>(state_updates), in<B>(momentum_updates), in<B>(inverse),
         in<B>(state_cotangent), in<B>(momentum_cotangent), row_in<B>(eta), rows, out<B>(dv), out<B>(dvalues),
         out<B>(state_adjoints), out<B>(momentum_adjoints), out<B>(dinitial_state), out<B>(dinitial_momentum), len,
         group},
        by_block);
    using Gradients = MomentumGradients<B, C, D, DV, Weights<B, C, D>>;
    launch<Gradients, B, 1>({in<B>(q),
                             in<B>(k),
                             in<B>(p),
                             in<B>(errors),
                             in<B>(dvalues),
                             in<B>(o_cotangent),
                             in<B>(states),
                             in<B>(momenta),
                             in<B>(state_adjoints),
                             in<B>(momentum_adjoints),
                             in<B>(weights),
                             in<B>(late_weights),
                             row_in<B>(log_alpha),
                             row_in<B>(log_mu),
                             row_in<B>(beta),
                             row_in<B>(eta),
                             rows,
                             out<B>(dq_parts),
                             out<B>(dk_parts),
                             out<B>(dp_parts),
                             row_out<B>(dlog_alpha_parts),
                             row_out<B>(dlog_mu_parts),
                             row_out<B>(dbeta_parts),
                             row_out<B>(deta_parts),
                             scale,
                             group,
                             blocks},
                            by_chunk);
    sum_parts<P, "part", "out">(dq_parts, dq);
    sum_parts<P, "part", "out">(dk_parts, dk);
    sum_parts<P, "part", "out">(dp_parts, dp);
    sum_parts<P, "dlog_alpha", "dlog_alpha">(dlog_alpha_parts, dlog_alpha);
    sum_parts<P, "dlog_mu", "dlog_mu">(dlog_mu_parts, dlog_mu);
    sum_parts<P, "dbeta", "dbeta">(dbeta_parts, dbeta);
    sum_parts<P, "deta", "deta">(deta_parts, deta);
  });
  if (times != nullptr) times->backward = backward;
  const auto key_shape = array_shape(shape, shared, len, K);
  answer.gradients = {{"q", download(dq, key_shape)},
                      {"k", download(dk, key_shape)},
                      {"v", download(dv, array_shape(shape, heads, len, V))},
                      {"p", download(dp, key_shape)},
                      {"log_alpha", download(dlog_alpha, token_shape(shape))},
                      {"log_mu", download(dlog_mu, token_shape(shape))},
                      {"beta", download(dbeta, token_shape(shape))},
                      {"eta", download(deta, token_shape(shape))},
                      {"initial_state", download(dinitial_state, state_shape)},
                      {"initial_momentum", download(dinitial_momentum, state_shape)}};
  return answer;
}

template <template <ExecutorTypes, int, int> class Weights>
Answer run(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    return chunkwise<F, D, Weights>(shape, problem, !problem.cotangents.empty(), times);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, momentum_tile, run<LinearWeights>},
                             {"log_domain", recurrence_obstacle, momentum_tile, run<LogDomainWeights>}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom mdn = {"mdn", tile::forms};
}
