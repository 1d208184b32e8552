#pragma once
// What the launch code of FALCON-3A shares between the CPU and the device: how the pairs of its windows lie in memory.
// No formula of the room is here.
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <variant>

#include "kernels/launches/recurrence.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// The pairs of every head, the incoming tail first: what rows `first` on write, and what came in.
template <class T>
struct PairRows {
  int tail, first, count;

  /// Rows of pairs [0, tail) and of tokens [first, len), shared by the heads of a group or not, as pairs of every head.
  HostArray<T> gather(const RecurrenceShape& shape, const HostArray<T>& old, const HostArray<T>& rows) const {
    auto pairs = shape.output<T>(shape.heads, count, rows.cols);
    const int group = shape.heads / rows.heads;
    for (int h = 0; h < shape.heads; ++h)
      for (int j = 0; j < count; ++j)
        copy(j < tail ? row(old, h, j) : row(rows, h / group, j - tail + first), row(pairs, h, j), rows.cols);
    return pairs;
  }
  /// Back: rows of pairs as rows of tokens, zero for those that write none, and as rows of the tail.
  HostArray<T> tokens(HostArray<T> zeros, const HostArray<T>& pairs) const {
    std::fill(zeros.data.begin(), zeros.data.end(), T(0));
    for (int h = 0; h < zeros.heads; ++h)
      for (int j = tail; j < count; ++j) copy(row(pairs, h, j), row(zeros, h, j - tail + first), zeros.cols);
    return zeros;
  }
  /// Rows [begin, end) of pairs, as an array of that shape.
  static Array slice(const RecurrenceShape& shape, const HostArray<T>& pairs, int begin, int end) {
    auto part = shape.output<T>(pairs.heads, end - begin, pairs.cols);
    for (int h = 0; h < pairs.heads; ++h)
      for (int j = begin; j < end; ++j) copy(row(pairs, h, j), row(part, h, j - begin), pairs.cols);
    return part.array();
  }
  /// Cotangents of the newest pairs among zeros.
  HostArray<T> among_zeros(const RecurrenceShape& shape, const Problem& problem, std::string_view name, int newest,
                           int cols) const {
    auto pairs = shape.output<T>(shape.heads, count, cols);
    std::fill(pairs.data.begin(), pairs.data.end(), T(0));
    const auto cotangent = shape.input<T>(problem.cotangents, name, shape.heads, newest, cols);
    for (int h = 0; h < shape.heads; ++h)
      for (int j = 0; j < newest; ++j) copy(row(cotangent, h, j), row(pairs, h, count - newest + j), cols);
    return pairs;
  }

 private:
  template <class Arr>
  static auto row(Arr& a, int head, int r) {
    return a.data.data() +
           (static_cast<std::size_t>(head) * static_cast<std::size_t>(a.rows) + static_cast<std::size_t>(r)) *
               static_cast<std::size_t>(a.cols);
  }
  static void copy(const T* from, T* to, int n) { std::copy(from, from + n, to); }
};

inline int rows_of(const RecurrenceShape& shape, const Problem& problem, std::string_view name) {
  const auto it = problem.inputs.find(name);
  return it == problem.inputs.end() ? 0 : it->second.shape[shape.head_axis ? 1 : 0];
}

inline int window_of(const Problem& problem) {
  const auto it = problem.params.find("window");
  return it == problem.params.end() ? 0 : static_cast<int>(std::get<long>(it->second));
}

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
