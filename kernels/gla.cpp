#include "kernels/gla.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/channel_sums.hpp"
#include "kernels/plans/gla.hpp"

namespace assay::tile {
namespace {

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, int C, int D>() {
    const HostDevice<T> device(shape, with_narrow_state(policy));
    return gla_plan<HostTiles<T, C, D>>(device, shape, problem);
  });
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
