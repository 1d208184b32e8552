#include "tools/pages/detection_page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "files/in_words.hpp"
#include "judge/held_out/rooms.hpp"
#include "reference/core/error.hpp"
#include "tools/lab/kill_plot.hpp"
#include "tools/pages/confidence.hpp"
#include "tools/print/html_page.hpp"

namespace assay {
namespace {

std::string percent(int part, int whole) { return whole == 0 ? "-" : fmt::format("{:.1f}%", 100.0 * part / whole); }

/// The part of the judge that is named in a table: the sharpest of those that reject it.
std::string first_layer(const MutantRow& row) {
  for (const Layer layer : all_layers)
    if (row.killed() && row.layers.rejected_by(layer)) return std::string(name_of(layer));
  return "-";
}

std::string reason_of(const MutantRow& row) {
  if (row.shown.total() == 0) return "no bit of its answers differs in " + counted(row.trials, "case");
  if (row.layers.rms == 0 && row.layers.element == 0)
    return "the healthy kernel is rejected wherever it shows, in " + counted(row.shown.total(), "case");
  return fmt::format("differs in {} of {}, by {:.2f} of an element's limit and {:.2f} of the RMS's at most",
                     row.shown.total(), counted(row.trials, "case"), row.layers.element, row.layers.rms);
}

/// By number, as the columns of the mutants' table; ours is 0.
std::string_view rule_name(std::size_t rule) {
  return rule == judge_rule ? "assay" : rule == model_rule() ? "assay, model" : rivals()[rule - 1].name;
}
constexpr std::string_view what_model_asks = "could any healthy algorithm in this precision have answered so";

Table rules_table(const KillTable& kills, const HealthyTable* healthy) {
  const std::vector<Format> precisions = kills.precisions();
  Table table = Table().numbers({""}).words({"rule"}).numbers({"killed", "share"});
  for (const Format precision : precisions) table.numbers({text("in ", name_of(precision))});
  table.numbers({"of cases", "false alarms"});
  if (healthy != nullptr) table.numbers({"on fresh cases"});
  for (std::size_t rule = 0; rule < kills.alarms.size(); ++rule) {
    std::vector<std::string> cells = {text(rule), std::string(rule_name(rule)), text(kills.killed(rule)),
                                      percent(kills.killed(rule), kills.shown())};
    for (const Format precision : precisions)
      cells.push_back(text(kills.killed(rule, precision), '/', kills.shown(precision)));
    cells.push_back(fmt::format("{:.1f}%", 100 * kills.share_of_cases(rule)));
    cells.push_back(text(kills.alarms[rule], '/', kills.healthy_runs));
    if (healthy != nullptr) cells.push_back(text(healthy->rejected[rule], '/', healthy->runs));
    table.rows.push_back(std::move(cells));
    if (rule == judge_rule)
      for (const Layer layer : all_layers)
        table.add("", text("  ", name_of(layer), " alone"), kills.killed(layer),
                  percent(kills.killed(layer), kills.shown()));
  }
  return table;
}

Table mutants_table(std::span<const MutantRow> rows, bool with_room) {
  Table table;
  if (with_room) table.words({"mechanism", "form"});
  table.words({"mutant"}).numbers({"shown"}).words({"assay"});
  for (std::size_t rule = 1; rule < rule_count(); ++rule) table.numbers({text(rule)});
  for (const MutantRow& row : rows) {
    std::vector<std::string> cells;
    if (with_room) cells = {std::string(row.room), std::string(row.form)};
    cells.insert(cells.end(),
                 {std::string(row.mutant->name), text(row.shown.total(), '/', row.trials), first_layer(row)});
    for (std::size_t rule = 1; rule < row.kills.size(); ++rule) cells.emplace_back(row.killed(rule) ? "x" : ".");
    table.rows.push_back(std::move(cells));
  }
  return table;
}

/// The mutants that exact elements alone find of every kernel, and those that need another part.
Table exact_table(const KillTable& kills) {
  Table table = Table().words({"mechanism", "form"}).numbers({"mutants", "exact"}).words({"not exact"});
  for (const std::span<const MutantRow> rows : by_kernel(kills.rows)) {
    int exact = 0;
    std::string others;
    for (const MutantRow& row : rows) {
      const bool found = row.killed() && row.layers.rejected_by(Layer::exact);
      exact += found;
      if (!found) others += text(others.empty() ? "" : ", ", row.mutant->name);
    }
    table.add(rows.front().room, rows.front().form, rows.size(), exact, others);
  }
  return table;
}

Table survivors_table(const KillTable& kills) {
  Table table = Table().words({"mechanism", "form", "mutant", "reason"});
  for (const MutantRow& row : kills.rows)
    if (!row.killed()) table.add(row.room, row.form, row.mutant->name, reason_of(row));
  return table;
}

std::string at_least(int found, int seeds) {
  return fmt::format(">= {:.1f}%",
                     100 * lower_bound_95(static_cast<std::uint64_t>(found), static_cast<std::uint64_t>(seeds)));
}

Table power_table(const std::vector<PowerRow>& rows) {
  Table table = Table()
                    .words({"mechanism", "form", "style"})
                    .numbers({"T", "found", "power", "in o", "power in o", "rms / limit", "false alarms"});
  for (const PowerRow& row : rows)
    table.add(row.room, row.form, name_of(row.style), row.seq_len, text(row.detected, '/', row.seeds),
              at_least(row.detected, row.seeds), text(row.in_reads, '/', row.seeds), at_least(row.in_reads, row.seeds),
              fmt::format("{:.2f}", row.rms), text(row.alarms, '/', row.seeds));
  return table;
}

Table shrink_table(const std::vector<ShrinkRow>& rows) {
  int small = 0, groups = 0, shown = 0, stopped = 0;
  for (const ShrinkRow& row : rows) {
    small += row.small ? 1 : 0, shown += row.shows_in_one_head ? 1 : 0;
    groups += row.one_group ? 1 : 0, stopped += row.stopped ? 1 : 0;
  }
  const auto failing = static_cast<int>(rows.size());
  Table table = Table().numbers(
      {"failing", "small", "share", "one group", "share", "shown by one head", "share of those", "more runs"});
  table.add(failing, small, percent(small, failing), groups, percent(groups, failing), shown, percent(small, shown),
            stopped);
  return table;
}

/// Those whose smallest case is not small, and whether some case of one head shows them.
Table not_small_table(const std::vector<ShrinkRow>& rows) {
  Table table = Table().words({"mechanism", "form", "mutant", "one head", "smallest"});
  for (const ShrinkRow& row : rows)
    if (!row.small)
      table.add(row.room, row.form, row.mutant, row.shows_in_one_head ? "shows it" : "never",
                text_of(row.smallest.shape));
  return table;
}

const HealthyTable* healthy_of(const Detection& d) { return d.healthy ? &*d.healthy : nullptr; }

std::string summary_of(const KillTable& kills) {
  const int mutants = kills.shown();
  std::string lines =
      fmt::format("{}, {} of which show a bit: {} killed ({}), {} by exact elements alone ({}); {} in {}\n",
                  counted(kills.rows.size(), "mutant"), mutants, kills.killed(), percent(kills.killed(), mutants),
                  kills.killed(Layer::exact), percent(kills.killed(Layer::exact), mutants),
                  counted(kills.alarms[judge_rule], "false alarm"), counted(kills.healthy_runs, "healthy run"));
  return lines;
}

std::string healthy_lines(const HealthyTable& h) {
  const auto alarms = static_cast<int>(h.alarms.size());
  std::string lines = fmt::format(
      "{}, {}: {}, rate {:.2g} a run, at most {:.2g} with 95% confidence\n"
      "of the others, {} are VACUOUS in some tensor, {} UNDECIDED, and in {} the contract's own roundings "
      "overflow;\n{} "
      "of {} drawn cases have no answer\n",
      counted(h.runs, "healthy run"), counted(h.tensors, "tensor"), counted(alarms, "false alarm"),
      h.runs > 0 ? static_cast<double>(alarms) / h.runs : 0.0,
      upper_bound_95(static_cast<std::uint64_t>(alarms), static_cast<std::uint64_t>(h.runs)), h.vacuous, h.undecided,
      h.overflowing, h.unanswered, h.drawn);
  lines += fmt::format(
      "the draws alone would have rejected the run that is judged, and sigma took it in: in {} that of elements, "
      "in {} that of a sum\n",
      counted(h.widened, "run"), h.widened_sums);
  if (h.drawn < h.asked) lines += fmt::format("time was up after {} of {} cases\n", h.drawn, h.asked);
  for (const HealthyTable::Alarm& alarm : h.alarms) lines += fmt::format("  {}\n    {}\n", alarm.command, alarm.reason);
  return lines;
}

std::string declared_rate() {
  return fmt::format("declared rate of false alarms: {:.0e} a run, of all its tensors together", false_alarm_rate);
}

Json rules_json(const KillTable& kills, const HealthyTable* healthy) {
  Json rules = Json::array();
  for (std::size_t rule = 0; rule < kills.alarms.size(); ++rule) {
    rules.push_back({{"name", rule_name(rule)},
                     {"killed", kills.killed(rule)},
                     {"share_of_cases", kills.share_of_cases(rule)},
                     {"false_alarms", kills.alarms[rule]}});
    if (healthy != nullptr) rules.back()["false_alarms_on_fresh_cases"] = healthy->rejected[rule];
    if (rule == judge_rule) continue;
    rules.back()["rule"] = rule == model_rule() ? what_model_asks : rivals()[rule - 1].rule;
    rules.back()["source"] = rule == model_rule() ? std::string_view("docs/judge.md") : rivals()[rule - 1].source;
  }
  return rules;
}

std::string as_json(const Detection& d) {
  const KillTable& kills = d.kills;
  const KillTable held_out = kills.part(true);
  Json mutants = Json::array();
  for (const MutantRow& row : kills.rows) {
    Json layers = Json::array(), by = Json::array(), cases = Json::array();
    for (const Layer layer : all_layers)
      if (row.killed() && row.layers.rejected_by(layer)) layers.push_back(name_of(layer));
    for (std::size_t rule = 1; rule < row.kills.size(); ++rule)
      if (row.killed(rule)) by.push_back(rule_name(rule));
    for (const Counts& of_rule : row.kills) cases.push_back(of_rule.total());
    mutants.push_back({{"mechanism", row.room},
                       {"form", row.form},
                       {"mutant", row.mutant->name},
                       {"held_out", row.held_out},
                       {"what", row.mutant->what},
                       {"seen", row.mutant->seen},
                       {"cases", row.trials},
                       {"shown", row.shown.total()},
                       {"killed", row.killed()},
                       {"layers", std::move(layers)},
                       {"conviction", row.conviction},
                       {"killed_by", std::move(by)},
                       {"cases_killed_by_rule", std::move(cases)}});
  }
  Json all = {{"format", "assay-mutants"},          {"version", 1},
              {"command", kills.options.command()}, {"false_alarm_rate", false_alarm_rate},
              {"healthy_runs", kills.healthy_runs}, {"rules", rules_json(kills.part(false), healthy_of(d))},
              {"mutants", std::move(mutants)}};
  if (!held_out.rows.empty()) all["rules_on_held_out"] = rules_json(held_out, healthy_of(d));
  if (kills.options.parts > 1) {
    all["shard"] = {{"part", kills.options.part}, {"of", kills.options.parts}, {"places", kills.places}};
    all["rules_on_held_out"] = rules_json(held_out, nullptr);  // the first share may have no such mutant
  }
  if (d.healthy) {
    Json alarms = Json::array();
    for (const HealthyTable::Alarm& alarm : d.healthy->alarms)
      alarms.push_back({{"command", alarm.command}, {"reason", alarm.reason}});
    all["fresh"] = {{"asked", d.healthy->asked},
                    {"drawn", d.healthy->drawn},
                    {"runs", d.healthy->runs},
                    {"tensors", d.healthy->tensors},
                    {"widened", d.healthy->widened},
                    {"widened_sums", d.healthy->widened_sums},
                    {"vacuous", d.healthy->vacuous},
                    {"undecided", d.healthy->undecided},
                    {"overflowing", d.healthy->overflowing},
                    {"unanswered", d.healthy->unanswered},
                    {"upper_bound_95", upper_bound_95(alarms.size(), static_cast<std::uint64_t>(d.healthy->runs))},
                    {"alarms", std::move(alarms)}};
  }
  for (const ShrinkRow& row : d.smallest)
    all["smallest"].push_back({{"mechanism", row.room},
                               {"form", row.form},
                               {"mutant", row.mutant},
                               {"case", row.smallest.repro()},
                               {"small", row.small},
                               {"one_group", row.one_group},
                               {"shows_in_one_head", row.shows_in_one_head}});
  for (const PowerRow& row : d.power)
    all["power"].push_back({{"mechanism", row.room},
                            {"form", row.form},
                            {"seq_len", row.seq_len},
                            {"style", name_of(row.style)},
                            {"detected", row.detected},
                            {"detected_in_o", row.in_reads},
                            {"false_alarms", row.alarms},
                            {"rms_of_limit", row.rms},
                            {"seeds", row.seeds}});
  return all.dump(2) + '\n';
}

/// One line a mutant; 1 where a rule kills it.
std::string as_csv(const KillTable& kills) {
  Table table = Table().words({"mechanism", "form", "mutant", "held_out", "cases", "shown", "assay", "layer"});
  for (std::size_t rule = 1; rule < rule_count(); ++rule) table.words({rule_name(rule)});
  for (const MutantRow& row : kills.rows) {
    std::vector<std::string> cells = {std::string(row.room),    std::string(row.form), std::string(row.mutant->name),
                                      row.held_out ? "1" : "0", text(row.trials),      text(row.shown.total()),
                                      row.killed() ? "1" : "0", first_layer(row)};
    for (std::size_t rule = 1; rule < row.kills.size(); ++rule) cells.emplace_back(row.killed(rule) ? "1" : "0");
    table.rows.push_back(std::move(cells));
  }
  return table.csv();
}

constexpr std::string_view opening = R"(
# Detection

What the judge finds, what the acceptance rules of other projects find, and how often each rejects a kernel that is right. Everything here is measured
by one command, on the CPU executor, with the same result on every machine:

)";

constexpr std::string_view what_is_measured = R"(
## What is measured

Every kernel has **mutants**: bugs that kernels really had, planted by name in its tile program; its page in [mechanisms](../docs/mechanisms) says what each does
and where it was seen. Each is run on a fixed set of cases: 43 tokens in tiles of 16, grouped heads, every setting of the mechanism, in the styles
`normal`, `rising_scores` and `long_memory`, in fp32 and bf16 (and in e4m3 where operands have units). There are cases in numbers of few bits, too, where most roundings change nothing: `integers` in fp64 with 43,
19 and 2 tokens, `dyadic` in fp64 with 43, 32 and 2 and in fp32 with 19.
The judge and every rule get the same case, the same answers and the same reference, and look at all outputs and gradients.

A rule **kills** a mutant if on one of these cases it rejects the mutant's answers and accepts the healthy kernel's. So a rule that rejects everything
kills nothing. **False alarms** are healthy kernels rejected: on the mutants' cases and, in the last column, on fresh ones (below).

The baseline b of rules that have one is the healthy kernel under the same contract with randomised rounding: closer than the baselines that those rules
have in practice, which are other programs. TOSA's rule is left out. Its bound is so many units of the same operator on absolute values, which is the sum of the sizes of a sum of products, and of nothing else here. A
delta rule with keys (1, 0) and (1, -1), values 1 and 0, steps 1 and 1/2 answers the query (1, 1) with 1. On absolute values it answers 0, and no error at all would be allowed. Softmax
attention on scores of 16 and -32 answers with the first value, and on absolute values with the second one (a test shows both).

## Rules

)";

constexpr std::string_view about_rules = R"(
e = o - r; eps is the spacing of the dtype at 1. Constants go by the dtype of the answer; a dtype that a rule has no constants for takes those of fp32 if it is
wider than 16 bits. Ascend's floor is its own small-value error. benchdnn is the rule for points, without the relaxations for single drivers.

## Result

)";

constexpr std::string_view about_result = R"(
`share` is of the mutants that show a bit, `in fp32` and so on counts by the precision of the cases, and `of cases` is the share of all pairs of a mutant and
a case that shows it. The judge's parts, each alone: `exact`, elements that no rounding of the contract moves and that have no tolerance; `finite`, NaN and
infinity; `element`, seven sigma; `rms`, the root mean square of error / sigma.

## Exact elements

In `integers` and `dyadic` any correct kernel, in any order of summation, answers most elements to the bit: no sigma, no rate of false alarms. In `dyadic` the gates are
open or closed, steps of 1 replace what a key held and others leave fractions of seven bits, energies are 1, and states hold 12 bits, which fp32 keeps and bf16 does not.


)";

constexpr std::string_view about_exact = R"(
What the others need, and numbers of few bits do not give:

- **A weight other than 0, 1 and a quotient of counts** (softmax attention, Parallax, LLA): an exponential is a number of few bits at 0 and nowhere else. So scores are
  equal or so far apart that one weight is 0, and a wrong scale, a wrong base or a window's edge among keys of no weight changes nothing.
- **A second step of conjugate gradients** (MesaNet, Affine MesaNet, LLA): exact systems are diagonal with one entry that is a power of two, and solved in one step.
  Wrong directions, stops and step counts need more of them, whose quotients are no short fractions; a row that is 0 / 0 shows as NaN, which is another part's.
- **A mean of a number of keys that is no power of two** (the affine rooms, value averaging): kernels multiply by 1 / n, or move a mean from key to key, and round from the third key on. Rows of 1 and 2 keys are exact;
  ends of tiles and merges of unequal chunks are others.
- **Scores that are equal and not zero** (softmax attention, Parallax, LLA): kernels take powers of two of s log2(e) − m log2(e), which their fused multiply-add does not make zero. Before this was counted, 88% of the mutants were
  found by exact elements: some of those elements a healthy kernel rounds.
- **Many tokens of a decay of five bits or more** (RetNet: 1 - 2^-5-head): two tiles of it have eighty bits, and the decay's gradient sums over all tokens.
- **A step divided by three pairs** (FALCON-3 with a floor on decays, whose settings have windows of three).

)";

constexpr std::string_view about_power = R"(
`long_memory` forgets slowly: a state that only adds up loses in bf16 what no other rounding does, and shows. One that a delta rule overwrites, or a decay forgets, within a
few dozen tokens loses no more than the operands, which the contract rounds to bf16 as well. `slow_writes` shows it wherever a state is given: it is about 1 and all writes
together move it by 2^-16 of where they lead per token, one way. In fp32 they add up; in bf16 the writes of a chunk are below half a unit of the last place and
none arrives. What the operands lose does not grow with T, what the state has not taken up does: that is `rms / limit`, of o. A user who also compares the final state sees at 64
tokens that its elements are not those of an fp32 state.

)";

constexpr std::string_view about_shrinking = R"(## Smallest cases

What `assay check --shrink` makes of two sequences, four heads in groups, 109 tokens in tiles of 16 (43 where a system is solved), 16 and 12 dimensions: the first
case on which a mutant fails, in bf16 before fp32. `small` is one sequence, one head, two chunks of 64 and 16 dimensions, within the 100 runs that
`--shrink` makes at most (`more runs` counts those that it ends before their time). `one group` is one key/value head in place of one head, with all query heads that read it: the least that a gradient summed over a group needs. Some faults are
about which head is read or summed; a kernel that has only one is right. `shown by one head` counts those that fail on one head at all: on the smallest case, or on one of
109 tokens (43) in some style, setting and precision, over three seeds.

)";

constexpr std::string_view about_mutants = R"(## Every mutant

`shown`: cases in which a bit of its answers differs; `assay`: the sharpest part of the judge that rejects it; `x`: the rule of that number kills it.
)";

constexpr std::string_view about_held_out = R"(## Held out

These mutants were written without sight of the rule's code and were never used to tune it, nor will they be: what survives is listed. They are bugs of
launchers and callers, around kernels that are healthy: other memory, other options, a sequence in two calls, outputs and gradients stored otherwise.
Cases, rules and counts are those of the planted ones.

)";

/// Faults in the order in which they are first met, and the kernels that have them.
Table faults_table(const KillTable& kills) {
  std::vector<std::pair<const Mutant*, std::string>> faults;
  for (const MutantRow& row : kills.rows) {
    const auto is_it = [&](const auto& fault) { return fault.first->name == row.mutant->name; };
    auto it = std::find_if(faults.begin(), faults.end(), is_it);
    if (it == faults.end()) it = faults.insert(it, {row.mutant, ""});
    it->second += text(it->second.empty() ? "" : ", ", row.room, row.form == "split_decode" ? ":split_decode" : "");
  }
  Table table = Table().words({"fault", "does", "seen", "kernels"});
  for (const auto& [mutant, kernels] : faults) table.add(mutant->name, mutant->what, mutant->seen, kernels);
  return table;
}

/// Why they survive, a paragraph for each fault.
std::string survivals(const KillTable& kills) {
  std::vector<std::string_view> told;
  std::string page;
  for (const MutantRow& row : kills.rows) {
    if (row.killed() || survival_of(row.mutant->name).empty()) continue;
    if (std::find(told.begin(), told.end(), row.mutant->name) != told.end()) continue;
    told.push_back(row.mutant->name);
    page += fmt::format("`{}`: {}.\n\n", row.mutant->name, survival_of(row.mutant->name));
  }
  return page;
}

std::string shrinking_section(const std::vector<ShrinkRow>& rows) {
  if (rows.empty()) return "";
  std::string page = std::string(about_shrinking) + shrink_table(rows).markdown(Table::Cells::markup) + '\n';
  if (const Table large = not_small_table(rows); !large.rows.empty())
    page += "Not small:\n\n" + large.markdown(Table::Cells::markup) + '\n';
  return page;
}

std::string held_out_section(const KillTable& kills) {
  if (kills.rows.empty()) return "";
  std::string page(about_held_out);
  page += summary_of(kills) + '\n' + rules_table(kills, nullptr).markdown(Table::Cells::markup) + '\n';
  const Table survivors = survivors_table(kills);
  page += survivors.rows.empty() ? "None survives.\n\n" : survivors.markdown(Table::Cells::markup) + '\n';
  page += survivals(kills) + faults_table(kills).markdown(Table::Cells::markup);
  return page + fmt::format("\n```\n{}```\n\n", mutants_table(kills.rows, true).text());
}

}  // namespace

bool Detection::passed() const {
  const KillTable planted = kills.part(false);
  return planted.killed() == planted.shown() && (kills.alarms.empty() || kills.alarms[judge_rule] == 0) &&
         (!healthy || healthy->alarms.empty());
}

std::string print(const Detection& d, TableFormat format) {
  const bool markdown = format == TableFormat::markdown;
  if (format == TableFormat::json) return as_json(d);
  if (format == TableFormat::csv) return as_csv(d.kills);
  if (d.kills.options.healthy_only)
    return "assay-lab mutants: healthy kernels on fresh cases, against the judge\n" + declared_rate() + "\n" +
           healthy_lines(*d.healthy) + "reproduce: " + d.kills.options.command() + '\n';
  const auto shown = [markdown](const Table& table) {
    return markdown ? table.markdown(Table::Cells::markup) : table.text();
  };
  std::string out =
      "assay-lab mutants: planted faults against the judge, and against the rules that others use\n"
      "killed    a rule rejects the mutant's answers and accepts the healthy kernel's on the same case\n"
      "columns   shown: cases in which a bit differs; assay: the sharpest part of the judge that rejects it;\n"
      "          1, 2, ...: the rules, x where one kills it\n" +
      declared_rate() + "\n\n";
  const KillTable planted = d.kills.part(false), held_out = d.kills.part(true);
  const auto add = [&](const KillTable& kills) {
    out += shown(mutants_table(kills.rows, true)) + '\n' + shown(rules_table(kills, healthy_of(d)));
    if (const Table survivors = survivors_table(kills); !survivors.rows.empty())
      out += "\nnot killed\n" + std::string(markdown ? "\n" : "") + shown(survivors);
  };
  if (!planted.rows.empty()) add(planted);
  if (!held_out.rows.empty()) {
    out +=
        std::string(planted.rows.empty() ? "" : "\n") + "held out: mutants that the judge was not written against\n\n";
    add(held_out);
  }
  for (const std::string& alarm : d.kills.judged) out += "\nfalse alarm: " + alarm + '\n';
  if (!d.power.empty())
    out += fmt::format("\n{} in bf16, over seeds\n{}{}", d.kills.options.power, markdown ? "\n" : "",
                       shown(power_table(d.power)));
  if (!d.smallest.empty()) {
    out += fmt::format("\nsmallest failing cases\n{}{}", markdown ? "\n" : "", shown(shrink_table(d.smallest)));
    if (const Table large = not_small_table(d.smallest); !large.rows.empty()) out += '\n' + shown(large);
  }
  if (!planted.rows.empty()) out += '\n' + summary_of(planted);
  if (!held_out.rows.empty()) out += "\nheld out: " + summary_of(held_out);
  if (d.healthy) out += healthy_lines(*d.healthy);
  return out + "reproduce: " + d.kills.options.command() + '\n';
}

std::string html_of(const Detection& d) {
  std::vector<std::pair<std::string, Table>> tables;
  std::vector<Plot> plots;
  std::vector<std::string> notes;
  for (const bool held_out : {false, true}) {
    const KillTable kills = d.kills.part(held_out);
    if (kills.rows.empty()) continue;
    const std::string which = held_out ? "Held out: " : "";
    plots.push_back(kill_plot(kills));
    tables.emplace_back(which + "rules", rules_table(kills, healthy_of(d)));
    tables.emplace_back(which + "not killed", survivors_table(kills));
    tables.emplace_back(which + "mutants", mutants_table(kills.rows, true));
    notes.push_back(which + summary_of(kills));
  }
  for (const std::string& alarm : d.kills.judged) notes.push_back("false alarm: " + alarm);
  if (d.healthy) notes.push_back(healthy_lines(*d.healthy));
  notes.push_back("reproduce: " + d.kills.options.command());
  return as_html("assay-lab mutants: planted faults against the judge, and against the rules that others use",
                 {declared_rate()}, plots, tables, notes);
}

std::string detection_page(const Detection& d) {
  const KillTable kills = d.kills.part(false);
  const std::string command = kills.options.command() + " --docs -o records/detection.md";
  std::string page = fmt::format("<!-- written by `{0}` -->\n{1}    {0}\n{2}", command, opening, what_is_measured);
  Table rules = Table().numbers({""}).words({"rule", "passes if", "from", "cannot see"});
  rules.add(judge_rule, rule_name(judge_rule), "[judge.md](../docs/judge.md)", "computed from contract and data",
            "[survivors](#survivors)");
  for (std::size_t rule = 1; rule <= rivals().size(); ++rule) {
    const Rival& rival = rivals()[rule - 1];
    rules.add(rule, rival.name, text('`', rival.rule, '`'), rival.source, rival.blind);
  }
  rules.add(model_rule(), rule_name(model_rule()), what_model_asks,
            "[judge-derivation.md](../docs/judge-derivation.md#model)",
            "what costs digits that other algorithms lose, too");
  page += rules.markdown(Table::Cells::markup);
  page += about_rules;
  page += summary_of(kills) + '\n' + rules_table(kills, healthy_of(d)).markdown(Table::Cells::markup);
  page += about_result;
  page += exact_table(kills).markdown(Table::Cells::markup) + std::string(about_exact) + "## Survivors\n\n";
  const Table survivors = survivors_table(kills);
  page += survivors.rows.empty() ? "None: the judge kills every mutant.\n\n"
                                 : survivors.markdown(Table::Cells::markup) + '\n';
  page += held_out_section(d.kills.part(true));

  if (!d.power.empty()) {
    page += fmt::format(
        "## Power over seeds\n\n`{}` in bf16, under the contract that accumulates in fp32: outputs of the forward pass "
        "alone, the smallest tile, one head\nof 16 dimensions (8 where a system is solved). 60 seeds, or until three "
        "have missed it in o; lengths doubling to {}, or until all find it in o.\n`found` is by any output, final "
        "states among them; `power` is what 95% confidence leaves; `false alarms` are healthy kernels rejected.\n\n",
        kills.options.power, kills.options.power_tokens);
    page += power_table(d.power).markdown(Table::Cells::markup);
    page += about_power;
  }

  page += shrinking_section(d.smallest);
  page += fmt::format("## False alarms\n\nThe {}.\n\n", declared_rate());
  if (!kills.judged.empty()) {
    page += "Healthy kernels that the judge rejects on the mutants' cases:\n\n```\n";
    for (const std::string& alarm : kills.judged) page += alarm + '\n';
    page += "```\n\n";
  }
  if (d.healthy)
    page += fmt::format(
        "Healthy kernels on fresh cases: every form in turn; style, precision from fp64 to e5m2, setting, length (1 to "
        "70), heads and dimensions drawn from\nthe seed.\n\n```\n{}```\n\n",
        healthy_lines(*d.healthy));

  page += about_mutants;
  for (const std::span<const MutantRow> rows : by_kernel(kills.rows))
    page += fmt::format("\n### {} {}\n\n```\n{}```\n", rows.front().room, rows.front().form,
                        mutants_table(rows, false).text());
  return page;
}

}  // namespace assay
