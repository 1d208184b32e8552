#include "tools/print/rows_page.hpp"

#include <fmt/format.h>

#include "files/in_words.hpp"
#include "files/names.hpp"
#include "files/shown.hpp"
#include "tools/print/ci_formats.hpp"
#include "tools/print/colours.hpp"
#include "tools/print/escape.hpp"
#include "tools/print/html_page.hpp"
#include "tools/print/matrix.hpp"

namespace assay {
namespace {

using Rows = std::vector<ReportRow>;

/// The rows whose kernels have tables of their own, and complaints.
const Rows& told_one_by_one(const Page& page, const Rows& rows) {
  static const Rows none;
  return page.overview ? none : rows;
}

/// Lines, of which the verdict that one begins with is coloured in a terminal.
std::string in_colours(const Page& page, const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) {
    const std::string words = plain_text(line), verdict = words.substr(0, words.find(' '));
    out += (page.colours ? coloured(verdict, colour_of(verdict)) : verdict) + words.substr(verdict.size()) + '\n';
  }
  return out;
}

std::string as_text(const Page& page, const Rows& rows) {
  Rows shown = told_one_by_one(page, rows);
  if (page.brief) std::erase_if(shown, [](const ReportRow& row) { return passes(row.judgement.verdict); });
  const Table::Colour colour = page.colours ? colour_of : Table::Colour();
  std::string out = text_of_lines(wrapped(page.header, 10)) + text_of_lines(wrapped(page.legend, 10));
  if (page.matrix)
    for (const Table& table : verdict_matrix(rows)) out += '\n' + table.text(0, colour);
  if (page.brief && !shown.empty()) out += '\n' + fmt::format("{}\n", fmt::join(column_legend(), "\n"));
  if (page.overview) out += '\n' + page.overview->text(0, colour);
  for (const KernelTable& kernel : kernel_tables(shown, Columns::all)) {
    out += '\n' + text_of_lines(wrapped({kernel.title})) + kernel.table.text(2, colour);
    if (page.brief) continue;  // what would have shown matters where nothing did
    for (const std::string& line : kernel.detects) out += text_of_lines(wrapped({"  " + line}));
  }
  if (page.summary && !page.brief) out += '\n' + summary_of(rows).text(0, colour);
  out += '\n' + text_of_lines(wrapped(page.findings)) + in_colours(page, wrapped(complaints_of(shown)));
  out += text_of_lines(wrapped({count_of(rows, page.not_judged)}));
  return out + "reproduce: " + plain_text(typed_here(page.command)) + '\n' + text_of_lines(wrapped(page.notes));
}

std::string in_one_line(const std::string& line) {
  return line.size() <= text_width ? line : line.substr(0, line.rfind(' ', text_width - 4)) + " ...";
}

/// The lines on the first fault and its likely cause. In a terminal they are the last but the command, a line each,
/// behind what mends it; of several causes the first.
std::vector<std::string> findings_of(const Page& page) {
  if (!page.terminal || page.long_rows || page.cause.empty()) return page.findings;
  std::string mend = "mend: " + page.mend;
  if (const std::size_t left = page.findings.size() - 2)
    mend += fmt::format(" ({} more with --rows)", counted(left, "line"));
  return {mend, in_one_line(plain_text(page.findings.front())), in_one_line(plain_text(page.cause))};
}

constexpr const char* short_columns =
    "columns   error: rel.error; allowed: the rel.error at which these errors, scaled, are at a limit;\n"
    "          times: how many times the error is the allowed one\n";

/// One answer's verdict, at the end: of what is right a line, with what the case would have shown and what not; of what
/// is wrong a table, where and how far it is wrong first, and the command.
std::string as_verdict(const Page& page, const Rows& rows) {
  const bool passed = all_pass(rows);
  std::string out = text_of_lines(wrapped(page.header)), seen;
  if (page.shows_legend) out += text_of_lines(wrapped(page.legend, 10));
  if (page.shows_legend && !page.long_rows) out += short_columns;
  for (const KernelTable& kernel : kernel_tables(rows, page.long_rows ? Columns::narrow : Columns::few)) {
    const std::string table = kernel.table.text(2, page.colours ? colour_of : Table::Colour());
    if (page.long_rows || !passed) out += '\n' + text_of_lines(wrapped({kernel.title})) + table + '\n';
    if (passed || page.long_rows) seen += text_of_lines(wrapped(kernel.detects));
  }
  const auto told = [&](const std::vector<std::string>& lines) { out += in_colours(page, wrapped(lines)); };
  told(page.long_rows ? complaints_of(rows) : complaints_of(rows, page.first_wrong));
  out += text_of_lines(wrapped(page.notes));
  if (page.first_wrong.empty()) told({verdict_line(rows, page.not_judged)});
  told(findings_of(page));
  const bool is_known = passed && !page.long_rows && !page.is_drawn;
  return out + seen + (is_known ? "" : "reproduce: " + plain_text(typed_here(page.command)) + '\n');
}

std::string as_markdown(const Page& page, const Rows& rows) {
  std::string out = "# " + markdown_text(page.header.front()) + "\n\n" + markdown_block(lines_below_title(page));
  if (page.summary) out += '\n' + summary_of(rows).markdown();
  if (page.overview) out += '\n' + page.overview->markdown();
  for (const KernelTable& kernel : kernel_tables(told_one_by_one(page, rows), Columns::all_with_precision)) {
    out += "\n## " + markdown_text(kernel.title) + "\n\n" + kernel.table.markdown() + '\n';
    for (const std::string& line : kernel.detects) out += "- " + markdown_text(line) + '\n';
  }
  out += '\n' + count_of(rows, page.not_judged) + '\n';
  std::vector<std::string> lines = page.findings;
  for (const std::string& line : complaints_of(told_one_by_one(page, rows))) lines.push_back(line);
  if (!lines.empty()) out += '\n' + markdown_block(lines);
  out += "\nReproduce: " + markdown_code(typed_here(page.command)) + "\n";
  return out + (page.notes.empty() ? "" : '\n' + markdown_block(page.notes));
}

/// Everything that is known of a row, in the order of the columns of CSV and the keys of JSON.
Json record_of(const ReportRow& row) {
  const Judgement& j = row.judgement;
  Json record = {{"device", row.device}, {"mechanism", row.mechanism}, {"form", row.form},
                 {"tile", row.tile},     {"precision", row.precision}, {"contract", contract_of(row)},
                 {"shape", row.shape},   {"tensor", row.tensor},       {"verdict", name_of(j.verdict)},
                 {"reason", j.reason},   {"where", row.where},         {"why", row.why}};
  const auto set = [&](const char* key, auto value) {
    if (row.judged())
      record[key] = value;
    else
      record[key] = nullptr;
  };
  set("ulp_format", row.ulp_format);
  set("relative_error", j.relative_error), set("max_error", j.max_error);
  set("max_error_at", location(row, j.max_error_at));
  set("worst_ulps", j.worst_ulps), set("worst_ulps_at", location(row, j.worst_ulps_at));
  set("rms_z", j.rms_z), set("rms_limit", j.rms_limit);
  set("worst_z", j.worst_z), set("worst_z_at", location(row, j.worst_z_at));
  set("draws", row.draws), set("stall", row.stall), set("judged_by", row.judged_by), set("fits", row.fits),
      set("smallest_gain", j.smallest_gain);
  set("detects", detected_by(row));
  set("cannot_see", row.detects ? names_in(row.detects->unseen) : "");
  set("bound_over_sigma", j.bound_over_sigma);
  set("evidence", row.evidence);
  for (const auto& [key, weighed] : {std::pair{"model", &row.by_model}, {"contract", &row.by_contract}}) {
    const std::string name = key;
    record[name + "_verdict"] = *weighed ? name_of((*weighed)->verdict) : "";
    record[name + "_excess"] = *weighed ? Json((*weighed)->excess) : Json("");
    record[name + "_reason"] = *weighed ? (*weighed)->reason : "";
  }
  record["rounded_at"] = row.rounded_at;
  set("blind_spots", names_in(j.blind_spots));
  record["command"] = row.command;
  if (!row.of_case.empty()) record["case"] = row.of_case;
  return record;
}

std::string as_json(const Page& page, const Rows& rows) {
  Json records = Json::array();
  for (const ReportRow& row : rows) records.push_back(record_of(row));
  Json all = {{"format", "assay-" + page.verb}, {"version", 1}};
  for (const auto& [key, value] : page.facts) all[key] = value;
  all["passed"] = all_pass(rows), all["command"] = page.command, all["rows"] = std::move(records);
  return json_page(all);
}

std::string as_csv(const Rows& rows) {
  Table table;
  for (const ReportRow& row : rows) {
    const Json record = record_of(row);
    std::vector<std::string> cells;
    for (const auto& [key, value] : record.items()) {
      if (table.rows.empty()) table.columns.push_back({key, false});
      cells.push_back(value.is_null()     ? ""
                      : value.is_number() ? round_trip(value.get<double>())
                                          : value.get<std::string>());
    }
    table.rows.push_back(std::move(cells));
  }
  return table.csv();
}

}  // namespace

std::vector<std::string> lines_below_title(const Page& page) {
  std::vector<std::string> lines(page.header.begin() + 1, page.header.end());
  lines.insert(lines.end(), page.legend.begin(), page.legend.end());
  return lines;
}

std::string print(const Page& page, const std::vector<ReportRow>& rows, RowsFormat format) {
  if (format == RowsFormat::table) return page.verdict_last ? as_verdict(page, rows) : as_text(page, rows);
  if (format == RowsFormat::markdown) return as_markdown(page, rows);
  if (format == RowsFormat::html) return as_html(page, rows);
  if (format == RowsFormat::json) return as_json(page, rows);
  if (format == RowsFormat::junit) return as_junit(page, rows);
  if (format == RowsFormat::sarif) return as_sarif(page, rows);
  return format == RowsFormat::github ? as_github(page, rows) : as_csv(rows);
}

}  // namespace assay
