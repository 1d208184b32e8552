#pragma once
// The state S [K, V] of a linear recurrence, S_t = M_t S_{t-1} + ..., or the gradient of one, which carries the errors
// of scalars that enclose their numbers: as those of whole columns (carried_error.hpp), so that the reference of a
// mechanism says what a step computes, and nothing about errors but which matrix M_t is. A step takes a column, which
// then holds the step's own errors alone, maps it by decays and writes, and puts it back with the matrix that
// it was mapped by. What it reads meanwhile, a number that is linear in the column, comes without the column's errors,
// for what is written back, and with them, for everybody else.
#include <vector>

#include "reference/core/columns.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/carried_error.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

/// A vector that states are read and written along, with its length for those who ask.
template <class S>
struct Direction {
  Line<const S> at = {nullptr, 1, 0};
  Bounds<S> length = {};  ///< |x|

  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions): it is a line
  operator Line<const S>() const { return at; }
};
template <class S>
Direction<S> direction(const Line<const S>& x) {
  Direction<S> d{x};
  d.length = norm_of<S>(x.size, [&x](int i) -> const S& { return x[i]; });
  return d;
}

/// At least the 2-norm.
template <class S>
Bounds<S> length_of([[maybe_unused]] const Line<const S>& x) {
  if constexpr (Enclosure<S>)
    return sqrt(size_of(dot(x, x)));
  else
    return {};
}

/// The matrix that a step maps a column by, as far as errors ask for it: its 2-norm. The identity, if nothing is said.
template <class S>
struct StepMatrix {
  Bounds<S> norm = size_of(S(1));
};
/// alpha I - beta x x^T, |x|^2 = `square`.
template <class S>
StepMatrix<S> delta_matrix(const S& alpha, const S& beta, const S& square) {
  return {symmetric_norm(alpha, beta, square)};
}

/// A number that is linear in a column of a state: without the errors of the column, and with them.
template <class S>
struct Reading {
  S own, whole;

  friend Reading operator*(const S& a, const Reading& x) {
    S product = a * x.own;
    return {product, a * x.whole};
  }
};

/// A column of a state while a step maps it.
template <class S>
class TakenColumn {
 public:
  TakenColumn(Columns<S>& state, int j) : state_(state), j_(j), carried_(state, j) {}

  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions): it is a line
  operator Line<const S>() const { return column(state_, j_); }

  void decay(const S& alpha) const {
    for (int i = 0; i < state_.size(0); ++i) state_(i, j_) *= alpha;
  }
  /// s += u x.
  void write(const S& u, const Line<const S>& x) const { add_scaled(column(state_, j_), u, x); }
  /// x^T s, before the step has mapped the column.
  Reading<S> read(const Direction<S>& x) const {
    S own = dot(column(state_, j_), x.at);
    return {own, carried_.whole(own, x.length)};
  }
  /// `x`, one of its numbers, with the column's errors, where that was mapped so far by `so_far`.
  S whole(const S& x, const StepMatrix<S>& so_far) const { return carried_.whole(x, so_far.norm); }

  void put_back(const StepMatrix<S>& M) const { carried_.put_back(state_, j_, M.norm); }

 private:
  Columns<S>& state_;
  int j_;
  CarriedError<S> carried_;
};

template <class S>
class State : public Columns<S> {
 public:
  explicit State(const Tensor<S, 2>& matrix) : Columns<S>(matrix) { join_errors(*this); }

  using Columns<S>::operator=;

  TakenColumn<S> take(int j) { return {*this, j}; }
  /// All of them.
  std::vector<TakenColumn<S>> take() {
    std::vector<TakenColumn<S>> all;
    for (int j = 0; j < this->size(1); ++j) all.push_back(take(j));
    return all;
  }
};

/// y += S u, columns times numbers: what a write feature's gradient gathers.
template <class S>
class ColumnSum {
 public:
  explicit ColumnSum(const Line<S>& y) : y_(y) {}
  void add(const S& u, const TakenColumn<S>& s) {
    add_scaled(y_, u, s);
    of_errors_ += s.whole(S(0), one_) * u;
  }
  /// Puts the columns' errors on what was gathered: once, after the last.
  void finish() const {
    for (int i = 0; i < y_.size; ++i) y_[i] += of_errors_;
  }

 private:
  Line<S> y_;
  StepMatrix<S> one_;
  S of_errors_ = S(0);
};

}  // namespace assay
