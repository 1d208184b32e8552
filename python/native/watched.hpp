#pragma once
// Work in a thread of its own, so that Python's other threads run meanwhile and Ctrl-C ends the wait at once.
#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "oracles/core/flint_caches.hpp"
#include "python/native/judging.hpp"

namespace assay::python {

/// Ends work whose result is not awaited any more.
struct Stopped {};

/// One piece of work: the state that its thread and the waiting one share.
template <class Result>
struct Work {
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false, stop = false;
  std::string what;
  std::size_t done = 0, total = 0;
  std::optional<Result> result;
  std::exception_ptr failure;
};

/// Lets one compute at a time, while the others wait for it; keeps threads that are not awaited any more.
class Workers {
 public:
  static Workers& all();
  void leave(std::thread thread);
  /// Waits for all, at the end of the process: what they compute with must not go before them.
  void join();
  std::mutex& turn() { return turn_; }

 private:
  std::mutex turn_, mutex_;
  std::vector<std::thread> threads_;
};

/// `compute(watch)` in a thread. `progress`, unless it is None, is called with what is done, how much, and of how much;
/// Ctrl-C, or what it raises, is raised here, and the work stops at its next step.
template <class Compute>
auto watched(Compute compute, const nanobind::object& progress) {
  using Result = decltype(compute(Watch()));
  const auto work = std::make_shared<Work<Result>>();
  std::thread thread([work, compute = std::move(compute)]() mutable {
    const FlintCaches caches;
    const Watch watch = [&work](std::string_view what, std::size_t done, std::size_t total) {
      const std::lock_guard lock(work->mutex);
      if (work->stop) throw Stopped();
      work->what = what, work->done = done, work->total = total;
    };
    try {
      const std::lock_guard turn(Workers::all().turn());
      watch("", 0, 0);
      work->result.emplace(compute(watch));
    } catch (...) {
      work->failure = std::current_exception();
    }
    const std::lock_guard lock(work->mutex);
    work->ended = true;
    work->changed.notify_all();
  });

  constexpr auto tick = std::chrono::milliseconds(50);
  for (bool ended = false; !ended;) {
    std::string what;
    std::size_t done = 0, total = 0;
    {
      const nanobind::gil_scoped_release others_run;
      std::unique_lock lock(work->mutex);
      ended = work->changed.wait_for(lock, tick, [&] { return work->ended; });
      what = work->what, done = work->done, total = work->total;
    }
    const auto give_up = [&] {
      const std::lock_guard lock(work->mutex);
      work->stop = true;
      Workers::all().leave(std::move(thread));
    };
    if (PyErr_CheckSignals() != 0) {
      give_up();
      throw nanobind::python_error();
    }
    try {
      if (!ended && !progress.is_none() && !what.empty()) progress(what, done, total);
    } catch (...) {
      give_up();
      throw;
    }
  }
  thread.join();
  if (work->failure) std::rethrow_exception(work->failure);
  return std::move(*work->result);
}

}  // namespace assay::python
