#include "language/evaluate/products.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "reference/core/per_machine.hpp"

namespace assay::language {
namespace {

/// Where the numbers of some indices are, in both operands and the result.
struct Offset {
  std::ptrdiff_t left = 0, right = 0, result = 0;
};
using Offsets = std::vector<Offset>;
using Operand = std::ptrdiff_t Offset::*;

/// Those of all values of another index beside the ones that are there.
void go_along(Offsets& list, const Index& i) {
  Offsets all;
  all.reserve(list.size() * static_cast<std::size_t>(i.length));
  for (const Offset& at : list)
    for (int n = 0; n < i.length; ++n)
      all.push_back({at.left + i.left * n, at.right + i.right * n, at.result + i.result * n});
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

/// Lines of an operand side by side, `width` of them, behind each other: number k of each, then number k + 1.
template <std::size_t width>
struct Packed {
  std::unique_ptr<double[]> numbers;  // NOLINT(modernize-avoid-c-arrays): not zeros first
  std::vector<double> terms;          ///< how many numbers of a line are not zero

  Packed(const double* x, Operand operand, const Offsets& lines, std::span<const Offset> sums)
      : terms((lines.size() + width - 1) / width * width, 0.0) {
    numbers = std::make_unique_for_overwrite<double[]>(terms.size() * sums.size());  // NOLINT(modernize-avoid-c-arrays)
    double* to = numbers.get();
    for (std::size_t first = 0; first < lines.size(); first += width) {
      std::array<const double*, width> line;
      for (std::size_t l = 0; l < width; ++l) line[l] = x + lines[std::min(first + l, lines.size() - 1)].*operand;
      double* const others = terms.data() + first;
      for (std::size_t k = 0; k < sums.size(); ++k, to += width) {
        const std::ptrdiff_t at = sums[k].*operand;
        for (std::size_t l = 0; l < width; ++l) to[l] = line[l][at];
        for (std::size_t l = 0; l < width; ++l) others[l] += to[l] != 0 ? 1 : 0;
      }
    }
  }
};

/// The terms of a sum, without those at both ends that are zero in all lines of an operand: keys that a mask hides.
std::span<const Offset> terms_of(const double* x, Operand operand, const Offsets& lines, const Offsets& sums) {
  std::size_t first = sums.size(), last = 0;
  for (const Offset& line : lines) {
    const auto is_zero = [&](std::size_t k) { return x[line.*operand + sums[k].*operand] == 0; };
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
  Offsets both{{}}, rows{{}}, columns{{}}, sums{{}};
  Operand of_rows = &Offset::left, of_columns = &Offset::right;

  explicit Loops(std::span<const Index> indices) {
    for (const Index& i : indices)
      if (i.is_free() && i.result == 1) {
        of_rows = i.in_left ? &Offset::right : &Offset::left;
        of_columns = i.in_left ? &Offset::left : &Offset::right;
      }
    for (const Index& i : indices)
      go_along(i.is_summed()                                ? sums
               : !i.is_free()                               ? both
               : i.in_left == (of_columns == &Offset::left) ? columns
                                                            : rows,
               i);
  }
};

/// Adds the sums of a block, row by row, where the result has them.
class Result {
 public:
  Result(const Loops& loops, double* out, PerturbedArithmetic& draw) : loops_(loops), out_(out), draw_(draw) {}

  void add(std::ptrdiff_t at, double sum, double squares, double terms) { add(at, &sum, &squares, &terms, 1); }
  void add_block(const Sums& sums, const double* of_rows, const double* of_columns, std::size_t first_row,
                 std::size_t first_column, std::ptrdiff_t to) {
    const Offset* const column = loops_.columns.data() + first_column;
    const std::size_t columns = std::min<std::size_t>(columns_of_panel, loops_.columns.size() - first_column);
    std::array<double, columns_of_panel> terms{};
    for (std::size_t r = 0; r < rows_of_block && first_row + r < loops_.rows.size(); ++r) {
      for (std::size_t c = 0; c < columns; ++c)
        terms[c] = std::min(of_rows[first_row + r], of_columns[first_column + c]);
      // Neighbours that lie side by side, in one call.
      for (std::size_t c = 0, end = 0; c < columns; c = end) {
        while (end < columns && column[end].result - column[c].result == static_cast<std::ptrdiff_t>(end - c)) ++end;
        const std::size_t from = r * columns_of_panel + c;
        add(to + loops_.rows[first_row + r].result + column[c].result, sums.sum.data() + from,
            sums.squares.data() + from, terms.data() + c, end - c);
      }
    }
  }

 private:
  void add(std::ptrdiff_t at, const double* sums, const double* squares, const double* terms, std::size_t n) {
    draw_.at_element(static_cast<std::uint64_t>(at));
    draw_.add_sums(out_ + at, sums, squares, terms, n);
  }

  const Loops& loops_;
  double* out_;
  PerturbedArithmetic& draw_;
};

}  // namespace

void add_products(std::span<const Index> indices, const double* left, const double* right, double* out,
                  PerturbedArithmetic& draw) {
  const Loops loops(indices);
  Result result(loops, out, draw);
  const auto from = [&](Operand operand) { return operand == &Offset::left ? left : right; };
  for (const Offset& at : loops.both) {
    const double *const with_rows = from(loops.of_rows) + at.*loops.of_rows, *const with_columns =
                                                                                 from(loops.of_columns) +
                                                                                 at.*loops.of_columns;
    if (loops.rows.size() == 1 && loops.columns.size() == 1) {
      const Packed<1> row(with_rows, loops.of_rows, loops.rows, loops.sums),
          column(with_columns, loops.of_columns, loops.columns, loops.sums);
      const Moments m = moments_of(row.numbers.get(), column.numbers.get(), static_cast<int>(loops.sums.size()));
      result.add(at.result, m.sum, m.squares, std::min(row.terms[0], column.terms[0]));
      continue;
    }
    const std::span<const Offset> terms = terms_of(with_rows, loops.of_rows, loops.rows, loops.sums);
    const Packed<rows_of_block> rows(with_rows, loops.of_rows, loops.rows, terms);
    const Packed<columns_of_panel> columns(with_columns, loops.of_columns, loops.columns, terms);
    for (std::size_t c = 0; c < loops.columns.size(); c += columns_of_panel)
      for (std::size_t i = 0; i < loops.rows.size(); i += rows_of_block) {
        const auto first = rows.terms.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::all_of(first, first + rows_of_block, [](double n) { return n == 0; })) continue;
        Sums sums;
        multiply(rows.numbers.get() + i * terms.size(), columns.numbers.get() + c * terms.size(), terms.size(), &sums);
        result.add_block(sums, rows.terms.data(), columns.terms.data(), i, c, at.result);
      }
  }
}

}  // namespace assay::language
