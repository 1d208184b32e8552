#include "files/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

#include "reference/core/error.hpp"

namespace assay {
namespace {

/// Bytes of the character that `text` begins with; 0 if that is none of UTF-8.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t size = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, and what lies beyond the last code point.
  const bool wrong = size > 1 && ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
                                  (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f));
  return wrong ? 0 : size;
}

/// Whether a character of that many bytes does something else than to be seen where it stands: controls, what turns
/// the direction of writing round, what has no width, line ends of Unicode's own, and what is no character.
bool is_unseen(std::string_view text, std::size_t size) {
  std::uint32_t code = static_cast<unsigned char>(text[0]);
  if (size > 1) code &= 0x7fU >> size;
  for (std::size_t i = 1; i < size; ++i) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
  constexpr std::pair<std::uint32_t, std::uint32_t> unseen[] = {
      {0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x200b, 0x200f},  {0x2028, 0x202e},
      {0x2060, 0x206f}, {0xfdd0, 0xfdef}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
  return (code & 0xfffeU) == 0xfffeU ||
         std::ranges::any_of(unseen, [code](const auto& range) { return range.first <= code && code <= range.second; });
}

}  // namespace

// Without O_NONBLOCK the opening of a pipe waits for a writer, for ever if need be.
InputFile::InputFile(std::string path)
    : path_(std::move(path)), file_(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  require(file_.get() >= 0, path_, ": cannot be read: ", std::strerror(errno));
  struct stat about {};
  const bool known = fstat(file_.get(), &about) == 0;
  is_pipe_ = known && S_ISFIFO(about.st_mode);
  const bool is_file = known && S_ISREG(about.st_mode);
  require(is_pipe_ || is_file, path_, ": cannot be read: neither a file nor a pipe");
  if (is_file) size_ = static_cast<std::uint64_t>(about.st_size);
  if (is_pipe_) wait_for_writer();
  fcntl(file_.get(), F_SETFL, fcntl(file_.get(), F_GETFL) & ~O_NONBLOCK);
}

void InputFile::wait_for_writer() {
  using namespace std::chrono_literals;
  const auto end = std::chrono::steady_clock::now() + 1s;
  for (char first = 0;; std::this_thread::sleep_for(10ms)) {
    const ssize_t got = read(file_.get(), &first, 1);
    if (got > 0) return void(pending_ = first);
    if (got < 0 && errno == EAGAIN) return;  // somebody will
    require(std::chrono::steady_clock::now() < end, path_, ": cannot be read: a pipe that no program writes to");
  }
}

std::size_t InputFile::read_next(std::size_t most, void* to) {
  if (!pending_.empty() && most > 0) {
    std::memcpy(to, pending_.data(), 1);
    pending_.clear();
    return 1;
  }
  for (;;) {
    const ssize_t got = read(file_.get(), to, most);
    if (got >= 0) return static_cast<std::size_t>(got);
    require(errno == EINTR, path_, ": cannot be read: ", std::strerror(errno));
  }
}

void InputFile::read_at(std::uint64_t offset, std::size_t count, void* to) {
  require(count == 0 || lseek(file_.get(), static_cast<off_t>(offset), SEEK_SET) >= 0, path_,
          ": cannot be read: ", std::strerror(errno));
  for (std::size_t done = 0; done < count;) {
    const std::size_t got = read_next(count - done, static_cast<char*>(to) + done);
    require(got > 0, path_, ": cannot be read: it has become shorter");
    done += got;
  }
}

std::string read_text(const std::string& path) {
  constexpr std::uint64_t most_of_a_pipe = 1 << 30;
  InputFile file(path);
  std::string text;
  file.append_up_to(file.is_pipe() ? most_of_a_pipe + 1 : file.size(), text);
  require(!file.is_pipe() || text.size() <= most_of_a_pipe, path, ": more than a gigabyte from a pipe");
  return text;
}

std::string excerpt(std::string_view text, std::size_t most) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t size = character(text), taken = std::max<std::size_t>(1, size);
    if (shown.size() + taken > most) return shown + "...";
    if (size == 0 || is_unseen(text, size))
      shown += '?';
    else
      shown += text.substr(0, size);
    text.remove_prefix(taken);
  }
  return shown;
}

}  // namespace assay
