#pragma once
// Changes of scores between their product and their weights, as steps that attention's tile programs take wherever
// they have scores (docs/arguments.md). A program names the kind of scores that it is an instance of; of PlainScores
// all steps are nothing, so that its bits are those of the program without them.
//   b_ij = bias_ij - slope_i |c_i - j|           c_i = i + offset; signed: + slope_i (j - c_i)
//   t_ij = scale q_i.k_j                         before_cap: + b_ij; before_scale: scale (q_i.k_j + b_ij)
//   x_ij = log2(e) (c tanh(t_ij / c) + b_ij)     without a cap t_ij for c tanh; b_ij here where it is added after the
//   cap sink   one more logit without a value: where m begins, and 2^(sink - m) of the mass at the end; of split keys
//   where
//          the merge begins
//   lse    its cotangent dlse_i is taken from delta_i: D_ij = p_ij (a_ij - delta_i + dlse_i)
//   E_ij = D_ij (1 - tanh^2), d_bias = D | E | scale E, d_slope_i = sum_j d_bias_ij d b_ij / d slope_i,
//   d_scale = sum E_ij q_i.k_j (before_scale: q_i.k_j + b_ij), d_sink_i = -2^(sink - lse_i) (delta_i - dlse_i)
// A step is made for the queries of a block, which are rows of its tiles, or for its keys, whose tiles are transposed.
#include "kernels/core/functions.hpp"

namespace assay::tile {

#if defined(__CUDACC__)
TILE_FN float hyperbolic_tangent(float x) { return ::tanhf(x); }
TILE_FN double hyperbolic_tangent(double x) { return ::tanh(x); }
#else
/// By its continued fraction near 0, where 1 - 2 / (e^2x + 1) cancels.
template <class T>
T hyperbolic_tangent(T x) {
  if (x > T(-0.5) && x < T(0.5)) {
    T below = 17;
    for (int k = 15; k > 0; k -= 2) below = T(k) + x * x / below;
    return x / below;
  }
  return 1 - 2 / (ex2(x * T(2.885390081777926814719849362003784L)) + 1);
}
#endif

/// Which keys each query sees: those from c_i - window + 1 (window 0: from the first) to c_i + right (right < 0: to the
/// last), c_i = i + offset. The members are those of Visibility.
struct KeyWindows {
  int queries, keys, window, right, offset;
  int ahead = 0;  ///< keys further than `right` that a query sees: 0, except in a fault
  TILE_HD constexpr int end(int row) const {
    return right < 0 ? keys : imax(0, imin(row + offset + right + 1 + ahead, keys));
  }
  TILE_HD constexpr int begin(int row) const { return window > 0 ? imax(0, row + offset + 1 - window) : 0; }
  TILE_HD constexpr bool operator()(int row, int key) const {
    return row < queries && key >= begin(row) && key < end(row);
  }
  TILE_HD constexpr bool all(int r0, int r1, int k0, int k1) const {
    return r1 <= queries && begin(r1 - 1) <= k0 && k1 <= end(r0);
  }
  TILE_HD constexpr int first_key(int r0) const { return imin(begin(r0), keys); }
  TILE_HD constexpr int last_key(int r1) const { return queries > 0 ? end(imin(r1, queries) - 1) : 0; }
  TILE_HD constexpr int first_row(int k0) const {
    return right < 0 ? 0 : imin(queries, imax(0, k0 - offset - right - ahead));
  }
  TILE_HD constexpr int last_row(int k1) const {
    return window > 0 ? imin(queries, imax(0, k1 - 1 + window - offset)) : queries;
  }
};

/// q_i.k_j / h and nothing else.
struct PlainScores {
  using Sees = Visibility;
  template <class B>
  struct Args {};
  template <class X>
  TILE_FN static Visibility windows(X&, const Visibility& sees) {
    return sees;
  }

  /// A block's step. `Keys`: its rows are keys.
  template <class X, class B, Size R, bool Keys = false>
  struct Step {
    X& b;
    TILE_FN Step(X& x, const Args<B>&, typename B::Real, int, int) : b(x) {}

    template <class T>
    TILE_FN T factor(T scale) const {
      return scale;
    }
    template <class A>
    TILE_FN Nothing enter(A&, int, int) const {
      return {};
    }
    template <class A>
    TILE_FN void hide(A&, int, int, typename B::Real) const {}
    TILE_FN auto first_maximum() const { return b.row("m"_s, Shape<R>{}, -INFINITY); }
    TILE_FN auto first_mass() const { return b.row("l"_s, Shape<R>{}, 0); }
    TILE_FN auto maximum_of_split() const { return first_maximum(); }
    template <class Row>
    TILE_FN Row mass(const Row& sum, const Row&) const {
      return sum;
    }
    template <class Row>
    TILE_FN Row mass_of_split(const Row& sum, const Row&) const {
      return sum;
    }
    /// Returns it.
    template <class Row>
    TILE_FN Row store_lse(const Row& lse) const {
      return lse;
    }
    template <class Row>
    TILE_FN void store_lse(const Row&, const Row&) const {}
    template <class St, class Row>
    TILE_FN Row of_lse(St, const Row& delta) const {
      return delta;
    }
    /// D becomes E; L is log p.
    template <class A>
    TILE_FN void leave(A&, const Nothing&, int, int) const {}
    template <class Partial, class A, class Row>
    TILE_FN void fold_scale(Partial& sum, const Row& one, A& L, A& dS, const Nothing&) const {
      L.zip("dh"_s, times, dS);
      sum.fold(one, L);
    }
    template <class Row>
    TILE_FN void store_gradients(const Row&, const Row&) const {}
  };
};

/// Where a bias enters.
enum class BiasPlace { after_cap, before_cap, before_scale };

/// Scores with arguments. A missing argument costs nothing and rounds nothing.
struct ArgumentScores {
  using Sees = KeyWindows;
  /// Arrays of queries [heads][rows], of keys [1][keys], of pairs [heads][rows][keys], transposed in passes whose rows
  /// are keys.
  template <class B>
  struct Args {
    using Real = typename B::Real;
    typename B::RowIn slope, center, document, sink, dlse;
    typename B::RowIn position, document_of_key;
    typename B::In bias, seen;
    typename B::RowOut lse, dslope, dsink;
    typename B::Out dbias;
    Real scale, cap, in_base;  ///< cap 0: none; in_base: of an lse in base 2
    BiasPlace place;
    bool changes, has_bias, has_slopes, is_signed, has_documents, has_mask, has_sink, has_dlse;
  };

  /// The faults of windows.
  template <class X>
  TILE_FN static KeyWindows windows(X& b, KeyWindows sees) {
    const bool unequal = sees.window > 0 && sees.queries != sees.keys;
    sees.window += b.planted("window_one_off_at_unequal_lengths"_s, 0, unequal ? 1 : 0);
    sees.offset = b.planted("aligned_at_the_first_key"_s, sees.offset, 0);
    return sees;
  }

  /// The factor whose sum is d_scale, before E, and tanh(t / c).
  template <class A>
  struct Entered {
    A product, tangent;
  };

  template <class X, class B, Size R, bool Keys = false>
  struct Step {
    using Real = typename B::Real;
    using Row = decltype(std::declval<X&>().row("m"_s, Shape<R>{}, 0));
    X& b;
    const Args<B>& a;
    const Real units;  ///< of a product of operands
    const int head, row0;
    Row slope, center, document, sink;  ///< of keys: `center` is their position
    decltype(std::declval<X&>().partial("dslope"_s, Shape<R>{})) dslope;

    TILE_FN Step(X& x, const Args<B>& args, Real operand_units, int of_head, int first)
        : b(x),
          a(args),
          units(operand_units),
          head(of_head),
          row0(first),
          slope(b.row("slope"_s, Shape<R>{}, 0)),
          center(slope),
          document(slope),
          sink(slope),
          dslope(b.partial("dslope"_s, Shape<R>{})) {
      if constexpr (Keys) {
        if (a.has_slopes) center = b.load_row("position"_s, Shape<R>{}, a.position, 0, row0);
        if (a.has_documents) document = b.load_row("document"_s, Shape<R>{}, a.document_of_key, 0, row0);
      } else {
        if (a.has_slopes) slope = b.load_row("slope"_s, Shape<R>{}, a.slope, head, row0);
        if (a.has_slopes) center = b.load_row("position"_s, Shape<R>{}, a.center, head, row0);
        if (a.has_documents) document = b.load_row("document"_s, Shape<R>{}, a.document, head, row0);
        if (a.has_sink) sink = b.load_row("sink"_s, Shape<R>{}, a.sink, head, row0);
      }
    }

    /// Scores in base 2 have no factor left.
    TILE_FN Real factor(Real scale) const { return a.changes ? Real(1) : scale; }

    /// x in place of the products of a tile whose columns begin at `col0`, of query head `of`.
    template <class A>
    TILE_FN Entered<A> enter(A& S, int of, int col0) const {
      Entered<A> kept{S, S};
      if (!a.changes) return kept;
      auto B_ = S;  // b_ij
      B_.map("bias"_s, [](auto) { return Real(0); });
      if (a.has_bias) {
        if constexpr (Keys)
          B_ = b.load_acc("bias"_s, Shape<A::rows, A::cols>{}, a.bias, of, row0, col0);
        else
          B_ = b.load_acc("bias"_s, Shape<A::rows, A::cols>{}, a.bias, head, row0, col0);
      }
      if (a.has_slopes) add_slopes(B_, of, col0);
      const Real scale = a.scale, u = units, log2e_ = Real(1.442695040888963407359924681001892137L);
      const BiasPlace place = b.planted("bias_after_the_cap"_s, a.place, BiasPlace::after_cap);
      const auto before = [=](auto y, auto bias) {
        return place == BiasPlace::before_scale ? scale * (y * u + bias)
               : place == BiasPlace::before_cap ? scale * (y * u) + bias
                                                : scale * (y * u);
      };
      kept.product.zip(
          "dh"_s, [=](auto y, auto bias) { return place == BiasPlace::before_scale ? y * u + bias : y * u; }, B_);
      const auto after = [=](auto s, auto bias) { return (place == BiasPlace::after_cap ? s + bias : s) * log2e_; };
      if (a.cap == 0) {
        S.zip(
            "x"_s, [=](auto y, auto bias) { return after(before(y, bias), bias); }, B_);
        return kept;
      }
      const Real cap = a.cap;
      S.zip("x"_s, before, B_);
      kept.tangent = S;
      kept.tangent.map("tanh"_s, [=](auto t) { return hyperbolic_tangent(t / cap); });
      if (b.planted("score_times_its_tanh"_s, false, true))
        S.map("x"_s, [](auto t) { return t * hyperbolic_tangent(t); });
      else
        S.zip(
            "x"_s, [=](auto, auto th) { return cap * th; }, kept.tangent);
      S.zip("x"_s, after, B_);
      return kept;
    }

    /// `fill` where a mask or another document hides a key.
    template <class A>
    TILE_FN void hide(A& S, int of, int col0, Real fill) const {
      if (a.has_documents && b.planted("documents_ignored"_s, true, false)) {
        const auto other = [&] {
          if constexpr (Keys)
            return b.load_col("document"_s, Shape<1, A::cols>{}, a.document, of, col0);
          else
            return b.load_col("document"_s, Shape<1, A::cols>{}, a.document_of_key, 0, col0);
        }();
        S.map(
            "seen"_s, [=](auto s, auto x, auto y) { return x == y ? s : fill; }, document, other);
      }
      if (a.has_mask) {
        const int next = b.planted("mask_of_the_next_key"_s, 0, 1);
        const auto seen = b.load_acc("seen"_s, Shape<A::rows, A::cols>{}, a.seen, Keys ? of : head,
                                     row0 + (Keys ? next : 0), col0 + (Keys ? 0 : next));
        S.zip(
            "seen"_s, [=](auto s, auto x) { return x > 0 ? s : fill; }, seen);
      }
    }

    /// A maximum that is at least the sink's logit.
    TILE_FN auto first_maximum() const { return a.has_sink ? in_base_2() : b.row("m"_s, Shape<R>{}, -INFINITY); }
    /// The sum of weights, the sink's among them; m is the maximum.
    template <class R_>
    TILE_FN R_ mass(const R_& sum, const R_& m) const {
      if (!a.has_sink) return sum;
      const auto shift = b.rows("m"_s, finite_or_zero, m);
      const auto share = b.rows("alpha"_s, rescaling, in_base_2(), shift);
      const int times_ = b.planted("sink_counted_twice"_s, 1, 2);
      return b.rows(
          "l"_s, [=](auto z, auto w) { return z + w * Real(times_); }, sum, share);
    }
    /// Where the keys are split the merge has the sink.
    TILE_FN Row first_mass() const {
      if (!a.has_sink) return b.row("l"_s, Shape<R>{}, 0);
      return b.rows(
          "l"_s, [](auto s) { return Real(s > -INFINITY ? 1 : 0); }, sink);
    }
    TILE_FN Row maximum_of_split() const {
      if (a.has_sink && b.planted("sink_in_every_split"_s, false, true)) return in_base_2();
      return b.row("m"_s, Shape<R>{}, -INFINITY);
    }
    template <class R_>
    TILE_FN R_ mass_of_split(const R_& sum, const R_& m) const {
      return b.planted("sink_in_every_split"_s, false, true) ? mass(sum, m) : sum;
    }
    template <class R_>
    TILE_FN void store_lse(const R_& mass, const R_& m) const {
      write_lse(b.rows("lse"_s, log_sum, mass, m));
    }
    /// Returns what the backward pass takes off scores.
    template <class R_>
    TILE_FN R_ store_lse(const R_& lse) const {
      write_lse(lse);
      if (!a.has_sink || b.planted("sink_left_out_of_the_backward"_s, true, false)) return lse;
      return b.rows(
          "lse"_s, [](auto all, auto s) { return all + lg2(1 - ex2(s - all)); }, lse, in_base_2());
    }
    /// delta_i without the cotangent of lse.
    template <class St, class R_>
    TILE_FN R_ of_lse(St site, const R_& delta) const {
      if (!a.has_dlse || b.planted("lse_cotangent_dropped"_s, false, true)) return delta;
      return b.rows(site, minus, delta, b.load_row("dlse"_s, Shape<R>{}, a.dlse, head, row0));
    }

    /// D becomes E, and what biases and slopes have of it leaves where rows are queries.
    template <class A>
    TILE_FN void leave(A& D, const Entered<A>& kept, int of, int col0) {
      if (!a.changes) return;
      const auto after = D;
      if (a.cap != 0 && b.planted("slope_of_the_cap_forgotten"_s, true, false))
        D.zip(
            "D"_s, [](auto d, auto th) { return d * (1 - th * th); }, kept.tangent);
      if constexpr (!Keys) {
        if (!a.has_bias && !a.has_slopes) return;
        auto of_bias = a.place == BiasPlace::after_cap ? after : D;
        const Real scale = b.planted("bias_gradient_without_scale"_s, a.scale, Real(1));
        if (a.place == BiasPlace::before_scale) of_bias.map("dbias"_s, [=](auto d) { return d * scale; });
        if (a.has_bias) b.store("dbias"_s, a.dbias, head, row0, of_bias, col0);
        if (a.has_slopes) fold_slopes(of_bias, col0);
      }
      (void)of;
    }
    /// sum_j E_ij q_i.k_j
    template <class Partial, class A, class R_>
    TILE_FN void fold_scale(Partial& sum, const R_& one, A& L, A& E, Entered<A>& kept) const {
      if (!a.changes && (a.has_sink || a.has_dlse)) {  // rows of D have a sum: log p does not stand in for s
        const Real u = units;
        kept.product.map("dh"_s, [=](auto y) { return y * u; });
      }
      A& factor = a.changes || a.has_sink || a.has_dlse ? kept.product : L;
      factor.zip("dh"_s, times, E);
      sum.fold(one, factor);
    }
    /// `delta` without the cotangent of lse.
    template <class R_>
    TILE_FN void store_gradients(const R_& lse, const R_& delta) {
      if (a.has_slopes) b.store_row("dslope"_s, a.dslope, head, row0, dslope.total());
      if (!a.has_sink) return;
      const auto share = b.rows("alpha"_s, rescaling, in_base_2(), lse);
      b.store_row("dsink"_s, a.dsink, head, row0, b.rows("dsink"_s, negative_times, share, delta));
    }

   private:
    template <class R_>
    TILE_FN void write_lse(const R_& lse) const {
      const Real in_base = a.in_base;
      const Real off = b.planted("lse_off_by_ln_2"_s, Real(0), Real(0.6931471805599453));
      b.store_row("lse"_s, a.lse, head, row0,
                  b.rows(
                      "lse"_s, [=](auto x) { return x * in_base + off; }, lse));
    }
    TILE_FN Row in_base_2() const {
      const Real log2e_ = b.planted("sink_in_base_e"_s, Real(1.442695040888963407359924681001892137L), Real(1));
      return b.rows(
          "m"_s, [=](auto s) { return s * log2e_; }, sink);
    }
    /// d b_ij / d slope_i of a distance j - c.
    TILE_FN static Real of_slope(Real from, bool is_signed) { return is_signed || from < 0 ? from : -from; }

    template <class A>
    TILE_FN void add_slopes(A& bias, int of, int col0) const {
      const bool is_signed = a.is_signed;
      if constexpr (Keys) {
        const auto slopes = b.load_col("slope"_s, Shape<1, A::cols>{}, a.slope, of, col0);
        const auto centers = b.load_col("position"_s, Shape<1, A::cols>{}, a.center, of, col0);
        bias.map(
            "bias"_s, [=](auto y, auto j, auto m, auto c) { return y + m * of_slope(j - c, is_signed); }, center,
            slopes, centers);
      } else {
        const auto positions = b.load_col("position"_s, Shape<1, A::cols>{}, a.position, 0, col0);
        bias.map(
            "bias"_s, [=](auto y, auto m, auto c, auto j) { return y + m * of_slope(j - c, is_signed); }, slope, center,
            positions);
      }
    }
    template <class A>
    TILE_FN void fold_slopes(A& gradient, int col0) {
      const bool is_signed = b.planted("alibi_gradient_of_the_other_form"_s, a.is_signed, !a.is_signed);
      const auto positions = b.load_col("position"_s, Shape<1, A::cols>{}, a.position, 0, col0);
      gradient.map(
          "dslope"_s, [=](auto d, auto c, auto j) { return d * of_slope(j - c, is_signed); }, center, positions);
      dslope.fold(b.row("dslope"_s, Shape<R>{}, 1), gradient);
    }
  };
};

inline constexpr SiteTable::Init score_roles[] = {
    {"x", Role::accumulator}, {"tanh", Role::gate},     {"bias", Role::gate},        {"slope", Role::gate},
    {"position", Role::gate}, {"document", Role::gate}, {"seen", Role::accumulator}, {"sink", Role::gate},
    {"dlse", Role::gate},     {"dbias", Role::gate},    {"dslope", Role::gate},      {"dsink", Role::gate}};

}  // namespace assay::tile
