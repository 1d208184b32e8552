#include "kernels/delta/deltanet.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/gated_delta.hpp"
#include "kernels/plans/deltanet.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

template <class T, Size C, Size D>
struct DoublingTiles : HostTiles<T, C, D> {
  static constexpr bool doubling = true;
};

template <template <class, Size, Size> class Tiles>
Answer run(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    return deltanet_plan<Tiles<T, C, D>>(HostDevice<T>(shape, with_narrow_sites(policy)), shape, problem);
  });
}

/// Faults of its own program: the shared ones answer as the other form's.
constexpr Mutant neumann_mutants[] = {
    {"sum_of_powers", "a factor adds I + A where I - A is due: the inverse of I - A", "catalogue"},
    {"last_power_dropped", "the product ends a factor early: paths of half a chunk's writes and more are lost",
     "catalogue"},
};

std::vector<Setting> chunkwise_settings() {
  return {{},
          {.params = {{"alignment", "next_latent"}}},
          {.params = {{"alignment", "next_latent"}, {"sequence_start", false}}},
          {.style = Style::repeated_keys}};
}
std::vector<Setting> neumann_settings() {
  return {{},
          {.params = {{"alignment", "next_latent"}}},
          {.style = Style::repeated_keys},
          {.style = Style::correlated_keys}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "WY form: one triangular system per chunk of tokens, the state carried from chunk to chunk",
     .sites = deltanet_sites,
     .tiles = chunk_tiles,
     .mutants = std::span(gated_delta_mutants).subspan<decay_mutants>(),
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run<HostTiles>,
     .settings = chunkwise_settings},
    {.name = "neumann",
     .summary = "the same with the inverse by doubling: powers of the chunk's system, squared again and again",
     .sites = deltanet_neumann_sites,
     .tiles = chunk_tiles,
     .mutants = neumann_mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run<DoublingTiles>,
     .unstable = "powers of the system are as large as binomials of the chunk where its inverse is not: keys that are "
                 "alike overflow fp16 and cancel in all formats; megagdn-pto#74",
     .settings = neumann_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom deltanet = {"deltanet", forms, "delta"};
}

}  // namespace assay::tile
