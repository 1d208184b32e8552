#pragma once
// One case and the answer of a user's kernel to it, judged.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "judge/court/cache.hpp"
#include "judge/court/case_trial.hpp"
#include "judge/court/shrink.hpp"
#include "tools/print/rows.hpp"
#include "tools/run/user_kernel.hpp"
#include "tools/verbs/command.hpp"

namespace assay {

struct CheckOptions {
  std::string problem, answer, kernel, plugin;
  Standard standard;
  std::vector<std::string> tensors;
  std::string format{name_of(RowsFormat::table)}, output = "-";
  double timeout = 600;
  bool loop = false;  ///< whether `kernel` stays and answers case after case
  bool same_bits = false, why = false, shrinks = false;
  bool mutants = false;  ///< of a program: whether the page says which errors in its formula would have failed
  bool no_cache = false;
  bool rows = false;    ///< whether text has more columns, and of every tensor that fails where and a command
  bool quick = false;   ///< whether pages leave out what the case would have shown and what not
  bool legend = false;  ///< whether text says what the columns mean
  bool keeps = false;   ///< whether truth and sigma are kept for the next check (judge/court/cache.hpp)
  int sample = 0;       ///< parts of the case to judge, chosen when the answer has been read; 0: all of it
  int sample_rows = 0;  ///< of each part so many query rows, where it is attention; 0: all
  std::optional<std::uint64_t> sample_seed = {};  ///< that chooses them; without, one that cannot be known before
  int shrink_runs = usual_shrink_runs;
  double why_limit = 10;
  double long_check = 20;  ///< seconds from which on a check judges a part of the case first
  std::string shrink_output, plot;
  std::string annotate;        ///< the file that JUnit, SARIF and annotations point at; "" where none is given
  std::string judge = "auto";  ///< where draws run, as judge_on takes it

  /// As people are told of it: with what the case shows, the contract where they ask `why`, and the cache.
  CheckOptions told(bool asks_why) const;
  /// The name of the answer in messages and pages.
  std::string source() const { return !kernel.empty() ? flag() + ": {out}" : !plugin.empty() ? plugin : answer; }
  /// That the command was given with.
  std::string flag() const { return loop ? "--kernel-loop" : "--kernel"; }
};

/// A case, what was answered to it, and the verdicts.
struct Checked {
  std::unique_ptr<Cache> cache;  ///< null: nothing is kept
  std::unique_ptr<CaseTrial> trial;
  std::shared_ptr<UserKernel> kernel;  ///< that was run, ready for other cases; null for an answer in a file
  GivenAnswer got;
  Page page;
  std::vector<ReportRow> rows;
  OtherContracts others = {};  ///< what they say, as far as they were asked
  /// Remarks on what was read off the answer and what was not, in lines; JSON has it as facts.
  std::vector<std::string> remarks = {};
};

/// Reads or runs what `options` name and judges it. Throws InputError, one sentence, where nothing can be judged: a bad
/// case, a kernel that does not answer, a tensor that is missing.
/// `kernel` is one that was started for these options before; without, one is started before the oracle is asked.
Checked check_case(const CheckOptions& options, Console& console, std::shared_ptr<UserKernel> kernel = nullptr);

/// As above, of a case and an answer that are in memory: `options.problem` and `options.answer` are what messages and
/// pages call them.
Checked check_answer(const CheckOptions& options, Safetensors problem, Safetensors answer, Console& console);

/// Says why it fails, on the page and in the rows; looks further for so many `seconds`, if any.
void tell_why(Checked& checked, std::optional<double> seconds = {});

/// Adds --kernel, --kernel-loop, --plugin, --timeout and --annotate.
void add_kernel_flags(CLI::App& app, CheckOptions& options);
/// Throws InputError unless the command, if there is one, says where the case and the answer go as its kind does.
void require_command(const CheckOptions& options);
/// The file that annotations and SARIF point at: the one that was named, or the first one that the command names; ""
/// where there is none.
std::string annotated_file(const CheckOptions& options);

}  // namespace assay
