#include "tools/print/html_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "files/shown.hpp"
#include "tools/plots/error_plots.hpp"
#include "tools/print/escape.hpp"

namespace assay {
namespace {

// Whatever is wider than the window, 390 pixels or more, is scrolled by itself, and is reached with the keyboard;
// verdicts stay where a table is scrolled. A click on a command selects all of it.
constexpr std::string_view style =
    ":root { color-scheme: light dark; }\n"
    "body { font-family: sans-serif; margin: 2rem; }\n"
    "h1, h2, p { overflow-wrap: anywhere; }\n"
    "h1 { font-size: 1.2em; } h2 { font-size: 1em; }\n"
    ".band { margin: -2rem -2rem 1rem; padding: 0.8rem 2rem; font-size: 1.3em; color: white; }\n"
    ".pill { padding: 0.1em 0.7em; border-radius: 1em; font-weight: bold; color: white; }\n"
    ".fail { background: #900; }\n"
    ".pass { background: #050; }\n"
    ".unseen { background: #555; }\n"
    "@media (max-width: 600px) { body { margin: 0.6rem; }\n"
    "  .band { margin: -0.6rem -0.6rem 0.6rem; padding: 0.6rem; font-size: 1.1em; } }\n"
    ".wide { overflow-x: auto; }\n"
    ".wide:focus-visible, svg:focus-visible { outline: 2px solid; }\n"
    "table { border-collapse: collapse; font-size: 0.85em; }\n"
    "th, td { padding: 0.2em 0.6em; text-align: left; vertical-align: top; }\n"
    "th { border-bottom: 1px solid; }\n"
    ".number { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "tr { background: Canvas; } td.number, tr:has(.pill) td { white-space: nowrap; }\n"
    "td:last-child:has(> .pill) { position: sticky; right: 0; background: inherit; }\n"
    "tr.wrong { background: #fdd; color: black; }\n"
    "@media (prefers-color-scheme: dark) { tr.wrong { background: #5a1a1a; color: white; } }\n"
    "figure { margin: 1em 0; overflow-x: auto; }\n"
    "figure > svg { max-width: 100%; }\n"
    "figcaption { font-size: 0.85em; max-width: 60em; }\n"
    "pre { margin: 0.6em 0; white-space: pre-wrap; overflow-wrap: anywhere; }\n"
    "code { display: block; padding: 0.5em 0.7em; border: 1px solid; border-radius: 0.3em; user-select: all; }\n"
    "summary { margin: 0.6em 0; cursor: pointer; }\n";

std::string lines_of(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "\n") + xml(line);
  return lines.empty() ? "" : "<pre>" + out + "</pre>\n";
}

std::string command_of(const Page& page) {
  return fmt::format("<pre>reproduce: <code>{}</code></pre>\n", xml(typed_here(page.command)));
}

/// A verdict on its colour; other words as they are.
std::string pill(const std::string& words) {
  for (const Verdict verdict : all_verdicts)
    if (words == name_of(verdict))
      return fmt::format("<span class=\"pill {}\">{}</span>",
                         verdict == Verdict::pass     ? "pass"
                         : verdict == Verdict::unseen ? "unseen"
                                                      : "fail",
                         words);
  return xml(words);
}

std::string cell(std::string_view tag, const Table::Column& column, const std::string& text) {
  return fmt::format("<{}{}>{}</{}>", tag, column.right ? " class=\"number\"" : "", pill(text), tag);
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

/// The tensor that is wrong first; null where none is.
const ReportRow* first_of(const Page& page, const std::vector<ReportRow>& rows) {
  for (const ReportRow& row : rows)
    if (!page.first_wrong.empty() && row.tensor == page.first_wrong) return &row;
  return nullptr;
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

/// The part before the tables of one answer: the likely cause and why; for the tensor that is wrong first, where, the
/// answer and the expected number, and how far off it may be; the command.
std::string verdict_of(const Page& page, const std::vector<ReportRow>& rows, const ReportRow* first,
                       const std::vector<Plot>& plots) {
  std::string out = head_of(page.header.front(), band_of(page, rows));
  std::vector<std::string> lines = page.findings;
  if (!page.first_wrong.empty()) lines.erase(lines.begin());  // the band has it
  lines.insert(lines.end(), page.notes.begin(), page.notes.end());
  out += lines_of(lines);
  if (!plots.empty()) out += plots.front().in_page();
  if (first != nullptr) out += lines_of(complaints_of({*first}, page.first_wrong));
  out += command_of(page) + lines_of(std::vector<std::string>(page.header.begin() + 1, page.header.end()));
  return out + fmt::format("<p>{}</p>\n", xml(count_of(rows, page.not_judged)));
}

/// A kernel's table, what its rows complain of, and the commands that show single ones. Where one tensor is wrong
/// first, which the page has told by then, what the others complain of is folded.
std::string kernel_in_html(const Page& page, const KernelTable& kernel) {
  std::vector<std::string> remarks, commands, folded;
  std::vector<bool> wrong;
  for (const ReportRow* row : kernel.rows) {
    std::vector<std::string> lines = complaints_of({*row});
    const bool fails = !passes(row->judgement.verdict);
    if (fails && !page.first_wrong.empty()) {
      if (row->tensor != page.first_wrong) folded.insert(folded.end(), lines.begin(), lines.end());
      lines.clear();
    }
    remarks.push_back(lines_of(lines)), wrong.push_back(fails);
    const std::string command = "reproduce: " + row->command;
    const bool told = row->command.starts_with(page.command) ||  // the page's own, of one tensor
                      std::find(commands.begin(), commands.end(), command) != commands.end();
    if (!told) commands.push_back(command);
  }
  std::string out = "<h2>" + xml(kernel.title) + "</h2>\n" + rows_in_html(kernel.table, remarks, wrong);
  if (!folded.empty()) out += "<details><summary>Where the others fail</summary>\n" + lines_of(folded) + "</details>\n";
  out += lines_of(kernel.detects);
  for (const ReportRow* row : kernel.rows)
    if (page.first_wrong.empty()) out += drawn(tensor_plots(*row));
  return out + lines_of(commands);
}

}  // namespace

std::string as_html(const Page& page, const std::vector<ReportRow>& rows) {
  const ReportRow* first = first_of(page, rows);
  const std::vector<Plot> plots = first == nullptr ? std::vector<Plot>() : tensor_plots(*first);
  std::string out = page.verdict_last ? verdict_of(page, rows, first, plots) : head_of(page.header.front());
  if (!page.verdict_last) {
    out += lines_of(lines_below_title(page));
    out += fmt::format("<p>{}</p>\n", xml(count_of(rows, page.not_judged))) + lines_of(page.findings);
    if (rows.size() > 1) out += drawn(matrix_plots(rows));
  }
  if (page.summary) out += rows_in_html(summary_of(rows), {}, {});
  if (page.overview) out += rows_in_html(*page.overview, {}, {});
  const std::vector<ReportRow> none;
  for (const KernelTable& kernel : kernel_tables(page.overview ? none : rows, Columns::all_with_precision))
    out += kernel_in_html(page, kernel);
  for (std::size_t i = 1; i < plots.size(); ++i) out += plots[i].in_page();
  out += page.verdict_last ? lines_of(page.legend) : command_of(page) + lines_of(page.notes);
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
