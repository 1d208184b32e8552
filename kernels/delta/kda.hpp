#pragma once
// Kimi Delta Attention, chunkwise: a triangular system in every chunk, the passes of kernels/programs/delta_pass.hpp,
// reads and gradients of kernels/programs/channel_sums.hpp. In the terms of the latter, errors are taken on the decayed
// state:
//   X = a o K,   Z = z o K,   T = (I + diag(beta) L)^{-1} by forward substitution
#include "kernels/core/functions.hpp"
#include "kernels/programs/channel_sums.hpp"
#include "kernels/programs/delta_pass.hpp"

namespace assay::tile {

/// The inverse, reads, writes and totals that the passes need of every chunk. Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK>
struct ChannelSystem {
  struct Args {
    typename B::In k, log_decay;
    typename B::RowIn beta;
    typename B::Out inverse, reads, writes;
    typename B::RowOut totals;  // DK for each chunk
    int len, group;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"alpha", C, DK> alpha;
    typename B::template Tile<"alpha", C, DK> a;
    typename B::template Tile<"alpha", C, DK> z;
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
          b.channel_prefix("decay"_s, s.a, s.alpha);
          b.channel_suffix("decay"_s, s.z, s.alpha);
          b.channel_scores("KK"_s, "decay"_s, s.L, s.K, s.K, s.alpha, b.planted("decay_index_of_errors"_s, 0, 1));
          const int n = imin(C, a.len - chunk * C), count = b.planted("tail_decay"_s, C, n < C ? n - 1 : n);
          b.store_row("decay"_s, a.totals, head, chunk * DK, b.channel_total("decay"_s, Shape<DK>{}, s.alpha, count));
          b.sync();
          auto A = in_registers(b, "KK"_s, s.L);
          const auto of_column = b.load_col("beta"_s, Shape<1, C>{}, a.beta, head, chunk * C);
          A.map("A"_s, times_beta, b.load_row("beta"_s, Shape<C>{}, a.beta, head, chunk * C), of_column);
          A.mask(strictly_lower, 0);
          b.put(s.A, A);
          auto k = in_registers(b, "X"_s, s.K);
          auto X = k;
          X.zip("X"_s, times, s.a);
          b.store("Xc"_s, a.reads, head, chunk * C, X);
          k.zip("X"_s, times, s.z);
          b.store("Zc"_s, a.writes, head, chunk * C, k);
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
