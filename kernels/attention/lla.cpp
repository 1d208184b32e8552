#include "kernels/attention/lla.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/attention_device.hpp"
#include "kernels/plans/lla.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

template <bool Raw>
Answer run(const Problem& problem, const Policy& policy, int tile) {
  LlaShape shape(problem);
  shape.about_query |= Raw;
  return with_scalar_and_head_dim(policy, shape, [&]<class T, Size D>() {
    const int n = tile == 1 ? 32 : tile == 2 ? 16 : 64;
    return with_tile({n, n, n}, [&]<Size BM, Size BF, Size BN>() {
      const HostAttentionDevice<T> device(shape, policy);
      return lla_plan<HostAttentionTiles<T, BM, BF, BN, D>, Raw>(device, shape, problem);
    });
  });
}

constexpr std::string_view tiled_tiles[] = {"64x64", "32x32", "16x16"};

constexpr Mutant tiled_mutants[] = {
    {"mask_one_key_less", "causal mask one key too few, in every pass", "cudnn-frontend#1075 review"},
    {"window_dropped", "the window is ignored, in every pass", "catalogue"},
    {"exp2_without_log2e", "first pass: base-2 exponentials of scores in base e", "common"},
    {"kv_head_modulo", "query head a reads key/value head a mod Hkv instead of a div group", "fla#1029"},
    {"first_tile_skipped", "first pass: the first key tile is skipped for late rows of one head", "catalogue"},
    {"kbar_not_rescaled", "the sum of keys not rescaled when the maximum moves", "catalogue"},
    {"ridge_unshifted", "mode absolute: lambda beside weights shifted by their maximum", "LLA Alg. 2 as printed (E3)"},
    {"image_not_centred", "the system's product with keys that are not centred", "LLA Alg. 2 as printed (E6)"},
    {"steepest_descent", "search directions that are residuals, not conjugate", "catalogue"},
    {"rows_not_frozen", "rows whose residual is small go on with the others of their tile", "catalogue"},
    {"residual_per_weight", "the tolerance where the weights sum to one", "catalogue"},
    {"probe_for_tilt", "rho* where rho* / delta is due", "catalogue"},
    {"mean_t_dropped", "o without the mean of y.k", "LLA Alg. 1 as printed (E4)"},
    {"mass_gradient_dropped", "backward of Sigma: D and dlambda without beta", "LLA (41) as printed (E8)"},
    {"ridge_detached", "backward: lambda's unit held constant under changes of the weights", "FlashLLA 436af91"},
    {"offset_sign", "backward: dq with + sum_j dz_j", "LLA (50) as printed (E9)"},
    {"dq_without_scale", "backward: dq not divided by the bandwidth", "GQA"},
    {"dk_without_x", "backward: dk lacks the term p N x", "catalogue"},
    {"dv_without_probe", "backward: dv weighted by p, as in softmax attention", "fla#1142, #1140"},
    {"dk_one_head_of_group", "backward: dk and dv of the first query head of the group only", "GQA"},
};
/// The faults that only the raw form has.
constexpr Mutant raw_mutants[] = {
    {"mean_already_centred", "the product of raw moments with kbar - q where kbar is due",
     "LLA Alg. 2 as printed (E6)"},
    {"square_left_at_zero", "the curvature along a direction from keys that are not moved to q", "catalogue"},
    {"moment_left_at_zero", "o without y.q: sum_j w_ij v_j k_j^T is not moved to q", "LLA Alg. 1 as printed (E4)"},
};

std::vector<Setting> tiled_settings() {
  return {{},
          {.params = {{"window", 70L}, {"lambda_mode", "max"}}},
          {.style = Style::unit_keys, .params = {{"causal", false}, {"lambda_mode", "absolute"}}},
          {.params = {{"solver", "cg"}, {"iterations", 4L}, {"tolerance", "0.25"}}},
          {.params = {{"blocks", 2L}, {"block_form", "centered"}}},
          {.queries = 3}};
}
std::vector<Setting> raw_moments_settings() {
  return {{},
          {.params = {{"bandwidth", "1024"}, {"causal", false}}},
          {.params = {{"window", 70L}, {"lambda_mode", "max"}}},
          {.style = Style::unit_keys, .params = {{"causal", false}, {"lambda_mode", "absolute"}}},
          {.params = {{"solver", "cg"}, {"iterations", 4L}, {"tolerance", "0.25"}}},
          {.params = {{"blocks", 2L}}}};
}

constexpr KernelForm forms[] = {
    {.name = "tiled",
     .summary = "moments, conjugate gradients matrix-free over key tiles, output; backward with one more solve",
     .sites = lla_tiled_sites,
     .tiles = tiled_tiles,
     .mutants = tiled_mutants,
     .has_gradients = true,
     .obstacle = lla_obstacle,
     .run = run<false>,
     .iterative = true,
     .independent_rows = true,
     .settings = tiled_settings},
    {.name = "raw_moments",
     .summary =
         "the published one: sums of w, w k, w k k^T, w v and w v k^T as they are, moved to the query afterwards",
     .sites = lla_tiled_sites,
     .tiles = tiled_tiles,
     .mutants = raw_mutants,
     .has_gradients = true,
     .obstacle = lla_raw_obstacle,
     .run = run<true>,
     .unstable = "what keys and queries have in common cancels as |k|^2 against |k - q|^2, and 1 - rho.zbar where the "
                 "query is far "
                 "from the keys; LLA (8), (11) and (13)",
     .iterative = true,
     .independent_rows = true,
     .settings = raw_moments_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom lla = {"lla", forms, "attention"};
}

}  // namespace assay::tile
