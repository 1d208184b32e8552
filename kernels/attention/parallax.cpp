#include "kernels/attention/parallax.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/attention_device.hpp"
#include "kernels/plans/parallax.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

/// The faults that are a format: P1 and P2 stored in fp8, scores rounded to bf16 before the exponential.
Policy with_narrow_sites(Policy policy) {
  const SiteTable healthy = policy.sites;
  const SiteTable narrow = healthy.with("P1", Format::e4m3).with("P2", Format::e4m3);
  policy.sites = chosen(policy, "p_in_fp8"_s, healthy, narrow);
  policy.sites = chosen(policy, "scores_in_bf16"_s, policy.sites, healthy.with("S", Format::bf16));
  return policy;
}

constexpr std::string_view tiled_tiles[] = {"64x64", "32x32", "16x16", "64x128"};  // the last one backward: 64x64
constexpr std::string_view covariance_tiles[] = {"64x64", "32x32", "16x16"};
constexpr AttentionTile sizes_of_tiles[] = {{64, 64, 64}, {32, 32, 32}, {16, 16, 16}, {64, 128, 64}};

template <bool Covariance>
Answer run_tiled(const Problem& problem, const Policy& contract, int tile) {
  const AttentionShape shape(problem);
  const Policy policy = with_narrow_sites(contract);
  return with_scalar_and_head_dim(policy, shape, [&]<class T, Size D>() {
    return with_tile(sizes_of_tiles[tile], [&]<Size BM, Size BF, Size BN>() {
      return by_width<D>([&]<Size Width>() {
        const HostAttentionDevice<T> device(shape, policy);
        return parallax_tiled_plan<HostAttentionTiles<T, BM, BF, BN, Width>, Covariance>(device, shape, problem);
      });
    });
  });
}

Answer run_split_decode(const Problem& problem, const Policy& policy, int tile) {
  return with_decode_tiles(problem, policy, tile, [&]<class Tiles>(const auto& device, const AttentionShape& shape) {
    return parallax_decode_plan<Tiles>(device, shape, problem);
  });
}

constexpr Mutant tiled_mutants[] = {
    {"mask_one_key_less", "causal mask one key too few, in every pass", "cudnn-frontend#1075 review"},
    {"window_dropped", "the window is ignored, in every pass", "catalogue"},
    {"exp2_without_log2e", "forward: base-2 exponentials of scores in base e", "common"},
    {"kv_head_modulo", "query head a reads key/value head a mod Hkv instead of a div group", "fla#1029"},
    {"first_tile_skipped", "the first key tile is skipped for late rows of one head", "catalogue"},
    {"d2_not_rescaled", "d2 not rescaled when the maximum moves", "catalogue"},
    {"o2_not_rescaled", "O2 not rescaled when the maximum moves", "catalogue"},
    {"mean_term_dropped", "o = O1 / d1 - O2 / d1: the factor 1 + tbar is missing", "catalogue"},
    {"p_in_fp8", "P1 and P2 stored in fp8 e4m3", "cudnn-frontend#971 (inverse)"},
    {"scores_in_bf16", "S rounded to bf16 before the exponential", "catalogue"},
    {"scale_of_other_head", "fp8: the units of the next key/value head", "FA3 descale strides"},
    {"p_scale_not_undone", "fp8: o keeps the factor by which P1 and P2 fill the format", "FA3 Max_offset"},
    {"row_unit_not_followed", "fp8: O2 not rescaled when the unit of P2 grows", "catalogue"},
    {"tbar_other_origin", "backward: tbar about q_i where t is about 0", "catalogue"},
    {"d_without_beta", "backward: a - beta is a in D, in the query pass", "FA#2481"},
    {"dq_without_scale", "backward: dq not divided by the bandwidth", "GQA"},
    {"drho_sign", "backward: drho has the other sign", "rocm-libraries#11003"},
    {"dk_without_probe", "backward: dk lacks the term E rho", "fla#1142, #1140"},
    {"dv_without_probe", "backward: dv weighted by p, as in softmax attention", "fla#1142, #1140"},
    {"dk_one_head_of_group", "backward: dk and dv of the first query head of the group only", "GQA"},
};
/// Those of the tiled form but one: in o this form's mean is what rounding leaves.
constexpr auto covariance_mutants = [] {
  std::array<Mutant, std::size(tiled_mutants) + 1> all{};
  std::copy(std::begin(tiled_mutants), std::end(tiled_mutants), all.begin());
  *std::find_if(all.begin(), all.end(), [](const Mutant& m) { return m.name == "mean_term_dropped"; }) = {
      "o2_keeps_its_origin", "O2 of the keys so far not moved with the origin", "catalogue"};
  all.back() = {"tbar_without_origin", "the backward's tbar is d2 / d1, about the last origin", "catalogue"};
  return all;
}();
constexpr Mutant split_decode_mutants[] = {
    {"mask_one_key_more", "causal mask one key too many", "mlir-air#1427, imp#1304"},
    {"window_one_wider", "window W taken as W + 1", "Parallax docstring against code"},
    {"scale_twice", "the scores' scale applied twice", "TE#2300 class"},
    {"tail_tile_dropped", "the last, ragged key tile is not visited", "catalogue"},
    {"merge_without_rescale", "partial results added as they are, not in units of the common maximum", "catalogue"},
    {"d2_not_rescaled", "the merged d2 not rescaled when the maximum moves", "catalogue"},
    {"o2_not_rescaled", "the merged O2 not rescaled when the maximum moves", "catalogue"},
    {"mean_term_dropped", "o = O1 / d1 - O2 / d1: the factor 1 + tbar is missing", "catalogue"},
    {"descale_dropped", "fp8: the merge leaves o in units of V", "FA3 v_descale"},
};

std::vector<Setting> tiled_settings() {
  return {{},
          {.params = {{"window", 70L}}},
          {.style = Style::rising_scores, .params = {{"causal", false}}},
          {.queries = 70},
          {.without_probe = true}};
}
std::vector<Setting> split_decode_settings() {
  return {{.queries = 3}, {.params = {{"window", 70L}}, .queries = 3}, {.queries = 3, .without_probe = true}};
}
std::vector<Setting> covariance_settings() {
  return {{},
          {.params = {{"window", 70L}}},
          {.style = Style::nearly_parallel_keys},
          {.style = Style::rising_scores, .params = {{"causal", false}}}};
}

constexpr KernelForm forms[] = {
    {.name = "tiled",
     .summary = "one block per query tile, streaming state over key tiles; backward in two passes",
     .sites = parallax_tiled_sites,
     .tiles = tiled_tiles,
     .mutants = tiled_mutants,
     .has_gradients = true,
     .obstacle = head_dim_obstacle,
     .run = run_tiled<false>,
     .independent_rows = true,
     .settings = tiled_settings},
    {.name = "split_decode",
     .summary = "few queries, the keys split over blocks, partial results merged",
     .sites = parallax_decode_sites,
     .tiles = split_decode_tiles,
     .mutants = split_decode_mutants,
     .has_gradients = false,
     .obstacle = split_decode_obstacle,
     .run = run_split_decode,
     .independent_rows = true,
     .settings = split_decode_settings},
    {.name = "covariance",
     .summary = "the tiled form about an origin of t that follows its mean: no offset of the keys cancels",
     .sites = parallax_covariance_sites,
     .tiles = covariance_tiles,
     .mutants = covariance_mutants,
     .has_gradients = true,
     .obstacle = head_dim_obstacle,
     .run = run_tiled<true>,
     .independent_rows = true,
     .settings = covariance_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom parallax = {"parallax", forms, "attention"};
}

}  // namespace assay::tile
