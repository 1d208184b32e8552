// assay report and its tables: every format read back, the same bits from any number of threads, exit codes.
#include "tools/verbs/report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "judge/court/judge_answer.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/print/matrix.hpp"
#include "tools/print/rows_page.hpp"
#include "tools/print/table.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

Ran run_words(const std::string& line, bool terminal = false) {
  std::istringstream words(line);
  std::vector<std::string> args;
  for (std::string word; words >> word;) args.push_back(word);
  std::ostringstream out, err;
  Console console{out, err, false, terminal};
  const int code = run(all_verbs(), args, console);
  return {code, out.str(), err.str()};
}

/// RFC 4180, as another program would read it.
std::vector<std::vector<std::string>> read_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      row.back() += '"', ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && c == ',')
      row.emplace_back();
    else if (!quoted && c == '\n')
      rows.push_back(std::move(row)), row = std::vector<std::string>(1);
    else
      row.back() += c;
  }
  EXPECT_FALSE(quoted);
  return rows;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

const Table sample{
    {{"name"}, {"value", true}, {"note"}},
    {{"a", "1.5", ""}, {"long name", "-12", "x, \"y\" z"}, {"σ|", "7", "a, b"}, {"\"", "0", ""}, {"short"}}};

TEST(Table, text_is_aligned_and_ends_with_no_space) {
  EXPECT_EQ(Table({{{"name"}, {"value", true}}, {{"a", "1.5"}, {"σσ", "-12"}, {"end"}}}).text(2),
            "  name  value\n"
            "  a       1.5\n"
            "  σσ      -12\n"
            "  end\n");
}

TEST(Table, csv_reads_back) {
  const auto rows = read_csv(sample.csv());
  ASSERT_EQ(rows.size(), sample.rows.size() + 1);
  for (const auto& row : rows) EXPECT_EQ(row.size(), 3u);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"name", "value", "note"}));
  for (std::size_t r = 0; r < 4; ++r) EXPECT_EQ(rows[r + 1], sample.rows[r]);
  EXPECT_EQ(rows[5], (std::vector<std::string>{"short", "", ""}));
}

TEST(Table, markdown_has_one_line_per_row_and_escapes_bars) {
  const auto lines = lines_of(sample.markdown());
  ASSERT_EQ(lines.size(), sample.rows.size() + 2);
  EXPECT_EQ(lines[1], "| --- | ---: | --- |");
  EXPECT_EQ(lines[3], "| long name | -12 | x, \"y\" z |");
  EXPECT_EQ(lines[4], "| σ\\| | 7 | a, b |");
  EXPECT_EQ(lines[6], "| short |  |  |");
}

TEST(Table, numbers_survive_the_round_trip) {
  for (const double x : {0.1, 1.0 / 3, -2.2250738585072014e-308, std::numeric_limits<double>::max(), 2.0})
    EXPECT_EQ(std::stod(round_trip(x)), x);
  EXPECT_EQ(round_trip(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Table, formats_have_names_that_read_back) {
  for (const TableFormat format : all_table_formats) EXPECT_EQ(table_format_from(name_of(format)), format);
  EXPECT_EQ(table_format_from("xml"), std::nullopt);
  for (const RowsFormat format : all_rows_formats) EXPECT_EQ(rows_format_from(name_of(format)), format);
  EXPECT_EQ(rows_format_from("xml"), std::nullopt);
}

// ---- the verb ----

const std::string small = "report --precision bf16 --shape 1,40,2,16,16 --seed 3";

TEST(Report, covers_every_form_and_tensor_and_passes) {
  const Ran ran = run_words(small + " --format json");
  EXPECT_EQ(ran.code, exit_passed) << ran.out;
  EXPECT_EQ(ran.err, "");
  const Json report = Json::parse(ran.out);
  EXPECT_TRUE(report["passed"].get<bool>());
  std::set<std::string> kernels;
  for (const Json& row : report["rows"]) {
    kernels.insert(row["mechanism"].get<std::string>() + ":" + row["form"].get<std::string>());
    EXPECT_EQ(row["verdict"], "PASS");
    EXPECT_EQ(row["precision"], "bf16");
    // Copies of what came in are exact, and nothing else is.
    const bool copied = row["tensor"] == "final_tail_k" || row["tensor"] == "final_tail_v";
    EXPECT_EQ(row["relative_error"].get<double>() == 0, copied) << row["mechanism"] << row["tensor"];
    EXPECT_LT(row["bound_over_sigma"].get<double>(), oracle_share);
  }
  std::size_t forms = 0;
  for (const KernelRoom* room : kernel_rooms())
    for (const KernelForm& form : room->forms) forms += form.unstable.empty() ? 1 : 0;
  EXPECT_EQ(kernels.size(), forms);
  const auto has = [&](const char* mechanism, const char* tensor) {
    return std::any_of(report["rows"].begin(), report["rows"].end(),
                       [&](const Json& row) { return row["mechanism"] == mechanism && row["tensor"] == tensor; });
  };
  for (const char* tensor : {"o", "d_q", "d_k", "d_v", "d_bandwidth"}) EXPECT_TRUE(has("softmax_attention", tensor));
  for (const char* tensor : {"o", "final_state", "d_q", "d_k", "d_v", "d_beta", "d_initial_state"})
    EXPECT_TRUE(has("deltanet", tensor));
}

/// Packed sequences, one of which has no token, behind arguments of every kind; and what stands in the way of others.
TEST(Report, takes_arguments) {
  const std::string words =
      "report --mechanism softmax_attention --precision bf16 --shape 1,24,2,8,8 --style short_sequences --seed 0 "
      "--param soft_cap=2 --with sink --with lse";
  const Ran ran = run_words(words + " --format json");
  EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  const Json report = Json::parse(ran.out);
  EXPECT_EQ(report["style"], "short_sequences");
  std::map<std::string, std::set<std::string>> tensors;
  for (const Json& row : report["rows"]) {
    tensors[row["form"]].insert(row["tensor"].get<std::string>());
    EXPECT_EQ(row["mechanism"], "softmax_attention");
    EXPECT_EQ(row["verdict"], "PASS");
    EXPECT_NE(row["command"].get<std::string>().find("--param soft_cap=2 --with sink --with lse"), std::string::npos);
  }
  EXPECT_EQ(tensors["tiled"], (std::set<std::string>{"o", "lse", "d_q", "d_k", "d_v", "d_bandwidth", "d_sink"}));
  EXPECT_EQ(tensors["split_decode"], (std::set<std::string>{"o", "lse"}));
  const std::string table = run_words(words).out;
  EXPECT_NE(table.find("softmax_attention with soft_cap, lse, sink, cu_seqlens tiled"), std::string::npos) << table;
  EXPECT_NE(table.find("\nreproduce: build/assay " + words + '\n'), std::string::npos) << table;
  // Who names no mechanism asks for those that take them.
  std::set<std::string> takes;
  const Ran every = run_words(
      "report --precision bf16 --shape 1,9,1,8,8 --style short_sequences --param state_layout=v_first --format json");
  const Json rows = Json::parse(every.out)["rows"];
  for (const Json& row : rows) takes.insert(row["mechanism"].get<std::string>());
  EXPECT_EQ(takes, (std::set<std::string>{"comba", "deltanet", "gated_deltanet", "gla", "kda", "linear_attention",
                                          "mamba2", "retnet"}));
  const auto refused = [](const std::string& line) {
    const Ran refusal = run_words("report --precision bf16 " + line);
    EXPECT_EQ(refusal.code, exit_usage) << line;
    EXPECT_EQ(refusal.out, "") << line;
    return refusal.err;
  };
  EXPECT_EQ(refused("--mechanism deltanet --with sink"),
            "assay: --with: sink: deltanet does not take it: it has no scores\n");
  EXPECT_NE(refused("--with sinks").find("did you mean sink?"), std::string::npos);
  EXPECT_NE(refused("--mechanism lla --with bias").find("no kernel of ours takes lla with arguments"),
            std::string::npos);
}

const std::string smaller = "report --mechanism deltanet --precision bf16 --precision fp32 --shape 1,20,2,16,16";

TEST(Report, has_the_same_bits_from_any_number_of_threads) {
  for (const char* format : {"table", "markdown", "json", "csv"}) {
    const std::string line = smaller + " --format " + format;
    EXPECT_EQ(run_words(line + " --threads 1").out, run_words(line + " --threads 3").out) << format;
  }
}

/// Every kernel and precision has one line, and the table's is that of the machine formats.
TEST(Report, says_what_the_problem_could_have_shown) {
  const std::string words = "report --mechanism deltanet --form chunkwise --precision fp32,bf16 --shape 1,24,1,8,8";
  const std::vector<std::string> lines = lines_of(run_words(words + " --rows").out);
  const Json json = Json::parse(run_words(words + " --format json").out);
  const std::string markdown = run_words(words + " --format markdown").out;
  for (const std::string precision : {"fp32", "bf16"}) {
    std::vector<std::string> said;
    for (const std::string& line : lines)
      if (line.starts_with("  detects  " + precision + ": ")) said.push_back(line);
    ASSERT_EQ(said.size(), 1U) << precision;
    EXPECT_NE(said[0].find("% too large; a mask 1 key short ("), std::string::npos) << said[0];
    EXPECT_NE(said[0].find("; state in "), std::string::npos) << said[0];
    EXPECT_NE(markdown.find("\n- " + said[0].substr(2) + "\n"), std::string::npos);
    for (const Json& row : json["rows"]) {
      if (row["precision"] != precision) continue;
      EXPECT_TRUE(said[0].ends_with("; " + row["detects"].get<std::string>())) << row["detects"];
    }
  }
}

TEST(Report, csv_says_what_json_says) {
  const Json report = Json::parse(run_words(smaller + " --format json").out);
  const auto rows = read_csv(run_words(smaller + " --format csv").out);
  ASSERT_EQ(rows.size(), report["rows"].size() + 1);
  for (std::size_t r = 1; r < rows.size(); ++r) {
    ASSERT_EQ(rows[r].size(), rows[0].size());
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      const Json& value = report["rows"][r - 1].at(rows[0][c]);
      if (value.is_number())
        EXPECT_EQ(std::stod(rows[r][c]), value.get<double>()) << rows[0][c];
      else
        EXPECT_EQ(rows[r][c], value.get<std::string>());
    }
  }
}

TEST(Report, every_row_is_made_again_by_its_own_command) {
  const Json report = Json::parse(run_words(smaller + " --style repeated_keys --seed 5 --format json").out);
  const std::string command = report["rows"].back()["command"].get<std::string>(), program = "build/assay ";
  ASSERT_EQ(command.substr(0, program.size()), program);
  const Json again = Json::parse(run_words(command.substr(program.size()) + " --format json").out);
  EXPECT_EQ(again["rows"].back(), report["rows"].back());
  EXPECT_EQ(again["command"], command);
}

/// Limits are further out where fewer false alarms are wanted, or where more kernels share them.
TEST(Report, shares_its_rate_of_false_alarms) {
  const std::string one = "report --mechanism deltanet --precision bf16 --shape 1,20,2,16,16";
  const Json usual = Json::parse(run_words(one + " --format json").out),
             more = Json::parse(run_words(one + " --format json --false-alarms 1e-3").out),
             two = Json::parse(run_words(smaller + " --format json").out);
  EXPECT_EQ(usual["false_alarm_rate"], 1e-6);
  EXPECT_EQ(more["false_alarm_rate"], 1e-3);
  EXPECT_NE(more["command"].get<std::string>().find(" --false-alarms 0.001"), std::string::npos) << more["command"];
  int rows = 0;
  for (const Json& row : usual["rows"]) {
    const auto same = [&](const Json& report) {
      return *std::find_if(report["rows"].begin(), report["rows"].end(), [&](const Json& r) {
        return r["tensor"] == row["tensor"] && r["precision"] == row["precision"];
      });
    };
    EXPECT_LT(same(more)["rms_limit"], row["rms_limit"]) << row["tensor"];
    EXPECT_GT(same(two)["rms_limit"], row["rms_limit"]) << row["tensor"];
    ++rows;
  }
  EXPECT_EQ(rows, 7);
  EXPECT_NE(run_words(one).out.find(
                "\nlimits    correct kernels fail, in any of these tensors, with a probability of 1e-06 at most\n"),
            std::string::npos);
}

/// Limits of judge(), as C++ calls it, depend on the rate as well.
TEST(Report, judge_takes_a_rate_of_false_alarms) {
  Problem problem = listed_room("linear_attention")
                        .make({"linear_attention", {1, 9, 1, 0, 8, 8, 0}, Format::bf16, Style::normal, 0, {}});
  problem.cotangents.clear();
  const KernelForm& form = find_kernels(kernel_rooms(), problem.mechanism)->forms.front();
  const Answer got = form.run(problem, Policy::of(form.sites, Format::bf16), 0);
  const std::string tile(form.tiles[0]);
  const auto limit = [&](double rate) {
    const JudgeBy by{.contract = "bf16", .tile = tile, .tensors = {"o"}, .false_alarms = rate};
    return judge(problem, got, by).rows.at(0).judgement.rms_limit;
  };
  EXPECT_LT(limit(1e-3), limit(false_alarm_rate));
}

TEST(Report, takes_a_tile) {
  const std::string flags = "report --mechanism deltanet --precision bf16 --shape 1,20,2,16,16 --format json";
  const Json report = Json::parse(run_words(flags + " --tile 16").out), usual = Json::parse(run_words(flags).out);
  EXPECT_NE(report["rows"][0]["command"].get<std::string>().find(" --form chunkwise --tile 16 "), std::string::npos);
  for (const Json& row : report["rows"]) EXPECT_EQ(row["tile"], "16");
  EXPECT_NE(report["rows"], usual["rows"]);
}

TEST(Report, ends_with_the_line_that_reproduces_it) {
  const auto lines = lines_of(run_words(smaller).out);
  EXPECT_EQ(lines.back(), "reproduce: build/assay " + smaller + " --style normal --seed 0");
}

TEST(Report, takes_a_shape_that_a_form_cannot_run_as_unsupported) {
  const Ran ran = run_words("report --mechanism deltanet --precision bf16 --shape 1,4/20,2,16,16");
  EXPECT_EQ(ran.code, exit_failed);
  EXPECT_NE(ran.out.find("UNSUPPORTED  deltanet chunkwise bf16 all tensors: "), std::string::npos) << ran.out;
}

TEST(Report, gives_decoding_the_last_queries) {
  const Json report = Json::parse(
      run_words("report --form split_decode --mechanism parallax --precision fp32 --shape 1,40,2,16,16 --format json")
          .out);
  ASSERT_FALSE(report["rows"].empty());
  EXPECT_EQ(report["rows"][0]["shape"], "1,4/40,2,16,16");
  EXPECT_EQ(
      report["rows"][0]["command"],
      "build/assay report --mechanism parallax --form split_decode --precision fp32 --shape 1,4/40,2,16,16 --style "
      "normal --seed 0");
}

TEST(Report, judges_an_unstable_form_by_a_healthy_one_where_it_is_asked_for) {
  const std::string dead = "report --mechanism mdn --precision fp32 --shape 1,40,2,16,16 --style dead_memory";
  const Json healthy = Json::parse(run_words(dead + " --format json").out);
  EXPECT_TRUE(healthy["passed"].get<bool>());
  for (const Json& row : healthy["rows"]) {
    EXPECT_EQ(row["form"], "chunkwise");
    EXPECT_EQ(row["judged_by"], "");
  }
  const Ran ran = run_words(dead + " --form log_domain --format json");
  EXPECT_EQ(ran.code, exit_failed);
  const Json rows = Json::parse(ran.out)["rows"];
  ASSERT_EQ(rows.size(), healthy["rows"].size());
  for (const Json& row : rows) {
    const bool gradient = row["tensor"].get<std::string>().starts_with("d_");
    EXPECT_TRUE(gradient || row["verdict"] == "FAIL") << row["tensor"];
    EXPECT_EQ(row["judged_by"], "chunkwise");
  }
  EXPECT_NE(run_words(dead + " --form log_domain").out.find(", judged by the spread of chunkwise\n"),
            std::string::npos);
}

TEST(Report, takes_the_settings_of_a_mechanism) {
  const std::string plain =
      "report --mechanism parallax --form tiled --precision fp32 --shape 1,40,2,16,16 --format json";
  const Json report = Json::parse(run_words(plain + " --param window=3 --param bandwidth=2.5").out);
  const Json other = Json::parse(run_words(plain).out);
  const auto command = report["command"].get<std::string>();
  EXPECT_NE(command.find("--param bandwidth=2.5 --param window=3"), std::string::npos) << command;
  EXPECT_NE(report["rows"][0]["max_error"], other["rows"][0]["max_error"]);
  for (const char* bad : {"window", "=3", "window=0", "window=wide", "tail=3"}) {
    const Ran ran = run_words(plain + " --param " + bad);
    EXPECT_EQ(ran.code, exit_usage) << bad;
    EXPECT_NE(ran.err.find("--param"), std::string::npos) << ran.err;
  }
}

TEST(Report, refuses_bad_usage_in_one_sentence) {
  for (const char* flags :
       {"--mechanism nothing", "--form nothing", "--precision fp12", "--shape 1,2,3", "--shape 0,1,1,1,1",
        "--style odd", "--format xml", "--tile 17", "--false-alarms 0", "--false-alarms 0.2", "--threads -1",
        "--seed x", "--unknown", "-o /nonexistent/report.txt"}) {
    const Ran ran = run_words(std::string("report ") + flags);
    EXPECT_EQ(ran.code, exit_usage) << flags;
    EXPECT_EQ(ran.out, "") << flags;
    EXPECT_FALSE(ran.err.empty()) << flags;
  }
}

TEST(Report, writes_a_file_under_its_name_and_nothing_beside_it) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "assay_report";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const Ran ran = run_words(smaller + " --format csv -o " + (folder / "report.csv").string());
  EXPECT_EQ(ran.code, exit_passed);
  EXPECT_EQ(ran.out, "");
  std::ostringstream written;
  written << std::ifstream(folder / "report.csv").rdbuf();
  EXPECT_EQ(written.str(), run_words(smaller + " --format csv").out);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

Report one_of_each_verdict() {
  Report report;
  for (const Verdict verdict :
       {Verdict::pass, Verdict::fail, Verdict::vacuous, Verdict::undecided, Verdict::unsupported, Verdict::error}) {
    ReportRow row;
    row.mechanism = "room", row.form = "form", row.tile = "64", row.precision = "bf16", row.tensor = "o";
    row.shape = "1,2,3,4,5", row.extents = {2, 3}, row.command = "build/assay report --seed 0";
    row.judgement.verdict = verdict;
    row.judgement.reason = verdict == Verdict::pass ? "" : "because, \"it\" is";
    row.judgement.worst_z = std::numeric_limits<double>::infinity();
    row.judgement.relative_error = std::numeric_limits<double>::quiet_NaN();
    report.rows.push_back(row);
  }
  return report;
}

TEST(Report, passes_only_if_everything_does) {
  Report report = one_of_each_verdict();
  EXPECT_FALSE(report.passed());
  for (std::size_t i = 1; i < report.rows.size(); ++i) {
    Report two = report;
    two.rows = {report.rows[0], report.rows[i]};
    EXPECT_FALSE(two.passed()) << name_of(report.rows[i].judgement.verdict);
  }
  report.rows.resize(1);
  EXPECT_TRUE(report.passed());
  // A tensor in which there is nothing to see beside one that shows something, alone, and where that is asked for.
  report.rows.push_back(report.rows[0]);
  report.rows[1].judgement.verdict = Verdict::unseen;
  for (const auto& [rows, strict, verdict] : {std::tuple{report.rows, false, Verdict::unseen},
                                              {report.rows, true, Verdict::vacuous},
                                              {std::vector{report.rows[1]}, false, Verdict::vacuous}}) {
    Report other = report;
    other.rows = rows;
    call_vacuous(other.rows, strict);
    EXPECT_EQ(other.rows.back().judgement.verdict, verdict) << strict;
    EXPECT_EQ(other.passed(), verdict == Verdict::unseen) << strict;
  }
  report.rows.clear();
  EXPECT_FALSE(report.passed());
}

TEST(Report, prints_every_verdict_with_its_reason_and_command) {
  const Report report = one_of_each_verdict();
  for (const RowsFormat format : {RowsFormat::table, RowsFormat::markdown}) {
    const std::string text = print(report, format);
    for (const char* verdict : {"FAIL", "VACUOUS", "UNDECIDED", "UNSUPPORTED", "ERROR"})
      EXPECT_NE(text.find(std::string(verdict) +
                          "  room form bf16 o: because, \"it\" is\n      build/assay report --seed 0\n"),
                std::string::npos)
          << text;
    EXPECT_NE(text.find("6 tensors: 1 PASS, 1 FAIL, 1 VACUOUS, 1 UNDECIDED, 1 UNSUPPORTED, 1 ERROR"),
              std::string::npos);
  }
  const Json json = Json::parse(print(report, RowsFormat::json));
  EXPECT_EQ(json["rows"].size(), 6u);
  EXPECT_TRUE(json["rows"][1]["worst_z"].is_null());  // JSON has no infinity
  EXPECT_TRUE(json["rows"][4]["rms_z"].is_null());
  for (const auto& row : read_csv(print(report, RowsFormat::csv))) EXPECT_EQ(row.size(), json["rows"][0].size());
}

// ---- the matrix of verdicts ----

TEST(ReportMatrix, is_all_that_is_printed_of_what_passes) {
  const Ran ran = run_words(smaller + " --device cpu");
  EXPECT_EQ(ran.code, exit_passed);
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(ran.out,
            "assay report: kernels, run on the CPU executor, against the oracle\n"
            "inputs    style normal, seed 0, rounded once to the precision\n"
            "limits    correct kernels fail, in any of these tensors, with a probability of 1e-06 at most\n"
            "verdicts  the worst of a kernel's tensors, and how many do not pass\n"
            "rows      of what does not pass; --rows prints all, with their errors\n"
            "\n"
            "kernel              fp32  bf16\n"
            "deltanet chunkwise  PASS  PASS\n"
            "\n"
            "14 tensors: 14 PASS\n"
            "reproduce: build/assay report --mechanism deltanet --precision bf16 --precision fp32 --device cpu --shape "
            "1,20,2,16,16 --style normal --seed 0\n");
}

/// How many of a page's rows of tensors have this verdict.
std::ptrdiff_t rows_in(const std::string& page, const std::string& verdict) {
  const std::vector<std::string> lines = lines_of(page);
  return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.starts_with("  ") && line.ends_with("  " + verdict);
  });
}

TEST(ReportMatrix, is_followed_by_the_rows_of_what_does_not_pass) {
  const Report report = one_of_each_verdict();
  const std::string brief = print(report, RowsFormat::table), whole = print(report, RowsFormat::table, true);
  for (const std::string& page : {brief, whole})
    EXPECT_NE(page.find("\n\nkernel     bf16\nroom form  FAIL 5\n\n"), std::string::npos) << page;
  EXPECT_EQ(rows_in(brief, "PASS"), 0) << brief;
  EXPECT_EQ(rows_in(whole, "PASS"), 1) << whole;
  for (const std::string& page : {brief, whole})
    for (const char* verdict : {"FAIL", "VACUOUS", "UNDECIDED", "UNSUPPORTED", "ERROR"})
      EXPECT_EQ(rows_in(page, verdict), 1) << page;
  EXPECT_NE(brief.find("\ncolumns   rel.error"), std::string::npos) << "rows are shown, and what their columns mean";
  EXPECT_LT(brief.find("\nroom form  FAIL 5\n"), brief.find("\ncolumns   rel.error"));
  EXPECT_EQ(brief.find("\nrel.error, rms"), std::string::npos);
  EXPECT_NE(whole.find("\nrel.error, rms"), std::string::npos);
}

TEST(ReportMatrix, rows_prints_every_tensor) {
  const Json json = Json::parse(run_words(smaller + " --format json").out);
  const std::string brief = run_words(smaller).out, whole = run_words(smaller + " --rows").out;
  EXPECT_TRUE(whole.ends_with(" --seed 0 --rows\n")) << whole;
  EXPECT_EQ(rows_in(whole, "PASS"), static_cast<std::ptrdiff_t>(json["rows"].size())) << whole;
  EXPECT_EQ(rows_in(brief, "PASS"), 0) << brief;
  EXPECT_EQ(run_words(smaller + " --rows --format json").out, run_words(smaller + " --format json").out);
  const std::string why = run_words(smaller + " --why").out;
  EXPECT_NE(why.find("\nwhy   deltanet chunkwise bf16 o: "), std::string::npos) << why;
  EXPECT_NE(why.find("%  PASS\n"), std::string::npos) << why;
}

TEST(ReportMatrix, names_the_worst_verdict_and_fits_a_terminal) {
  std::vector<ReportRow> rows;
  const auto add = [&](const std::string& form, const std::string& precision, const std::vector<Verdict>& verdicts) {
    for (const Verdict verdict : verdicts) {
      ReportRow row;
      row.mechanism = "affine_linear_attention", row.form = form, row.precision = precision;
      row.tensor = verdict == Verdict::unsupported ? "" : "o", row.judgement.verdict = verdict;
      rows.push_back(row);
    }
  };
  for (const char* precision : {"fp64", "fp32", "tf32", "bf16"}) {
    add("chunkwise", precision, {Verdict::pass, Verdict::undecided, Verdict::fail});
    add("tiled", precision, {Verdict::vacuous, Verdict::pass, Verdict::undecided});
  }
  add("chunkwise", "e4m3", {Verdict::unsupported});
  const std::vector<Table> tables = verdict_matrix(rows);
  std::string all;
  for (const Table& table : tables) all += table.text() + '\n';
  EXPECT_EQ(all,
            "kernel                             fp64         fp32         tf32\n"
            "affine_linear_attention chunkwise  FAIL 2       FAIL 2       FAIL 2\n"
            "affine_linear_attention tiled      UNDECIDED 2  UNDECIDED 2  UNDECIDED 2\n"
            "\n"
            "kernel                             bf16         e4m3\n"
            "affine_linear_attention chunkwise  FAIL 2       UNSUPPORTED\n"
            "affine_linear_attention tiled      UNDECIDED 2\n"
            "\n");
  for (const std::string& line : lines_of(all)) EXPECT_LE(line.size(), terminal_width) << line;
}

// ---- colours ----

/// Sets or, with null, removes a variable of the environment, and puts it back.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable(Variable&&) = delete;
  Variable& operator=(const Variable&) = delete;
  Variable& operator=(Variable&&) = delete;
  ~Variable() { set(old_ ? old_->c_str() : nullptr); }

 private:
  void set(const char* value) const {
    if (value == nullptr)
      unsetenv(name_);
    else
      setenv(name_, value, 1);
  }
  const char* name_;
  std::optional<std::string> old_;
};

/// What `line` prints where standard output is a terminal.
std::string on_terminal(const std::string& line, const char* no_color = nullptr, const char* term = "xterm") {
  const Variable first("NO_COLOR", no_color), second("TERM", term);
  return run_words(line, true).out;
}

TEST(Colours, are_of_verdicts_on_a_terminal_alone) {
  const std::string plain = run_words(smaller).out, shown = on_terminal(smaller);
  EXPECT_EQ(plain.find('\033'), std::string::npos);
  EXPECT_NE(shown.find("\ndeltanet chunkwise  \033[32mPASS\033[0m  \033[32mPASS\033[0m\n"), std::string::npos) << shown;
  EXPECT_EQ(std::regex_replace(shown, std::regex("\033\\[[0-9]*m"), ""), plain);
  const std::string wrong = print(one_of_each_verdict(), RowsFormat::table, false, true);
  for (const char* said : {"\nroom form  \033[31mFAIL 5\033[0m\n", "  \033[33mUNDECIDED\033[0m\n",
                           "\n\033[33mVACUOUS\033[0m  room form bf16 o: ", "\n\033[35mUNSUPPORTED\033[0m  room form "})
    EXPECT_NE(wrong.find(said), std::string::npos) << wrong;
}

TEST(Colours, are_off_where_nobody_can_see_or_wants_them) {
  const std::string plain = run_words(smaller).out;
  EXPECT_EQ(on_terminal(smaller, "1"), plain);
  EXPECT_EQ(on_terminal(smaller, "0"), plain);
  EXPECT_EQ(on_terminal(smaller, ""), plain);
  EXPECT_EQ(on_terminal(smaller, nullptr, "dumb"), plain);
  EXPECT_EQ(on_terminal(smaller, nullptr, nullptr), plain);
  for (const std::string format : {"markdown", "html", "json", "csv", "junit", "sarif", "github"})
    EXPECT_EQ(on_terminal((smaller + " --format ").append(format)).find('\033'), std::string::npos) << format;
  const auto file = std::filesystem::path(testing::TempDir()) / "assay_colours.txt";
  EXPECT_EQ(on_terminal(smaller + " -o " + file.string()), "");
  std::ostringstream written;
  written << std::ifstream(file).rdbuf();
  EXPECT_EQ(written.str(), plain);
  std::filesystem::remove(file);
}

TEST(Colours, are_those_of_check_as_well) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "assay_colours";
  std::filesystem::create_directories(folder);
  const std::string in = (folder / "case.safetensors").string(), out = (folder / "out.safetensors").string();
  ASSERT_EQ(run_words("case deltanet --shape 1,8,1,4 -o " + in).code, exit_passed);
  ASSERT_EQ(run_words("oracle " + in + " -o " + out).code, exit_passed);
  const std::string line = "check " + in + ' ' + out + " --contract bf16";
  EXPECT_NE(on_terminal(line).find("\n\033[32mPASS\033[0m  "), std::string::npos);
  EXPECT_EQ(run_words(line).out.find('\033'), std::string::npos);
  EXPECT_EQ(on_terminal(line, "1").find('\033'), std::string::npos);
  std::filesystem::remove_all(folder);
}

/// Characters that XML, URIs and workflow commands give a meaning.
Report with_odd_characters() {
  Report report = one_of_each_verdict();
  report.rows[1].judgement.reason = "<a> & \"b\" 'c', 100%: \x01\xff";
  report.rows[1].where = "head 1 of 2";
  report.rows[0].judgement.blind_spots = {"last_row_stale", "one,two"};
  return report;
}

TEST(Report, junit_counts_every_verdict) {
  const std::string page = print(with_odd_characters(), RowsFormat::junit);
  // The reader below takes a bare & for itself.
  EXPECT_NE(page.find("message=\"&lt;a&gt; &amp; &quot;b&quot; 'c', 100%: ?"), std::string::npos) << page;
  std::istringstream in(page);
  boost::property_tree::ptree xml;
  read_xml(in, xml);
  const auto& suites = xml.get_child("testsuites");
  EXPECT_EQ(suites.get<std::string>("<xmlattr>.name"), "assay report");
  const auto& suite = suites.get_child("testsuite");
  EXPECT_EQ(suite.get<std::string>("<xmlattr>.name"), "room form bf16");
  for (const auto* counted : {&suites, &suite}) {
    EXPECT_EQ(counted->get<int>("<xmlattr>.tests"), 6);
    EXPECT_EQ(counted->get<int>("<xmlattr>.failures"), 3);
    EXPECT_EQ(counted->get<int>("<xmlattr>.errors"), 2);
  }
  std::vector<std::string> types;
  for (const auto& [name, test] : suite) {
    if (name != "testcase") continue;
    EXPECT_EQ(test.get<std::string>("<xmlattr>.name"), "o");
    types.push_back(
        test.count("failure") + test.count("error") == 0
            ? "PASS"
            : test.get_child(test.count("failure") > 0 ? "failure" : "error").get<std::string>("<xmlattr>.type"));
  }
  EXPECT_EQ(types, (std::vector<std::string>{"PASS", "FAIL", "VACUOUS", "UNDECIDED", "UNSUPPORTED", "ERROR"}));
  auto failure = suite.begin();
  while (failure->first != "testcase" || failure->second.count("failure") == 0) ++failure;
  const auto& fail = failure->second.get_child("failure");
  EXPECT_EQ(fail.get<std::string>("<xmlattr>.message"), "<a> & \"b\" 'c', 100%: ??");
  EXPECT_EQ(fail.data(), "<a> & \"b\" 'c', 100%: ??\nwhere: head 1 of 2\nreproduce: build/assay report --seed 0");
}

TEST(Report, junit_has_a_suite_for_each_kernel_and_precision) {
  std::istringstream in(run_words(smaller + " --format junit").out);
  boost::property_tree::ptree xml;
  read_xml(in, xml);
  std::vector<std::string> names;
  int tests = 0;
  for (const auto& [name, suite] : xml.get_child("testsuites"))
    if (name == "testsuite")
      names.push_back(suite.get<std::string>("<xmlattr>.name")), tests += suite.get<int>("<xmlattr>.tests");
  EXPECT_EQ(names, (std::vector<std::string>{"deltanet chunkwise fp32", "deltanet chunkwise bf16"}));
  EXPECT_EQ(xml.get<int>("testsuites.<xmlattr>.tests"), tests);
}

TEST(Report, sarif_has_a_result_for_what_does_not_pass) {
  const Json sarif = Json::parse(print(with_odd_characters(), RowsFormat::sarif));
  EXPECT_EQ(sarif["version"], "2.1.0");
  const Json& run = sarif["runs"][0];
  std::set<std::string> rules;
  for (const Json& rule : run["tool"]["driver"]["rules"]) rules.insert(rule["id"].get<std::string>());
  ASSERT_EQ(run["results"].size(), 5u);
  for (const Json& result : run["results"]) {
    EXPECT_TRUE(rules.contains(result["ruleId"].get<std::string>()));
    EXPECT_EQ(result["level"], "error");
    const Json& place = result["locations"][0];
    EXPECT_EQ(place["physicalLocation"]["artifactLocation"]["uri"], "kernels/room.hpp");
    EXPECT_EQ(place["logicalLocations"][0]["fullyQualifiedName"], "room/form/bf16/o");
  }
  EXPECT_NE(run["results"][0]["message"]["text"].get<std::string>().find("\nwhere: head 1 of 2\n"), std::string::npos);
  const Page page{.verb = "check", .header = {""}, .facts = {}, .command = "", .artifact = "/a b/ü.st"};
  const Json other = Json::parse(print(page, with_odd_characters().rows, RowsFormat::sarif));
  EXPECT_EQ(other["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            "file:///a%20b/%C3%BC.st");
}

/// Of what passes as of what fails.
TEST(Report, every_format_has_both_kinds_of_evidence) {
  Report report = one_of_each_verdict();
  report.rows.resize(2);
  ASSERT_EQ(report.rows[0].judgement.verdict, Verdict::pass);
  report.rows[0].by_model = {Verdict::pass, 0.25}, report.rows[0].by_contract = {Verdict::pass, 0.75};
  report.rows[1].by_model = {Verdict::fail, 6.25}, report.rows[1].by_contract = {Verdict::fail, 8.75};
  const Page page{.verb = "check", .header = {""}, .facts = {}, .command = ""};
  for (const RowsFormat format : all_rows_formats) {
    const std::string printed = print(page, report.rows, format);
    for (const char* number : {"0.25", "0.75", "6.25", "8.75"})
      EXPECT_NE(printed.find(number), std::string::npos) << name_of(format) << ' ' << number << '\n' << printed;
  }
  std::istringstream in(print(page, report.rows, RowsFormat::junit));
  boost::property_tree::ptree xml;
  read_xml(in, xml);
  EXPECT_EQ(xml.get<std::string>("testsuites.testsuite.testcase.system-out"), "model 0.25, contract 0.75");
  const Json sarif = Json::parse(print(page, report.rows, RowsFormat::sarif));
  EXPECT_EQ(sarif["runs"][0]["properties"]["evidence"],
            (Json::array(
                {{{"tensor", "room form bf16 o"}, {"verdict", "PASS"}, {"evidence", "model 0.25, contract 0.75"}},
                 {{"tensor", "room form bf16 o"}, {"verdict", "FAIL"}, {"evidence", "model 6.25, contract 8.75"}}})));
  EXPECT_EQ(sarif["runs"][0]["results"].size(), 1U);
  EXPECT_EQ(lines_of(print(page, report.rows, RowsFormat::github)).at(0),
            "PASS room form bf16 o: model 0.25, contract 0.75");
}

TEST(Report, github_has_a_line_for_each_annotation) {
  const auto lines = lines_of(print(with_odd_characters(), RowsFormat::github));
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[0], "::notice title=room form bf16 o::would not have revealed last_row_stale, one,two");
  EXPECT_EQ(lines[1],
            "::error title=FAIL room form bf16 o::<a> & \"b\" 'c', 100%25: ??%0Awhere: head 1 of 2%0A"
            "reproduce: build/assay report --seed 0");
  EXPECT_TRUE(lines[5].starts_with("::error title=ERROR room form bf16 o::because, "));
  EXPECT_EQ(lines[6], "6 tensors: 1 PASS, 1 FAIL, 1 VACUOUS, 1 UNDECIDED, 1 UNSUPPORTED, 1 ERROR");
  Report report = one_of_each_verdict();
  report.rows[1].mechanism = "a:b,c";
  EXPECT_NE(print(report, RowsFormat::github).find("::error title=FAIL a%3Ab%2Cc form"), std::string::npos);
}

/// Whether every element ends where it has begun: what a parser of XML asks, but for the line in front.
bool well_formed(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<', 1); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = page.substr(at + 1, end - at - 1), name = tag.substr(0, tag.find(' '));
    if (tag.ends_with('/')) continue;
    if (!tag.starts_with('/')) {
      open.push_back(name);
    } else {
      if (open.empty() || '/' + open.back() != name) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

TEST(Report, html_is_one_page_for_itself) {
  Report report = with_odd_characters();
  report.rows[1].command = "build/assay check '<script>alert(1)</script>'";
  report.rows[2].why = "P (bf16) 38%";
  const std::string page = print(report, RowsFormat::html);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">")) << page;
  EXPECT_TRUE(well_formed(page)) << page;
  EXPECT_FALSE(well_formed("<!DOCTYPE html><p><b></p></b>"));
  for (const char* foreign : {"<script", "http", "href", "src=", "url(", "@import", "\xff", "\x01"})
    EXPECT_EQ(page.find(foreign), std::string::npos) << foreign;
  for (const char* said :
       {"<pre>FAIL  room form bf16 o: &lt;a&gt; &amp; &quot;b&quot; 'c', 100%: ??\n      where: head 1 "
        "of 2\n"
        "      build/assay check '&lt;script&gt;alert(1)&lt;/script&gt;'</pre>",
        "<pre>note  room form bf16 o: would not have revealed last_row_stale, one,two</pre>",
        "<pre>why   room form bf16 o: P (bf16) 38%\nVACUOUS  room form bf16 o: because, &quot;it&quot; is\n"
        "      build/assay report --seed 0</pre>",
        "<p>6 tensors: 1 PASS, 1 FAIL, 1 VACUOUS, 1 UNDECIDED, 1 UNSUPPORTED, 1 ERROR</p>",
        "<h2>room form, tile 64, shape B,T,H,K,V = 1,2,3,4,5</h2>"})
    EXPECT_NE(page.find(said), std::string::npos) << said << '\n' << page;
  // A line for each tensor, marked where it did not pass.
  std::istringstream in(page);
  boost::property_tree::ptree html;
  read_xml(in, html);
  std::vector<std::string> verdicts;
  for (const auto& [name, wide] : html.get_child("html.body"))
    if (name == "div" && wide.get_child("table.thead.tr").count("th") == 10)
      for (const auto& [tag, line] : wide.get_child("table.tbody"))
        if (line.count("td") == 10) {
          verdicts.push_back(line.back().second.data());
          EXPECT_EQ(line.get<std::string>("<xmlattr>.class", ""), verdicts.back() == "PASS" ? "" : "wrong");
        }
  EXPECT_EQ(verdicts, (std::vector<std::string>{"PASS", "FAIL", "VACUOUS", "UNDECIDED", "UNSUPPORTED", "ERROR"}));
}

TEST(Report, html_has_a_table_for_each_kernel) {
  const Ran ran = run_words(smaller + " --format html");
  EXPECT_EQ(ran.code, exit_passed);
  EXPECT_TRUE(well_formed(ran.out));
  const std::string text = run_words(smaller + " --rows").out;
  int seen = 0;
  for (const std::string& line : lines_of(text)) {
    std::string said;
    if (line.starts_with("deltanet chunkwise, tile")) said = "<h2>" + line + "</h2>";
    if (line.starts_with("  detects")) said = line.substr(2);
    if (line.starts_with("reproduce: ")) said = "<pre>" + line.substr(0, line.size() - 7) + "</pre>";  // no --rows
    if (said.empty()) continue;
    ++seen;
    EXPECT_NE(ran.out.find(said), std::string::npos) << said;
  }
  EXPECT_EQ(seen, 4);  // the kernel, what its two precisions detect, the command
}

// ---- shares ----

TEST(Report, shares_make_the_page_of_one_process) {
  const std::string words =
      "report --mechanism deltanet --mechanism kda --precision fp32 --precision bf16 --shape 1,17,2,8,8 --format json";
  const std::string whole = run_words(words).out;
  const std::string folder = testing::TempDir() + "assay_shares_";
  for (const int parts : {2, 5}) {  // of four kernels and precisions: some shares are empty
    std::string files;
    for (int part = parts; part >= 1; --part) {
      const std::string file = text(folder, "part", part, "of", parts, ".json");
      const Ran ran = run_words(text(words, " --shard ", part, '/', parts, " -o ", file));
      EXPECT_LE(ran.code, exit_failed) << ran.err;
      files += ' ' + file;
    }
    const Ran ran = run_words("merge" + files);
    EXPECT_EQ(ran.code, exit_passed) << ran.err;
    EXPECT_EQ(ran.out, whole);
  }
  const std::string one = folder + "part1of2.json", other = folder + "part1of5.json", text_file = folder + "text";
  std::ofstream(text_file) << "{";
  for (const auto& [files, said] :
       std::vector<std::pair<std::string, std::string>>{{one, "merge: share 2 of 2 is missing"},
                                                        {(one + ' ').append(one), "is the same share as"},
                                                        {(one + ' ').append(other), "is of another run than"},
                                                        {text_file, "assay_shares_text"}}) {
    const Ran ran = run_words("merge " + files);
    EXPECT_EQ(ran.code, exit_usage);
    EXPECT_NE(ran.err.find(said), std::string::npos) << ran.err;
  }
  EXPECT_NE(run_words("report --shard 1/2").err.find("--shard: needs --format json"), std::string::npos);
  for (const std::string bad : {"0/2", "3/2", "x", "1/", "1/2x", "-1/2"})
    EXPECT_NE(run_words("report --format json --shard=" + bad).err.find("--shard: expected 2/8"), std::string::npos)
        << bad;
}

// ---- a device ----

/// A device that does what the CPU executor does, and then `harm`; it cannot run split_decode.
Device pretended(const std::function<void(Answer&)>& harm = [](Answer&) {}) {
  Device device{"Pretender", "driver 1.0, runtime 2.0", {Format::bf16, Format::fp16}, {}, {}, {}};
  device.obstacle = [](std::string_view, const KernelForm& form, const Problem&, Format) {
    return std::string(form.name == "split_decode" ? "a pretender decodes nothing" : "");
  };
  device.tile = [](std::string_view, const KernelForm&, const Problem&, Format) { return 1; };
  device.run = [harm](std::string_view, const KernelForm& form, const Problem& problem, Format precision) {
    Answer answer = form.run(problem, Policy::of(form.sites, precision), 1);
    harm(answer);
    return answer;
  };
  return device;
}

Report report_with(const Device* device, const std::string& mechanism, RunsOn where = RunsOn::every,
                   std::vector<Format> precisions = {Format::bf16}) {
  ReportOptions options;
  options.mechanisms = {mechanism}, options.precisions = std::move(precisions);
  options.shape = "1,40,2,16,16", options.device = where;
  return make_report(
      options, [](std::size_t, std::string_view) {}, device);
}

TEST(ReportDevice, is_judged_beside_the_cpu_executor) {
  const Device device = pretended();
  const Report report = report_with(&device, "deltanet", RunsOn::every, {Format::bf16, Format::fp32});
  EXPECT_TRUE(report.passed());
  std::vector<std::string> kernels;
  for (const ReportRow& row : report.rows) {
    const std::string kernel = row.device + ' ' + row.precision;
    if (kernels.empty() || kernels.back() != kernel) kernels.push_back(kernel);
    EXPECT_EQ(row.command.find(" --device gpu") != std::string::npos, row.device == "Pretender");
    EXPECT_EQ(row.tile, find_kernels(kernel_rooms(), "deltanet")->forms[0].tiles[row.device == "Pretender"]);
  }
  EXPECT_EQ(kernels, (std::vector<std::string>{"cpu fp32", "cpu bf16", "Pretender bf16"}));
  const std::string page = print(report, RowsFormat::table, true);
  EXPECT_NE(page.find("run on the CPU executor, Pretender (driver 1.0, runtime 2.0), against"), std::string::npos);
  EXPECT_NE(page.find("\ndeltanet chunkwise on Pretender, tile "), std::string::npos) << page;
  EXPECT_NE(page.find("\n\nkernel              fp32  bf16\ndeltanet chunkwise  PASS  PASS\n"
                      "\non Pretender        bf16\ndeltanet chunkwise  PASS\n"),
            std::string::npos)
      << page;
  EXPECT_EQ(Json::parse(print(report, RowsFormat::json))["rows"].back()["device"], "Pretender");
}

TEST(ReportDevice, fails_with_a_wrong_answer_of_its_own) {
  for (const char* mechanism : {"deltanet", "parallax"}) {
    const Device device = pretended([](Answer& answer) {
      for (double& x : answer.gradients.at("k").data) x *= 1.03;
    });
    for (const ReportRow& row : report_with(&device, mechanism).rows) {
      if (row.form == "split_decode") continue;
      const bool harmed = row.device == "Pretender" && row.tensor == "d_k";
      EXPECT_EQ(row.judgement.verdict, harmed ? Verdict::fail : Verdict::pass) << row.device << ' ' << row.tensor;
    }
  }
}

TEST(ReportDevice, that_leaves_out_a_tensor_is_an_error) {
  const Device forgetful = pretended([](Answer& answer) { answer.gradients.erase("beta"); });
  const Device transposed = pretended([](Answer& answer) { answer.outputs.at("o").shape.push_back(1); });
  for (const Device* device : {&forgetful, &transposed}) {
    const Report report = report_with(device, "deltanet", RunsOn::gpu);
    ASSERT_EQ(report.rows.size(), 1u);
    EXPECT_EQ(report.rows[0].judgement.verdict, Verdict::error);
    EXPECT_FALSE(report.passed());
  }
}

TEST(ReportDevice, is_left_out_where_it_cannot_run_unless_it_was_asked_for) {
  const Device device = pretended();
  for (const ReportRow& row : report_with(&device, "softmax_attention").rows)
    EXPECT_TRUE(row.device == "cpu" || row.form != "split_decode");
  const Report asked = report_with(&device, "softmax_attention", RunsOn::gpu);
  ASSERT_FALSE(asked.rows.empty());
  EXPECT_EQ(asked.rows.back().judgement.reason, "a pretender decodes nothing");
  EXPECT_EQ(asked.rows.back().judgement.verdict, Verdict::unsupported);
  for (const ReportRow& row : report_with(&device, "softmax_attention", RunsOn::cpu).rows) EXPECT_EQ(row.device, "cpu");
}

TEST(ReportDevice, that_is_not_there_or_has_no_such_kernels_is_named) {
  const Device device = pretended();
  EXPECT_THROW(report_with(&device, "deltanet", RunsOn::gpu, {Format::e4m3}), InputError);
  EXPECT_THROW(report_with(nullptr, "deltanet", RunsOn::gpu), InputError);
  if (gpu() != nullptr) GTEST_SKIP() << "there is a GPU";
  const Ran ran = run_words("report --mechanism deltanet --device gpu");
  EXPECT_EQ(ran.code, exit_usage);
  EXPECT_EQ(ran.err, "assay: --device gpu: " + why_no_gpu() + "\n");
}

TEST(ReportDevice, draws_on_a_gpu_that_is_not_there_are_refused) {
  if (gpu() != nullptr) GTEST_SKIP() << "there is a GPU";
  for (const std::string verb : {"report --mechanism deltanet", "check case.safetensors out.safetensors",
                                 "drift --mechanism deltanet", "mutants", "calibrate"}) {
    const Ran ran = run_words(verb + " --judge gpu");
    EXPECT_EQ(ran.code, exit_usage);
    EXPECT_EQ(ran.err, "assay: --judge gpu: " + why_no_gpu() + "; leave it out, and the CPU judges to the same bits\n");
  }
  EXPECT_EQ(run_words("report --mechanism deltanet --judge tpu").code, exit_usage);
}

TEST(ReportDevice, verdicts_do_not_depend_on_where_draws_run) {
  const std::string report = "report --mechanism deltanet --precision bf16 --shape 1,20,1,16,16 --format json";
  const Ran here = run_words(report + " --judge cpu"), any = run_words(report);
  EXPECT_EQ(here.code, exit_passed);
  EXPECT_EQ(here.out, any.out);
}

}  // namespace
}  // namespace assay
