#include "tools/pages/suite_page.hpp"

#include <fmt/format.h>

#include "tools/cases/suite_cases.hpp"
#include "tools/print/table.hpp"

namespace assay {
namespace {

constexpr std::string_view about =
    R"(<!-- written by `assay-lab docs`; tools/cases/suites.json has the cases, which `assay suite --measure` chooses -->

# Suites

    build/assay suite deltanet --kernel 'python my_kernel.py {case} {out}'

runs a kernel on the eight cases that together show most, and has one verdict. [check.md](../docs/check.md#a-suite) says how to use it; this page says which cases these are, and why.

## How they were chosen

By measurement, for each mechanism apart. Candidates are all lengths of 1, 17, 64, 65, 129 and 200 tokens, all styles at 64, and those that build up at 65 and 200. So are gates filled with numbers that bf16 has
not, at 129 and 200, and the mechanism's settings. 17 tokens are of two sequences, and where a mechanism has queries apart they are the last of 80 keys. `odd`, at 65, is K = d - 1 and V = d/2 + 1 of heads of d dimensions. Faults are

- **planted**: bugs that kernels really had, in our tile programs ([detection.md](detection.md));
- **conventions**: some eighty misunderstandings, added to a healthy kernel's answer ([check.md](../docs/check.md#why));
- **blind spots**: what data of every day hide. A state in bf16, gates and write strengths in bf16, keys or queries normalised inside.

Every fault was judged on every candidate, in bf16 and with 16 dimensions (8 where a system is solved), which is as many as planted faults are compiled in. The first case is the one that shows
most, the next one the one that shows most of the rest, and so on, each length once before one comes again. Every suite has a case of `mixed_gates` where there are decays, one of `predicted_values` where a delta rule has no momentum, and with
settings one of each. What is shown already counts a quarter, each time, and a blind spot four times. A case on which a healthy kernel
does not pass is no candidate.

`shown`: faults that `assay suite` does not pass. `with --contract`: those that it does not pass with `--contract bf16`, which asks more. The rest no case of the suite shows. `with --settings`: of
the eight that are chosen from cases with settings, too.

)";

std::string count_of(int shown) { return shown == 0 ? "-" : std::to_string(shown); }

Table overview() {
  Table table = Table().words({"mechanism"}).numbers({"faults", "shown", "with --contract", "with --settings"});
  for (const Suite& suite : suites())
    table.add(suite.mechanism, suite.faults, suite.shown, suite.by_contract,
              suite.with_settings.empty() ? "-" : std::to_string(suite.shown_with_settings));
  return table;
}

Table cases_table(const std::vector<SuiteCase>& cases) {
  Table table = Table().numbers({"case"}).words({"B,T,H", "style", "flags"}).numbers({"shows", "with --contract"});
  for (const SuiteCase& one : cases) {
    const std::string flags = one.inputs.flags();
    table.add(table.rows.size() + 1, one.inputs.shape, name_of(one.inputs.style),
              flags.empty() ? "" : '`' + flags.substr(1) + '`', one.shows, one.by_contract);
  }
  return table;
}

Table blind_table(const Suite& suite) {
  Table table = Table().words({"blind spot"}).numbers({"first shown by case", "with --contract"});
  for (const SuiteBlindSpot& spot : suite.blind_spots)
    table.rows.push_back({spot.name, count_of(spot.shown), count_of(spot.by_contract)});
  return table;
}

}  // namespace

std::string suite_page() {
  std::string text(about);
  text += overview().markdown();
  for (const Suite& suite : suites()) {
    text += fmt::format("\n## {}\n\n", suite.mechanism) + cases_table(suite.cases).markdown();
    if (!suite.blind_spots.empty()) text += '\n' + blind_table(suite).markdown();
    if (!suite.with_settings.empty()) text += "\nWith `--settings`:\n\n" + cases_table(suite.with_settings).markdown();
    if (!suite.unseen.empty()) text += fmt::format("\nShown by none: {}.\n", fmt::join(suite.unseen, ", "));
  }
  return text;
}

}  // namespace assay
