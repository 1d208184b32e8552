#include "tools/verbs/shrink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <set>

#include "judge/trial/shrink.hpp"
#include "reference/core/error.hpp"

namespace assay {

SeededCase case_to_shrink(const CheckOptions& options) {
  require(options.answer.empty(),
          "--shrink: expected --kernel, --kernel-loop or --plugin, which answers other cases, too");
  return read_seeded_case(options.problem, "--shrink");
}

void shrink_check(const CheckOptions& options, const SeededCase& seeded, Checked& checked, OutputFile* file,
                  Console& console) {
  std::set<std::string> failing;
  for (const ReportRow& row : checked.rows)
    if (row.judgement.verdict == Verdict::fail) failing.insert(row.tensor);
  if (failing.empty()) return void(checked.page.notes.emplace_back("nothing fails, so there is nothing to shrink"));

  CheckOptions smaller = options;
  smaller.problem = (checked.kernel->folder() / "smaller.safetensors").string();
  const KernelUnderTest& kernel = checked.trial->kernel();
  if (kernel.form != nullptr) smaller.standard.form = kernel.form->name;
  if (smaller.standard.contract.empty()) smaller.standard.precision = name_of(kernel.precision);
  const std::vector<ReportRow>* rows = &checked.rows;
  Checked last;
  SeededCase one = seeded;
  const auto fails = [&](const CaseSpec& spec) {
    one.spec = spec;
    write_safetensors(smaller.problem, one.make());
    Checked now = check_case(smaller, console, checked.kernel);
    if (std::none_of(now.rows.begin(), now.rows.end(), [&](const ReportRow& row) {
          return row.judgement.verdict == Verdict::fail && failing.contains(row.tensor);
        }))
      return false;
    last = std::move(now), rows = &last.rows;
    return true;
  };
  const Shrunk found = shrink(seeded.spec, groups_heads(seeded.room->inputs()), fails, options.shrink_runs);

  one.spec = found.spec;
  if (file != nullptr) file->commit([&](std::ostream& out) { write_safetensors(out, one.make()); });
  const std::string path = options.shrink_output.empty() ? "smallest.safetensors" : options.shrink_output;
  const std::string made = one.command(path);
  std::vector<std::string>& notes = checked.page.notes;
  notes.push_back(fmt::format("smallest failing case, after {} runs{}:", found.runs,
                              found.stopped ? ", all that --shrink-runs allows" : ""));
  Json tensors = Json::array();
  for (const ReportRow& row : *rows) {
    if (row.judgement.verdict != Verdict::fail) continue;
    notes.push_back("FAIL  " + row.tensor + ": " + row.judgement.reason);
    tensors.push_back({{"tensor", row.tensor}, {"reason", row.judgement.reason}});
  }
  notes.push_back("      " + made);
  checked.page.facts.emplace_back("smallest", Json{{"command", made},
                                                   {"shape", text_of(found.spec.shape)},
                                                   {"runs", found.runs},
                                                   {"stopped", found.stopped},
                                                   {"failing", tensors}});
}

}  // namespace assay
