#include "kernels/deltanet.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/core/recurrence.hpp"

namespace assay::tile {
namespace {

constexpr int stages = 2;

template <class T, int C, int D, bool Doubling>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, const Policy& policy) {
  using B = HostBlock<T>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, D);
  const HeadBlocks coordinate{blocks};
  bool next_latent = false;
  OptionReader read(problem.params);
  read("alignment", next_latent, {{"same_step", false}, {"next_latent", true}});
  const bool with_gradients = !problem.cotangents.empty();

  const auto q = shape.input<T>(problem.inputs, "q", shared, len, K);
  auto k = shape.input<T>(problem.inputs, "k", shared, len, K), x = k;
  auto carry =
      shape.vector_input<T>(problem.inputs, "k_carry", shared, K);  // zero at the start of a sequence: no write
  if (next_latent) each_shifted(x, k, carry, [](T& feature, const T& key) { feature = key; });
  const auto v = shape.input<T>(problem.inputs, "v", heads, len, V);
  const auto beta = shape.vector_input<T>(problem.inputs, "beta", heads, len);
  const auto initial_state = shape.input<T>(problem.inputs, "initial_state", heads, K, V);
  const T scale = shape.scale<T>(problem, policy);
  auto o = shape.output<T>(heads, len, V), final_state = shape.output<T>(heads, K, V);
  constexpr bool with_outputs = D == max_head_dim;  // either way has the same bits
  auto states = shape.output<T>(heads, with_gradients || !with_outputs ? chunks * D : 0, V);
  auto u = shape.output<T>(heads, with_outputs ? 0 : len, V);
  auto inverse = shape.output<T>(heads, chunks * C, C);
  host_launch<DeltaNetSystem<B, C, D, Doubling>, T>(launch_policy(policy, 0),
                                                    {x.in(), beta.row_in(), inverse.out(), shape.group, shared},
                                                    heads * chunks, HeadBlocks{chunks});
  host_launch<DeltaNetForward<B, C, D, D, stages, with_outputs>, T>(
      launch_policy(policy, 1),
      {q.in(), x.in(), v.in(), inverse.in(), beta.row_in(), initial_state.in(), o.out(), u.out(), final_state.out(),
       states.out(), scale, len, shape.group, shared},
      heads * blocks, coordinate);
  if constexpr (!with_outputs)
    host_launch<DeltaNetOutputs<B, C, D, D>, T>(
        launch_policy(policy, 2), {q.in(), x.in(), u.in(), states.in(), o.out(), scale, shape.group, shared, blocks},
        heads * chunks * blocks, HeadBlocks{chunks * blocks});
  Answer answer{{{"o", o.array()}, {"final_state", final_state.array()}}, {}};
  if (!with_gradients) return answer;

  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = shape.input<T>(problem.cotangents, "final_state", heads, K, V);
  auto dq = shape.output<T>(heads * blocks, len, K), dx = dq;
  auto dbeta = shape.output<T>(heads * blocks, len, 1);
  auto dv = shape.output<T>(heads, len, V), initial_gradient = shape.output<T>(heads, K, V);
  host_launch<DeltaNetBackward<B, C, D, D, stages>, T>(
      launch_policy(policy, 3),
      {q.in(), x.in(), v.in(), inverse.in(), beta.row_in(), states.in(), o_cotangent.in(), final_cotangent.in(),
       dq.out(), dx.out(), dv.out(), initial_gradient.out(), dbeta.row_out(), scale, len, shape.group, blocks},
      heads * blocks, coordinate);
  const Policy sums = launch_policy(policy, 4);
  HostArray<T> dk = sum_parts(sums, "part", "out", dx, blocks, k);
  if (next_latent) {
    HostArray<T> summed = dk;
    std::fill(dk.data.begin(), dk.data.end(), T{0});
    each_shifted(summed, dk, carry, [](const T& feature, T& key) { key = feature; });
  }
  answer.gradients = {{"q", sum_parts(sums, "part", "out", dq, blocks, q).array()},
                      {"k", dk.array()},
                      {"v", dv.array()},
                      {"beta", sum_parts(sums, "dbeta", "dbeta", dbeta, blocks, beta).array()},
                      {"initial_state", initial_gradient.array()}};
  if (problem.inputs.contains("k_carry")) answer.gradients.emplace("k_carry", carry.array());
  return answer;
}

template <bool Doubling>
Answer run(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, int C, int D>() {
    return chunkwise<T, C, D, Doubling>(shape, problem, with_narrow_sites(policy));
  });
}

constexpr Mutant mutants[] = {
    {"beta_of_column", "the triangular system scaled by the beta of the column instead of the row", "catalogue"},
    {"scores_exclude_self", "j < i instead of j <= i in Q X^T", "catalogue"},
    {"initial_state_ignored", "the first chunk starts from zero", "FLA naive delta_rule chunk"},
    {"state_not_carried", "every chunk starts from the initial state", "MDN common-mode reference"},
    {"tail_dropped", "the last, ragged chunk is never run", "aotriton#237"},
    {"scale_forgotten", "o not scaled", "TE#2300 class"},
    {"head_modulo", "value head h reads query and key head h mod H instead of h div group", "fla#1029"},
    {"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    {"inverse_in_bf16", "the triangular inverse substitutes in bf16", "megagdn-pto#74, aiter#4952"},
    {"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 11 line 1"},
    {"adjoint_not_carried", "backward: every chunk starts from the final state's cotangent", "fla class"},
    {"dbeta_of_value", "dbeta takes v instead of v minus what the state reads", "fla#1142 class"},
    {"dk_without_read", "dk without the term of the read X S", "fla#1140 class"},
    {"dq_unscaled", "dq's term of the state without the scale", "GQA"},
    {"solve_gradient_sign", "the gradient of the triangular system added with the wrong sign", "FALCON Alg 8 line 5"},
    {"one_head_of_group", "dq and dk of the first value head of the group only", "GQA"},
};

/// Of its own program: those that it shares answer as the other form's.
constexpr Mutant neumann_mutants[] = {
    {"sum_of_powers", "a factor adds I + A where I - A is due: the inverse of I - A", "catalogue"},
    {"last_power_dropped", "the product ends a factor early: paths of half a chunk's writes and more are lost",
     "catalogue"},
};

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "WY form: one triangular system per chunk of tokens, the state carried from chunk to chunk",
     .sites = deltanet_sites,
     .tiles = chunk_tiles,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run<false>},
    {.name = "neumann",
     .summary = "the same with the inverse by doubling: powers of the chunk's system, squared again and again",
     .sites = deltanet_neumann_sites,
     .tiles = chunk_tiles,
     .mutants = neumann_mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run<true>,
     .unstable = "powers of the system are as large as binomials of the chunk where its inverse is not: keys that are "
                 "alike overflow fp16 and cancel in all formats; megagdn-pto#74"},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom deltanet = {"deltanet", forms};
}

}  // namespace assay::tile
