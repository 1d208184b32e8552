#pragma once
// A judged tensor: the verdict, what it rests on, where it is wrong and which command shows it again.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "judge/verdict/detectability.hpp"
#include "judge/verdict/judge.hpp"
#include "judge/verdict/locate.hpp"

namespace assay {

/// The device of rows whose kernels ran on the CPU executor.
inline constexpr std::string_view cpu_executor = "cpu";

/// The verdict of one kind of evidence on a tensor.
struct Weighed {
  Verdict verdict = Verdict::error;
  /// Its error, in units of what that evidence allows: of a contract its limits; of the model what the precision's
  /// roundings do in the recurrence itself, which a healthy kernel exceeds up to model_factor() times.
  double excess = 0;
  std::string reason = {};  ///< of what is no PASS
};

/// The errors of a tensor that is wrong, element by element.
struct Errors {
  std::vector<NamedAxis> axes;
  Deviations deviations;
  std::vector<std::vector<int>> wrong;  ///< of every axis the indices at which it is wrong
};

/// One tensor of one kernel, or, where there is none to judge, why not.
struct ReportRow {
  std::string device{cpu_executor};  ///< that the kernel ran on; "" if unknown
  std::string mechanism, form;
  std::string title;    ///< of a case with arguments: "softmax_attention with sink, soft_cap"; else ""
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
  std::string rounded_at;                  ///< "vbar in fp16": what the contract does not allow and the model does
  std::string command;                     ///< makes this row, and those of the same kernel and precision, again
  std::optional<Detectability> detects;    ///< what the problem would have shown in this kernel and precision, if asked
  std::string where;                       ///< of a FAIL: the heads, tokens and dimensions that are wrong
  std::string begins;                      ///< of the tensor that is wrong first: from where on, and causes, in lines
  std::shared_ptr<const Errors> errors;    ///< of a FAIL
  std::string why;                         ///< which roundings make the error, if that was asked for
  std::string stored, stored_by_contract;  ///< the answer's dtype, where it is narrower than the contract's, and that
  std::shared_ptr<const Expected> expected;       ///< of an answer that was given: what it was judged by
  std::function<std::string(std::size_t)> place;  ///< index of an element; where null, that in `extents`

  bool judged() const;
};

/// Sets `where` and `errors` of a row whose tensor is wrong.
void show_where(ReportRow& row, std::vector<NamedAxis> axes, Deviations deviations);

/// The mechanism's name in a row as people read it.
inline const std::string& shown_mechanism(const ReportRow& row) {
  return row.title.empty() ? row.mechanism : row.title;
}
/// The name of a row's contract.
const std::string& contract_of(const ReportRow& row);

/// The one of two verdicts that says more about a kernel.
Verdict worse_of(Verdict a, Verdict b);
/// PASS if every tensor is, else that of the worst; ERROR of none.
Verdict worst_of(const std::vector<ReportRow>& rows);
/// Whether there are rows and nothing is said against the kernel in any of them.
bool all_pass(const std::vector<ReportRow>& rows);
/// Corruptions that tensors reject.
using Shown = std::set<std::string_view>;
/// Adds those that a tensor rejects.
void add_shown(const Judgement& j, Shown& shown);
/// Whether these are all that a VACUOUS tensor hides.
bool is_shown(const Judgement& vacuous, const Shown& shown);
/// UNSEEN becomes VACUOUS where no tensor of the rows shows anything, or where that is asked for. Otherwise, VACUOUS
/// becomes PASS where other tensors show the corruptions that it hides, or where these move rows of queries and the
/// case's shape has one key for all of them.
void call_vacuous(std::vector<ReportRow>& rows, bool strict, const Shape& shape);

}  // namespace assay
