#include "kernels/decayed/linear_attention.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/normalized_read.hpp"
#include "kernels/plans/linear_attention.hpp"

namespace assay::tile {
namespace {

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    const HostDevice<T> device(shape, with_narrow_state(policy));
    return normalization_of(problem) == Normalization::features
               ? linear_attention_plan<HostTiles<T, C, D>, true>(device, shape, problem)
               : linear_attention_plan<HostTiles<T, C, D>, false>(device, shape, problem);
  });
}

constexpr auto mutants = joined(joined(sum_mutants, normalized_read_mutants),
                                std::array{Mutant{"counts_from_two", "o_t is divided by t + 1", "catalogue"}});

std::vector<Setting> chunkwise_settings() {
  return {{}, {.params = {{"normalization", "count"}}}, {.params = {{"normalization", "features"}}}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "chunks in parallel: what each adds to the state, one pass over the states, what the queries read",
     .sites = linear_attention_sites,
     .tiles = chunk_tiles,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run_chunkwise,
     .settings = chunkwise_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom linear_attention = {"linear_attention", forms, "decayed"};
}

}  // namespace assay::tile
