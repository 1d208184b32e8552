#include "kernels/uniform/affine_linear_attention.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/launches/uniform_shape.hpp"
#include "kernels/plans/affine_linear_attention.hpp"

namespace assay::tile {
namespace {

template <class T, Size C, Size D>
struct Tiles {
  using Executor = HostBlock<T>;
  static constexpr Size tokens = C, dim = D, values = D;
};

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape = uniform_shape(problem);
  const Policy run = with_narrow_state(policy);
  return with_chunk(shape, run, tile, [&]<class T, Size C, Size D>() {
    return affine_linear_attention_plan<Tiles<T, C, D>>(HostDevice<T>(shape, run), shape, problem);
  });
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
    {.name = "chunkwise",
     .summary = "chunks in parallel: their moments, one pass that merges them, what the probes read",
     .sites = affine_linear_attention_sites,
     .tiles = chunk_tiles,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = obstacle,
     .run = run_chunkwise},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom affine_linear_attention = {"affine_linear_attention", forms, "uniform"};
}

}  // namespace assay::tile
