#include "kernels/core/pack.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reference/core/error.hpp"

namespace assay::pack {
namespace {

/// Thrown where a sequence waits, when another one has failed.
struct Released {};

class Pack {
 public:
  explicit Pack(int sequences) : waiting_(static_cast<std::size_t>(sequences)), running_(sequences) {}

  void meet(std::size_t sequence, const Place& place, Request& request) {
    std::unique_lock lock(mutex_);
    waiting_[sequence] = {&place, &request};
    serve_if_all_wait();
    changed_.wait(lock, [&] { return waiting_[sequence].request == nullptr; });
    if (released_) throw Released();
    if (request.error) std::rethrow_exception(request.error);
  }
  void leave(bool failed) {
    const std::unique_lock lock(mutex_);
    --running_;
    failed_ |= failed;
    serve_if_all_wait();
  }

 private:
  struct Waiting {
    const Place* place = nullptr;
    Request* request = nullptr;
  };

  void serve_if_all_wait() {
    const auto waits = [](const Waiting& w) { return w.request != nullptr; };
    if (running_ == 0 || std::count_if(waiting_.begin(), waiting_.end(), waits) != running_) return;
    released_ = failed_;
    const Place place = *std::find_if(waiting_.begin(), waiting_.end(), waits)->place;
    std::vector<Request*> served;
    for (Waiting& w : waiting_)
      if (waits(w) && (released_ || *w.place == place)) served.push_back(std::exchange(w.request, nullptr));
    if (!released_) try {
        place.serve(served);
      } catch (...) {  // an error of the place is every request's
        for (Request* request : served) request->error = std::current_exception();
      }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Waiting> waiting_;
  int running_;
  bool failed_ = false, released_ = false;
};

thread_local Pack* of_thread = nullptr;
thread_local std::size_t sequence_of_thread = 0;

[[noreturn]] void rethrow_of(std::size_t sequence, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const InputError& e) {
    throw InputError(text("sequence ", sequence, ": ", e.what()));
  } catch (const std::exception& e) {
    throw std::runtime_error(text("sequence ", sequence, ": ", e.what()));
  }
}

}  // namespace

bool active() { return of_thread != nullptr; }
void meet(const Place& place, Request& request) { of_thread->meet(sequence_of_thread, place, request); }

void run(int sequences, const std::function<void(int)>& body) {
  Pack pack(sequences);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(sequences));
  const auto sequence = [&](std::size_t s) {
    of_thread = &pack, sequence_of_thread = s;
    bool failed = false;
    try {
      body(static_cast<int>(s));
    } catch (const Released&) {
    } catch (...) {
      errors[s] = std::current_exception();
      failed = true;
    }
    pack.leave(failed);
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t s = 0; s < errors.size(); ++s) try {
        threads.emplace_back(sequence, s);
      } catch (...) {  // there are no more threads
        errors[s] = std::current_exception();
        pack.leave(true);
      }
  }
  for (std::size_t s = 0; s < errors.size(); ++s)
    if (errors[s]) rethrow_of(s, errors[s]);
}

}  // namespace assay::pack
