// DeltaNet on the device: launches and instances.
#include "kernels/cuda/recurrence.cuh"
#include "kernels/deltanet.hpp"

namespace assay::tile {
namespace {

constexpr int stages = 2;

template <Format F>
struct ChunkPolicy : StaticPolicy<deltanet_sites, F> {};
template <Format F>
struct NeumannPolicy : StaticPolicy<deltanet_neumann_sites, F> {};

/// A chunk and the value columns of a block: in the forward pass, which takes short steps if it leaves the outputs of
/// all chunks to blocks of their own, in those (0: outputs on its way, where they alone fill the device), and in the
/// backward pass. `tile` is the CPU's with the same chunk. Value columns do not touch each other in the outputs. In the
/// gradients of what they share, each block rounds its own part, so bits agree with the CPU's only where one block
/// holds all values.
struct Chunk {
  int tile, length, forward_values, output_values, backward_values;
};
template <Format F, int D>
constexpr Chunk chunk_of() {
  if (F == Format::fp64) return {1, 32, 16, 16, 16};
  if (F == Format::tf32) return {1, 32, 16, 64, 64};
  return D == 64 ? Chunk{0, 64, 16, 64, 64} : Chunk{0, 64, 64, 0, 32};
}

/// With the inverse by doubling all but the systems are the same kernels.
template <Format F, int D, bool Doubling>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = ChunkPolicy<F>;
  constexpr Chunk shapes = chunk_of<F, D>();
  constexpr int C = shapes.length;
  using B = MmaBlock<P, C / 16>;
  using S = MmaBlock<std::conditional_t<Doubling, NeumannPolicy<F>, P>, C / 16>;  // of the systems
  constexpr bool with_outputs = shapes.output_values == 0;
  using Forward = DeltaNetForward<B, C, D, shapes.forward_values, with_outputs ? stages : 3, with_outputs>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C));
  const std::size_t row = K, head_size = row * len;
  bool next_latent = false;
  OptionReader read(problem.params);
  read("alignment", next_latent, {{"same_step", false}, {"next_latent", true}});
  const bool with_gradients = !problem.cotangents.empty();

  const auto q = upload<P, "Q">(problem.inputs, "q", shared, len, K);
  const auto x = next_latent
                     ? DeviceArray(format_of<P, "X">, shared, len, K, next_latent_features(problem, head_size, row))
                     : upload<P, "X">(problem.inputs, "k", shared, len, K);
  const auto v = upload<P, "V">(problem.inputs, "v", heads, len, V);
  const auto beta = upload<P, "beta">(problem.inputs, "beta", heads, len, 1);
  const auto initial_state = upload<P, "S0">(problem.inputs, "initial_state", heads, K, V);
  const auto scale = real<P>(shape.scale<double>(problem, Policy::of(deltanet_sites, F)));
  auto o = result<P, "out">(heads, len, V), final_state = result<P, "final">(heads, K, V);
  auto states = result<P, "H">(heads, with_gradients || !with_outputs ? chunks * D : 0, V);
  auto u = result<P, "Uc">(heads, with_outputs ? 0 : len, V);
  auto inverse = result<P, "Tc">(heads, chunks * C, C);
  const double forward = run_timed(times, [&] {
    launch<DeltaNetSystem<S, C, D, Doubling>, S, 1>({in<S>(x), row_in<S>(beta), out<S>(inverse), shape.group, shared},
                                                    BlockGrid{heads, chunks});
    launch<Forward, B, 1>({in<B>(q), in<B>(x), in<B>(v), in<B>(inverse), row_in<B>(beta), in<B>(initial_state),
                           out<B>(o), out<B>(u), out<B>(final_state), out<B>(states), scale, len, shape.group, shared},
                          BlockGrid{heads, ceil_div(V, shapes.forward_values)});
    if constexpr (!with_outputs) {
      const int blocks = ceil_div(V, shapes.output_values);
      launch<DeltaNetOutputs<B, C, D, shapes.output_values>, B, 1>(
          {in<B>(q), in<B>(x), in<B>(u), in<B>(states), out<B>(o), scale, shape.group, shared, blocks},
          BlockGrid{heads, chunks * blocks});
    }
  });
  if (times != nullptr) times->forward = forward;
  Answer answer{{{"o", download(o, array_shape(shape, heads, len, V))},
                 {"final_state", download(final_state, array_shape(shape, heads, K, V))}},
                {}};
  if (!with_gradients) return answer;

  using Backward = DeltaNetBackward<B, C, D, shapes.backward_values, stages>;
  const int blocks = ceil_div(V, shapes.backward_values);
  const auto o_cotangent = upload<P, "dO">(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = upload<P, "dfinal">(problem.cotangents, "final_state", heads, K, V);
  auto dq_parts = result<P, "part">(heads * blocks, len, K), dx_parts = result<P, "part">(heads * blocks, len, K);
  auto dbeta_parts = result<P, "dbeta">(heads * blocks, len, 1), dbeta = result<P, "dbeta">(heads, len, 1);
  auto dq = result<P, "out">(shared, len, K), dx = result<P, "out">(shared, len, K);
  auto dv = result<P, "out">(heads, len, V), initial_gradient = result<P, "initial">(heads, K, V);
  const double backward = run_timed(times, [&] {
    launch<Backward, B, 1>({in<B>(q), in<B>(x), in<B>(v), in<B>(inverse), row_in<B>(beta), in<B>(states),
                            in<B>(o_cotangent), in<B>(final_cotangent), out<B>(dq_parts), out<B>(dx_parts), out<B>(dv),
                            out<B>(initial_gradient), row_out<B>(dbeta_parts), scale, len, shape.group, blocks},
                           BlockGrid{heads, blocks});
    sum_parts<P, "part", "out">(dq_parts, dq);
    sum_parts<P, "part", "out">(dx_parts, dx);
    sum_parts<P, "dbeta", "dbeta">(dbeta_parts, dbeta);
  });
  if (times != nullptr) times->backward = backward;
  const std::vector<double> feature_gradient = dx.values();
  answer.gradients = {
      {"q", download(dq, array_shape(shape, shared, len, K))},
      {"k", Array(array_shape(shape, shared, len, K),
                  next_latent ? next_latent_gradient(feature_gradient, head_size, row, false) : feature_gradient)},
      {"v", download(dv, array_shape(shape, heads, len, V))},
      {"beta", download(dbeta, token_shape(shape))},
      {"initial_state", download(initial_gradient, array_shape(shape, heads, K, V))}};
  if (const auto carry = problem.inputs.find("k_carry"); carry != problem.inputs.end())
    answer.gradients.emplace("k_carry",
                             Array(carry->second.shape, next_latent_gradient(feature_gradient, head_size, row, true)));
  return answer;
}

template <bool Doubling>
Answer run(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim,
                       [&]<Format F, int D>() { return chunkwise<F, D, Doubling>(shape, problem, times); });
}
int chunkwise_tile(const Problem& problem, Format precision) {
  return with_instance(precision, RecurrenceShape(problem).key_dim,
                       [&]<Format F, int D>() { return chunk_of<F, D>().tile; });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, chunkwise_tile, run<false>},
                             {"neumann", recurrence_obstacle, chunkwise_tile, run<true>}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom deltanet = {"deltanet", tile::forms};
}
