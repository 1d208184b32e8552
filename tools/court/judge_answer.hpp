#pragma once
// Judging from C++: a problem or a case file, and what a kernel answered. tools/gtest.hpp makes tests of it.
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "judge/verdict/judge.hpp"
#include "reference/core/error.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "tools/court/rows.hpp"

namespace assay {

/// What an answer is judged by, as `assay check` has it.
struct JudgeBy {
  std::string contract = {};  ///< a name or a JSON file; "": that of the case's precision
  std::string form = {};      ///< "": the first that takes the problem and has the contract's sites
  std::string tile = {};      ///< the tile shape whose spread counts; "": any of the form's, for each tensor
  std::vector<std::string> tensors = {};  ///< only these; others may be missing. None: all
  int threads = 0;                        ///< 0: all cores; the results do not depend on it
};

/// A tensor as a kernel has it, of floats or whatever converts to double. Throws InputError unless there are as many
/// values as the shape has.
template <class Values>
Array tensor(std::vector<int> shape, const Values& values) {
  Array array(std::move(shape), std::vector<double>(std::begin(values), std::end(values)));
  require(array.data.size() == array.count(), "expected ", array.count(), " values, got ", array.data.size());
  return array;
}

/// What the judge says of an answer.
struct Judged {
  Verdict verdict = Verdict::error;  ///< PASS if every tensor is, else that of the worst
  std::string reason = {};           ///< of an ERROR: why nothing was judged
  std::vector<ReportRow> rows = {};  ///< one for each tensor
  /// What is wrong first and what that looks like, what did not pass, where, and the command that shows it again, in
  /// lines. Saves the answer, and the
  /// case if it is no file yet, in the folder that `where` names, which is made; where that cannot be, it says so.
  std::string explain(const std::function<std::filesystem::path()>& where) const;

  struct Files;
  std::shared_ptr<const Files> files = {};  ///< what explain saves
};

/// Judges the answer to a case file, tensors by name in the file's layout, [B][T][H][d] (docs/case-format.md). Never
/// throws: what cannot be judged is an ERROR.
Judged judge(const std::filesystem::path& case_file, const std::map<std::string, Array>& answer,
             const JudgeBy& by = {});

/// Judges the answer to a problem, [H][T][d]; `by` names a contract. The command's files have it as one sequence.
Judged judge(const Problem& problem, const Answer& answer, const JudgeBy& by);

}  // namespace assay
