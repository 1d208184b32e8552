#pragma once
// ChannelBlock: MmaBlock for FALCON-2, and its verbs (kernels/host/host_value_columns.hpp), whose chains run through
// the systems of single value channels. A term's shares of all rows are independent of each other, so a thread keeps
// the sums of a whole column in registers and hands every term on at once. Each sum has the CPU's terms in the CPU's
// order.
#include "kernels/cuda/mma_block.cuh"

namespace assay::tile {

#if defined(__CUDACC__)
template <class P_, int Warps_>
struct ChannelBlock : MmaBlock<P_, Warps_> {
  using P = P_;
  using Base = MmaBlock<P, Warps_>;
  using Base::Base;
  using Base::threads;
  using typename Base::Real;

  /// By the last threads: those of a prefix are the first.
  template <class St, class Dst, class Src>
  TILE_FN void channel_suffix(St, Dst& d, const Src& alpha) {
    each_column<Dst>(threads - 1 - int(threadIdx.x), [&](int c) {
      Real product = 1;
#pragma unroll
      for (int j = Dst::rows - 1; j >= 0; --j) {
        d.at(j, c) = product;
        product = round_as<format_at<P, St>>(rounded_product(product, alpha.at(j, c)));
      }
    });
  }

  /// f(c) for the columns of a thread, which counts from `first`.
  template <class Tl, class F>
  TILE_FN static void each_column(int first, F f) {
#pragma unroll 1
    for (int c = first; c < Tl::cols; c += threads) f(c);
  }
  /// Row i's term for the sums of the first `count` columns of A.
  template <class Sum, class St, int N, class Ct>
  TILE_FN static void add_row(Real (&sums)[N], int count, const Ct& A, int i, Real decay, Real term) {
    static_assert(std::is_same_v<typename Ct::E, Real>);
#pragma unroll
    for (int k = 0; k < N; k += 4) {
      if (k >= count) continue;
      const auto weight = four_at(A, i, k);
#pragma unroll
      for (int u = 0; u < 4; ++u)
        if (k + u < count) sums[k + u] = decay_and_add<Sum, St>(sums[k + u], decay, weight.x[u], term);
    }
  }
  template <class Sum, class St>
  TILE_FN static Real decay_and_add(Real sum, Real alpha, Real weight, Real x) {
    return round_as<format_at<P, Sum>>(fma(weight, x, round_as<format_at<P, St>>(rounded_product(sum, alpha))));
  }
  template <class Sum>
  TILE_FN static Real written(Real error, Real step) {
    return round_as<format_at<P, Sum>>(rounded_product(error, step));
  }
};

template <class P, int Warps, class Sum, class St, class Dst, class Ct, class X, class Src>
TILE_FN void value_sums(ChannelBlock<P, Warps>&, Sum, St, Dst& y, const Ct& A, const X& x, const Src& alpha) {
  using Block = ChannelBlock<P, Warps>;
  using Real = typename P::Real;
  constexpr int N = Dst::rows;
  Block::template each_column<Dst>(threadIdx.x, [&](int c) {
    Real sums[N] = {};
#pragma unroll
    for (int k = 0; k < N; k += 4) {
      Real decay[4], term[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) decay[u] = alpha.at(k + u, c), term[u] = Real(x.at(k + u, c));
#pragma unroll
      for (int i = k; i < N; ++i) {
        const auto weight = four_at(A, i, k);
#pragma unroll
        for (int u = 0; u < 4; ++u)
          if (k + u <= i) sums[i] = Block::template decay_and_add<Sum, St>(sums[i], decay[u], weight.x[u], term[u]);
      }
    }
#pragma unroll
    for (int i = 0; i < N; ++i) y.at(i, c) = sums[i];
  });
}
template <class P, int Warps, class Sum, class St, class Dst, class Ct, class Y, class Src>
TILE_FN void value_sums_back(ChannelBlock<P, Warps>&, Sum, St, Dst& x, const Ct& A, const Y& y, const Src& alpha) {
  using Block = ChannelBlock<P, Warps>;
  using Real = typename P::Real;
  constexpr int N = Dst::rows;
  Block::template each_column<Dst>(threadIdx.x, [&](int c) {
    Real sums[N] = {}, decay = 1;
#pragma unroll
    for (int i = N - 1; i >= 0; --i) {
      Block::template add_row<Sum, St>(sums, i + 1, A, i, decay, Real(y.at(i, c)));
      decay = alpha.at(i, c);
    }
#pragma unroll
    for (int j = 0; j < N; ++j) x.at(j, c) = sums[j];
  });
}
template <class P, int Warps, class Sum, class St, class Dst, class Ct, class W, class Steps, class Src>
TILE_FN void value_solve(ChannelBlock<P, Warps>&, Sum, St, Dst& r, const Ct& A, const W& w, const Steps& step,
                         const Src& alpha) {
  using Block = ChannelBlock<P, Warps>;
  using Real = typename P::Real;
  constexpr int N = Dst::rows;
  Block::template each_column<Dst>(threadIdx.x, [&](int c) {
    Real sums[N] = {};
#pragma unroll
    for (int k = 0; k < N; k += 4) {
      Real decay[4], term[4];
      const auto solve = [&](int i) {
        const Real error = round_as<format_at<P, Sum>>(w.at(i, c) - sums[i]);
        r.at(i, c) = error;
        decay[i - k] = alpha.at(i, c), term[i - k] = Block::template written<Sum>(error, step.at(i, c));
      };
      solve(k);
#pragma unroll
      for (int i = k + 1; i < N; ++i) {
        const auto weight = four_at(A, i, k);
#pragma unroll
        for (int u = 0; u < 4; ++u)
          if (k + u < i) sums[i] = Block::template decay_and_add<Sum, St>(sums[i], decay[u], weight.x[u], term[u]);
        if (i < k + 4) solve(i);
      }
    }
  });
}
template <class P, int Warps, class Sum, class St, class Dst, class Ct, class Y, class Steps, class Src>
TILE_FN void value_solve_back(ChannelBlock<P, Warps>&, Sum, St, Dst& f, const Ct& A, const Y& y, const Steps& step,
                              const Src& alpha) {
  using Block = ChannelBlock<P, Warps>;
  using Real = typename P::Real;
  constexpr int N = Dst::rows;
  Block::template each_column<Dst>(threadIdx.x, [&](int c) {
    Real sums[N] = {};
#pragma unroll
    for (int i = N - 1; i >= 0; --i) {
      const Real error = round_as<format_at<P, Sum>>(y.at(i, c) - sums[i]);
      f.at(i, c) = error;
      Block::template add_row<Sum, St>(sums, i, A, i, alpha.at(i, c),
                                       Block::template written<Sum>(error, step.at(i, c)));
    }
  });
}
/// Four rows i at a time.
template <class P, int Warps, class Sum, class St, class Dst, class Ct, class Y, class X, class Src>
TILE_FN void value_gates(ChannelBlock<P, Warps>&, Sum, St, Dst& dg, const Ct& A, const Y& y, const X& x,
                         const Src& alpha, int lag = 0) {
  using Block = ChannelBlock<P, Warps>;
  using Real = typename P::Real;
  constexpr int N = Dst::rows;
  Block::template each_column<Dst>(threadIdx.x, [&](int c) {
    Real gates[N];
#pragma unroll
    for (int r = 0; r < N; ++r) gates[r] = dg.at(r, c);
#pragma unroll 1
    for (int i = 0; i < N; i += 4) {
      Real reached[4][N], sums[4] = {};  // reached: of a row, the sum over j < r
#pragma unroll
      for (int k = 0; k < N; k += 4) {
        if (k > i) continue;
        FourOf<typename Ct::E> weight[4];
#pragma unroll
        for (int g = 0; g < 4; ++g) weight[g] = four_at(A, i + g, k);
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          const Real decay = alpha.at(k + u, c), term = Real(x.at(k + u, c));
#pragma unroll
          for (int g = 0; g < 4; ++g) {
            reached[g][k + u] = sums[g];
            if (k + u <= i + g - lag)
              sums[g] = Block::template decay_and_add<Sum, St>(sums[g], decay, weight[g].x[u], term);
          }
        }
      }
#pragma unroll
      for (int g = 0; g < 4; ++g) sums[g] = Real(y.at(i + g, c));
#pragma unroll
      for (int k = N - 4; k >= 0; k -= 4) {
        if (k > i) continue;
#pragma unroll
        for (int r = k + 3; r >= k && r > 0; --r) {
          const Real decay = alpha.at(r, c);
#pragma unroll
          for (int g = 0; g < 4; ++g)
            if (r <= i + g - lag) {
              gates[r] = round_as<format_at<P, Sum>>(fma(reached[g][r], sums[g], gates[r]));
              sums[g] = round_as<format_at<P, St>>(rounded_product(sums[g], decay));
            }
        }
      }
    }
#pragma unroll
    for (int r = 0; r < N; ++r) dg.at(r, c) = gates[r];
  });
}
template <class P, int Warps, class Sum, class St, class Dst, class Row_, class State, class Adjoint, class Src>
TILE_FN void value_end_gates(ChannelBlock<P, Warps>&, Sum, St, Dst& dg, const Row_& at, const Row_& behind,
                             const Row_& before, const State& S, const Adjoint& G, const Src& lagged, const Src& suffix,
                             const Src& alpha) {
  using Block = ChannelBlock<P, Warps>;
  using Real = typename P::Real;
  constexpr int N = Dst::rows;
  constexpr Format of_sum = format_at<P, Sum>, of_decay = format_at<P, St>;
  Block::template each_column<Dst>(threadIdx.x, [&](int c) {
    Real gates[N], sum = 0;
#pragma unroll 16
    for (int k = 0; k < State::rows; ++k) sum = round_as<of_sum>(fma(Real(S.at(k, c)), Real(G.at(k, c)), sum));
#pragma unroll
    for (int r = 0; r < N; ++r) {
      gates[r] = round_as<of_sum>(rounded_product(sum, suffix.at(r, c)));
      sum = round_as<of_sum>(round_as<of_decay>(rounded_product(sum, alpha.at(r, c))) + before.at(r, c));
    }
    sum = 0;
#pragma unroll
    for (int r = N - 1; r >= 0; --r) {
      if (r + 1 < N) sum = round_as<of_decay>(rounded_product(sum, alpha.at(r + 1, c)));
      sum = round_as<of_sum>(sum + at.at(r, c));
      if (r + 1 < N) sum = round_as<of_sum>(sum + behind.at(r + 1, c));
      dg.at(r, c) = round_as<of_sum>(gates[r] + round_as<of_sum>(rounded_product(sum, lagged.at(r, c))));
    }
  });
}
#else
template <class P, int Warps>
struct ChannelBlock : MmaBlock<P, Warps> {};
#endif

}  // namespace assay::tile
