#pragma once
// Answers in words judged by answers in many digits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "oracles/core/room.hpp"
#include "oracles/scalars/precise.hpp"

namespace assay {

/// Every number lies within its bound, and the widest bound of a tensor meets the rooms' target, both rounded up to a
/// power of two, as bounds are. Relative to a tensor of zeros nothing is small.
inline void expect_held(const BasicArrays<Enclosed>& got, const BasicArrays<HiLo>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (const auto& [name, exact] : want) {
    ASSERT_EQ(got.at(name).shape, exact.shape) << what << ' ' << name;
    double largest = 0, bound = 0;
    for (std::size_t i = 0; i < exact.data.size(); ++i) {
      const Enclosed& x = got.at(name).data[i];
      const Mp100 off = Mp100(x.value.hi) + Mp100(x.value.lo) - Mp100(exact.data[i].hi) - Mp100(exact.data[i].lo);
      // `exact` is rounded to a pair.
      ASSERT_LE(abs(off), Mp100(x.bound) + ldexp(Mp100(std::abs(x.value.hi)), -104)) << what << ' ' << name << ' ' << i;
      largest = std::max(largest, std::abs(x.value.hi)), bound = std::max(bound, x.bound);
    }
    if (largest > 0) {
      EXPECT_LE(bound, power_of_two_above(word_target * largest)) << what << ' ' << name;
    }
  }
}

/// Two answers of a problem: their numbers are no further apart than both bounds, and a bound of `got` is at most
/// `widest(largest, x)`, of the tensor's largest number and its own.
template <class Widest>
void expect_met(const BasicArrays<Enclosed>& got, const BasicArrays<Enclosed>& other, const std::string& what,
                const Widest& widest) {
  ASSERT_EQ(got.size(), other.size()) << what;
  for (const auto& [name, array] : got) {
    const BasicArray<Enclosed>& known = other.at(name);
    ASSERT_EQ(array.shape, known.shape) << what << ' ' << name;
    double largest = 0;
    for (const Enclosed& x : array.data) largest = std::max(largest, std::fabs(x.value.hi));
    for (std::size_t i = 0; i < array.data.size(); ++i) {
      const Enclosed &x = array.data[i], &y = known.data[i];
      const Mp100 apart = abs(Mp100(x.value.hi) + Mp100(x.value.lo) - Mp100(y.value.hi) - Mp100(y.value.lo));
      EXPECT_LE(apart, Mp100(x.bound) + Mp100(y.bound)) << what << ' ' << name << ' ' << i;
      EXPECT_LE(x.bound, widest(largest, x.value.hi)) << what << ' ' << name << ' ' << i;
    }
  }
}

inline bool same_bits(const BasicArrays<Enclosed>& a, const BasicArrays<Enclosed>& b) {
  const auto same = [](const Enclosed& x, const Enclosed& y) {
    return x.value.hi == y.value.hi && x.value.lo == y.value.lo && x.bound == y.bound;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    return x.first == y.first &&
           std::equal(x.second.data.begin(), x.second.data.end(), y.second.data.begin(), y.second.data.end(), same);
  });
}

/// The answer in two words by one thread, which is what the reference says in a hundred digits.
inline void expect_answered(const Room& room, const Problem& problem, const std::string& what) {
  const auto found = room.in_words(problem, {2, 1});
  ASSERT_TRUE(found.has_value()) << what;
  const BasicAnswer<HiLo> exact = room.values(problem, Tier::mp100);
  expect_held(found->outputs, exact.outputs, what);
  expect_held(found->gradients, exact.gradients, what + " gradient");
}

}  // namespace assay
