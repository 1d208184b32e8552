#include "kernels/kda.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/launches/channel_sums_launch.hpp"

namespace assay::tile {
namespace {

template <class T>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  using B = HostBlock<T>;
  ChannelSums<T> sums(shape, problem, policy, tile);
  const int heads = shape.heads, len = shape.len, K = shape.key_dim, V = shape.value_dim, chunks = sums.chunks;
  const auto beta = shape.vector_input<T>(problem.inputs, "beta", heads, len);
  auto inverse = shape.output<T>(heads, chunks * sums.size.tokens, sums.size.tokens);
  auto reads = shape.output<T>(heads, len, K), writes = reads, u = shape.output<T>(heads, len, V);
  with_size(sums.size, [&]<int C, int D>() {
    host_launch<ChannelSystem<B, C, D>, T>(sums.launch(0),
                                           {sums.k.in(), sums.log_decay.in(), beta.row_in(), inverse.out(), reads.out(),
                                            writes.out(), sums.totals.row_out(), len, shape.group},
                                           heads * chunks, HeadBlocks{chunks});
    host_launch<DeltaPass<B, C, D, D, 2>, T>(
        sums.launch(1),
        {reads.in(), writes.in(), sums.v.in(), inverse.in(), sums.initial_state.in(), beta.row_in(),
         sums.totals.row_in(), u.out(), sums.states.out(), sums.final_state.out(), len},
        heads * sums.blocks, sums.by_block());
  });
  sums.read(u);
  Answer answer{sums.outputs(), {}};
  if (problem.cotangents.empty()) return answer;

  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", heads, len, V);
  const auto end = shape.input<T>(problem.cotangents, "final_state", heads, K, V);
  auto errors = shape.output<T>(heads, len, V);
  sums.read_backward(o_cotangent);
  with_size(sums.size, [&]<int C, int D>() {
    host_launch<DeltaAdjointPass<B, C, D, D, 2>, T>(
        sums.launch(4),
        {reads.in(), writes.in(), sums.du.in(), sums.updates.in(), inverse.in(), end.in(), beta.row_in(),
         sums.totals.row_in(), errors.out(), sums.adjoints.out(), sums.dinitial_state.out(), len},
        heads * sums.blocks, sums.by_block());
  });
  const WrittenErrors<T> written{u, errors, beta};
  sums.differentiate(o_cotangent, &written);
  answer.gradients = sums.gradients();
  answer.gradients["beta"] = sum_parts(sums.launch(7), "dbeta", "dbeta", sums.dbeta, sums.blocks, beta).array();
  return answer;
}

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  const auto run = [&]<class T>() { return chunkwise<T>(shape, problem, with_narrow_sites(policy), tile); };
  return with_scalar(policy, run);
}

constexpr auto mutants = joined(
    channel_mutants,
    std::array{
        Mutant{"beta_of_column", "the triangular system scaled by the beta of the column instead of the row",
               "catalogue"},
        Mutant{"decay_index_of_errors", "the error of token i misses the decay of its own token", "fla class"},
        Mutant{"inverse_in_bf16", "the triangular inverse substitutes in bf16", "megagdn-pto#74, aiter#4952"},
        Mutant{"adjoint_not_carried", "backward: every chunk starts from the final state's cotangent", "fla class"},
        Mutant{"dbeta_of_value", "dbeta takes v instead of v minus what the state reads", "fla#1142 class"},
        Mutant{"dk_without_read", "dk without the term of the read K S", "fla#1140 class"}});

constexpr KernelForm forms[] = {
    {"chunkwise",
     "WY form with running products of the decays of every channel: one triangular system per chunk of tokens",
     kda_sites, chunk_tiles, mutants, true, key_dim_obstacle, run_chunkwise},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom kda = {"kda", forms};
}

}  // namespace assay::tile
