// Other people's code in a process of its own: exit codes, signals, limits, what it says, and nothing left behind.
#include "tools/run/child.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "files/shown.hpp"
#include "proptests/tools/cli.hpp"

namespace assay {
namespace {

using namespace std::chrono_literals;

TEST(Child, says_how_it_ended) {
  EXPECT_TRUE(run_command("true", 10s).passed());
  EXPECT_EQ(run_command("echo one; echo two >&2; exit 3", 10s).sentence(), "ended with exit code 3: one / two");
  EXPECT_EQ(run_command("/no/such/program", 10s).exit_code, 127);
  EXPECT_EQ(run_command("kill -SEGV $$", 10s).sentence(), "crashed with signal 11 (Segmentation fault)");
  EXPECT_EQ(run_command("for i in 1 2 3 4 5; do echo line $i; echo; done; exit 1", 10s).last_words,
            "line 3 / line 4 / line 5");
  EXPECT_EQ(run_command("printf '\\033[31mred\\033[0m\\tend'; exit 1", 10s).last_words, "[31mred[0mend");
  EXPECT_TRUE(run_command("! read line", 10s).passed());  // there is nothing to read
}

TEST(Child, is_read_however_much_it_says) {
  const ChildEnd end = run_command("yes 0123456789 | head -c 3000000; echo; echo the end; exit 1", 60s);
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_TRUE(end.last_words.ends_with(" / the end")) << end.last_words;
  EXPECT_LT(end.last_words.size(), 100U);
}

TEST(Child, runs_code_of_this_process) {
  int here = 0;
  EXPECT_EQ(run_child([&] { return here = 7; }, 10s).exit_code, 7);
  EXPECT_EQ(here, 0);
  EXPECT_EQ(run_child([]() -> int { throw std::runtime_error("thrown"); }, 10s).sentence(),
            "ended with exit code 1: thrown");
  EXPECT_EQ(run_child([]() -> int { std::abort(); }, 10s).signal, SIGABRT);
}

/// At the limit everything ends that the child has started; so it does when the child ends before it.
TEST(Child, leaves_nothing_running) {
  const PrivateFolder folder;
  const std::string file = (folder.path() / "pid").string();
  for (const bool waits : {true, false}) {
    const auto start = std::chrono::steady_clock::now();
    const ChildEnd end =
        run_command("sleep 1000 & echo $! > " + shell_word(file) + (waits ? "; wait" : ""), waits ? 0.3s : 60s);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
    EXPECT_EQ(end.timed_out, waits);
    EXPECT_EQ(end.passed(), !waits);
    int pid = 0;
    std::ifstream(file) >> pid;
    ASSERT_GT(pid, 0);
    for (int i = 0; i < 500 && is_running(pid); ++i) std::this_thread::sleep_for(10ms);
    EXPECT_FALSE(is_running(pid));
  }
}

/// A session of its own is no way out.
TEST(Child, leaves_no_session_running) {
  const PrivateFolder folder;
  const std::string file = (folder.path() / "pid").string();
  for (const bool waits : {true, false}) {
    const std::string command = "setsid sh -c 'echo $$ > " + file + "; exec sleep 1000' & while ! test -s " + file +
                                "; do sleep 0.01; done" + (waits ? "; wait" : "");
    EXPECT_EQ(run_command(command, waits ? 2s : 60s).passed(), !waits);
    int pid = 0;
    std::ifstream(file) >> pid;
    ASSERT_GT(pid, 0);
    EXPECT_FALSE(is_running(pid));
    std::filesystem::remove(file);
  }
}

/// However this process ends, what it has started ends, and its folder goes.
TEST(Child, ends_with_this_process_killed) {
  const PrivateFolder folder;
  const std::string file = (folder.path() / "pid").string();
  const std::filesystem::path inner = folder.path() / "inner";
  for (const int signal : {SIGKILL, SIGQUIT, SIGUSR1}) {
    std::filesystem::create_directories(inner / "some");
    const pid_t outer = fork();
    ASSERT_GE(outer, 0);
    if (outer == 0) {
      ChildKeeper keeper([](const std::string& task, int) { return be_command(task); }, inner);
      keeper.run("setsid sh -c 'echo $$ > " + file + "; exec sleep 1000' & while ! test -s " + file +
                     "; do sleep 0.01; done; kill -" + std::to_string(signal) + ' ' + std::to_string(getpid()) +
                     "; wait",
                 -1, 60s);
      _exit(1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(outer, &status, 0), outer);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    int pid = 0;
    std::ifstream(file) >> pid;
    ASSERT_GT(pid, 0);
    for (int i = 0; i < 500 && (is_running(pid) || std::filesystem::exists(inner)); ++i)
      std::this_thread::sleep_for(10ms);
    EXPECT_FALSE(is_running(pid));
    EXPECT_FALSE(std::filesystem::exists(inner));
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

/// A signal that ends this process ends the child, too.
TEST(Child, ends_with_this_process) {
  const PrivateFolder folder;
  const std::string file = (folder.path() / "pid").string();
  const ChildEnd outer = run_child(
      [&] {
        const ChildEnd inner = run_command(
            "sleep 1000 & echo $! > " + shell_word(file) + "; kill -TERM " + std::to_string(getpid()) + "; wait", 60s);
        return inner.interrupted == SIGTERM && !inner.passed() ? raise(SIGTERM) : 1;
      },
      60s);
  EXPECT_EQ(outer.signal, SIGTERM) << outer.sentence();
  int pid = 0;
  std::ifstream(file) >> pid;
  ASSERT_GT(pid, 0);
  for (int i = 0; i < 500 && is_running(pid); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(is_running(pid));
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

TEST(PrivateFolder, is_private_and_removed) {
  std::filesystem::path path;
  {
    const PrivateFolder folder;
    path = folder.path();
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
    std::filesystem::create_directories(path / "a" / "b");
    std::ofstream(path / "a" / "file") << "text";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace assay
