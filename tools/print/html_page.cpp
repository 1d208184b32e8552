#include "tools/print/html_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tools/print/escape.hpp"

namespace assay {
namespace {

constexpr std::string_view style =
    "body { font-family: sans-serif; margin: 2em; }\n"
    "table { border-collapse: collapse; }\n"
    "th, td { padding: 0.1em 0.6em; text-align: left; vertical-align: top; }\n"
    "th { border-bottom: 1px solid; }\n"
    ".number { text-align: right; font-variant-numeric: tabular-nums; }\n"
    ".wrong { background: #fdd; color: black; }\n"
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
std::string html(const Table& table, const std::vector<std::string>& remarks, const std::vector<bool>& wrong) {
  std::string out = "<table>\n<thead><tr>";
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
  return out + "</tbody>\n</table>\n";
}

}  // namespace

std::string as_html(const Page& page, const std::vector<ReportRow>& rows) {
  const std::string title = xml(page.header.front());
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>{}</title>\n<style>\n{}</style>\n"
      "</head>\n<body>\n<h1>{}</h1>\n",
      title, style, title);
  out += lines_of({page.header.begin() + 1, page.header.end()});
  out += fmt::format("<p>{}</p>\n", xml(count_of(rows))) + lines_of(page.findings);
  if (page.summary) out += html(summary_of(rows), {}, {});
  if (page.overview) out += html(*page.overview, {}, {});
  const std::vector<ReportRow> none;
  for (const KernelTable& kernel : kernel_tables(page.overview ? none : rows, true)) {
    std::vector<std::string> remarks, commands;
    std::vector<bool> wrong;
    for (const ReportRow* row : kernel.rows) {
      remarks.push_back(lines_of(complaints_of({*row}))), wrong.push_back(row->judgement.verdict != Verdict::pass);
      const std::string command = "reproduce: " + row->command;
      const bool told = row->command.starts_with(page.command) ||  // the page's own, of one tensor
                        std::find(commands.begin(), commands.end(), command) != commands.end();
      if (!told) commands.push_back(command);
    }
    out += "<h2>" + xml(kernel.title) + "</h2>\n" + html(kernel.table, remarks, wrong) + lines_of(kernel.detects);
    out += lines_of(commands);
  }
  std::vector<std::string> last = {"reproduce: " + page.command};
  last.insert(last.end(), page.notes.begin(), page.notes.end());
  return out + lines_of(last) + "</body>\n</html>\n";
}

}  // namespace assay
