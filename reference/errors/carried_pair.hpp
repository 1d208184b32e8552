#pragma once
// How the errors of two coupled states travel through a linear recurrence, for scalars that enclose their numbers: as
// carried_error.hpp has it for one state, but by the product of the steps, not by the norm of each.
//
// The errors of column j are (sum of errors of single steps, taken along). Those of step t are at most own_j(t) long,
// and e(t) is the largest of own_j(t). With ErrorShape's Q of errors e(t) and share_j = sum (own_j(t) / e(t))^2, the
// errors are at most sqrt(share_j a^T Q a) in the direction a (Cauchy and Schwarz).
#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

#include "reference/core/columns.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/carried_error.hpp"
#include "reference/errors/error_shape.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

/// The errors of two states, blocks 0 and 1. Between steps every number of a column has the same radius, at least its
/// error. A step tells what it does to errors (write, mix), takes the errors of a column off, maps it, and notes what
/// the numbers then show, which are the step's own errors; last it puts the errors back.
template <class S>
class PairErrors {
 public:
  PairErrors(Columns<S>&, Columns<S>&) {}
  template <class U, class V>
  NoBounds write(int, const S&, const S&, U&&, V&&) {
    return {};
  }
  void mix(int, const S&, const S&) {}
  template <class V>
  NoBounds along(int, V&&) const {
    return {};
  }
  NoBounds largest(int) const { return {}; }
  NoBounds of(int, NoBounds) const { return {}; }
  void take(Columns<S>&, Columns<S>&, int) {}
  void note(Columns<S>&, Columns<S>&, int) {}
  void put_back(Columns<S>&, Columns<S>&) {}
};

template <Enclosure S>
class PairErrors<S> {
  using B = Bounds<S>;
  using Lanes = decltype(S().nearest());
  using Shape = ErrorShape<std::tuple_size_v<Lanes>>;

 public:
  /// Of the states that the recurrence starts from.
  PairErrors(Columns<S>& x, Columns<S>& y)
      : shape_(x.size(0)), share_(static_cast<std::size_t>(x.size(1))), own_(share_.size()) {
    for (int j = 0; j < x.size(1); ++j) note(x, y, j);
    put_back(x, y);
  }

  /// State `to` becomes a times itself plus c u v^T times the other. Returns `along` of the other and v, before.
  template <class U, class V>
  B write(int to, const S& a, const S& c, U&& u, V&& v) {
    return scaled(shape_.write(to, a.nearest(), c.nearest(), vector(u), vector(v)));
  }
  /// State `to` becomes a times itself plus b times the other.
  void mix(int to, const S& a, const S& b) { shape_.mix(to, a.nearest(), b.nearest()); }

  // The same for all columns: a bound is `of` a column.
  /// Of v^T times a state.
  template <class V>
  B along(int block, V&& v) const {
    return scaled(shape_.along(block, vector(v)));
  }
  /// Of a number of a state.
  B largest(int block) const { return scaled(shape_.largest(block)); }
  B of(int j, const B& bound) const { return sqrt(share_[static_cast<std::size_t>(j)]) * bound; }

  void take(Columns<S>& x, Columns<S>& y, int j) {
    for (Columns<S>* state : {&x, &y}) S::take_joint_error(state->column(j), state->size(0));
  }
  void note(Columns<S>& x, Columns<S>& y, int j) {
    B own;
    for (Columns<S>* state : {&x, &y}) own = own + S::take_errors(state->column(j), state->size(0));
    own_[static_cast<std::size_t>(j)] = own;
  }
  void put_back(Columns<S>& x, Columns<S>& y) {
    B most;
    for (const B& own : own_) most = larger(most, own);
    add(most);
    const B radius[] = {largest(0), largest(1)};
    for (int j = 0; j < x.size(1); ++j) {
      B &share = share_[static_cast<std::size_t>(j)], part = own_[static_cast<std::size_t>(j)] / most;
      share = share + part * part;
      S::set_joint_error(x.column(j), x.size(0), of(j, radius[0]));
      S::set_joint_error(y.column(j), y.size(0), of(j, radius[1]));
    }
  }

 private:
  B scaled(const Lanes& x) const { return unit_ * B::of(x); }
  template <class V>
  typename Shape::Vector vector(V&& v) const {
    typename Shape::Vector all;
    for (int i = 0; i < shape_.size(); ++i) all.push_back(v(i).nearest());
    return all;
  }
  void add(const B& length) {
    const auto is_large = [](double x) { return !(x <= 0x1p100); };
    const Lanes in_units = (length / unit_).doubles();
    if (std::any_of(in_units.begin(), in_units.end(), is_large)) {
      const B unit = larger(unit_, length);
      shape_.scale((unit_ / unit).doubles());
      unit_ = unit;
    }
    shape_.add((length / unit_).doubles());
  }

  Shape shape_;
  B unit_;                // of the shape's lengths
  std::vector<B> share_;  // of a column
  std::vector<B> own_;
};

/// Two coupled states, X (0) and Y (1), or the gradients of such, which carry their errors together. A step first says
/// what it maps them by; then it takes column after column, maps it and puts it back; last it ends. What it reads of a
/// column meanwhile is without the column's errors, and `whole` with them.
template <class S>
class StatePair {
 public:
  StatePair(const Tensor<S, 2>& x, const Tensor<S, 2>& y) : x_(x), y_(y), errors_(x_, y_) {}

  const Columns<S>& x() const { return x_; }
  const Columns<S>& y() const { return y_; }

  /// State `to` becomes a times itself plus c u v^T times the other. Returns how far v^T times the other may be off.
  Bounds<S> maps(int to, const S& a, const S& c, const Line<const S>& u, const Line<const S>& v) {
    return errors_.write(to, a, c, numbers(u), numbers(v));
  }
  /// State `to` becomes a times itself plus b times the other.
  void maps(int to, const S& a, const S& b) { errors_.mix(to, a, b); }
  /// How far v^T times a state may be off, and a number of it.
  Bounds<S> reads(int state, const Line<const S>& v) const { return errors_.along(state, numbers(v)); }
  Bounds<S> numbers_of(int state) const { return errors_.largest(state); }

  struct Column {
    Line<S> x, y;
  };
  Column take(int j) {
    errors_.take(x_, y_, j);
    return {column(x_, j), column(y_, j)};
  }
  /// A number that was read of column j, which may be so far off besides.
  decltype(auto) whole(int j, const S& x, const Bounds<S>& off) const { return widened(x, errors_.of(j, off)); }
  /// Likewise all numbers of a line of column j.
  void whole(int j, const Line<S>& x, const Bounds<S>& off, std::vector<S>& to) const {
    const Bounds<S> error = errors_.of(j, off);
    for (int i = 0; i < x.size; ++i) to[static_cast<std::size_t>(i)] = widened(x[i], error);
  }
  void put_back(int j) { errors_.note(x_, y_, j); }
  void end_step() { errors_.put_back(x_, y_); }

 private:
  static auto numbers(const Line<const S>& x) {
    return [x](int i) -> const S& { return x[i]; };
  }

  Columns<S> x_, y_;
  PairErrors<S> errors_;
};

}  // namespace assay
