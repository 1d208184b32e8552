#include "tools/print/ci_formats.hpp"

#include <fmt/format.h>

#include <string_view>

#include "files/names.hpp"
#include "files/shown.hpp"
#include "kernels/core/kernel_room.hpp"
#include "tools/print/escape.hpp"

namespace assay {
namespace {

/// Where a mechanism's kernels are.
std::string program_of(const std::string& mechanism) {
  const KernelRoom* kernels = find_kernels(kernel_rooms(), mechanism);
  return "kernels/" + (kernels == nullptr ? "" : std::string(kernels->folder) + '/') + mechanism + ".hpp";
}

using Rows = std::vector<ReportRow>;

bool passes(const ReportRow& row) { return assay::passes(row.judgement.verdict); }

std::string tensor_of(const ReportRow& row) { return row.tensor.empty() ? "all tensors" : row.tensor; }

/// The tensor's fault, in short.
std::string message_of(const ReportRow& row) {
  return row.begins.empty() ? row.judgement.reason : row.begins.substr(0, row.begins.find('\n'));
}

/// The tensor's fault and how to see it again, each in a line.
std::string explanation_of(const ReportRow& row) {
  const std::string evidence = evidence_of(row);
  return (row.begins.empty() ? "" : row.begins + '\n') + row.judgement.reason +
         (row.where.empty() ? "" : "\nwhere: " + row.where) + (evidence.empty() ? "" : "\nevidence: " + evidence) +
         "\nreproduce: " + typed_here(row.command);
}

/// The words of both kinds of evidence on each tensor that they weigh: viewers show results alone, and passes are none.
Json evidence_of_all(const Rows& rows) {
  Json list = Json::array();
  for (const ReportRow& row : rows)
    if (const std::string evidence = evidence_of(row); !evidence.empty())
      list.push_back({{"tensor", kernel_of(row) + ' ' + contract_of(row) + ' ' + tensor_of(row)},
                      {"verdict", name_of(row.judgement.verdict)},
                      {"evidence", evidence}});
  return list;
}

/// A path as a reference of a URI.
std::string uri(const std::string& path) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  std::string out = path.starts_with('/') ? "file://" : "";
  for (const char c : path)
    out += plain.find(c) != std::string_view::npos ? std::string(1, c)
                                                   : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

struct Counts {
  std::size_t failures = 0, errors = 0;
  void see(const ReportRow& row) {
    if (!passes(row)) ++(row.judged() ? failures : errors);
  }
};

}  // namespace

std::string as_junit(const Page& page, const Rows& rows) {
  Counts all;
  std::string suites;
  const std::string file = page.artifact.empty() ? "" : " file=\"" + xml(page.artifact) + '"';
  for (std::size_t first = 0, last = 0; first < rows.size(); first = last) {
    const std::string suite = kernel_of(rows[first]) + ' ' + contract_of(rows[first]);
    Counts counts;
    std::string cases;
    for (; last < rows.size() && kernel_of(rows[last]) + ' ' + contract_of(rows[last]) == suite; ++last) {
      const ReportRow& row = rows[last];
      counts.see(row), all.see(row);
      cases += fmt::format(R"(    <testcase classname="{}" name="{}"{})", xml(suite), xml(tensor_of(row)), file);
      if (passes(row)) {
        const std::string evidence = evidence_of(row);
        cases += evidence.empty()
                     ? "/>\n"
                     : fmt::format(">\n      <system-out>{}</system-out>\n    </testcase>\n", xml(evidence));
        continue;
      }
      const char* kind = row.judged() ? "failure" : "error";
      cases += fmt::format(">\n      <{} type=\"{}\" message=\"{}\">{}</{}>\n    </testcase>\n", kind,
                           name_of(row.judgement.verdict), xml(message_of(row)), xml(explanation_of(row)), kind);
    }
    suites += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\">\n{}",
                          xml(suite), last - first, counts.failures, counts.errors, cases) +
              "  </testsuite>\n";
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"assay {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\">\n{}</testsuites>\n",
      xml(page.verb), rows.size(), all.failures, all.errors, suites);
}

std::string as_sarif(const Page& page, const Rows& rows) {
  Json rules = Json::array(), results = Json::array();
  for (const Verdict verdict : all_verdicts)
    if (!assay::passes(verdict))
      rules.push_back({{"id", name_of(verdict)}, {"shortDescription", {{"text", summary_of(verdict)}}}});
  for (const ReportRow& row : rows) {
    if (passes(row)) continue;
    const std::string name = row.mechanism + '/' + row.form + '/' + contract_of(row) + '/' + tensor_of(row);
    const std::string artifact = page.artifact.empty() ? program_of(row.mechanism) : page.artifact;
    const Json place = {{"physicalLocation", {{"artifactLocation", {{"uri", uri(artifact)}}}}},
                        {"logicalLocations", Json::array({{{"fullyQualifiedName", name}}})}};
    results.push_back(
        {{"ruleId", name_of(row.judgement.verdict)},
         {"kind", "fail"},
         {"level", "error"},
         {"message",
          {{"text", kernel_of(row) + ' ' + contract_of(row) + ' ' + tensor_of(row) + ": " + explanation_of(row)}}},
         {"locations", Json::array({place})}});
  }
  const Json driver = {{"name", "assay"}, {"version", ASSAY_VERSION}, {"rules", std::move(rules)}};
  const Json invocation = {{"commandLine", page.command}, {"executionSuccessful", true}};
  Json run = {
      {"tool", {{"driver", driver}}}, {"invocations", Json::array({invocation})}, {"results", std::move(results)}};
  if (Json evidence = evidence_of_all(rows); !evidence.empty()) run["properties"]["evidence"] = std::move(evidence);
  const Json all = {
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", Json::array({run})}};
  return json_page(all);
}

std::string as_github(const Page& page, const Rows& rows) {
  std::string out;
  const std::string file = page.artifact.empty() ? "" : "file=" + workflow_text(page.artifact, true) + ',';
  for (const ReportRow& row : rows) {
    const std::string kernel = kernel_of(row) + ' ' + contract_of(row) + ' ' + tensor_of(row);
    if (!passes(row))
      out += fmt::format("::error {}title={}::{}\n", file,
                         workflow_text(fmt::format("{} {}", name_of(row.judgement.verdict), kernel), true),
                         workflow_text(explanation_of(row), false));
    else if (!row.judgement.blind_spots.empty())
      out += fmt::format("::notice title={}::this case cannot show {}\n", workflow_text(kernel, true),
                         workflow_text(names_in(row.judgement.blind_spots), false));
    if (const std::string evidence = evidence_of(row); passes(row) && !evidence.empty())
      out += plain_text(fmt::format("PASS {}: {}", kernel, evidence)) + '\n';
  }
  return out + plain_text(count_of(rows, page.not_judged)) + "\nreproduce: " + plain_text(typed_here(page.command)) +
         '\n';
}

}  // namespace assay
