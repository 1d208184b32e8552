// What is no file at all: folders, devices, pipes without a writer and pipes without an end.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "files/input_file.hpp"
#include "files/safetensors.hpp"
#include "proptests/hostile/doors.hpp"
#include "proptests/tools/cli.hpp"
#include "reference/core/error.hpp"

namespace assay::hostile {
namespace {

class SpecialFiles : public CliFiles {
 protected:
  /// Who writes to a pipe that nobody reads any more is told so by write.
  void SetUp() override {
    CliFiles::SetUp();
    std::signal(SIGPIPE, SIG_IGN);
  }
  std::string pipe(const std::string& name) const {
    EXPECT_EQ(mkfifo(path(name).c_str(), 0600), 0);
    return path(name);
  }
  /// Whether all that reads a file refuses it: exit code 2 and one sentence.
  void expect_refused(const std::string& file) const {
    const std::string good = path("case.safetensors");
    std::ofstream(good, std::ios::binary) << doors()[0].valid;
    const std::vector<std::string> commands[] = {
        {"check", good, file},
        {"check", file, good},
        {"oracle", file},
        {"check", good, good, "--contract", file},
        {"baseline", "compare", file},
        {"check", file, "--kernel", "true {case} {out}", "--shrink"},
    };
    for (const std::vector<std::string>& command : commands) {
      const Ran ran = run_assay(command);
      EXPECT_EQ(ran.code, exit_usage) << command.front() << ' ' << file << ": " << ran.err;
      EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
      EXPECT_EQ(ran.out, "");
    }
  }
};

TEST_F(SpecialFiles, folders_devices_and_empty_files_are_refused) {
  for (const std::string& file : {folder.string(), std::string("/dev/zero"), std::string("/dev/null"),
                                  write("empty.safetensors", ""), write("empty.json", ""), path("none")})
    expect_refused(file);
}

TEST_F(SpecialFiles, pipes_that_nobody_writes_to_are_refused) {
  const auto start = std::chrono::steady_clock::now();
  expect_refused(pipe("pipe"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST_F(SpecialFiles, pipes_are_read_to_where_their_header_says) {
  const std::string valid = doors()[0].valid;
  for (const bool endless : {false, true}) {
    const std::string name = pipe(endless ? "endless" : "finite");
    std::jthread writer([&](const std::stop_token& stop) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      std::ofstream out(name, std::ios::binary);
      out << valid;
      const std::string more(1 << 16, 'x');
      while (endless && !stop.stop_requested() && out.write(more.data(), static_cast<std::streamsize>(more.size()))) {
      }
    });
    EXPECT_EQ(text_of_file(read_safetensors(name)), valid);
  }
}

/// A header may claim anything, and nobody waits for it or makes room for it.
TEST_F(SpecialFiles, pipes_that_lie_are_refused) {
  const std::string name = pipe("pipe"), claims("\xff\xff\xff\xff\x00\x00\x00\x00{", 9);
  std::jthread writer([&] { std::ofstream(name, std::ios::binary) << claims; });
  EXPECT_THROW(read_safetensors(name), InputError);
}

TEST(Excerpt, is_one_line_of_text) {
  EXPECT_EQ(excerpt("a\nb\x1b[31m\x7f"), "a?b?[31m?");
  EXPECT_EQ(excerpt("\xc3\xa9 \xff \xed\xa0\x80 \xf0\x9f\x98\x80"), "\xc3\xa9 ? ??? \xf0\x9f\x98\x80");
  EXPECT_EQ(excerpt("\xc3\xa9\xc3\xa9", 3), "\xc3\xa9...");
  // C1 controls, directions, byte order marks, what is no character; accents and emoji stay.
  EXPECT_EQ(excerpt("a\xc2\x9b\xe2\x80\xae\xef\xbb\xbf\xef\xbf\xbe\xe2\x80\xa8z"), "a?????z");
  EXPECT_EQ(excerpt("\xf0\x9f\xbf\xbf \xf3\xa0\x81\x81 \xce\xb1"), "? ? \xce\xb1");
  EXPECT_EQ(excerpt("abc", 3), "abc");
  EXPECT_EQ(excerpt("abcd", 3), "abc...");
}

}  // namespace
}  // namespace assay::hostile
