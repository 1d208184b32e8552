// The frame of the program where a transcript does not do (proptests/transcripts/usage.md, names.md): too little
// memory, and what a terminal is told.
#include "tools/verbs/command.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "proptests/tools/cli.hpp"
#include "tools/print/escape.hpp"

namespace assay {
namespace {

#ifndef __SANITIZE_ADDRESS__  // which ends the process at once
TEST(Run, WhatNoMemoryHoldsIsTwo) {
  std::ostringstream out, err;
  Console console{out, err, false};
  // Some systems promise whatever memory they are asked for, and kill who takes it.
  rlimit all{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &all), 0);
  const rlimit some{rlim_t{1} << 40, all.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &some), 0);
  EXPECT_EQ(run({"case", "deltanet", "--shape", "1,100000000,100,128"}, console), exit_usage);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &all), 0);
  EXPECT_EQ(err.str(), "assay: there is not enough memory for a problem of this size\n");
}
#endif

/// A program reads one line; in a terminal no line is too wide, and the words are the same.
TEST(Run, ARefusalFitsATerminal) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"nosuch"}, {"report", "--style", "odd"}, {"case", "deltanet", "--shape", "1,2"}}) {
    std::ostringstream out, plain, fitted;
    Console quiet{out, plain, false}, terminal{out, fitted, true};
    EXPECT_EQ(run(args, quiet), exit_usage);
    EXPECT_EQ(run(args, terminal), exit_usage);
    std::istringstream lines(fitted.str());
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), text_width) << line;
    std::string joined = fitted.str();
    const std::string fold = "\n      ";
    for (std::size_t at = 0; (at = joined.find(fold, at)) != std::string::npos;) joined.replace(at, fold.size(), " ");
    EXPECT_EQ(joined, plain.str());
  }
}

TEST(Progress, TellsWhatIsLeftOnceItKnows) {
  using std::chrono::seconds;
  EXPECT_EQ(time_left(seconds(12), 3, 9), ", about 24 s left");
  EXPECT_EQ(time_left(seconds(10), 1, 2), ", about 10 s left");
  EXPECT_EQ(time_left(seconds(9), 3, 9), "");
  EXPECT_EQ(time_left(seconds(100), 0, 9), "");
  EXPECT_EQ(time_left(seconds(100), 9, 9), "");
  EXPECT_EQ(time_left(seconds(100), 3, 0), "");
}

TEST(Progress, OnlyOnATerminal) {
  std::ostringstream out, err;
  Console quiet{out, err, false}, terminal{out, err, true};
  { Progress(quiet, 2).step("a"); }
  EXPECT_EQ(err.str(), "");
  { Progress(terminal, 2).step("a"); }
  EXPECT_EQ(err.str(), "\r\033[K1/2 a, 0 s\r\033[K");
  EXPECT_EQ(out.str(), "");
}

/// Long work between two steps is seen to go on.
TEST(Progress, TheClockRunsWithoutSteps) {
  struct Counted : std::stringbuf {
    std::atomic<int> lines = 0;
    int sync() override {
      ++lines;
      lines.notify_all();
      return 0;
    }
  } counted;
  std::ostream err(&counted);
  std::ostringstream out;
  Console terminal{out, err, true};
  {
    Progress progress(terminal, 0, std::chrono::milliseconds(1));
    counted.lines.wait(0);
    progress.step(3, "a");
  }
  EXPECT_TRUE(counted.str().starts_with("\r\033[K0 s\r\033[K")) << counted.str();
  EXPECT_NE(counted.str().find("1/3 a, 0 s"), std::string::npos) << counted.str();
}

}  // namespace
}  // namespace assay
