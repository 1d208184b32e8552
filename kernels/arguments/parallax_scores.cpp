// Parallax's tile programs with arguments, on the CPU.
#include "kernels/arguments/parallax_scores.hpp"

#include "kernels/arguments/host_runs.hpp"
#include "kernels/arguments/rooms.hpp"
#include "kernels/plans/parallax.hpp"

namespace assay::tile {
namespace {

struct Plans {
  static constexpr bool by_width = true;
  template <class Tiles, class... Args>
  static Answer tiled(const Args&... args) {
    return parallax_tiled_plan<Tiles, false>(args...);
  }
  template <class Tiles, class... Args>
  static Answer decode(const Args&... args) {
    return parallax_decode_plan<Tiles>(args...);
  }
};

/// The probe's part of dk shares an accumulator with the scores', in units of the scale.
std::string tiled_obstacle(const Problem& problem) {
  return scale_of(problem) == 0 ? "no tile program of parallax takes a scale of 0"
                                : wide_head_dim_obstacle(without_arguments(problem), latent_head_dim);
}
std::string decode_obstacle(const Problem& problem) { return wide_decode_obstacle(problem, latent_head_dim); }

constexpr Mutant tiled_mutants[] = {
    {"score_times_its_tanh", "s tanh(s) in place of c tanh(s / c)", "FA#2402"},
    {"slope_of_the_cap_forgotten", "backward: dS = D, without 1 - tanh^2", "FA#2544 class"},
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
    {"lse_off_by_ln_2", "lse larger by ln 2", "pytorch#181645"},
    {"score_times_its_tanh", "s tanh(s) in place of c tanh(s / c)", "FA#2402"},
    {"aligned_at_the_first_key", "rows counted from the first key where the end is meant", "mlx#2835"},
};

constexpr KernelForm forms[] = {
    {.name = "tiled",
     .summary = "one block per query tile, streaming state over key tiles; backward in two passes",
     .sites = parallax_scores_sites,
     .tiles = argument_tiles,
     .mutants = tiled_mutants,
     .has_gradients = true,
     .obstacle = tiled_obstacle,
     .run = run_tiled_with_arguments<Plans>,
     .independent_rows = true},
    {.name = "split_decode",
     .summary = "few queries, the keys split over blocks, partial results merged",
     .sites = parallax_scores_decode_sites,
     .tiles = argument_decode_tiles,
     .mutants = decode_mutants,
     .has_gradients = false,
     .obstacle = decode_obstacle,
     .run = run_decode_with_arguments<Plans>,
     .independent_rows = true},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom parallax_with_arguments = {"parallax", forms, "arguments"};
}

}  // namespace assay::tile
