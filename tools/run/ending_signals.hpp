#pragma once
#include <pthread.h>

#include <csignal>

namespace assay {

/// Signals that end this process, held back while there is a child to end first.
class EndingSignals {
 public:
  EndingSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;
  ~EndingSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  const sigset_t* set() const { return &set_; }

 private:
  sigset_t set_{}, before_{};
};

}  // namespace assay
