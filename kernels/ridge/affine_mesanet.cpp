#include "kernels/ridge/affine_mesanet.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/plans/affine_mesanet.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RidgeShape shape(problem);
  return with_scalar(policy, [&]<class T>() {
    return with_rows(std::max(shape.key_dim, shape.value_dim), tile, [&]<Size C, Size D>() {
      const HostDevice<T> device(shape, with_narrow_state(policy));
      return ridge_plan<AffineMesaPlan, HostTiles<T, C, D>>(device, shape, problem);
    });
  });
}

constexpr Mutant mutants[] = {
    {"kv_head_modulo", "query head a reads key/value head a mod Hkv instead of a div group", "fla#1029"},
    {"merged_without_means", "scatters of two chunks added without the distance of their means", "catalogue"},
    {"mean_of_the_chunk_before", "rows are centred at the mean before their chunk", "catalogue"},
    {"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    {"image_not_centred", "the system's product with keys that are not centred", "LLA Alg. 2 as printed (E6)"},
    {"ridge_forgotten", "the system's product without the ridge", "catalogue"},
    {"ridge_on_sums", "lambda_scaling mean: the ridge lambda on sums", "Parallax (9) against its limit (E13)"},
    {"offset_from_zero", "y from kbar, not kbar - q", "catalogue"},
    {"rows_not_frozen", "a row at rest takes its step: 0 / 0", "catalogue"},
    {"few_steps", "four steps of conjugate gradients, whatever the residuals", "catalogue"},
    {"tolerance_of_squares", "the tolerance on |r| is one on its square", "FlashLLA 436af91"},
    {"steepest_descent", "search directions that are residuals, not conjugate", "catalogue"},
    {"beta_of_old_residual", "the next direction from the residual before the step", "catalogue"},
    {"dlambda_of_sums", "dlambda without the factor of lambda on means", "catalogue"},
    {"values_not_centred", "backward: what rows put on every key without g.vbar", "catalogue"},
    {"moments_not_centred", "cotangents of the final scatters without the means", "catalogue"},
    {"final_cotangent_dropped", "backward starts from zero adjoint states", "FALCON Alg 6 line 20"},
    {"dk_without_x", "dk without (x.k) y within a chunk", "catalogue"},
    {"dv_without_probe", "dk and dv without y.k within a chunk", "fla#1142, #1140"},
    {"dk_one_head_of_group", "dk and dv of the first query head of the group only", "GQA"},
};

std::vector<Setting> chunkwise_settings() {
  return {{}, {.params = {{"lambda_scaling", "mean"}}}, {.style = Style::unit_keys}, {.style = Style::repeated_keys}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "chunks in parallel about their means, their rows' systems by conjugate gradients; backward with one "
                "more solve",
     .sites = affine_mesanet_sites,
     .tiles = ridge_tiles,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = ridge_obstacle,
     .run = run_chunkwise,
     .iterative = true,
     .settings = chunkwise_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom affine_mesanet = {"affine_mesanet", forms, "ridge"};
}

}  // namespace assay::tile
