// Shares of `assay-lab mutants` and `assay-lab calibrate`, merged: the bytes of one process; and --plot as a picture of
// dots.
#include <gtest/gtest.h>

#include <filesystem>

#include "judge/held_out/rooms.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/tools/cli.hpp"
#include "reference/core/error.hpp"
#include "tools/verbs/command.hpp"

namespace assay {
namespace {

struct Shards : CliFiles {
  std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) const {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// The files of a run's shares, the last one first.
  std::vector<std::string> shares(const std::vector<std::string>& words, int parts) {
    std::vector<std::string> files;
    for (int part = parts; part > 0; --part) {
      files.push_back(path(text(words[0], '-', part, "-of-", parts)));
      const Ran ran = run_assay(with(words, {"--shard", text(part, '/', parts), "-o", files.back()}));
      EXPECT_EQ(ran.code, exit_passed) << ran.err;
    }
    return files;
  }
};

const std::vector<std::string> mutants = {"mutants",  "--mechanism", "value_averaging,retnet", "--trials", "1",
                                          "--format", "json"},
                               calibrate = {"calibrate",   "--mechanism", "value_averaging,retnet",
                                            "--precision", "bf16",        "--style",
                                            "normal",      "--format",    "json"};

TEST_F(Shards, are_merged_to_the_bytes_of_one_process) {
  for (const std::vector<std::string>& words : {mutants, calibrate}) {
    const Ran whole = run_assay(words);
    ASSERT_EQ(whole.code, exit_passed) << whole.err;
    for (const int parts : {2, 3}) {  // of two kernels: a third share has none
      const Ran merged = run_assay(with({"merge"}, shares(words, parts)), lab_command_line());
      EXPECT_EQ(merged.code, exit_passed) << merged.err;
      EXPECT_EQ(merged.out, whole.out);
    }
  }
}

TEST_F(Shards, that_are_not_all_of_one_run_are_refused) {
  const std::vector<std::string> of_mutants = shares(mutants, 2), of_calibrate = shares(calibrate, 2);
  const auto says = [](const Ran& ran, const std::string& sentence) {
    EXPECT_EQ(ran.code, exit_usage);
    EXPECT_NE(ran.err.find(sentence), std::string::npos) << ran.err;
  };
  says(run_assay({"merge", of_mutants[0]}, lab_command_line()), "merge: share 1 of 2 is missing");
  says(run_assay({"merge", of_calibrate[0], of_calibrate[0]}, lab_command_line()), "is the same share as");
  says(run_assay({"merge", of_mutants[0], of_calibrate[1]}, lab_command_line()), "is of another run than");
  says(run_assay({"calibrate", "--merge", of_calibrate[0]}), "is a share of a run; `assay-lab merge` makes the whole");
  says(run_assay({"mutants", "--shard", "1/2"}), "--shard: needs --format json");
  says(run_assay(with(mutants, {"--shard", "1/2", "--healthy", "3"})), "--shard: shares the kernels of the kill table");
  says(run_assay(with(calibrate, {"--shard", "1/2", "--seconds", "1"})), "--shard: shares the kernels of contracts");
}

TEST_F(Shards, drawings_are_dots_where_a_program_makes_them) {
  const std::vector<std::string> words = {"paper", "mdn-stability", "-o", path("tables"), "--plot"};
  const auto with_path = [&](const std::string& folders, const std::string& file) {
    const std::string before = std::getenv("PATH");
    ::setenv("PATH", folders.c_str(), 1);
    const Ran ran = run_assay(with(words, {path(file)}));
    ::setenv("PATH", before.c_str(), 1);
    return ran;
  };
  // A stand-in that hands its drawing on shows what it is given: no variables, no dark colours.
  write("rsvg-convert", "#!/bin/sh\ncp \"$5\" \"$4\"\n");
  std::filesystem::permissions(path("rsvg-convert"), std::filesystem::perms::owner_all);
  EXPECT_EQ(with_path(folder.string() + ":/bin:/usr/bin", "plot.png").code, exit_passed);
  const std::string drawn = read("plot.png");
  EXPECT_NE(drawn.find("svg text { fill: #222; }"), std::string::npos) << drawn.substr(0, 1500);
  EXPECT_EQ(drawn.find("var("), std::string::npos);
  EXPECT_EQ(drawn.find("@media"), std::string::npos);
  EXPECT_NE(drawn.find("log mu = -3"), std::string::npos);

  const Ran without = with_path("/nowhere", "other.png");
  EXPECT_EQ(without.code, exit_usage);
  EXPECT_NE(
      without.err.find("PNG needs rsvg-convert (librsvg2-bin in Debian) or chromium on the PATH; .svg needs neither"),
      std::string::npos)
      << without.err;
  write("rsvg-convert", "#!/bin/sh\necho no fonts; exit 3\n");
  const Ran broken = with_path(folder.string() + ":/bin:/usr/bin", "other.png");
  EXPECT_EQ(broken.code, exit_usage);
  EXPECT_NE(broken.err.find("made no picture, and ended with exit code 3: no fonts"), std::string::npos) << broken.err;
  EXPECT_FALSE(std::filesystem::exists(path("other.png")));
  EXPECT_NE(with_path("/bin", "plot.gif").err.find("--plot: expected a file that ends in .svg or .png"),
            std::string::npos);
}

}  // namespace
}  // namespace assay
