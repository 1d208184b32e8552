#pragma once
// Many pieces of work on several threads, their results taken in one order: the same bits on any number of threads.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "oracles/core/flint_caches.hpp"
#include "oracles/multiword/parallel.hpp"

namespace assay {

struct Workers {
  int threads = 0;     ///< 0: all cores
  double seconds = 0;  ///< no piece but the first begins after so many; 0: there is no limit
};

/// Runs work(i) for i in [0, count), take(i, result) for i = 0, 1, ... as soon as those before are there, and
/// finished(i) after each piece; the last two one at a time. Returns how many pieces were done: the first so many. The
/// first exception reaches the caller.
template <class Work, class Take, class Finished>
std::size_t in_order(std::size_t count, const Workers& effort, Work work, Take take, Finished finished) {
  const auto start = std::chrono::steady_clock::now();
  std::mutex guard;
  std::size_t begun = 0, taken = 0;
  std::map<std::size_t, std::invoke_result_t<Work, std::size_t>> waiting;
  std::exception_ptr failure;
  const auto next = [&]() -> std::optional<std::size_t> {
    const std::lock_guard lock(guard);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    const bool over = begun > 0 && effort.seconds > 0 && passed.count() >= effort.seconds;
    if (begun == count || over || failure) return std::nullopt;
    return begun++;
  };
  const auto loop = [&] {
    const FlintCaches caches;
    try {
      while (const std::optional<std::size_t> i = next()) {
        auto result = work(*i);
        const std::lock_guard lock(guard);
        waiting.emplace(*i, std::move(result));
        for (auto it = waiting.begin(); it != waiting.end() && it->first == taken; it = waiting.erase(it))
          take(taken++, std::move(it->second));
        finished(*i);
      }
    } catch (...) {
      const std::lock_guard lock(guard);
      if (!failure) failure = std::current_exception();
    }
  };
  const auto threads = static_cast<std::size_t>(words::threads_or_all(effort.threads));
  {
    std::vector<std::jthread> pool;
    for (std::size_t t = 0; t < std::min(threads, count); ++t) pool.emplace_back(loop);
  }
  if (failure) std::rethrow_exception(failure);
  return taken;
}

}  // namespace assay
