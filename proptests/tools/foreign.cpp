// Answers of kernels by other authors: fixtures/foreign, judged as `assay check` judges a file. That its index and the
// page list them all is in proptests/transcripts/records.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "files/case_file.hpp"
#include "files/input_file.hpp"
#include "proptests/core/places.hpp"
#include "proptests/core/share.hpp"
#include "proptests/tools/cli.hpp"
#include "reference/core/sha256.hpp"
#include "tools/run/checked.hpp"

namespace assay {
namespace {

const std::string folder_of_recordings = source_dir() + "/fixtures/foreign/";

Json recordings() { return Json::parse(read_text(folder_of_recordings + "index.json")).at("recordings"); }

class Foreign : public CliFiles {
 protected:
  /// The case that was answered, made again: its path. Its bits must be those of the recording.
  std::string case_of(const Json& recording) const {
    std::vector<std::string> command = {"case"};
    std::istringstream words(recording.at("case").get<std::string>());
    for (std::string word; words >> word;) command.push_back(word);
    std::string to = path("case.safetensors");
    command.insert(command.end(), {"-o", to});
    const Ran made = run_assay(command);
    EXPECT_EQ(made.code, 0) << recording.at("id") << ": " << made.err;
    Safetensors file = read_safetensors(to);
    std::string& digests = file.metadata.at("sha256");
    EXPECT_EQ(Sha256().update(digests).hex(), recording.at("inputs").get<std::string>())
        << recording.at("id") << ": `assay case` makes another case than the kernel answered";
    if (!recording.contains("without")) return to;
    Json kept = Json::parse(digests);
    for (const std::string& name : recording.at("without").get<std::vector<std::string>>())
      file.tensors.erase(name), kept.erase(name);
    digests = kept.dump();
    write_safetensors(to, file);
    return to;
  }

  /// The verdicts on what was answered, by the contract that the index names, or without one.
  std::vector<ReportRow> verdicts(const Json& recording) const {
    const std::string answer = folder_of_recordings + recording.at("id").get<std::string>() + ".safetensors";
    std::vector<std::string> answered;
    for (const auto& [name, tensor] : read_safetensors(answer).tensors) answered.push_back(name);
    std::ostringstream out, err;
    Console console{out, err, false};
    CheckOptions options;
    options.problem = case_of(recording), options.answer = answer, options.tensors = answered;
    options.standard.precision = recording.value("judged_as", ""), options.standard.threads = 1;
    options.standard.contract = recording.value("contract", "");
    return check_case(options, console).rows;
  }

  /// One in fifteen recordings that are healthy, or that are not, or more.
  template <class Judge>
  void each(bool healthy, const Judge& judge) {
    Share share(15);
    while (share.goes_on())
      for (const Json& recording : recordings())
        if (recording.at("healthy") == healthy && share.takes()) judge(recording, verdicts(recording));
    EXPECT_GT(share.taken(), 0);
  }
};

/// The verdict on all; a tensor in which there is nothing to see says nothing.
Verdict overall(const std::vector<ReportRow>& rows) { return all_pass(rows) ? Verdict::pass : worst_of(rows); }

std::string said_of(const std::vector<ReportRow>& rows) {
  std::string lines;
  for (const std::string& line : complaints_of(rows)) lines += '\n' + line;
  return lines;
}

/// All pass but those whose index says `open`, and these have exactly the verdict that it gives, so that a change
/// shows.
TEST_F(Foreign, what_is_healthy_passes) {
  each(true, [](const Json& recording, const std::vector<ReportRow>& rows) {
    EXPECT_EQ(recording.at("verdict") == "PASS", !recording.contains("open")) << recording.at("id");
    EXPECT_EQ(name_of(overall(rows)), recording.at("verdict").get<std::string>())
        << recording.at("id") << ": " << recording.at("kernel") << said_of(rows);
  });
}

/// Where it shows, by the textbook formula in fp64, one tensor at least does not pass.
TEST_F(Foreign, what_is_broken_does_not) {
  each(false, [](const Json& recording, const std::vector<ReportRow>& rows) {
    const bool open = recording.contains("open");
    EXPECT_EQ(overall(rows) == Verdict::pass, open) << recording.at("id") << ": " << recording.at("bug");
    const auto visible = recording.at("visible_in").get<std::set<std::string>>();
    EXPECT_TRUE(open || std::any_of(rows.begin(), rows.end(),
                                    [&](const ReportRow& row) {
                                      return !passes(row.judgement.verdict) && visible.contains(row.tensor);
                                    }))
        << recording.at("id") << ": " << recording.at("bug") << said_of(rows);
  });
}

/// One line changed in fla's kernels: what check says it looks like is what was changed (the index says in which
/// words), or nothing. By the index, 15 of 24 are named at least.
TEST_F(Foreign, planted_bugs_are_named) {
  std::vector<Json> bugs;
  int named = 0;
  for (const Json& recording : recordings())
    if (recording.contains("looks_like"))
      bugs.push_back(recording), named += recording.at("looks_like").get<std::string>().empty() ? 0 : 1;
  Share share(12);
  while (share.goes_on())
    for (const Json& recording : bugs) {
      if (!share.takes()) continue;
      const auto id = recording.at("id").get<std::string>(), words = recording.at("looks_like").get<std::string>();
      const std::string answer = folder_of_recordings + id + ".safetensors";
      std::vector<std::string> command = {"check", case_of(recording), answer, "--format", "json", "--threads", "1"};
      for (const auto& [name, tensor] : read_safetensors(answer).tensors)
        command.insert(command.end(), {"--tensor", name});
      const Ran ran = run_assay(command);
      ASSERT_EQ(ran.code, exit_failed) << id << ": " << ran.err;
      const Json causes = Json::parse(ran.out).at("looks_like");
      const std::string said = causes.empty() ? "" : causes[0].at("what").get<std::string>();
      EXPECT_EQ(said.empty(), words.empty()) << id << ": " << said;
      EXPECT_NE(said.find(words), std::string::npos) << id << ": " << said;
    }
  std::cout << named << " of " << bugs.size() << " bugs planted in fla's kernels are named, tried: " << share.taken()
            << '\n';
  EXPECT_GE(bugs.size(), 24U);
  EXPECT_GE(24U * static_cast<unsigned>(named), 15U * bugs.size());
}

}  // namespace
}  // namespace assay
