// The states of a recurrence in descending order, against a plain list of them.
#include "reference/core/replay.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace assay {
namespace {

constexpr int lengths[] = {0, 1, 2, 3, 15, 16, 17, 100};

/// Steps do not commute: a state tells which ones led to it, and in which order.
unsigned stepped(int t, unsigned state) { return state * 2654435761U + static_cast<unsigned>(t) + 1; }

/// s_0 ... s_T.
std::vector<unsigned> list_of(int steps) {
  std::vector<unsigned> states{7};
  for (int t = 0; t < steps; ++t) states.push_back(stepped(t, states.back()));
  return states;
}

int ceil_sqrt(int x) {
  int root = 0;
  while (root * root < x) ++root;
  return root;
}

TEST(Replay, GivesTheStatesOfAPlainList) {
  for (const int steps : lengths) {
    const std::vector<unsigned> list = list_of(steps);
    Replay states(list[0], steps, [](int t, unsigned& state) { state = stepped(t, state); });
    for (int t = steps - 1; t >= 0; --t) {
      EXPECT_EQ(states.before(t), list[static_cast<std::size_t>(t)]) << t << " of " << steps;
      EXPECT_EQ(states.after(t), list[static_cast<std::size_t>(t) + 1]) << t << " of " << steps;
    }
  }
}

TEST(Replay, ReachesAStateWhoseSuccessorsNobodyAskedFor) {
  for (const int steps : lengths)
    for (int t = 0; t < steps; ++t) {
      Replay states(7U, steps, [](int u, unsigned& state) { state = stepped(u, state); });
      EXPECT_EQ(states.after(t), list_of(steps)[static_cast<std::size_t>(t) + 1]) << t << " of " << steps;
      EXPECT_EQ(states.before(0), 7U) << t << " of " << steps;
    }
}

TEST(Replay, KeepsBothStatesOfAStepAtOnce) {
  for (const int steps : lengths) {
    Replay states(std::vector<int>{0}, steps, [](int t, std::vector<int>& state) { state.push_back(t); });
    for (int t = steps - 1; t >= 0; --t) {
      const std::vector<int>&before = states.before(t), &after = states.after(t);
      ASSERT_EQ(before.size() + 1, after.size());
      EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
    }
  }
}

/// A state that counts how many of its kind there are.
struct Counted {
  inline static int alive = 0, most = 0;
  int value = 0;

  Counted() { count(); }
  Counted(const Counted& other) : value(other.value) { count(); }
  Counted(Counted&& other) noexcept : value(other.value) { count(); }
  Counted& operator=(const Counted&) = default;
  Counted& operator=(Counted&&) = default;
  ~Counted() { --alive; }

 private:
  static void count() { most = std::max(most, ++alive); }
};

TEST(Replay, KeepsTwoSquareRootsOfTheStates) {
  for (const int steps : lengths) {
    Counted::most = 0;
    int made = 0;
    {
      Replay states(Counted{}, steps, [&](int, Counted& state) { ++made, ++state.value; });
      for (int t = steps - 1; t >= 0; --t) EXPECT_EQ(states.after(t).value, t + 1);
    }
    EXPECT_EQ(Counted::alive, 0);
    EXPECT_GE(Counted::most, 1);
    EXPECT_LE(Counted::most, 2 * ceil_sqrt(steps) + 2) << steps;
    EXPECT_EQ(made, 2 * steps);
  }
}

}  // namespace
}  // namespace assay
