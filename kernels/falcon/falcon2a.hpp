#pragma once
// FALCON-2A, chunkwise (falcon-family.md 4.5 with windows of one pair): the step sizes and decays of
// kernels/programs/falcon_gain.hpp, and the programs of kernels/programs/decayed_sums.hpp on what is written, U = eta o
// V, with those of kernels/programs/normalized_read.hpp where reads are normalized: there the weights are eta.
// Backward:
//   dV = eta o dU,   deta = rowsum(dU o V) + dweight
#include "kernels/core/functions.hpp"
#include "kernels/programs/falcon_gain.hpp"
#include "kernels/programs/normalized_read.hpp"

namespace assay::tile {

/// U. Blocks are pairs of C tokens and DV columns.
template <ExecutorTypes B, Size C, Size DV>
struct StepValues {
  struct Args {
    typename B::In v;
    typename B::RowIn eta;
    typename B::Out u;
    int blocks;
  };
  struct Smem {
    typename B::template Tile<"V", C, DV> V;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int row0 = block / a.blocks * C, v0 = block % a.blocks * DV;
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { b.load(s.V, a.v, head, row0, v0); },
        [&](int, int) {
          auto U = in_registers(b, "X"_s, s.V);
          U.map("X"_s, times, b.load_row("eta"_s, Shape<C>{}, a.eta, head, row0));
          b.store("V"_s, a.u, head, row0, U, v0);
        });
  }
};

/// dV and deta. Blocks are C tokens.
template <ExecutorTypes B, Size C, Size DV, int ST>
struct StepValuesBackward {
  struct Args {
    typename B::In v, du;
    typename B::RowIn eta, dweight;  // dweight: no rows where reads are not normalized
    typename B::Out dv;
    typename B::RowOut deta;
    int blocks;
  };
  struct Smem {
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"dU", C, DV> dU[ST];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int row0 = chunk * C;
    const auto first = [&](auto x) { return b.planted("deta_without_weight"_s, x, x * 0); };
    auto deta = b.rows("deta"_s, first, b.load_row("deta"_s, Shape<C>{}, a.dweight, head, row0));
    b.pipeline(
        Shape<ST>{}, a.blocks,
        [&](int j, int st) {
          b.load(s.V[st], a.v, head, row0, j * DV);
          b.load(s.dU[st], a.du, head, row0, j * DV);
        },
        [&](int j, int st) {
          deta = b.rows("deta"_s, plus, deta, b.dot("deta"_s, s.V[st], s.dU[st]));
          auto dV = in_registers(b, "X"_s, s.dU[st]);
          dV.map("X"_s, times, b.load_row("eta"_s, Shape<C>{}, a.eta, head, row0));
          b.store("out"_s, a.dv, head, row0, dV, j * DV);
        });
    b.store_row("dbeta"_s, a.deta, head, row0, deta);
  }
};

inline constexpr SiteTable::Init step_values_site_list[] = {
    {"beta", Role::gate}, {"dbeta", Role::gate}, {"deta", Role::accumulator}, {"dU", Role::output}};
inline constexpr SiteTable falcon2a_sites = decayed_sums_sites.with(decay_site_list)
                                                .with(normalized_read_site_list)
                                                .with(falcon_gain_site_list)
                                                .with(step_values_site_list);

}  // namespace assay::tile
