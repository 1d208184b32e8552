#include "kernels/falcon2_lite.hpp"

#include "kernels/core/falcon_launch.hpp"
#include "kernels/core/kernel_room.hpp"

namespace assay::tile {
namespace {

constexpr KernelForm forms[] = {
    {"chunkwise", "WY form with running products of the decays: one triangular system per chunk of tokens",
     falcon2_lite_sites, chunk_tiles, falcon_mutants, true, key_dim_obstacle, falcon_rule},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom falcon2_lite = {"falcon2_lite", forms};
}

}  // namespace assay::tile
