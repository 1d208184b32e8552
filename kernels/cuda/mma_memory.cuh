#pragma once
// Memory of MmaBlock: cp.async loads, pipelines, and scratch where threads meet.
#include "kernels/cuda/device_common.cuh"

namespace assay::tile {

template <class P_, int Warps_, int Parts_>
struct MmaMemory : RegisterOps<P_, Warps_, Parts_> {
  using P = P_;
  using Ops = RegisterOps<P, Warps_, Parts_>;
  using Ops::w;
  using typename Ops::Real;
  using typename Ops::RowIn;
  static constexpr int Warps = Warps_, Parts = Parts_, threads = 32 * Warps * Parts;

  template <FixedString S, int R, int C>
  using Tile = SharedTile<P, S, R, C>;
  template <class... Tiles>
  using InTurn = OneOf<Tiles...>;
  using In = MatrixIn;

  /// As many as a wide state has rows, of all parts.
  static constexpr int scratch_elements = 256 * Parts;
  static constexpr int scratch_bytes = scratch_elements * sizeof(Real);
  /// `scratch`: scratch_bytes of shared memory.
  TILE_FN explicit MmaMemory(void* scratch) : scratch_(static_cast<Real*>(scratch)) {
    const unsigned warp = threadIdx.x >> 5;
    w = {int(warp % Warps), int(threadIdx.x & 31), int(warp / Warps)};
  }

  /// Scratch memory of a block, `scratch_elements` of it.
  TILE_FN Real* scratch() const { return scratch_; }

  template <class F, class T, int MT>
  TILE_FN bool any(F f, const RowRegisters<T, MT>& x) {
    bool a = false;
#pragma unroll
    for (int mt = 0; mt < MT; ++mt) a |= f(x.v[mt][0]) || f(x.v[mt][1]);
    return __syncthreads_or(a);
  }

  /// Of all parts' columns, part by part.
  template <class St, class X, class Y>
  TILE_FN auto dot(St st, const X& x, const Y& y) {
    return of_all_parts(Ops::dot(st, x, y));
  }
  template <class St, int R>
  TILE_FN auto partial(St, Shape<R> shape) {
    return PartOfRows<R / (16 * Warps)>{this->of_part(shape), *this};
  }
  template <int MT>
  struct PartOfRows : PartialRegisters<Real, MT> {
    MmaMemory& b;
    TILE_FN auto total() const { return b.of_all_parts(PartialRegisters<Real, MT>::total()); }
  };
  template <int MT>
  TILE_FN auto of_all_parts(RowRegisters<Real, MT> sum) {
    if constexpr (Parts > 1) {
      constexpr int rows = MT * 16 * Warps;
      static_assert(rows * Parts <= scratch_elements);
      this->each_row(sum, [&](Real& s, int r) {
        if (w.slot() == 0) scratch()[w.part * rows + r] = s;
      });
      sync();
      this->each_row(sum, [&](Real& s, int r) {
        s = scratch()[r];
#pragma unroll
        for (int part = 1; part < Parts; ++part) s += scratch()[part * rows + r];
      });
      sync();
    }
    return sum;
  }

  /// Elements beyond the array's rows and columns read as zero. Columns are a multiple of 16 bytes: the launch
  /// checks.
  template <class Tl>
  TILE_FN void load(Tl& t, const In& g, int head, int row0, int col0 = 0) {
    using E = typename Tl::E;
    constexpr int chunks = Tl::chunks, size = Tl::chunk_elements;
    static_assert(Tl::rows * chunks % threads == 0 && (threads % chunks == 0 || chunks % threads == 0));
    const int step = g.beside * g.cols, row = threadIdx.x / chunks, chunk = threadIdx.x % chunks;
    const E* const from = static_cast<const E*>(g.p) + g.at(head, row0) * g.cols + col0 + row * step + chunk * size;
#pragma unroll
    for (int i = 0; i < Tl::rows * chunks / threads; ++i) {
      const int r = i * threads / chunks, c = i * threads % chunks;
      load_chunk(t, row + r, chunk + c, from + r * step + c * size,
                 row0 + row + r < g.rows && col0 + (chunk + c) * size < g.cols);
    }
  }
  /// 16 bytes, or zeros.
  template <class Tl>
  TILE_FN static void load_chunk(Tl& t, int r, int chunk, const void* from, bool there) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(t.raw) + Tl::chunk_offset(r, chunk)),
        "l"(from), "r"(there ? 16 : 0)
        : "memory");
  }
  /// Values that `store` wrote at the site, straight to registers; zeros beyond the array. Columns are a multiple of 8.
  template <class St, int R, int C>
  TILE_FN auto load_acc(St, Shape<R, C>, const In& g, int head, int row0, int col0 = 0) {
    using E = Element<format_at<P, St>>;
    Accumulator<P, Warps, Real, R, C, Parts> a;
    a.w = w;
    a.ticket = 0;
    const int first = col0 + w.part * a.NT * 8, step = g.beside * g.cols;
    const E* const base = static_cast<const E*>(g.p) + g.at(head, row0) * g.cols + first + 2 * w.slot();
#pragma unroll
    for (int mt = 0; mt < a.MT; ++mt)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int r = a.row_of(mt, 2 * h);
        const E* p = base + r * step;
#pragma unroll
        for (int nt = 0; nt < a.NT; ++nt) {
          const auto pair = two_if(row0 + r < g.rows && first + nt * 8 < g.cols, p + nt * 8);
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

  template <class Tl, class A>
  TILE_FN void put(Tl& t, const A& a) {
    static_assert(Tl::rows == A::rows && Tl::cols == A::cols);
#pragma unroll
    for (int mt = 0; mt < A::MT; ++mt)
#pragma unroll
      for (int nt = 0; nt < A::NT; ++nt)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          write_two<Tl::format>(&t.at(a.row_of(mt, 2 * h), a.col_of(nt, 0)), a.x[mt][nt][2 * h],
                                a.x[mt][nt][2 * h + 1]);
        }
  }

 private:
  Real* scratch_;

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
};

}  // namespace assay::tile
