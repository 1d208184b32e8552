// Programs that stay and answer case after case: the line protocol, and processes that end. The words of a check on
// them are in proptests/transcripts/kernel.md.
#include "tools/run/kernel_loop.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "proptests/tools/cli.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

using namespace std::chrono_literals;

class Loop : public CliFiles {
 protected:
  /// A program of the shell that notes down its process, then does `body` for every line.
  std::string program(const std::string& body) const {
    return "echo $$ >> " + path("starts") + "; while read -r problem out; do " + body + "; done";
  }
  int starts() const {
    const std::string noted = read("starts");
    return static_cast<int>(std::count(noted.begin(), noted.end(), '\n'));
  }
  /// The complaint about a program that is asked, and asked again once it has answered.
  std::string complaint(const std::string& body) const {
    KernelLoop loop(body, {});
    try {
      loop.ask(path("case"), path("out"), 20s);
      std::this_thread::sleep_for(300ms);
      loop.ask(path("case"), path("out"), 20s);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Loop, hears_what_is_said_between_two_cases) {
  EXPECT_EQ(complaint(program("echo done")), "");
  EXPECT_EQ(complaint(program("echo done; sleep 0.1; echo late")),
            "--kernel-loop: the program said more than one line for a case: late; expected done, or error MESSAGE, and "
            "nothing else");
  EXPECT_EQ(complaint("read -r line; echo done"),
            "--kernel-loop: the program, which should read until its input ends, ended with exit code 0");
}

/// A size that is not taken is no end; a program that dies is started anew, without knowledge of the first one.
TEST_F(Loop, goes_on_after_an_error_and_starts_anew_after_an_end) {
  KernelLoop loop(program("case $problem in *bad) echo error bad;; *dead) exit 1;; *) echo done;; esac"), {});
  loop.ask("good", "out", 20s);
  EXPECT_THROW(loop.ask("bad", "out", 20s), InputError);
  loop.ask("good", "out", 20s);
  EXPECT_EQ(starts(), 1);
  EXPECT_THROW(loop.ask("dead", "out", 20s), InputError);
  loop.ask("good", "out", 20s);
  EXPECT_EQ(starts(), 2);
  EXPECT_THROW(loop.ask("a path", "out", 20s), InputError);
}

TEST_F(Loop, ends_with_its_input_and_leaves_nothing_running) {
  for (const bool stubborn : {false, true}) {
    std::filesystem::remove(path("starts"));
    std::filesystem::remove(path("ended"));
    {
      KernelLoop loop(program("echo done") + (stubborn ? "; sleep 1000 & sleep 1000" : "; touch " + path("ended")), {});
      loop.ask("case", "out", 20s);
    }
    EXPECT_EQ(std::filesystem::exists(path("ended")), !stubborn);
    const int pid = std::stoi(read("starts"));
    for (int i = 0; i < 500 && is_running(pid); ++i) std::this_thread::sleep_for(10ms);
    EXPECT_FALSE(is_running(pid)) << stubborn;
  }
}

}  // namespace
}  // namespace assay
