#pragma once
// The errors of states that a step maps linearly, from step to step: docs/error-analysis.md, section 8.4.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "language/evaluate/joint.hpp"
#include "language/evaluate/norm_bound.hpp"
#include "language/evaluate/value.hpp"
#include "oracles/multiword/pack.hpp"
#include "reference/errors/elementary.hpp"

namespace assay::language {

/// Steps that enclosures go number by number before their errors are joined.
inline constexpr int joint_steps = 16;
/// The same where every column has a map of its own, of which norms alone are known: they multiply up.
inline constexpr int channel_steps = 4;
/// Numbers of a column: the products of its matrices take the cube of it.
inline constexpr std::size_t most_joint_rows = 256;

/// The states of one joint; of packs alone. A state is `near`, of whose numbers the radii hold what was rounded since
/// the errors were joined, and what the product of the steps since then, `map`, makes of a vector that is at most
/// `error` long.
template <class S>
class JointErrors {
 public:
  using V = Value<S>;
  using Bounds = typename S::Bounds;

  /// Takes states with any enclosures.
  JointErrors(const Joint& joint, std::vector<V> states) : joint_(&joint), near_(std::move(states)) {
    for (std::size_t k = 0; k < near_.size(); ++k) {
      const Strides& shape = near_[k].layout;
      const std::size_t axis = columns_axis(joint, k);
      columns_ = shape.length[axis];
      inner_.push_back(1);
      for (int r = static_cast<int>(axis) + 1; r < shape.rank; ++r)
        inner_.back() *= static_cast<std::size_t>(shape.length[Strides::at(r)]);
      rows_.push_back(columns_ > 0 ? shape.count() / static_cast<std::size_t>(columns_) : 0);
      n_ += rows_.back();
      axis_.push_back(axis);
    }
    has_map_ = joint.channels == nullptr;
    join({Bounds()});
  }

  const Joint& joint() const { return *joint_; }
  /// Rows of a column.
  int rows() const { return static_cast<int>(n_); }
  /// Both are gone then, until the next `advance`.
  std::vector<V> take_near() { return std::move(near_); }
  std::vector<V> take_map() { return std::move(map_); }

  /// The effect of a step on the product: with that alone the same step gives the same errors again.
  struct Record {
    std::vector<Bounds> growth, norm;  ///< of the product after it; of all of it, where that ended in a join
    bool known = false;                ///< false: nothing was known of the product
  };
  const Record& last() const { return last_; }
  /// From now on without the product: steps go by records.
  void forget_map() { map_.clear(), has_map_ = false; }

  /// After a step that is made again: the next states, and what is known of the step.
  bool advance(std::vector<V> near, const Record& record) {
    near_ = std::move(near), last_ = record;
    if (++age_ == (joint_->channels ? channel_steps : joint_steps)) {
      join(record.norm);
    } else {
      growth_ = record.growth;
    }
    return record.known;
  }

  /// After a step that is known by columns: the next states, by their own errors, and what `channels` made. False if
  /// nothing is known of the columns' maps.
  bool advance_by(std::vector<V> near, const std::vector<V>& made) {
    near_ = std::move(near), last_ = {};
    growth_.resize(static_cast<std::size_t>(columns_), growth_[0]);
    const bool one_term = made.size() > 1,
               same = one_term && joint_->channels->results[2] == joint_->channels->results[3];
    const S product = one_term ? dot(made[2], made[3]) : S(0);
    // |u|^2 |w|^2 - (u . w)^2
    const S spread =
        !one_term || same ? S(0) : S(S(dot(made[2], made[2]) * dot(made[3], made[3])) - S(product * product));
    const V &a = made[0], &b = made[one_term ? 1 : 0];
    walk<2>({&a.layout, &b.layout}, [&](std::size_t c, const auto& at) {
      const S x = a.real(at[0]), y = one_term ? b.real(at[1]) : S(0), d = S(x + S(y * product));
      const Bounds apart = smaller(S(x - d).sizes(), S(x + d).sizes());
      growth_[c] = growth_[c] * norm_of_pair(x.sizes(), d.sizes(), apart, S(S(y * y) * spread).sizes());
    });
    if (++age_ != channel_steps) return remember(growth_);
    last_.norm = growth_;
    join(last_.norm);
    return remember(last_.norm);
  }

  /// After a step: the next states, by their own errors, and the product of the steps. False if nothing is known of
  /// that.
  bool advance(std::vector<V> near, std::vector<V> map) {
    near_ = std::move(near), map_ = std::move(map);
    last_ = {};
    if (++age_ == joint_steps) {
      last_.norm = {whole_norm()};
      join(last_.norm);
    } else {
      squares_ = {};
      for (const V& part : map_)
        walk<1>({&part.layout}, [&](std::size_t, const auto& at) {
          const Bounds size = part.real(at[0]).sizes();
          squares_ = squares_ + size * size;
        });
      growth_ = {sqrt(squares_) + nothing()};
    }
    return remember(growth_);
  }

  /// State k with all of its errors.
  V whole(std::size_t k) const {
    std::vector<S> numbers;
    numbers.reserve(near_[k].layout.count());
    std::vector<Bounds> carried;
    for (std::size_t c = 0; c < error_.size(); ++c) carried.push_back(of_column(growth_, c) * error_[c]);
    walk<1>({&near_[k].layout}, [&](std::size_t i, const auto& at) {
      numbers.push_back(near_[k].real(at[0]).widened(carried[column_of(k, i)]));
    });
    return V::of(near_[k].layout, std::move(numbers));
  }

 private:
  static std::size_t columns_axis(const Joint& joint, std::size_t k) {
    const std::vector<Dim>& axes = joint.tangent
                                       ? joint.tangent->params[k].axes
                                       : joint.channels->params[static_cast<std::size_t>(joint.states[k])].axes;
    std::size_t axis = 0;
    while (axes[axis].name != joint.columns) ++axis;
    return axis;
  }
  static S dot(const V& x, const V& y) {
    S sum = S(0);
    walk<2>({&x.layout, &y.layout}, [&](std::size_t, const auto& at) { sum += x.real(at[0]) * y.real(at[1]); });
    return sum;
  }
  /// The bound for column c; `bounds` has one for all columns, or one for each.
  static const Bounds& of_column(const std::vector<Bounds>& bounds, std::size_t c) {
    return bounds[bounds.size() == 1 ? 0 : c];
  }
  bool remember(const std::vector<Bounds>& growth) {
    last_.growth = growth;
    last_.known = std::all_of(growth.begin(), growth.end(), [](const Bounds& one) {
      return std::all_of(one.at.begin(), one.at.end(), [](double x) { return std::isfinite(x); });
    });
    return last_.known;
  }
  std::size_t column_of(std::size_t k, std::size_t i) const {
    return i / inner_[k] % static_cast<std::size_t>(columns_);
  }
  std::size_t row_of(std::size_t k, std::size_t i) const {
    return i / inner_[k] / static_cast<std::size_t>(columns_) * inner_[k] + i % inner_[k];
  }
  /// More than the roots of squares that underflow.
  static Bounds nothing() {
    Bounds b;
    b.at.fill(0x1p-450);
    return b;
  }

  /// Takes the radii off, and puts their columns' norms to the carried errors, of which the product has that norm.
  void join(const std::vector<Bounds>& norm) {
    std::vector<std::vector<S>> column(static_cast<std::size_t>(columns_), std::vector<S>(n_));
    std::size_t first = 0;
    for (std::size_t k = 0; k < near_.size(); ++k) {
      walk<1>({&near_[k].layout}, [&](std::size_t i, const auto& at) {
        column[column_of(k, i)][first + row_of(k, i)] = near_[k].real(at[0]);
      });
      first += rows_[k];
    }
    const bool fresh = error_.empty();
    error_.resize(static_cast<std::size_t>(columns_));
    for (std::size_t j = 0; j < column.size(); ++j) {
      const Bounds own = S::take_errors(column[j].data(), static_cast<int>(n_));
      error_[j] = fresh ? own : of_column(norm, j) * error_[j] + own;
    }
    first = 0;
    for (std::size_t k = 0; k < near_.size(); ++k) {
      std::vector<S> numbers(near_[k].layout.count());
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = column[column_of(k, i)][first + row_of(k, i)];
      near_[k] = V::of(near_[k].layout, std::move(numbers));
      first += rows_[k];
    }
    set_identity();
  }

  void set_identity() {
    map_.clear(), age_ = 0;
    growth_.assign(1, Bounds());
    growth_[0].at.fill(1);
    if (!has_map_) return;
    std::size_t first = 0;
    for (std::size_t k = 0; k < near_.size(); ++k) {
      Strides shape = near_[k].layout.dense();
      shape.length[axis_[k]] = static_cast<int>(n_);
      std::vector<S> numbers(shape.count(), S(0));
      for (std::size_t i = 0; i < numbers.size(); ++i)
        if (i / inner_[k] % n_ == first + i / inner_[k] / n_ * inner_[k] + i % inner_[k]) numbers[i] = S(1);
      map_.push_back(V::of(shape.dense(), std::move(numbers)));
      first += rows_[k];
    }
  }

  /// A bound on the norm of the product: of the middles, and of the numbers' distances from them.
  Bounds whole_norm() const {
    std::vector<EightDoubles> matrix(n_ * n_);
    Bounds off;
    std::size_t first = 0;
    for (std::size_t k = 0; k < map_.size(); ++k) {
      walk<1>({&map_[k].layout}, [&](std::size_t i, const auto& at) {
        const S& x = map_[k].real(at[0]);
        EightDoubles& middle =
            matrix[(first + i / inner_[k] / n_ * inner_[k] + i % inner_[k]) * n_ + i / inner_[k] % n_];
        Bounds rest;
        for (std::size_t lane = 0; lane < middle.size(); ++lane) {
          const WordBall ball = x.number(static_cast<int>(lane));
          middle[lane] = ball.word[0];
          rest.at[lane] = (std::fabs(ball.word[1]) + std::fabs(ball.word[2]) + std::fabs(ball.word[3]) + ball.radius) *
                          (1 + 0x1p-49);
        }
        off = off + rest * rest;
      });
      first += rows_[k];
    }
    return Bounds::of(norm_bound(std::move(matrix), static_cast<int>(n_))) + sqrt(off) + nothing();
  }

  const Joint* joint_;
  std::vector<V> near_, map_;
  std::vector<std::size_t> axis_, inner_, rows_;  ///< of every state: the columns' axis, what is inside of it, rows
  int columns_ = 0, age_ = 0;
  bool has_map_ = true;
  std::size_t n_ = 0;
  std::vector<Bounds> error_;   ///< of every column
  std::vector<Bounds> growth_;  ///< at least the norm of `map`, or of what every column went through
  Bounds squares_;
  Record last_;
};

/// Other scalars have none.
struct NoJointErrors {
  struct Record {};
};
template <class S>
using JointErrorsOf = typename std::conditional_t<Several<S>, std::type_identity<JointErrors<S>>,
                                                  std::type_identity<NoJointErrors>>::type;

}  // namespace assay::language
