#pragma once
// Tables as people and programs read them.
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/core/error.hpp"

namespace assay {

/// How a verb prints its results.
enum class TableFormat { table, markdown, json, csv };
inline constexpr TableFormat all_table_formats[] = {TableFormat::table, TableFormat::markdown, TableFormat::json,
                                                    TableFormat::csv};
std::string_view name_of(TableFormat format);

/// Rows of cells under named columns; a row may end early.
struct Table {
  struct Column {
    std::string name;
    bool right = false;  ///< numbers: padded on the left
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;

  /// Add columns: of words, and of numbers, which are padded on the left.
  Table& words(std::initializer_list<std::string_view> names);
  Table& numbers(std::initializer_list<std::string_view> names);
  /// Adds a row of these cells, each as text() of reference/core/error.hpp prints it.
  template <class... Cell>
  void add(const Cell&... cells) {
    rows.push_back({assay::text(cells)...});
  }

  /// The escape sequence that a cell's colour begins with; "" of one without.
  using Colour = std::function<std::string_view(std::string_view cell)>;
  /// Columns padded to one width, two spaces between, nothing after the last word of a line. `indent` spaces in front.
  std::string text(int indent = 0, const Colour& colour = {}) const;
  /// The kind of text in the cells of a table in markdown.
  enum class Cells { text, markup };
  /// A GitHub table; of markup, only bars are escaped.
  std::string markdown(Cells kind = Cells::text) const;
  /// RFC 4180 with plain line ends: cells with a comma or a quote are quoted.
  std::string csv() const;
};

/// The rows of each kernel, where those of one lie together.
template <class Row>
std::vector<std::span<const Row>> by_kernel(const std::vector<Row>& rows) {
  std::vector<std::span<const Row>> kernels;
  for (const Row& row : rows)
    if (kernels.empty() || kernels.back()[0].room != row.room || kernels.back()[0].form != row.form)
      kernels.push_back({&row, 1});
    else
      kernels.back() = {kernels.back().data(), kernels.back().size() + 1};
  return kernels;
}

/// The shortest decimal that reads back as `x`; "nan", "inf" and "-inf".
std::string round_trip(double x);

}  // namespace assay
