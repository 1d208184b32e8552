#pragma once
// How the pairs of FALCON's mini-batch rooms lie in memory, on the host. No formula of a room is here.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/launches/recurrence.hpp"
#include "kernels/launches/row_maps.hpp"
#include "kernels/programs/windows.hpp"
#include "reference/core/error.hpp"

namespace assay::tile {

inline int rows_of(const RecurrenceShape& shape, const Problem& problem, std::string_view name) {
  const auto it = problem.inputs.find(name);
  return it == problem.inputs.end() ? 0 : it->second.shape[shape.head_axis ? 1 : 0];
}

inline int window_of(const Problem& problem) {
  const auto it = problem.params.find("window");
  return it == problem.params.end() ? 0 : static_cast<int>(std::get<long>(it->second));
}

/// Why the published form cannot take windows of up to `longest` pairs, or "".
inline std::string renormalization_obstacle(bool has_floor, int longest) {
  constexpr int most = 16;  // rows of the smallest tile
  if (!has_floor) return "without a decay_floor a decay may be 0, and nothing is renormalised by that";
  return longest <= most ? "" : text("a window is part of one system, of ", most, " pairs at most: got ", longest);
}

/// The pairs of every head, the incoming tail first: what rows `first` on write, and what came in.
struct PairRows {
  int heads, tail, first, count;
  int window;  ///< of the newest pairs, or 0: of all. As many as there are is none, and has room to add to
  int newest;  ///< pairs that go out as a tail

  PairRows(const RecurrenceShape& shape, const Problem& problem, int first_that_writes)
      : heads(shape.heads),
        tail(rows_of(shape, problem, "tail_k")),
        first(first_that_writes),
        count(tail + imax(0, shape.len - first)),
        window(imin(window_of(problem), imax(1, count))),
        newest(window_of(problem) > 0 ? imin(count, window_of(problem) - 1) : count) {}

  /// Rows of the named tail and of tokens [first, len), which the heads of a group share or not, as pairs of every
  /// head.
  std::vector<double> gather(const Problem& problem, std::string_view tail_name, const std::vector<double>& rows,
                             int row_heads, int len, int cols) const {
    std::vector<double> pairs(size(heads, count, cols));
    const auto old = problem.inputs.find(tail_name);
    const int group = heads / row_heads;
    for (int h = 0; h < heads; ++h) {
      const auto to = pairs.begin() + at(h, count, 0, cols);
      if (old != problem.inputs.end())
        std::copy_n(old->second.data.begin() + at(h, tail, 0, cols), at(0, 0, tail, cols), to);
      std::copy_n(rows.begin() + at(h / group, len, first, cols), at(0, 0, count - tail, cols),
                  to + at(0, 0, tail, cols));
    }
    return pairs;
  }
  /// The named cotangent of the newest pairs, as many as it has, among zeros.
  std::vector<double> among_zeros(const Problem& problem, std::string_view name, int cols) const {
    std::vector<double> pairs(size(heads, count, cols));
    const auto found = problem.cotangents.find(name);
    if (found == problem.cotangents.end()) return pairs;
    const std::vector<double>& cotangent = found->second.data;
    const int rows = static_cast<int>(cotangent.size()) / imax(1, heads * cols);
    for (int h = 0; h < heads; ++h)
      std::copy_n(cotangent.begin() + at(h, rows, 0, cols), at(0, 0, rows, cols),
                  pairs.begin() + at(h, count, count - rows, cols));
    return pairs;
  }
  /// Rows [begin, end) of pairs.
  Array slice(bool head_axis, const std::vector<double>& pairs, int begin, int end, int cols) const {
    Array part(axes_of(head_axis, heads, {end - begin, cols}));
    for (int h = 0; h < heads; ++h)
      std::copy_n(pairs.begin() + at(h, count, begin, cols), at(0, 0, end - begin, cols),
                  part.data.begin() + at(h, end - begin, 0, cols));
    return part;
  }

 private:
  static std::ptrdiff_t at(int head, int rows, int row, int cols) {
    return (static_cast<std::ptrdiff_t>(head) * rows + row) * cols;
  }
  static std::size_t size(int heads, int rows, int cols) { return static_cast<std::size_t>(at(heads, rows, 0, cols)); }
};

}  // namespace assay::tile
