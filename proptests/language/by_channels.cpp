// Value channels as heads of their own: the same answer within both bounds, where channels are apart, and nowhere else.
#include "language/answers/by_channels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>

#include "language/room.hpp"
#include "oracles/core/room.hpp"
#include "proptests/language/programs.hpp"
#include "proptests/words/held.hpp"

namespace assay::language {
namespace {

Problem problem_of(const std::string& name, int heads, int value_dim) {
  return made(program_room(in_library(name)), text("1,21,", heads, ",5,", value_dim));
}

TEST(ByChannels, PartsMakeTheWhole) {
  for (const char* name : {"deltanet", "gated_deltanet", "kda", "mdn", "gla", "gated_delta_product", "titans", "mamba",
                           "deltanet-alignment-next_latent"})
    for (const auto& [heads, value_dim, groups] : {std::array{1, 8, 8}, {2, 6, 2}, {3, 4, 2}, {4, 8, 2}}) {
      Problem problem = problem_of(name, heads, value_dim);
      // A key without channels that is read and not given: its gradient is the sum of the parts'.
      problem.inputs.erase("k_carry");
      if (std::string_view(name).ends_with("next_latent")) problem.params["sequence_start"] = false;
      const auto apart = by_channels(program_of(program_room(in_library(name))), problem);
      ASSERT_TRUE(apart.has_value()) << name;
      EXPECT_EQ(apart->groups, groups) << name;
      const Room& room = program_room(in_library(name));
      const auto words = room.in_words(problem, {.words = 2, .threads = 1}), balls = room.enclosed(problem);
      ASSERT_TRUE(words && balls) << name;
      const auto widest = [](double, double x) { return 0x1p-60 * (1 + std::fabs(x)); };
      expect_met(words->outputs, balls->outputs, name, widest);
      expect_met(words->gradients, balls->gradients, name, widest);
    }
}

TEST(ByChannels, WhatMixesChannelsStaysTogether) {
  const auto apart = [](const char* name, int heads, int value_dim) {
    return by_channels(program_of(program_room(in_library(name))), problem_of(name, heads, value_dim)).has_value();
  };
  EXPECT_FALSE(apart("ttt_linear", 2, 8)) << "a norm along the channels";
  EXPECT_FALSE(apart("softmax_attention", 2, 8)) << "tokens take its lanes";
  EXPECT_FALSE(apart("mlstm", 2, 8)) << "a normaliser that has none";
  EXPECT_FALSE(apart("kda", 8, 8)) << "a full pack";
  EXPECT_FALSE(apart("kda", 4, 7)) << "channels that do not part";
  EXPECT_TRUE(apart("deltanet", 2, 8));
  Problem shared = problem_of("deltanet", 2, 8);
  Array& v = shared.inputs.at("v");
  v.data.resize(v.data.size() / 2), v.shape[0] = 1;
  EXPECT_FALSE(by_channels(program_of(program_room(in_library("deltanet"))), shared)) << "two heads have the same ones";
}

}  // namespace
}  // namespace assay::language
