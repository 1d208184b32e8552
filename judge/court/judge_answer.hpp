#pragma once
// Judging from C++: a problem or a case file, and what a kernel answered. tools/gtest.hpp makes tests of it,
// tools/print/explain.hpp words.
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/safetensors.hpp"
#include "judge/court/report_row.hpp"
#include "judge/court/why.hpp"
#include "judge/verdict/judge.hpp"
#include "reference/core/error.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"

namespace assay {

class Cache;

/// The settings by which an answer is judged, as `assay check` has them.
struct JudgeBy {
  std::string contract = {};  ///< a name or a JSON file; "": that of the case's precision
  std::string form = {};      ///< "": the first that takes the problem and has the contract's sites
  std::string tile = {};      ///< the tile shape whose spread counts; "": any of the form's, for each tensor
  std::vector<std::string> tensors = {};   ///< only these; others may be missing. None: all
  int threads = 0;                         ///< 0: all cores; the results do not depend on it
  std::string precision = {};              ///< whose contract counts; "": the case's
  std::string mechanism = {};              ///< in place of the case's; "": that one
  double false_alarms = false_alarm_rate;  ///< probability that a correct kernel fails in any tensor
  bool detects = false;                    ///< whether rows say what the case could have shown
  bool strict_dtypes = false;              ///< whether an answer may not be stored in fewer bits than the contract's
  Cache* cache = nullptr;  ///< keeps truth and sigma, and outlives what is Judged; null: nothing is kept
};

/// A tensor as a kernel has it, of floats or whatever converts to double. Throws InputError unless there are as many
/// values as the shape has.
template <class Values>
Array tensor(std::vector<int> shape, const Values& values) {
  Array array(std::move(shape), std::vector<double>(std::begin(values), std::end(values)));
  require(array.data.size() == array.count(), "expected ", array.count(), " values, got ", array.data.size());
  return array;
}

/// The material of a judgement, to save it or to ask why.
struct Exhibits {
  std::filesystem::path case_file;  ///< "": the case is not a file yet
  Safetensors problem, answer;
  std::string flags;  ///< of the command that judges them
  std::unique_ptr<CaseTrial> trial;
  GivenAnswer got;
};

/// The judge's verdict on an answer.
struct Judged {
  Verdict verdict = Verdict::error;               ///< PASS if every tensor is, else that of the worst
  std::string reason = {};                        ///< of an ERROR: why nothing was judged
  std::vector<ReportRow> rows = {};               ///< one for each tensor
  std::shared_ptr<const Exhibits> exhibits = {};  ///< null of an ERROR that was met at the door

  /// Describes a failure; with a limit in seconds also what else explains it (judge/court/why.hpp). Empty for an ERROR.
  Why why(std::optional<double> seconds = {}) const;
};

/// Judges the answer to a case, both as `assay check` reads them from files (docs/case-format.md); `name` is the
/// case's in messages. Never throws: what cannot be judged is an ERROR.
Judged judge(const Safetensors& problem, const Safetensors& answer, const JudgeBy& by = {},
             const std::string& name = "case");

/// Judges the answer to a case file, tensors by name in the file's layout, [B][T][H][d].
Judged judge(const std::filesystem::path& case_file, const std::map<std::string, Array>& answer,
             const JudgeBy& by = {});

/// Judges the answer to a problem, [H][T][d]; `by` names a contract or a precision. As files have it, it is one
/// sequence.
Judged judge(const Problem& problem, const Answer& answer, const JudgeBy& by);

}  // namespace assay
