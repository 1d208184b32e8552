#pragma once
// HostBlock runs a tile program on the CPU: every value is held in T (double, or long double where fp64 itself is
// emulated) and rounded, at each named site, as the policy says. It also checks the program's synchronisation: shared
// tiles remember who touched them since the last barrier, asynchronous loads are poisoned until the pipeline hands them
// over, asynchronous products until they are awaited.
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/core/faults.hpp"
#include "kernels/core/host_math.hpp"
#include "kernels/core/policy.hpp"
#include "kernels/core/tensor_core.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// A race, an early read or a missing barrier in a tile program.
struct HazardError : std::logic_error {
  using std::logic_error::logic_error;
};

inline void round_values(double* p, std::size_t n, Format f, Rounding mode, RandomBits& random) {
  if (mode == Rounding::nearest_even)
    round_span(p, n, f);
  else
    round_span(p, n, f, mode, random);
}
void round_values(long double* p, std::size_t n, Format f, Rounding mode, RandomBits& random);

/// c += a b for [rows][depth] and [depth][cols], every product added and rounded to fp64 on its own, as round_values
/// would but with one rounding. Returns false, and does nothing, unless all elements are doubles.
bool add_products_in_fp64(long double* c, const long double* a, const long double* b, int rows, int depth, int cols,
                          Rounding mode, RandomBits& random);

inline namespace ASSAY_EXECUTORS {

template <class T>
class HostBlock {
 public:
  using Real = T;
  struct In {
    const T* p;
    int rows, cols;
  };
  struct RowIn {
    const T* p;
    int rows;
    bool logs = true;  ///< of decays: logs of them, not the decays themselves
  };
  struct RowOut {
    T* p;
    int rows;
  };
  struct Out {
    T* p;
    int rows, cols;
  };
  static constexpr T poison = std::numeric_limits<T>::quiet_NaN();
  static constexpr int lanes = 4;  // threads that share a row of an accumulator on the device

  /// `item` numbers the block within its launch: the random rounding modes depend on it, not on the thread.
  HostBlock(const Policy& policy, std::uint64_t item) : policy_(policy), random_{RandomBits{policy.seed}.at(item), 0} {}

  /// The healthy value, unless this is a test build and that fault is planted.
  template <class St, class A>
  A planted(St site, A healthy, std::type_identity_t<A> broken) const {
    return Faults::choose(policy_, site, healthy, broken);
  }

  /// The units of a head's operands.
  template <class St, class Units>
  Units units(St, const Units* p, int head) const {
    return p[head];
  }

  // ---- shared tiles ------------------------------------------------------------
  template <FixedString S, int R, int C>
  struct Tile {
    static constexpr int rows = R, cols = C;
    static constexpr std::string_view site = S.view();
    std::vector<T> v = std::vector<T>(static_cast<std::size_t>(R) * C, poison);
    long wrote = -1, read = -1;  // barrier epochs
    bool pending = false, ever = false;
    void check(bool bad, const char* what) const {
      if (bad) throw HazardError(std::string(what) + " on tile '" + std::string(site) + "'");
    }
    void on_read(long epoch) {
      check(pending, "read of a load still in flight");
      check(!ever, "read before any write");
      check(wrote == epoch, "read after write without a barrier");
      read = epoch;
    }
    /// Every element is read and written by one thread alone.
    void on_update(long epoch) {
      on_read(epoch);
      wrote = epoch;
    }
    void on_write(long epoch) {
      check(pending, "write over a load still in flight");
      check(read == epoch, "write after read without a barrier");
      check(wrote == epoch, "second write without a barrier");
      wrote = epoch;
      ever = true;
    }
  };

  // ---- register tiles ----------------------------------------------------------
  template <int R>
  struct Row {
    std::array<T, R> v;
    T at(int r, int) const { return v[idx(r)]; }
  };
  template <int C>
  struct Col {
    std::array<T, C> v;
    T at(int, int c) const { return v[idx(c)]; }
  };

  template <int R, int C>
  struct Acc {
    static constexpr int rows = R, cols = C;
    HostBlock* b;
    std::string_view site;
    Format format;
    std::vector<T> v;
    std::vector<T> landing;  // the value, while an asynchronous product hides it
    T at(int r, int c) const { return v[idx(r * C + c)]; }

    template <class St, class F, class... Rw>
    void map(St, F f, const Rw&... rw) {
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) v[idx(r * C + c)] = f(v[idx(r * C + c)], rw.at(r, c)...);
      b->round(St::name(), v.data(), v.size());
    }
    template <class P>
    void mask(P keep, T fill) {
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c)
          if (!keep(r, c)) v[idx(r * C + c)] = fill;
    }
    template <class St, class F, class X, class... Rw>
    void zip(St, F f, X& x, const Rw&... rw) {  // x: an accumulator or a shared tile of the same shape
      static_assert(X::rows == R && X::cols == C);
      b->touch(x);
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) v[idx(r * C + c)] = f(v[idx(r * C + c)], x.v[idx(r * C + c)], rw.at(r, c)...);
      b->round(St::name(), v.data(), v.size());
    }
    Row<R> row_max() const {
      Row<R> m;
      for (int r = 0; r < R; ++r) {
        m.v[idx(r)] = v[idx(r * C)];
        for (int c = 1; c < C; ++c) m.v[idx(r)] = maxi(m.v[idx(r)], v[idx(r * C + c)]);
      }
      return m;
    }
    void scale(const Row<R>& s) {
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) v[idx(r * C + c)] *= s.v[idx(r)];
      b->round_as(site, format, v.data(), v.size());
    }
  };

  // A row sum kept as `lanes` partial sums, as the device keeps it.
  template <int R>
  struct Partial {
    HostBlock* b;
    std::string_view site;
    Format format;
    std::array<T, static_cast<std::size_t>(R) * lanes> v{};
    template <int C>
    void fold(const Row<R>& alpha, const Acc<R, C>& x) {
      for (int r = 0; r < R; ++r)
        for (int i = 0; i < lanes; ++i) v[idx(r * lanes + i)] *= alpha.v[idx(r)];
      b->round_as(site, format, v.data(), v.size());
      static_assert(C % (2 * lanes) == 0);
      for (int c = 0; c < C; c += c % 2 == 0 ? 1 : 2 * lanes - 1) {  // a lane adds its two columns one after the other
        for (int r = 0; r < R; ++r)
          for (int i = 0; i < lanes; ++i) v[idx(r * lanes + i)] += x.v[idx(r * C + c + 2 * i)];
        b->round_as(site, format, v.data(), v.size());
      }
    }
    Row<R> total() const {
      Row<R> t;
      for (int r = 0; r < R; ++r) {
        T pair[2] = {v[idx(r * lanes)] + v[idx(r * lanes + 1)], v[idx(r * lanes + 2)] + v[idx(r * lanes + 3)]};
        b->round_as(site, format, pair, 2);
        t.v[idx(r)] = pair[0] + pair[1];
      }
      b->round_as(site, format, t.v.data(), R);
      return t;
    }
  };

  /// An accumulator converted for use as the left factor.
  template <int R, int C>
  struct Operand {
    static constexpr int rows = R, cols = C;
    Format format;
    std::vector<T> v;
  };

  // ---- making registers ----------------------------------------------------------
  template <class St, int R, int C>
  Acc<R, C> acc(St, Shape<R, C>) {
    return {this, St::name(), format_of(St::name()), std::vector<T>(static_cast<std::size_t>(R) * C, T(0)), {}};
  }
  template <class St, int R>
  Row<R> row(St, Shape<R>, T init) {
    Row<R> r;
    r.v.fill(init);
    round(St::name(), r.v.data(), R);
    return r;
  }
  template <class St, int R>
  Partial<R> partial(St, Shape<R>) {
    return {this, St::name(), format_of(St::name())};
  }
  template <class St, class F, int R, class... Rw>
  Row<R> rows(St, F f, const Row<R>& x, const Rw&... y) {
    Row<R> o;
    for (int r = 0; r < R; ++r) o.v[idx(r)] = f(x.v[idx(r)], y.v[idx(r)]...);
    round(St::name(), o.v.data(), R);
    return o;
  }
  /// Rows beyond the end read as zero.
  template <class St, int R>
  Row<R> load_row(St, Shape<R>, const RowIn& g, int head, int row0) {
    Row<R> o;
    for (int r = 0; r < R; ++r) o.v[idx(r)] = gate(g, head, row0 + r);
    round(St::name(), o.v.data(), R);
    return o;
  }
  template <class St, int C>
  Col<C> load_col(St, Shape<1, C>, const RowIn& g, int head, int col0) {
    Col<C> o;
    for (int c = 0; c < C; ++c) o.v[idx(c)] = gate(g, head, col0 + c);
    round(St::name(), o.v.data(), C);
    return o;
  }
  template <class St, int R>
  void store_row(St, const RowOut& g, int head, int row0, Row<R> x) {
    round(St::name(), x.v.data(), R);
    for (int r = 0; g.p != nullptr && r < R && row0 + r < g.rows; ++r) g.p[at(head, g.rows, row0 + r)] = x.v[idx(r)];
  }
  template <class St, int R, int C>
  Row<R> dot(St st, const Acc<R, C>& x, const Acc<R, C>& y) {  // per row
    auto p = partial(st, Shape<R>{});
    Acc<R, C> xy = x;
    for (int i = 0; i < R * C; ++i) xy.v[idx(i)] *= y.v[idx(i)];
    Row<R> one;
    one.v.fill(1);
    p.fold(one, xy);
    return p.total();
  }
  template <class St, class X, class Y>
  auto dot(St st, X& x, Y& y) requires requires {
    x.on_read(0L);
  }
  {  // of shared tiles
    const auto copy = [](auto, auto a) { return a; };
    auto u = acc(st, Shape<X::rows, X::cols>{}), v = u;
    u.zip(st, copy, x), v.zip(st, copy, y);
    return dot(st, u, v);
  }
  template <class F, int R>
  bool any(F f, const Row<R>& x) {
    return std::any_of(x.v.begin(), x.v.end(), f);
  }
  template <class St, int R, int C>
  Operand<R, C> cast(St, const Acc<R, C>& a) {
    Operand<R, C> o{format_of(St::name()), a.v};
    round(St::name(), o.v.data(), o.v.size());
    return o;
  }

  // ---- products ------------------------------------------------------------------
  template <class St, class A, class Bt>
  auto abt(St st, A& a, Bt& bt) {
    auto c = acc(st, Shape<A::rows, Bt::rows>{});
    mma_abt(c, a, bt);
    return c;
  }
  template <class S1, class S2, class A1, class A2, class Bt>
  auto abt(S1 s1, S2 s2, A1& a1, A2& a2, Bt& bt) {
    using R = Acc<A1::rows, Bt::rows>;
    return Two<R, R>{abt(s1, a1, bt), abt(s2, a2, bt)};
  }
  template <class St, class A, class Bt>
  auto ab(St st, A& a, Bt& bt) {
    auto c = acc(st, Shape<A::rows, Bt::cols>{});
    mma(c, a, bt);
    return c;
  }
  template <class St, class A, class Bt>
  auto atb(St st, A& a, Bt& bt) {
    auto c = acc(st, Shape<A::cols, Bt::cols>{});
    mma_atb(c, a, bt);
    return c;
  }
  template <class Cc, class A, class Bt>
  void mma_abt(Cc& c, A& a, Bt& b) {  // C += A B^T
    static_assert(A::cols == Bt::cols && Cc::cols == Bt::rows);
    touch(a), touch(b);
    product<A::cols>(c, a.v.data(), transpose<Bt::rows, Bt::cols>(b.v).data(), common_format(a, b));
  }
  template <class Cc, class A, class Bt>
  void mma(Cc& c, A&& a, Bt& b) {  // C += A B
    static_assert(std::remove_reference_t<A>::cols == Bt::rows && Cc::cols == Bt::cols);
    touch(a), touch(b);
    product<Bt::rows>(c, a.v.data(), b.v.data(), common_format(a, b));
  }
  template <class C1, class A1, class C2, class A2, class Bt>
  void mma(C1& c1, A1&& a1, C2& c2, A2&& a2, Bt& b) {
    mma(c1, a1, b);
    mma(c2, a2, b);
  }
  template <class Cc, class A, class Bt>
  void mma_atb(Cc& c, A& a, Bt& b) {  // C += A^T B
    static_assert(A::rows == Bt::rows && Cc::rows == A::cols && Cc::cols == Bt::cols);
    touch(a), touch(b);
    product<A::rows>(c, transpose<A::rows, A::cols>(a.v).data(), b.v.data(), common_format(a, b));
  }

  // Asynchronous products: the accumulator is poisoned until awaited.
  template <class St, class A, class Bt>
  auto abt_async(St st, A& a, Bt& bt) {
    auto c = abt(st, a, bt);
    hide(c);
    return c;
  }
  template <class Cc, class A, class Bt>
  void mma_async(Cc& c, A& a, Bt& b) {
    mma(c, a, b);
    hide(c);
  }
  template <class Cc>
  void await(Cc& c) {
    if (c.landing.empty()) throw HazardError("await of a product that is not in flight");
    c.v.swap(c.landing), c.landing.clear();
  }
  template <class F>
  auto exclusive(F f) {
    return f();
  }

  // ---- shared memory -------------------------------------------------------------
  template <class Tl, int R, int C>
  void put(Tl& t, const Acc<R, C>& a) {
    static_assert(Tl::rows == R && Tl::cols == C);
    t.on_write(epoch_);
    t.v = a.v;
    round(Tl::site, t.v.data(), t.v.size());
  }
  void sync() { ++epoch_; }

  /// d = (I + a)^{-1} for a strictly lower, by forward substitution.
  template <class St, class Dst, class Src>
  void unit_lower_inverse(St, Dst& d, Src& a) {
    constexpr int N = Src::rows;
    a.on_read(epoch_);
    d.on_write(epoch_);
    std::vector<T> x(static_cast<std::size_t>(N) * N, T(0));
    const Format f = format_of(St::name());
    for (int i = 0; i < N; ++i) {
      T* xi = &x[idx(i * N)];
      for (int k = 0; k < i; ++k) {
        for (int j = 0; j <= k; ++j) xi[j] -= a.v[idx(i * N + k)] * x[idx(k * N + j)];
        round_as(St::name(), f, xi, idx(k + 1));
      }
      xi[i] = 1;
    }
    d.v = std::move(x);
    round(Dst::site, d.v.data(), d.v.size());
  }

  // ---- decays: running products of exp(g), never quotients or differences of prefix sums, so that exp(-inf) = 0 is an
  // ordinary gate, or of decays given as they are. Rows beyond the end act as g = 0.

  /// d(i, j) = prod_{j < l <= i - lag} exp(g_l) for j <= i (1 where no gate is left), 0 above the diagonal.
  template <class St, class Dst>
  void decay_ratios(St, Dst& d, const RowIn& g, int head, int row0, int lag = 0) {
    constexpr int N = Dst::rows;
    d.on_write(epoch_);
    d.v.assign(d.v.size(), T(0));
    for (int i = 0; i < N; ++i) {
      const T alpha = i > lag ? decay(g, head, row0 + i - lag) : T(1);
      for (int j = 0; j <= i; ++j) d.v[idx(i * N + j)] = j < i - lag ? d.v[idx((i - 1) * N + j)] * alpha : T(1);
      round(St::name(), &d.v[idx(i * N)], N);
    }
    round(Dst::site, d.v.data(), d.v.size());
  }
  /// Row i holds prod_{l <= i - lag} exp(g_l).
  template <class St, int R>
  Row<R> decay_prefix(St, Shape<R>, const RowIn& g, int head, int row0, int lag = 0) {
    Row<R> o;
    T a = 1;
    for (int r = 0; r < R; ++r) {
      if (r >= lag) a *= decay(g, head, row0 + r - lag);
      round(St::name(), &a, 1);
      o.v[idx(r)] = a;
    }
    return o;
  }
  /// Row i holds prod_{l > i} exp(g_l) up to the end of the R rows.
  template <class St, int R>
  Row<R> decay_suffix(St, Shape<R>, const RowIn& g, int head, int row0) {
    Row<R> o;
    T a = 1;
    for (int r = R - 1; r >= 0; --r) {
      o.v[idx(r)] = a;
      a *= decay(g, head, row0 + r);
      round(St::name(), &a, 1);
    }
    return o;
  }
  /// Every one of R rows holds prod_{l < count} exp(g_l).
  template <class St, int R>
  Row<R> decay_total(St, Shape<R>, const RowIn& g, int head, int row0, int count) {
    T a = 1;
    for (int l = 0; l < count; ++l) {
      a *= decay(g, head, row0 + l);
      round(St::name(), &a, 1);
    }
    Row<R> o;
    o.v.fill(a);
    return o;
  }

  // ---- and their adjoints. A product of gates, times its cotangent, is a term of the gradient of the log of every
  // gate it contains: it goes to exactly those, so nothing cancels and no gate is divided by.

  /// Row r sums z(i, j) over j < r <= i - lag, the ratios of decay_ratios that contain gate r.
  template <class St, class Src>
  Row<Src::rows> gates_of_ratios(St, Src& z, int lag = 0) {
    constexpr int N = Src::rows;
    z.on_read(epoch_);
    const Format f = format_of(St::name());
    std::vector<T> below(N, T(0));  // by column, the rows at or below r + lag
    Row<N> o;
    for (int r = N - 1; r >= 0; --r) {
      o.v[idx(r)] = T(0);
      for (int j = 0; j < r; ++j) {
        if (r + lag < N) below[idx(j)] += z.v[idx((r + lag) * N + j)];
        round_as(St::name(), f, &below[idx(j)], 1);
        o.v[idx(r)] += below[idx(j)];
        round_as(St::name(), f, &o.v[idx(r)], 1);
      }
    }
    return o;
  }
  /// Row r sums z(i) over r <= i - lag, the rows of decay_prefix that contain gate r.
  template <class St, int R>
  Row<R> gates_of_prefix(St, const Row<R>& z, int lag = 0) {
    Row<R> o;
    T sum = 0;
    for (int r = R - 1; r >= 0; --r) {
      if (r + lag < R) sum += z.v[idx(r + lag)];
      round(St::name(), &sum, 1);
      o.v[idx(r)] = sum;
    }
    return o;
  }
  /// Row r sums z(i) over i < r, the rows of decay_suffix that contain gate r.
  template <class St, int R>
  Row<R> gates_of_suffix(St, const Row<R>& z) {
    Row<R> o;
    T sum = 0;
    for (int r = 0; r < R; ++r) {
      o.v[idx(r)] = sum;
      sum += z.v[idx(r)];
      round(St::name(), &sum, 1);
    }
    return o;
  }
  /// Every row sums all of z: the rows of decay_total contain every gate.
  template <class St, int R, int N>
  Row<R> gates_of_total(St, Shape<R>, const Row<N>& z) {
    T sum = 0;
    for (int i = 0; i < N; ++i) {
      sum += z.v[idx(i)];
      round(St::name(), &sum, 1);
    }
    Row<R> o;
    o.v.fill(sum);
    return o;
  }

  /// Row i holds exp(g_i).
  template <class St, int R>
  Row<R> decays(St, Shape<R>, const RowIn& g, int head, int row0) {
    Row<R> o;
    for (int r = 0; r < R; ++r) o.v[idx(r)] = decay(g, head, row0 + r);
    round(St::name(), o.v.data(), R);
    return o;
  }

  // ---- sums of rows that decay from row to row, one product and one sum a row, and their adjoints.

  /// d(i) = sum_{l <= i - lag} x(l) prod_{l < r <= i - lag} exp(g_r), for every column.
  template <class St, class Dst, class Src>
  void decay_scan(St, Dst& d, Src& x, const RowIn& g, int head, int row0, int lag = 0) {
    constexpr int N = Dst::rows, D = Dst::cols;
    x.on_read(epoch_), d.on_write(epoch_);
    d.v.assign(d.v.size(), T(0));
    for (int i = lag; i < N; ++i) {
      T* sum = row_of(d, i);
      if (i > lag) {
        const T alpha = decay(g, head, row0 + i - lag);
        for (int c = 0; c < D; ++c) sum[c] = alpha * row_of(d, i - 1)[c];
      }
      add(sum, row_of(x, i - lag), D);
      round(St::name(), sum, D);
    }
    round(Dst::site, d.v.data(), d.v.size());
  }
  /// The same for a row of numbers.
  template <class St, int R>
  Row<R> decay_scan(St, const Row<R>& x, const RowIn& g, int head, int row0, int lag = 0) {
    Row<R> o;
    o.v.fill(0);
    T sum = 0;
    for (int i = lag; i < R; ++i) {
      sum = decay(g, head, row0 + i - lag) * sum + x.v[idx(i - lag)];
      round(St::name(), &sum, 1);
      o.v[idx(i)] = sum;
    }
    return o;
  }
  /// What cotangents of decay_scan without lag (`now`) and with lag 1 (`late`) give the rows that it sums:
  /// d(l) = sum_{i >= l} (now(i) + late(i + 1)) prod_{l < r <= i} exp(g_r).
  template <class St, class Dst, class Src>
  void decay_scan_adjoint(St, Dst& d, Src& now, Src& late, const RowIn& g, int head, int row0) {
    constexpr int N = Dst::rows, D = Dst::cols;
    now.on_read(epoch_), late.on_read(epoch_), d.on_write(epoch_);
    for (int l = N - 1; l >= 0; --l) {
      T* sum = row_of(d, l);
      std::copy_n(row_of(now, l), D, sum);
      if (l == N - 1) continue;
      const T alpha = decay(g, head, row0 + l + 1);
      for (int c = 0; c < D; ++c) sum[c] += row_of(late, l + 1)[c];
      round(St::name(), sum, D);
      for (int c = 0; c < D; ++c) sum[c] += alpha * row_of(d, l + 1)[c];
      round(St::name(), sum, D);
    }
    round(Dst::site, d.v.data(), d.v.size());
  }
  template <class St, int R>
  Row<R> decay_scan_adjoint(St, const Row<R>& now, const Row<R>& late, const RowIn& g, int head, int row0) {
    Row<R> o = now;
    for (int l = R - 2; l >= 0; --l) {
      T& sum = o.v[idx(l)];
      sum += late.v[idx(l + 1)];
      round(St::name(), &sum, 1);
      sum += decay(g, head, row0 + l + 1) * o.v[idx(l + 1)];
      round(St::name(), &sum, 1);
    }
    return o;
  }

  // ---- decays with a column per key channel, as a shared tile of the factors alpha: running products along every
  // column. Rows and columns beyond the end act as alpha = 1.

  template <class St, class Tl>
  void channel_decays(St, Tl& alpha, const In& g, int head, int row0) {
    alpha.on_write(epoch_);
    for (int r = 0; r < Tl::rows; ++r)
      for (int c = 0; c < Tl::cols; ++c)
        alpha.v[idx(r * Tl::cols + c)] = row0 + r < g.rows && c < g.cols
                                             ? exponential(g.p[at(head, g.rows, row0 + r) * idx(g.cols) + idx(c)])
                                             : T(1);
    round(St::name(), alpha.v.data(), alpha.v.size());
  }
  /// d(i) = prod_{l <= i - lag} alpha_l.
  template <class St, class Dst, class Src>
  void channel_prefix(St, Dst& d, Src& alpha, int lag = 0) {
    alpha.on_read(epoch_), d.on_write(epoch_);
    d.v.assign(d.v.size(), T(1));
    for (int i = lag; i < Dst::rows; ++i) {
      std::copy_n(row_of(alpha, i - lag), Dst::cols, row_of(d, i));
      if (i > lag) multiply(row_of(d, i), row_of(d, i - 1), Dst::cols);
      if (i > lag) round(St::name(), row_of(d, i), Dst::cols);
    }
  }
  /// d(j) = prod_{l > j} alpha_l.
  template <class St, class Dst, class Src>
  void channel_suffix(St, Dst& d, Src& alpha) {
    alpha.on_read(epoch_), d.on_write(epoch_);
    d.v.assign(d.v.size(), T(1));
    for (int j = Dst::rows - 2; j >= 0; --j) {
      std::copy_n(row_of(alpha, j + 1), Dst::cols, row_of(d, j));
      multiply(row_of(d, j), row_of(d, j + 1), Dst::cols);
      round(St::name(), row_of(d, j), Dst::cols);
    }
  }
  /// Row r holds prod_{l < count} alpha_l of channel r.
  template <class St, int R, class Src>
  Row<R> channel_total(St, Shape<R>, Src& alpha, int count) {
    static_assert(Src::cols == R);
    alpha.on_read(epoch_);
    Row<R> o;
    o.v.fill(1);
    for (int l = 0; l < count; ++l) {
      multiply(o.v.data(), row_of(alpha, l), R);
      round(St::name(), o.v.data(), R);
    }
    return o;
  }
  /// d(i, j) = sum over channels of x_i k_j prod_{j < l <= i - lag} alpha_l for j <= i, 0 above the diagonal. Two lanes
  /// share the channels of a column, as on the device.
  template <class Sum, class St, class Dst, class X, class K, class Src>
  void channel_scores(Sum, St, Dst& d, X& x, K& k, Src& alpha, int lag = 0) {
    constexpr int N = Dst::rows, D = K::cols, half = D / 2;
    x.on_read(epoch_), k.on_read(epoch_), alpha.on_read(epoch_), d.on_write(epoch_);
    const Format f = format_of(Sum::name()), g = format_of(St::name());
    std::vector<T> decayed(static_cast<std::size_t>(D) * N);  // of each channel, the keys so far
    std::array<T, static_cast<std::size_t>(2) * N> sums;
    for (int i = 0; i < N; ++i) {
      sums.fill(0);
      for (int c = 0; c < D; ++c) {
        T* w = &decayed[idx(c * N)];
        T* sum = &sums[idx(c / half * N)];
        if (i > lag) {
          const T a = alpha.v[idx((i - lag) * D + c)];
          for (int j = 0; j < i - lag; ++j) w[j] *= a;
          round_as(St::name(), g, w, idx(i - lag));
        }
        w[i] = k.v[idx(i * D + c)];
        for (int j = 0; j <= i; ++j) sum[j] += x.v[idx(i * D + c)] * w[j];
        round_as(Sum::name(), f, sum, idx(i + 1));
      }
      for (int j = 0; j < N; ++j) d.v[idx(i * N + j)] = sums[idx(j)] + sums[idx(N + j)];
      round_as(Sum::name(), f, row_of(d, i), N);
    }
    round(Dst::site, d.v.data(), d.v.size());
  }

  // ---- and their adjoints, term by term as above.

  /// dg(r) = sum_{i >= r} from(i) + sum_{j < r} before(j): terms of rows of a prefix and of a suffix.
  template <class St, class Dst, class Src>
  void channel_gates(St, Dst& dg, Src& from, Src& before) {
    constexpr int N = Dst::rows, D = Dst::cols;
    from.on_read(epoch_), before.on_read(epoch_), dg.on_write(epoch_);
    dg.v = from.v;
    for (int r = N - 2; r >= 0; --r) {
      add(row_of(dg, r), row_of(dg, r + 1), D);
      round(St::name(), row_of(dg, r), D);
    }
    std::vector<T> sum(D, T(0));
    for (int r = 1; r < N; ++r) {
      add(sum.data(), row_of(before, r - 1), D);
      round(St::name(), sum.data(), D);
      add(row_of(dg, r), sum.data(), D);
      round(St::name(), row_of(dg, r), D);
    }
  }
  /// With the cotangent of channel_scores, lower triangular, adds what is theirs to dX(i), dK(j) and dg(r):
  ///   sum_j dA_ij k_j prod alpha,   sum_i dA_ij x_i prod alpha,   sum_{j < r <= i} dA_ij x_i k_j prod alpha
  template <class Sum, class St, class Ct, class X, class K, class Src, class Dx, class Dk, class Dg>
  void channel_adjoint(Sum, St, Ct& dA, X& x, K& k, Src& alpha, Dx& dx, Dk& dk, Dg& dg) {
    constexpr int N = Ct::rows, D = K::cols;
    const std::string_view sum = Sum::name(), st = St::name();
    const Format f = format_of(sum), g = format_of(st);
    dA.on_read(epoch_), x.on_read(epoch_), k.on_read(epoch_), alpha.on_read(epoch_);
    dx.on_update(epoch_), dg.on_update(epoch_);
    if (static_cast<const void*>(&dk) != static_cast<const void*>(&dx)) dk.on_update(epoch_);
    std::vector<T> reached(static_cast<std::size_t>(N) * D), y(D);  // reached: of row i, the sum over j < r
    const auto multiply_rounded = [&](T* p, const T* q) { multiply(p, q, D), round_as(st, g, p, D); };
    const auto add_rounded = [&](T* p, T scale, const T* q) {
      for (int c = 0; c < D; ++c) p[c] += scale * q[c];
      round_as(sum, f, p, D);
    };
    for (int i = 0; i < N; ++i) {
      std::fill(y.begin(), y.end(), T(0));
      for (int j = 0; j <= i; ++j) {
        std::copy(y.begin(), y.end(), &reached[idx(j * D)]);
        multiply_rounded(y.data(), row_of(alpha, j));
        add_rounded(y.data(), dA.v[idx(i * N + j)], row_of(k, j));
      }
      add_rounded(row_of(dx, i), 1, y.data());
      std::copy_n(row_of(x, i), D, y.data());
      for (int r = i; r > 0; --r) {
        multiply_rounded(y.data(), row_of(alpha, r));
        for (int c = 0; c < D; ++c) row_of(dg, r)[c] += reached[idx(r * D + c)] * y[idx(c)];
        round_as(sum, f, row_of(dg, r), D);
      }
    }
    for (int j = 0; j < N; ++j) {
      std::fill(y.begin(), y.end(), T(0));
      for (int i = N - 1; i >= j; --i) {
        if (i < N - 1) multiply_rounded(y.data(), row_of(alpha, i + 1));
        add_rounded(y.data(), dA.v[idx(i * N + j)], row_of(x, i));
      }
      add_rounded(row_of(dk, j), 1, y.data());
    }
  }
  template <int R>
  Col<R> column_of(const Row<R>& x) {
    return {x.v};
  }

  // ---- a column per value channel, each with decays of its own: what is summed within a chunk under one lower
  // triangular A of scores, column by column, R(i, j) = prod_{j < l <= i} alpha_l. The strict ones are of errors of a
  // state that has not decayed yet: they end a decay earlier and leave out the diagonal.

  /// y(i) = sum_{j <= i} A_ij R(i, j) x(j).
  template <class Sum, class St, class Dst, class Ct, class X, class Src>
  void value_sums(Sum, St, Dst& y, Ct& A, X& x, Src& alpha) {
    constexpr int N = Dst::rows, D = Dst::cols;
    A.on_read(epoch_), x.on_read(epoch_), alpha.on_read(epoch_), y.on_write(epoch_);
    const ChannelSum run{*this, Sum::name(), St::name(), D};
    y.v.assign(y.v.size(), T(0));
    for (int i = 0; i < N; ++i)
      for (int j = 0; j <= i; ++j) {
        if (j > 0) run.decay(row_of(y, i), row_of(alpha, j));
        run.add(row_of(y, i), A.v[idx(i * N + j)], row_of(x, j));
      }
  }
  /// Its adjoint: x(j) = sum_{i >= j} A_ij R(i, j) y(i).
  template <class Sum, class St, class Dst, class Ct, class Y, class Src>
  void value_sums_back(Sum, St, Dst& x, Ct& A, Y& y, Src& alpha) {
    constexpr int N = Dst::rows, D = Dst::cols;
    A.on_read(epoch_), y.on_read(epoch_), alpha.on_read(epoch_), x.on_write(epoch_);
    const ChannelSum run{*this, Sum::name(), St::name(), D};
    x.v.assign(x.v.size(), T(0));
    for (int j = 0; j < N; ++j)
      for (int i = N - 1; i >= j; --i) {
        if (i < N - 1) run.decay(row_of(x, j), row_of(alpha, i + 1));
        run.add(row_of(x, j), A.v[idx(i * N + j)], row_of(y, i));
      }
  }
  /// By forward substitution, r(i) = w(i) - sum_{j < i} A_ij R(i - 1, j) step(j) r(j).
  template <class Sum, class St, class Dst, class Ct, class W, class Steps, class Src>
  void value_solve(Sum, St, Dst& r, Ct& A, W& w, Steps& step, Src& alpha) {
    constexpr int N = Dst::rows, D = Dst::cols;
    A.on_read(epoch_), w.on_read(epoch_), step.on_read(epoch_), alpha.on_read(epoch_), r.on_write(epoch_);
    const ChannelSum run{*this, Sum::name(), St::name(), D};
    r.v = w.v;
    std::vector<T> u(r.v.size()), sum(D);
    for (int i = 0; i < N; ++i) {
      std::fill(sum.begin(), sum.end(), T(0));
      for (int j = 0; j < i; ++j) {
        if (j > 0) run.decay(sum.data(), row_of(alpha, j));
        run.add(sum.data(), A.v[idx(i * N + j)], &u[idx(j * D)]);
      }
      run.add(row_of(r, i), T(-1), sum.data());
      std::copy_n(row_of(r, i), D, &u[idx(i * D)]);
      run.multiplied(&u[idx(i * D)], row_of(step, i));
    }
  }
  /// By backward substitution, f(j) = y(j) - sum_{i > j} A_ij R(i - 1, j) step(i) f(i).
  template <class Sum, class St, class Dst, class Ct, class Y, class Steps, class Src>
  void value_solve_back(Sum, St, Dst& f, Ct& A, Y& y, Steps& step, Src& alpha) {
    constexpr int N = Dst::rows, D = Dst::cols;
    A.on_read(epoch_), y.on_read(epoch_), step.on_read(epoch_), alpha.on_read(epoch_), f.on_write(epoch_);
    const ChannelSum run{*this, Sum::name(), St::name(), D};
    f.v = y.v;
    std::vector<T> u(f.v.size()), sum(D);
    for (int j = N - 1; j >= 0; --j) {
      std::fill(sum.begin(), sum.end(), T(0));
      for (int i = N - 1; i > j; --i) {
        if (i < N - 1) run.decay(sum.data(), row_of(alpha, i));
        run.add(sum.data(), A.v[idx(i * N + j)], &u[idx(i * D)]);
      }
      run.add(row_of(f, j), T(-1), sum.data());
      std::copy_n(row_of(f, j), D, &u[idx(j * D)]);
      run.multiplied(&u[idx(j * D)], row_of(step, j));
    }
  }
  /// Adds to dg(r) the derivative by alpha_r, over which nothing is divided, of sum_{j <= i - lag} A_ij R(i - lag, j)
  /// y(i) x(j).
  template <class Sum, class St, class Dst, class Ct, class Y, class X, class Src>
  void value_gates(Sum, St, Dst& dg, Ct& A, Y& y, X& x, Src& alpha, int lag = 0) {
    constexpr int N = Dst::rows, D = Dst::cols;
    A.on_read(epoch_), x.on_read(epoch_), y.on_read(epoch_), alpha.on_read(epoch_), dg.on_update(epoch_);
    const ChannelSum run{*this, Sum::name(), St::name(), D};
    std::vector<T> reached(dg.v.size()), sum(D);  // reached: of row i, the sum over j < r
    for (int i = 0; i < N; ++i) {
      std::fill(sum.begin(), sum.end(), T(0));
      for (int j = 0; j <= i - lag; ++j) {
        std::copy(sum.begin(), sum.end(), &reached[idx(j * D)]);
        if (j > 0) run.decay(sum.data(), row_of(alpha, j));
        run.add(sum.data(), A.v[idx(i * N + j)], row_of(x, j));
      }
      std::copy_n(row_of(y, i), D, sum.data());
      for (int r = i - lag; r > 0; --r) {
        run.add_products(row_of(dg, r), &reached[idx(r * D)], sum.data());
        run.decay(sum.data(), row_of(alpha, r));
      }
    }
  }
  /// dg(r), the derivative by alpha_r of sum_i a_i at(i) + sum_i a_{i-1} behind(i) + sum_j z_j before(j) + a_last <S,
  /// G> of the column: a the prefixes of alpha (`lagged` holds a_{i-1}), z its suffixes.
  template <class Sum, class St, class Dst, class Row_, class State, class Adjoint, class Src>
  void value_end_gates(Sum, St, Dst& dg, Row_& at, Row_& behind, Row_& before, State& S, Adjoint& G, Src& lagged,
                       Src& suffix, Src& alpha) {
    constexpr int N = Dst::rows, D = Dst::cols;
    for (Row_* x : {&at, &behind, &before}) x->on_read(epoch_);
    for (Src* x : {&lagged, &suffix, &alpha}) x->on_read(epoch_);
    S.on_read(epoch_), G.on_read(epoch_), dg.on_write(epoch_);
    const ChannelSum run{*this, Sum::name(), St::name(), D};
    dg.v.assign(dg.v.size(), T(0));
    std::vector<T> sum(D, T(0)), term(D);
    for (int k = 0; k < State::rows; ++k) run.add_products(sum.data(), row_of(S, k), row_of(G, k));
    for (int r = 0; r < N; ++r) {  // what has come in before r
      std::copy(sum.begin(), sum.end(), row_of(dg, r));
      run.multiplied(row_of(dg, r), row_of(suffix, r));
      run.decay(sum.data(), row_of(alpha, r));
      run.add(sum.data(), T(1), row_of(before, r));
    }
    std::fill(sum.begin(), sum.end(), T(0));
    for (int r = N - 1; r >= 0; --r) {  // what is read from r on
      if (r + 1 < N) run.decay(sum.data(), row_of(alpha, r + 1));
      run.add(sum.data(), T(1), row_of(at, r));
      if (r + 1 < N) run.add(sum.data(), T(1), row_of(behind, r + 1));
      term = sum;
      run.multiplied(term.data(), row_of(lagged, r));
      run.add(row_of(dg, r), T(1), term.data());
    }
  }

  template <class Tl>
  void load(Tl& t, const In& g, int head, int row0, int col0 = 0) {
    t.on_write(epoch_);
    t.pending = true;
    t.v.assign(t.v.size(), poison);
    pending_.push_back([this, &t, g, head, row0, col0] {
      for (int r = 0; r < Tl::rows; ++r)
        for (int c = 0; c < Tl::cols; ++c)
          t.v[idx(r * Tl::cols + c)] = row0 + r < g.rows && col0 + c < g.cols
                                           ? g.p[at(head, g.rows, row0 + r) * idx(g.cols) + idx(col0 + c)]
                                           : T(0);
      round(Tl::site, t.v.data(), t.v.size());
      t.pending = false;
      t.wrote = epoch_;
    });
  }

  // produce(j, stage) issues the loads of step j; consume(j, stage) uses them.
  // Loads issued before the pipeline are complete when its first step runs.
  template <int ST, class P, class F, class M, class L>
  void pipeline(Shape<ST> st, int n, P&& produce, F&& first, M&& middle, L&& last) {
    pipeline(st, n, produce, [&](int j, int s) {
      if (j == 0)
        first(j, s, First{});
      else if (j < n - 1)
        middle(j, s, Middle{});
      else
        last(j, s, Last{});
    });
  }
  template <int ST, class P, class C>
  void pipeline(Shape<ST>, int n, P&& produce, C&& consume) {
    std::deque<std::vector<std::function<void()>>> groups;
    auto commit = [&] { groups.push_back(std::move(pending_)), pending_.clear(); };
    for (int s = 0; s < ST - 1; ++s) {
      if (s < n) produce(s, s);
      commit();
    }
    if (ST == 1) commit();
    for (int j = 0; j < n; ++j) {
      for (auto& land : groups.front()) land();
      groups.pop_front();
      sync();
      if (j + ST - 1 < n) produce(j + ST - 1, (j + ST - 1) % ST);
      commit();
      consume(j, j % ST);
    }
    for (auto& group : groups)  // loads that no step waited for (n = 0)
      for (auto& land : group) land();
    sync();
  }

  template <class St, int R, int C>
  void store(St, const Out& g, int head, int row0, const Acc<R, C>& a, int col0 = 0) {
    std::vector<T> v = a.v;
    round(St::name(), v.data(), v.size());
    for (int r = 0; r < R && row0 + r < g.rows; ++r)
      for (int c = 0; c < C && col0 + c < g.cols; ++c)
        g.p[at(head, g.rows, row0 + r) * idx(g.cols) + idx(col0 + c)] = v[idx(r * C + c)];
  }

  /// What `store` wrote, zeros beyond the array.
  template <class St, int R, int C>
  Acc<R, C> load_acc(St st, Shape<R, C> shape, const In& g, int head, int row0, int col0 = 0) {
    auto a = acc(st, shape);
    for (int r = 0; r < R && row0 + r < g.rows; ++r)
      for (int c = 0; c < C && col0 + c < g.cols; ++c)
        a.v[idx(r * C + c)] = g.p[at(head, g.rows, row0 + r) * idx(g.cols) + idx(col0 + c)];
    round(St::name(), a.v.data(), a.v.size());
    return a;
  }

  Format format_of(std::string_view site) const { return policy_.sites.at(site); }
  void round(std::string_view site, T* p, std::size_t n) { round_as(site, format_of(site), p, n); }

 private:
  static constexpr std::size_t idx(int i) { return static_cast<std::size_t>(i); }
  static std::size_t at(int head, int rows, int row) { return idx(head) * idx(rows) + idx(row); }
  static T gate(const RowIn& g, int head, int row) { return row < g.rows ? g.p[at(head, g.rows, row)] : T(0); }
  static T decay(const RowIn& g, int head, int row) {
    if (row >= g.rows) return T(1);
    return g.logs ? exponential(gate(g, head, row)) : gate(g, head, row);
  }
  static T exponential(T x) { return ex2(x * T(1.442695040888963407359924681001892137L)); }

  void round_as(std::string_view site, Format f, T* p, std::size_t n) {
    if (policy_.stats != nullptr) return round_counted((*policy_.stats)[std::string(site)], f, p, n);
    if (f != Format::exact) round_values(p, n, f, policy_.rounding, random_);
  }
  void round_counted(SiteStats& s, Format f, T* p, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const double x = static_cast<double>(p[i]);
      if (f != Format::exact) round_values(p + i, 1, f, policy_.rounding, random_);
      const double y = static_cast<double>(p[i]);
      if (!std::isfinite(x)) continue;
      ++s.roundings;
      s.max_abs = std::max(s.max_abs, std::fabs(x));
      if (!std::isfinite(y)) {
        ++s.overflows;
        continue;
      }
      s.error_squared += (x - y) * (x - y);
      s.value_squared += x * x;
    }
  }

  template <class Cc>
  void hide(Cc& c) {
    if (!c.landing.empty()) throw HazardError("product issued on an accumulator in flight");
    c.landing.assign(c.v.size(), poison), c.landing.swap(c.v);
  }
  template <class Tl>
  static T* row_of(Tl& t, int r) {
    return &t.v[idx(r * Tl::cols)];
  }
  static void multiply(T* x, const T* y, int n) {
    for (int i = 0; i < n; ++i) x[i] *= y[i];
  }
  static void add(T* x, const T* y, int n) {
    for (int i = 0; i < n; ++i) x[i] += y[i];
  }
  /// A sum along the rows of channels, `width` of them, and its decays.
  struct ChannelSum {
    HostBlock& b;
    std::string_view sum, decays;
    int width;
    Format of_sum = b.format_of(sum), of_decay = b.format_of(decays);

    void decay(T* x, const T* alpha) const {
      multiply(x, alpha, width);
      b.round_as(decays, of_decay, x, idx(width));
    }
    void multiplied(T* x, const T* y) const {
      multiply(x, y, width);
      b.round_as(sum, of_sum, x, idx(width));
    }
    void add(T* x, T scale, const T* y) const {
      for (int c = 0; c < width; ++c) x[c] += scale * y[c];
      b.round_as(sum, of_sum, x, idx(width));
    }
    void add_products(T* x, const T* y, const T* z) const {
      for (int c = 0; c < width; ++c) x[c] += y[c] * z[c];
      b.round_as(sum, of_sum, x, idx(width));
    }
  };
  template <class X>
  void touch(X& x) {
    if constexpr (requires { x.on_read(0L); }) x.on_read(epoch_);
  }
  template <int R, int C>
  static std::vector<T> transpose(const std::vector<T>& a) {
    std::vector<T> t(a.size());
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) t[idx(c * R + r)] = a[idx(r * C + c)];
    return t;
  }
  template <class X>
  Format format_of_factor(const X& x) const {
    if constexpr (requires { x.format; })
      return x.format;
    else
      return format_of(X::site);
  }
  /// That of both factors, or exact if they have none in common: then no tensor core takes them.
  template <class A, class Bt>
  Format common_format(const A& a, const Bt& b) const {
    const Format left = format_of_factor(a);
    return left == format_of_factor(b) ? left : Format::exact;
  }
  template <int K, int R, int C>
  void product(Acc<R, C>& c, const T* a, const T* b, Format factors) {
    const int step = c.format != Format::exact ? policy_.products : K;
    if constexpr (std::is_same_v<T, double>)
      if (tensor_core_ != nullptr && c.format == Format::fp32 && tensor_core_->takes(factors)) {
        for (int r = 0; r < R; ++r)
          for (int k = 0; k < K; k += step)
            tensor_core_->multiply_add(&c.v[idx(r * C)], a + r * K + k, b + k * C, imin(step, K - k), C, factors);
        return;
      }
    if constexpr (std::is_same_v<T, long double>)
      if (step == 1 && c.format == Format::fp64 && policy_.stats == nullptr &&
          add_products_in_fp64(c.v.data(), a, b, R, K, C, policy_.rounding, random_))
        return;
    for (int r = 0; r < R; ++r) {
      T* o = &c.v[idx(r * C)];
      for (int k = 0; k < K; k += step) {
        multiply_add(o, a + r * K + k, b + k * C, imin(step, K - k), C);
        if (c.format != Format::exact) round_as(c.site, c.format, o, C);
      }
    }
  }

  Policy policy_;
  const TensorCore* tensor_core_ = TensorCoreEmulation::current();
  RandomBits random_;
  long epoch_ = 0;
  std::vector<std::function<void()>> pending_;
};

}  // namespace ASSAY_EXECUTORS

}  // namespace assay::tile
