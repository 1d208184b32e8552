#include "kernels/ridge/mesanet.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/plans/mesanet.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RidgeShape shape(problem);
  return with_scalar(policy, [&]<class T>() {
    return with_rows(std::max(shape.key_dim, shape.value_dim), tile, [&]<Size C, Size D>() {
      const HostDevice<T> device(shape, with_narrow_state(policy));
      return ridge_plan<MesaPlan, HostTiles<T, C, D>>(device, shape, problem);
    });
  });
}

constexpr Mutant mutants[] = {
    {"kv_head_modulo", "query head a reads key/value head a mod Hkv instead of a div group", "fla#1029"},
    {"solves_before_the_write", "the system of row i without k_i: j < i instead of j <= i", "catalogue"},
    {"gram_not_carried", "every chunk's systems know the keys of the chunk before alone", "MDN common-mode reference"},
    {"state_not_carried", "every chunk reads the values of the chunk before alone", "MDN common-mode reference"},
    {"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    {"ridge_forgotten", "the system's product without the ridge", "catalogue"},
    {"ridge_on_sums", "lambda_scaling mean: the ridge lambda on sums", "Parallax (5) against (9) (E14)"},
    {"rows_not_frozen", "a row at rest takes its step: 0 / 0", "catalogue"},
    {"few_steps", "four steps of conjugate gradients, whatever the residuals", "catalogue"},
    {"tolerance_of_squares", "the tolerance on |r| is one on its square", "FlashLLA 436af91"},
    {"steepest_descent", "search directions that are residuals, not conjugate", "catalogue"},
    {"beta_of_old_residual", "the next direction from the residual before the step", "catalogue"},
    {"dlambda_of_sums", "lambda_scaling mean: dlambda without the factor i", "catalogue"},
    {"final_cotangent_dropped", "backward starts from zero adjoint states", "FALCON Alg 6 line 20"},
    {"gram_gradient_one_sided", "dk without x (a.k), the other half of dH, within a chunk", "catalogue"},
    {"dk_without_later_solves", "dk without the systems of later chunks", "fla#1140 class"},
    {"dv_without_later_reads", "dv without the term of the reads in later chunks", "fla#1140 class"},
    {"dk_one_head_of_group", "dk and dv of the first query head of the group only", "GQA"},
};

std::vector<Setting> chunkwise_settings() {
  return {{}, {.params = {{"lambda_scaling", "mean"}}}, {.style = Style::unit_keys}, {.style = Style::repeated_keys}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "chunks in parallel, their rows' systems by conjugate gradients; backward with one more solve",
     .sites = mesanet_sites,
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
extern const KernelRoom mesanet = {"mesanet", forms, "ridge"};
}

}  // namespace assay::tile
