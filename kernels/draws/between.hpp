#pragma once
// What is done to arrays between the launches of a tile program where draws run on a device: an element a turn, with
// the sums and the random words of HostDevice (kernels/host/host_device.hpp).
#include <cstddef>
#include <cstdint>

#include "kernels/draws/draw_numbers.hpp"

namespace assay::draws {

struct Fill {
  double* to;
  double value;
  DRAW_FN void operator()(std::size_t at) const { to[at] = value; }
};

/// Totals of parts, ascending, each sum rounded at one site and the total at another.
struct SumParts {
  DrawPolicy policy;
  const double* parts;
  double* total;
  std::size_t n;  ///< of a head
  int of_head;
  std::uint64_t part, out;  ///< sites

  DRAW_FN void operator()(std::size_t at) const {
    const std::size_t head = at / n, i = at % n;
    const std::uint64_t seed = random_word(policy.seed, head);
    const Format part_format = policy.format_of(part);
    double sum = 0;
    for (int p = 0; p < of_head; ++p) {
      const std::size_t from = (head * static_cast<std::size_t>(of_head) + static_cast<std::size_t>(p)) * n + i;
      sum = rounder_of(policy, part_format, seed, static_cast<std::size_t>(p) * n)(sum + parts[from], i);
    }
    const std::size_t before = part_format == Format::exact ? 0 : static_cast<std::size_t>(of_head) * n;
    total[at] = rounder_of(policy, policy.format_of(out), seed, before)(sum, i);
  }
};

/// Rows that are sums of rows: those of row r are first[r] to first[r + 1] of a list.
struct SumRows {
  DrawPolicy policy;
  const double *from, *start;  ///< start: null, or as large as the total
  double* total;
  const int *first, *list;
  int from_rows, rows, cols;
  std::uint64_t part, out;

  DRAW_FN void operator()(std::size_t at) const {
    const std::size_t n = static_cast<std::size_t>(cols), c = at % n, r = at / n % static_cast<std::size_t>(rows),
                      head = at / n / static_cast<std::size_t>(rows);
    const std::uint64_t seed = random_word(policy.seed, head);
    const Format part_format = policy.format_of(part);
    double sum = start != nullptr ? start[at] : 0.0;
    for (int i = first[r]; i < first[r + 1]; ++i) {
      const std::size_t row = head * static_cast<std::size_t>(from_rows) + static_cast<std::size_t>(list[i]);
      sum = rounder_of(policy, part_format, seed, static_cast<std::size_t>(i) * n)(sum + from[row * n + c], c);
    }
    const std::size_t before = part_format == Format::exact ? 0 : static_cast<std::size_t>(first[rows]) * n;
    total[at] = rounder_of(policy, policy.format_of(out), seed, before + r * n)(sum, c);
  }
};

/// Rows of one array from those of another, by a list; a negative one is missing.
struct Gather {
  const double* from;
  double* to;
  const int* list;
  int from_rows, rows, from_cols, cols;
  double missing;

  DRAW_FN void operator()(std::size_t at) const {
    const std::size_t n = static_cast<std::size_t>(cols), c = at % n, r = at / n % static_cast<std::size_t>(rows),
                      head = at / n / static_cast<std::size_t>(rows);
    const int source = list[r];
    const auto width = static_cast<std::size_t>(from_cols);
    to[at] = source < 0 || c >= width
                 ? missing
                 : from[(head * static_cast<std::size_t>(from_rows) + static_cast<std::size_t>(source)) * width + c];
  }
};

struct FirstColumn {
  const double* from;
  double* to;
  int from_cols, cols;
  DRAW_FN void operator()(std::size_t row) const {
    to[row * static_cast<std::size_t>(cols)] = from[row * static_cast<std::size_t>(from_cols)];
  }
};

}  // namespace assay::draws
