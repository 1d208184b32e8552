#pragma once
// The two kinds of evidence of a tensor, side by side: is it right (model), does it keep its promise (contract)?
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "judge/court/judge_rows.hpp"
#include "judge/sigma/model.hpp"
#include "judge/verdict/decide.hpp"

namespace assay {

/// The rows of an answer under other named contracts than that of its trial: each is run once, when it is first asked.
class OtherContracts {
 public:
  /// All named contracts of that precision that the kernel has the sites for, without the one of `trial` itself: as
  /// they are for its precision.
  std::vector<const Contract*> known(const Trial& trial, Format precision);
  /// One row for each of the oracle's tensors that `wanted` holds; `row` is what they have in common.
  const std::vector<ReportRow>& rows(const Contract& contract, const Trial& trial, const ReportRow& row,
                                     const Answer& got, const std::function<bool(const std::string&)>& wanted);
  int runs() const { return static_cast<int>(found_.size()); }

 private:
  std::vector<Contract> contracts_;
  std::map<std::string, std::vector<ReportRow>> found_;
};

/// Judges an answer, one row for each tensor of the oracle that `wanted` holds. Where the model decides, the contract
/// is asked only where a tensor is left open or the trial asks for both: such a tensor passes if it passes under that,
/// or under another named contract of the precision. A kernel without a form the model judges alone.
std::vector<ReportRow> judge_by_both(const Trial& trial, const ReportRow& row, const Answer& got,
                                     const std::function<bool(const std::string&)>& wanted, Decides decides,
                                     OtherContracts& others);

}  // namespace assay
