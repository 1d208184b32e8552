// FALCON-3A on the device: launches and instances.
#include "kernels/cuda/decayed_sums.cuh"
#include "kernels/cuda/falcon_rows.cuh"
#include "kernels/falcon3a.hpp"
#include "kernels/launches/window_launch.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct WindowPolicy : StaticPolicy<falcon3a_sites, F> {};

/// The chunk of the sums, and the value columns of a block that fit in shared memory beside two tiles of pairs.
template <Format F>
constexpr SumChunk window_chunk() {
  SumChunk chunk = sum_chunk<F>();
  if (F == Format::fp64) chunk.values = 32;
  return chunk;
}

template <Format F, int D>
Answer masked(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = WindowPolicy<F>;
  constexpr int C = window_chunk<F>().length, DV = window_chunk<F>().values, stages = 2;
  using B = MmaBlock<P, C / 16>;
  const int heads = shape.heads, shared = shape.shared_heads, group = shape.group, len = shape.len;
  const int K = shape.key_dim, V = shape.value_dim, chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, DV);
  const BlockGrid by_chunk{heads, chunks * blocks}, of_chunks{heads, chunks}, of_values{heads, blocks};
  FalconKeys<double> keys(shape, problem);
  const int tail = rows_of(shape, problem, "tail_k"), first = keys.first(), window = window_of(problem);
  const PairRows<double> pairs{tail, first, tail + imax(0, len - first)};
  const int newest = window > 0 ? imin(pairs.count, window - 1) : pairs.count;
  const Windows windows{tail, first, window};
  const auto input = [&](const char* name, int h, int rows, int cols) {
    return shape.input<double>(problem.inputs, name, h, rows, cols);
  };
  const auto features = keys.features(input("k", shared, len, K)), values = input("v", heads, len, V),
             pair_x = pairs.gather(shape, input("tail_k", heads, tail, K), features),
             pair_v = pairs.gather(shape, input("tail_v", heads, tail, V), values);
  const auto x = array_of<P, "K">(pair_x), v = array_of<P, "V">(pair_v);
  const auto q = upload<P, "Q">(problem.inputs, "q", shared, len, K);
  const auto beta = upload<P, "beta">(problem.inputs, "beta", heads, len, 1);
  const auto alpha = upload<P, "beta">(problem.inputs, "alpha", heads, len, 1);
  const auto initial_state = upload<P, "S0">(problem.inputs, "initial_state", heads, K, V);
  const auto eps = real<P>(parameter(problem, "eps", 0.0));
  auto weight = result<P, "weight">(heads, len, 1), gamma = result<P, "gamma">(heads, len, 1);
  auto den = result<P, "den">(heads, len, 1), sizes = result<P, "energy">(heads, len, 1);
  auto updates = result<P, "W">(heads, chunks * D, V), totals = result<P, "decay">(heads, chunks * D, 1);
  auto states = result<P, "Sc">(heads, chunks * D, V), final_state = result<P, "end">(heads, K, V);
  auto o = result<P, "out">(heads, len, V);
  const double forward = run_timed(times, [&] {
    launch<WindowGain<B, C, D, stages>, B, 1>(
        {in<B>(x), row_in<B>(beta), row_in<B>(alpha), row_out<B>(weight), row_out<B>(gamma), row_out<B>(den),
         row_out<B>(sizes), eps, windows, len},
        of_chunks);
    launch<WindowUpdates<B, C, D, DV, stages>, B, 1>({in<B>(x), in<B>(v), row_in<B>(weight), row_in<B>(gamma, false),
                                                      out<B>(updates), row_out<B>(totals), windows, len, blocks},
                                                     by_chunk);
    launch<StatePass<B, C, D, DV, stages, true, false>, B, 1>(
        {in<B>(initial_state), in<B>(updates), row_in<B>(totals), out<B>(states), out<B>(final_state), len}, of_values);
    launch<WindowOutputs<B, C, D, DV, stages>, B, 1>(
        {in<B>(q), in<B>(x), in<B>(v), in<B>(states), row_in<B>(weight), row_in<B>(gamma, false), out<B>(o), windows,
         len, group, shared, blocks},
        by_chunk);
  });
  if (times != nullptr) times->forward = forward;
  const auto state_shape = array_shape(shape, heads, K, V);
  Answer answer{{{"o", download(o, array_shape(shape, heads, len, V))},
                 {"final_state", download(final_state, state_shape)},
                 {"final_tail_k", pairs.slice(shape, pair_x, pairs.count - newest, pairs.count)},
                 {"final_tail_v", pairs.slice(shape, pair_v, pairs.count - newest, pairs.count)}},
                {}};
  if (problem.cotangents.empty()) return answer;

  const auto o_cotangent = upload<P, "dO">(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = upload<P, "S0">(problem.cotangents, "final_state", heads, K, V);
  const auto tail_x = array_of<P, "part">(pairs.among_zeros(shape, problem, "final_tail_k", newest, K));
  const auto tail_v = array_of<P, "part">(pairs.among_zeros(shape, problem, "final_tail_v", newest, V));
  const auto ones = for_all_tokens<P, "scale">(shape, 1);
  auto adjoints = result<P, "Sc">(heads, chunks * D, V), dinitial_state = result<P, "end">(heads, K, V);
  auto dq_parts = result<P, "part">(heads * blocks, len, K), dq = result<P, "out">(shared, len, K);
  auto dx_parts = result<P, "part">(heads * blocks, pairs.count, K), dx = result<P, "out">(shared, pairs.count, K);
  auto dx_of_heads = result<P, "out">(heads, tail > 0 ? pairs.count : 0, K);
  auto dv = result<P, "out">(heads, pairs.count, V);
  const auto of_rows = [&](int parts) { return result<P, "dweight">(parts, len, 1); };
  auto dweight_parts = of_rows(heads * blocks), dlog_parts = of_rows(heads * blocks);
  auto dweight = of_rows(heads), dlog_gamma = of_rows(heads), dbeta = of_rows(heads), dalpha = of_rows(heads);
  auto slope = of_rows(heads);
  const int pair_tiles = imax(1, ceil_div(pairs.count, C));
  const double backward = run_timed(times, [&] {
    launch<ChunkUpdates<B, C, D, DV, true, true>, B, 1>(
        {in<B>(q), in<B>(o_cotangent), row_in<B>(gamma, false), row_in<B>(ones), out<B>(updates), row_out<B>(totals),
         len, group, shared, blocks},
        by_chunk);
    launch<StatePass<B, C, D, DV, stages, true, true>, B, 1>(
        {in<B>(final_cotangent), in<B>(updates), row_in<B>(totals), out<B>(adjoints), out<B>(dinitial_state), len},
        of_values);
    launch<WindowRowGradients<B, C, D, DV, stages>, B, 1>(
        {in<B>(q), in<B>(x), in<B>(v), in<B>(states), in<B>(adjoints), in<B>(o_cotangent), row_in<B>(weight),
         row_in<B>(gamma, false), out<B>(dq_parts), row_out<B>(dweight_parts), row_out<B>(dlog_parts), windows, len,
         group, blocks},
        by_chunk);
    sum_parts<P, "dweight", "dweight">(dweight_parts, dweight);
    sum_parts<P, "dlog_decay", "dlog_decay">(dlog_parts, dlog_gamma);
    launch<WindowGainBackward<B, C>, B, 1>(
        {row_in<B>(beta), row_in<B>(gamma), row_in<B>(den), row_in<B>(sizes), row_in<B>(dweight), row_in<B>(dlog_gamma),
         row_out<B>(dbeta), row_out<B>(dalpha), row_out<B>(slope)},
        of_chunks);
    launch<WindowPairGradients<B, C, D, DV, stages>, B, 1>(
        {in<B>(q), in<B>(x), in<B>(v), in<B>(adjoints), in<B>(o_cotangent), in<B>(tail_x), in<B>(tail_v),
         row_in<B>(weight), row_in<B>(gamma, false), row_in<B>(slope), out<B>(dx_parts), out<B>(dv), windows, len,
         group, blocks},
        BlockGrid{heads, pair_tiles * blocks});
    sum_parts<P, "part", "out">(dq_parts, dq);
    sum_parts<P, "part", "out">(dx_parts, dx);
    sum_parts<P, "part", "out">(dx_parts, dx_of_heads);
  });
  if (times != nullptr) times->backward = backward;
  const auto of_pairs = host_array_of(shape, dv);
  answer.gradients = {{"q", download(dq, array_shape(shape, shared, len, K))},
                      {"k", pairs.tokens(features, host_array_of(shape, dx)).array()},
                      {"v", pairs.tokens(values, of_pairs).array()},
                      {"beta", download(dbeta, token_shape(shape))},
                      {"alpha", download(dalpha, token_shape(shape))},
                      {"initial_state", download(dinitial_state, state_shape)}};
  keys.of_keys(problem, features, answer.gradients);
  if (problem.inputs.contains("tail_k")) {
    answer.gradients["tail_k"] = pairs.slice(shape, host_array_of(shape, dx_of_heads), 0, tail);
    answer.gradients["tail_v"] = pairs.slice(shape, of_pairs, 0, tail);
  }
  return answer;
}

Answer run_masked(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim,
                       [&]<Format F, int D>() { return masked<F, D>(shape, problem, times); });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_masked}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom falcon3a = {"falcon3a", tile::forms};
}
