#include "kernels/falcon1.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/falcon_rule.hpp"

namespace assay::tile {
namespace {

constexpr KernelForm forms[] = {
    {"chunkwise", "WY form with running products of the decays: one triangular system per chunk of tokens",
     falcon1_sites, chunk_tiles, falcon_mutants, true, key_dim_obstacle, falcon_rule},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom falcon1 = {"falcon1", forms};
}

}  // namespace assay::tile
