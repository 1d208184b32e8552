#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

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
    others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace assay::words
