#pragma once
// Reads normalized by features: sums of kernels/programs/decayed_sums.hpp over a denominator n = mass + eps, where the
// mass is the same sum with one more value column, of the weights that the values had:
//   o = sums / n;   backward: dsums = do / n,   dmass = -<do, o> / n
// Nothing over nothing is a state that is still empty: it reads 0 and has no gradient.
#include "kernels/core/functions.hpp"
#include "kernels/programs/decayed_sums.hpp"

namespace assay::tile {

/// Columns of the mass: the first holds it, the others are zero.
inline constexpr int mass_columns = 16;

/// o from the sums. Blocks are pairs of C tokens and DV columns.
template <ExecutorTypes B, Size C, Size DV>
struct NormalizedRead {
  using Real = typename B::Real;
  struct Args {
    typename B::In sums, mass;
    typename B::Out o;
    Real eps;
    int blocks;
  };
  struct Smem {
    typename B::template Tile<"sums", C, DV> sums;
    typename B::template Tile<"sums", C, mass_columns> mass;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int row0 = block / a.blocks * C, v0 = block % a.blocks * DV;
    const auto over_features = [](auto x, auto n) { return n != 0 || x != 0 ? x / n : n; };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.sums, a.sums, head, row0, v0);
          b.load(s.mass, a.mass, head, row0);
        },
        [&](int, int) {
          auto O = in_registers(b, "o"_s, s.sums);
          O.map("o"_s, over_features, denominator(b, s.mass, a.eps));
          b.store("out"_s, a.o, head, row0, O, v0);
        });
  }

  /// n of C tokens.
  template <class Ex, class Mass>
  TILE_FN static auto denominator(Ex& b, Mass& mass, Real eps) {
    auto m = b.acc("n"_s, Shape<C, mass_columns>{}), one = b.acc("n"_s, Shape<C, mass_columns>{});
    m.zip(
        "n"_s, [](auto, auto x) { return x; }, mass);
    one.map("n"_s, [](auto x) { return x + 1; });
    return b.rows(
        "n"_s, [&](auto x) { return x + b.planted("eps_forgotten"_s, eps, Real{0}); }, b.dot("n"_s, m, one));
  }
};

/// Cotangents of the sums and the mass, from that of o. Blocks are C tokens.
template <ExecutorTypes B, Size C, Size DV, int ST>
struct NormalizedReadBackward {
  using Real = typename B::Real;
  struct Args {
    typename B::In sums, mass, o_cotangent;
    typename B::Out dsums, dmass;
    Real eps;
    int blocks;
  };
  struct Smem {
    typename B::template Tile<"sums", C, DV> sums[ST];
    typename B::template Tile<"dO", C, DV> dO[ST];
    typename B::template Tile<"sums", C, mass_columns> mass;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int row0 = block * C;
    const auto dmass_of = [&](auto, auto dn) { return b.planted("mass_is_constant"_s, dn, dn * 0); };
    auto dn = b.row("dn"_s, Shape<C>{}, 0);
    b.load(s.mass, a.mass, head, row0);
    b.pipeline(
        Shape<ST>{}, a.blocks,
        [&](int j, int st) {
          b.load(s.sums[st], a.sums, head, row0, j * DV);
          b.load(s.dO[st], a.o_cotangent, head, row0, j * DV);
        },
        [&](int j, int st) {
          auto n = NormalizedRead<B, C, DV>::denominator(b, s.mass, a.eps);
          auto O = b.acc("o"_s, Shape<C, DV>{}), Y = b.acc("o"_s, Shape<C, DV>{});
          O.zip("o"_s, copy, s.sums[st]);
          O.map("o"_s, over_or_zero, n);
          Y.zip("o"_s, copy, s.dO[st]);
          Y.map("o"_s, over_or_zero, n);
          b.store("dO"_s, a.dsums, head, row0, Y, j * DV);
          dn = b.rows("dn"_s, minus, dn, b.dot("dn"_s, O, Y));
        });
    auto dmass = b.acc("o"_s, Shape<C, mass_columns>{});
    dmass.map("o"_s, dmass_of, dn);
    dmass.mask([](int, int c) { return c == 0; }, 0);
    b.store("dO"_s, a.dmass, head, row0, dmass);
  }
};

inline constexpr SiteTable::Init normalized_read_site_list[] = {
    {"sums", Role::accumulator}, {"n", Role::accumulator}, {"dn", Role::accumulator}, {"eps", Role::gate}};

}  // namespace assay::tile
