#pragma once
// An answer held against a contract: what is expected of the kernel, and a row for each tensor.
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "judge/court/report_row.hpp"
#include "judge/sigma/expected.hpp"
#include "judge/verdict/detectability.hpp"

namespace assay {

class Cache;
struct ProblemFile;

/// Told what is being done, how much of it is done, and of how much; a total of 0 is not known. From any thread.
using Phase = std::function<void(std::string_view what, std::size_t done, std::size_t total)>;

/// Whether a tensor is one of those that are asked for; null: all are.
using Wanted = std::function<bool(const std::string& tensor)>;

/// A form of another healthy algorithm, which an answer may come from; `how` tells it from the trial's own.
struct OtherForm {
  std::shared_ptr<const KernelForm> form;
  std::string how;
  bool is_named = true;  ///< whether --form knows it
};

/// A kernel and what it is judged against. Copies differ where they are told to: another kernel, one tile shape.
struct Trial {
  const Room& room;
  KernelUnderTest kernel;  ///< whose contract counts
  const Problem& problem;
  const Oracle& oracle;
  int batch = 1;                           ///< sequences that the problem's heads are of
  const ProblemFile* file = nullptr;       ///< by whose indices, [b][t][h][d], elements are named; null: the problem's
  double false_alarms = false_alarm_rate;  ///< the kernel's share of what all that is judged together may raise
  std::vector<int> tiles = {};   ///< shapes that an answer may come from, each tensor from any; none: `kernel`'s
  bool detects = false;          ///< whether rows say what the problem could have shown
  bool detects_of_wrong = true;  ///< of an answer that fails, too
  std::map<std::string, Format> stored = {};            ///< dtypes of the answer's tensors, as far as they are known
  bool strict_dtypes = false;                           ///< whether one that is narrower than the contract's fails
  std::function<std::vector<OtherForm>()> others = {};  ///< each tensor may come from any of these, too; null: none
  bool both = false;                                    ///< whether the contract is asked whatever the model says
  bool strict = false;                                  ///< whether every tensor has to show everything itself
  /// Of more numbers than this, what could allow a tensor that fails is asked for one group of heads first, and fewer
  /// draws reject it.
  std::size_t large = most_numbers_with_faults;
  int draws = default_draws;  ///< of a contract
  bool limits_alone = false;  ///< whether nothing is asked that could allow what the model fails
  bool is_sample = false;     ///< whether the problem's sequences are parts of a larger case
  Phase phase = {};           ///< hears what is being done
  Cache* cache = nullptr;     ///< where what is learnt is kept, or null
  std::string digest = {};    ///< of `problem`, if there is a cache
  std::string unfit = {};     ///< of a kernel without a form: why there is none
};

/// The expectations of the kernel in each of the tile shapes that count, before anything is known of an answer: a
/// number that 16 draws know too little gets 64, and where an everyday bound is not sharp enough, the oracle answers in
/// four words. The trial's cache is not asked.
struct Learnt {
  std::vector<Expectation> expectations;
  std::optional<Oracle> sharper;  ///< the oracle in four words, if it was asked
};
Learnt learn(const Trial& trial, const Wanted& wanted = {});

/// The axes of a tensor of the problem, which has that shape: in cases with arguments, states and rows are of
/// sequences.
std::vector<NamedAxis> axes_in_trial(const Trial& trial, const std::string& tensor, const std::vector<int>& shape);

/// One row for each tensor of the oracle that `wanted` holds, before anything is judged: ERROR, or UNSUPPORTED where no
/// form fits. `row` says what they have in common, and its form if it is not the contract's.
std::vector<ReportRow> blank_rows(const Trial& trial, ReportRow row, const Wanted& wanted = {});

/// The answer of the kernel's first tile shape under its contract, in the order of `oracle`.
Named<std::vector<double>> emulated(const Trial& trial);

/// Notes tensors whose dtype is narrower than that in which the contract stores them, and fails them where that is
/// asked for.
void note_dtypes(const Trial& trial, const Named<Format>& stored, std::vector<ReportRow>& rows);

/// The rows of `blank_rows`, judged. Judges `got`, or the kernel's own emulation if there is none. Throws
/// std::runtime_error if `got` lacks a tensor or has it in another shape.
std::vector<ReportRow> judge_rows(const Trial& trial, const ReportRow& row, const std::optional<Answer>& got,
                                  const Wanted& wanted = {});

}  // namespace assay
