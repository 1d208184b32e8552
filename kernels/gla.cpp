#include "kernels/gla.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/launches/channel_sums_launch.hpp"
#include "kernels/launches/decayed_sums_launch.hpp"

namespace assay::tile {
namespace {

template <class T>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  ChannelSums<T> sums(shape, problem, policy, tile);
  sums.write();
  sums.states = pass_states(sums.launch(1), sums.size, false, shape.len, sums.initial_state, sums.updates, sums.totals,
                            sums.final_state);
  sums.read(sums.v);
  Answer answer{sums.outputs(), {}};
  if (problem.cotangents.empty()) return answer;

  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", shape.heads, shape.len, shape.value_dim);
  const auto end = shape.input<T>(problem.cotangents, "final_state", shape.heads, shape.key_dim, shape.value_dim);
  sums.read_backward(o_cotangent);
  sums.adjoints =
      pass_states(sums.launch(4), sums.size, true, shape.len, end, sums.updates, sums.totals, sums.dinitial_state);
  sums.differentiate(o_cotangent);
  answer.gradients = sums.gradients();
  return answer;
}

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  const auto run = [&]<class T>() { return chunkwise<T>(shape, problem, with_narrow_state(policy), tile); };
  return with_scalar(policy, run);
}

constexpr auto mutants = joined(
    channel_mutants,
    std::array{Mutant{"dv_without_later_reads", "dv without the term of the reads in later chunks", "fla#1140 class"}});

constexpr KernelForm forms[] = {
    {"chunkwise", "chunks in parallel: what each adds to the state, one pass over the states, what the queries read",
     gla_sites, chunk_tiles, mutants, true, key_dim_obstacle, run_chunkwise},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom gla = {"gla", forms};
}

}  // namespace assay::tile
