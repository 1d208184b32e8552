#pragma once
// Registers and shared tiles of HostBlock, and the verbs that make registers.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/functions.hpp"
#include "kernels/host/host_rounding.hpp"

namespace assay::tile {

template <class T, FixedString S, Size R, Size C>
struct HostTile {
  static constexpr Size rows = R, cols = C;
  static constexpr std::string_view site = S.view();
  std::vector<T> v = std::vector<T>(idx(R) * idx(C), std::numeric_limits<T>::quiet_NaN());
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

/// `Each` numbers for each of N rows, where they are used: registers come and go too often for memory of their own.
template <class T, Size N, int Each = 1>
class HostNumbers {
 public:
  HostNumbers() {
    if (static_cast<std::size_t>(size_) > numbers_.size()) throw std::length_error("more rows than registers hold");
  }
  ~HostNumbers() = default;
  HostNumbers(const HostNumbers& x) : size_(x.size_) { std::copy_n(x.data(), size(), data()); }
  HostNumbers& operator=(const HostNumbers& x) {
    size_ = x.size_;
    std::copy_n(x.data(), size(), data());
    return *this;
  }

  std::size_t size() const { return idx(size_); }
  T* data() { return numbers_.data(); }
  const T* data() const { return numbers_.data(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t i) { return numbers_[i]; }
  const T& operator[](std::size_t i) const { return numbers_[i]; }
  void fill(T x) { std::fill_n(data(), size(), x); }

 private:
  static constexpr int most = is_fixed(N) ? number_of(N) : 256;
  int size_ = N * Each;
  std::array<T, idx(most* Each)> numbers_;
};

template <class T, Size R>
struct HostRow {
  HostNumbers<T, R> v;
  T at(int r, int) const { return v[idx(r)]; }
};
template <class T, Size C>
struct HostCol {
  HostNumbers<T, C> v;
  T at(int, int c) const { return v[idx(c)]; }
};

template <class T, Size R, Size C>
struct HostAcc {
  static constexpr Size rows = R, cols = C;
  HostRounding<T>* b;
  std::string_view site;
  Format format;
  std::vector<T> v;
  std::vector<T> landing;  // the value, while an asynchronous product hides it
  T at(int r, int c) const { return v[idx(r * C + c)]; }

  template <class St, class F, class... Rw>
  void map(St, F f, const Rw&... rw) {
    const int height = R, width = C;
    T* x = v.data();
    for (int r = 0; r < height; ++r)
      for (int c = 0; c < width; ++c, ++x) *x = f(*x, rw.at(r, c)...);
    b->round(St::name(), v.data(), v.size());
  }
  template <class P>
  void mask(P keep, T fill) {
    const int height = R, width = C;
    T* x = v.data();
    for (int r = 0; r < height; ++r)
      for (int c = 0; c < width; ++c, ++x)
        if (!keep(r, c)) *x = fill;
  }
  template <class P>
  void mask(P keep, const HostAcc& fill) {
    const int height = R, width = C;
    for (int r = 0; r < height; ++r)
      for (int c = 0; c < width; ++c)
        if (!keep(r, c)) v[idx(r * width + c)] = fill.at(r, c);
  }
  template <class St, class F, class X, class... Rw>
  void zip(St, F f, X& x, const Rw&... rw) {  // x: an accumulator or a shared tile of the same shape
    static_assert(same_size(X::rows, R) && same_size(X::cols, C));
    b->touch(x);
    const int height = R, width = C;
    T* mine = v.data();
    const T* other = x.v.data();
    for (int r = 0; r < height; ++r)
      for (int c = 0; c < width; ++c, ++mine, ++other) *mine = f(*mine, *other, rw.at(r, c)...);
    b->round(St::name(), v.data(), v.size());
  }
  HostRow<T, R> row_max() const {
    const int height = R, width = C;
    HostRow<T, R> m;
    for (int r = 0; r < height; ++r) {
      const T* x = &v[idx(r * width)];
      T most = x[0];
      for (int c = 1; c < width; ++c) most = maxi(most, x[c]);
      m.v[idx(r)] = most;
    }
    return m;
  }
  void scale(const HostRow<T, R>& s) {
    const int height = R, width = C;
    T* x = v.data();
    for (int r = 0; r < height; ++r)
      for (int c = 0; c < width; ++c, ++x) *x *= s.v[idx(r)];
    b->round_as(site, format, v.data(), v.size());
  }
};

// A row sum kept as `lanes` partial sums, as the device keeps it.
template <class T, Size R>
struct HostPartial {
  HostRounding<T>* b;
  std::string_view site;
  Format format;
  static constexpr int lanes = HostRounding<T>::lanes;
  HostNumbers<T, R, lanes> v;
  template <Size C>
  void fold(const HostRow<T, R>& alpha, const HostAcc<T, R, C>& x) {
    const int height = R, width = C;
    for (int r = 0; r < height; ++r)
      for (int i = 0; i < lanes; ++i) v[idx(r * lanes + i)] *= alpha.v[idx(r)];
    b->round_as(site, format, v.data(), v.size());
    if (width % (2 * lanes) != 0) throw std::length_error("a row is no multiple of what its threads take");
    for (int c = 0; c < width;
         c += c % 2 == 0 ? 1 : 2 * lanes - 1) {  // a lane adds its two columns one after the other
      for (int r = 0; r < height; ++r)
        for (int i = 0; i < lanes; ++i) v[idx(r * lanes + i)] += x.v[idx(r * width + c + 2 * i)];
      b->round_as(site, format, v.data(), v.size());
    }
  }
  HostRow<T, R> total() const {
    HostRow<T, R> t;
    for (int r = 0; r < R; ++r) {
      T pair[2] = {v[idx(r * lanes)] + v[idx(r * lanes + 1)], v[idx(r * lanes + 2)] + v[idx(r * lanes + 3)]};
      b->round_as(site, format, pair, 2);
      t.v[idx(r)] = pair[0] + pair[1];
    }
    b->round_as(site, format, t.v.data(), t.v.size());
    return t;
  }
};

/// An accumulator converted for use as the left factor.
template <class T, Size R, Size C>
struct HostOperand {
  static constexpr Size rows = R, cols = C;
  Format format;
  std::vector<T> v;
};

template <class T>
class HostRegisters : public HostRounding<T> {
 public:
  using Base = HostRounding<T>;
  using Base::Base, Base::format_of, Base::round, Base::round_factor;
  using typename Base::RowIn, typename Base::RowOut;
  template <FixedString S, Size R, Size C>
  using Tile = HostTile<T, S, R, C>;
  template <class... Tiles>
  using InTurn = SideBySide<Tiles...>;
  template <Size R>
  using Row = HostRow<T, R>;
  template <Size C>
  using Col = HostCol<T, C>;
  template <Size R, Size C>
  using Acc = HostAcc<T, R, C>;
  template <Size R>
  using Partial = HostPartial<T, R>;
  template <Size R, Size C>
  using Operand = HostOperand<T, R, C>;

  template <class St, Size R, Size C>
  Acc<R, C> acc(St, Shape<R, C>) {
    return {this, St::name(), format_of(St::name()), std::vector<T>(idx(R) * idx(C), T(0)), {}};
  }
  template <class St, Size R>
  Row<R> row(St, Shape<R>, T init) {
    Row<R> r;
    r.v.fill(init);
    round(St::name(), r.v.data(), r.v.size());
    return r;
  }
  template <class St, Size R>
  Partial<R> partial(St, Shape<R>) {
    Partial<R> p{this, St::name(), format_of(St::name()), {}};
    p.v.fill(0);
    return p;
  }
  template <class St, class F, Size R, class... Rw>
  Row<R> rows(St, F f, const Row<R>& x, const Rw&... y) {
    const int height = R;
    Row<R> o;
    for (int r = 0; r < height; ++r) o.v[idx(r)] = f(x.v[idx(r)], y.v[idx(r)]...);
    round(St::name(), o.v.data(), o.v.size());
    return o;
  }
  /// Rows beyond the end read as zero.
  template <class St, Size R>
  Row<R> load_row(St, Shape<R>, const RowIn& g, int head, int row0) {
    Row<R> o;
    for (int r = 0; r < R; ++r) o.v[idx(r)] = gate(g, head, row0 + r);
    round(St::name(), o.v.data(), o.v.size());
    return o;
  }
  template <class St, Size C>
  Col<C> load_col(St, Shape<1, C>, const RowIn& g, int head, int col0) {
    Col<C> o;
    for (int c = 0; c < C; ++c) o.v[idx(c)] = gate(g, head, col0 + c);
    round(St::name(), o.v.data(), o.v.size());
    return o;
  }
  template <class St, Size R>
  void store_row(St, const RowOut& g, int head, int row0, Row<R> x) {
    round(St::name(), x.v.data(), x.v.size());
    for (int r = 0; g.p != nullptr && r < R && row0 + r < g.rows; ++r) g.p[at(head, g.rows, row0 + r)] = x.v[idx(r)];
  }
  template <class St, Size R, Size C>
  Row<R> dot(St st, const Acc<R, C>& x, const Acc<R, C>& y) {  // per row
    auto p = partial(st, Shape<R>{});
    Acc<R, C> xy = x;
    for (std::size_t i = 0; i < xy.v.size(); ++i) xy.v[i] *= y.v[i];
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
    auto u = acc(st, Shape<X::rows, X::cols>{}), v = u;
    u.zip(st, copy, x), v.zip(st, copy, y);
    return dot(st, u, v);
  }
  template <class F, Size R>
  bool any(F f, const Row<R>& x) {
    return std::any_of(x.v.begin(), x.v.end(), f);
  }
  template <class St, Size R, Size C>
  Operand<R, C> cast(St, const Acc<R, C>& a) {
    Operand<R, C> o{format_of(St::name()), a.v};
    const int height = R, width = C;
    round_factor(St::name(), o.v.data(), height, width);
    return o;
  }

 protected:
  using Base::at, Base::gate;
};

}  // namespace assay::tile
