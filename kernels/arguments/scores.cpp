// Tile programs of softmax attention and of Parallax with arguments, on the CPU.
#include "kernels/arguments/scores.hpp"

#include "kernels/arguments/host_runs.hpp"
#include "kernels/arguments/rooms.hpp"
#include "kernels/plans/parallax.hpp"
#include "kernels/plans/softmax_attention.hpp"

namespace assay::tile {
namespace {

constexpr std::array decode_mutants{
    Mutant{"lse_off_by_ln_2", "lse larger by ln 2", "pytorch#181645"},
    Mutant{"score_times_its_tanh", "s tanh(s) in place of c tanh(s / c)", "FA#2402"},
    Mutant{"aligned_at_the_first_key", "rows counted from the first key where the end is meant", "mlx#2835"},
};
constexpr std::array tiled_mutants = joined(
    decode_mutants,
    std::array{
        Mutant{"slope_of_the_cap_forgotten", "backward: dS = D, without 1 - tanh^2", "FA#2544 class"},
        Mutant{"lse_cotangent_dropped", "backward: d_lse is not read", "FA2, FA3"},
        Mutant{"alibi_gradient_of_the_other_form",
               "d_alibi_slopes of signed distances for absolute ones, and vice versa", "FA#2876"},
        Mutant{"bias_after_the_cap", "a bias added after the cap, wherever it belongs", "FlashInfer variants.cuh"},
        Mutant{"bias_gradient_without_scale", "d_bias of one that enters before the scale, without it",
               "TE pre_scale_bias"},
        Mutant{"documents_ignored", "rows see keys of other documents", "pytorch#158212"},
        Mutant{"mask_of_the_next_key", "a mask is read one key too far", "mlx#3360"},
        Mutant{"window_one_off_at_unequal_lengths", "a window one wider where Tq and Tk differ", "FA#2876 class"},
    });
constexpr std::array base_of_sink{Mutant{"sink_in_base_e", "the sink's logit not in base 2", "vllm-metal#550"}};
constexpr std::array split_sink_mutants = joined(
    base_of_sink,
    std::array{Mutant{"sink_in_every_split", "the sink in every split and in the merge", "FlashInfer, split keys"}});
constexpr std::array sink_mutants = joined(
    base_of_sink,
    std::array{
        Mutant{"scale_of_the_next_block", "operands times the scale of the block behind", "vllm#53681"},
        Mutant{"gradient_of_codes_without_scale", "backward: dx = dx^ without the scale", "vllm#50085 class"},
        Mutant{"sink_counted_twice", "the sink's weight added twice to the sum", "FlashInfer, split keys"},
        Mutant{"sink_left_out_of_the_backward", "backward: weights whose sum is without the sink", "cudnn-fe#421"},
    });

struct OfSoftmax {
  static constexpr bool by_width = false;
  static constexpr int widest = absorbed_head_dim;
  static constexpr const SiteTable &tiled_sites = softmax_scores_sites, &decode_sites = softmax_scores_decode_sites;
  static constexpr auto tiled_faults = joined(sink_mutants, tiled_mutants);
  static constexpr auto decode_faults = joined(split_sink_mutants, decode_mutants);
  static constexpr std::string_view summary =
      "one block per query tile, online softmax over key tiles; backward in two passes";
  template <class Tiles, class... Args>
  static Answer tiled(const Args&... args) {
    return softmax_tiled_plan<Tiles>(args...);
  }
  template <class Tiles, class... Args>
  static Answer decode(const Args&... args) {
    return softmax_decode_plan<Tiles>(args...);
  }
  static std::string obstacle(const Problem&) { return ""; }
};

struct OfParallax {
  static constexpr bool by_width = true;
  static constexpr int widest = latent_head_dim;
  static constexpr const SiteTable &tiled_sites = parallax_scores_sites, &decode_sites = parallax_scores_decode_sites;
  static constexpr auto& tiled_faults = tiled_mutants;
  static constexpr auto& decode_faults = decode_mutants;
  static constexpr std::string_view summary =
      "one block per query tile, streaming state over key tiles; backward in two passes";
  template <class Tiles, class... Args>
  static Answer tiled(const Args&... args) {
    return parallax_tiled_plan<Tiles, false>(args...);
  }
  template <class Tiles, class... Args>
  static Answer decode(const Args&... args) {
    return parallax_decode_plan<Tiles>(args...);
  }
  /// The probe's part of dk shares an accumulator with the scores', in units of the scale.
  static std::string obstacle(const Problem& problem) {
    return scale_of(problem) == 0 ? "no tile program of parallax takes a scale of 0" : "";
  }
};

template <class Plans>
std::string tiled_obstacle(const Problem& problem) {
  const std::string own = Plans::obstacle(problem);
  return own.empty() ? wide_head_dim_obstacle(without_arguments(problem), Plans::widest) : own;
}
template <class Plans>
std::string decode_obstacle(const Problem& problem) {
  return wide_decode_obstacle(problem, Plans::widest);
}

template <class Plans>
constexpr KernelForm forms[2] = {
    {.name = "tiled",
     .summary = Plans::summary,
     .sites = Plans::tiled_sites,
     .tiles = argument_tiles,
     .mutants = Plans::tiled_faults,
     .has_gradients = true,
     .obstacle = tiled_obstacle<Plans>,
     .run = run_tiled_with_arguments<Plans>,
     .independent_rows = true},
    {.name = "split_decode",
     .summary = "few queries, the keys split over blocks, partial results merged",
     .sites = Plans::decode_sites,
     .tiles = argument_decode_tiles,
     .mutants = Plans::decode_faults,
     .has_gradients = false,
     .obstacle = decode_obstacle<Plans>,
     .run = run_decode_with_arguments<Plans>,
     .independent_rows = true},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom softmax_attention_with_arguments = {"softmax_attention", forms<OfSoftmax>, "arguments"};
extern const KernelRoom parallax_with_arguments = {"parallax", forms<OfParallax>, "arguments"};
}  // namespace kernel_rooms

}  // namespace assay::tile
