#include "tools/print/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "files/in_words.hpp"
#include "files/names.hpp"
#include "files/shown.hpp"
#include "judge/court/why.hpp"
#include "judge/sigma/model.hpp"
#include "tools/cases/suite_cases.hpp"
#include "tools/print/colours.hpp"

namespace assay {
namespace {

std::string short_number(double x) { return x == 0 ? "0" : fmt::format("{:.2e}", x); }

std::string short_ratio(double x) {
  if (!std::isfinite(x)) return fmt::format("{}", x);
  if (x >= 1e5) return fmt::format("{:.1e}", x);
  return x >= 100 ? fmt::format("{:.0f}", x) : fmt::format("{:.{}f}", x, x >= 10 ? 1 : 2);
}

/// g as a percentage.
std::string percent(double g) {
  if (!std::isfinite(g)) return "none";
  return (g < 1e-4 ? fmt::format("{:.1e}", 100 * g) : short_ratio(100 * g)) + '%';
}

bool same_kernel(const ReportRow& a, const ReportRow& b) {
  return a.device == b.device && a.mechanism == b.mechanism && a.form == b.form && a.shape == b.shape &&
         a.of_case == b.of_case;
}

bool weighed(const ReportRow& row) { return row.by_model || row.by_contract; }

std::string excess_of(const std::optional<Weighed>& weighed) {
  if (!weighed || weighed->verdict == Verdict::unsupported || weighed->verdict == Verdict::error) return "-";
  return short_ratio(weighed->excess);
}

/// The largest error in multiples of sigma; of a number that nothing rounds there is no such multiple.
std::string worst_in_sigmas(const Judgement& j) {
  return std::isinf(j.worst_z) && std::isfinite(j.max_error) ? "-" : short_ratio(j.worst_z);
}

/// Up to which excess the model passes.
double model_limit(const ReportRow& row) {
  return model_factor(format_from(row.precision).value_or(Format::fp32)).passes;
}

std::vector<std::string> details_of(const ReportRow& row) {
  const Judgement& j = row.judgement;
  if (!row.judged()) return {"-", "-", "-", "-", "-", "-", "-"};
  return {short_number(j.relative_error), short_number(j.max_error), location(row, j.max_error_at),
          short_ratio(j.worst_ulps),      short_ratio(j.rms_z),      worst_in_sigmas(j),
          percent(j.smallest_gain)};
}

/// The contract's summary and rules, for the head of a page.
std::vector<std::string> lines_of(const Contract& contract) {
  std::string what = fmt::format("contract  {}", contract.name);
  if (!contract.file.empty()) what += " (" + contract.file + ")";
  if (!contract.summary.empty()) what += ": " + contract.summary;
  std::string rules = fmt::format("          sites as in {}", name_of(contract.precision));
  for (const Contract::Rule& rule : contract.rules)
    rules += fmt::format(", {} {}", rule.site, name_of(rule.format, rule.blocks));
  for (const std::string& clause : contract.clauses()) rules += ", " + clause;
  return {what, rules};
}

const std::vector<Table::Column> detail_columns = {
    {"rel.error", true}, {"max error", true}, {"at"}, {"ulp", true}, {"rms", true}, {"worst", true}, {"gain", true}};

using Rows = std::vector<ReportRow>;

/// The faults that the case would have hidden, and where they show: "a state in bf16, beta in bf16; `assay suite
/// deltanet` has ...".
std::string cannot_see(const ReportRow& row) {
  const std::vector<std::string>& unseen = row.detects->unseen;
  if (unseen.empty()) return "";
  const Suite* suite = find_suite(row.mechanism);
  const auto shows = [&](const std::string& name) {
    return suite != nullptr && std::any_of(suite->blind_spots.begin(), suite->blind_spots.end(),
                                           [&](const auto& spot) { return spot.name == name && spot.by_contract > 0; });
  };
  const auto shown = std::count_if(unseen.begin(), unseen.end(), shows);
  std::string words = names_in(unseen);
  if (shown == 0) return words;
  return words + fmt::format("; `assay suite {}` has cases that {}", row.mechanism,
                             shown == static_cast<std::ptrdiff_t>(unseen.size()) ? "do" : "see some of it");
}

/// For each precision of a kernel: the faults that its tensors would have shown. A tensor that fails shows no gain.
std::vector<std::string> detections_of(const std::vector<const ReportRow*>& rows) {
  std::vector<std::string> lines;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t end = first;
    const ReportRow *told = nullptr, *sharpest = nullptr;
    for (; end < rows.size() && rows[end]->precision == rows[first]->precision; ++end) {
      const Judgement& j = rows[end]->judgement;
      if (rows[end]->judged() && rows[end]->detects) told = rows[end];
      if (rows[end]->judged() && j.verdict != Verdict::fail &&
          (sharpest == nullptr || j.smallest_gain < sharpest->judgement.smallest_gain))
        sharpest = rows[end];
    }
    const std::string gain = sharpest == nullptr ? ""
                                                 : fmt::format("{} {} too large", sharpest->tensor,
                                                               percent(sharpest->judgement.smallest_gain));
    if (told != nullptr) {
      const std::string others = detected_by(*told), between = gain.empty() || others.empty() ? "" : "; ";
      if (!gain.empty() || !others.empty())
        lines.push_back(fmt::format("detects  {}: {}{}{}", rows[first]->precision, gain, between, others));
      if (const std::string unseen = cannot_see(*told); !unseen.empty())
        lines.push_back(fmt::format("cannot see  {}: {}", rows[first]->precision, unseen));
    }
    first = end;
  }
  return lines;
}

/// The rows of one kernel as a table, the precision named where it changes.
Table kernel_table(const std::vector<const ReportRow*>& rows, bool repeat_precision) {
  Table table = Table().words({"precision", "tensor"});
  table.columns.insert(table.columns.end(), detail_columns.begin(), detail_columns.end());
  const bool both = std::any_of(rows.begin(), rows.end(), [](const ReportRow* row) { return weighed(*row); });
  if (both) table.numbers({"model", "contract"});
  table.words({"verdict"});
  const ReportRow* previous = nullptr;
  for (const ReportRow* row : rows) {
    const bool again = !repeat_precision && previous != nullptr && previous->precision == row->precision;
    std::vector<std::string> cells{again ? "" : row->precision, row->tensor.empty() ? "-" : row->tensor};
    for (std::string& cell : details_of(*row)) cells.push_back(std::move(cell));
    if (both) cells.push_back(excess_of(row->by_model)), cells.push_back(excess_of(row->by_contract));
    cells.emplace_back(name_of(row->judgement.verdict));
    table.rows.push_back(std::move(cells));
    previous = row;
  }
  return table;
}

/// Of the rows of one kernel and precision everything but where the errors are largest.
Table narrow_table(const std::vector<const ReportRow*>& rows) {
  const Table all = kernel_table(rows, true);
  Table table{{}, std::vector<std::vector<std::string>>(all.rows.size())};
  for (std::size_t c = 0; c < all.columns.size(); ++c) {
    if (all.columns[c].name == "precision" || all.columns[c].name == "at") continue;
    table.columns.push_back(all.columns[c]);
    for (std::size_t r = 0; r < all.rows.size(); ++r) table.rows[r].push_back(all.rows[r][c]);
  }
  return table;
}

/// How many times a tensor's error is what it is allowed, where it is that most: of elements, root mean square, sums.
double times_allowed(const ReportRow& row) {
  return row.evidence == "model" && row.by_model ? row.by_model->excess / model_limit(row) : row.judgement.excess;
}

/// What the verdict hangs on. An error that is scaled is so many times closer to its limits: `allowed` is the relative
/// error that would be at them.
Table short_table(const std::vector<const ReportRow*>& rows) {
  Table table = Table().words({"tensor"}).numbers({"error", "allowed", "times"}).words({"verdict"});
  for (const ReportRow* row : rows) {
    std::vector<std::string> cells{row->tensor.empty() ? "-" : row->tensor, "-", "-", "-",
                                   std::string(name_of(row->judgement.verdict))};
    if (row->judged()) {
      const double error = row->judgement.relative_error, times = times_allowed(*row), allowed = error / times;
      cells[1] = short_number(error), cells[3] = short_ratio(times);
      if (std::isfinite(allowed) && allowed > 0) cells[2] = short_number(allowed);
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string title_of(const ReportRow& row) {
  const char* tiles = row.tile.find(',') == std::string::npos ? "tile" : "tiles";
  return fmt::format("{}, {} {}, shape B,T,H,K,V = {}{}{}", kernel_of(row), tiles, row.tile, row.shape,
                     contract_of(row) == row.precision ? "" : ", contract " + row.contract,
                     row.judged_by.empty() ? "" : ", judged by the spread of " + row.judged_by);
}

}  // namespace

std::vector<KernelTable> kernel_tables(const Rows& rows, Columns columns) {
  std::vector<KernelTable> kernels;
  for (const ReportRow& row : rows) {
    if (kernels.empty() || !same_kernel(*kernels.back().rows.front(), row))
      kernels.push_back({title_of(row), {}, {}, {}});
    kernels.back().rows.push_back(&row);
  }
  for (KernelTable& kernel : kernels)
    kernel.table = columns == Columns::few      ? short_table(kernel.rows)
                   : columns == Columns::narrow ? narrow_table(kernel.rows)
                                                : kernel_table(kernel.rows, columns == Columns::all_with_precision),
    kernel.detects = detections_of(kernel.rows);
  return kernels;
}

// The worst relative error of a tensor and the rms of error / sigma over the elements of all, or what is not a pass.
Table summary_of(const Rows& rows) {
  Table table = Table().words({"rel.error, rms"});
  std::vector<std::string> precisions;
  for (const ReportRow& row : rows)
    if (std::find(precisions.begin(), precisions.end(), row.precision) == precisions.end()) {
      precisions.push_back(row.precision);
      table.numbers({row.precision});
    }
  const ReportRow* previous = nullptr;
  for (const ReportRow& first : rows) {
    if (previous != nullptr && same_kernel(*previous, first)) continue;
    previous = &first;
    std::vector<std::string> cells{kernel_of(first)};
    for (const std::string& precision : precisions) {
      double error = 0, squares = 0, elements = 0;
      Verdict verdict = Verdict::pass;
      bool any = false;
      for (const ReportRow& row : rows) {
        if (!same_kernel(row, first) || row.precision != precision) continue;
        any = true;
        const double n = std::accumulate(row.extents.begin(), row.extents.end(), 1.0, std::multiplies<>());
        error = std::max(error, row.judgement.relative_error);
        squares += n * row.judgement.rms_z * row.judgement.rms_z, elements += n;
        verdict = worse_of(verdict, row.judgement.verdict);
      }
      cells.push_back(!any              ? ""
                      : passes(verdict) ? fmt::format("{:.1e} {:.2f}", error, std::sqrt(squares / elements))
                                        : std::string(name_of(verdict)));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string kernel_of(const ReportRow& row) {
  return shown_mechanism(row) + ' ' + row.form +
         (row.device == cpu_executor || row.device.empty() ? "" : " on " + row.device) +
         (row.of_case.empty() ? "" : ", " + row.of_case + ',');
}

std::string evidence_of(const ReportRow& row) {
  if (!weighed(row)) return "";
  return "model " + excess_of(row.by_model) + ", contract " + excess_of(row.by_contract);
}

std::string count_of(const std::vector<ReportRow>& rows, const std::vector<std::string>& not_judged) {
  std::string counts;
  for (const Verdict verdict : all_verdicts) {
    const auto n = std::count_if(rows.begin(), rows.end(),
                                 [verdict](const ReportRow& row) { return row.judgement.verdict == verdict; });
    if (n > 0) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", n, name_of(verdict));
  }
  const std::string unseen = names_in(not_judged);
  return fmt::format("{}: {}{}", counted(rows.size(), "tensor"), counts,
                     unseen.empty() ? "" : "; NOT JUDGED: " + unseen);
}

std::string verdict_line(const std::vector<ReportRow>& rows, const std::vector<std::string>& not_judged) {
  const std::string left = not_judged.empty() ? "" : "; NOT JUDGED: " + names_in(not_judged);
  const Verdict worst = worst_of(rows);
  std::map<std::string, std::vector<const ReportRow*>> by;
  std::vector<std::string> unseen, wrong;
  for (const ReportRow& row : rows)
    if (row.judgement.verdict == Verdict::unseen)
      unseen.push_back(row.tensor);
    else if (row.judgement.verdict == Verdict::pass)
      by[row.evidence.empty() ? "contract " + contract_of(row) : row.evidence].push_back(&row);
    else if (row.judgement.verdict == worst)
      wrong.push_back(row.tensor.empty() ? "all tensors" : row.tensor);
  if (!passes(worst))
    return fmt::format("{}  {} of {}: {}{}", name_of(worst), wrong.size(), counted(rows.size(), "tensor"),
                       names_in(wrong), left);
  std::string line;
  for (const auto& [evidence, passing] : by) {
    const auto smaller = [](const ReportRow* a, const ReportRow* b) { return times_allowed(*a) < times_allowed(*b); };
    const ReportRow* largest = *std::max_element(passing.begin(), passing.end(), smaller);
    line += fmt::format("{}{} by {}{}, the largest error {} of the allowed one ({})", line.empty() ? "" : "; ",
                        counted(passing.size(), "tensor"), evidence == "model" ? "the " : "", evidence,
                        short_ratio(times_allowed(*largest)), largest->tensor);
  }
  return "PASS  " + line + (unseen.empty() ? "" : "; nothing to see in " + names_in(unseen)) + left;
}

std::vector<std::string> complaints_of(const std::vector<ReportRow>& rows, const std::optional<std::string>& first) {
  std::vector<std::string> lines;
  for (const ReportRow& row : rows) {
    if (!first.value_or("").empty() && row.judgement.verdict == Verdict::fail && row.tensor != *first) continue;
    const std::string kernel = kernel_of(row) + ' ' + contract_of(row) + ' ', about = kernel + row.tensor + ": ";
    const auto note = [&](const std::string& words) { lines.push_back("note  " + about + words); };
    if (!row.why.empty()) lines.push_back("why   " + about + row.why);
    if (row.stall > 0)
      note(
          fmt::format("rounding to nearest stalls or meets ties, {} sigma of what randomised rounding shows; limits "
                      "allow for it",
                      short_ratio(row.stall)));
    if (row.judgement.verdict == Verdict::unseen && !first) note(row.judgement.reason);
    if (passes(row.judgement.verdict)) {
      if (is_loose(row))
        note(fmt::format("rounds more than {0} allows, {1} times its limit{2}; --contract {0} fails{3}",
                         contract_of(row), short_ratio(row.by_contract->excess),
                         row.rounded_at.empty() ? "" : ": " + row.rounded_at,
                         row.rounded_at.empty() ? ", --why looks for the rounding" : ""));
      if ((row.evidence.starts_with("contract ") || row.evidence.starts_with("form ")) && row.by_model &&
          row.by_model->verdict != Verdict::pass)
        note("passes under " + row.evidence);
      if (row.judgement.infinite > 0)
        note(fmt::format("{} {} infinite, as no number of its dtype is so large", row.judgement.infinite,
                         row.judgement.infinite == 1 ? "element is" : "elements are"));
      if (row.judgement.verdict == Verdict::pass && !row.judgement.accepted_corruptions.empty())
        note(row.judgement.reason + "; other tensors show it");
      if (!row.judgement.blind_spots.empty()) note("this case cannot show " + names_in(row.judgement.blind_spots));
      continue;
    }
    const std::string told = (row.tensor.empty() ? "all tensors" : row.tensor) + ": " + row.judgement.reason;
    lines.push_back(row.tensor == first ? told : fmt::format("{}  {}{}", name_of(row.judgement.verdict), kernel, told));
    if (!row.where.empty()) lines.push_back("      where: " + row.where);
    if (!first) lines.push_back("      " + typed_here(row.command));
  }
  return lines;
}

std::vector<std::string> column_legend() {
  return {"columns   rel.error: Frobenius norms; max error: absolute; ulp: worst, in the output's format,",
          "          at the value or the tensor's root mean square if that is larger;",
          "          rms, worst: error in multiples of sigma, what a correct kernel spreads by;",
          "          gain: the smallest gain error that this check would catch"};
}

std::vector<std::string> legend(const Contract* contract, double false_alarms, bool in_short) {
  std::vector<std::string> lines;
  if (contract != nullptr && !contract->plain())
    lines = lines_of(*contract);
  else if (!in_short)
    lines = {"contract  operands and outputs in the precision (tf32: outputs fp32; e4m3, e5m2: outputs bf16),",
             "          accumulators and gates in fp32; fp64: all in fp64"};
  if (!in_short)
    for (std::string& line : column_legend()) lines.push_back(std::move(line));
  lines.push_back(fmt::format(
      "limits    correct kernels fail, in any of these tensors, with a probability of {} at most", false_alarms));
  return lines;
}

std::vector<std::string> evidence_legend(Format precision, const std::string& contract, Decides decides,
                                         const std::string& form) {
  const ModelFactor factor = model_factor(precision);
  std::vector<std::string> lines = {
      fmt::format("evidence  model: error in units of what roundings to {} do in the recurrence, up to {:g} is right,",
                  name_of(precision), factor.passes),
      fmt::format(
          "          above {:g} no rounding explains it; contract: in units of what {} allows, up to 1 keeps it",
          factor.fails, contract)};
  lines.push_back(
      decides == Decides::model
          ? "          the model decides; where it leaves a tensor open, a named contract that fits is enough"
      : form.empty() ? fmt::format("          contract {} decides", contract)
                     : fmt::format("          form {} decides, its marks rounded as {} says; proven to be the "
                                   "mechanism on this case",
                                   form, contract));
  return lines;
}

std::string detected_by(const ReportRow& row) {
  return row.detects && row.form != "any" ? row.detects->sentence() : "";
}

std::string location(const ReportRow& row, std::size_t flat) {
  return row.tensor + (row.place ? row.place(flat) : place(row.extents, flat));
}

std::string_view name_of(RowsFormat format) {
  constexpr std::string_view names[] = {"table", "markdown", "html", "json", "csv", "junit", "sarif", "github"};
  return names[static_cast<int>(format)];
}

std::optional<RowsFormat> rows_format_from(std::string_view name) { return entry_named(all_rows_formats, name); }

}  // namespace assay
