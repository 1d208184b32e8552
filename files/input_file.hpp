#pragma once
// Input that others wrote, at the door: files and pipes, and words of theirs in our messages.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "files/descriptor.hpp"

namespace assay {

/// A file, or a pipe that another process writes to, opened for reading. All functions throw InputError, one sentence
/// that begins with the path.
class InputFile {
 public:
  /// Refuses folders and devices, some of which never end, and a pipe that no program writes to within a second.
  explicit InputFile(std::string path);

  /// A pipe has no size and no way back.
  bool is_pipe() const { return is_pipe_; }
  /// In bytes; 0 of a pipe.
  std::uint64_t size() const { return size_; }
  /// Sets `to` to the `count` bytes at `offset`, all of which a file must have.
  void read_at(std::uint64_t offset, std::size_t count, void* to);
  /// Adds the next bytes, until `bytes` has `count` of them or nothing is left: never more memory than what was read,
  /// or a megabyte.
  template <class Bytes>
  void append_up_to(std::uint64_t count, Bytes& bytes) {
    constexpr std::uint64_t step = 1 << 20;
    for (std::size_t got = 1; got > 0 && bytes.size() < count;) {
      const std::size_t had = bytes.size(), most = static_cast<std::size_t>(count - had < step ? count - had : step);
      bytes.resize(had + most);
      got = read_next(most, bytes.data() + had);
      bytes.resize(had + got);
    }
  }

 private:
  std::size_t read_next(std::size_t most, void* to);
  void wait_for_writer();

  std::string path_;
  Descriptor file_;
  bool is_pipe_ = false;
  std::uint64_t size_ = 0;
  std::string pending_;  ///< of a pipe: what has been read to see whether somebody writes
};

/// The whole text of a file or, up to a gigabyte, a pipe.
std::string read_text(const std::string& path);

/// `text` on one line: control characters, what changes the order of those around it or is not seen, and bytes that are
/// no UTF-8 become '?'. At most `most` bytes, cut between
/// characters, and then "...".
std::string excerpt(std::string_view text, std::size_t most = 200);

}  // namespace assay
