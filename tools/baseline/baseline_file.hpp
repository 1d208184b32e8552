#pragma once
// How far off a kernel is, kept in a file from one commit to the next.
#include <string>
#include <utility>
#include <vector>

#include "files/case_file.hpp"
#include "judge/court/seeded_case.hpp"
#include "tools/run/checked.hpp"
#include "tools/verbs/report.hpp"

namespace assay {

inline constexpr int fewest_baseline_seeds = 3, most_baseline_seeds = 1000;

/// One tensor of one kernel on one kind of case: its errors from several seeds, in their order.
struct BaselineRow {
  std::string device, mechanism, form, precision, inputs, tensor;  ///< `inputs`: "--shape ... --style ..."
  std::vector<double> relative_error = {}, rms_z = {}, worst_z = {};
  std::vector<std::string> verdicts = {};

  /// "deltanet chunkwise bf16 o (--shape 1,100,2/1,64,64 --style normal)"
  std::string name() const;
  friend bool operator==(const BaselineRow&, const BaselineRow&) = default;
};

/// The measured kernels: ours on the report's cases, or a user's on cases that `assay case` has made.
struct BaselineSubject {
  ReportOptions report;
  CheckOptions check;
  std::vector<SeededCase> cases;
  int seeds = 8;
  Json contract = nullptr;  ///< of all, in place of a precision's: its name, or what its file says

  bool is_user() const { return !check.kernel.empty() || !check.plugin.empty(); }
};

/// All that is asked keeps `contract` and is judged by it; `source` is its file, or the baseline that holds it.
void set_contract(BaselineSubject& subject, Json contract, const std::string& source);

/// The file's text, as `assay baseline save` writes it.
std::string dumped(const BaselineSubject& subject, const std::vector<BaselineRow>& rows);

/// The contents of such a text. Throws InputError, one sentence that begins with `where`.
std::pair<BaselineSubject, std::vector<BaselineRow>> parse_baseline(const std::string& text, const std::string& where);

/// Whether both are of the same tensor of the same kernel on the same kind of case.
bool same_place(const BaselineRow& a, const BaselineRow& b);

}  // namespace assay
