// Softmax attention's tile programs with arguments, on the CPU.
#include "kernels/arguments/softmax_scores.hpp"

#include "kernels/arguments/rooms.hpp"
#include "kernels/host/attention_device.hpp"
#include "kernels/plans/softmax_attention.hpp"

namespace assay::tile {
namespace {

template <class T, int Rows, int D>
Answer tiled(const Problem& problem, const Policy& policy) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  const HostAttentionDevice<T> device(shape, policy);
  return softmax_tiled_plan<HostAttentionTiles<T, Rows, Rows, Rows, D>>(
      device, shape, plain, ArgumentLaunch<HostAttentionDevice<T>>(device, shape, problem));
}

Answer run_tiled(const Problem& problem, const Policy& policy, int tile) {
  return with_scalar_and_head_dim(policy, AttentionShape(without_arguments(problem)), [&]<class T, int D>() {
    return tile == 1 ? tiled<T, 32, D>(problem, policy) : tiled<T, 64, D>(problem, policy);
  });
}

Answer run_split_decode(const Problem& problem, const Policy& policy, int tile) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  return with_scalar_and_head_dim(policy, shape, [&]<class T, int D>() {
    const HostAttentionDevice<T> device(shape, policy);
    const ArgumentLaunch<HostAttentionDevice<T>, true> scores(device, shape, problem);
    if (tile == 1) return softmax_decode_plan<HostDecodeTiles<T, 32, 64, D>>(device, shape, plain, scores);
    return softmax_decode_plan<HostDecodeTiles<T, 64, 256, D>>(device, shape, plain, scores);
  });
}

std::string tiled_obstacle(const Problem& problem) { return head_dim_obstacle(without_arguments(problem)); }
std::string decode_obstacle(const Problem& problem) { return split_decode_obstacle(without_arguments(problem)); }

constexpr std::string_view tiled_tiles[] = {"64x64", "32x32"};
constexpr std::string_view decode_tiles[] = {"16x64/256", "16x32/64"};

constexpr Mutant tiled_mutants[] = {
    {"score_times_its_tanh", "s tanh(s) in place of c tanh(s / c)", "FA#2402"},
    {"slope_of_the_cap_forgotten", "backward: dS = D, without 1 - tanh^2", "mlx#3452"},
    {"sink_counted_twice", "the sink's weight added twice to the sum", "FlashInfer, split keys"},
    {"sink_in_base_e", "the sink's logit not in base 2", "vllm-metal#550"},
    {"lse_off_by_ln_2", "lse larger by ln 2", "pytorch#181645"},
    {"lse_cotangent_dropped", "backward: d_lse is not read", "FA2, FA3"},
    {"alibi_gradient_of_the_other_form", "d_alibi_slopes of signed distances for absolute ones, and vice versa",
     "FA#2876"},
    {"bias_after_the_cap", "a bias added after the cap, wherever it belongs", "FlashInfer variants.cuh"},
    {"bias_gradient_without_scale", "d_bias of one that enters before the scale, without it", "TE pre_scale_bias"},
    {"documents_ignored", "rows see keys of other documents", "pytorch#158212"},
    {"mask_of_the_next_key", "a mask is read one key too far", "mlx#3360"},
    {"window_one_off_at_unequal_lengths", "a window one wider where Tq and Tk differ", "FA#2876 class"},
    {"aligned_at_the_first_key", "rows counted from the first key where the end is meant", "mlx#2835"},
};
constexpr Mutant decode_mutants[] = {
    {"sink_in_every_split", "the sink in every split and in the merge", "FlashInfer, split keys"},
    {"sink_in_base_e", "the sink's logit not in base 2", "vllm-metal#550"},
    {"lse_off_by_ln_2", "lse larger by ln 2", "pytorch#181645"},
    {"score_times_its_tanh", "s tanh(s) in place of c tanh(s / c)", "FA#2402"},
    {"aligned_at_the_first_key", "rows counted from the first key where the end is meant", "mlx#2835"},
};

constexpr KernelForm forms[] = {
    {.name = "tiled",
     .summary = "one block per query tile, online softmax over key tiles; backward in two passes",
     .sites = softmax_scores_sites,
     .tiles = tiled_tiles,
     .mutants = tiled_mutants,
     .has_gradients = true,
     .obstacle = tiled_obstacle,
     .run = run_tiled,
     .independent_rows = true},
    {.name = "split_decode",
     .summary = "few queries, the keys split over blocks, partial results merged",
     .sites = softmax_scores_decode_sites,
     .tiles = decode_tiles,
     .mutants = decode_mutants,
     .has_gradients = false,
     .obstacle = decode_obstacle,
     .run = run_split_decode,
     .independent_rows = true},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom softmax_attention_with_arguments = {"softmax_attention", forms, "arguments"};
}

}  // namespace assay::tile
