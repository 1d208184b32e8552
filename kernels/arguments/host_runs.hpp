#pragma once
// Attention's plans with arguments on the CPU. `Plans` names a mechanism's: tiled<Tiles> and decode<Tiles>, each of
// (device, shape, problem without arguments, launch of the scores).
#include "kernels/arguments/head_dims.hpp"
#include "kernels/frontends/operands.hpp"
#include "kernels/host/attention_device.hpp"
#include "kernels/plans/scores.hpp"

namespace assay::tile {

/// Calls f.template operator()<T, D>() with the scalar that the policy needs and a dimension that holds K and V.
template <class F>
Answer with_wide_head_dim(const Policy& policy, const AttentionShape& shape, F f) {
  const int d = std::max(shape.key_dim, shape.value_dim);
  const int dim = d > latent_head_dim ? absorbed_head_dim : d > max_head_dim ? latent_head_dim : head_dim(d);
  return with_scalar_and_dim(policy, dim, f);
}
inline std::string wide_head_dim_obstacle(const Problem& problem, int widest) {
  const AttentionShape shape(problem);
  const int d = std::max(shape.key_dim, shape.value_dim);
  if (d > latent_head_dim && d <= widest && !problem.cotangents.empty())
    return text("gradients are compiled for K and V of up to ", latent_head_dim, ", got ", d);
  return d <= widest ? "" : text("K and V are compiled in up to ", widest, ", got ", d);
}
inline std::string wide_decode_obstacle(const Problem& problem, int widest) {
  Problem forward = without_arguments(problem);
  forward.cotangents.clear();
  if (const int queries = AttentionShape(forward).queries; queries > decode_rows)
    return text("decoding takes at most ", decode_rows, " queries, got ", queries);
  return wide_head_dim_obstacle(forward, widest);
}

template <class T>
struct OperandTiles {
  using Executor = HostBlock<T>;
  static constexpr int rows = 64, dim = 64;
};
template <class Plans, class Tiles, class T>
Answer tiled_with_arguments(const Problem& problem, const Policy& policy) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  const HostAttentionDevice<T> device(shape, policy);
  return with_dequantized<OperandTiles<T>>(device, problem, [&](const Problem& own) {
    return Plans::template tiled<Tiles>(device, shape, without_arguments(own),
                                        ArgumentLaunch<HostAttentionDevice<T>>(device, shape, own));
  });
}

/// Tile 1 is the smaller one.
template <class Plans>
Answer run_tiled_with_arguments(const Problem& problem, const Policy& policy, int tile) {
  const AttentionShape shape(without_arguments(problem));
  const int n = tile == 1 ? 32 : 64;
  return with_wide_head_dim(policy, shape, [&]<class T, Size D>() {
    return with_tile({n, n, n}, [&]<Size BM, Size BF, Size BN>() {
      const auto run = [&]<Size Dim>() {
        return tiled_with_arguments<Plans, HostAttentionTiles<T, BM, BF, BN, Dim>, T>(problem, policy);
      };
      if constexpr (Plans::by_width)
        return by_width<D>(run);
      else
        return run.template operator()<D>();
    });
  });
}

template <class Plans>
Answer run_decode_with_arguments(const Problem& problem, const Policy& policy, int tile) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  return with_wide_head_dim(policy, shape, [&]<class T, Size D>() {
    const HostAttentionDevice<T> device(shape, policy);
    return with_dequantized<OperandTiles<T>>(device, problem, [&](const Problem& own) {
      const Problem own_plain = without_arguments(own);
      const ArgumentLaunch<HostAttentionDevice<T>, true> scores(device, shape, own);
      return with_decode_tile(
          tile, [&] { return Plans::template decode<HostDecodeTiles<T, D>>(device, shape, own_plain, scores); });
    });
  });
}

inline constexpr std::string_view argument_tiles[] = {"64x64", "32x32"};
inline constexpr std::string_view argument_decode_tiles[] = {"16x64/256", "16x32/64"};

}  // namespace assay::tile
