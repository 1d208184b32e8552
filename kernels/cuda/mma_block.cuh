#pragma once
// MmaBlock: one thread block, mma.sync tensor cores, cp.async loads.
#include "kernels/cuda/device_common.cuh"

namespace assay::tile {

/// The tensor core instruction of a format: C[16][8] += A[16][depth] B[depth][8].
template <Format F>
struct Atom;

template <Format F>
requires(F == Format::bf16 || F == Format::fp16) struct Atom<F> {
  using Register = std::uint32_t;
  static constexpr int depth = 16;
  static TILE_FN void mma(float (&c)[4], const Register (&a)[4], Register b0, Register b1) {
    if constexpr (F == Format::bf16)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};
// Hopper's mma.sync has no product of 8-bit numbers; e4m3 is a subset of fp16, so these are the same products.
template <>
struct Atom<Format::e4m3> : Atom<Format::fp16> {
  static TILE_FN Register pair(__nv_fp8_e4m3 low, __nv_fp8_e4m3 high) {
    return pack2<Format::fp16>(float(low), float(high));
  }
};
// k is dealt to threads in adjacent pairs (slots t and t + 4 hold k = 2t and 2t + 1) in both factors, so that an
// accumulator is a left operand as it stands.
template <>
struct Atom<Format::tf32> {
  using Register = std::uint32_t;
  static constexpr int depth = 8;
  static TILE_FN Register convert(float x) { return to_tf32(x); }
  static TILE_FN void mma(float (&c)[4], const Register (&a)[4], Register b0, Register b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};
template <>
struct Atom<Format::fp64> {
  using Register = double;
  static constexpr int depth = 8;
  static TILE_FN Register convert(double x) { return x; }
  static TILE_FN void mma(double (&c)[4], const Register (&a)[4], Register b0, Register b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b0), "d"(b1));
  }
};

template <bool Transpose>
TILE_FN void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  if constexpr (Transpose)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

template <class P_, int Warps_>
struct MmaBlock : RegisterOps<P_, Warps_> {
  using P = P_;
  using Ops = RegisterOps<P, Warps_>;
  using Ops::w;
  using typename Ops::Real;
  using typename Ops::RowIn;
  static constexpr int Warps = Warps_, threads = 32 * Warps;

  template <FixedString S, int R, int C>
  using Tile = SharedTile<P, S, R, C>;
  struct In {
    const void* p;
    int rows, cols, head_rows;  ///< as of Out
  };

  static constexpr int scratch_elements = 128;
  static constexpr int scratch_bytes = scratch_elements * sizeof(Real);
  /// `scratch`: scratch_bytes of shared memory.
  TILE_FN explicit MmaBlock(void* scratch) : scratch_(static_cast<Real*>(scratch)) {
    w = {int(threadIdx.x) >> 5, int(threadIdx.x) & 31};
  }

  template <class F, class T, int MT>
  TILE_FN bool any(F f, const RowRegisters<T, MT>& x) {
    bool a = false;
#pragma unroll
    for (int mt = 0; mt < MT; ++mt) a |= f(x.v[mt][0]) || f(x.v[mt][1]);
    return __syncthreads_or(a);
  }

  // ---- loads -----------------------------------------------------------------------

  /// What lies beyond the array's rows and columns reads as zero. Columns are a multiple of 16 bytes: the launch
  /// checks.
  template <class Tl>
  TILE_FN void load(Tl& t, const In& g, int head, int row0, int col0 = 0) {
    using E = typename Tl::E;
    constexpr int chunks = Tl::chunks;
    static_assert(Tl::rows * chunks % threads == 0 && (threads % chunks == 0 || chunks % threads == 0));
    const E* base = static_cast<const E*>(g.p) + std::size_t(head) * g.head_rows * g.cols;
    const std::uint32_t destination = shared_address(t.raw);
    const int thread = threadIdx.x;
#pragma unroll
    for (int i = 0; i < Tl::rows * chunks / threads; ++i) {
      int r, chunk;
      if constexpr (threads % chunks == 0)
        r = thread / chunks + i * (threads / chunks), chunk = thread % chunks;
      else
        r = i / (chunks / threads), chunk = thread + i % (chunks / threads) * threads;
      const int col = col0 + chunk * Tl::chunk_elements;
      const bool inside = row0 + r < g.rows && col < g.cols;
      const void* source = inside ? base + std::size_t(row0 + r) * g.cols + col : base;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination + Tl::chunk_offset(r, chunk)),
                   "l"(source), "r"(inside ? 16 : 0)
                   : "memory");
    }
  }
  /// What `store` wrote at the site, straight to registers; zeros beyond the array. Columns are a multiple of 8.
  template <class St, int R, int C>
  TILE_FN auto load_acc(St, Shape<R, C>, const In& g, int head, int row0, int col0 = 0) {
    using E = Element<format_at<P, St>>;
    struct alignas(2 * sizeof(E)) Pair {
      E x[2];
    };
    Accumulator<P, Warps, Real, R, C> a;
    a.w = w;
    a.ticket = 0;
#pragma unroll
    for (int mt = 0; mt < a.MT; ++mt)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int r = row0 + a.row_of(mt, 2 * h);
        const E* p = static_cast<const E*>(g.p) + (std::size_t(head) * g.head_rows + r) * g.cols + col0 + 2 * w.slot();
#pragma unroll
        for (int nt = 0; nt < a.NT; ++nt) {
          Pair pair{E(0.f), E(0.f)};
          if (r < g.rows && col0 + nt * 8 < g.cols) pair = *reinterpret_cast<const Pair*>(p + nt * 8);
          a.x[mt][nt][2 * h] = Real(pair.x[0]), a.x[mt][nt][2 * h + 1] = Real(pair.x[1]);
        }
      }
    return a;
  }
  TILE_FN static void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int N>
  TILE_FN static void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
  }
  TILE_FN void sync() { __syncthreads(); }

  template <int ST, class Pr, class Co>
  TILE_FN void pipeline(Shape<ST>, int n, Pr&& produce, Co&& consume) {
    prologue<ST>(n, produce);
    int stage = 0;
#pragma unroll 1
    for (int j = 0; j < n; ++j) {
      begin<ST>(j, n, stage, produce);
      consume(j, stage);
      stage = stage + 1 == ST ? 0 : stage + 1;
    }
    wait<0>();
    sync();
  }
  template <int ST, class Pr, class F, class M, class L>
  TILE_FN void pipeline(Shape<ST>, int n, Pr&& produce, F&& first, M&& middle, L&& last) {
    prologue<ST>(n, produce);
    int stage = 0;
    const auto next = [&] { stage = stage + 1 == ST ? 0 : stage + 1; };
    if (n > 0) begin<ST>(0, n, stage, produce), first(0, stage, First{}), next();
#pragma unroll 1
    for (int j = 1; j < n - 1; ++j) begin<ST>(j, n, stage, produce), middle(j, stage, Middle{}), next();
    if (n > 1) begin<ST>(n - 1, n, stage, produce), last(n - 1, stage, Last{});
    wait<0>();
    sync();
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

  // ---- left operands ----------------------------------------------------------------
  template <Format F, int R, int C>
  struct Operand {
    static constexpr Format format = F;
    static constexpr int rows = R, cols = C, MT = R / (16 * Warps), KT = C / Atom<F>::depth;
    typename Atom<F>::Register a[MT][KT][4];
  };
  /// As wide as the accumulators: no tensor core takes it.
  template <int R, int C>
  struct WideOperand {
    static constexpr Format format = Format::fp32;
    static constexpr int rows = R, cols = C, MT = R / (16 * Warps);
    float wide[MT][C / 8][4];
  };
  template <class St, class A>
  requires(format_at<P, St> == Format::fp32) TILE_FN auto cast(St, const A& s) {
    WideOperand<A::rows, A::cols> o;
#pragma unroll
    for (int mt = 0; mt < o.MT; ++mt)
#pragma unroll
      for (int nt = 0; nt < A::cols / 8; ++nt)
#pragma unroll
        for (int i = 0; i < 4; ++i) o.wide[mt][nt][i] = s.x[mt][nt][i];
    return o;
  }
  template <class St, class A>
  requires(format_at<P, St> != Format::fp32) TILE_FN auto cast(St, const A& s) {
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

  // ---- shared memory -----------------------------------------------------------------
  template <class Tl, class A>
  TILE_FN void put(Tl& t, const A& a) {
    static_assert(Tl::rows == A::rows && Tl::cols == A::cols);
#pragma unroll
    for (int mt = 0; mt < A::MT; ++mt)
#pragma unroll
      for (int nt = 0; nt < A::NT; ++nt)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          void* p = &t.at(a.row_of(mt, 2 * h), a.col_of(nt, 0));
          const auto x = a.x[mt][nt][2 * h], y = a.x[mt][nt][2 * h + 1];
          if constexpr (Tl::element_bytes == 2)
            *static_cast<std::uint32_t*>(p) = pack2<Tl::format>(x, y);
          else if constexpr (Tl::element_bytes == 4)
            *static_cast<float2*>(p) = make_float2(round_as<Tl::format>(x), round_as<Tl::format>(y));
          else
            *static_cast<double2*>(p) = make_double2(x, y);
        }
  }

  /// d = (I + a)^{-1} for a strictly lower: forward substitution, one column of the inverse per thread, in steps of
  /// four unknowns. The rows below a step are independent; every row subtracts its products in ascending order.
  template <class St, class Dst, class Src>
  TILE_FN void unit_lower_inverse(St, Dst& d, const Src& a) {
    constexpr int N = Src::rows;
    using T = typename Src::E;
    static_assert(Src::cols == N && N <= threads && N % 4 == 0);
    static_assert(Src::format == format_at<P, St> && (Src::format == Format::fp32 || Src::format == Format::fp64));
    const int j = threadIdx.x;
    if (j >= N) return;
    T x[N];
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = T(i == j);
#pragma unroll
    for (int k = 0; k < N; k += 4) {
#pragma unroll
      for (int i = k + 1; i < N; ++i) {
        alignas(16) T c[4];
#pragma unroll
        for (int u = 0; u < 4; u += Src::chunk_elements)
          reinterpret_cast<uint4&>(c[u]) = reinterpret_cast<const uint4&>(a.at(i, k + u));
#pragma unroll
        for (int u = 0; u < 4; ++u)
          if (i > k + u) x[i] = fma(-c[u], x[k + u], x[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < N; ++i) d.at(i, j) = typename Dst::E(round_as<Dst::format>(x[i]));
  }

  /// d(i, j) = prod_{j < l <= i - lag} exp(g_l), 1 where no gate is left, 0 above the diagonal; one column per thread.
  template <class St, class Dst>
  TILE_FN void decay_ratios(St, Dst& d, const RowIn& g, int head, int row0, int lag = 0) {
    constexpr int N = Dst::rows;
    static_assert(Dst::cols == N && N <= threads);
    using E = typename Dst::E;
    const int j = threadIdx.x;
    for (int i = 0; i < lag && j < N; ++i) d.at(i, j) = E(j <= i ? 1.f : 0.f);
    Real product = 1;
    this->template each_decay<N, false>(g, head, row0, N, [&](Real alpha, int l) {
      product = l <= j ? Real(1) : round_as<format_at<P, St>>(times(product, alpha));
      const int i = l + lag;
      if (i < N && j < N) d.at(i, j) = E(round_as<Dst::format>(j <= i ? product : Real(0)));
    });
  }

  // ---- adjoints of the decays: rows are spread over warps, so these meet in scratch memory.

  /// Row r sums z(i, j) over j < r <= i - lag: a thread runs up its column, warps add up rows.
  template <class St, class Src>
  TILE_FN auto gates_of_ratios(St st, const Src& z, int lag = 0) {
    constexpr int N = Src::rows, groups = (N + 31) / 32;
    static_assert(Src::cols == N && N <= threads && groups * N <= scratch_elements);
    const int j = threadIdx.x;
    if (w.warp < groups) {
      Real below = 0;
#pragma unroll 8
      for (int r = N - 1; r >= 0; --r) {
        if (r + lag < N && j < N) below += Real(z.at(r + lag, j));
        Real sum = j < r ? below : Real(0);
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
        if (w.lane == 0) scratch_[w.warp * N + r] = sum;
      }
    }
    sync();
    auto o = this->row(st, Shape<N>{}, 0);
    this->each_row(o, [&](Real& y, int r) {
#pragma unroll
      for (int i = 0; i < groups; ++i) y += scratch_[i * N + r];
    });
    sync();
    return o;
  }
  /// Row r sums z(i) over r <= i - lag.
  template <class St, class T, int MT>
  TILE_FN auto gates_of_prefix(St, const RowRegisters<T, MT>& z, int lag = 0) {
    RowRegisters<T, MT> o;
    T sum = 0;
    each_gathered(z, [&](int i, int rows, const T* all) {
      const int r = rows - 1 - i;
      if (r + lag < rows) sum += all[r + lag];
      this->each_row(o, [&](T& y, int mine) { y = mine == r ? sum : y; });
    });
    return o;
  }
  /// Row r sums z(i) over i < r.
  template <class St, class T, int MT>
  TILE_FN auto gates_of_suffix(St, const RowRegisters<T, MT>& z) {
    RowRegisters<T, MT> o;
    T sum = 0;
    each_gathered(z, [&](int r, int, const T* all) {
      this->each_row(o, [&](T& y, int mine) { y = mine == r ? sum : y; });
      sum += all[r];
    });
    return o;
  }
  /// Every row sums all of z.
  template <class St, int R, class T, int MT>
  TILE_FN auto gates_of_total(St st, Shape<R> shape, const RowRegisters<T, MT>& z) {
    T sum = 0;
    each_gathered(z, [&](int r, int, const T* all) { sum += all[r]; });
    return this->row(st, shape, sum);
  }

  // ---- sums of rows that decay from row to row, and their adjoints: one column of a tile per thread.

  /// d(i) = sum_{l <= i - lag} x(l) prod_{l < r <= i - lag} exp(g_r).
  template <class St, class Dst, class Src>
  TILE_FN void decay_scan(St, Dst& d, const Src& x, const RowIn& g, int head, int row0, int lag = 0) {
    constexpr int N = Dst::rows;
    static_assert(Src::rows == N && Src::cols == Dst::cols && Dst::cols <= threads);
    using E = typename Dst::E;
    const int c = threadIdx.x;
    for (int i = 0; i < lag && c < Dst::cols; ++i) d.at(i, c) = E(0.f);
    Real sum = 0;
    this->template each_decay<N, false>(g, head, row0, N, [&](Real alpha, int l) {
      if (l + lag >= N || c >= Dst::cols) return;
      sum = round_as<format_at<P, St>>(fma(alpha, sum, Real(x.at(l, c))));
      d.at(l + lag, c) = E(round_as<Dst::format>(sum));
    });
  }
  template <class St, class T, int MT>
  TILE_FN auto decay_scan(St st, const RowRegisters<T, MT>& x, const RowIn& g, int head, int row0, int lag = 0) {
    constexpr int N = MT * 16 * Warps;
    gather(x, 0);
    sync();
    auto o = this->row(st, Shape<N>{}, 0);
    Real sum = 0;
    this->template each_decay<N, false>(g, head, row0, N, [&](Real alpha, int l) {
      sum = round_as<format_at<P, St>>(fma(alpha, sum, scratch_[l]));
      this->each_row(o, [&](Real& y, int r) { y = r == l + lag ? sum : y; });
    });
    sync();
    return o;
  }
  /// d(l) = now(l) + late(l + 1) + exp(g_{l+1}) d(l + 1), from the last row.
  template <class St, class Dst, class Src>
  TILE_FN void decay_scan_adjoint(St, Dst& d, const Src& now, const Src& late, const RowIn& g, int head, int row0) {
    constexpr int N = Dst::rows;
    static_assert(Src::rows == N && Src::cols == Dst::cols && Dst::cols <= threads);
    using E = typename Dst::E;
    const int c = threadIdx.x;
    Real sum = 0, next = 0;
    this->template each_decay<N, true>(g, head, row0, N, [&](Real alpha, int l) {
      const Real decay = next;
      next = alpha;
      if (c >= Dst::cols) return;
      sum = l == N - 1 ? Real(now.at(l, c)) : step_back<St>(sum, decay, Real(now.at(l, c)), Real(late.at(l + 1, c)));
      d.at(l, c) = E(round_as<Dst::format>(sum));
    });
  }
  template <class St, class T, int MT>
  TILE_FN auto decay_scan_adjoint(St st, const RowRegisters<T, MT>& now, const RowRegisters<T, MT>& late,
                                  const RowIn& g, int head, int row0) {
    constexpr int N = MT * 16 * Warps;
    gather(now, 0), gather(late, N);
    sync();
    auto o = this->row(st, Shape<N>{}, 0);
    Real sum = 0, next = 0;
    this->template each_decay<N, true>(g, head, row0, N, [&](Real alpha, int l) {
      sum = l == N - 1 ? scratch_[l] : step_back<St>(sum, next, scratch_[l], scratch_[N + imin(l + 1, N - 1)]);
      next = alpha;
      this->each_row(o, [&](Real& y, int r) { y = r == l ? sum : y; });
    });
    sync();
    return o;
  }

  // ---- decays with a column per key channel, as a shared tile of the factors alpha: one thread runs along a column,
  // so that what it reads and writes is its own.

  /// Rows and columns beyond the end act as alpha = 1.
  template <class St, class Tl>
  TILE_FN void channel_decays(St, Tl& alpha, const In& g, int head, int row0) {
    using E = typename Tl::E;
    const E* base = static_cast<const E*>(g.p) + std::size_t(head) * g.head_rows * g.cols;
#pragma unroll 4
    for (int i = threadIdx.x; i < Tl::rows * Tl::cols; i += threads) {
      const int r = i / Tl::cols, c = i % Tl::cols;
      alpha.at(r, c) = row0 + r < g.rows && c < g.cols
                           ? E(round_as<format_at<P, St>>(Ops::exponential(base[std::size_t(row0 + r) * g.cols + c])))
                           : E(1);
    }
  }
  /// d(i) = prod_{l <= i - lag} alpha_l.
  template <class St, class Dst, class Src>
  TILE_FN void channel_prefix(St, Dst& d, const Src& alpha, int lag = 0) {
    each_channel<Dst>([&](int c) {
      Real product = 1;
      for (int i = 0; i < lag; ++i) d.at(i, c) = product;
#pragma unroll
      for (int l = 0; l < Dst::rows; ++l) {
        product = round_as<format_at<P, St>>(times(product, alpha.at(l, c)));
        if (l + lag < Dst::rows) d.at(l + lag, c) = product;
      }
    });
  }
  /// d(j) = prod_{l > j} alpha_l.
  template <class St, class Dst, class Src>
  TILE_FN void channel_suffix(St, Dst& d, const Src& alpha) {
    each_channel<Dst>([&](int c) {
      Real product = 1;
#pragma unroll
      for (int j = Dst::rows - 1; j >= 0; --j) {
        d.at(j, c) = product;
        product = round_as<format_at<P, St>>(times(product, alpha.at(j, c)));
      }
    });
  }
  /// Row r holds prod_{l < count} alpha_l of channel r.
  template <class St, int R, class Src>
  TILE_FN auto channel_total(St st, Shape<R> shape, const Src& alpha, int count) {
    static_assert(Src::cols == R);
    auto o = this->row(st, shape, 1);
    this->each_row(o, [&](Real& y, int r) {
#pragma unroll 8
      for (int l = 0; l < count; ++l) y = round_as<format_at<P, St>>(times(y, alpha.at(l, r)));
    });
    return o;
  }
  /// d(i, j) = sum over channels of x_i k_j prod_{j < l <= i - lag} alpha_l for j <= i, 0 above the diagonal. Two lanes
  /// share a column of d and keep its decayed key in registers.
  template <class Sum, class St, class Dst, class X, class K, class Src>
  TILE_FN void channel_scores(Sum, St, Dst& d, const X& x, const K& k, const Src& alpha, int lag = 0) {
    constexpr int N = Dst::rows, half = K::cols / 2, vector = 16 / int(sizeof(Real));
    static_assert(Dst::cols == N && 2 * N == threads);
    using E = typename Dst::E;
    const int j = threadIdx.x / 2, c0 = threadIdx.x % 2 * half;
    Real decayed[half];
#pragma unroll
    for (int c = 0; c < half; ++c) decayed[c] = Real(k.at(j, c0 + c));
#pragma unroll 1
    for (int i = 0; i < N; ++i) {
      if (i - lag > j) {
#pragma unroll
        for (int c = 0; c < half; c += vector) {
          alignas(16) Real a[vector];
          reinterpret_cast<uint4&>(a) = reinterpret_cast<const uint4&>(alpha.at(i - lag, c0 + c));
#pragma unroll
          for (int u = 0; u < vector; ++u) decayed[c + u] = round_as<format_at<P, St>>(times(decayed[c + u], a[u]));
        }
      }
      Real sum = 0;
      if (i >= j) {
#pragma unroll
        for (int c = 0; c < half; c += X::chunk_elements) {
          alignas(16) typename X::E row[X::chunk_elements];
          reinterpret_cast<uint4&>(row) = reinterpret_cast<const uint4&>(x.at(i, c0 + c));
#pragma unroll
          for (int u = 0; u < X::chunk_elements; ++u) sum = fma(Real(row[u]), decayed[c + u], sum);
        }
      }
      sum += __shfl_xor_sync(~0u, sum, 1);
      if (c0 == 0) d.at(i, j) = E(round_as<Dst::format>(i >= j ? sum : Real(0)));
    }
  }

  // ---- and their adjoints.

  /// dg(r) = sum_{i >= r} from(i) + sum_{j < r} before(j).
  template <class St, class Dst, class Src>
  TILE_FN void channel_gates(St, Dst& dg, const Src& from, const Src& before) {
    each_channel<Dst>([&](int c) {
      Real sums[Dst::rows], sum = 0;
#pragma unroll
      for (int r = Dst::rows - 1; r >= 0; --r) sums[r] = sum += Real(from.at(r, c));
      sum = 0;
#pragma unroll
      for (int r = 0; r < Dst::rows; ++r) {
        dg.at(r, c) = sums[r] + sum;
        sum += Real(before.at(r, c));
      }
    });
  }
  /// Adds to dX(i), dK(j) and dg(r) what the cotangent of channel_scores, lower triangular, gives them.
  template <class Sum, class St, class Ct, class X, class K, class Src, class Dx, class Dk, class Dg>
  TILE_FN void channel_adjoint(Sum, St, const Ct& dA, const X& x, const K& k, const Src& alpha, Dx& dx, Dk& dk,
                               Dg& dg) {
    constexpr int N = Ct::rows;
    each_channel<K>([&](int c) {
      Real gates[N], a[N], keys[N], queries[N], reached[N];
#pragma unroll
      for (int r = 0; r < N; ++r)
        gates[r] = dg.at(r, c), a[r] = alpha.at(r, c), keys[r] = Real(k.at(r, c)), queries[r] = Real(x.at(r, c));
#pragma unroll 1
      for (int i = 0; i < N; ++i) {
        Real y = 0;
#pragma unroll
        for (int j = 0; j < N; ++j) {
          reached[j] = y;
          if (j <= i) y = fma(Real(dA.at(i, j)), keys[j], round_as<format_at<P, St>>(times(y, a[j])));
        }
        dx.at(i, c) += y;
        y = Real(x.at(i, c));
#pragma unroll
        for (int r = N - 1; r > 0; --r)
          if (r <= i) {
            y = round_as<format_at<P, St>>(times(y, a[r]));
            gates[r] = fma(reached[r], y, gates[r]);
          }
      }
#pragma unroll 1
      for (int j = 0; j < N; ++j) {
        Real y = 0;
#pragma unroll
        for (int i = N - 1; i >= 0; --i)
          if (i >= j) {
            if (i < N - 1) y = round_as<format_at<P, St>>(times(y, a[i + 1]));
            y = fma(Real(dA.at(i, j)), queries[i], y);
          }
        dk.at(j, c) += y;
      }
#pragma unroll
      for (int r = 0; r < N; ++r) dg.at(r, c) = gates[r];
    });
  }
  // ---- a column per value channel, each with decays of its own: one thread runs along a column, under one lower
  // triangular A of scores and R(i, j) = prod_{j < l <= i} alpha_l.

  /// y(i) = sum_{j <= i} A_ij R(i, j) x(j).
  template <class Sum, class St, class Dst, class Ct, class X, class Src>
  TILE_FN void value_sums(Sum, St, Dst& y, const Ct& A, const X& x, const Src& alpha) {
    each_channel<Dst>([&](int c) {
#pragma unroll 1
      for (int i = 0; i < Dst::rows; ++i) {
        Real sum = 0;
#pragma unroll 4
        for (int j = 0; j <= i; ++j) sum = decay_and_add<Sum, St>(sum, alpha.at(j, c), A.at(i, j), Real(x.at(j, c)));
        y.at(i, c) = sum;
      }
    });
  }
  /// Its adjoint: x(j) = sum_{i >= j} A_ij R(i, j) y(i).
  template <class Sum, class St, class Dst, class Ct, class Y, class Src>
  TILE_FN void value_sums_back(Sum, St, Dst& x, const Ct& A, const Y& y, const Src& alpha) {
    constexpr int N = Dst::rows;
    each_channel<Dst>([&](int c) {
#pragma unroll 1
      for (int j = 0; j < N; ++j) {
        Real sum = 0, next = 1;
#pragma unroll 4
        for (int i = N - 1; i >= j; --i) {
          sum = decay_and_add<Sum, St>(sum, next, A.at(i, j), Real(y.at(i, c)));
          next = alpha.at(i, c);
        }
        x.at(j, c) = sum;
      }
    });
  }
  /// By forward substitution, r(i) = w(i) - sum_{j < i} A_ij R(i - 1, j) step(j) r(j).
  template <class Sum, class St, class Dst, class Ct, class W, class Steps, class Src>
  TILE_FN void value_solve(Sum, St, Dst& r, const Ct& A, const W& w, const Steps& step, const Src& alpha) {
    each_channel<Dst>([&](int c) {
#pragma unroll 1
      for (int i = 0; i < Dst::rows; ++i) {
        Real sum = 0;
#pragma unroll 4
        for (int j = 0; j < i; ++j)
          sum = decay_and_add<Sum, St>(sum, alpha.at(j, c), A.at(i, j), written<Sum>(r.at(j, c), step.at(j, c)));
        r.at(i, c) = round_as<format_at<P, Sum>>(w.at(i, c) - sum);
      }
    });
  }
  /// By backward substitution, f(j) = y(j) - sum_{i > j} A_ij R(i - 1, j) step(i) f(i).
  template <class Sum, class St, class Dst, class Ct, class Y, class Steps, class Src>
  TILE_FN void value_solve_back(Sum, St, Dst& f, const Ct& A, const Y& y, const Steps& step, const Src& alpha) {
    constexpr int N = Dst::rows;
    each_channel<Dst>([&](int c) {
#pragma unroll 1
      for (int j = N - 1; j >= 0; --j) {
        Real sum = 0;
#pragma unroll 4
        for (int i = N - 1; i > j; --i)
          sum = decay_and_add<Sum, St>(sum, alpha.at(i, c), A.at(i, j), written<Sum>(f.at(i, c), step.at(i, c)));
        f.at(j, c) = round_as<format_at<P, Sum>>(y.at(j, c) - sum);
      }
    });
  }
  /// Adds to dg(r) the derivative by alpha_r, over which nothing is divided, of sum_{j <= i - lag} A_ij R(i - lag, j)
  /// y(i) x(j).
  template <class Sum, class St, class Dst, class Ct, class Y, class X, class Src>
  TILE_FN void value_gates(Sum, St, Dst& dg, const Ct& A, const Y& y, const X& x, const Src& alpha, int lag = 0) {
    constexpr int N = Dst::rows;
    each_channel<Dst>([&](int c) {
      Real gates[N], reached[N];  // reached: of row i, the sum over j < r
#pragma unroll
      for (int r = 0; r < N; ++r) gates[r] = dg.at(r, c);
#pragma unroll 1
      for (int i = lag; i < N; ++i) {
        Real sum = 0;
#pragma unroll
        for (int j = 0; j < N; ++j) {
          reached[j] = sum;
          if (j <= i - lag) sum = decay_and_add<Sum, St>(sum, alpha.at(j, c), A.at(i, j), Real(x.at(j, c)));
        }
        sum = Real(y.at(i, c));
#pragma unroll
        for (int r = N - 1; r > 0; --r)
          if (r <= i - lag) {
            gates[r] = round_as<format_at<P, Sum>>(fma(reached[r], sum, gates[r]));
            sum = round_as<format_at<P, St>>(times(sum, alpha.at(r, c)));
          }
      }
#pragma unroll
      for (int r = 0; r < N; ++r) dg.at(r, c) = gates[r];
    });
  }
  /// dg(r), the derivative by alpha_r of sum_i a_i at(i) + sum_i a_{i-1} behind(i) + sum_j z_j before(j) + a_last <S,
  /// G> of the column: a the prefixes of alpha (`lagged` holds a_{i-1}), z its suffixes.
  template <class Sum, class St, class Dst, class Row_, class State, class Adjoint, class Src>
  TILE_FN void value_end_gates(Sum, St, Dst& dg, const Row_& at, const Row_& behind, const Row_& before, const State& S,
                               const Adjoint& G, const Src& lagged, const Src& suffix, const Src& alpha) {
    constexpr int N = Dst::rows;
    constexpr Format of_sum = format_at<P, Sum>;
    each_channel<Dst>([&](int c) {
      Real sum = 0;
#pragma unroll 8
      for (int k = 0; k < State::rows; ++k) sum = round_as<of_sum>(fma(Real(S.at(k, c)), Real(G.at(k, c)), sum));
#pragma unroll 1
      for (int r = 0; r < N; ++r) {  // what has come in before r
        dg.at(r, c) = round_as<of_sum>(times(sum, suffix.at(r, c)));
        sum = round_as<of_sum>(round_as<format_at<P, St>>(times(sum, alpha.at(r, c))) + before.at(r, c));
      }
      sum = 0;
#pragma unroll 1
      for (int r = N - 1; r >= 0; --r) {  // what is read from r on
        if (r + 1 < N) sum = round_as<format_at<P, St>>(times(sum, alpha.at(r + 1, c)));
        sum = round_as<of_sum>(sum + at.at(r, c));
        if (r + 1 < N) sum = round_as<of_sum>(sum + behind.at(r + 1, c));
        dg.at(r, c) = round_as<of_sum>(dg.at(r, c) + round_as<of_sum>(times(sum, lagged.at(r, c))));
      }
    });
  }

  /// The rows' values, by column.
  template <class T, int MT>
  TILE_FN auto column_of(const RowRegisters<T, MT>& z) {
    constexpr int rows = MT * 16 * Warps;
    static_assert(rows <= scratch_elements);
    this->each_row(z, [&](const T& y, int r) {
      if (w.slot() == 0) scratch_[r] = y;
    });
    sync();
    ColRegisters<T, rows / 8> o;
#pragma unroll
    for (int nt = 0; nt < rows / 8; ++nt)
#pragma unroll
      for (int i = 0; i < 2; ++i) o.v[nt][i] = scratch_[nt * 8 + 2 * w.slot() + i];
    sync();
    return o;
  }

 private:
  Real* scratch_;

  /// One more term of a sum that decays; nothing decays before the first.
  template <class Sum, class St>
  TILE_FN static Real decay_and_add(Real sum, Real alpha, Real weight, Real x) {
    return round_as<format_at<P, Sum>>(fma(weight, x, round_as<format_at<P, St>>(times(sum, alpha))));
  }
  template <class Sum>
  TILE_FN static Real written(Real error, Real step) {
    return round_as<format_at<P, Sum>>(times(error, step));
  }

  template <class Tl, class F>
  TILE_FN static void each_channel(F f) {
#pragma unroll 1
    for (int c = threadIdx.x; c < Tl::cols; c += threads) f(c);
  }

  /// A row's values to scratch memory, from `first` on.
  template <class T, int MT>
  TILE_FN void gather(const RowRegisters<T, MT>& z, int first) {
    static_assert(2 * MT * 16 * Warps <= scratch_elements);
    this->each_row(z, [&](const T& y, int r) {
      if (w.slot() == 0) scratch_[first + r] = y;
    });
  }
  template <class St>
  TILE_FN static Real step_back(Real sum, Real decay, Real now, Real late) {
    return round_as<format_at<P, St>>(fma(decay, sum, round_as<format_at<P, St>>(now + late)));
  }

  /// f(i, rows, z of all rows) for i in [0, rows).
  template <class T, int MT, class F>
  TILE_FN void each_gathered(const RowRegisters<T, MT>& z, F f) {
    constexpr int rows = MT * 16 * Warps;
    static_assert(rows <= scratch_elements);
    this->each_row(z, [&](const T& y, int r) {
      if (w.slot() == 0) scratch_[r] = y;
    });
    sync();
#pragma unroll
    for (int i = 0; i < rows; ++i) f(i, rows, scratch_);
    sync();
  }

  template <int ST, class Pr>
  TILE_FN static void prologue(int n, Pr& produce) {
    static_assert(ST >= 2, "a stage is filled while another is used");
#pragma unroll
    for (int s = 0; s < ST - 1; ++s) {
      if (s < n) produce(s, s);
      commit();
    }
  }
  template <int ST, class Pr>
  TILE_FN void begin(int j, int n, int stage, Pr& produce) {
    wait<ST - 2>();
    sync();
    if (j + ST - 1 < n) produce(j + ST - 1, stage == 0 ? ST - 1 : stage - 1);
    commit();
  }

  template <class X>
  struct Transposed {
    const X& t;
    static constexpr Format format = X::format;
    static constexpr int rows = X::cols, cols = X::rows;
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
      constexpr int depth = Atom<F>::depth, MT = C1::MT;
#pragma unroll
      for (int kk = 0; kk < K / depth; ++kk) {
        typename Atom<F>::Register a[MT][4], a2[sizeof...(Rest) ? MT : 1][4], b[4];
#pragma unroll
        for (int mt = 0; mt < MT; ++mt) {
          left<MT>(a[mt], a1, mt, kk);
          if constexpr (sizeof...(Rest) == 2) second_left<MT>(a2[mt], mt, kk, rest...);
        }
#pragma unroll
        for (int np = 0; np < N / 16; ++np) {
          right<BT>(b, y, np, kk);
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
  // C += A B (or A B^T) of factors up to fp32 in an fp32 accumulator: as many products as a tensor core sums are summed
  // in fp64, where they are exact, before the accumulator rounds.
  template <bool BT, class B, class Cc, class A>
  TILE_FN void multiply_wide(const B& y, Cc& c, const A& x) {
    using Wide = Atom<Format::fp64>;
    constexpr int K = BT ? B::cols : B::rows, MT = Cc::MT, step = imin(P::products, K), depth = Wide::depth;
    constexpr bool in_registers = !requires { x.raw; }
    &&!requires { x.t; };
    static_assert(K % step == 0 && step % depth == 0);
    static_assert(std::is_same_v<std::remove_all_extents_t<decltype(c.x)>, float>);
#pragma unroll(in_registers ? K / step : 1)
    for (int k0 = 0; k0 < K; k0 += step) {
      double a[step / depth][MT][4];
#pragma unroll
      for (int kk = 0; kk < step / depth; ++kk)
#pragma unroll
        for (int mt = 0; mt < MT; ++mt) wide_left<MT>(a[kk][mt], x, mt, k0 / depth + kk);
#pragma unroll
      for (int nt = 0; nt < Cc::NT; ++nt) {
        double sum[MT][4];
#pragma unroll
        for (int mt = 0; mt < MT; ++mt)
#pragma unroll
          for (int i = 0; i < 4; ++i) sum[mt][i] = c.x[mt][nt][i];
#pragma unroll
        for (int kk = 0; kk < step / depth; ++kk) {
          const int k = k0 + kk * depth + 2 * w.slot(), n = nt * 8 + w.group();
          const double b0 = float(BT ? y.at(n, k) : y.at(k, n)), b1 = float(BT ? y.at(n, k + 1) : y.at(k + 1, n));
#pragma unroll
          for (int mt = 0; mt < MT; ++mt) Wide::mma(sum[mt], a[kk][mt], b0, b1);
        }
#pragma unroll
        for (int mt = 0; mt < MT; ++mt)
#pragma unroll
          for (int i = 0; i < 4; ++i) c.x[mt][nt][i] = float(sum[mt][i]);
      }
    }
  }
  // The left factor of that, whose registers lie as those of every depth of 8.
  template <int MT, class A>
  TILE_FN void wide_left(double (&a)[4], const A& x, int mt, int kk) const {
    const int r = w.warp * (MT * 16) + mt * 16 + w.group(), k = kk * 8 + 2 * w.slot();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = i / 2, half = i % 2;
      if constexpr (requires { x.wide; }) {
        a[i] = x.wide[mt][kk][2 * half + column];
      } else if constexpr (requires { x.t; }) {
        a[i] = float(x.t.at(k + column, r + 8 * half));
      } else if constexpr (requires { x.raw; }) {
        a[i] = float(x.at(r + 8 * half, k + column));
      } else if constexpr (Atom<A::format>::depth == 16) {
        const std::uint32_t both = x.a[mt][kk / 2][kk % 2 * 2 + half];
        const std::uint16_t bits = column == 0 ? both & 0xffff : both >> 16;
        a[i] = float(reinterpret_cast<const Element<A::format>&>(bits));
      } else {
        a[i] = __uint_as_float(x.a[mt][kk][i]);
      }
    }
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
