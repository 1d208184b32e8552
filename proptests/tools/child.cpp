// Other people's code in a process of its own, and nothing left behind. What is said of how it ended is in
// proptests/transcripts/kernel.md and plugin.md; signals to this program are in program.sh.
#include "tools/run/child.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "files/shown.hpp"
#include "proptests/tools/cli.hpp"

namespace assay {
namespace {

using namespace std::chrono_literals;

/// At the limit everything ends that the child has started; so it does when the child ends before it. A session of its
/// own is no way out.
TEST(Child, leaves_nothing_running) {
  const PrivateFolder folder;
  const std::string file = (folder.path() / "pid").string();
  for (const std::string start : {"sh", "setsid sh"})
    for (const bool waits : {true, false}) {
      const std::string command = start + " -c 'echo $$ > " + file + "; exec sleep 1000' & while ! test -s " + file +
                                  "; do sleep 0.01; done" + (waits ? "; wait" : "");
      const auto begun = std::chrono::steady_clock::now();
      const ChildEnd end = run_command(command, waits ? 2s : 60s);
      EXPECT_LT(std::chrono::steady_clock::now() - begun, 30s) << command;
      EXPECT_EQ(end.timed_out, waits) << command;
      EXPECT_EQ(end.passed(), !waits) << command;
      int pid = 0;
      std::ifstream(file) >> pid;
      ASSERT_GT(pid, 0) << command;
      EXPECT_FALSE(is_running(pid)) << command;
      std::filesystem::remove(file);
    }
}

/// A keeper's children know what was known when it was made, and nothing of each other.
TEST(Child, know_nothing_of_what_came_later) {
  std::string secret = "before";
  ChildKeeper keeper([&](const std::string& task, int) {
    std::printf("%s %s\n", task.c_str(), secret.c_str());
    secret = "changed";
    return 1;
  });
  secret = "after";
  EXPECT_EQ(keeper.run("one", -1, 10s).last_words, "one before");
  EXPECT_EQ(keeper.run("two", -1, 10s).last_words, "two before");
  EXPECT_EQ(keeper.run(std::string(300000, 'x'), -1, 10s).exit_code, 1);
}

TEST(Child, words_reach_the_shell_as_they_are) {
  for (const std::string word : {"plain", "", "two words", "it's", "$(touch x)", "`a`; b", "-n", "a\nb", "\"\\\"", "*"})
    EXPECT_TRUE(
        run_command("test " + shell_word("x" + word) + " = \"$(printf '%s' " + shell_word("x" + word) + ")\"", 10s)
            .passed())
        << word;
  EXPECT_EQ(shell_word("a/b-1.st"), "a/b-1.st");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
}

}  // namespace
}  // namespace assay
