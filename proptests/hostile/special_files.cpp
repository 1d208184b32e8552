// Pipes without an end and pipes that lie; proptests/transcripts/special-files.md has folders, devices and the rest.
#include <sys/stat.h>

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
  /// Has write itself tell that a pipe has no reader any more.
  void SetUp() override {
    CliFiles::SetUp();
    std::signal(SIGPIPE, SIG_IGN);
  }
  std::string pipe(const std::string& name) const {
    EXPECT_EQ(mkfifo(path(name).c_str(), 0600), 0);
    return path(name);
  }
};

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

/// A header may claim anything: it is neither waited for nor given room.
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
