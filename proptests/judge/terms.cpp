// Signs of exact sums in the truth alone, compared with the sizes of their terms.
#include "judge/sigma/terms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oracles/core/oracle.hpp"
#include "oracles/core/room.hpp"
#include "oracles/core/term_sizes_of.hpp"
#include "reference/affine_mesanet.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// Elements that any order sums exactly look so, and many of the others do not: else sizes would not be needed.
TEST(Terms, what_any_order_sums_exactly_looks_exact) {
  std::size_t exact = 0, rounded = 0, seen = 0;
  for (const char* name : {"gated_deltanet", "linear_attention", "gla", "mamba2"})
    for (const Style style : {Style::normal, Style::integers, Style::dyadic})
      for (const auto& [accumulators, tokens] : {std::pair(Format::fp32, 24), {Format::fp64, 24}, {Format::fp32, 1}}) {
        const Room& room = listed_room(name);
        // One token and one key dimension give products of three numbers of 8 bits, which 24 bits just hold.
        Problem problem = room.make({name, {1, tokens, 2, 0, tokens == 1 ? 1 : 8, 8, 0}, Format::bf16, style, 6, {}});
        if (tokens == 1) std::ranges::fill(problem.inputs.at("initial_state").data, 0.0);
        const std::optional<Arrays> sizes = term_sizes(name, problem, accumulators);
        ASSERT_TRUE(sizes.has_value());
        for (const auto& [tensor, truth] : oracle_of(room, problem).tensors)
          for (std::size_t i = 0; i < truth.value.size(); ++i) {
            const bool may = may_be_exact(truth.value[i], truth.bound[i], accumulators);
            if (sizes->at(tensor).data[i] == 0) {
              ++exact;
              EXPECT_TRUE(may) << name << ' ' << tensor << ' ' << i << ": " << truth.value[i].hi;
            } else if (style == Style::normal && accumulators == Format::fp32) {
              ++rounded, seen += may ? 0 : 1;
            }
          }
      }
  std::cout << exact << " exact; of " << rounded << " that are not, " << seen << " show it\n";
  EXPECT_GT(exact, 500U);
  EXPECT_GT(2 * seen, rounded);
}

/// Of a product and of the sum that it goes into: as far off as two numbers of that size are that round by themselves.
TEST(Terms, have_the_sigma_of_two_roundings) {
  const Stream random(1, "roundings");
  constexpr int count = 20000;
  double squares = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = 1 + random.uniform(i);
    squares += std::pow(round_to(x, Format::fp32) - x, 2);
  }
  // Five of its own: a uniform number's fourth power is on average 9/5 of the square of its second.
  const double sigma = std::sqrt(2 * squares / count), off = 5 * std::sqrt((9 / 5.0 - 1) / (4.0 * count));
  EXPECT_NEAR(sigma_of_terms(1.5, Format::fp32), sigma, sigma * off);
}

/// A value that two later tokens overwrite has a gradient of zero: its terms, more than 24 bits, do not go with it.
/// What nothing is added to is zero in every arithmetic.
TEST(Terms, of_a_program_are_carried_on_by_what_cancels_to_zero) {
  const Room& room = listed_room("deltanet");
  Problem problem = room.make({"deltanet", {1, 3, 1, 0, 1, 1, 0}, Format::fp32, Style::normal, 6, {}});
  std::ranges::fill(problem.inputs.at("q").data, 0.0);
  for (const char* name : {"k", "beta"}) std::ranges::fill(problem.inputs.at(name).data, 1.0);
  const double given = 1 + 0x1p-23;
  const auto size_with = [&](double of_state) {
    std::ranges::fill(problem.cotangents.at("final_state").data, of_state);
    return term_sizes("deltanet", problem, Format::fp32)->at("d_v").data;
  };
  const std::vector<double> sizes = size_with(given), none = size_with(0);
  // Six and three products at that size, of which a difference leaves nothing; the last one is a copy.
  EXPECT_DOUBLE_EQ(sizes[0], given * std::sqrt(6 / 2.0));
  EXPECT_DOUBLE_EQ(sizes[1], given * std::sqrt(3 / 2.0));
  EXPECT_EQ(sizes[2], 0);
  EXPECT_EQ(none, std::vector<double>(3, 0.0));
}

/// Kernels multiply gradients of scores by logarithms of weights, of which two that are equal are no zeros as the
/// scores are. One weight alone is one, and its logarithm zero.
TEST(Terms, of_scores_that_are_zero_are_those_of_the_logarithms_of_weights) {
  const auto size_with = [](int tokens) {
    Problem problem = listed_room("softmax_attention")
                          .make({"softmax_attention", {1, tokens, 1, 0, 1, 1, 0}, Format::fp32, Style::normal, 6, {}});
    std::ranges::fill(problem.inputs.at("k").data, 0.0);
    for (Arrays* arrays : {&problem.inputs, &problem.cotangents})
      for (const char* name : {"v", "o"})
        if (arrays->contains(name)) std::ranges::fill(arrays->at(name).data, 1.0);
    return term_sizes("softmax_attention", problem, Format::fp32)->at("d_bandwidth").data[0];
  };
  EXPECT_EQ(size_with(1), 0);
  EXPECT_GE(size_with(2), std::log(2) / 2);
}

void expect_same(const Arrays& sizes, const Arrays& others) {
  ASSERT_EQ(sizes.size(), others.size());
  for (const auto& [name, array] : others) {
    EXPECT_EQ(sizes.at(name).shape, array.shape) << name;
    EXPECT_EQ(sizes.at(name).data, array.data) << name;
  }
}

/// Heads that are computed side by side and then added up have the bits of heads computed one after the other: those
/// of shared keys, of a number that all of them add to, and of whatever number of threads.
TEST(Terms, are_those_of_one_head_after_the_other) {
  using M = affine_mesanet;
  const Problem problem =
      listed_room(M::name).make({std::string(M::name), {2, 20, 4, 2, 8, 8, 0}, Format::bf16, Style::normal, 6, {}});
  constexpr int bits = 24;
  Sized::hold_in({bits});
  const Arrays one_by_one = reported_sizes(answer<M, Sized>(Binding<M, double>(problem), true));
  for (const int threads : {1, 3}) expect_same(*listed_room(M::name).term_sizes(problem, {bits}, threads), one_by_one);
}

TEST(Terms, of_a_program_do_not_depend_on_the_threads) {
  const Room& room = listed_room("linear_attention");
  const Problem problem =
      room.make({std::string(room.name), {2, 20, 4, 2, 8, 8, 0}, Format::bf16, Style::integers, 6, {}});
  const auto alone = room.term_sizes(problem, {53}, 1), fewer = room.term_sizes(problem, {3}, 1);
  ASSERT_TRUE(alone.has_value() && fewer.has_value());
  expect_same(*room.term_sizes(problem, {53}, 3), *alone);
  EXPECT_NE(fewer->at("o").data, alone->at("o").data);  // more is exact in 53 bits
}

}  // namespace
}  // namespace assay
