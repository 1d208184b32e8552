#pragma once
// What talks to children holds: descriptors, and signals that end this process.
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace assay {

/// A file descriptor, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

/// Signals that end this process, held back while there is a child to end first.
class EndingSignals {
 public:
  EndingSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals(EndingSignals&&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;
  EndingSignals& operator=(EndingSignals&&) = delete;
  ~EndingSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  const sigset_t* set() const { return &set_; }

 private:
  sigset_t set_{}, before_{};
};

}  // namespace assay
