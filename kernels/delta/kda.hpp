#pragma once
// Kimi Delta Attention, chunkwise: a triangular system in every chunk, the passes of kernels/programs/delta_pass.hpp,
// reads and gradients of kernels/programs/channel_sums.hpp. In the terms of the latter, errors are taken on the decayed
// state:
//   X = a o K,   Z = z o K,   T = (I + diag(beta) L)^{-1} by forward substitution
#include "kernels/core/functions.hpp"
#include "kernels/programs/channel_sums.hpp"
#include "kernels/programs/delta_pass.hpp"

namespace assay::tile {

/// L, and the inverse of every chunk's system. Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK>
struct ChannelSystem {
  struct Args {
    typename B::In k, log_decay;
    typename B::RowIn beta;
    typename B::Out read, inverse;  // read: L
    int group;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"alpha", C, DK> alpha;
    typename B::template Tile<"P", C, C> L;
    typename B::template Tile<"A", C, C> A;
    typename B::template Tile<"Tc", C, C> T;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const auto times_beta = [&](auto x, auto row, auto column) {
      return x * b.planted("beta_of_column"_s, row, column);
    };
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { b.load(s.K, a.k, head / a.group, chunk * C); },
        [&](int, int) {
          b.channel_decays("alpha"_s, s.alpha, a.log_decay, head, chunk * C);
          b.sync();
          b.channel_scores("KK"_s, "decay"_s, s.L, s.K, s.K, s.alpha, b.planted("decay_index_of_errors"_s, 0, 1));
          b.sync();
          auto A = in_registers(b, "KK"_s, s.L);
          b.store("KK"_s, a.read, head, chunk * C, A);
          const auto of_column = b.load_col("beta"_s, Shape<1, C>{}, a.beta, head, chunk * C);
          A.map("A"_s, times_beta, b.load_row("beta"_s, Shape<C>{}, a.beta, head, chunk * C), of_column);
          A.mask(strictly_lower, 0);
          b.put(s.A, A);
          b.sync();
          b.unit_lower_inverse("T"_s, s.T, s.A);
          b.sync();
          A.zip("KK"_s, copy, s.T);
          b.store("Tc"_s, a.inverse, head, chunk * C, A);
        });
  }
};

inline constexpr SiteTable::Init channel_system_site_list[] = {
    {"Lc", Role::operand},     {"KK", Role::accumulator}, {"A", Role::accumulator}, {"T", Role::accumulator},
    {"dL", Role::accumulator}, {"dX", Role::accumulator}, {"LU", Role::accumulator}};
inline constexpr SiteTable kda_sites = channel_sites.with(delta_pass_site_list).with(channel_system_site_list);

}  // namespace assay::tile
