#include "tools/print/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/print/colours.hpp"
#include "tools/print/escape.hpp"

namespace assay {
namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// How many characters a terminal shows: UTF-8 continuation bytes take no place.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::vector<std::string> heads_of(const Table& table) {
  std::vector<std::string> heads;
  for (const Table::Column& column : table.columns) heads.push_back(column.name);
  return heads;
}

}  // namespace

std::string_view name_of(TableFormat format) {
  constexpr std::string_view names[] = {"table", "markdown", "json", "csv"};
  return names[static_cast<int>(format)];
}

Table& Table::words(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) columns.push_back({std::string(name), false});
  return *this;
}

Table& Table::numbers(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) columns.push_back({std::string(name), true});
  return *this;
}

std::string Table::text(int indent, const Colour& colour) const {
  std::vector<std::size_t> width;
  for (const Column& column : columns) width.push_back(width_of(column.name));
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], width_of(plain_text(row[c])));
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string built(static_cast<std::size_t>(indent), ' ');
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string cell = plain_text(cells[c]), pad(width[c] - width_of(cell), ' ');
      const std::string shown = coloured(cell, colour ? colour(cell) : "");
      built += (c > 0 ? "  " : "") + (columns[c].right ? pad + shown : shown + pad);
    }
    built.erase(built.find_last_not_of(' ') + 1);
    out += built + '\n';
  };
  line(heads_of(*this));
  for (const auto& row : rows) line(row);
  return out;
}

std::string Table::markdown(Cells kind) const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    out += '|';
    for (std::size_t c = 0; c < columns.size(); ++c)
      out += ' ' +
             (c >= cells.size()       ? ""
              : kind == Cells::markup ? replaced(cells[c], "|", "\\|")
                                      : markdown_text(cells[c])) +
             " |";
    out += '\n';
  };
  line(heads_of(*this));
  out += '|';
  for (const Column& column : columns) out += column.right ? " ---: |" : " --- |";
  out += '\n';
  for (const auto& row : rows) line(row);
  return out;
}

std::string Table::csv() const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::string cell = c < cells.size() ? plain_text(cells[c]) : "";
      const bool quote = cell.find_first_of(",\"") != std::string::npos;
      out += (c > 0 ? "," : "") + (quote ? '"' + replaced(cell, "\"", "\"\"") + '"' : cell);
    }
    out += '\n';
  };
  line(heads_of(*this));
  for (const auto& row : rows) line(row);
  return out;
}

std::string round_trip(double x) { return fmt::format("{}", x); }

}  // namespace assay
