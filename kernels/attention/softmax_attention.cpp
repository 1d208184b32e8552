#include "kernels/attention/softmax_attention.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/attention_device.hpp"
#include "kernels/plans/softmax_attention.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

/// The faults that are a format: P stored in fp8, l accumulated in bf16.
Policy with_narrow_sites(Policy policy) {
  const SiteTable healthy = policy.sites;
  policy.sites = chosen(policy, "p_in_fp8"_s, healthy, healthy.with("P", Format::e4m3));
  policy.sites = chosen(policy, "denominator_in_bf16"_s, policy.sites, healthy.with("l", Format::bf16));
  return policy;
}

constexpr std::string_view tiled_tiles[] = {"64x64", "32x32", "16x16", "64x128"};  // the last one backward: 64x64
constexpr AttentionTile sizes_of_tiles[] = {{64, 64, 64}, {32, 32, 32}, {16, 16, 16}, {64, 128, 64}};

Answer run_tiled(const Problem& problem, const Policy& contract, int tile) {
  const AttentionShape shape(problem);
  const Policy policy = with_narrow_sites(contract);
  return with_scalar_and_head_dim(policy, shape, [&]<class T, Size D>() {
    return with_tile(sizes_of_tiles[tile], [&]<Size BM, Size BF, Size BN>() {
      const HostAttentionDevice<T> device(shape, policy);
      return softmax_tiled_plan<HostAttentionTiles<T, BM, BF, BN, D>>(device, shape, problem);
    });
  });
}

Answer run_split_decode(const Problem& problem, const Policy& policy, int tile) {
  return with_decode_tiles(problem, policy, tile, [&]<class Tiles>(const auto& device, const AttentionShape& shape) {
    return softmax_decode_plan<Tiles>(device, shape, problem);
  });
}

constexpr Mutant tiled_mutants[] = {
    {"mask_one_key_more", "causal mask one key too many, in every pass", "mlir-air#1427, imp#1304"},
    {"window_one_wider", "window W taken as W + 1, in every pass", "Parallax docstring against code"},
    {"scale_twice", "the scores' scale applied twice in the forward", "TE#2300 class"},
    {"kv_head_modulo", "query head a reads key/value head a mod Hkv instead of a div group", "fla#1029"},
    {"tail_tile_dropped", "the last, ragged key tile is not visited", "catalogue"},
    {"stale_max", "the running maximum stays where the first tile left it", "catalogue"},
    {"denominator_not_rescaled", "l not rescaled when the maximum moves", "catalogue"},
    {"accumulator_not_rescaled", "O not rescaled when the maximum moves", "catalogue"},
    {"p_in_fp8", "P stored in fp8 e4m3", "cudnn-frontend#971 (inverse)"},
    {"denominator_in_bf16", "l accumulated in bf16", "catalogue"},
    {"scale_of_other_head", "fp8: the units of the next key/value head", "FA3 descale strides"},
    {"p_scale_not_undone", "fp8: o keeps the factor by which P fills the format", "FA3 Max_offset"},
    {"delta_omitted", "backward: D = p (a - delta) with delta = 0 in the query pass", "FA#2481"},
    {"dq_without_scale", "backward: dq not divided by the bandwidth", "GQA"},
    {"dk_one_head_of_group", "backward: dk and dv of the first query head of the group only", "GQA"},
};
constexpr Mutant split_decode_mutants[] = {
    {"mask_one_key_less", "causal mask one key too few", "cudnn-frontend#1075 review"},
    {"window_dropped", "the window is ignored", "catalogue"},
    {"exp2_without_log2e", "base-2 exponentials of scores in base e", "common"},
    {"split_one_tile_longer", "a split reads one tile into the next, whose keys count twice", "cu_seqlens class"},
    {"last_split_dropped", "the merge leaves out the last split", "fla#671, TE#2986"},
    {"merge_without_rescale", "the merged O not rescaled when the maximum moves", "catalogue"},
    {"denominator_not_rescaled", "the merged l not rescaled when the maximum moves", "catalogue"},
    {"descale_dropped", "fp8: the merge leaves o in units of V", "FA3 v_descale"},
};

std::vector<Setting> tiled_settings() {
  return {{},
          {.params = {{"window", 70L}}},
          {.style = Style::rising_scores, .params = {{"causal", false}}},
          {.queries = 70}};
}
std::vector<Setting> split_decode_settings() { return {{.queries = 3}, {.params = {{"window", 70L}}, .queries = 3}}; }

constexpr KernelForm forms[] = {
    {.name = "tiled",
     .summary = "one block per query tile, online softmax over key tiles; backward in two passes",
     .sites = softmax_tiled_sites,
     .tiles = tiled_tiles,
     .mutants = tiled_mutants,
     .has_gradients = true,
     .obstacle = head_dim_obstacle,
     .run = run_tiled,
     .independent_rows = true,
     .settings = tiled_settings},
    {.name = "split_decode",
     .summary = "few queries, the keys split over blocks, partial results merged",
     .sites = softmax_decode_sites,
     .tiles = split_decode_tiles,
     .mutants = split_decode_mutants,
     .has_gradients = false,
     .obstacle = split_decode_obstacle,
     .run = run_split_decode,
     .independent_rows = true,
     .settings = split_decode_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom softmax_attention = {"softmax_attention", forms, "attention"};
}

}  // namespace assay::tile
