#include "kernels/falcon2a.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/launches/falcon_launch.hpp"
#include "kernels/launches/normalized_read_launch.hpp"

namespace assay::tile {
namespace {

bool normalizes(const Problem& problem) {
  bool features = false;
  OptionReader read(problem.params);
  read("normalization", features, {{"none", false}, {"features", true}});
  return features;
}

/// Weights for each token as the first of the columns of a mass, and back.
template <class T>
void put_weights(const HostArray<T>& eta, HostArray<T>& columns) {
  for (std::size_t i = 0; i < eta.data.size(); ++i) columns.data[i * mass_columns] = eta.data[i];
}
template <class T>
HostArray<T> weights_of(const HostArray<T>& columns, HostArray<T> like) {
  for (std::size_t i = 0; i < like.data.size(); ++i) like.data[i] = columns.data[i * mass_columns];
  return like;
}

/// Parts of gradients to which the gains, the last part of each head, add nothing.
template <class T>
void clear_last(const RecurrenceShape& shape, HostArray<T>& parts) {
  const auto of_head = parts.data.size() / static_cast<std::size_t>(shape.heads),
             part = of_head / static_cast<std::size_t>(parts.heads / shape.heads);
  for (auto end = parts.data.begin(); end != parts.data.end();) {
    end += static_cast<std::ptrdiff_t>(of_head);
    std::fill(end - static_cast<std::ptrdiff_t>(part), end, T(0));
  }
}

template <class T>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  using B = HostBlock<T>;
  const int heads = shape.heads, len = shape.len;
  NormalizedSums<T> reads(shape, problem, policy, tile, {.decays = true, .divided = normalizes(problem)},
                          "eps_normalizer");
  FalconRows<T> rows(shape, problem, policy);
  const HostArray<T> x = rows.features(reads.sums.k), v = reads.sums.v;
  const auto beta = shape.vector_input<T>(problem.inputs, "beta", heads, len);
  auto eta = beta, gamma = beta;
  const int chunks = reads.sums.chunks(), blocks = reads.sums.blocks();
  with_size(reads.sums.size, [&]<int C, int D>() {
    host_launch<FalconGain<B, C, D>, T>(
        launch_policy(policy, 11),
        {x.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), eta.row_out(), gamma.row_out(), rows.eps,
         rows.floor, rows.options.coupling, shape.group},
        heads * chunks, HeadBlocks{chunks});
    host_launch<StepValues<B, C, D>, T>(launch_policy(policy, 12), {v.in(), eta.row_in(), reads.sums.v.out(), blocks},
                                        heads * chunks * blocks, reads.sums.by_chunk());
  });
  for (DecayedSums<T>* sums : {&reads.sums, &reads.mass}) {
    sums->k = x, sums->decay = gamma, sums->logs = false;
    std::fill(sums->scale.data.begin(), sums->scale.data.end(), T(1));
  }
  if (reads.divided()) put_weights(eta, reads.mass.v);
  reads.forward();
  Answer answer{reads.outputs(), {}};
  if (problem.cotangents.empty()) return answer;

  require_open(gamma);
  reads.backward(problem, 1);
  for (HostArray<T>* parts : {&reads.sums.parts.dq, &reads.sums.parts.dk, &reads.sums.parts.dlog_decay})
    clear_last(shape, *parts);
  const HostArray<T> dlog_gamma = reads.sums.log_decay_gradient(), du = reads.sums.dv,
                     dweight = reads.divided() ? weights_of(reads.mass.dv, eta) : HostArray<T>(heads, 0, 1, {});
  auto deta = beta, dbeta = beta, dlambda = beta;
  with_size(reads.sums.size, [&]<int C, int D>() {
    host_launch<StepValuesBackward<B, C, D, 2>, T>(
        launch_policy(policy, 13),
        {v.in(), du.in(), eta.row_in(), dweight.row_in(), reads.sums.dv.out(), deta.row_out(), blocks}, heads * chunks,
        HeadBlocks{chunks});
    host_launch<FalconGainBackward<B, C, D>, T>(
        launch_policy(policy, 14),
        {x.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), deta.row_in(), dlog_gamma.row_in(),
         dbeta.row_out(), dlambda.row_out(), reads.sums.parts.dk.out(), rows.eps, rows.floor, rows.options.coupling,
         shape.group, reads.parts() + 1},
        heads * chunks, HeadBlocks{chunks});
  });
  answer.gradients = reads.gradients(problem);
  rows.of_keys(problem, x, answer.gradients);
  answer.gradients["beta"] = dbeta.array();
  answer.gradients["lambda"] = dlambda.array();
  return answer;
}

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  const auto run = [&]<class T>() { return chunkwise<T>(shape, problem, with_narrow_state(policy), tile); };
  return with_scalar(policy, run);
}

constexpr auto mutants =
    joined(joined(joined(sum_mutants, decay_mutants), joined(gain_mutants, coupling_mutants)),
           joined(normalized_read_mutants,
                  std::array{Mutant{"deta_without_weight", "the gain's gradient through the normaliser is dropped",
                                    "catalogue"}}));

constexpr KernelForm forms[] = {
    {"chunkwise", "chunks in parallel: what each adds to the state, one pass over the states, what the queries read",
     falcon2a_sites, chunk_tiles, mutants, true, key_dim_obstacle, run_chunkwise},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom falcon2a = {"falcon2a", forms};
}

}  // namespace assay::tile
