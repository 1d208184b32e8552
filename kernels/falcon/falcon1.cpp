#include "kernels/falcon/falcon1.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/falcon_rule.hpp"

namespace assay::tile {
namespace {

std::vector<Setting> chunkwise_settings() {
  return {
      {}, {.params = {{"alignment", "same_step"}}}, {.params = {{"ridge_coupling", "live"}, {"decay_floor", "0.5"}}}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "WY form with running products of the decays: one triangular system per chunk of tokens",
     .sites = falcon1_sites,
     .tiles = chunk_tiles,
     .mutants = falcon_mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = falcon_rule,
     .settings = chunkwise_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom falcon1 = {"falcon1", forms, "falcon"};
}

}  // namespace assay::tile
