#pragma once
// Whose form is not known may be of either: the tile program's, or token by token.
#include <optional>
#include <string>
#include <vector>

#include "judge/court/judge_rows.hpp"

namespace assay {

/// What Trial::second says of those tensors that the contract rejects in the tile program's form. It is run when it is
/// first asked for. Refers to what it is made of.
class SecondForm {
 public:
  SecondForm(const Trial& trial, const std::vector<ReportRow>& rows, const Answer& got);
  /// The row of that tensor if it passes in the second form, or null.
  const ReportRow* passing(const std::string& tensor);

 private:
  void judge();

  const Trial& trial_;
  const Answer& got_;
  ReportRow blank_;
  std::vector<std::string> rejected_;
  std::optional<std::vector<ReportRow>> judged_;
};

/// Puts the rows of the second form in place of those that fail, where it passes.
void allow_second_form(const Trial& trial, std::vector<ReportRow>& rows, const Answer& got);

}  // namespace assay
