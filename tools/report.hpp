#pragma once
// The main report: every mechanism, form and precision on seeded inputs, against the oracle.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/core/judge.hpp"
#include "reference/core/format.hpp"
#include "reference/core/inputs.hpp"
#include "tools/table.hpp"

namespace assay {

/// What is asked for; an empty list means all.
struct ReportOptions {
  std::vector<std::string> mechanisms;
  std::string form;
  std::vector<Format> precisions;
  std::string shape;  ///< as shape_from reads it; "": every form's own default
  Style style = Style::normal;
  std::uint64_t seed = 0;
  Params params;    ///< settings of the mechanism, as under `params` in a case
  int threads = 0;  ///< 0: all cores; the results do not depend on it

  /// The command that makes this report again.
  std::string command() const;
};

/// One tensor of one kernel, or, where there is none to judge, why not.
struct ReportRow {
  std::string mechanism, form, tile, precision, ulp_format, tensor, shape;
  std::vector<int> extents;
  int draws = 0;  ///< runs that sigma was learnt from
  Judgement judgement;
  std::string command;  ///< makes this row, and those of the same kernel and precision, again

  bool judged() const;
};

struct Report {
  ReportOptions options;
  std::vector<ReportRow> rows;

  bool passed() const;
};

/// Runs and judges what `options` ask for. `done` is called after each kernel and precision, from one thread at a time,
/// with how many there are. Throws InputError on names and shapes that do not exist.
Report make_report(const ReportOptions& options, const std::function<void(std::size_t total, std::string_view)>& done);

/// The report as text, with a line end. Numbers for people are rounded to three digits, those for programs are exact.
std::string print(const Report& report, TableFormat format);

}  // namespace assay
