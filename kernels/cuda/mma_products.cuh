#pragma once
// Products of MmaBlock on tensor cores, and the triangular inverse.
#include "kernels/cuda/mma_memory.cuh"
#include "kernels/cuda/tensor_core_atoms.cuh"

namespace assay::tile {

template <class P_, int Warps_, int Parts_>
struct MmaProducts : MmaMemory<P_, Warps_, Parts_> {
  using P = P_;
  using Base = MmaMemory<P, Warps_, Parts_>;
  using Base::Base, Base::threads, Base::w, Base::Warps, Base::Parts;
  using typename Base::Real;

  // ---- left operands ----------------------------------------------------------------
  template <Format F, int R, int C>
  struct Operand {
    static constexpr Format format = F;
    static constexpr int rows = R, cols = C, MT = R / (16 * Warps), KT = C / Atom<F>::depth;
    typename Atom<F>::Register a[MT][KT][4];
  };
  template <class St, class A>
  TILE_FN auto cast(St, const A& s) {
    static_assert(Parts == 1, "a row's columns are in one warp");
    constexpr Format F = format_at<P, St>;
    Operand<F, A::rows, A::cols> o;
#pragma unroll
    for (int mt = 0; mt < o.MT; ++mt)
#pragma unroll
      for (int k = 0; k < o.KT; ++k) {
        auto& r = o.a[mt][k];
        if constexpr (Atom<F>::depth == 16) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            r[i] = pack2<F>(s.x[mt][2 * k + i / 2][2 * (i % 2)], s.x[mt][2 * k + i / 2][2 * (i % 2) + 1]);
        } else {
          r[0] = Atom<F>::convert(s.x[mt][k][0]), r[1] = Atom<F>::convert(s.x[mt][k][2]);
          r[2] = Atom<F>::convert(s.x[mt][k][1]), r[3] = Atom<F>::convert(s.x[mt][k][3]);
        }
      }
    return o;
  }

  // ---- products: of factors in one format on tensor cores; of others, and of fp32, by multiply_wide.
  template <class C, class A, class B>
  TILE_FN void mma_abt(C& c, const A& a, const B& b) {
    multiply<true>(b, c, a);
  }
  template <class C, class A, class B>
  TILE_FN void mma(C& c, const A& a, const B& b) {
    multiply<false>(b, c, a);
  }
  template <class C1, class A1, class C2, class A2, class B>
  TILE_FN void mma(C1& c1, const A1& a1, C2& c2, const A2& a2, const B& b) {
    multiply<false>(b, c1, a1, c2, a2);
  }
  template <class C, class A, class B>
  TILE_FN void mma_atb(C& c, const A& a, const B& b) {
    multiply<false>(b, c, Transposed<A>{a});
  }
  template <class St, class A, class B>
  TILE_FN auto abt(St st, const A& a, const B& b) {
    auto c = this->acc(st, Shape<A::rows, B::rows>{});
    multiply<true>(b, c, a);
    return c;
  }
  template <class S1, class S2, class A1, class A2, class B>
  TILE_FN auto abt(S1 s1, S2 s2, const A1& a1, const A2& a2, const B& b) {
    auto c1 = this->acc(s1, Shape<A1::rows, B::rows>{});
    auto c2 = this->acc(s2, Shape<A2::rows, B::rows>{});
    multiply<true>(b, c1, a1, c2, a2);
    return Two<decltype(c1), decltype(c2)>{c1, c2};
  }
  template <class St, class A, class B>
  TILE_FN auto ab(St st, const A& a, const B& b) {
    auto c = this->acc(st, Shape<A::rows, B::cols>{});
    multiply<false>(b, c, a);
    return c;
  }
  template <class St, class A, class B>
  TILE_FN auto atb(St st, const A& a, const B& b) {
    auto c = this->acc(st, Shape<A::cols, B::cols>{});
    mma_atb(c, a, b);
    return c;
  }

  // Of the pairs of a level alone: blocks of 16 rows and 16 columns that have none are left out.
  template <class C, class A, class B>
  TILE_FN void mma_abt(Level level, C& c, const A& a, const B& b) {
    sum_pairs(level, b, c, a);
  }
  template <class C1, class A1, class C2, class A2, class B>
  TILE_FN void mma_abt(Level level, C1& c1, const A1& a1, C2& c2, const A2& a2, const B& b) {
    sum_pairs(level, b, c1, a1, c2, a2);
  }
  template <class C, class A, class B>
  TILE_FN void mma(Level level, C& c, const A& a, const B& b) {
    multiply_pairs(c, PairsOf<A>{a, level}, b);
  }
  template <class C, class A, class B>
  TILE_FN void mma_atb(Level level, C& c, const A& a, const B& b) {
    multiply_pairs(c, PairsOf<Transposed<A>>{Transposed<A>{a}, level}, b);
  }

  // mma.sync is synchronous: what other executors overlap happens at once.
  template <class St, class A, class B>
  TILE_FN auto abt_async(St st, const A& a, const B& b) {
    return abt(st, a, b);
  }
  template <class C, class A, class B>
  TILE_FN void mma_async(C& c, const A& a, const B& b) {
    mma(c, a, b);
  }
  template <class C>
  TILE_FN void await(C&) {}
  template <class F>
  TILE_FN auto exclusive(F f) {
    return f();
  }

  /// d = (I + a)^{-1} for a strictly lower, in a's memory: of blocks of 16 by forward substitution, and then of halves
  /// of 2s rows, of which it has the inverses X and Y, and Z below X: -Y Z X.
  template <class St, class Dst, class Src>
  TILE_FN void unit_lower_inverse(St, Dst& d, Src& a) {
    constexpr int N = Src::rows;
    static_assert(Src::cols == N && N <= threads && N % 16 == 0);
    static_assert(Src::format == format_at<P, St> && (Src::format == Format::fp32 || Src::format == Format::fp64));
    if (threadIdx.x < N) invert_blocks(a);
    this->sync();
    static_assert(N <= 64);
    if constexpr (N >= 32) join_halves<16>(a);
    if constexpr (N >= 64) join_halves<32>(a);
    for (int e = threadIdx.x; e < N * N; e += threads) {
      const int i = e / N, j = e % N;
      d.at(i, j) = typename Dst::E(round_as<Dst::format>(j <= i ? a.at(i, j) : typename Src::E(0)));
    }
  }

 private:
  /// A column of the inverse of a block for each of N threads; rows subtract their products in ascending order.
  template <class Src>
  TILE_FN static void invert_blocks(Src& a) {
    using T = typename Src::E;
    const int j = threadIdx.x % 16, first = threadIdx.x - j;
    T x[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) x[i] = T(i == j);
#pragma unroll
    for (int k = 0; k < 16; k += 4) {
#pragma unroll
      for (int i = k + 1; i < 16; ++i) {
        const auto c = four_at(a, first + i, first + k);
#pragma unroll
        for (int u = 0; u < 4; ++u)
          if (i > k + u) x[i] = fma(-c.x[u], x[k + u], x[i]);
      }
    }
    static_assert(Src::rows == 16 || Src::rows % 32 == 0);
    __syncwarp(Src::rows == 16 ? 0xffffu : ~0u);
#pragma unroll
    for (int i = 0; i < 16; ++i) a.at(first + i, first + j) = x[i];
  }
  /// All pairs of halves at once. A thread has four neighbours in rows of one block of 16.
  template <int S, class Src>
  TILE_FN void join_halves(Src& a) {
    using T = typename Src::E;
    constexpr int N = Src::rows, pairs = N / (2 * S), of_row = S / 4, R = imax(1, pairs * S * of_row / threads);
    static_assert(R <= 2);
    const int unit = threadIdx.x % (S / R * of_row), pair = threadIdx.x / (S / R * of_row) * (2 * S);
    const int q = unit / of_row, column = unit % of_row * 4, row = q / (16 / R) * 16 + q % (16 / R);
    const bool has = pair < N;
    T x[R][4];
    const auto product = [&](int rows0, int left0, int cols0, int begin, int end) {  // left (rows0, left0), right below
#pragma unroll
      for (int i = 0; i < R; ++i)
#pragma unroll
        for (int u = 0; u < 4; ++u) x[i][u] = 0;
      for (int k = begin; k < end; k += 4) {
        FourOf<T> l[R];
#pragma unroll
        for (int i = 0; i < R; ++i) l[i] = four_at(a, rows0 + row + i * (16 / R), left0 + k);
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          const auto y = four_at(a, cols0 + k + v, pair + column);
#pragma unroll
          for (int i = 0; i < R; ++i)
#pragma unroll
            for (int u = 0; u < 4; ++u) x[i][u] = fma(l[i].x[v], y.x[u], x[i][u]);
        }
      }
    };
    const auto put = [&](T sign) {
      this->sync();
      if (has)
#pragma unroll
        for (int i = 0; i < R; ++i)
#pragma unroll
          for (int u = 0; u < 4; ++u) a.at(pair + S + row + i * (16 / R), pair + column + u) = sign * x[i][u];
      this->sync();
    };
    if (has) product(pair + S, pair, pair, column / 16 * 16, S);
    put(T(1));
    if (has) product(pair + S, pair + S, pair + S, 0, row / 16 * 16 + 16);
    put(T(-1));
  }

  template <class X>
  struct Transposed {
    const X& t;
    static constexpr Format format = X::format;
    static constexpr int rows = X::cols, cols = X::rows;
  };

  /// A tile's elements (i, j) at the pairs of a level, zeros elsewhere.
  template <class X>
  struct PairsOf {
    const X& m;
    Level level;
    static constexpr Format format = X::format;
    static constexpr int rows = X::rows, cols = X::cols;
    static constexpr bool transposed = requires(const X& x) { x.t; };
    TILE_FN bool has(int r, int k) const { return at_level(level, transposed ? k : r, transposed ? r : k); }
  };

  // Address of the 16x16 block of 16-bit elements (row block rb, chunk pair cp) for a lane whose offset inside the
  // block is `offset`: tile bases are 1024-byte aligned, so XOR stays inside a line, and 16 rows are whole groups of 8
  // lines, or 4 lines where a line holds 4 rows.
  template <class Tl>
  TILE_FN static std::uint32_t block_address(const Tl& t, int offset, int rb, int cp) {
    static_assert(Tl::rows_of_line <= 4);
    constexpr int pairs_of_line = 4 / Tl::rows_of_line;
    const int odd = Tl::rows_of_line == 4 ? (rb & 1) << 6 : 0;
    return ((shared_address(t.raw) + offset) ^ ((cp % pairs_of_line) << 5) ^ odd) +
           cp / pairs_of_line * Tl::panel_bytes + rb * (2048 / Tl::rows_of_line);
  }
  template <class Tl>
  TILE_FN int row_major(const Tl&) const {
    return Tl::chunk_offset(w.lane & 15, w.lane >> 4);
  }
  template <class Tl>
  TILE_FN int col_major(const Tl&) const {
    return Tl::chunk_offset((w.lane & 7) + ((w.lane >> 4) << 3), (w.lane >> 3) & 1);
  }

  template <int MT, class A>
  TILE_FN void left(typename Atom<A::format>::Register (&a)[4], const A& x, int mt, int kk) const {
    constexpr Format F = A::format;
    if constexpr (requires { x.a; }) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = x.a[mt][kk][i];
    } else if constexpr (F == Format::e4m3) {
      const int r = w.warp * (MT * 16) + mt * 16 + w.group(), k = kk * 16 + 2 * w.slot();
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a[i] = Atom<F>::pair(x.at(r + 8 * (i % 2), k + 8 * (i / 2)), x.at(r + 8 * (i % 2), k + 8 * (i / 2) + 1));
    } else if constexpr (Atom<F>::depth == 16) {
      if constexpr (requires { x.t; })
        load_matrices<true>(a, block_address(x.t, col_major(x.t), kk, w.warp * MT + mt));
      else
        load_matrices<false>(a, block_address(x, row_major(x), w.warp * MT + mt, kk));
    } else {
      const int r = w.warp * (MT * 16) + mt * 16 + w.group(), k = kk * 8 + 2 * w.slot();
      if constexpr (requires { x.t; }) {
        a[0] = Atom<F>::convert(x.t.at(k, r)), a[1] = Atom<F>::convert(x.t.at(k, r + 8));
        a[2] = Atom<F>::convert(x.t.at(k + 1, r)), a[3] = Atom<F>::convert(x.t.at(k + 1, r + 8));
      } else {
        a[0] = Atom<F>::convert(x.at(r, k)), a[1] = Atom<F>::convert(x.at(r + 8, k));
        a[2] = Atom<F>::convert(x.at(r, k + 1)), a[3] = Atom<F>::convert(x.at(r + 8, k + 1));
      }
    }
  }
  // Of the elements that registers of a left operand hold, in the order of `left`, those of a level.
  template <class A>
  TILE_FN void keep_pairs(typename Atom<A::format>::Register (&a)[4], const A& x, int kk) const {
    using Register = typename Atom<A::format>::Register;
    const std::uint32_t others = others_of_diagonal<A::transposed>(x.level);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (Atom<A::format>::depth == 16) {
        const std::uint32_t here = others >> (i % 2 * 16 + i / 2 * 8);
        a[i] &= ((here & 15) == 0 ? 0xffffu : 0) | ((here & 240) == 0 ? 0xffff0000u : 0);
      } else {
        a[i] = (others & 15u << (i % 2 * 16 + kk % 2 * 8 + i / 2 * 4)) == 0 ? a[i] : Register(0);
      }
    }
  }
  // Of 16 rows and 16 columns on the diagonal a thread has rows r, r + 8 and columns c, c + 1, c + 8, c + 9: four bits
  // each, which are 0 for pairs of the level alone. No block off the diagonal has pairs of two levels.
  template <bool Transposed>
  TILE_FN std::uint32_t others_of_diagonal(Level level) const {
    if (level.h >= 16) return 0;
    std::uint32_t of_levels = 0;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int r = w.group() + e / 4 * 8, c = 2 * w.slot() + e / 2 % 2 * 8 + e % 2;
      const bool paired = Transposed ? c >= r : r >= c;
      of_levels |= std::uint32_t(paired ? number_of(Level{r ^ c}) : 0) << 4 * e;
    }
    return of_levels ^ 0x11111111u * std::uint32_t(number_of(level));
  }
  TILE_FN static int number_of(Level level) { return 33 - __clz(level.h); }
  // The right operand for two n-tiles (16 columns of C): b[0..1], b[2..3].
  template <bool BT, class Tl>
  TILE_FN void right(typename Atom<Tl::format>::Register (&b)[4], const Tl& y, int np, int kk) const {
    constexpr Format F = Tl::format;
    if constexpr (F == Format::e4m3) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int n = np * 16 + w.group() + 8 * (i / 2), k = kk * 16 + 2 * w.slot() + 8 * (i % 2);
        b[i] = BT ? Atom<F>::pair(y.at(n, k), y.at(n, k + 1)) : Atom<F>::pair(y.at(k, n), y.at(k + 1, n));
      }
    } else if constexpr (Atom<F>::depth == 16) {
      if constexpr (BT)
        load_matrices<false>(b, block_address(y, col_major(y), np, kk));
      else
        load_matrices<true>(b, block_address(y, row_major(y), kk, np));
    } else {
      const int n = np * 16 + w.group(), k = kk * 8 + 2 * w.slot();
#pragma unroll
      for (int i = 0; i < 4; ++i)
        b[i] = Atom<F>::convert(BT ? y.at(n + 8 * (i / 2), k + i % 2) : y.at(k + i % 2, n + 8 * (i / 2)));
    }
  }

  // C_i += A_i B (or A_i B^T), the right operand's fragments loaded once for all pairs.
  template <bool BT, class B, class C1, class A1, class... Rest>
  TILE_FN void multiply(const B& y, C1& c1, const A1& a1, Rest&&... rest) {
    constexpr Format F = B::format;
    constexpr int K = BT ? B::cols : B::rows, N = BT ? B::rows : B::cols;
    static_assert(A1::cols == K && C1::cols == N && C1::rows == A1::rows);
    if constexpr (F == Format::fp32 || A1::format != F) {
      static_assert(sizeof...(Rest) == 0, "pairs are for tensor cores");
      multiply_wide<BT>(y, c1, a1);
    } else {
      constexpr int depth = Atom<F>::depth, MT = C1::MT, pairs = N / (16 * Parts);
      static_assert(N % (16 * Parts) == 0);
#pragma unroll
      for (int kk = 0; kk < K / depth; ++kk) {
        typename Atom<F>::Register a[MT][4], a2[sizeof...(Rest) ? MT : 1][4], b[4];
#pragma unroll
        for (int mt = 0; mt < MT; ++mt) {
          left<MT>(a[mt], a1, mt, kk);
          if constexpr (sizeof...(Rest) == 2) second_left<MT>(a2[mt], mt, kk, rest...);
        }
#pragma unroll
        for (int np = 0; np < pairs; ++np) {
          right<BT>(b, y, w.part * pairs + np, kk);
#pragma unroll
          for (int mt = 0; mt < MT; ++mt) {
            Atom<F>::mma(c1.x[mt][2 * np], a[mt], b[0], b[1]);
            Atom<F>::mma(c1.x[mt][2 * np + 1], a[mt], b[2], b[3]);
            if constexpr (sizeof...(Rest) == 2) second_mma<F>(a2[mt], b, mt, np, rest...);
          }
        }
      }
    }
  }
  // C += A B^T at a level's elements of C; the right operand's fragments are loaded once for all pairs.
  template <class B, class C, class A, class... Rest>
  TILE_FN void sum_pairs(Level level, const B& b, C& c, const A& a, Rest&&... rest) {
    constexpr Format F = B::format;
    if constexpr (F == Format::fp32 || A::format != F) {
      C all = c;
      mma_abt(all, a, b);
      c.each([&](auto& y, int mt, int nt, int i) {
        if (at_level(level, c.row_of(mt, i), c.col_of(nt, i))) y = all.x[mt][nt][i];
      });
      if constexpr (sizeof...(Rest) > 0) sum_pairs(level, b, rest...);
    } else {
      constexpr int steps = A::cols / Atom<F>::depth;
#pragma unroll
      for (int mt = 0; mt < C::MT; ++mt)
#pragma unroll
        for (int np = 0; np < C::NT / 2; ++np) {
          const int columns = w.part * (C::NT / 2) + np;
          if (!at_level({level.h / 16}, w.warp * C::MT + mt, columns)) continue;
          typename Atom<F>::Register right_blocks[steps][4];
#pragma unroll
          for (int kk = 0; kk < steps; ++kk) right<true>(right_blocks[kk], b, columns, kk);
          sum_block(level, right_blocks, mt, np, c, a);
          if constexpr (sizeof...(Rest) > 0) sum_block(level, right_blocks, mt, np, rest...);
        }
    }
  }
  template <int Steps, class R, class C, class A>
  TILE_FN void sum_block(Level level, const R (&right_blocks)[Steps][4], int mt, int np, C& c, const A& a) {
    constexpr Format F = A::format;
    std::remove_all_extents_t<decltype(c.x)> sums[2][4];
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i / 4][i % 4] = c.x[mt][2 * np + i / 4][i % 4];
#pragma unroll
    for (int kk = 0; kk < Steps; ++kk) {
      R left_block[4];
      left<C::MT>(left_block, a, mt, kk);
      Atom<F>::mma(sums[0], left_block, right_blocks[kk][0], right_blocks[kk][1]);
      Atom<F>::mma(sums[1], left_block, right_blocks[kk][2], right_blocks[kk][3]);
    }
    const std::uint32_t others = others_of_diagonal<false>(level);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if ((others & 15u << 4 * (i % 4 / 2 * 4 + i / 4 * 2 + i % 2)) == 0)
        c.x[mt][2 * np + i / 4][i % 4] = sums[i / 4][i % 4];
  }
  // C += A B with a level's elements of A: in blocks of 16 rows, of one half on the diagonal, else the other half's.
  template <class X, class C, class B>
  TILE_FN void multiply_pairs(C& c, const PairsOf<X>& a, const B& y) {
    constexpr Format F = B::format;
    if constexpr (F == Format::fp32 || X::format != F) {
      multiply<false>(y, c, a);
    } else {
      constexpr int MT = C::MT, pairs = C::NT / 2, steps = 16 / Atom<F>::depth;
      const int half = a.level.h / 16;
#pragma unroll
      for (int mt = 0; mt < MT; ++mt) {
        const int rows = w.warp * MT + mt, first = half == 0 ? rows : (rows ^ half) & -half;
        if (half != 0 && ((rows & half) != 0) == a.transposed) continue;
#pragma unroll 1
        for (int kk = first * steps; kk < (first + imax(1, half)) * steps; ++kk) {
          typename Atom<F>::Register left_block[4], right_block[4];
          left<MT>(left_block, a.m, mt, kk);
          if (half == 0) keep_pairs(left_block, a, kk);
#pragma unroll
          for (int np = 0; np < pairs; ++np) {
            right<false>(right_block, y, w.part * pairs + np, kk);
            Atom<F>::mma(c.x[mt][2 * np], left_block, right_block[0], right_block[1]);
            Atom<F>::mma(c.x[mt][2 * np + 1], left_block, right_block[2], right_block[3]);
          }
        }
      }
    }
  }
  // C += A B (or A B^T) of factors up to fp32 in an fp32 accumulator, which rounds once: products are exact in fp64.
  template <bool BT, class B, class Cc, class A>
  TILE_FN void multiply_wide(const B& y, Cc& c, const A& x) {
    using Wide = Atom<Format::fp64>;
    constexpr int steps = (BT ? B::cols : B::rows) / Wide::depth, MT = Cc::MT;
    constexpr int group = Cc::NT % 4 == 0 ? 4 : Cc::NT % 2 == 0 ? 2 : 1;  // that use a left factor while it is there
    constexpr bool in_registers = !requires { x.raw; }
    &&!requires { x.t; }
    &&!requires { x.level; };
    static_assert(std::is_same_v<std::remove_all_extents_t<decltype(c.x)>, float>);
#pragma unroll
    for (int first = 0; first < Cc::NT; first += group) {
      double sum[group][MT][4], a[MT][4];
#pragma unroll
      for (int e = 0; e < group * MT * 4; ++e)
        sum[e / (MT * 4)][e / 4 % MT][e % 4] = c.x[e / 4 % MT][first + e / (MT * 4)][e % 4];
#pragma unroll(in_registers ? steps : 2)
      for (int kk = 0; kk < steps; ++kk) {
#pragma unroll
        for (int mt = 0; mt < MT; ++mt) wide_left<MT>(a[mt], x, mt, kk);
#pragma unroll
        for (int nt = 0; nt < group; ++nt) {
          double b[2];
          wide_right<BT>(b, y, (w.part * Cc::NT + first + nt) * 8 + w.group(), kk * Wide::depth + 2 * w.slot());
#pragma unroll
          for (int mt = 0; mt < MT; ++mt) Wide::mma(sum[nt][mt], a[mt], b[0], b[1]);
        }
      }
#pragma unroll
      for (int e = 0; e < group * MT * 4; ++e)
        c.x[e / 4 % MT][first + e / (MT * 4)][e % 4] = float(sum[e / (MT * 4)][e / 4 % MT][e % 4]);
    }
  }
  template <bool BT, class B>
  TILE_FN static void wide_right(double (&b)[2], const B& y, int n, int k) {
    if constexpr (BT) {
      const auto two = two_at(y, n, k);
      b[0] = float(two.x[0]), b[1] = float(two.x[1]);
    } else {
      b[0] = float(y.at(k, n)), b[1] = float(y.at(k + 1, n));
    }
  }
  // The left factor of that, whose registers lie as those of every depth of 8.
  template <int MT, class A>
  TILE_FN void wide_left(double (&a)[4], const A& x, int mt, int kk) const {
    const int r = w.warp * (MT * 16) + mt * 16 + w.group(), k = kk * 8 + 2 * w.slot();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = i / 2, half = i % 2;
      if constexpr (requires { x.level; }) {
        a[i] = x.has(r + 8 * half, k + column) ? number_at(x.m, r + 8 * half, k + column) : 0;
      } else if constexpr (
          requires { x.t; } || requires { x.raw; }) {
        a[i] = number_at(x, r + 8 * half, k + column);
      } else if constexpr (Atom<A::format>::depth == 16) {
        const std::uint32_t both = x.a[mt][kk / 2][kk % 2 * 2 + half];
        const std::uint16_t bits = column == 0 ? both & 0xffff : both >> 16;
        a[i] = float(reinterpret_cast<const Element<A::format>&>(bits));
      } else {
        a[i] = __uint_as_float(x.a[mt][kk][i]);
      }
    }
  }
  template <class X>
  TILE_FN static float number_at(const X& x, int r, int c) {
    if constexpr (requires { x.t; })
      return float(x.t.at(c, r));
    else
      return float(x.at(r, c));
  }
  template <int MT, class R, class C2, class A2>
  TILE_FN void second_left(R (&a)[4], int mt, int kk, C2&, const A2& x) const {
    left<MT>(a, x, mt, kk);
  }
  template <Format F, class R, class C2, class A2>
  TILE_FN static void second_mma(const R (&a)[4], const R (&b)[4], int mt, int np, C2& c, const A2&) {
    Atom<F>::mma(c.x[mt][2 * np], a, b[0], b[1]);
    Atom<F>::mma(c.x[mt][2 * np + 1], a, b[2], b[3]);
  }
};

}  // namespace assay::tile
