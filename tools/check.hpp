#pragma once
// One case and what somebody else's kernel answers to it, judged.
#include <memory>
#include <string>
#include <vector>

#include "tools/case_trial.hpp"
#include "tools/command.hpp"
#include "tools/rows.hpp"
#include "tools/user_kernel.hpp"

namespace assay {

struct CheckOptions {
  std::string problem, answer, kernel, plugin;
  Standard standard;
  std::vector<std::string> tensors;
  std::string format{name_of(RowsFormat::table)}, output = "-";
  double timeout = 600;
  bool same_bits = false, why = false, shrinks = false;
  double shrink_limit = 10, why_limit = 10;
  std::string shrink_output;

  /// What messages and pages call the answer.
  std::string source() const { return !kernel.empty() ? "--kernel: {out}" : !plugin.empty() ? plugin : answer; }
};

/// A case, what was answered to it, and the verdicts.
struct Checked {
  std::unique_ptr<CaseTrial> trial;
  std::shared_ptr<UserKernel> kernel;  ///< that was run, ready for other cases; null for an answer in a file
  GivenAnswer got;
  Page page;
  std::vector<ReportRow> rows;
  OtherContracts others = {};  ///< what they say, as far as they were asked
  /// What was read off the answer and what was not, in lines; JSON has it as facts.
  std::vector<std::string> remarks = {};
};

/// Reads or runs what `options` name and judges it. Throws InputError, one sentence, where nothing can be judged: a bad
/// case, a kernel that does not answer, a tensor that is missing.
/// `kernel` is one that was started for these options before; without, one is started before the oracle is asked.
Checked check_case(const CheckOptions& options, Console& console, std::shared_ptr<UserKernel> kernel = nullptr);

}  // namespace assay
