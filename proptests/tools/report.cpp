// assay report where a transcript does not do (proptests/transcripts/report.md): verdicts that are pretended, in every
// format, and devices that are.
#include "tools/verbs/report.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "judge/court/report_row.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/print/escape.hpp"
#include "tools/print/rows_page.hpp"
#include "tools/print/table.hpp"

namespace assay {
namespace {

TEST(Table, keeps_cells_apart_in_every_format) {
  const Table table{{{"name"}, {"value", true}}, {{"a", "1.5"}, {"σσ|", "-12"}, {"\"x\", y"}}};
  EXPECT_EQ(table.text(2),
            "  name    value\n"
            "  a         1.5\n"
            "  σσ|       -12\n"
            "  \"x\", y\n");
  EXPECT_EQ(table.csv(), "name,value\na,1.5\nσσ|,-12\n\"\"\"x\"\", y\",\n");
  EXPECT_EQ(table.markdown(), "| name | value |\n| --- | ---: |\n| a | 1.5 |\n| σσ\\| | -12 |\n| \"x\", y |  |\n");
}

TEST(Table, numbers_survive_the_round_trip) {
  for (const double x : {0.1, 1.0 / 3, -2.2250738585072014e-308, std::numeric_limits<double>::max(), 2.0})
    EXPECT_EQ(std::stod(round_trip(x)), x);
  EXPECT_EQ(round_trip(std::numeric_limits<double>::infinity()), "inf");
}

/// A row of each verdict that a kernel can have, with the reason in characters that some format gives a meaning.
Report one_of_each_verdict() {
  Report report;
  for (const Verdict verdict :
       {Verdict::pass, Verdict::fail, Verdict::vacuous, Verdict::undecided, Verdict::unsupported, Verdict::error}) {
    ReportRow row;
    row.mechanism = "room", row.form = "form", row.tile = "64", row.precision = "bf16", row.tensor = "o";
    row.shape = "1,2,3,4,5", row.extents = {2, 3}, row.command = "build/assay report --seed 0";
    row.judgement.verdict = verdict;
    row.judgement.reason = verdict == Verdict::pass ? "" : "because, \"it\" is <a>";
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
    call_vacuous(other.rows, strict, {});
    EXPECT_EQ(other.rows.back().judgement.verdict, verdict) << strict;
    EXPECT_EQ(other.passed(), verdict == Verdict::unseen) << strict;
  }
  // A tensor that hides a corruption: alone, beside one that shows another, beside one that shows it, and where rows of
  // queries that see one key have moved.
  for (const auto& [hidden, shown, keys, strict, verdict] :
       {std::tuple{"heads_swapped", "", 1, false, Verdict::vacuous},
        {"heads_swapped", "zeros", 2, false, Verdict::vacuous},
        {"heads_swapped", "heads_swapped", 2, false, Verdict::pass},
        {"heads_swapped", "heads_swapped", 1, true, Verdict::vacuous},
        {"rows_shifted", "zeros", 1, false, Verdict::pass},
        {"rows_shifted", "zeros", 2, false, Verdict::vacuous}}) {
    std::vector<ReportRow> both{report.rows[0], report.rows[0]};
    both[0].judgement.rejected_corruptions = {shown};
    Judgement& hides = both[1].judgement;
    hides.verdict = Verdict::vacuous, hides.reason = "it hides", hides.accepted_corruptions = {hidden};
    call_vacuous(both, strict, {.seq_len = keys, .query_len = 4});
    EXPECT_EQ(hides.verdict, verdict) << hidden << shown;
    const std::string said = hidden == shown ? "it hides; other tensors show it" : "this case cannot show rows_shifted";
    EXPECT_EQ(std::ranges::count(complaints_of(both), "note  room form bf16 o: " + said), verdict == Verdict::pass)
        << hidden << shown;
  }
  report.rows.clear();
  EXPECT_FALSE(report.passed());
}

/// A tensor that does not pass is in every format, with its verdict.
TEST(Report, no_format_drops_a_verdict) {
  const Report report = one_of_each_verdict();
  for (const RowsFormat format : all_rows_formats) {
    const std::string page = print(report, format);
    for (const ReportRow& row : report.rows)
      if (row.judgement.verdict != Verdict::pass) {
        EXPECT_NE(page.find(name_of(row.judgement.verdict)), std::string::npos) << name_of(format) << '\n' << page;
      }
  }
  const Json json = Json::parse(print(report, RowsFormat::json));
  EXPECT_EQ(json["rows"].size(), report.rows.size());
  EXPECT_TRUE(json["rows"][1]["worst_z"].is_null());  // JSON has no infinity
  EXPECT_EQ(worst_of(report.rows), Verdict::fail);
}

/// A long reason goes on in further lines.
TEST(Report, no_line_of_text_is_too_wide) {
  Report report = one_of_each_verdict();
  for (ReportRow& row : report.rows)
    for (int i = 0; i < 40; ++i) row.judgement.reason += " word";
  const std::string page = print(report, RowsFormat::table);
  EXPECT_NE(page.find("\n      word "), std::string::npos) << page;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), text_width) << line;
}

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
}

}  // namespace
}  // namespace assay
