#include "tools/print/html_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "files/shown.hpp"
#include "tools/plots/error_plots.hpp"
#include "tools/print/escape.hpp"

namespace assay {
namespace {

// Whatever is wider than the window, 390 pixels or more, is scrolled by itself, and is reached with the keyboard.
constexpr std::string_view style =
    ":root { color-scheme: light dark; }\n"
    "body { font-family: sans-serif; margin: 2em; }\n"
    "h1, h2, p { overflow-wrap: anywhere; }\n"
    ".band { margin: 0; padding: 0.6em; font-size: 1.2em; color: white; }\n"
    ".fail { background: #900; }\n"
    ".pass { background: #050; }\n"
    "@media (max-width: 600px) { body { margin: 0.6em; } h1 { font-size: 1.3em; } }\n"
    ".wide { overflow-x: auto; }\n"
    ".wide:focus-visible, svg:focus-visible { outline: 2px solid; }\n"
    "table { border-collapse: collapse; font-size: 0.85em; }\n"
    "th, td { padding: 0.1em 0.6em; text-align: left; vertical-align: top; }\n"
    "th { border-bottom: 1px solid; }\n"
    ".number { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "td.number { white-space: nowrap; }\n"
    "tr.wrong { background: #fdd; color: black; }\n"
    "@media (prefers-color-scheme: dark) { tr.wrong { background: #5a1a1a; color: white; } }\n"
    "figure { margin: 1em 0; overflow-x: auto; }\n"
    "figure svg { max-width: 100%; height: auto; }\n"
    "figcaption { font-size: 0.85em; max-width: 60em; }\n"
    "pre { margin: 0.3em 0; white-space: pre-wrap; overflow-wrap: anywhere; }\n";

std::string lines_of(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "\n") + xml(line);
  return lines.empty() ? "" : "<pre>" + out + "</pre>\n";
}

std::string cell(std::string_view tag, const Table::Column& column, const std::string& text) {
  return fmt::format("<{}{}>{}</{}>", tag, column.right ? " class=\"number\"" : "", xml(text), tag);
}

/// `remarks` has what follows a line, or nothing, for each.
std::string rows_in_html(const Table& table, const std::vector<std::string>& remarks, const std::vector<bool>& wrong) {
  std::string out = "<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>";
  for (const Table::Column& column : table.columns) out += cell("th", column, column.name);
  out += "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const std::string_view marked = r < wrong.size() && wrong[r] ? " class=\"wrong\"" : "";
    out += fmt::format("<tr{}>", marked);
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      out += cell("td", table.columns[c], c < table.rows[r].size() ? table.rows[r][c] : "");
    out += "</tr>\n";
    if (r < remarks.size() && !remarks[r].empty())
      out +=
          fmt::format("<tr{}><td></td><td colspan=\"{}\">{}</td></tr>\n", marked, table.columns.size() - 1, remarks[r]);
  }
  return out + "</tbody>\n</table></div>\n";
}

std::string drawn(const std::vector<Plot>& plots) {
  std::string out;
  for (const Plot& plot : plots) out += plot.in_page();
  return out;
}

/// One answer's verdict, before all else.
std::string band_of(const Page& page, const std::vector<ReportRow>& rows) {
  const std::string sentence = page.first_wrong.empty() ? verdict_line(rows, page.not_judged) : page.findings.front();
  return fmt::format("<p class=\"band {}\">{}</p>\n", all_pass(rows) ? "pass" : "fail", xml(sentence));
}

/// `band` is what stands before the title.
std::string head_of(const std::string& title, const std::string& band = {}) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{0}</title>\n<style>\n{1}{2}"
      "</style>\n</head>\n<body>\n{3}<h1>{0}</h1>\n",
      xml(title), style, plot_style, band);
}

/// What stands before the tables of one answer: what it looks like, the command, drawings of the tensor that is wrong
/// first.
std::string verdict_of(const Page& page, const std::vector<ReportRow>& rows) {
  std::string out = head_of(page.header.front(), band_of(page, rows));
  out += lines_of(std::vector<std::string>(page.header.begin() + 1, page.header.end()));
  out += fmt::format("<p>{}</p>\n", xml(count_of(rows, page.not_judged)));
  std::vector<std::string> lines = page.findings;
  if (!page.first_wrong.empty()) lines.erase(lines.begin());  // the band has it
  lines.push_back("reproduce: " + typed_here(page.command));
  out += lines_of(lines);
  for (const ReportRow& row : rows)
    if (row.tensor == page.first_wrong) out += drawn(tensor_plots(row));
  return out;
}

}  // namespace

std::string as_html(const Page& page, const std::vector<ReportRow>& rows) {
  std::string out = page.verdict_last ? verdict_of(page, rows) : head_of(page.header.front());
  if (!page.verdict_last) {
    out += lines_of(lines_below_title(page));
    out += fmt::format("<p>{}</p>\n", xml(count_of(rows, page.not_judged))) + lines_of(page.findings);
    if (rows.size() > 1) out += drawn(matrix_plots(rows));
  }
  if (page.summary) out += rows_in_html(summary_of(rows), {}, {});
  if (page.overview) out += rows_in_html(*page.overview, {}, {});
  const std::vector<ReportRow> none;
  for (const KernelTable& kernel : kernel_tables(page.overview ? none : rows, Columns::all_with_precision)) {
    std::vector<std::string> remarks, commands;
    std::vector<bool> wrong;
    for (const ReportRow* row : kernel.rows) {
      remarks.push_back(lines_of(complaints_of({*row}))), wrong.push_back(!passes(row->judgement.verdict));
      const std::string command = "reproduce: " + row->command;
      const bool told = row->command.starts_with(page.command) ||  // the page's own, of one tensor
                        std::find(commands.begin(), commands.end(), command) != commands.end();
      if (!told) commands.push_back(command);
    }
    out +=
        "<h2>" + xml(kernel.title) + "</h2>\n" + rows_in_html(kernel.table, remarks, wrong) + lines_of(kernel.detects);
    for (const ReportRow* row : kernel.rows)
      if (page.first_wrong.empty()) out += drawn(tensor_plots(*row));
    out += lines_of(commands);
  }
  std::vector<std::string> last = page.notes;
  if (!page.verdict_last) last.insert(last.begin(), "reproduce: " + typed_here(page.command));
  out += lines_of(last) + (page.verdict_last ? lines_of(page.legend) : "");
  return out + "</body>\n</html>\n";
}

std::string as_html(const std::string& title, const std::vector<std::string>& header, const std::vector<Plot>& plots,
                    const std::vector<std::pair<std::string, Table>>& tables, const std::vector<std::string>& notes) {
  std::string out = head_of(title) + lines_of(header) + drawn(plots);
  for (const auto& [heading, table] : tables)
    if (!table.rows.empty()) out += "<h2>" + xml(heading) + "</h2>\n" + rows_in_html(table, {}, {});
  return out + lines_of(notes) + "</body>\n</html>\n";
}

}  // namespace assay
