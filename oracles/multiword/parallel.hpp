#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "oracles/core/flint_caches.hpp"

namespace assay::words {

/// Runs f(i) for every i in [0, count) on up to `threads` threads; which thread takes which i is left to chance, so f
/// may write to i's own place only. The first exception reaches the caller.
template <class F>
void in_parallel(std::size_t count, int threads, F&& f) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex guard;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) f(i);
    } catch (...) {
      const std::lock_guard lock(guard);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < std::min(count, static_cast<std::size_t>(std::max(1, threads))); ++i)
    others.emplace_back([&work] {
      const FlintCaches caches;
      work();
    });
  work();
  for (std::thread& t : others) t.join();
  if (failure) std::rethrow_exception(failure);
}

/// As many threads as asked for, or as there are cores where that is 0.
inline int threads_or_all(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

/// How many threads each of `parts` that run side by side may have, at least one.
inline int threads_of_each(int threads, std::size_t parts) {
  const auto n = static_cast<int>(std::max<std::size_t>(1, parts));
  return std::max(1, (threads + n - 1) / n);
}

/// Runs f(i) for every i in [0, count), like in_parallel(), in blocks of neighbours.
template <class F>
void for_each_in_parallel(std::size_t count, int threads, F&& f) {
  constexpr std::size_t block = 1 << 14;
  in_parallel((count + block - 1) / block, threads, [&](std::size_t b) {
    for (std::size_t i = b * block, end = std::min(count, i + block); i < end; ++i) f(i);
  });
}

/// Lets the items 0, 1, ... of in_parallel() pass every stage in their order, whatever thread has them.
class Turns {
 public:
  explicit Turns(std::size_t stages) : next_(stages, 0) {}

  /// Runs f once the items before `item` have passed `stage`; not at all after abandon().
  template <class F>
  void in_turn(std::size_t stage, std::size_t item, F&& f) {
    {
      std::unique_lock lock(guard_);
      passed_.wait(lock, [&] { return abandoned_ || next_[stage] == item; });
      if (abandoned_) return;
    }
    f();
    {
      const std::lock_guard lock(guard_);
      ++next_[stage];
    }
    passed_.notify_all();
  }
  /// Ends all waiting for an item that will not come.
  void abandon() {
    {
      const std::lock_guard lock(guard_);
      abandoned_ = true;
    }
    passed_.notify_all();
  }

 private:
  std::mutex guard_;
  std::condition_variable passed_;
  std::vector<std::size_t> next_;
  bool abandoned_ = false;
};

}  // namespace assay::words
