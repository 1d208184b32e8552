#pragma once
// Attention's plans with arguments on the CPU. `Plans` names a mechanism's: tiled<Tiles> and decode<Tiles>, each of
// (device, shape, problem without arguments, launch of the scores).
#include "kernels/host/attention_device.hpp"
#include "kernels/plans/scores.hpp"

namespace assay::tile {

template <class Plans, class T, int Rows, int D>
Answer tiled_with_arguments(const Problem& problem, const Policy& policy) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  const HostAttentionDevice<T> device(shape, policy);
  return Plans::template tiled<HostAttentionTiles<T, Rows, Rows, Rows, D>>(
      device, shape, plain, ArgumentLaunch<HostAttentionDevice<T>>(device, shape, problem));
}

/// Tile 1 is the smaller one.
template <class Plans>
Answer run_tiled_with_arguments(const Problem& problem, const Policy& policy, int tile) {
  return with_scalar_and_head_dim(policy, AttentionShape(without_arguments(problem)), [&]<class T, int D>() {
    return tile == 1 ? tiled_with_arguments<Plans, T, 32, D>(problem, policy)
                     : tiled_with_arguments<Plans, T, 64, D>(problem, policy);
  });
}

template <class Plans>
Answer run_decode_with_arguments(const Problem& problem, const Policy& policy, int tile) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  return with_scalar_and_head_dim(policy, shape, [&]<class T, int D>() {
    const HostAttentionDevice<T> device(shape, policy);
    const ArgumentLaunch<HostAttentionDevice<T>, true> scores(device, shape, problem);
    if (tile == 1) return Plans::template decode<HostDecodeTiles<T, 32, 64, D>>(device, shape, plain, scores);
    return Plans::template decode<HostDecodeTiles<T, 64, 256, D>>(device, shape, plain, scores);
  });
}

inline std::string decode_obstacle_with_arguments(const Problem& problem) {
  return split_decode_obstacle(without_arguments(problem));
}
inline constexpr std::string_view argument_tiles[] = {"64x64", "32x32"};
inline constexpr std::string_view argument_decode_tiles[] = {"16x64/256", "16x32/64"};

}  // namespace assay::tile
