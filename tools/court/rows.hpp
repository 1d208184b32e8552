#pragma once
// Judged tensors, as `assay report` and `assay check` make and print them.
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/case_file.hpp"
#include "judge/sigma/expected.hpp"
#include "judge/verdict/detectability.hpp"
#include "judge/verdict/judge.hpp"
#include "tools/print/table.hpp"

namespace assay {

/// The device of rows whose kernels ran on the CPU executor.
inline constexpr std::string_view cpu_executor = "cpu";

/// What one kind of evidence says of a tensor.
struct Weighed {
  Verdict verdict = Verdict::error;
  /// Its error, in units of what that evidence allows: of a contract its limits; of the model what the precision's
  /// roundings do in the recurrence itself, which a healthy kernel exceeds up to model_factor() times.
  double excess = 0;
  std::string reason = {};  ///< of what is no PASS
};

/// One tensor of one kernel, or, where there is none to judge, why not.
struct ReportRow {
  std::string device{cpu_executor};  ///< that the kernel ran on; "" where nobody said
  std::string mechanism, form;
  std::string of_case;  ///< "case 3", where rows of several cases are together; else ""
  std::string tile;     ///< or tiles, "64, 32, 16"
  std::string fits;     ///< of several tiles, whose limits count
  std::string precision, contract, ulp_format, tensor, shape;
  std::vector<int> extents;
  int draws = 0;          ///< runs that sigma was learnt from
  double stall = 0;       ///< Expected::stall
  std::string judged_by;  ///< the form that it was learnt from, if it is another one
  Judgement judgement;
  std::string evidence;  ///< what the verdict rests on: "model", "contract fla"; "" where only one was asked
  std::optional<Weighed> by_model, by_contract;  ///< where both were asked
  std::string command;                           ///< makes this row, and those of the same kernel and precision, again
  std::optional<Detectability> detects;    ///< what the problem would have shown in this kernel and precision, if asked
  std::string where;                       ///< of a FAIL: the heads, tokens and dimensions that are wrong
  std::string why;                         ///< which roundings make the error, if that was asked for
  std::string stored, stored_by_contract;  ///< the answer's dtype, where it is narrower than the contract's, and that
  std::shared_ptr<const Expected> expected;       ///< of an answer that was given: what it was judged by
  std::function<std::string(std::size_t)> place;  ///< index of an element; where null, that in `extents`

  bool judged() const;
};

/// Of two verdicts the one that says more about a kernel.
Verdict worse_of(Verdict a, Verdict b);

/// Whether there are rows and all of them are PASS.
bool all_pass(const std::vector<ReportRow>& rows);

class Cache;

/// Told what is being done, how much of it is done, and of how much; a total of 0 is not known. From any thread.
using Phase = std::function<void(std::string_view what, std::size_t done, std::size_t total)>;

/// What is judged, and against what.
struct Trial {
  const Room& room;
  const KernelUnderTest& kernel;  ///< whose contract counts
  const Problem& problem;
  const Oracle& oracle;
  int batch = 1;                           ///< sequences that the problem's heads are of
  bool in_file = false;                    ///< elements are named by their indices in a file, [b][t][h][d]
  double false_alarms = false_alarm_rate;  ///< the kernel's share of what all that is judged together may raise
  std::vector<int> tiles = {};  ///< shapes that an answer may come from, each tensor from any; none: `kernel`'s
  bool detects = false;         ///< whether rows say what the problem could have shown
  std::map<std::string, Format> stored = {};  ///< dtypes of the answer's tensors, as far as they are known
  bool strict_dtypes = false;                 ///< whether one that is narrower than the contract's fails
  const KernelForm* second = nullptr;         ///< another form that an answer may come from, each tensor from either
  /// Whether a glance is enough: the first of the shapes and fewer draws, whose limits are wider.
  bool glance = false;
  Phase phase = {};         ///< hears what is being done
  Cache* cache = nullptr;   ///< where what is learnt is kept, or null
  std::string digest = {};  ///< of `problem`, if there is a cache
};

/// One row for each tensor of the oracle that `wanted` holds (all of them if it is null); `row` says what they have in
/// common, and its form if it is not the contract's. Judges `got`, or the kernel's own emulation if there is none.
/// Throws std::runtime_error if `got` lacks a tensor or has it in another shape.
std::vector<ReportRow> judge_rows(const Trial& trial, ReportRow row, const std::optional<Answer>& got,
                                  const std::function<bool(const std::string&)>& wanted = {});

/// What a contract and the columns of a table mean, and how often all tensors together raise a false alarm: the lines
/// under a page's first one. Null: the contract of every precision. In short: without columns, and without that one.
std::vector<std::string> legend(const Contract* contract, double false_alarms, bool in_short = false);
/// What the columns mean.
std::vector<std::string> column_legend();

/// How often a kernel is run at a glance.
inline constexpr int draws_at_a_glance = 4;

/// The name of a row's contract.
const std::string& contract_of(const ReportRow& row);

/// How rows are printed: for people, for programs, for those that show what a change has broken.
enum class RowsFormat { table, markdown, html, json, csv, junit, sarif, github };
inline constexpr RowsFormat all_rows_formats[] = {RowsFormat::table, RowsFormat::markdown, RowsFormat::html,
                                                  RowsFormat::json,  RowsFormat::csv,      RowsFormat::junit,
                                                  RowsFormat::sarif, RowsFormat::github};
std::string_view name_of(RowsFormat format);
/// What --help says of all of them.
inline constexpr std::string_view rows_formats_help =
    "table, markdown or html for people, json or csv for programs, junit, sarif or github for CI";
/// The format called `name`, as name_of spells it; nothing for any other word.
std::optional<RowsFormat> rows_format_from(std::string_view name);

/// What names an element of that tensor by its index in a file.
std::function<std::string(std::size_t)> place_in_file_of(const Room& room, const std::string& tensor,
                                                         const std::vector<int>& shape, int batch);

/// "deltanet chunkwise", the device if it is another one than the CPU executor, and the case if there are several.
std::string kernel_of(const ReportRow& row);
/// "212 tensors: 210 PASS, 2 FAIL"
std::string count_of(const std::vector<ReportRow>& rows);
/// What did not pass, why, where, and how to see it again; what passed but could not have shown everything. Lines.
std::vector<std::string> complaints_of(const std::vector<ReportRow>& rows);
/// "last_row_stale, last_row_zero"
std::string listed(const std::vector<std::string_view>& names);

/// What people read of the tensors of one kernel.
struct KernelTable {
  std::string title;
  std::vector<const ReportRow*> rows;
  Table table;                       ///< a line for each of them, the verdict last
  std::vector<std::string> detects;  ///< what each precision would have shown, and what it would not
};
/// A precision is named where it changes, or in every line. They refer to `rows`.
std::vector<KernelTable> kernel_tables(const std::vector<ReportRow>& rows, bool repeat_precision);
/// A line for each kernel, a column for each precision.
Table summary_of(const std::vector<ReportRow>& rows);

/// What is printed around rows.
struct Page {
  std::string verb;                                 ///< that made them
  std::vector<std::string> header;                  ///< lines in front of the tables; the first one is the title
  std::vector<std::pair<std::string, Json>> facts;  ///< that JSON tells besides
  bool summary = true;                              ///< a line for each kernel after the tables
  bool matrix = false;                              ///< text has the verdicts of all kernels in front of the tables
  bool brief = false;                               ///< text has only rows that are not PASS, and no summary
  bool colours = false;                             ///< text is for a terminal that shows verdicts in colours
  /// Where people read it in place of the kernels' tables and of what rows complain of, which findings then tell.
  std::optional<Table> overview = {};
  std::string command = {};                ///< makes the page again
  std::string artifact = {};               ///< the file that is judged, if it is one
  std::vector<std::string> findings = {};  ///< lines in front of the complaints, where prints_notes
  std::vector<std::string> notes = {};     ///< lines at the end, where prints_notes
};

/// Whether a page's notes are part of what is printed.
constexpr bool prints_notes(RowsFormat format) {
  return format == RowsFormat::table || format == RowsFormat::markdown || format == RowsFormat::html;
}

/// The page as text, with a line end. Numbers for people are rounded to three digits, those for programs are exact.
std::string print(const Page& page, const std::vector<ReportRow>& rows, RowsFormat format);

}  // namespace assay
