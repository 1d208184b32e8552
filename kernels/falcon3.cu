// FALCON-3 on the device: launches and instances, and how tokens and pairs come into the rows of tiles and back.
#include "kernels/cuda/falcon_rows.cuh"
#include "kernels/falcon3.hpp"
#include "kernels/launches/window_launch.hpp"
#include "kernels/programs/tensor_inverse.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct BatchPolicy : StaticPolicy<falcon3_sites, F> {};
template <Format F>
struct TensorPolicy : StaticPolicy<tensor_inverse_sites, F> {};

/// Rows of a tile and the value columns of a block that fit in shared memory; `tile` is the CPU's with the same rows.
struct BatchTile {
  int tile, rows, values;
};
template <Format F, int D>
constexpr BatchTile batch_tile() {
  if (F == Format::fp64) return {1, 16, 16};
  if (F == Format::tf32) return {0, 32, 32};
  return {0, 32, D == 64 ? 64 : 32};
}
int tile_of(const Problem& problem, Format precision) {
  return with_instance(precision, RecurrenceShape(problem).key_dim,
                       [&]<Format F, int D>() { return batch_tile<F, D>().tile; });
}

// ---- rows

/// Row r of every head of `to` from row map(r) of `from`, or full of `missing` where that is none; heads lie
/// `from_rows` and `head_rows` rows apart.
template <class E, class Map>
__global__ void gather_kernel(const E* from, E* to, Map map, int from_rows, int to_rows, int head_rows, int cols,
                              float missing, std::size_t count) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::size_t c = i % cols, r = i / cols, head = r / to_rows;
  const int row = map(static_cast<int>(r % to_rows));
  to[(head * head_rows + r % to_rows) * cols + c] = row < 0 ? E(missing) : from[(head * from_rows + row) * cols + c];
}
template <class P, FixedString S, class Map>
void gather(const DeviceArray& from, DeviceArray& to, Map map, float missing = 0) {
  using E = Element<format_of<P, S>>;
  constexpr int threads = 256;
  if (to.count() == 0) return;
  gather_kernel<<<static_cast<unsigned>((to.count() + threads - 1) / threads), threads>>>(
      static_cast<const E*>(from.data()), static_cast<E*>(to.data()), map, from.head_rows(), to.rows(), to.head_rows(),
      to.cols(), missing, to.count());
  cuda_check(cudaGetLastError());
}

/// Row x of every head of `total` from row x of `start`, or zeros, and the rows of `from` that it is a sum of, each sum
/// rounded at `part`, the total at `out`; heads lie `from_rows`, `start_rows` and `head_rows` rows apart.
template <Format Part, Format Total, class Terms>
__global__ void sum_rows_kernel(const Element<Part>* from, const Element<Part>* start, Element<Total>* total,
                                Terms terms, int from_rows, int start_rows, int total_rows, int head_rows, int cols,
                                std::size_t count) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::size_t c = i % cols, r = i / cols, head = r / total_rows;
  const int x = static_cast<int>(r % total_rows), n = terms.count(x);
  Element<Part> sum = start == nullptr ? Element<Part>(0) : start[(head * start_rows + x) * cols + c];
  for (int k = 0; k < n; ++k) sum += from[(head * from_rows + terms.row(x, k)) * cols + c];
  total[(head * head_rows + x) * cols + c] = Element<Total>(round_as<Total>(sum));
}
template <class P, FixedString Part, FixedString Total, class Terms>
void sum_rows(const DeviceArray& from, DeviceArray& total, Terms terms, const DeviceArray* start = nullptr) {
  constexpr int threads = 256;
  constexpr Format part = format_of<P, Part>, out = format_of<P, Total>;
  if (total.count() == 0) return;
  sum_rows_kernel<part, out><<<static_cast<unsigned>((total.count() + threads - 1) / threads), threads>>>(
      static_cast<const Element<part>*>(from.data()),
      start == nullptr ? nullptr : static_cast<const Element<part>*>(start->data()),
      static_cast<Element<out>*>(total.data()), terms, from.head_rows(), start == nullptr ? 0 : start->head_rows(),
      total.rows(), total.head_rows(), total.cols(), total.count());
  cuda_check(cudaGetLastError());
}

// ---- the passes

/// By ratios of decays, or by the published form.
template <Format F, int D, bool Renormalized>
Answer batch_rule(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = std::conditional_t<Renormalized, TensorPolicy<F>, BatchPolicy<F>>;
  constexpr int C = batch_tile<F, D>().rows, DV = batch_tile<F, D>().values, stages = 2;
  using B = MmaBlock<P, C / 16>;
  constexpr int narrow = 16;  // value columns of a block that goes through all tiles
  const bool with_gradients = !problem.cotangents.empty();
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, DV), parts = heads * blocks;
  const BlockGrid by_chunk{heads, chunks}, by_block{heads, blocks}, by_narrow_block{heads, ceil_div(V, narrow)};
  const DeviceFalconRows<P> gates(shape, problem);
  const int tail = rows_of(shape, problem, "tail_k"), first = gates.first(), window = window_of(problem);
  const PairRows<double> pairs{tail, first, tail + imax(0, len - first)};
  const int newest = window > 0 ? imin(pairs.count, window - 1) : pairs.count;
  const Windows windows{tail, first, window};
  const auto rows = BatchRows::of(windows, len, longest_window(window, pairs.count), C);
  const auto input = [&](const char* name, int h, int n, int cols) {
    return shape.input<double>(problem.inputs, name, h, n, cols);
  };
  auto features = shape.output<double>(shared, len, K);
  features.data = gates.features(problem);
  const auto values = input("v", heads, len, V),
             pair_x = pairs.gather(shape, input("tail_k", heads, tail, K), features),
             pair_v = pairs.gather(shape, input("tail_v", heads, tail, V), values);
  const auto x = array_of<P, "K">(pair_x), v = array_of<P, "V">(pair_v);
  const auto q = upload<P, "Q">(problem.inputs, "q", shared, len, K);
  const auto beta = upload<P, "beta">(problem.inputs, "beta", heads, len, 1);
  const auto initial_state = upload<P, "S0">(problem.inputs, "initial_state", heads, K, V);
  auto weight = result<P, "weight">(heads, len, 1), gamma = result<P, "gamma">(heads, len, 1);
  auto energy = result<P, "energy">(heads, len, 1), sizes = result<P, "energy">(heads, len, 1);
  auto tile_q = result<P, "Q">(shared, rows.count(), K), tile_x = result<P, "K">(heads, rows.count(), K);
  auto tile_v = result<P, "V">(heads, rows.count(), V), tile_o = result<P, "part">(heads, rows.count(), V);
  auto tile_weight = result<P, "weight">(heads, rows.count(), 1),
       tile_gamma = result<P, "gamma">(heads, rows.count(), 1),
       tile_decays = result<P, "gamma">(heads, Renormalized ? rows.count() : 0, 1);
  auto o = result<P, "out">(heads, len, V), final_state = result<P, "final">(heads, K, V);
  const int states_of = Renormalized && !with_gradients ? 0 : rows.groups() * D, phases = Renormalized ? 0 : 1;
  auto states = result<P, "Sc">(heads, states_of, V), inverse = result<P, "Tc">(heads, phases * rows.count(), C);
  const auto of_rows = [&] { return result<P, "decay">(heads, phases * rows.count(), 1); };
  auto to_row = of_rows(), to_error = of_rows(), to_end = of_rows();
  auto totals = result<P, "decay">(heads, phases * rows.tiles() * D, 1);
  auto tile_z = result<P, "part">(heads, phases * rows.count(), V);
  const BatchInputs<B> inputs{
      in<B>(tile_q), in<B>(tile_x), in<B>(tile_v), row_in<B>(tile_weight), row_in<B>(tile_gamma, false),
      rows,          shape.group,   shared};
  const BatchSystems<B> systems{in<B>(inverse), row_in<B>(to_row), row_in<B>(to_error), row_in<B>(to_end),
                                row_in<B>(totals)};
  const BlockGrid by_tile{heads, rows.tiles()}, by_tile_block{heads, rows.tiles() * blocks};
  const double forward = run_timed(times, [&] {
    launch<BatchGain<B, C, D, stages>, B, 1>(
        {in<B>(x), row_in<B>(beta), row_in<B>(gates.lambda), row_in<B>(gates.active), row_out<B>(weight),
         row_out<B>(gamma), row_out<B>(energy), row_out<B>(sizes), gates.eps, gates.floor, gates.options.coupling,
         windows, len},
        by_chunk);
    gather<P, "Q">(q, tile_q, ReaderOfRow{rows});
    gather<P, "K">(x, tile_x, PairOfRow{rows});
    gather<P, "V">(v, tile_v, PairOfRow{rows});
    gather<P, "weight">(weight, tile_weight, WriterOfRow{rows});
    gather<P, "gamma">(gamma, tile_gamma, DecayOfRow{rows}, 1);
    gather<P, "gamma">(gamma, tile_decays, WriterOfRow{rows});
    if constexpr (Renormalized) {
      launch<TensorForward<B, C, D, DV, stages>, B, 1>(
          {{inputs, row_in<B>(tile_decays)}, in<B>(initial_state), out<B>(tile_o), out<B>(final_state), out<B>(states)},
          by_block);
    } else {
      launch<BatchSystem<B, C, D>, B, 1>(
          {inputs, out<B>(inverse), row_out<B>(to_row), row_out<B>(to_error), row_out<B>(to_end), row_out<B>(totals)},
          by_tile);
      launch<BatchStates<B, C, D, narrow, stages>, B, 1>(
          {inputs, systems, in<B>(initial_state), out<B>(tile_z), out<B>(states), out<B>(final_state)},
          by_narrow_block);
      launch<BatchOutputs<B, C, D, DV>, B, 1>({inputs, systems, in<B>(tile_z), in<B>(states), out<B>(tile_o), blocks},
                                              by_tile_block);
    }
    sum_rows<P, "part", "out">(tile_o, o, RowsOfReader{rows});
  });
  if (times != nullptr) times->forward = forward;
  const auto state_shape = array_shape(shape, heads, K, V);
  Answer answer{{{"o", download(o, array_shape(shape, heads, len, V))},
                 {"final_state", download(final_state, state_shape)},
                 {"final_tail_k", pairs.slice(shape, pair_x, pairs.count - newest, pairs.count)},
                 {"final_tail_v", pairs.slice(shape, pair_v, pairs.count - newest, pairs.count)}},
                {}};
  if (!with_gradients) return answer;

  require_open(gamma);
  const auto o_cotangent = upload<P, "dO">(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = upload<P, "dfinal">(problem.cotangents, "final_state", heads, K, V);
  const auto tail_x = array_of<P, "part">(pairs.among_zeros(shape, problem, "final_tail_k", newest, K));
  const auto tail_v = array_of<P, "part">(pairs.among_zeros(shape, problem, "final_tail_v", newest, V));
  const auto of_tiles = [&](int h, int cols) { return result<P, "part">(h, rows.count(), cols); };
  const auto of_tokens = [&](int h) { return result<P, "dweight">(h, len, 1); };
  const auto of_pairs = [&](int h) { return result<P, "part">(h, pairs.count, K); };
  auto tile_do = result<P, "dO">(heads, rows.count(), V);
  auto tile_dq = of_tiles(parts, K), tile_dx = of_tiles(parts, K), tile_dv = of_tiles(heads, V);
  auto tile_dweight = result<P, "dweight">(parts, rows.count(), 1);
  auto tile_dlog = result<P, "dlog_decay">(parts, rows.count(), 1);
  auto tile_dstep = result<P, "dlog_decay">(parts, Renormalized ? rows.count() : 0, 1);
  auto reads = result<P, "part">(heads, phases * rows.count(), V), dy = result<P, "part">(heads, reads.rows(), V);
  auto adjoints = result<P, "Gc">(heads, phases * rows.groups() * D, V);
  auto dweight_parts = of_tokens(parts), dlog_parts = of_tokens(parts), dweight = of_tokens(heads);
  auto dlog_gamma = of_tokens(heads), dbeta = of_tokens(heads), dlambda = of_tokens(heads), slope = of_tokens(heads);
  auto dq_parts = result<P, "part">(parts, len, K), dq = result<P, "out">(shared, len, K);
  auto dx_parts = of_pairs(parts), dx_of_rows = of_pairs(heads), dx_of_heads = of_pairs(heads);
  auto dx = result<P, "out">(shared, pairs.count, K), dx_of_tail = result<P, "out">(heads, pairs.count, K);
  auto dv = result<P, "out">(heads, pairs.count, V), dinitial_state = result<P, "initial">(heads, K, V);
  const double backward = run_timed(times, [&] {
    gather<P, "dO">(o_cotangent, tile_do, ReaderOfRow{rows});
    if constexpr (Renormalized) {
      launch<TensorBackward<B, C, D, DV, stages>, B, 1>({{inputs, row_in<B>(tile_decays)},
                                                         in<B>(states),
                                                         in<B>(tile_do),
                                                         in<B>(final_cotangent),
                                                         out<B>(tile_dq),
                                                         out<B>(tile_dx),
                                                         out<B>(tile_dv),
                                                         out<B>(dinitial_state),
                                                         row_out<B>(tile_dweight),
                                                         row_out<B>(tile_dlog),
                                                         row_out<B>(tile_dstep),
                                                         blocks},
                                                        by_block);
    } else {
      launch<BatchReads<B, C, D, DV>, B, 1>({inputs, in<B>(tile_do), out<B>(reads), blocks}, by_tile_block);
      launch<BatchAdjoints<B, C, D, narrow, stages>, B, 1>(
          {inputs, systems, in<B>(tile_do), in<B>(final_cotangent), in<B>(reads), out<B>(dy), out<B>(tile_dv),
           out<B>(adjoints), out<B>(dinitial_state)},
          by_narrow_block);
      launch<BatchGradients<B, C, D, DV>, B, 1>(
          {inputs, systems, in<B>(tile_z), in<B>(states), in<B>(dy), in<B>(tile_dv), in<B>(adjoints), in<B>(tile_do),
           out<B>(tile_dq), out<B>(tile_dx), row_out<B>(tile_dweight), row_out<B>(tile_dlog), blocks},
          by_tile_block);
    }
    sum_rows<P, "dweight", "part">(tile_dweight, dweight_parts, RowsOfWriter{rows});
    gather<P, "dlog_decay">(tile_dlog, dlog_parts, FirstRowOfToken{rows});
    if constexpr (Renormalized)
      sum_rows<P, "dlog_decay", "dlog_decay">(tile_dstep, dlog_parts, RowsOfWriter{rows}, &dlog_parts);
    sum_rows<P, "part", "part">(tile_dq, dq_parts, RowsOfReader{rows});
    sum_rows<P, "part", "part">(tile_dx, dx_parts, RowsOfPair{rows});
    sum_rows<P, "part", "out">(tile_dv, dv, RowsOfPair{rows}, &tail_v);
    sum_parts<P, "dweight", "dweight">(dweight_parts, dweight);
    sum_parts<P, "dlog_decay", "dlog_decay">(dlog_parts, dlog_gamma);
    sum_parts<P, "part", "out">(dq_parts, dq);
    sum_parts<P, "part", "part">(dx_parts, dx_of_rows);
    launch<BatchGainBackward<B, C, D>, B, 1>(
        {row_in<B>(beta), row_in<B>(gates.lambda), row_in<B>(gates.active), row_in<B>(energy), row_in<B>(sizes),
         row_in<B>(dweight), row_in<B>(dlog_gamma), row_out<B>(dbeta), row_out<B>(dlambda), row_out<B>(slope),
         gates.eps, gates.floor, gates.options.coupling},
        by_chunk);
    launch<BatchEnergyGradient<B, C, D>, B, 1>(
        {in<B>(x), in<B>(dx_of_rows), in<B>(tail_x), row_in<B>(slope), out<B>(dx_of_heads), windows, len},
        BlockGrid{heads, imax(1, ceil_div(pairs.count, C))});
    sum_parts<P, "part", "out">(dx_of_heads, dx);
    sum_parts<P, "part", "out">(dx_of_heads, dx_of_tail);
  });
  if (times != nullptr) times->backward = backward;
  const auto dv_of_pairs = host_array_of(shape, dv);
  answer.gradients = {{"q", download(dq, array_shape(shape, shared, len, K))},
                      {"v", pairs.tokens(values, dv_of_pairs).array()},
                      {"beta", download(dbeta, token_shape(shape))},
                      {"lambda", download(dlambda, token_shape(shape))},
                      {"initial_state", download(dinitial_state, state_shape)}};
  gates.of_keys(problem, pairs.tokens(features, host_array_of(shape, dx)).data, answer.gradients);
  if (problem.inputs.contains("tail_k")) {
    answer.gradients["tail_k"] = pairs.slice(shape, host_array_of(shape, dx_of_tail), 0, tail);
    answer.gradients["tail_v"] = pairs.slice(shape, dv_of_pairs, 0, tail);
  }
  return answer;
}

/// The compiled dimensions, and what windows take side by side.
std::string batch_obstacle(const Problem& problem, Format precision) {
  constexpr long most = 1L << 26;
  const RecurrenceShape shape(problem);
  if (std::string obstacle = recurrence_obstacle(problem, precision); !obstacle.empty()) return obstacle;
  const int pairs = rows_of(shape, problem, "tail_k") + shape.len;
  const long numbers =
      rows_side_by_side(shape.len, pairs, window_of(problem)) * shape.heads * imax(shape.key_dim, shape.value_dim);
  return numbers <= most ? ""
                         : text("the windows of all tokens are laid side by side, of which ", most,
                                " numbers fit on the device: these have ", numbers);
}

std::string tensor_obstacle(const Problem& problem, Format precision) {
  if (std::string obstacle = batch_obstacle(problem, precision); !obstacle.empty()) return obstacle;
  const int pairs = rows_of(RecurrenceShape(problem), problem, "tail_k") + RecurrenceShape(problem).len;
  return renormalization_obstacle(problem.params.contains("decay_floor"), longest_window(window_of(problem), pairs));
}

template <bool Renormalized>
Answer run(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim,
                       [&]<Format F, int D>() { return batch_rule<F, D, Renormalized>(shape, problem, times); });
}

constexpr GpuForm forms[] = {{"chunkwise", batch_obstacle, tile_of, run<false>},
                             {"tensor_inverse", tensor_obstacle, tile_of, run<true>}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom falcon3 = {"falcon3", tile::forms};
}
