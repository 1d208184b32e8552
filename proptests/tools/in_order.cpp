// Work on several threads whose results are taken in order, whole or cut off by time.
#include "oracles/core/in_order.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace assay {
namespace {

using Numbers = std::vector<std::size_t>;

Numbers first(std::size_t count) {
  Numbers list(count);
  std::iota(list.begin(), list.end(), 0);
  return list;
}

TEST(InOrder, takes_every_piece_once_and_in_order) {
  for (const int threads : {1, 2, 16}) {
    Numbers taken;
    std::size_t finished = 0;
    // Early pieces take longest.
    const auto work = [](std::size_t i) {
      if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return i * i;
    };
    const std::size_t done = in_order(
        200, {.threads = threads}, work,
        [&](std::size_t i, std::size_t square) {
          EXPECT_EQ(square, i * i);
          taken.push_back(i);
        },
        [&](std::size_t) { ++finished; });
    EXPECT_EQ(done, 200U);
    EXPECT_EQ(finished, 200U);
    EXPECT_EQ(taken, first(200));
  }
  EXPECT_EQ(in_order(
                0, {}, [](std::size_t) { return 0; }, [](std::size_t, int) {}, [](std::size_t) {}),
            0U);
}

TEST(InOrder, what_time_leaves_is_the_first_of_all) {
  for (const int threads : {1, 3, 16}) {
    Numbers taken;
    const auto work = [](std::size_t i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1 + i % 5));
      return i;
    };
    const std::size_t done = in_order(
        100000, {.threads = threads, .seconds = 0.05}, work, [&](std::size_t i, std::size_t) { taken.push_back(i); },
        [](std::size_t) {});
    EXPECT_GE(done, 1U);
    EXPECT_LT(done, 100000U);
    EXPECT_EQ(taken, first(done));
  }
}

TEST(InOrder, an_exception_reaches_the_caller) {
  const auto work = [](std::size_t i) -> int { return i == 5 ? throw std::runtime_error("five") : 0; };
  const auto run = [&](int threads) {
    try {
      in_order(
          50, {.threads = threads}, work, [](std::size_t, int) {}, [](std::size_t) {});
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const int threads : {1, 4}) EXPECT_EQ(run(threads), "five");
}

}  // namespace
}  // namespace assay
