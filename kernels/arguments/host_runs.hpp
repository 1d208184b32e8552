#pragma once
// Attention's plans with arguments on the CPU. `Plans` names a mechanism's: tiled<Tiles> and decode<Tiles>, each of
// (device, shape, problem without arguments, launch of the scores).
#include "kernels/arguments/head_dims.hpp"
#include "kernels/frontends/operands.hpp"
#include "kernels/host/attention_device.hpp"
#include "kernels/plans/scores.hpp"

namespace assay::tile {

template <class F>
Answer with_wide_head_dim(const Policy& policy, const AttentionShape& shape, int widest, F f) {
  const auto with_dim = [&]<int D>() {
    return wants_long_double(policy) ? f.template operator()<long double, D>() : f.template operator()<double, D>();
  };
  const int d = std::max(shape.key_dim, shape.value_dim);
  if constexpr (!Faults::planted) {
    if (d > latent_head_dim && widest == absorbed_head_dim) return with_dim.template operator()<absorbed_head_dim>();
    if (d > max_head_dim) return with_dim.template operator()<latent_head_dim>();
  }
  return with_scalar_and_head_dim(policy, shape, f);
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
/// Of heads wider than these a forward pass alone is compiled.
template <class T, int Rows, int D>
struct ArgumentTiles : HostAttentionTiles<T, Rows, Rows, Rows, D> {
  static constexpr bool has_gradients = D <= latent_head_dim;
};
template <class Plans, class T, int Rows, int D>
Answer tiled_with_arguments(const Problem& problem, const Policy& policy) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  const HostAttentionDevice<T> device(shape, policy);
  return with_dequantized<OperandTiles<T>>(device, problem, [&](const Problem& own) {
    return Plans::template tiled<ArgumentTiles<T, Rows, D>>(device, shape, without_arguments(own),
                                                            ArgumentLaunch<HostAttentionDevice<T>>(device, shape, own));
  });
}

/// Tile 1 is the smaller one. `Widest`: what heads there are.
template <class Plans, int Widest = max_head_dim>
Answer run_tiled_with_arguments(const Problem& problem, const Policy& policy, int tile) {
  const AttentionShape shape(without_arguments(problem));
  const auto run = [&]<class T, int D>() {
    return tile == 1 ? tiled_with_arguments<Plans, T, 32, D>(problem, policy)
                     : tiled_with_arguments<Plans, T, 64, D>(problem, policy);
  };
  if constexpr (Widest > max_head_dim)
    return with_wide_head_dim(policy, shape, Widest, run);
  else
    return with_scalar_and_head_dim(policy, shape, run);
}

template <class Plans, int Widest = max_head_dim>
Answer run_decode_with_arguments(const Problem& problem, const Policy& policy, int tile) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  const auto run = [&]<class T, int D>() {
    const HostAttentionDevice<T> device(shape, policy);
    return with_dequantized<OperandTiles<T>>(device, problem, [&](const Problem& own) {
      const Problem own_plain = without_arguments(own);
      const ArgumentLaunch<HostAttentionDevice<T>, true> scores(device, shape, own);
      if (tile == 1) return Plans::template decode<HostDecodeTiles<T, 32, 64, D>>(device, shape, own_plain, scores);
      return Plans::template decode<HostDecodeTiles<T, 64, 256, D>>(device, shape, own_plain, scores);
    });
  };
  if constexpr (Widest > max_head_dim)
    return with_wide_head_dim(policy, shape, Widest, run);
  else
    return with_scalar_and_head_dim(policy, shape, run);
}

inline constexpr std::string_view argument_tiles[] = {"64x64", "32x32"};
inline constexpr std::string_view argument_decode_tiles[] = {"16x64/256", "16x32/64"};

}  // namespace assay::tile
