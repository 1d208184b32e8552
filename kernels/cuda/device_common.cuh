#pragma once
// Pieces shared by the device executors: register tiles in the m16n8 accumulator layout, the swizzled shared tile, and
// everything an executor does in registers.
#include "kernels/core/same_bits.hpp"
#include "kernels/cuda/numbers.cuh"

namespace assay::tile {

template <class P, class St>
inline constexpr Format format_at = P::table.at(St::name());

TILE_FN std::uint32_t shared_address(const void* p) { return static_cast<std::uint32_t>(__cvta_generic_to_shared(p)); }

/// Shared tile: panels of 128-byte lines, 16-byte chunks XORed with the line's index, free of bank conflicts for
/// ldmatrix. A line holds one row of a panel (the same bytes as the 128-byte swizzle of TMA and wgmma) or, where the
/// tile is narrower than a panel, several rows.
template <class P, FixedString S, int R, int C>
struct alignas(1024) SharedTile {
  static constexpr Format format = format_of<P, S>;
  using E = Element<format>;
  static constexpr int rows = R, cols = C, element_bytes = sizeof(E), row_bytes = C * element_bytes;
  static constexpr int chunks = row_bytes / 16;  // 16-byte chunks in a row
  static constexpr int chunk_elements = 16 / element_bytes;
  static constexpr int rows_of_line = row_bytes < 128 ? 128 / row_bytes : 1;
  static constexpr int panel_bytes = R / rows_of_line * 128;
  static_assert((row_bytes % 128 == 0 || 128 % row_bytes == 0) && row_bytes >= 16 && R % (8 * rows_of_line) == 0);
  unsigned char raw[R * row_bytes];

  static TILE_FN int chunk_offset(int r, int chunk) {
    if constexpr (rows_of_line == 1) {
      return (chunk >> 3) * panel_bytes + r * 128 + (((chunk & 7) ^ (r & 7)) << 4);
    } else {
      const int line = r / rows_of_line;
      return line * 128 + (((r % rows_of_line * chunks + chunk) ^ (line & 7)) << 4);
    }
  }
  static TILE_FN int offset(int r, int c) { return chunk_offset(r, c * element_bytes >> 4) + (c * element_bytes & 15); }
  TILE_FN const E& at(int r, int c) const { return *reinterpret_cast<const E*>(raw + offset(r, c)); }
  TILE_FN E& at(int r, int c) { return *reinterpret_cast<E*>(raw + offset(r, c)); }
};

/// Two neighbours in a row of a tile or an array, from an even column on.
template <class E>
struct alignas(2 * sizeof(E)) TwoOf {
  E x[2];
};
template <class Tl>
TILE_FN const auto& two_at(const Tl& t, int r, int c) {
  return reinterpret_cast<const TwoOf<typename Tl::E>&>(t.at(r, c));
}

/// Four neighbours in a row of a tile, from a column on that is a multiple of 4.
template <class E>
struct alignas(16) FourOf {
  E x[4];
};
template <class Tl>
TILE_FN auto four_at(const Tl& t, int r, int c) {
  FourOf<typename Tl::E> four;
#pragma unroll
  for (int u = 0; u < 4; u += Tl::chunk_elements)
    reinterpret_cast<uint4&>(four.x[u]) = reinterpret_cast<const uint4&>(t.at(r, c + u));
  return four;
}

/// Of an array that has them, else zeros. As one word: two of 16 bits would each wait for the load.
template <class E>
TILE_FN TwoOf<E> two_if(bool there, const E* p) {
  if constexpr (sizeof(E) == 2) {
    const std::uint32_t word = there ? *reinterpret_cast<const std::uint32_t*>(p) : 0;
    return reinterpret_cast<const TwoOf<E>&>(word);
  } else {
    return there ? *reinterpret_cast<const TwoOf<E>*>(p) : TwoOf<E>{E(0.f), E(0.f)};
  }
}

/// Tiles in one memory (SideBySide on a host).
template <class A, class B, class C = Nothing>
union OneOf {
  A first;
  B second;
  C third;
};

/// Rows of an accumulator are dealt to warps in blocks of MT * 16; inside, the m16n8 layout: element i of (mt, nt) is
/// row group + 8 * (i / 2), column 2 * slot + i % 2. wgmma's m64nN accumulator is the same layout with MT = 1, four
/// warps. Where warps are a grid, `part` is the warp's column of it, `warp` its row: accumulators' columns are dealt to
/// parts, and rows of registers are the same in all.
struct Lane {
  int warp, lane, part = 0;
  TILE_FN int group() const { return lane >> 2; }
  TILE_FN int slot() const { return lane & 3; }
};

template <class T, int MT>
struct RowRegisters {
  T v[MT][2];
  TILE_FN T at(int mt, int, int i) const { return v[mt][i >> 1]; }
};
template <class T, int NT>
struct ColRegisters {
  T v[NT][2];
  TILE_FN T at(int, int nt, int i) const { return v[nt][i & 1]; }
};

template <class P, int Warps, class T, int R, int C, int Parts = 1>
struct Accumulator {
  static constexpr int rows = R, cols = C, MT = R / (16 * Warps), NT = C / (8 * Parts);
  static_assert(R % (16 * Warps) == 0 && C % (8 * Parts) == 0);
  using Row = RowRegisters<T, MT>;
  T x[MT][NT][4];
  Lane w;
  int ticket;  // of the asynchronous product that last wrote this accumulator

  TILE_FN T at(int mt, int nt, int i) const { return x[mt][nt][i]; }
  TILE_FN int row_of(int mt, int i) const { return w.warp * (MT * 16) + mt * 16 + w.group() + 8 * (i >> 1); }
  TILE_FN int col_of(int nt, int i) const { return (w.part * NT + nt) * 8 + 2 * w.slot() + (i & 1); }

  template <class F>
  TILE_FN void each(F f) {
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
      for (int nt = 0; nt < NT; ++nt)
#pragma unroll
        for (int i = 0; i < 4; ++i) f(x[mt][nt][i], mt, nt, i);
  }
  template <class St, class F, class... Rw>
  TILE_FN void map(St, F f, const Rw&... rw) {
    each([&](T& y, int mt, int nt, int i) { y = round_as<format_at<P, St>>(T(f(y, rw.at(mt, nt, i)...))); });
  }
  template <class Pr>
  TILE_FN void mask(Pr keep, T fill) {
    each([&](T& y, int mt, int nt, int i) { y = keep(row_of(mt, i), col_of(nt, i)) ? y : fill; });
  }
  template <class Pr>
  TILE_FN void mask(Pr keep, const Accumulator& fill) {
    each([&](T& y, int mt, int nt, int i) { y = keep(row_of(mt, i), col_of(nt, i)) ? y : fill.x[mt][nt][i]; });
  }
  /// o: an accumulator or a shared tile of the same shape.
  template <class St, class F, class X, class... Rw>
  TILE_FN void zip(St, F f, const X& o, const Rw&... rw) {
    static_assert(X::rows == R && X::cols == C);
    each([&](T& y, int mt, int nt, int i) {
      T other;
      if constexpr (requires { o.raw; })
        other = T(two_at(o, row_of(mt, i), col_of(nt, 0)).x[i & 1]);
      else
        other = o.at(mt, nt, i);
      y = round_as<format_at<P, St>>(T(f(y, other, rw.at(mt, nt, i)...)));
    });
  }
  TILE_FN void scale(const Row& s) {
    each([&](T& y, int mt, int, int i) { y = rounded_product(y, s.v[mt][i >> 1]); });
  }
  TILE_FN Row row_max() const {
    static_assert(Parts == 1);
    Row m;
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        T a = maxi(x[mt][0][2 * h], x[mt][0][2 * h + 1]);
#pragma unroll
        for (int nt = 1; nt < NT; ++nt) a = maxi(a, maxi(x[mt][nt][2 * h], x[mt][nt][2 * h + 1]));
        a = maxi(a, __shfl_xor_sync(~0u, a, 1));
        m.v[mt][h] = maxi(a, __shfl_xor_sync(~0u, a, 2));
      }
    return m;
  }
};

/// This thread's share of each row sum.
template <class T, int MT>
struct PartialRegisters {
  T v[MT][2];
  template <class A>
  TILE_FN void fold(const RowRegisters<T, MT>& alpha, const A& a) {
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        T s = rounded_product(v[mt][h], alpha.v[mt][h]);
#pragma unroll
        for (int nt = 0; nt < A::NT; ++nt) {
          s += a.x[mt][nt][2 * h];
          s += a.x[mt][nt][2 * h + 1];
        }
        v[mt][h] = s;
      }
  }
  TILE_FN RowRegisters<T, MT> total() const {
    RowRegisters<T, MT> r;
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        T s = v[mt][h];
        s += __shfl_xor_sync(~0u, s, 1);
        r.v[mt][h] = s + __shfl_xor_sync(~0u, s, 2);
      }
    return r;
  }
};

/// Register-only collectives, common to the executors that compute.
template <class P, int Warps, int Parts = 1>
struct RegisterOps {
  using Real = typename P::Real;
  Lane w;

  using RowIn = RowsIn;
  using RowOut = RowsOut;
  using Out = MatrixOut;

  /// The healthy value: faults exist in test builds of the CPU executor only.
  template <class St, class A>
  TILE_FN static constexpr A planted(St, A healthy, std::type_identity_t<A>) {
    return healthy;
  }

  /// The units of a head's operands: known to be ones unless the site's format has 8 bits.
  template <class St, class Units>
  TILE_FN static Units units(St, const Units* p, int head) {
    if constexpr (info(format_at<P, St>).bits == 8)
      return p[head];
    else
      return {};
  }

  template <class St>
  using Sum = std::conditional_t<format_at<P, St> == Format::fp64, double, float>;

  template <class St, int R, int C>
  TILE_FN auto fresh(St, Shape<R, C>) {
    static_assert(format_at<P, St> == Format::fp32 || format_at<P, St> == Format::fp64,
                  "accumulators are fp32 or fp64 on the device");
    Accumulator<P, Warps, Sum<St>, R, C, Parts> a;
    a.w = w;
    a.ticket = 0;
    return a;
  }
  template <class St, int R, int C>
  TILE_FN auto acc(St st, Shape<R, C> shape) {
    auto a = fresh(st, shape);
    a.each([](auto& y, int, int, int) { y = 0; });
    return a;
  }
  template <class St, int R>
  TILE_FN auto row(St, Shape<R>, Real x) {
    RowRegisters<Real, R / (16 * Warps)> r;
    each_row(r, [&](Real& y, int) { y = round_as<format_at<P, St>>(x); });
    return r;
  }
  template <class St, int R>
  TILE_FN auto partial(St, Shape<R> shape) {
    return of_part(shape);
  }
  template <class St, class F, class T, int MT, class... Rw>
  TILE_FN RowRegisters<T, MT> rows(St, F f, const RowRegisters<T, MT>& x, const Rw&... y) {
    RowRegisters<T, MT> o;
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
      for (int h = 0; h < 2; ++h) o.v[mt][h] = round_as<format_at<P, St>>(T(f(x.v[mt][h], y.v[mt][h]...)));
    return o;
  }

  template <class St, int R>
  TILE_FN auto load_row(St, Shape<R>, const RowIn& g, int head, int row0) {
    RowRegisters<Real, R / (16 * Warps)> o;
    const Numbers numbers(g, head, row0);
    each_row(o, [&](Real& y, int r) { y = round_as<format_at<P, St>>(numbers.at(r)); });
    return o;
  }
  template <class St, int C>
  TILE_FN auto load_col(St, Shape<1, C>, const RowIn& g, int head, int col0) {
    constexpr int NT = C / (8 * Parts);
    ColRegisters<Real, NT> o;
    const Numbers numbers(g, head, col0);
    const auto load = [&](auto at) {
#pragma unroll
      for (int nt = 0; nt < NT; ++nt)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          o.v[nt][i] = round_as<format_at<P, St>>(at((w.part * NT + nt) * 8 + 2 * w.slot() + i));
    };
    if (numbers.step == 1 && C <= numbers.count)  // within loops over tiles: their addresses are constants apart
      load([&](int c) { return numbers.p[c]; });
    else
      load([&](int c) { return numbers.at(c); });
    return o;
  }
  template <class St, class T, int MT>
  TILE_FN void store_row(St, const RowOut& g, int head, int row0, const RowRegisters<T, MT>& x) {
    if (g.p == nullptr || w.slot() != 0 || w.part != 0) return;
    Real* const p = static_cast<Real*>(g.p) + g.at(head, row0);
    each_row(x, [&](const T& y, int r) {
      if (row0 + r < g.rows) p[r * g.beside] = round_as<format_at<P, St>>(y);
    });
  }
  /// Of this part's columns, as is that of tiles.
  template <class St, class A>
  requires requires(const A& x) { x.x; }
  TILE_FN auto dot(St, const A& x, const A& y) {
    auto p = of_part(Shape<A::rows>{});
#pragma unroll
    for (int mt = 0; mt < A::MT; ++mt)
#pragma unroll
      for (int nt = 0; nt < A::NT; ++nt)
#pragma unroll
        for (int i = 0; i < 4; ++i) p.v[mt][i >> 1] += x.x[mt][nt][i] * y.x[mt][nt][i];
    return p.total();
  }

  /// The dot product of each row of two shared tiles, summed in the order of an accumulator's.
  template <class St, class X, class Y>
  requires requires(const X& x) { x.raw; }
  TILE_FN auto dot(St, const X& x, const Y& y) {
    constexpr int NT = X::cols / (8 * Parts);
    auto p = of_part(Shape<X::rows>{});
    each_row(p, [&](Real& sum, int r) {
#pragma unroll
      for (int nt = 0; nt < NT; ++nt) {
        const int c = (w.part * NT + nt) * 8 + 2 * w.slot();
        const auto a = two_at(x, r, c), b = two_at(y, r, c);
        sum += Real(a.x[0]) * Real(b.x[0]);
        sum += Real(a.x[1]) * Real(b.x[1]);
      }
    });
    return p.total();
  }

  template <class St, class A>
  TILE_FN void store(St, const Out& g, int head, int row0, const A& a, int col0 = 0) {
    constexpr Format F = format_at<P, St>;
    using E = Element<F>;
    const int first = col0 + w.part * A::NT * 8, step = g.beside * g.cols;
    E* const base = static_cast<E*>(g.p) + g.at(head, row0) * g.cols + first + 2 * w.slot();
#pragma unroll
    for (int mt = 0; mt < A::MT; ++mt)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int r = a.row_of(mt, 2 * h);
        if (row0 + r >= g.rows) continue;
        E* p = base + r * step;
#pragma unroll
        for (int nt = 0; nt < A::NT; ++nt) {
          if (first + nt * 8 >= g.cols) continue;  // the launch admits multiples of 8 only
          write_two<F>(p + nt * 8, a.x[mt][nt][2 * h], a.x[mt][nt][2 * h + 1]);
        }
      }
  }

  /// f(value, row) for the rows this thread holds.
  template <class Row, class F>
  TILE_FN void each_row(Row& r, F f) const {
    constexpr int MT = sizeof(r.v) / sizeof(r.v[0]);
#pragma unroll
    for (int mt = 0; mt < MT; ++mt)
#pragma unroll
      for (int h = 0; h < 2; ++h) f(r.v[mt][h], w.warp * (MT * 16) + mt * 16 + w.group() + 8 * h);
  }
  /// Zeros.
  template <int R>
  TILE_FN auto of_part(Shape<R>) {
    PartialRegisters<Real, R / (16 * Warps)> r;
    each_row(r, [](Real& y, int) { y = 0; });
    return r;
  }
  /// A head's from a row on; zeros beyond the array.
  struct Numbers {
    const Real* p;
    int step, count;
    TILE_FN Numbers(const RowIn& g, int head, int row0)
        : p(static_cast<const Real*>(g.p) + g.at(head, row0)), step(g.beside), count(g.rows - row0) {}
    TILE_FN Real at(int r) const { return r < count ? p[r * step] : Real(0); }
  };
  TILE_FN static float exponential(float x) { return ::expf(x); }
  TILE_FN static double exponential(double x) { return ::exp(x); }
};

}  // namespace assay::tile
