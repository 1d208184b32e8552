#include "language/evaluate/products.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "reference/core/per_machine.hpp"

namespace assay::language {
namespace {

/// Where the numbers of some indices are: of the operand, or of the left one, and of the result, or of the right one.
struct Offset {
  std::ptrdiff_t first = 0, second = 0;
};
using Offsets = std::vector<Offset>;

/// Those of all values of another index beside the ones that are there.
void go_along(Offsets& list, int length, std::ptrdiff_t first, std::ptrdiff_t second) {
  Offsets all;
  all.reserve(list.size() * static_cast<std::size_t>(length));
  for (const Offset& at : list)
    for (int i = 0; i < length; ++i) all.push_back({at.first + first * i, at.second + second * i});
  list = std::move(all);
}

constexpr int lanes = 8, rows_of_block = 4, vectors = 2, columns_of_panel = vectors * lanes;

/// Sums of the products of `rows_of_block` rows and a panel of columns, and those of their squares.
struct Sums {
  std::array<double, rows_of_block * columns_of_panel> sum, squares;
};

/// Both operands have their numbers in the order in which they are read; every sum is from the first term to the last.
ASSAY_PER_MACHINE void multiply(const double* __restrict rows, const double* __restrict columns, std::size_t terms,
                                Sums* __restrict out) {
  using Lanes __attribute__((vector_size(lanes * sizeof(double)))) = double;
  Lanes sums[rows_of_block][vectors]{}, squares[rows_of_block][vectors]{};
  for (std::size_t k = 0; k < terms; ++k, rows += rows_of_block, columns += columns_of_panel)
    for (int c = 0; c < vectors; ++c) {
      Lanes by{};
      std::memcpy(&by, columns + static_cast<std::ptrdiff_t>(c) * lanes, sizeof by);
      for (int r = 0; r < rows_of_block; ++r) {
        const Lanes term = rows[r] * by;
        sums[r][c] += term, squares[r][c] += term * term;
      }
    }
  std::memcpy(out->sum.data(), sums, sizeof sums), std::memcpy(out->squares.data(), squares, sizeof squares);
}

/// The sums of one row and one column, eight at a time.
ASSAY_PER_MACHINE void multiply_one(const double* __restrict row, const double* __restrict column, std::size_t terms,
                                    double* sum, double* squares) {
  using Lanes __attribute__((vector_size(lanes * sizeof(double)))) = double;
  Lanes sums{}, of_squares{}, x{}, y{};
  std::size_t k = 0;
  for (; k + lanes <= terms; k += lanes) {
    std::memcpy(&x, row + k, sizeof x), std::memcpy(&y, column + k, sizeof y);
    const Lanes term = x * y;
    sums += term, of_squares += term * term;
  }
  for (int l = 0; k < terms; ++k, ++l) {
    const double term = row[k] * column[k];
    sums[l] += term, of_squares[l] += term * term;
  }
  *sum = *squares = 0;
  for (int l = 0; l < lanes; ++l) *sum += sums[l], *squares += of_squares[l];
}

/// Lines of an operand side by side, `width` of them, behind each other: number k of each, then number k + 1.
template <std::size_t width>
struct Packed {
  std::unique_ptr<double[]> numbers;  // NOLINT(modernize-avoid-c-arrays): not zeros first
  std::vector<double> terms;          ///< how many numbers of a line are not zero

  Packed(const double* x, const Offsets& lines, std::span<const Offset> sums, std::ptrdiff_t Offset::*of_sum)
      : terms((lines.size() + width - 1) / width * width, 0.0) {
    numbers = std::make_unique_for_overwrite<double[]>(terms.size() * sums.size());  // NOLINT(modernize-avoid-c-arrays)
    double* to = numbers.get();
    for (std::size_t first = 0; first < lines.size(); first += width) {
      std::array<const double*, width> line;
      for (std::size_t l = 0; l < width; ++l) line[l] = x + lines[std::min(first + l, lines.size() - 1)].first;
      double* const others = terms.data() + first;
      for (std::size_t k = 0; k < sums.size(); ++k, to += width) {
        const std::ptrdiff_t at = sums[k].*of_sum;
        for (std::size_t l = 0; l < width; ++l) to[l] = line[l][at];
        for (std::size_t l = 0; l < width; ++l) others[l] += to[l] != 0 ? 1 : 0;
      }
    }
  }
};

/// The terms of a sum, without those at both ends that are zero in all lines of an operand: keys that a mask hides.
std::span<const Offset> terms_of(const double* x, const Offsets& lines, const Offsets& sums,
                                 std::ptrdiff_t Offset::*of_sum) {
  std::size_t first = sums.size(), last = 0;
  for (const Offset& line : lines) {
    const auto is_zero = [&](std::size_t k) { return x[line.first + sums[k].*of_sum] == 0; };
    std::size_t k = 0;
    while (k < first && is_zero(k)) ++k;
    first = k;
    for (k = sums.size(); k > last && is_zero(k - 1);) --k;
    last = k;
  }
  return std::span(sums).subspan(std::min(first, last), last - std::min(first, last));
}

/// A contraction's indices by where they occur, the result's columns in the operand that its last index is of.
struct Loops {
  Offsets both{{}}, right_of_both{{}}, rows{{}}, columns{{}}, sums{{}};
  bool left_has_columns = false;

  explicit Loops(std::span<const Index> indices) {
    for (const Index& i : indices)
      if (i.is_free() && i.result == 1) left_has_columns = i.in_left;
    for (const Index& i : indices)
      if (i.is_summed()) {
        go_along(sums, i.length, i.left, i.right);
      } else if (!i.is_free()) {
        go_along(both, i.length, i.left, i.result), go_along(right_of_both, i.length, i.right, 0);
      } else {
        go_along(i.in_left == left_has_columns ? columns : rows, i.length, i.in_left ? i.left : i.right, i.result);
      }
  }
};

}  // namespace

void add_products(std::span<const Index> indices, const double* left, const double* right, double* out,
                  PerturbedArithmetic& draw) {
  const Loops loops(indices);
  const auto add_block = [&](const Sums& sums, const double* of_rows, const double* of_columns, std::size_t first_row,
                             std::size_t first_column, std::ptrdiff_t to) {
    const std::size_t columns = std::min<std::size_t>(columns_of_panel, loops.columns.size() - first_column);
    std::array<double, columns_of_panel> terms{};
    for (std::size_t r = 0; r < rows_of_block && first_row + r < loops.rows.size(); ++r) {
      for (std::size_t c = 0; c < columns; ++c)
        terms[c] = std::min(of_rows[first_row + r], of_columns[first_column + c]);
      // Neighbours that lie side by side, in one call.
      for (std::size_t c = 0, end = 0; c < columns; c = end) {
        const std::ptrdiff_t at = to + loops.rows[first_row + r].second + loops.columns[first_column + c].second;
        while (end < columns && loops.columns[first_column + end].second - loops.columns[first_column + c].second ==
                                    static_cast<std::ptrdiff_t>(end - c))
          ++end;
        draw.at_element(static_cast<std::uint64_t>(at));
        const std::size_t from = r * columns_of_panel + c;
        draw.add_sums(out + at, sums.sum.data() + from, sums.squares.data() + from, terms.data() + c, end - c);
      }
    }
  };
  for (std::size_t b = 0; b < loops.both.size(); ++b) {
    const double *const l = left + loops.both[b].first, *const r = right + loops.right_of_both[b].first;
    if (loops.rows.size() == 1 && loops.columns.size() == 1) {
      const Packed<1> row(l, loops.rows, loops.sums, &Offset::first),
          column(r, loops.columns, loops.sums, &Offset::second);
      double sum = 0, squares = 0;
      multiply_one(row.numbers.get(), column.numbers.get(), loops.sums.size(), &sum, &squares);
      const double terms = std::min(row.terms[0], column.terms[0]);
      draw.at_element(static_cast<std::uint64_t>(loops.both[b].second));
      draw.add_sums(out + loops.both[b].second, &sum, &squares, &terms, 1);
      continue;
    }
    const auto of_rows = loops.left_has_columns ? &Offset::second : &Offset::first,
               of_columns = loops.left_has_columns ? &Offset::first : &Offset::second;
    const double *const with_rows = loops.left_has_columns ? r : l, *const with_columns =
                                                                        loops.left_has_columns ? l : r;
    const std::span<const Offset> terms = terms_of(with_rows, loops.rows, loops.sums, of_rows);
    const Packed<rows_of_block> rows(with_rows, loops.rows, terms, of_rows);
    const Packed<columns_of_panel> columns(with_columns, loops.columns, terms, of_columns);
    for (std::size_t c = 0; c < loops.columns.size(); c += columns_of_panel)
      for (std::size_t i = 0; i < loops.rows.size(); i += rows_of_block) {
        const auto first = rows.terms.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::all_of(first, first + rows_of_block, [](double n) { return n == 0; })) continue;
        Sums sums;
        multiply(rows.numbers.get() + i * terms.size(), columns.numbers.get() + c * terms.size(), terms.size(), &sums);
        add_block(sums, rows.terms.data(), columns.terms.data(), i, c, loops.both[b].second);
      }
  }
}

}  // namespace assay::language
