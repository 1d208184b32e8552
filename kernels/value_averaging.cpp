#include "kernels/value_averaging.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/core/uniform_shape.hpp"

namespace assay::tile {
namespace {

template <class T, int C, int D>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, const Policy& policy) {
  using B = HostBlock<T>;
  const int heads = shape.heads, len = shape.len, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, D);
  const auto v = shape.input<T>(problem.inputs, "v", heads, len, V);
  const std::vector<T> counts = token_counts<T>(chunks, C);
  const typename B::RowIn count{counts.data(), chunks * C};
  const HeadBlocks by_chunk{chunks * blocks};
  auto sums = shape.output<T>(heads * chunks, 1, V), carried = sums;
  auto o = shape.output<T>(heads, len, V);
  host_launch<TokenSums<B, C, D, false>, T>(launch_policy(policy, 0), {v.in(), count, sums.out(), chunks, blocks},
                                            heads * chunks * blocks, by_chunk);
  host_launch<SumPass<B, D, false>, T>(launch_policy(policy, 1), {vectors_in(sums), vectors_out(carried), chunks},
                                       heads * blocks, HeadBlocks{blocks});
  host_launch<MeanReads<B, C, D>, T>(launch_policy(policy, 2),
                                     {v.in(), vectors_in(carried), count, o.out(), chunks, blocks},
                                     heads * chunks * blocks, by_chunk);
  Answer answer{{{"o", o.array()}}, {}};
  if (problem.cotangents.empty()) return answer;

  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", heads, len, V);
  auto dv = o, later_sums = sums, later = sums;
  host_launch<TokenSums<B, C, D, true>, T>(launch_policy(policy, 3),
                                           {o_cotangent.in(), count, later_sums.out(), chunks, blocks},
                                           heads * chunks * blocks, by_chunk);
  host_launch<SumPass<B, D, true>, T>(launch_policy(policy, 4), {vectors_in(later_sums), vectors_out(later), chunks},
                                      heads * blocks, HeadBlocks{blocks});
  host_launch<MeanGradients<B, C, D>, T>(launch_policy(policy, 5),
                                         {o_cotangent.in(), vectors_in(later), count, dv.out(), chunks, blocks},
                                         heads * chunks * blocks, by_chunk);
  answer.gradients = {{"v", dv.array()}};
  return answer;
}

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape = uniform_shape(problem);
  const Policy run = with_narrow_state(policy);
  return with_chunk(shape, run, tile, [&]<class T, int C, int D>() { return chunkwise<T, C, D>(shape, problem, run); });
}

std::string no_obstacle(const Problem&) { return ""; }

constexpr std::array mutants{
    Mutant{"own_value_unread", "j < i instead of j <= i", "catalogue"},
    Mutant{"counts_from_two", "the sum up to i by i + 1", "catalogue"},
    Mutant{"sum_not_carried", "every chunk starts from the sum of the one before", "MDN common-mode reference"},
    Mutant{"state_in_bf16", "the sum is carried in bf16", "triton#7216 class"},
    Mutant{"dv_unweighted", "do_i enters dv of its own chunk undivided", "catalogue"},
    Mutant{"dv_without_own_row", "dv_j misses the read at j", "catalogue"},
    Mutant{"dv_without_later_chunks", "dv without the term of the reads in later chunks", "fla#1140 class"},
};

constexpr KernelForm forms[] = {
    {"chunkwise", "chunks in parallel: their sums, one pass over them, what every token reads", value_averaging_sites,
     chunk_tiles, mutants, true, no_obstacle, run_chunkwise},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom value_averaging = {"value_averaging", forms};
}

}  // namespace assay::tile
