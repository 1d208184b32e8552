#include "tools/court/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "files/layout.hpp"
#include "judge/sigma/stored.hpp"
#include "judge/verdict/locate.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/cases/problem_file.hpp"
#include "tools/cases/suite_cases.hpp"
#include "tools/court/cache.hpp"
#include "tools/print/ci_formats.hpp"
#include "tools/print/colours.hpp"
#include "tools/print/escape.hpp"
#include "tools/print/html_page.hpp"
#include "tools/print/matrix.hpp"

namespace assay {
namespace {

/// The index in a file of an element of a problem's tensor.
std::string place_in_file(const FileLayout& layout, std::size_t flat) {
  const std::vector<int>& shape = layout.problem_shape();
  if (shape.empty()) return "";
  std::vector<int> index(shape.size());
  for (std::size_t r = shape.size(); r-- > 0;) {
    const auto n = static_cast<std::size_t>(shape[r]);
    index[r] = static_cast<int>(flat % n), flat /= n;
  }
  const int block = index.front();
  index.erase(index.begin());
  return layout.place_in_file(block, index);
}

std::string name_of_tile(const Trial& trial, int tile) {
  return std::string(trial.kernel.form->tiles[static_cast<std::size_t>(tile)]);
}

/// The tile shapes that count.
std::vector<int> tiles_of(const Trial& trial) {
  return trial.tiles.empty() ? std::vector{trial.kernel.tile} : trial.tiles;
}

/// Those that an answer is held against.
std::vector<int> judged_tiles(const Trial& trial) {
  std::vector<int> tiles = tiles_of(trial);
  if (trial.glance) tiles.resize(1);
  return tiles;
}

/// Allows for the dtypes of the answer. By tensor: the contract's format, where it is wider.
std::map<std::string, Format> allow_dtypes(const Trial& trial, Expectation& expectation) {
  std::map<std::string, Format> wider;
  for (auto& [name, expected] : expectation.tensors) {
    const auto dtype = trial.stored.find(name);
    if (dtype == trial.stored.end()) continue;
    const Format contract = expected.stored;
    if (trial.strict_dtypes ? is_narrower(dtype->second, contract) : allow_storage(expected, dtype->second))
      wider[name] = contract;
  }
  return wider;
}

/// Says of a tensor whose dtype is narrower than the contract's what it is, and fails it where that is asked for.
void note_dtype(const Trial& trial, const std::map<std::string, Format>& wider, ReportRow& row) {
  const auto contract = wider.find(row.tensor);
  if (contract == wider.end()) return;
  row.stored = name_of(trial.stored.at(row.tensor)), row.stored_by_contract = name_of(contract->second);
  if (!trial.strict_dtypes) return;
  row.judgement.verdict = Verdict::fail, row.where.clear();
  row.judgement.reason = fmt::format("is stored in {}, and the contract stores it in {}: --strict-dtypes refuses that",
                                     row.stored, row.stored_by_contract);
}

/// What is expected of the kernel in each of the tile shapes that count. Whatever it answers: a number that 16 draws
/// know too little gets 64, and where an everyday bound is not sharp enough, the oracle answers in four words.
std::vector<Expectation> learnt(const Trial& trial, const std::function<bool(const std::string&)>& wanted) {
  const std::vector<int> tiles = judged_tiles(trial);
  std::vector<KernelRuns> runs(tiles.size());
  const std::string contract =
      "contract " +
      (trial.kernel.contract == nullptr ? std::string(name_of(trial.kernel.precision)) : trial.kernel.contract->name);
  const auto each = [&](auto f) {
    for (std::size_t s = 0; s < tiles.size(); ++s) {
      KernelUnderTest kernel = trial.kernel;
      kernel.tile = tiles[s];
      f(runs[s], kernel);
    }
  };
  std::optional<Oracle> sharper;
  const auto expected = [&] {
    return expect(sharper ? *sharper : trial.oracle, trial.kernel, tiles, trial.problem, runs, trial.false_alarms);
  };
  std::size_t done = 0;
  each([&](KernelRuns& r, const KernelUnderTest& kernel) {
    if (trial.phase) trial.phase(contract + ", tile shapes", done++, tiles.size());
    // What solves step by step means another number than the truth, and only an exact run knows which.
    const bool by_truth = trial.glance && !kernel.form->iterative;
    add_runs(r, kernel, trial.problem, trial.glance ? draws_at_a_glance : default_draws,
             by_truth ? &trial.oracle : nullptr);
  });
  std::vector<Expectation> expectations = expected();
  const auto any = [&](bool (*asks)(const Expectation&, const std::function<bool(const std::string&)>&)) {
    return std::any_of(expectations.begin(), expectations.end(), [&](const auto& e) { return asks(e, wanted); });
  };
  const bool words = any(asks_for_words), draws = !trial.glance && any(asks_for_draws);
  if (words) sharper = oracle_of(trial.room, trial.problem, 4);
  if (draws)
    each(
        [&](KernelRuns& r, const KernelUnderTest& kernel) { add_numbers(r, kernel, trial.problem, draws_of_numbers); });
  return words || draws ? expected() : std::move(expectations);
}

/// All that what is learnt depends on.
std::string key_of(const Trial& trial, const std::function<bool(const std::string&)>& wanted) {
  std::string key = fmt::format("contract {} {} {} glance {} tiles", trial.digest, key_of(trial.kernel),
                                trial.false_alarms, trial.glance);
  for (const int tile : judged_tiles(trial)) key += fmt::format(" {}", tile);
  for (const auto& [name, truth] : trial.oracle.tensors)
    if (!wanted || wanted(name)) key += ' ' + name;
  return key;
}

std::vector<ReportRow> judged(const Trial& trial, ReportRow row, const std::optional<Answer>& got,
                              const std::function<bool(const std::string&)>& wanted) {
  const std::vector<int> tiles = judged_tiles(trial);
  const std::string key = trial.cache == nullptr ? "" : key_of(trial, wanted);
  std::vector<Expectation> expectations = kept_in(trial.cache, key, [&] { return learnt(trial, wanted); });
  if (got && wanted)
    for (Expectation& expectation : expectations)
      std::erase_if(expectation.tensors, [&](const auto& tensor) { return !wanted(tensor.first); });
  std::vector<std::map<std::string, Format>> wider;
  for (Expectation& expectation : expectations) wider.push_back(allow_dtypes(trial, expectation));
  const Named<std::vector<double>> answer =
      got ? in_report_order(*got, expectations.front()) : expectations.front().emulated;
  std::vector<ReportRow> rows;
  if (trial.detects) {
    KernelUnderTest first = trial.kernel;
    first.tile = tiles.front();
    std::string stored;
    for (const auto& [name, format] : trial.stored) stored += fmt::format(" {}:{}", name, name_of(format));
    row.detects = kept_in(trial.cache, fmt::format("detects {} stored {} {}", key, trial.strict_dtypes, stored),
                          [&] { return detectability_of(trial.room, first, trial.problem, expectations); });
    if (trial.glance && tiles_of(trial).size() > 1)
      row.detects->tile = trial.kernel.form->tiles[static_cast<std::size_t>(first.tile)];
  }
  for (const auto& [name, truth] : trial.oracle.tensors) {
    if (truth.value.empty() || (wanted && !wanted(name))) continue;
    row.tensor = name, row.extents = truth.shape;
    row.judgement = {}, row.where.clear(), row.stall = 0, row.draws = default_draws, row.expected.reset();
    row.stored.clear(), row.stored_by_contract.clear();
    row.judgement.verdict = Verdict::unsupported, row.judgement.reason = "the kernel does not answer it";
    if (trial.in_file) row.place = place_in_file_of(trial.room, name, truth.shape, trial.batch);
    for (std::size_t t = 0; t < answer.size(); ++t) {
      if (answer[t].first != name) continue;
      std::vector<Judgement> judgements;
      for (Expectation& expectation : expectations) {
        Expected& expected = expectation.tensors[t].second;
        expected.place = row.place;
        judgements.push_back(judge(expected, answer[t].second));
      }
      const std::size_t s = fitting(judgements);
      const Expected& expected = expectations[s].tensors[t].second;
      row.ulp_format = name_of(expected.ulp_format), row.stall = expected.stall, row.draws = expected.draws;
      row.fits = tiles_of(trial).size() > 1 ? name_of_tile(trial, tiles[s]) : "", row.judgement = judgements[s];
      if (row.judgement.verdict == Verdict::fail)
        row.where = locate(named_axes(answer_field(trial.room, name), truth.shape, trial.batch),
                           deviations_of(expected, answer[t].second));
      note_dtype(trial, wider[s], row);
      if (got) row.expected = std::make_shared<const Expected>(std::move(expectations[s].tensors[t].second));
    }
    rows.push_back(row);
  }
  return rows;
}

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

std::string location(const ReportRow& row, std::size_t flat) {
  return row.tensor + (row.place ? row.place(flat) : place(row.extents, flat));
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

std::vector<std::string> details_of(const ReportRow& row) {
  const Judgement& j = row.judgement;
  if (!row.judged()) return {"-", "-", "-", "-", "-", "-", "-"};
  return {short_number(j.relative_error), short_number(j.max_error), location(row, j.max_error_at),
          short_ratio(j.worst_ulps),      short_ratio(j.rms_z),      short_ratio(j.worst_z),
          percent(j.smallest_gain)};
}

/// What that contract says, for the head of a page.
std::vector<std::string> lines_of(const Contract& contract) {
  std::string what = fmt::format("contract  {}", contract.name);
  if (!contract.file.empty()) what += " (" + contract.file + ")";
  if (!contract.summary.empty()) what += ": " + contract.summary;
  std::string rules = fmt::format("          sites as in {}", name_of(contract.precision));
  for (const Contract::Rule& rule : contract.rules) rules += fmt::format(", {} {}", rule.site, name_of(rule.format));
  for (const std::string& clause : contract.clauses()) rules += ", " + clause;
  return {what, rules};
}

const std::vector<Table::Column> detail_columns = {
    {"rel.error", true}, {"max error", true}, {"at"}, {"ulp", true}, {"rms", true}, {"worst", true}, {"gain", true}};

using Rows = std::vector<ReportRow>;

/// What the case would have hidden, and where it shows: "a state in bf16, beta in bf16; `assay suite deltanet` has
/// ...".
std::string cannot_see(const ReportRow& row) {
  const std::vector<std::string>& unseen = row.detects->unseen;
  if (unseen.empty()) return "";
  const Suite* suite = find_suite(row.mechanism);
  const auto shows = [&](const std::string& name) {
    return suite != nullptr && std::any_of(suite->blind_spots.begin(), suite->blind_spots.end(),
                                           [&](const auto& spot) { return spot.name == name && spot.by_contract > 0; });
  };
  const auto shown = std::count_if(unseen.begin(), unseen.end(), shows);
  std::string words = names_in(unseen, [](const std::string& name) { return name; });
  if (shown == 0) return words;
  return words + fmt::format("; `assay suite {}` has cases that {}", row.mechanism,
                             shown == static_cast<std::ptrdiff_t>(unseen.size()) ? "do" : "see some of it");
}

/// Of each precision of a kernel: what its tensors would have shown. One that fails shows no gain: it fails without.
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
                                                 : fmt::format("{} {} too large; ", sharpest->tensor,
                                                               percent(sharpest->judgement.smallest_gain));
    if (told != nullptr) {
      lines.push_back(fmt::format("detects  {}: {}{}", rows[first]->precision, gain, told->detects->sentence()));
      if (const std::string unseen = cannot_see(*told); !unseen.empty())
        lines.push_back(fmt::format("cannot see  {}: {}", rows[first]->precision, unseen));
    }
    first = end;
  }
  return lines;
}

/// The rows of one kernel as a table, the precision named where it changes.
Table kernel_table(const std::vector<const ReportRow*>& rows, bool repeat_precision) {
  Table table{{{"precision"}, {"tensor"}}, {}};
  table.columns.insert(table.columns.end(), detail_columns.begin(), detail_columns.end());
  const bool both = std::any_of(rows.begin(), rows.end(), [](const ReportRow* row) { return weighed(*row); });
  if (both) table.columns.push_back({"model", true}), table.columns.push_back({"contract", true});
  table.columns.push_back({"verdict"});
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

std::string title_of(const ReportRow& row) {
  const char* tiles = row.tile.find(',') == std::string::npos ? "tile" : "tiles";
  return fmt::format("{}, {} {}, shape B,T,H,K,V = {}{}{}", kernel_of(row), tiles, row.tile, row.shape,
                     contract_of(row) == row.precision ? "" : ", contract " + row.contract,
                     row.judged_by.empty() ? "" : ", judged by the spread of " + row.judged_by);
}

/// The rows whose kernels have tables of their own, and complaints.
const Rows& told_one_by_one(const Page& page, const Rows& rows) {
  static const Rows none;
  return page.overview ? none : rows;
}

/// The rows that text has lines for.
Rows shown_in_text(const Page& page, const Rows& rows) {
  Rows shown = told_one_by_one(page, rows);
  if (page.brief) std::erase_if(shown, [](const ReportRow& row) { return row.judgement.verdict == Verdict::pass; });
  return shown;
}

std::string as_text(const Page& page, const Rows& rows) {
  const Rows shown = shown_in_text(page, rows);
  const Table::Colour colour = page.colours ? colour_of : Table::Colour();
  std::string out;
  for (const std::string& line : page.header) out += plain_text(line) + '\n';
  if (page.matrix)
    for (const Table& table : verdict_matrix(rows)) out += '\n' + table.text(0, colour);
  if (page.brief && !shown.empty()) out += '\n' + fmt::format("{}\n", fmt::join(column_legend(), "\n"));
  if (page.overview) out += '\n' + page.overview->text(0, colour);
  for (const KernelTable& kernel : kernel_tables(shown, false)) {
    out += '\n' + plain_text(kernel.title) + '\n' + kernel.table.text(2, colour);
    if (page.brief) continue;
    for (const std::string& line : kernel.detects) out += "  " + plain_text(line) + '\n';
  }
  if (page.summary && !page.brief) out += '\n' + summary_of(rows).text(0, colour);
  out += '\n';
  for (const std::string& line : page.findings) out += plain_text(line) + '\n';
  for (const std::string& line : complaints_of(shown)) {
    const std::string words = plain_text(line), verdict = words.substr(0, words.find(' '));
    out += (page.colours ? coloured(verdict, colour_of(verdict)) : verdict) + words.substr(verdict.size()) + '\n';
  }
  out += count_of(rows) + "\nreproduce: " + plain_text(page.command) + '\n';
  for (const std::string& line : page.notes) out += plain_text(line) + '\n';
  return out;
}

std::string as_markdown(const Page& page, const Rows& rows) {
  std::string out =
      "# " + markdown_text(page.header.front()) + "\n\n" + markdown_block({page.header.begin() + 1, page.header.end()});
  if (page.summary) out += '\n' + summary_of(rows).markdown();
  if (page.overview) out += '\n' + page.overview->markdown();
  for (const KernelTable& kernel : kernel_tables(told_one_by_one(page, rows), true)) {
    out += "\n## " + markdown_text(kernel.title) + "\n\n" + kernel.table.markdown() + '\n';
    for (const std::string& line : kernel.detects) out += "- " + markdown_text(line) + '\n';
  }
  out += '\n' + count_of(rows) + '\n';
  std::vector<std::string> lines = page.findings;
  for (const std::string& line : complaints_of(told_one_by_one(page, rows))) lines.push_back(line);
  if (!lines.empty()) out += '\n' + markdown_block(lines);
  out += "\nReproduce: " + markdown_code(page.command) + "\n";
  return out + (page.notes.empty() ? "" : '\n' + markdown_block(page.notes));
}

/// Names of files need not be UTF-8.
std::string dumped(const Json& json) { return json.dump(2, ' ', true, Json::error_handler_t::replace) + '\n'; }

/// Everything that is known of a row, in the order of the columns of CSV and the keys of JSON.
Json record_of(const ReportRow& row) {
  const Judgement& j = row.judgement;
  Json record = {{"device", row.device}, {"mechanism", row.mechanism}, {"form", row.form},
                 {"tile", row.tile},     {"precision", row.precision}, {"contract", contract_of(row)},
                 {"shape", row.shape},   {"tensor", row.tensor},       {"verdict", name_of(j.verdict)},
                 {"reason", j.reason},   {"where", row.where},         {"why", row.why}};
  const auto set = [&](const char* key, auto value) {
    if (row.judged())
      record[key] = value;
    else
      record[key] = nullptr;
  };
  set("ulp_format", row.ulp_format);
  set("relative_error", j.relative_error), set("max_error", j.max_error);
  set("max_error_at", location(row, j.max_error_at));
  set("worst_ulps", j.worst_ulps), set("worst_ulps_at", location(row, j.worst_ulps_at));
  set("rms_z", j.rms_z), set("rms_limit", j.rms_limit);
  set("worst_z", j.worst_z), set("worst_z_at", location(row, j.worst_z_at));
  set("draws", row.draws), set("stall", row.stall), set("judged_by", row.judged_by), set("fits", row.fits),
      set("smallest_gain", j.smallest_gain);
  set("detects", row.detects ? row.detects->sentence() : "");
  set("cannot_see", row.detects ? names_in(row.detects->unseen, [](const std::string& name) { return name; }) : "");
  set("bound_over_sigma", j.bound_over_sigma);
  set("evidence", row.evidence);
  for (const auto& [key, weighed] : {std::pair{"model", &row.by_model}, {"contract", &row.by_contract}}) {
    const std::string name = key;
    record[name + "_verdict"] = *weighed ? name_of((*weighed)->verdict) : "";
    record[name + "_excess"] = *weighed ? Json((*weighed)->excess) : Json("");
    record[name + "_reason"] = *weighed ? (*weighed)->reason : "";
  }
  set("blind_spots", listed(j.blind_spots));
  record["command"] = row.command;
  if (!row.of_case.empty()) record["case"] = row.of_case;
  return record;
}

std::string as_json(const Page& page, const Rows& rows) {
  Json records = Json::array();
  for (const ReportRow& row : rows) records.push_back(record_of(row));
  Json all = {{"format", "assay-" + page.verb}, {"version", 1}};
  for (const auto& [key, value] : page.facts) all[key] = value;
  all["passed"] = all_pass(rows), all["command"] = page.command, all["rows"] = std::move(records);
  return dumped(all);
}

std::string as_csv(const Rows& rows) {
  Table table;
  for (const ReportRow& row : rows) {
    const Json record = record_of(row);
    std::vector<std::string> cells;
    for (const auto& [key, value] : record.items()) {
      if (table.rows.empty()) table.columns.push_back({key, false});
      cells.push_back(value.is_null()     ? ""
                      : value.is_number() ? round_trip(value.get<double>())
                                          : value.get<std::string>());
    }
    table.rows.push_back(std::move(cells));
  }
  return table.csv();
}

}  // namespace

std::vector<KernelTable> kernel_tables(const Rows& rows, bool repeat_precision) {
  std::vector<KernelTable> kernels;
  for (const ReportRow& row : rows) {
    if (kernels.empty() || !same_kernel(*kernels.back().rows.front(), row))
      kernels.push_back({title_of(row), {}, {}, {}});
    kernels.back().rows.push_back(&row);
  }
  for (KernelTable& kernel : kernels)
    kernel.table = kernel_table(kernel.rows, repeat_precision), kernel.detects = detections_of(kernel.rows);
  return kernels;
}

// The worst relative error of a tensor and the rms of error / sigma over the elements of all, or what is not a pass.
Table summary_of(const Rows& rows) {
  Table table{{{"rel.error, rms"}}, {}};
  std::vector<std::string> precisions;
  for (const ReportRow& row : rows)
    if (std::find(precisions.begin(), precisions.end(), row.precision) == precisions.end()) {
      precisions.push_back(row.precision);
      table.columns.push_back({row.precision, true});
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
        if (verdict == Verdict::pass) verdict = row.judgement.verdict;
      }
      cells.push_back(!any                       ? ""
                      : verdict == Verdict::pass ? fmt::format("{:.1e} {:.2f}", error, std::sqrt(squares / elements))
                                                 : std::string(name_of(verdict)));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string listed(const std::vector<std::string_view>& names) {
  return names_in(names, [](std::string_view name) { return name; });
}

std::string kernel_of(const ReportRow& row) {
  return row.mechanism + ' ' + row.form +
         (row.device == cpu_executor || row.device.empty() ? "" : " on " + row.device) +
         (row.of_case.empty() ? "" : ", " + row.of_case + ',');
}

std::string count_of(const std::vector<ReportRow>& rows) {
  std::string counts;
  for (const Verdict verdict : all_verdicts) {
    const auto n = std::count_if(rows.begin(), rows.end(),
                                 [verdict](const ReportRow& row) { return row.judgement.verdict == verdict; });
    if (n > 0) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", n, name_of(verdict));
  }
  return fmt::format("{} tensors: {}", rows.size(), counts);
}

std::vector<std::string> complaints_of(const std::vector<ReportRow>& rows) {
  std::vector<std::string> lines;
  for (const ReportRow& row : rows) {
    if (!row.why.empty())
      lines.push_back(fmt::format("why   {} {} {}: {}", kernel_of(row), contract_of(row), row.tensor, row.why));
    if (row.stall > 0)
      lines.push_back(
          fmt::format("note  {} {} {}: rounding to nearest stalls or meets ties, {} sigma of what randomised rounding "
                      "shows; limits allow for it",
                      kernel_of(row), contract_of(row), row.tensor, short_ratio(row.stall)));
    if (row.judgement.verdict == Verdict::pass) {
      if (row.evidence == "model" && row.by_contract && row.by_contract->verdict == Verdict::fail)
        lines.push_back(fmt::format(
            "note  {} {} {}: rounds more than {} allows, {} times its limit; --contract {} fails", kernel_of(row),
            contract_of(row), row.tensor, contract_of(row), short_ratio(row.by_contract->excess), contract_of(row)));
      if (row.evidence.starts_with("contract ") && row.by_model && row.by_model->verdict != Verdict::pass)
        lines.push_back(
            fmt::format("note  {} {} {}: passes under {}", kernel_of(row), contract_of(row), row.tensor, row.evidence));
      if (!row.judgement.blind_spots.empty())
        lines.push_back(fmt::format("note  {} {} {}: would not have revealed {}", kernel_of(row), contract_of(row),
                                    row.tensor, listed(row.judgement.blind_spots)));
      continue;
    }
    lines.push_back(fmt::format("{}  {} {} {}: {}", name_of(row.judgement.verdict), kernel_of(row), contract_of(row),
                                row.tensor.empty() ? "all tensors" : row.tensor, row.judgement.reason));
    if (!row.where.empty()) lines.push_back("      where: " + row.where);
    lines.push_back("      " + row.command);
  }
  return lines;
}

std::function<std::string(std::size_t)> place_in_file_of(const Room& room, const std::string& tensor,
                                                         const std::vector<int>& shape, int batch) {
  return [layout = FileLayout::of_problem(answer_field(room, tensor), shape, batch)](std::size_t flat) {
    return place_in_file(layout, flat);
  };
}

Verdict worse_of(Verdict a, Verdict b) {
  constexpr Verdict worst_first[] = {Verdict::fail,    Verdict::error,       Verdict::undecided,
                                     Verdict::vacuous, Verdict::unsupported, Verdict::pass};
  return *std::find_if(std::begin(worst_first), std::end(worst_first), [=](Verdict v) { return v == a || v == b; });
}

bool ReportRow::judged() const {
  return judgement.verdict != Verdict::unsupported && judgement.verdict != Verdict::error;
}

bool all_pass(const std::vector<ReportRow>& rows) {
  return !rows.empty() && std::all_of(rows.begin(), rows.end(),
                                      [](const ReportRow& row) { return row.judgement.verdict == Verdict::pass; });
}

std::vector<ReportRow> judge_rows(const Trial& trial, ReportRow row, const std::optional<Answer>& got,
                                  const std::function<bool(const std::string&)>& wanted) {
  row.mechanism = trial.room.name;
  if (row.form.empty()) row.form = trial.kernel.form->name;
  if (row.form != trial.kernel.form->name) row.judged_by = trial.kernel.form->name;
  row.tile = names_in(tiles_of(trial), [&](int tile) { return name_of_tile(trial, tile); });
  row.precision = name_of(trial.kernel.precision);
  row.contract = trial.kernel.contract == nullptr ? row.precision : trial.kernel.contract->name;
  return judged(trial, std::move(row), got, wanted);
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

const std::string& contract_of(const ReportRow& row) { return row.contract.empty() ? row.precision : row.contract; }

std::string_view name_of(RowsFormat format) {
  constexpr std::string_view names[] = {"table", "markdown", "html", "json", "csv", "junit", "sarif", "github"};
  return names[static_cast<int>(format)];
}

std::optional<RowsFormat> rows_format_from(std::string_view name) {
  for (const RowsFormat format : all_rows_formats)
    if (name == name_of(format)) return format;
  return std::nullopt;
}

std::string print(const Page& page, const std::vector<ReportRow>& rows, RowsFormat format) {
  switch (format) {
    case RowsFormat::table:
      return as_text(page, rows);
    case RowsFormat::markdown:
      return as_markdown(page, rows);
    case RowsFormat::html:
      return as_html(page, rows);
    case RowsFormat::json:
      return as_json(page, rows);
    case RowsFormat::junit:
      return as_junit(page, rows);
    case RowsFormat::sarif:
      return as_sarif(page, rows);
    case RowsFormat::github:
      return as_github(page, rows);
    case RowsFormat::csv:
      break;
  }
  return as_csv(rows);
}

}  // namespace assay
