#pragma once
// half_inputs and half_products (kernels/programs/channel_sums.hpp) of MmaBlock: a thread has some rows of two columns,
// so that halves of few rows need no other thread, those of more the products of others alone. Where a program reads no
// row of an operand, it is left as it was.
#include "kernels/cuda/mma_block.cuh"

namespace assay::tile {

#if defined(__CUDACC__)
/// Which rows of two columns a thread has.
template <class Block, int C, int DC>
struct ThreadRows {
  static constexpr int pairs = DC / 2, groups = Block::threads / pairs, rows = C / groups;
  static_assert(groups * pairs == Block::threads && rows * groups == C && (rows & rows - 1) == 0);
  const int column = int(threadIdx.x) % pairs * 2, group = int(threadIdx.x) / pairs, first = group * rows;

  /// Zeros beyond the array.
  template <class E, class In, class At>
  TILE_FN void read(TwoOf<E> (&to)[rows], const In& from, int head, const At& at) const {
    const E* const base = static_cast<const E*>(from.p) + from.at(head, at.row0) * from.cols + at.c0 + column;
#pragma unroll
    for (int r = 0; r < rows; ++r)
      to[r] = two_if(at.row0 + first + r < from.rows && at.c0 + column < from.cols,
                     base + (first + r) * from.beside * from.cols);
  }
};
template <class Block, int C, int DC>
struct ThreadInputs {
  using P = typename Block::P;
  static constexpr int rows = ThreadRows<Block, C, DC>::rows;
  TwoOf<Element<format_of<P, "decay">>> log_decay[rows];
  TwoOf<Element<format_of<P, "Q">>> q[rows];
  TwoOf<Element<format_of<P, "K">>> k[rows];
};
/// Queries, keys, and the products of alpha in halves (HalfDecays).
template <class Block, class S, int C, int DC>
struct ThreadHalves : ThreadRows<Block, C, DC> {
  using P = typename Block::P;
  using Real = typename P::Real;
  using Rows = ThreadRows<Block, C, DC>;
  using Rows::rows, Rows::column, Rows::group, Rows::first;
  static constexpr Format of_decay = format_at<P, Site<"decay">>, of_alpha = format_at<P, Site<"alpha">>;
  TwoOf<Real> q[rows], k[rows], up_to[rows], after[rows], all[rows];

  TILE_FN explicit ThreadHalves(const ThreadInputs<Block, C, DC>& x) {
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        all[r].x[u] = round_as<of_alpha>(ex2(Real(x.log_decay[r].x[u]) * Real(0x1.71547652b82fep+0)));
        up_to[r].x[u] = all[r].x[u], after[r].x[u] = 1;
        q[r].x[u] = Real(x.q[r].x[u]), k[r].x[u] = Real(x.k[r].x[u]);
      }
  }
  /// Those of the level of halves of h rows.
  template <bool Errors>
  TILE_FN void put(S& s, int h, int level) const {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (in_second(r, h)) {
        put_product(s.queries[level], r, q[r], up_to[r]);
        if (Errors) put_product(s.keys[level], r, k[r], up_to[r]);
      } else {
        put_product(s.keys[level], r, k[r], after[r]);
      }
    }
  }
  /// Halves of 2h rows, by a thread's own.
  TILE_FN void join(int h) {
#pragma unroll
    for (int r = 0; r < rows; ++r) multiply(in_second(r, h) ? up_to[r] : after[r], all[(r ^ h) & -h]);
#pragma unroll
    for (int r = 0; r < rows; r += 2 * h) multiply(all[r], all[r + h]);
  }
  /// By those of `count` groups.
  template <int Count, class Tile>
  TILE_FN void join_groups(const Tile& of_groups) {
    TwoOf<Real> others[Count];
#pragma unroll
    for (int i = 0; i < Count; ++i) others[i] = two_at(of_groups, ((group ^ Count) & -Count) + i, column);
#pragma unroll
    for (int n = 1; n < Count; n *= 2)
#pragma unroll
      for (int i = 0; i < Count; i += 2 * n) multiply(others[i], others[i + n]);
#pragma unroll
    for (int r = 0; r < rows; ++r)  // no reference to one of both, which would have to lie in memory
      if (group & Count)
        multiply(up_to[r], others[0]);
      else
        multiply(after[r], others[0]);
  }
  template <Format F, class Out, class At>
  TILE_FN void store(const Out& to, const At& at, const TwoOf<Real> (&x)[rows],
                     const TwoOf<Real> (&decay)[rows]) const {
    if (at.c0 + column >= to.cols) return;
    auto* const base = static_cast<Element<F>*>(to.p) + to.at(at.head, at.row0) * to.cols + at.c0 + column;
#pragma unroll
    for (int r = 0; r < rows; ++r)
      if (at.row0 + first + r < to.rows)
        write_two<F>(base + (first + r) * to.beside * to.cols, x[r].x[0] * decay[r].x[0], x[r].x[1] * decay[r].x[1]);
  }

 private:
  TILE_FN bool in_second(int r, int h) const { return ((h < rows ? r : first) & h) != 0; }
  TILE_FN static void multiply(TwoOf<Real>& x, const TwoOf<Real>& y) {
#pragma unroll
    for (int u = 0; u < 2; ++u) x.x[u] = round_as<of_decay>(x.x[u] * y.x[u]);
  }
  template <class Tile>
  TILE_FN void put_product(Tile& t, int r, const TwoOf<Real>& x, const TwoOf<Real>& y) const {
    write_two<Tile::format>(&t.at(first + r, column), x.x[0] * y.x[0], x.x[1] * y.x[1]);
  }
};

template <class P, int Warps, int Parts, int C, int DC, class A, class At>
TILE_FN auto half_inputs(MmaBlock<P, Warps, Parts>&, Shape<C, DC>, const A& a, const At& at) {
  const ThreadRows<MmaBlock<P, Warps, Parts>, C, DC> mine;
  ThreadInputs<MmaBlock<P, Warps, Parts>, C, DC> x;
  mine.read(x.log_decay, a.log_decay, at.head, at);
  mine.read(x.q, a.q, at.shared, at), mine.read(x.k, a.k, at.shared, at);
  return x;
}
template <bool Errors, class P, int Warps, int Parts, int C, int DC, class S, class A, class At>
TILE_FN void half_products(MmaBlock<P, Warps, Parts>& b, const ThreadInputs<MmaBlock<P, Warps, Parts>, C, DC>& inputs,
                           S& s, const A& a, const At& at) {
  using Tile = std::remove_reference_t<decltype(s.queries[0])>;
  ThreadHalves<MmaBlock<P, Warps, Parts>, S, C, DC> x(inputs);
  constexpr int rows = x.rows, groups = x.groups;
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    write_two<Tile::format>(&s.queries[0].at(x.first + r, x.column), x.q[r].x[0], x.q[r].x[1]);
    write_two<Tile::format>(&s.keys[0].at(x.first + r, x.column), x.k[r].x[0], x.k[r].x[1]);
  }
  int level = 1;
#pragma unroll
  for (int h = 1; h < rows; h *= 2, ++level) x.template put<Errors>(s, h, level), x.join(h);
  reinterpret_cast<TwoOf<typename P::Real>&>(s.decays.at(x.group, x.column)) = x.all[0];
  b.sync();
  const auto by_groups = [&]<int n>(Shape<n>) {
    if constexpr (n < groups) {
      x.template put<Errors>(s, n * rows, level++);
      x.template join_groups<n>(s.decays);
    }
  };
  by_groups(Shape<1>{}), by_groups(Shape<2>{}), by_groups(Shape<4>{}), by_groups(Shape<8>{});
  static_assert(groups <= 16);
  x.template store<format_of<P, "aQc">>(a.aq, at, x.q, x.up_to);
  if constexpr (Errors) x.template store<format_of<P, "Xc">>(a.ak, at, x.k, x.up_to);
  x.template store<format_of<P, "zKc">>(a.zk, at, x.k, x.after);
  if (x.group == groups - 1)
    write_two<x.of_decay>(static_cast<typename P::Real*>(a.totals.p) + a.totals.at(at.head, at.total + x.column),
                          x.up_to[rows - 1].x[0], x.up_to[rows - 1].x[1]);
}
#endif

}  // namespace assay::tile
