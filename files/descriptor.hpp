#pragma once
// A file descriptor that closes itself.
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace assay {

/// Closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  /// Fills `bytes`; false if there are not as many.
  bool read(std::string& bytes) const {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::read(fd_, bytes.data() + at, bytes.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += static_cast<std::size_t>(n);
    }
    return true;
  }
  int release() { return std::exchange(fd_, -1); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

}  // namespace assay
