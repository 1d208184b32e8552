#include "kernels/delta/kda.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/channel_sums.hpp"
#include "kernels/plans/kda.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    const HostDevice<T> device(shape, with_narrow_sites(policy));
    return kda_plan<HostTiles<T, C, D>>(device, shape, problem);
  });
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

std::vector<Setting> chunkwise_settings() { return {{}, {.style = Style::gate_ends}, {.style = Style::repeated_keys}}; }

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary =
         "WY form with running products of the decays of every channel: one triangular system per chunk of tokens",
     .sites = kda_sites,
     .tiles = chunk_tiles,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run_chunkwise,
     .settings = chunkwise_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom kda = {"kda", forms, "delta"};
}

}  // namespace assay::tile
