#pragma once
// Decays of MmaBlock, a number for every row, and their adjoints.
#include "kernels/cuda/mma_products.cuh"

namespace assay::tile {

template <class P_, int Warps_, int Parts_>
struct MmaDecays : MmaProducts<P_, Warps_, Parts_> {
  using P = P_;
  using Base = MmaProducts<P, Warps_, Parts_>;
  using Base::Base, Base::scratch, Base::scratch_elements, Base::sync, Base::threads, Base::w, Base::Warps;
  using typename Base::Real;
  using typename Base::RowIn;

  // ---- decays: products of exp(g), never quotients, so that exp(-inf) = 0 is an ordinary gate. They are joined in
  // halves of halves by the lanes of a warp, where the host has one after the other.

  /// Row i holds prod_{l <= i - lag} exp(g_l).
  template <class St, int R>
  TILE_FN auto decay_prefix(St st, Shape<R> shape, const RowIn& g, int head, int row0, int lag = 0) {
    gather_decays(g, head, row0, R);
    scan<R, false, false>(Real(1), [](Real x, Real y) { return decayed<St>(x, y); });
    return row_of_scratch(st, shape, -lag, 1);
  }
  /// Row i holds prod_{l > i} exp(g_l) up to the end of the R rows.
  template <class St, int R>
  TILE_FN auto decay_suffix(St st, Shape<R> shape, const RowIn& g, int head, int row0) {
    gather_decays(g, head, row0, R);
    scan<R, true, true>(Real(1), [](Real x, Real y) { return decayed<St>(x, y); });
    return row_of_scratch(st, shape);
  }
  /// Every one of R rows holds prod_{l < count} exp(g_l).
  template <class St, int R>
  TILE_FN auto decay_total(St st, Shape<R> shape, const RowIn& g, int head, int row0, int count) {
    Real total = 1;
    for (int l = w.lane; l < count; l += 32) total = decayed<St>(total, decay(g, head, row0 + l));
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      total = decayed<St>(total, __shfl_xor_sync(~0u, total, distance));
    return this->row(st, shape, total);
  }

  /// Row i holds exp(g_i).
  template <class St, int R>
  TILE_FN auto decays(St st, Shape<R> shape, const RowIn& g, int head, int row0) {
    auto o = this->row(st, shape, 1);
    this->each_row(o, [&](Real& y, int r) {
      const Real x = Base::element(g, head, row0 + r);
      if (row0 + r < g.rows) y = round_as<format_at<P, St>>(g.logs ? Base::exponential(x) : x);
    });
    return o;
  }

  /// d(i, j) = prod_{j < l <= i - lag} exp(g_l), 1 where no gate is left, 0 above the diagonal: of a pair in two halves
  /// of 2h rows, the product after j in its half times that up to i - lag in its own.
  template <class St, class Dst>
  TILE_FN void decay_ratios(St, Dst& d, const RowIn& g, int head, int row0, int lag = 0) {
    constexpr int N = Dst::rows, step = threads / N, stride = N + 1;  // the stride: free of bank conflicts
    static_assert(Dst::cols == N && threads % N == 0);
    if (threadIdx.x < 32) put_halves<St, N>(g, head, row0);
    sync();
    const int j = threadIdx.x % N;
#pragma unroll 4
    for (int i = threadIdx.x / N; i < N; i += step) {
      const int last = i - lag, level = 31 - __clz((last ^ j) | 1);
      const Real* const halves = scratch() + level * stride;
      const Real x = last > j ? decayed<St>(halves[last], halves[j]) : Real(j <= i);
      d.at(i, j) = typename Dst::E(round_as<Dst::format>(x));
    }
    sync();
  }

  // ---- adjoints of the decays.

  /// Row r sums z(i, j) over j < r <= i - lag: a thread runs up its rows of a column and leaves what it has with what
  /// is below, and four add up a row.
  template <class St, class Src>
  TILE_FN auto gates_of_ratios(St st, Src& z, int lag = 0) {
    constexpr int N = Src::rows, count = N * N / threads;
    static_assert(Src::cols == N && threads % N == 0 && threads <= scratch_elements);
    const int j = threadIdx.x % N, first = threadIdx.x / N * count;
    Real below[count];
#pragma unroll
    for (int k = count - 1; k >= 0; --k)
      below[k] = (first + k < lag ? Real(0) : Real(z.at(first + k, j))) + (k == count - 1 ? Real(0) : below[k + 1]);
    scratch()[threadIdx.x] = below[0];
    sync();
    Real later = 0;
    for (int t = threads - N + j; t > int(threadIdx.x); t -= N) later += scratch()[t];
#pragma unroll
    for (int k = 0; k < count; ++k)
      z.at(first + k, j) = typename Src::E(j < first + k - lag ? later + below[k] : Real(0));
    sync();
    auto o = this->row(st, Shape<N>{}, 0);
    this->each_row(o, [&](Real& y, int r) {
      if (r + lag < N)
#pragma unroll
        for (int j = 0; j < N; j += 4) y += Real(z.at(r + lag, j + w.slot()));
      y += __shfl_xor_sync(~0u, y, 1);
      y += __shfl_xor_sync(~0u, y, 2);
    });
    sync();
    return o;
  }
  /// Row r sums z(i) over r <= i - lag.
  template <class St, int MT>
  TILE_FN auto gates_of_prefix(St st, const RowRegisters<Real, MT>& z, int lag = 0) {
    constexpr int rows = MT * 16 * Warps;
    gather(z);
    scan<rows, true, false>(Real(0), [](Real x, Real y) { return x + y; });
    return row_of_scratch(st, Shape<rows>{}, lag);
  }
  /// Row r sums z(i) over i < r.
  template <class St, int MT>
  TILE_FN auto gates_of_suffix(St st, const RowRegisters<Real, MT>& z) {
    constexpr int rows = MT * 16 * Warps;
    gather(z);
    scan<rows, false, true>(Real(0), [](Real x, Real y) { return x + y; });
    return row_of_scratch(st, Shape<rows>{});
  }
  /// Every row sums all of z: every lane of a warp some of it, then all of them theirs.
  template <class St, int R, int MT>
  TILE_FN auto gates_of_total(St st, Shape<R> shape, const RowRegisters<Real, MT>& z) {
    constexpr int rows = MT * 16 * Warps;
    gather(z);
    sync();
    Real sum = 0;
#pragma unroll
    for (int r = 0; r < rows; r += 32)
      if (r + w.lane < rows) sum += scratch()[r + w.lane];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    sync();
    return this->row(st, shape, sum);
  }

  /// The rows' values, by column.
  template <class T, int MT>
  TILE_FN auto column_of(const RowRegisters<T, MT>& z) {
    constexpr int rows = MT * 16 * Warps;
    constexpr int NT = rows / (8 * Parts_);
    gather(z);
    sync();
    ColRegisters<T, NT> o;
#pragma unroll
    for (int nt = 0; nt < NT; ++nt)
#pragma unroll
      for (int i = 0; i < 2; ++i) o.v[nt][i] = scratch()[(w.part * NT + nt) * 8 + 2 * w.slot() + i];
    sync();
    return o;
  }

  // ---- The numbers of all rows meet in scratch memory.

  /// Each row's number, from place `first` on.
  template <class T, int MT>
  TILE_FN void gather(const RowRegisters<T, MT>& z, int first = 0) {
    static_assert(MT * 16 * Warps <= scratch_elements);
    this->each_row(z, [&](const T& y, int r) {
      if (w.slot() == 0 && w.part == 0) scratch()[first + r] = y;
    });
  }
  /// The decays of `count` rows, 1 beyond the end.
  TILE_FN void gather_decays(const RowIn& g, int head, int row0, int count) {
    for (int l = threadIdx.x; l < count; l += threads) scratch()[l] = decay(g, head, row0 + l);
  }
  /// f() by one thread.
  template <class F>
  TILE_FN void alone(F f) {
    sync();
    if (threadIdx.x == 0) f();
    sync();
  }

 private:
  template <class St>
  TILE_FN static Real decayed(Real product, Real alpha) {
    return round_as<format_at<P, St>>(rounded_product(product, alpha));
  }

  /// The decay of a row, 1 beyond the end.
  TILE_FN static Real decay(const RowIn& g, int head, int row) {
    const Real x = Base::element(g, head, row);
    return row >= g.rows ? Real(1) : g.logs ? Base::exponential(x) : x;
  }

  /// By a warp: for h = 1, 2, ..., N / 2 a line of N products within halves of 2h rows, up to a row of the second half
  /// or after one of the first.
  template <class St, int N>
  TILE_FN void put_halves(const RowIn& g, int head, int row0) {
    constexpr int L = (N + 31) / 32;
    static_assert((N % 32 == 0 || N < 32) && L <= 2 && 6 * (N + 1) <= scratch_elements);
    Real upto[L], after[L];  // within h rows
#pragma unroll
    for (int e = 0; e < L; ++e) upto[e] = decay(g, head, row0 + w.lane + 32 * e), after[e] = 1;
    Real* line = scratch();
#pragma unroll
    for (int h = 1; h < N; h *= 2, line += N + 1) {
      Real whole[L];  // of the other half
#pragma unroll
      for (int e = 0; e < L; ++e)
        whole[e] = __shfl_sync(~0u, upto[h < 32 ? e : L - 1 - e], ((w.lane ^ h) | (h - 1)) & 31);
#pragma unroll
      for (int e = 0; e < L; ++e) {
        const int row = w.lane + 32 * e;
        const bool second = (row & h) != 0;
        const Real within = second ? upto[e] : after[e], joined = decayed<St>(within, whole[e]);
        if (row < N) line[row] = within;
        upto[e] = second ? joined : upto[e];
        after[e] = second ? after[e] : joined;
      }
    }
  }

  /// Of N numbers, each joined with those before it, or those alone (`Exclusive`), from the last one if asked; all may
  /// read them then.
  template <int N, bool Backwards, bool Exclusive, class F>
  TILE_FN void scan(Real none, F join) {
    constexpr int L = (N + 31) / 32;
    sync();
    if (threadIdx.x < 32) {
      const auto at = [](int p) { return Backwards ? N - 1 - p : p; };
      Real x[L];
#pragma unroll
      for (int e = 0; e < L; ++e) {
        const int p = w.lane * L + e;
        x[e] = p < N ? scratch()[at(p)] : none;
        if (e > 0) x[e] = join(x[e - 1], x[e]);
      }
      Real all = x[L - 1];
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const Real before = __shfl_up_sync(~0u, all, distance);
        if (w.lane >= distance) all = join(before, all);
      }
      Real before = __shfl_up_sync(~0u, all, 1);
      if (w.lane == 0) before = none;
#pragma unroll
      for (int e = 0; e < L; ++e) {
        const int p = w.lane * L + e;
        if (p >= N) continue;
        scratch()[at(p)] = !Exclusive ? join(before, x[e]) : e == 0 ? before : join(before, x[e - 1]);
      }
    }
    sync();
  }
  /// The numbers of R rows, or of those `shift` behind, or `missing`.
  template <class St, int R>
  TILE_FN auto row_of_scratch(St st, Shape<R> shape, int shift = 0, Real missing = 0) {
    auto o = this->row(st, shape, missing);
    this->each_row(o, [&](Real& y, int r) {
      if (r + shift >= 0 && r + shift < R) y = scratch()[r + shift];
    });
    sync();
    return o;
  }
};

}  // namespace assay::tile
