#pragma once
#include <cstddef>
#include <future>
#include <type_traits>
#include <vector>

namespace assay {

/// f(0), f(1), ..., f(count - 1), the `large`(i) among them by threads of their own. The first exception in this order
/// reaches the caller.
template <class Large, class F>
auto at_once(std::size_t count, Large large, F f) {
  using Result = std::invoke_result_t<F, std::size_t>;
  std::vector<std::future<Result>> coming;
  for (std::size_t i = 0; i < count; ++i)
    coming.push_back(std::async(large(i) ? std::launch::async : std::launch::deferred, f, i));
  std::vector<Result> results;
  for (std::future<Result>& one : coming) results.push_back(one.get());
  return results;
}

}  // namespace assay
