#pragma once
// Arrays of an interpreter: views of numbers that are shared. Repeating an axis, permuting axes and taking a row copy
// nothing.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "language/program/program.hpp"

namespace assay::language {

/// A truth value that may depend on a number that does not exist.
enum class Truth : std::uint8_t { no, yes, undefined };

/// Which numbers of a buffer an array has, and in what order.
struct Strides {
  int rank = 0;
  std::array<int, most_axes> length{};
  std::array<std::ptrdiff_t, most_axes> step{};
  std::ptrdiff_t offset = 0;
  friend bool operator==(const Strides&, const Strides&) = default;

  std::size_t count() const {
    std::size_t n = 1;
    for (int r = 0; r < rank; ++r) n *= static_cast<std::size_t>(length[at(r)]);
    return n;
  }
  static std::size_t at(int r) { return static_cast<std::size_t>(r); }

  /// The same lengths, row-major, from the start of a buffer.
  Strides dense() const;
  /// Whether it is that already.
  bool is_dense() const;
  Strides without(int axis) const;
  Strides with(int axis, int n, std::ptrdiff_t by) const;
};

/// Calls f(n, offsets, steps, length) for every line along the last axis of arrays of the same lengths, which begins
/// with element n, row-major.
template <std::size_t N, class F>
void walk_lines(const std::array<const Strides*, N>& arrays, F&& f) {
  const Strides& shape = *arrays[0];
  std::array<std::ptrdiff_t, N> row{}, step{};
  const std::size_t last = Strides::at(std::max(shape.rank - 1, 0)), count = shape.count();
  for (std::size_t k = 0; k < N; ++k) row[k] = arrays[k]->offset, step[k] = arrays[k]->step[last];
  const int length = shape.rank > 0 ? shape.length[last] : 1;
  std::array<int, most_axes> index{};
  for (std::size_t n = 0; n < count; n += static_cast<std::size_t>(length)) {
    f(n, row, step, length);
    for (int axis = shape.rank - 2; axis >= 0; --axis) {
      const std::size_t r = Strides::at(axis);
      for (std::size_t k = 0; k < N; ++k) row[k] += arrays[k]->step[r];
      if (++index[r] < shape.length[r]) break;
      for (std::size_t k = 0; k < N; ++k) row[k] -= arrays[k]->step[r] * shape.length[r];
      index[r] = 0;
    }
  }
}

/// Calls f(n, offsets) for element n of arrays of the same lengths, row-major.
template <std::size_t N, class F>
void walk(const std::array<const Strides*, N>& arrays, F&& f) {
  using Offsets = std::array<std::ptrdiff_t, N>;
  walk_lines(arrays, [&f](std::size_t n, const Offsets& row, const Offsets& step, int length) {
    Offsets at = row;
    for (int i = 0; i < length; ++i, ++n) {
      f(n, at);
      for (std::size_t k = 0; k < N; ++k) at[k] += step[k];
    }
  });
}

template <class S>
struct Value;
template <class S>
struct Product;

/// Rows that are computed when one of them is asked for.
template <class S>
class LazyRows {
 public:
  LazyRows() = default;
  LazyRows(const LazyRows&) = delete;
  LazyRows& operator=(const LazyRows&) = delete;
  virtual ~LazyRows() = default;
  /// Row t of state k.
  virtual Value<S> row(std::size_t k, int t) = 0;
};

/// Real numbers that values share.
template <class S>
struct Numbers {
  std::vector<S> list;
  mutable std::optional<bool> sound = {};  ///< whether all of them are finite and known, if somebody has asked
};

/// One value of a program in scalar S; of a scan its results.
template <class S>
struct Value {
  Strides layout;
  std::shared_ptr<const Numbers<S>> reals;
  std::shared_ptr<const std::vector<std::int64_t>> integers;
  std::shared_ptr<const std::vector<Truth>> truths;
  std::shared_ptr<const std::vector<Value>> results;
  std::shared_ptr<LazyRows<S>> lazy;  ///< in place of numbers: a scan's states, which nothing but a scan reads
  std::size_t lazy_index = 0;
  std::shared_ptr<const Product<S>> product;  ///< in place of numbers: a contraction that an addition will make

  const S& real(std::ptrdiff_t at) const { return reals->list[static_cast<std::size_t>(at)]; }
  std::int64_t integer(std::ptrdiff_t at) const { return (*integers)[static_cast<std::size_t>(at)]; }
  Truth truth(std::ptrdiff_t at) const { return (*truths)[static_cast<std::size_t>(at)]; }

  static Value of(const Strides& shape, std::vector<S> data) {
    // The numbers are not const: they are written to once no other value shares them.
    return {shape.dense(), std::make_shared<Numbers<S>>(Numbers<S>{std::move(data)}), {}, {}, {}, {}, 0, {}};
  }
  static Value of(const Strides& shape, std::vector<std::int64_t> data) {
    return {shape.dense(), {}, std::make_shared<const std::vector<std::int64_t>>(std::move(data)), {}, {}, {}, 0, {}};
  }
  static Value of(const Strides& shape, std::vector<Truth> data) {
    return {shape.dense(), {}, {}, std::make_shared<const std::vector<Truth>>(std::move(data)), {}, {}, 0, {}};
  }
  static Value of(std::vector<Value> several) {
    return {{}, {}, {}, {}, std::make_shared<const std::vector<Value>>(std::move(several)), {}, 0, {}};
  }
  /// Its real numbers, row-major.
  std::vector<S> in_rows() const {
    const std::size_t n = layout.count();
    if (layout.is_dense()) return {reals->list.begin(), reals->list.begin() + static_cast<std::ptrdiff_t>(n)};
    std::vector<S> list;
    list.reserve(n);
    walk_lines<1>({&layout}, [&](std::size_t, const auto& at, const auto& by, int length) {
      const S* const line = reals->list.data() + at[0];
      if (by[0] == 1)
        list.insert(list.end(), line, line + length);
      else if (by[0] == 0)
        list.insert(list.end(), static_cast<std::size_t>(length), *line);
      else
        for (int i = 0; i < length; ++i) list.push_back(line[by[0] * i]);
    });
    return list;
  }
  /// Other elements of the same numbers.
  Value viewed(const Strides& other) const {
    Value v = *this;
    v.layout = other;
    return v;
  }
};

/// A sum of products not multiplied out yet.
template <class S>
struct Product {
  const Attributes& how;
  Value<S> left, right;
  int value = 0;           ///< which one of its block it is
  bool is_square = false;  ///< both operands are `left`

  const Value<S>& second() const { return is_square ? left : right; }
};

}  // namespace assay::language
