// assay report where a transcript does not do (proptests/transcripts/report.md): every kernel passes, every verdict is
// printed in every format, and devices that are pretended.
#include "tools/verbs/report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
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

Ran run_words(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> args;
  for (std::string word; words >> word;) args.push_back(word);
  return run_assay(args);
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

TEST(Report, covers_every_form_and_tensor_and_passes) {
  const Ran ran = run_words("report --precision bf16 --shape 1,40,2,16,16 --seed 3 --format json");
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

TEST(ReportMatrix, has_colours_of_verdicts) {
  const std::string wrong = print(one_of_each_verdict(), RowsFormat::table, false, true);
  for (const char* said : {"\nroom form  \033[31mFAIL 5\033[0m\n", "  \033[33mUNDECIDED\033[0m\n",
                           "\n\033[33mVACUOUS\033[0m  room form bf16 o: ", "\n\033[35mUNSUPPORTED\033[0m  room form "})
    EXPECT_NE(wrong.find(said), std::string::npos) << wrong;
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
