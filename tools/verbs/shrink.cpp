#include "tools/verbs/shrink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <set>
#include <utility>
#include <vector>

#include "files/in_words.hpp"
#include "files/shown.hpp"
#include "judge/court/shrink.hpp"
#include "reference/core/error.hpp"

namespace assay {

SeededCase case_to_shrink(const CheckOptions& options) {
  require(options.answer.empty(),
          "--shrink: expected --kernel, --kernel-loop or --plugin, which answers other cases, too");
  return read_seeded_case(options.problem, "--shrink");
}

namespace {

/// Whether the case still fails without what it has beside its shape: the style of its arguments, then its tensors.
void drop_arguments(SeededCase& one, const std::function<bool(const SeededCase&)>& fails) {
  const auto take = [&](SeededCase smaller) {
    try {
      if (fails(smaller)) one = std::move(smaller);
    } catch (const InputError&) {  // another argument needs it
    }
  };
  if (!one.spec.argument_style.empty()) {
    SeededCase plain = one;
    plain.spec.argument_style.clear();
    take(std::move(plain));
  }
  for (const auto& argument : std::vector(one.spec.with)) {
    SeededCase fewer = one;
    std::erase(fewer.spec.with, argument);
    take(std::move(fewer));
  }
}

}  // namespace

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
  const auto case_fails = [&](const SeededCase& smaller_case) {
    write_safetensors(smaller.problem, smaller_case.make());
    Checked now = check_case(smaller, console, checked.kernel);
    if (std::none_of(now.rows.begin(), now.rows.end(), [&](const ReportRow& row) {
          return row.judgement.verdict == Verdict::fail && failing.contains(row.tensor);
        }))
      return false;
    last = std::move(now), rows = &last.rows;
    return true;
  };
  const auto fails = [&](const CaseSpec& spec) {
    one.spec = spec;
    return case_fails(one);
  };
  const bool grouped = seeded.room != nullptr && groups_heads(seeded.room->inputs());
  Shrunk found = shrink(seeded.spec, grouped, fails, options.shrink_runs);
  one.spec = found.spec;
  drop_arguments(one, [&](const SeededCase& fewer) {
    if (found.stopped) return false;
    found.stopped = found.runs == options.shrink_runs;
    return !found.stopped && (++found.runs, case_fails(fewer));
  });
  if (file != nullptr) file->commit([&](std::ostream& out) { write_safetensors(out, one.make()); });
  const std::string path = options.shrink_output.empty() ? "smallest.safetensors" : options.shrink_output;
  const std::string made = one.command(path);
  std::vector<std::string>& notes = checked.page.notes;
  notes.push_back(fmt::format("smallest failing case, after {}{}:", counted(found.runs, "run"),
                              found.stopped ? ", all that --shrink-runs allows" : ""));
  Json tensors = Json::array();
  for (const ReportRow& row : *rows) {
    if (row.judgement.verdict != Verdict::fail) continue;
    notes.push_back("FAIL  " + row.tensor + ": " + row.judgement.reason);
    tensors.push_back({{"tensor", row.tensor}, {"reason", row.judgement.reason}});
  }
  notes.push_back("      " + typed_here(made));
  checked.page.facts.emplace_back("smallest", Json{{"command", made},
                                                   {"shape", text_of(found.spec.shape)},
                                                   {"runs", found.runs},
                                                   {"stopped", found.stopped},
                                                   {"failing", tensors}});
}

}  // namespace assay
