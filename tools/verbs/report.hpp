#pragma once
// The main report: every mechanism, form and precision on seeded inputs, against the oracle.
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "judge/contract/contract.hpp"
#include "reference/core/format.hpp"
#include "reference/core/inputs.hpp"
#include "tools/print/rows.hpp"
#include "tools/run/device.hpp"

namespace assay {

/// Where kernels run: on the CPU executor and, where there is one, on the device; or on one of them alone.
enum class RunsOn { every, cpu, gpu };
inline constexpr RunsOn all_runs_on[] = {RunsOn::every, RunsOn::cpu, RunsOn::gpu};
/// "auto", "cpu" or "gpu".
std::string_view name_of(RunsOn where);

/// The options of a report; an empty list means all.
struct ReportOptions {
  std::vector<std::string> mechanisms;
  std::string form;  ///< names with commas or spaces between, or of a program the file of its form
  std::string tile;  ///< "" is every form's default, another leaves out the forms that have none such
  std::vector<Format> precisions;
  std::optional<Contract> contract;  ///< all kernels keep and are judged by, in place of precisions
  RunsOn device = RunsOn::every;
  std::string shape;                       ///< as shape_from reads it; "": every form's own default
  CaseSpec inputs = {};                    ///< what all cases have in common: no mechanism, shape or precision
  int threads = 0;                         ///< 0: all cores; the results do not depend on it
  bool why = false;                        ///< which roundings make the errors
  double false_alarms = false_alarm_rate;  ///< probability that correct kernels fail in any tensor of the report
  int part = 1, parts = 1;                 ///< of every so many kernels and precisions this share, from 1 on
  bool detects = false;                    ///< whether rows say what their problem could have shown

  /// The command that makes this report again.
  std::string command() const;
};

struct Report {
  ReportOptions options;
  std::string device_versions;  ///< "" without a device
  std::vector<ReportRow> rows;
  std::vector<std::size_t> places = {};  ///< of a share: which of all kernels and precisions each row is of

  bool passed() const;
};

/// Runs and judges what `options` ask for. `done` is called after each kernel and precision, from one thread at a time,
/// with how many there are. `device`, if not null, runs kernels as well; where `options` do not name it, what it cannot
/// run is left out. Throws InputError on names and shapes that do not exist, and on a device that is asked for and
/// null.
Report make_report(const ReportOptions& options, const std::function<void(std::size_t total, std::string_view)>& done,
                   const Device* device = gpu());

/// The report as text, with a line end. Numbers for people are rounded to three digits, those for programs are exact.
/// `rows` and `colours` are about the format `table`: a row for every tensor, not only for what is not PASS; verdicts
/// as a terminal shows them.
std::string print(const Report& report, RowsFormat format, bool rows = false, bool colours = false);

}  // namespace assay
