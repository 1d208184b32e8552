#pragma once
// DrawBlock runs a tile program as HostBlock does, on a GPU: the same sums in the same order, the same sites with
// run-time formats, the same random word for every element that is rounded. kernels/host says what each verb does; here
// is who does it. All threads of a block run the program; each keeps count of the random words of all of them. Where
// HostBlock goes along a row or a column from one element to the next, one thread does; else the elements are dealt
// out.
#include "kernels/core/functions.hpp"
#include "kernels/draws/draw_values.hpp"

namespace assay::draws {

using tile::Two;

template <class St>
inline constexpr std::uint64_t key_of_site = key_of(St::name());

/// Numbers that the threads of a block exchange: near, and more of them in memory.
struct Exchange {
  static constexpr int depth = 16, a_stride = depth + 1, b_stride = 128 + 2, most_rows = 128;
  static constexpr int near = most_rows * a_stride + depth * b_stride;
  static constexpr int far = 4 * 128 * 128;
  double* here;
  double* there;
};

/// A factor of a product: element (i, k) is at i * step + k * along. Null: in the registers of an operand.
struct Factor {
  const double* p;
  int step, along;
};

class DrawBlock {
 public:
  using Real = double;
  static constexpr int lanes = partial_sums;
  struct In {
    const double* p;
    int rows, cols;
  };
  struct RowIn {
    const double* p;
    int rows;
    bool logs = true;
  };
  struct RowOut {
    double* p;
    int rows;
  };
  struct Out {
    double* p;
    int rows, cols;
  };
  template <FixedString S, Size R, Size C>
  using Tile = DrawTile<S, R, C>;
  template <class... Tiles>
  using InTurn = tile::SideBySide<Tiles...>;
  template <Size R>
  using Row = DrawRow<R>;
  template <Size C>
  using Col = DrawCol<C>;
  template <Size R, Size C>
  using Acc = DrawAcc<R, C>;
  template <Size R>
  using Partial = DrawPartial<R>;
  template <Size R, Size C>
  using Operand = DrawOperand<R, C>;

  /// `item` numbers the block within its launch.
  DRAW_FN DrawBlock(const DrawPolicy& policy, std::uint64_t item, Exchange exchange)
      : policy_(policy), seed_(random_word(policy.seed, item)), exchange_(exchange) {}
  DrawBlock(const DrawBlock&) = delete;
  DrawBlock& operator=(const DrawBlock&) = delete;
  ~DrawBlock() = default;

  template <class St, class A>
  DRAW_FN A planted(St, A healthy, std::type_identity_t<A>) const {
    return healthy;
  }
  template <class St, class Units>
  DRAW_FN Units units(St, const Units* p, int head) const {
    return p[head];
  }

  // ---- rounding
  template <class St>
  DRAW_FN Format format_at(St) const {
    return policy_.format_of(key_of_site<St>);
  }
  DRAW_FN Format format_of(std::uint64_t key) const { return policy_.format_of(key); }
  /// That of the next span, of n elements.
  DRAW_FN Rounder span(Format format, std::uint64_t n) {
    const Rounder r = rounder_of(policy_, format, seed_, words_);
    if (format != Format::exact && policy_.draws()) words_ += n;
    return r;
  }
  template <class St>
  DRAW_FN Rounder span(St site, std::uint64_t n) {
    return span(format_at(site), n);
  }
  template <Size R, Size C>
  DRAW_CALL void round_own(Rounder r, double* v) const {
    using Mine = Own<R, C>;
    if (r.grid == nullptr) return;
    for (int k = 0; k < Mine::rows; ++k) {
      const int row = Mine::row(k);
      DRAW_LOOP for (int j = 0; j < Mine::columns; ++j) {
        const int at = k * Mine::columns + j;
        v[at] = r(v[at], static_cast<std::uint64_t>(row * C + Mine::column(j)));
      }
    }
  }
  template <Size R>
  DRAW_FN void round_row(Rounder r, DrawRow<R>& x) const {
    for (int k = 0; k < Own<R, 1>::rows; ++k) x.v[k] = r(x.v[k], static_cast<std::uint64_t>(Own<R, 1>::row(k)));
  }

  // ---- registers
  template <class St, Size R, Size C>
  DRAW_FN Acc<R, C> acc(St site, Shape<R, C>) {
    Acc<R, C> a;
    a.b = this, a.format = format_at(site);
    for (double& x : a.v) x = 0;
    return a;
  }
  template <class St, Size R>
  DRAW_FN Row<R> row(St site, Shape<R>, double init) {
    Row<R> x;
    for (double& y : x.v) y = init;
    round_row(span(site, R), x);
    return x;
  }
  template <class St, Size R>
  DRAW_FN Partial<R> partial(St site, Shape<R>) {
    Partial<R> p;
    p.b = this, p.format = format_at(site);
    for (double& x : p.v) x = 0;
    return p;
  }
  template <class St, class F, Size R, class... Rw>
  DRAW_FN Row<R> rows(St site, F f, const Row<R>& x, const Rw&... y) {
    Row<R> o;
    for (int k = 0; k < Own<R, 1>::rows; ++k) o.v[k] = f(x.v[k], y.v[k]...);
    round_row(span(site, R), o);
    return o;
  }
  template <class St, Size R>
  DRAW_FN Row<R> load_row(St site, Shape<R>, const RowIn& g, int head, int row0) {
    Row<R> o;
    for (int k = 0; k < Own<R, 1>::rows; ++k) o.v[k] = gate(g, head, row0 + Own<R, 1>::row(k));
    round_row(span(site, R), o);
    return o;
  }
  template <class St, Size C>
  DRAW_FN Col<C> load_col(St site, Shape<1, C>, const RowIn& g, int head, int col0) {
    using Mine = Own<1, C>;
    const Rounder r = span(site, C);
    Col<C> o;
    for (int j = 0; j < Mine::columns; ++j) {
      const int c = Mine::column(j);
      o.v[j] = r(gate(g, head, col0 + c), static_cast<std::uint64_t>(c));
    }
    return o;
  }
  template <class St, Size R>
  DRAW_FN void store_row(St site, const RowOut& g, int head, int row0, Row<R> x) {
    round_row(span(site, R), x);
    if (g.p == nullptr || thread() % row_threads != 0) return;
    for (int k = 0; k < Own<R, 1>::rows; ++k) {
      const int r = Own<R, 1>::row(k);
      if (r < R && row0 + r < g.rows) g.p[at(head, g.rows, row0 + r)] = x.v[k];
    }
  }
  template <class St, Size R, Size C>
  DRAW_FN Row<R> dot(St site, const Acc<R, C>& x, const Acc<R, C>& y) {
    auto p = partial(site, Shape<R>{});
    Acc<R, C> xy = x;
    for (int i = 0; i < Own<R, C>::rows * Own<R, C>::columns; ++i) xy.v[i] *= y.v[i];
    Row<R> one;
    for (double& a : one.v) a = 1;
    p.fold(one, xy);
    return p.total();
  }
  template <class St, class X, class Y>
  DRAW_FN auto dot(St site, X& x, Y& y) requires requires {
    X::key;
  }
  {  // of shared tiles
    auto u = acc(site, Shape<X::rows, X::cols>{}), v = u;
    u.zip(site, tile::copy, x), v.zip(site, tile::copy, y);
    return dot(site, u, v);
  }
  template <class F, Size R>
  DRAW_FN bool any(F f, const Row<R>& x) {
    bool mine = false;
    for (int k = 0; k < Own<R, 1>::rows; ++k) mine = mine || (Own<R, 1>::row(k) < R && f(x.v[k]));
    return any_thread(mine);
  }
  template <class St, Size R, Size C>
  DRAW_FN Operand<R, C> cast(St site, const Acc<R, C>& a) {
    Operand<R, C> o;
    o.format = format_at(site);
    for (int i = 0; i < Own<R, C>::rows * Own<R, C>::columns; ++i) o.v[i] = a.v[i];
    round_own<R, C>(span(o.format, R * C), o.v);
    return o;
  }
  template <Size R>
  DRAW_FN Col<R> column_of(const Row<R>& x) {
    double* const s = spread(x);
    Col<R> o;
    for (int j = 0; j < Own<1, R>::columns; ++j) o.v[j] = s[Own<1, R>::column(j) < R ? Own<1, R>::column(j) : 0];
    return o;
  }

  // ---- memory
  DRAW_FN void sync() { barrier(); }
  template <class Tl, Size R, Size C>
  DRAW_FN void put(Tl& t, const Acc<R, C>& a) {
    static_assert(Tl::rows == R && Tl::cols == C);
    put_own<R, C>(span(format_of(Tl::key), R * C), t.v, a.v);
  }
  template <class Tl>
  DRAW_FN void load(Tl& t, const In& g, int head, int row0, int col0 = 0) {
    if (pending_.count == Loads::most) DrawPolicy::missing();
    pending_.list[pending_.count++] = {t.v, Tl::rows, Tl::cols, row0, col0, format_of(Tl::key), head, g};
  }
  template <Size ST, class P, class F, class M, class L>
  DRAW_FN void pipeline(Shape<ST> st, int n, P&& produce, F&& first, M&& middle, L&& last) {
    pipeline(st, n, produce, [&](int j, int s) {
      if (j == 0)
        first(j, s, tile::First{});
      else if (j < n - 1)
        middle(j, s, tile::Middle{});
      else
        last(j, s, tile::Last{});
    });
  }
  /// Loads of a step land ST - 1 steps later, in the order of the loads.
  template <Size ST, class P, class C>
  DRAW_FN void pipeline(Shape<ST>, int n, P&& produce, C&& consume) {
    constexpr int held = ST > 1 ? int{ST} : 2;
    Loads groups[held];
    int first = 0, count = 0;
    const auto commit = [&] { groups[(first + count++) % held] = pending_, pending_.count = 0; };
    const auto land = [&] { land_all(groups[first]), first = (first + 1) % held; };
    for (int s = 0; s < ST - 1; ++s) {
      if (s < n) produce(s, s);
      commit();
    }
    if (ST == 1) commit();
    for (int j = 0; j < n; ++j) {
      land(), --count;
      barrier();
      if (j + ST - 1 < n) produce(j + ST - 1, (j + ST - 1) % ST);
      commit();
      consume(j, j % ST);
    }
    for (; count > 0; --count) land();
    barrier();
  }
  template <class St, Size R, Size C>
  DRAW_FN void store(St site, const Out& g, int head, int row0, const Acc<R, C>& a, int col0 = 0) {
    store_own<R, C>(span(site, R * C), g, head, row0, col0, a.v);
  }
  template <class St, Size R, Size C>
  DRAW_FN Acc<R, C> load_acc(St site, Shape<R, C> shape, const In& g, int head, int row0, int col0 = 0) {
    using Mine = Own<R, C>;
    Acc<R, C> a = acc(site, shape);
    for (int k = 0; k < Mine::rows; ++k)
      for (int j = 0; j < Mine::columns; ++j) {
        const int r = Mine::row(k), c = Mine::column(j);
        if (Mine::has(r, c) && row0 + r < g.rows && col0 + c < g.cols)
          a.at_own(k, j) =
              g.p[at(head, g.rows, row0 + r) * static_cast<std::size_t>(g.cols) + static_cast<std::size_t>(col0 + c)];
      }
    round_own<R, C>(span(a.format, R * C), a.v);
    return a;
  }

  // ---- products
  template <class St, class A, class Bt>
  DRAW_FN auto abt(St site, A& a, Bt& bt) {
    auto c = acc(site, Shape<A::rows, Bt::rows>{});
    mma_abt(c, a, bt);
    return c;
  }
  template <class S1, class S2, class A1, class A2, class Bt>
  DRAW_FN auto abt(S1 s1, S2 s2, A1& a1, A2& a2, Bt& bt) {
    using R = DrawAcc<A1::rows, Bt::rows>;
    return Two<R, R>{abt(s1, a1, bt), abt(s2, a2, bt)};
  }
  template <class St, class A, class Bt>
  DRAW_FN auto ab(St site, A& a, Bt& bt) {
    auto c = acc(site, Shape<A::rows, Bt::cols>{});
    mma(c, a, bt);
    return c;
  }
  template <class St, class A, class Bt>
  DRAW_FN auto atb(St site, A& a, Bt& bt) {
    auto c = acc(site, Shape<A::cols, Bt::cols>{});
    mma_atb(c, a, bt);
    return c;
  }
  template <class Cc, class A, class Bt>
  DRAW_FN void mma_abt(Cc& c, A&& a, Bt& b) {  // C += A B^T
    using Left = std::remove_reference_t<A>;
    static_assert(Left::cols == Bt::cols && Cc::cols == Bt::rows && Cc::rows == Left::rows);
    product<Left::cols>(c, a, left(a), {b.v, Bt::cols, 1}, exact_products(a, b));
  }
  template <class Cc, class A, class Bt>
  DRAW_FN void mma(Cc& c, A&& a, Bt& b) {  // C += A B
    using Left = std::remove_reference_t<A>;
    static_assert(Left::cols == Bt::rows && Cc::cols == Bt::cols && Cc::rows == Left::rows);
    product<Bt::rows>(c, a, left(a), {b.v, 1, Bt::cols}, exact_products(a, b));
  }
  template <class C1, class A1, class C2, class A2, class Bt>
  DRAW_FN void mma(C1& c1, A1&& a1, C2& c2, A2&& a2, Bt& b) {
    mma(c1, a1, b);
    mma(c2, a2, b);
  }
  template <class Cc, class A, class Bt>
  DRAW_FN void mma_atb(Cc& c, A& a, Bt& b) {  // C += A^T B
    static_assert(A::rows == Bt::rows && Cc::rows == A::cols && Cc::cols == Bt::cols);
    product<A::rows>(c, a, Factor{a.v, 1, A::cols}, {b.v, 1, Bt::cols}, exact_products(a, b));
  }
  // of the pairs of a level (draw_channels.hpp)
  template <class Cc, class A, class Bt>
  DRAW_FN void mma_abt(tile::Level level, Cc& c, A& a, Bt& b);
  template <class C1, class A1, class C2, class A2, class Bt>
  DRAW_FN void mma_abt(tile::Level level, C1& c1, A1& a1, C2& c2, A2& a2, Bt& b) {
    mma_abt(level, c1, a1, b);
    mma_abt(level, c2, a2, b);
  }
  template <class Cc, class A, class Bt>
  DRAW_FN void mma(tile::Level level, Cc& c, A& a, Bt& b);
  template <class Cc, class A, class Bt>
  DRAW_FN void mma_atb(tile::Level level, Cc& c, A& a, Bt& b);
  template <class St, class A, class Bt>
  DRAW_FN auto abt_async(St site, A& a, Bt& bt) {
    return abt(site, a, bt);
  }
  template <class Cc, class A, class Bt>
  DRAW_FN void mma_async(Cc& c, A& a, Bt& b) {
    mma(c, a, b);
  }
  template <class Cc>
  DRAW_FN void await(Cc&) {}
  template <class F>
  DRAW_FN auto exclusive(F f) {
    return f();
  }

  /// d = (I + a)^{-1} for a strictly lower: a step for every column of a, in which all rows below take their product.
  template <class St, class Dst, class Src>
  DRAW_FN void unit_lower_inverse(St site, Dst& d, Src& a) {
    constexpr int N = Src::rows;
    // Row i has words for its columns up to k in step k, after those of the rows above it.
    const Rounder r = span(site, static_cast<std::uint64_t>((N - 1) * N * (N + 1) / 6));
    inverse_own<N>(r, a.v);
    put_all(span(format_of(Dst::key), N * N), d.v, table(N * N), N * N);
  }

  // ---- decays (draw_decays.hpp)
  template <class St, class Dst>
  DRAW_FN void decay_ratios(St, Dst& d, const RowIn& g, int head, int row0, int lag = 0);
  template <class St, Size R>
  DRAW_FN Row<R> decay_prefix(St, Shape<R>, const RowIn& g, int head, int row0, int lag = 0);
  template <class St, Size R>
  DRAW_FN Row<R> decay_suffix(St, Shape<R>, const RowIn& g, int head, int row0);
  template <class St, Size R>
  DRAW_FN Row<R> decay_total(St, Shape<R>, const RowIn& g, int head, int row0, int count);
  template <class St, class Src>
  DRAW_FN DrawRow<Src::rows> gates_of_ratios(St, Src& z, int lag = 0);
  template <class St, Size R>
  DRAW_FN Row<R> gates_of_prefix(St, const Row<R>& z, int lag = 0);
  template <class St, Size R>
  DRAW_FN Row<R> gates_of_suffix(St, const Row<R>& z);
  template <class St, Size R, Size N>
  DRAW_FN Row<R> gates_of_total(St, Shape<R>, const Row<N>& z);
  template <class St, Size R>
  DRAW_FN Row<R> decays(St site, Shape<R>, const RowIn& g, int head, int row0) {
    Row<R> o;
    for (int k = 0; k < Own<R, 1>::rows; ++k) o.v[k] = decay(g, head, row0 + Own<R, 1>::row(k));
    round_row(span(site, R), o);
    return o;
  }
  DRAW_FN static double decay(const RowIn& g, int head, int row) {
    if (row >= g.rows) return 1;
    return g.logs ? exponential(gate(g, head, row)) : gate(g, head, row);
  }
  DRAW_FN static double exponential(double x) { return exp2_of(x * 0x1.71547652b82fep+0); }

  // ---- decays of channels (draw_channels.hpp)
  template <class Tl, Size R, Size C>
  DRAW_FN Acc<R, C> across(Tl&, const Acc<R, C>& x, int h);
  template <class St, class Tl>
  DRAW_FN void store_line(St, const RowOut& g, int head, int row0, Tl& t, int r);
  template <class St, class Dst, class Src>
  DRAW_FN void channel_prefix(St, Dst& d, Src& alpha, int lag = 0);
  template <class St, class Dst, class Src>
  DRAW_FN void channel_suffix(St, Dst& d, Src& alpha);
  template <class St, Size R, class Src>
  DRAW_FN Row<R> channel_total(St, Shape<R>, Src& alpha, int count);
  template <class Sum, class St, class Dst, class X, class K, class Src>
  DRAW_FN void channel_scores(Sum, St, Dst& d, X& x, K& k, Src& alpha, int lag = 0);

  // ---- what verbs beside a mechanism need (draw_decays.hpp, draw_channels.hpp, draw_columns.hpp)
  DRAW_FN static double gate(const RowIn& g, int head, int row) {
    return row < g.rows ? g.p[at(head, g.rows, row)] : 0.0;
  }
  DRAW_FN static std::size_t at(int head, int rows, int row) {
    return static_cast<std::size_t>(head) * static_cast<std::size_t>(rows) + static_cast<std::size_t>(row);
  }
  /// Room for n numbers that all threads see, when all of them have come here.
  DRAW_FN double* table(int n) const { return n <= Exchange::near ? exchange_.here : exchange_.there; }
  DRAW_FN double* far_table() const { return exchange_.there; }
  DRAW_FN static std::uint64_t word_of(int n) { return static_cast<std::uint64_t>(n); }
  /// A row's numbers for all threads, the first of a table that has room for as many more.
  template <Size R>
  DRAW_FN double* spread(const Row<R>& x) {
    double* const s = table(R);
    barrier();
    for (int k = 0; k < Own<R, 1>::rows && thread() % row_threads == 0; ++k)
      if (Own<R, 1>::row(k) < R) s[Own<R, 1>::row(k)] = x.v[k];
    barrier();
    return s;
  }
  /// The numbers of a table as a row.
  template <Size R>
  DRAW_FN static Row<R> row_of_table(const double* s) {
    Row<R> o;
    for (int k = 0; k < Own<R, 1>::rows; ++k) o.v[k] = s[Own<R, 1>::row(k) < R ? Own<R, 1>::row(k) : 0];
    return o;
  }
  /// One thread goes along s[0], ..., s[n - 1]: f(i) has turns that follow each other.
  template <class F>
  DRAW_FN static void in_turn(int n, F f) {
    if (thread() == 0)
      for (int i = 0; i < n; ++i) f(i);
    barrier();
  }
  /// Every thread goes along columns of its own, all of them counting words from the same one: f(column, whether it is
  /// one, or none is left for the thread).
  template <Size D, class F>
  DRAW_FN void each_column(F f) {
    const std::uint64_t from = words_;
    for (int c0 = 0; c0 < D; c0 += threads) {
      words_ = from;
      f(tile::imin(c0 + thread(), D - 1), c0 + thread() < D);
    }
  }
  /// Element c of a span of D.
  DRAW_FN double rounded(Format format, double x, int D, int c) {
    return span(format, static_cast<std::uint64_t>(D))(x, static_cast<std::uint64_t>(c));
  }

  template <Size R, Size C>
  DRAW_CALL void put_own(Rounder r, double* to, const double* v) const {
    using Mine = Own<R, C>;
    for (int k = 0; k < Mine::rows; ++k)
      for (int j = 0; j < Mine::columns; ++j) {
        const int row = Mine::row(k), c = Mine::column(j);
        if (Mine::has(row, c)) to[row * C + c] = r(v[k * Mine::columns + j], static_cast<std::uint64_t>(row * C + c));
      }
  }
  DRAW_CALL void put_all(Rounder r, double* to, const double* from, int n) const {
    for (int i = thread(); i < n; i += threads) to[i] = r(from[i], static_cast<std::uint64_t>(i));
  }

 private:
  struct Load {
    double* to;
    int rows, cols, row0, col0;
    Format format;
    int head;
    In from;
  };
  struct Loads {
    static constexpr int most = 24;
    int count = 0;
    Load list[most];
  };

  template <class A>
  DRAW_FN static Factor left(const A& a) {
    if constexpr (requires { A::key; })
      return {a.v, A::cols, 1};
    else
      return {nullptr, 0, 0};
  }
  template <int K, Size R, Size C, class A>
  DRAW_FN void product(Acc<R, C>& c, const A& a, Factor fa, Factor fb, bool exact) {
    const int step = c.format != Format::exact ? policy_.products : K;
    const Rounder r = span(c.format, static_cast<std::uint64_t>(R * C * ((K + step - 1) / step)));
    multiply<R, C, K>(r, c.v, a.v, fa, fb, step, exact);
  }
  template <Size R, Size C, int K>
  DRAW_CALL void multiply(Rounder r, double* c, const double* own_a, Factor fa, Factor fb, int step, bool exact) const;
  /// sum(j) += sum_{first <= k < end} a[k] b[k, column(j0 + j)], each product added by itself. A fused sum of exact
  /// products has the same bits.
  template <bool Exact, class Mine, int N>
  DRAW_FN static void add_products(double (&sum)[N], const double* a, const double* near_b, int j0, int first,
                                   int end) {
    DRAW_LOOP for (int k = first; k < end; ++k) {
      const double x = a[k];
      const double* const b = near_b + k * Exchange::b_stride;
#if defined(__CUDA_ARCH__)
      for (int j = 0; j < N; j += 2) {  // two columns lie side by side
        const double2 y = *reinterpret_cast<const double2*>(b + Mine::column(j0 + j));
        sum[j] = Exact ? __fma_rn(x, y.x, sum[j]) : __dadd_rn(sum[j], __dmul_rn(x, y.x));
        sum[j + 1] = Exact ? __fma_rn(x, y.y, sum[j + 1]) : __dadd_rn(sum[j + 1], __dmul_rn(x, y.y));
      }
#else
      for (int j = 0; j < N; ++j) sum[j] += x * b[Mine::column(j0 + j)];
#endif
    }
  }
  template <class X>
  DRAW_FN Format format_of_factor(const X& x) const {
    if constexpr (requires { X::key; })
      return format_of(X::key);
    else
      return x.format;
  }
  /// Whether a double holds every product of their elements.
  template <class A, class Bt>
  DRAW_FN bool exact_products(const A& a, const Bt& b) const {
    constexpr int digits = 53;
    const int left = policy_.grids[static_cast<int>(format_of_factor(a))].dropped;
    return policy_.narrow && left + policy_.grids[static_cast<int>(format_of_factor(b))].dropped >= digits;
  }
  template <Size R, Size N, class Half>
  DRAW_FN void add_pairs(tile::Level level, Acc<R, N>& c, Factor fa, Factor fb, Half half);
  template <Size N>
  DRAW_CALL void inverse_own(Rounder r, const double* a) const;
  template <Size R, Size C>
  DRAW_CALL void store_own(Rounder r, const Out& g, int head, int row0, int col0, const double* v) const {
    using Mine = Own<R, C>;
    if (g.p == nullptr) return;
    for (int k = 0; k < Mine::rows; ++k)
      for (int j = 0; j < Mine::columns; ++j) {
        const int row = Mine::row(k), col = Mine::column(j);
        if (Mine::has(row, col) && row0 + row < g.rows && col0 + col < g.cols)
          g.p[at(head, g.rows, row0 + row) * static_cast<std::size_t>(g.cols) + static_cast<std::size_t>(col0 + col)] =
              r(v[k * Mine::columns + j], static_cast<std::uint64_t>(row * C + col));
      }
  }
  DRAW_CALL void land_one(Rounder r, const Load& l) const {
    const unsigned n = static_cast<unsigned>(l.rows * l.cols), cols = static_cast<unsigned>(l.cols);
    for (unsigned i = static_cast<unsigned>(thread()); i < n; i += threads) {
      const int row = l.row0 + static_cast<int>(i / cols), col = l.col0 + static_cast<int>(i % cols);
      const double x = row < l.from.rows && col < l.from.cols
                           ? l.from.p[at(l.head, l.from.rows, row) * static_cast<std::size_t>(l.from.cols) +
                                      static_cast<std::size_t>(col)]
                           : 0.0;
      l.to[i] = r(x, i);
    }
  }
  DRAW_FN void land_all(const Loads& loads) {
    for (int i = 0; i < loads.count; ++i) {
      const Load& l = loads.list[i];
      land_one(span(l.format, static_cast<std::uint64_t>(l.rows * l.cols)), l);
    }
  }

  const DrawPolicy& policy_;
  std::uint64_t seed_, words_ = 0;
  Exchange exchange_;
  Loads pending_;
};

// ---- registers

template <Size R, Size C>
template <class St, class F, class... Rw>
DRAW_FN void DrawAcc<R, C>::map(St site, F f, const Rw&... rw) {
  for (int k = 0; k < Mine::rows; ++k)
    for (int j = 0; j < Mine::columns; ++j) at_own(k, j) = f(own(k, j), rw.own(k, j)...);
  b->template round_own<R, C>(b->span(site, R * C), v);
}
template <Size R, Size C>
template <class St, class F, class X, class... Rw>
DRAW_FN void DrawAcc<R, C>::zip(St site, F f, X& x, const Rw&... rw) {
  static_assert(X::rows == R && X::cols == C);
  for (int k = 0; k < Mine::rows; ++k)
    for (int j = 0; j < Mine::columns; ++j) {
      double y;
      if constexpr (requires { X::key; }) {
        const int r = Mine::row(k), c = Mine::column(j);
        y = Mine::has(r, c) ? x.v[r * C + c] : 0.0;
      } else {
        y = x.own(k, j);
      }
      at_own(k, j) = f(own(k, j), y, rw.own(k, j)...);
    }
  b->template round_own<R, C>(b->span(site, R * C), v);
}
/// The largest of each row: the first column's among equals, and no NaN but the first column's.
template <Size R, Size C>
DRAW_FN DrawRow<R> DrawAcc<R, C>::row_max() const {
  DrawRow<R> m;
  for (int k = 0; k < Mine::rows; ++k) {
    const double first = from_first_lane(own(k, 0));
    double most = first;
    int of = 0;
    for (int j = 0; j < Mine::columns; ++j)
      if (Mine::column(j) < C && most < own(k, j)) most = own(k, j), of = Mine::column(j);
    for (int bit = 1; bit < row_threads; bit *= 2) {
      const double other = from_lane(most, bit);
      const int column = from_lane(of, bit);
      if (most < other || (most == other && column < of)) most = other, of = column;
    }
    m.v[k] = most;
  }
  return m;
}
template <Size R, Size C>
DRAW_FN void DrawAcc<R, C>::scale(const DrawRow<R>& s) {
  for (int k = 0; k < Mine::rows; ++k)
    for (int j = 0; j < Mine::columns; ++j) at_own(k, j) *= s.v[k];
  b->template round_own<R, C>(b->span(format, R * C), v);
}

template <Size R>
template <Size C>
DRAW_FN void DrawPartial<R>::fold(const DrawRow<R>& alpha, const DrawAcc<R, C>& x) {
  static_assert(C % (2 * partial_sums) == 0);
  const Rounder first = b->span(format, R * partial_sums);
  const Rounder rest = b->span(format, R * partial_sums * (C / partial_sums));
  for (int k = 0; k < Own<R, 1>::rows; ++k)
    for (int i = 0; i < own_sums; ++i) {
      const int lane = own_sums == 1 ? thread() % row_threads : i;
      const auto of = static_cast<std::uint64_t>(Own<R, 1>::row(k) * partial_sums + lane);
      double sum = first(v[k * own_sums + i] * alpha.v[k], of);
      for (int q = 0; q < C / partial_sums; ++q) {
        const int slot = own_sums == 1 ? q : q / 2 * 8 + q % 2 + 2 * lane;
        sum = rest(sum + x.own(k, slot), static_cast<std::uint64_t>(q * R * partial_sums) + of);
      }
      v[k * own_sums + i] = sum;
    }
}
template <Size R>
DRAW_FN DrawRow<R> DrawPartial<R>::total() const {
  const Rounder pairs = b->span(format, 2 * R), both = b->span(format, R);
  DrawRow<R> t;
  for (int k = 0; k < Own<R, 1>::rows; ++k) {
    const auto r = static_cast<std::uint64_t>(Own<R, 1>::row(k));
    double sum;
    if constexpr (own_sums == 1) {
      const int lane = thread() % row_threads;
      const double pair = pairs(v[k] + from_lane(v[k], 1), 2 * r + static_cast<std::uint64_t>(lane / 2));
      sum = pair + from_lane(pair, 2);
    } else {
      const double* const p = v + k * own_sums;
      sum = pairs(p[0] + p[1], 2 * r) + pairs(p[2] + p[3], 2 * r + 1);
    }
    t.v[k] = both(sum, r);
  }
  return t;
}

// ---- products

/// Sixteen products of every element at a time: both factors' are brought near, then each thread sums into its own
/// elements, eight at a time in registers.
template <Size R, Size C, int K>
DRAW_CALL void DrawBlock::multiply(Rounder rounder, double* c, const double* own_a, Factor fa, Factor fb, int step,
                                   bool exact) const {
  using Mine = Own<R, C>;
  constexpr int depth = Exchange::depth, at_once = Mine::columns < 8 ? Mine::columns : 8;
  static_assert(Mine::columns % at_once == 0 && R <= Exchange::most_rows && C <= Exchange::b_stride - 2);
#if defined(__CUDA_ARCH__)
  extern __shared__ __align__(16) double near[];  // exchange_.here, which a called function could not know for near
  double* const near_a = near;
#else
  double* const near_a = exchange_.here;
#endif
  double* const near_b = near_a + Exchange::most_rows * Exchange::a_stride;
  const int steps = (K + step - 1) / step;
  for (int k0 = 0; k0 < K; k0 += depth) {
    const int n = tile::imin(depth, K - k0);
    barrier();
    if (fa.p != nullptr) {
      const bool by_row = fa.along == 1;
      for (int i = thread(); i < R * depth; i += threads) {
        const int r = by_row ? i / depth : i % R, k = by_row ? i % depth : i / R;
        if (k < n) near_a[r * Exchange::a_stride + k] = fa.p[r * fa.step + (k0 + k) * fa.along];
      }
    } else {
      using Of = Own<R, K>;
      for (int q = 0; q < Of::rows; ++q)
        for (int j = 0; j < Of::columns; ++j)
          if (const int r = Of::row(q), k = Of::column(j) - k0; r < R && k >= 0 && k < n)
            near_a[r * Exchange::a_stride + k] = own_a[q * Of::columns + j];
    }
    const bool by_column = fb.along == 1;
    for (int i = thread(); i < C * depth; i += threads) {
      const int j = by_column ? i / depth : i % C, k = by_column ? i % depth : i / C;
      if (k < n) near_b[k * Exchange::b_stride + j] = fb.p[j * fb.step + (k0 + k) * fb.along];
    }
    barrier();
    DRAW_LOOP for (int q = 0; q < Mine::rows; ++q) {
      const int r = Mine::row(q);
      if (!Mine::all_rows && r >= R) break;
      const double* const a = near_a + r * Exchange::a_stride;
      DRAW_LOOP for (int j0 = 0; j0 < Mine::columns; j0 += at_once) {
        double* const own = c + q * Mine::columns + j0;
        double sum[at_once];
        for (int j = 0; j < at_once; ++j) sum[j] = own[j];
        for (int k = 0; k < n;) {
          const int end = tile::imin(n, (k0 + k) / step * step + step - k0);
          if (exact)
            add_products<true, Mine>(sum, a, near_b, j0, k, end);
          else
            add_products<false, Mine>(sum, a, near_b, j0, k, end);
          k = end;
          if ((k0 + k) % step != 0 && k0 + k != K) break;  // the rest of its products are in the next piece
          const std::uint64_t first = static_cast<std::uint64_t>((r * steps + (k0 + k - 1) / step) * C);
          for (int j = 0; j < at_once; ++j)
            sum[j] = rounder(sum[j], first + static_cast<std::uint64_t>(Mine::column(j0 + j)));
        }
        for (int j = 0; j < at_once; ++j) own[j] = sum[j];
      }
    }
  }
  barrier();
}

template <Size N>
DRAW_CALL void DrawBlock::inverse_own(Rounder rounder, const double* a) const {
  double* const x = table(N * N);
  barrier();
  for (int i = thread(); i < N * N; i += threads) x[i] = i / N == i % N ? 1 : 0;
  for (int k = 0; k < N - 1; ++k) {
    barrier();
    const int width = k + 1, n = (N - k - 1) * width;
    for (int e = thread(); e < n; e += threads) {
      const int i = k + 1 + e / width, j = e % width;
      const int word = (i - 1) * i * (i + 1) / 6 + k * (k + 1) / 2 + j;
      x[i * N + j] = rounder(x[i * N + j] - a[i * N + k] * x[k * N + j], static_cast<std::uint64_t>(word));
    }
  }
  barrier();
}

}  // namespace assay::draws
