#include "kernels/mamba2.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/launches/decayed_sums_launch.hpp"

namespace assay::tile {
namespace {

template <class T>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  DecayedSums<T> sums(shape, problem, policy, tile, {.decays = true});
  sums.decay = shape.vector_input<T>(problem.inputs, "log_decay", shape.heads, shape.len);
  sums.forward();
  Answer answer{{{"o", sums.o.array()}, {"final_state", sums.final_state.array()}}, {}};
  if (problem.cotangents.empty()) return answer;
  sums.make_parts();
  sums.backward(shape.input<T>(problem.cotangents, "o", shape.heads, shape.len, shape.value_dim),
                shape.input<T>(problem.cotangents, "final_state", shape.heads, shape.key_dim, shape.value_dim),
                sums.parts);
  answer.gradients = sums.gradients();
  answer.gradients["log_decay"] = sums.log_decay_gradient().array();
  return answer;
}

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  const auto run = [&]<class T>() { return chunkwise<T>(shape, problem, with_narrow_state(policy), tile); };
  return with_scalar(policy, run);
}

constexpr auto mutants = joined(sum_mutants, decay_mutants);

constexpr KernelForm forms[] = {
    {"chunkwise", "chunks in parallel: what each adds to the state, one pass over the states, what the queries read",
     mamba2_sites, chunk_tiles, mutants, true, key_dim_obstacle, run_chunkwise},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom mamba2 = {"mamba2", forms};
}

}  // namespace assay::tile
