#pragma once
// Shared parts of the programs that check device kernels.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <ctime>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace assay {

/// f(0), f(1), ... f(count - 1) on all cores, in any order. The first exception reaches the caller.
template <class F>
void on_all_cores(std::size_t count, F f) {
  std::atomic<std::size_t> next = 0;
  std::mutex guard;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> pool;
    for (std::size_t t = 0; t < std::min<std::size_t>(count, std::max(1U, std::thread::hardware_concurrency())); ++t)
      pool.emplace_back([&] {
        try {
          for (std::size_t i = next++; i < count; i = next++) f(i);
        } catch (...) {
          const std::lock_guard lock(guard);
          if (!failure) failure = std::current_exception();
          next = count;
        }
      });
  }
  if (failure) std::rethrow_exception(failure);
}

/// 2026-11-21, in UTC.
inline std::string today() {
  const std::time_t now = std::time(nullptr);
  std::array<char, 16> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%d", std::gmtime(&now));
  return date.data();
}

}  // namespace assay
