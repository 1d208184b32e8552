#include "kernels/mamba2.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/decayed_sums.hpp"
#include "kernels/plans/mamba2.hpp"

namespace assay::tile {
namespace {

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, int C, int D>() {
    const HostDevice<T> device(shape, with_narrow_state(policy));
    return mamba2_plan<HostTiles<T, C, D>>(device, shape, problem);
  });
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
