#include "kernels/affine_linear_attention.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/core/uniform_shape.hpp"

namespace assay::tile {
namespace {

/// Vectors of the heads that share keys and values, given to every head that reads them.
template <class T>
Array for_all_heads(const RecurrenceShape& shape, const HostArray<T>& x) {
  auto all = shape.output<T>(shape.heads, x.rows, x.cols);
  const std::size_t n = static_cast<std::size_t>(x.rows) * static_cast<std::size_t>(x.cols);
  for (std::size_t i = 0; i < all.data.size(); ++i)
    all.data[i] = x.data[i / n / static_cast<std::size_t>(shape.group) * n + i % n];
  return all.array();
}
Array without_rows(Array x) {
  x.shape.erase(x.shape.end() - 2);
  return x;
}

template <class T, int C, int D>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, const Policy& policy) {
  using B = HostBlock<T>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C)), blocks = imax(1, ceil_div(V, D));
  const auto array = [&](int h, int rows, int cols) { return shape.output<T>(h, rows, cols); };
  const auto rho = shape.input<T>(problem.inputs, "rho", heads, len, K);
  const auto k = shape.input<T>(problem.inputs, "k", shared, len, K);
  const auto v = shape.input<T>(problem.inputs, "v", shared, len, V);
  const std::vector<T> counts = token_counts<T>(chunks, C);
  const typename B::RowIn count{counts.data(), chunks * C};
  const HeadBlocks by_chunk{chunks * blocks}, by_block{blocks};

  auto sum_k = array(shared * chunks, 1, K), sum_v = array(shared * chunks, 1, V), base_k = sum_k, base_v = sum_v,
       before_v = sum_v;
  auto first_k = array(shared, 1, K), first_v = array(shared, 1, V), final_k = first_k, final_v = first_v;
  auto covariance = array(shared * chunks, V, K), states = covariance, final_scatter = array(shared, V, K);
  auto o = array(heads, len, V), tilt = array(heads, len, 1);
  host_launch<ChunkMoments<B, C, D, D>, T>(
      launch_policy(policy, 0),
      {k.in(), v.in(), sum_k.out(), sum_v.out(), first_k.out(), first_v.out(), covariance.out(), len, chunks, blocks},
      shared * chunks * blocks, by_chunk);
  host_launch<MomentPass<B, C, D, D, 2>, T>(
      launch_policy(policy, 1),
      {covariance.in(), vectors_in(sum_k), vectors_in(sum_v), vectors_in(first_k), vectors_in(first_v), states.out(),
       final_scatter.out(), vectors_out(base_k), vectors_out(base_v), vectors_out(before_v), vectors_out(final_k),
       vectors_out(final_v), len, chunks},
      shared * blocks, by_block);
  host_launch<TiltedReads<B, C, D, D>, T>(
      launch_policy(policy, 2),
      {rho.in(), k.in(), v.in(), states.in(), vectors_in(base_k), vectors_in(base_v), vectors_in(before_v), count,
       o.out(), tilt.row_out(), chunks, shape.group, shared, blocks},
      heads * chunks * blocks, by_chunk);
  Answer answer{{{"o", o.array()},
                 {"final_mean_k", without_rows(for_all_heads(shape, final_k))},
                 {"final_mean_v", without_rows(for_all_heads(shape, final_v))},
                 {"final_scatter_vk", for_all_heads(shape, final_scatter)}},
                {}};
  if (problem.cotangents.empty()) return answer;

  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", heads, len, V);
  const auto end_k = shape.input<T>(problem.cotangents, "final_mean_k", heads, 1, K);
  const auto end_v = shape.input<T>(problem.cotangents, "final_mean_v", heads, 1, V);
  const auto end = shape.input<T>(problem.cotangents, "final_scatter_vk", heads, V, K);
  auto Q = array(heads * chunks, V, K), adjoints = Q;
  auto f = array(heads * chunks, 1, V), h = array(heads * blocks * chunks, 1, K), after_f = f, after_h = h;
  auto drho = array(heads * blocks, len, K), dk = drho, dv = array(heads, len, V);
  host_launch<AdjointMoments<B, C, D, D>, T>(
      launch_policy(policy, 3),
      {rho.in(), v.in(), o_cotangent.in(), vectors_in(base_k), vectors_in(base_v), vectors_in(final_k),
       vectors_in(final_v), tilt.row_in(), count, Q.out(), f.out(), h.out(), chunks, shape.group, blocks},
      heads * chunks * blocks, by_chunk);
  host_launch<AdjointPass<B, C, D, D, 2>, T>(
      launch_policy(policy, 4),
      {end.in(), Q.in(), vectors_in(end_k), vectors_in(end_v), vectors_in(f), vectors_in(h), adjoints.out(),
       vectors_out(after_f), vectors_out(after_h), len, chunks, blocks},
      heads * blocks, by_block);
  host_launch<TiltedGradients<B, C, D, D>, T>(launch_policy(policy, 5),
                                              {rho.in(),
                                               k.in(),
                                               v.in(),
                                               o_cotangent.in(),
                                               states.in(),
                                               adjoints.in(),
                                               vectors_in(base_k),
                                               vectors_in(base_v),
                                               vectors_in(final_k),
                                               vectors_in(final_v),
                                               vectors_in(after_f),
                                               vectors_in(after_h),
                                               tilt.row_in(),
                                               count,
                                               drho.out(),
                                               dk.out(),
                                               dv.out(),
                                               chunks,
                                               shape.group,
                                               blocks},
                                              heads * chunks * blocks, by_chunk);
  const Policy sums = launch_policy(policy, 6);
  answer.gradients = {{"rho", sum_parts(sums, "part", "out", drho, blocks, rho).array()},
                      {"k", sum_parts(sums, "part", "out", dk, blocks, k).array()},
                      {"v", sum_parts(sums, "part", "out", dv, 1, v).array()}};
  return answer;
}

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape = uniform_shape(problem);
  const Policy run = with_narrow_state(policy);
  return with_chunk(shape, run, tile, [&]<class T, int C, int D>() { return chunkwise<T, C, D>(shape, problem, run); });
}

std::string obstacle(const Problem& problem) {
  const int d = uniform_shape(problem).key_dim;
  return d <= max_head_dim ? "" : text("K is compiled in up to ", max_head_dim, ", got ", d);
}

constexpr std::array mutants{
    Mutant{"ragged_chunk_is_full", "means of the last, ragged chunk divide by the chunk's length", "fla#1142 class"},
    Mutant{"means_apart_forgotten", "chunks are merged without the distance of their means", "Chan merge"},
    Mutant{"chunks_weigh_alike", "the last, ragged chunk weighs as much as the others", "Chan merge"},
    Mutant{"state_in_bf16", "the covariance accumulates in bf16", "triton#7216 class"},
    Mutant{"head_modulo", "head h reads key and value head h mod H instead of h div group", "fla#1029"},
    Mutant{"own_pair_unread", "j < i instead of j <= i", "catalogue"},
    Mutant{"keys_not_centred", "scores of the chunk's keys from the base, not from the mean up to i", "Parallax (14)"},
    Mutant{"covariance_added", "o adds X rho of the chunks before", "erratum E15"},
    Mutant{"final_cotangent_dropped", "backward starts without the final scatter's cotangent", "FALCON Alg 6 line 20"},
    Mutant{"later_keys_not_centred", "dv of later reads without the probes along the mean key", "catalogue"},
    Mutant{"values_not_centred", "dk and drho from g.v_j, not g.(v_j - vbar_i)", "catalogue"},
    Mutant{"dv_without_later_reads", "dv without the terms of the reads in later chunks", "fla#1140 class"},
    Mutant{"drho_without_state", "drho without the covariance of the chunks before", "fla#1140 class"},
    Mutant{"one_head_of_group", "dk and dv of the first head of the group only", "GQA"},
};

constexpr KernelForm forms[] = {
    {"chunkwise", "chunks in parallel: their moments, one pass that merges them, what the probes read",
     affine_linear_attention_sites, chunk_tiles, mutants, true, obstacle, run_chunkwise},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom affine_linear_attention = {"affine_linear_attention", forms};
}

}  // namespace assay::tile
