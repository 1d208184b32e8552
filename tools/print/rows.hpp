#pragma once
// Judged tensors, as `assay report` and `assay check` print them.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/case_file.hpp"
#include "judge/contract/contract.hpp"
#include "judge/court/evidence.hpp"
#include "judge/court/report_row.hpp"
#include "tools/print/table.hpp"

namespace assay {

/// The meaning of a contract and a table's columns, and how often all tensors together raise a false alarm: the lines
/// under a page's first one. Null: the contract of every precision. In short: without columns, and without that one.
std::vector<std::string> legend(const Contract* contract, double false_alarms, bool in_short = false);
/// The meaning of the columns.
std::vector<std::string> column_legend();
/// The meaning of the columns `model` and `contract`: lines for the head of a page.
std::vector<std::string> evidence_legend(Format precision, const std::string& contract, Decides decides,
                                         const std::string& form = {});

/// How rows are printed: for people, for programs, for those that show what a change has broken.
enum class RowsFormat { table, markdown, html, json, csv, junit, sarif, github };
inline constexpr RowsFormat all_rows_formats[] = {RowsFormat::table, RowsFormat::markdown, RowsFormat::html,
                                                  RowsFormat::json,  RowsFormat::csv,      RowsFormat::junit,
                                                  RowsFormat::sarif, RowsFormat::github};
std::string_view name_of(RowsFormat format);
inline constexpr std::string_view rows_formats_help =
    "table, markdown or html for people, json or csv for programs, junit, sarif or github for CI";
/// The format called `name`, as name_of spells it; nothing for any other word.
std::optional<RowsFormat> rows_format_from(std::string_view name);

/// "deltanet chunkwise", the device if it is another one than the CPU executor, and the case if there are several.
std::string kernel_of(const ReportRow& row);
/// "model 0.23, contract 0.20": the excess by both kinds of evidence; "" where only one was asked.
std::string evidence_of(const ReportRow& row);
/// "212 tensors: 210 PASS, 2 FAIL"
std::string count_of(const std::vector<ReportRow>& rows, const std::vector<std::string>& not_judged = {});
/// "PASS  4 tensors by the model, the largest error 0.31 of 2 (d_q); nothing to see in d_bandwidth", or the verdict and
/// the tensors that it is of.
std::string verdict_line(const std::vector<ReportRow>& rows, const std::vector<std::string>& not_judged);
/// "o[0][12][1][4]": the element at that place of the tensor, counted through.
std::string location(const ReportRow& row, std::size_t flat);
/// Which faults the row would have shown, in words; "" of a kernel that no form stands for: masks and sites are a
/// form's.
std::string detected_by(const ReportRow& row);
/// Tensors that did not pass, why, where, and how to see it again; those that pass but hide some faults. Lines.
/// In short: of tensors that fail only `first`, without a command, where it is named.
std::vector<std::string> complaints_of(const std::vector<ReportRow>& rows,
                                       const std::optional<std::string>& first = std::nullopt);

/// The table of the tensors of one kernel, for people.
struct KernelTable {
  std::string title;
  std::vector<const ReportRow*> rows;
  Table table;                       ///< a line for each of them, the verdict last
  std::vector<std::string> detects;  ///< what each precision would have shown, and what it would not
};
/// Which columns: all, a precision being named where it changes or in every line; or of one precision those that fit
/// text_width, or those that the verdict hangs on.
enum class Columns { all, all_with_precision, narrow, few };
/// They refer to `rows`.
std::vector<KernelTable> kernel_tables(const std::vector<ReportRow>& rows, Columns columns);
/// A line for each kernel, a column for each precision.
Table summary_of(const std::vector<ReportRow>& rows);

/// The page around rows.
struct Page {
  std::string verb;                                 ///< that made them
  std::vector<std::string> header;                  ///< lines in front of the tables; the first one is the title
  std::vector<std::string> legend = {};             ///< lines behind them that say what the columns mean
  std::vector<std::pair<std::string, Json>> facts;  ///< that JSON tells besides
  bool summary = true;                              ///< a line for each kernel after the tables
  bool matrix = false;                              ///< text has the verdicts of all kernels in front of the tables
  bool brief = false;                               ///< text has only rows that are not PASS, and no summary
  bool colours = false;                             ///< text is for a terminal that shows verdicts in colours
  bool terminal = false;                            ///< text is for a terminal: of many causes it has the first
  std::string first_wrong = {};                     ///< the tensor that is wrong first
  std::string cause = {}, mend = {};                ///< of what is wrong first, if it has a name; both are in findings
  bool verdict_last = false;                        ///< text ends with what is wrong first, its cause and the command
  bool is_drawn = false;                            ///< the command names what chance chose
  bool long_rows = true;     ///< text has more columns, and of every tensor that fails where, and a command
  bool shows_legend = true;  ///< text has the legend
  /// Where people read it in place of the kernels' tables and of what rows complain of, which findings then tell.
  std::optional<Table> overview = {};
  std::string command = {};                  ///< makes the page again
  std::string artifact = {};                 ///< the file that JUnit, SARIF and annotations point at, if any
  std::vector<std::string> findings = {};    ///< lines in front of the complaints, where prints_notes
  std::vector<std::string> notes = {};       ///< lines at the end, where prints_notes
  std::vector<std::string> not_judged = {};  ///< tensors beside those of the rows
};

/// Header and legend without the title.
std::vector<std::string> lines_below_title(const Page& page);
/// Whether a page's notes are part of what is printed.
constexpr bool prints_notes(RowsFormat format) {
  return format == RowsFormat::table || format == RowsFormat::markdown || format == RowsFormat::html;
}

}  // namespace assay
