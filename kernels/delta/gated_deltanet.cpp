#include "kernels/delta/gated_deltanet.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/gated_delta.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  int lag = 0;
  OptionReader read(problem.params);
  read("error", lag, {{"decayed", 0}, {"undecayed", 1}});
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    const HostDevice<T> device(shape, with_narrow_sites(policy));
    return gated_delta_plan<HostTiles<T, C, D>, DeltaRule::decays>(device, shape, problem, lag);
  });
}

std::vector<Setting> chunkwise_settings() {
  return {{}, {.params = {{"error", "undecayed"}}}, {.style = Style::gate_ends}, {.style = Style::dead_memory}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "WY form with running products of the decays: one triangular system per chunk of tokens",
     .sites = gated_deltanet_sites,
     .tiles = chunk_tiles,
     .mutants = gated_delta_mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run_chunkwise,
     .settings = chunkwise_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom gated_deltanet = {"gated_deltanet", forms, "delta"};
}

}  // namespace assay::tile
