// Large problems of softmax attention, Parallax and gated Parallax go to the engine; DeltaNet, Gated DeltaNet, KDA,
// GLA, Mamba-2 and linear attention to the slabs. Their answers are the rooms' own in 335 bits; that threads change no
// bit is RoomsInWords (of_many_channels).
#include "oracles/rooms/engines.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "proptests/core/share.hpp"
#include "proptests/words/held.hpp"
#include "reference/core/inputs.hpp"
#include "reference/deltanet.hpp"
#include "reference/gated_deltanet.hpp"
#include "reference/gla.hpp"
#include "reference/kda.hpp"
#include "reference/linear_attention.hpp"
#include "reference/lla.hpp"
#include "reference/mamba2.hpp"
#include "reference/parallax.hpp"
#include "reference/parallax_gate.hpp"
#include "reference/softmax_attention.hpp"

namespace assay {
namespace {

template <class M>
std::optional<BasicAnswer<WordBall>> by_engine(const Problem& problem) {
  return engine_answer(Binding<M, double>(problem), !problem.cotangents.empty(), {2, 1});
}

/// A problem of two heads for one head of keys and values.
Problem problem_of(std::string_view name, int tokens, const Params& params = {}) {
  const CaseSpec spec{std::string(name), {1, tokens, 2, 1, 64, 8, 0}, Format::bf16, Style::normal, 5, params};
  return listed_room(name).make(spec);
}

template <class M>
class AttentionRooms : public testing::Test {};
using Rooms = testing::Types<softmax_attention, parallax, parallax_gate>;
TYPED_TEST_SUITE(AttentionRooms, Rooms);

TYPED_TEST(AttentionRooms, LargeProblemsWithinItsRangeGoToTheEngine) {
  EXPECT_FALSE(by_engine<TypeParam>(problem_of(TypeParam::name, 124)).has_value());
  Problem large = problem_of(TypeParam::name, 125);
  EXPECT_TRUE(by_engine<TypeParam>(large).has_value());
  large.inputs.at("k").data[77] = 0x1p100;
  EXPECT_FALSE(by_engine<TypeParam>(large).has_value());
}

/// exp(-m) of a row whose scores are all near -1000 is beyond the doubles: a ridge in absolute units with it.
TEST(LlaRoom, AnOverflowInTheEngineIsLeftToThePacks) {
  Problem large = problem_of(lla::name, 160, {{"lambda_mode", "absolute"}});
  EXPECT_TRUE(by_engine<lla>(large).has_value());
  for (double& x : large.inputs.at("q").data) x = 4;
  for (double& x : large.inputs.at("k").data) x -= 32;
  EXPECT_FALSE(by_engine<lla>(large).has_value());
}

/// Two heads of values for each of two of keys, more channels than a slice has, none of them a multiple of a vector.
CaseSpec spec_of(std::string_view name, int tokens, Style style, const Params& params) {
  return {std::string(name), {1, tokens, 4, 2, 9, 67, 0}, Format::bf16, style, 5, params};
}

template <class M>
class FirstOrderRooms : public testing::Test {};
using Recurrences = testing::Types<deltanet, gated_deltanet, kda, gla, mamba2, linear_attention>;
TYPED_TEST_SUITE(FirstOrderRooms, Recurrences);

/// In one style of three, or more.
TYPED_TEST(FirstOrderRooms, SayWhatTheRoomSaysInEveryStyle) {
  const Room& room = listed_room(TypeParam::name);
  Share share(3);
  while (share.goes_on())
    for (const Params& params : room.variants())
      for (const Style style : all_styles) {
        if (!share.takes()) continue;
        const CaseSpec spec = spec_of(room.name, 7, style, params);
        Problem problem = room.make(spec);
        for (const bool end : {true, false}) {
          if (!end) problem.cotangents.erase("final_state"), problem.inputs.erase("initial_state");
          ASSERT_EQ(by_engine<TypeParam>(problem).has_value(), !params.contains("normalization")) << spec.repro();
          expect_answered(room, problem, spec.repro());
        }
        problem.params["scale"] = "0.3";
        expect_answered(room, problem, spec.repro() + " scale");
        problem.cotangents.clear();
        expect_answered(room, problem, spec.repro() + " forward");
      }
}

TYPED_TEST(FirstOrderRooms, WhatIsOutOfRangeIsLeftToThePacks) {
  const Room& room = listed_room(TypeParam::name);
  Problem problem = room.make(spec_of(room.name, 6, Style::normal, {}));
  problem.inputs.at("v").data[7] = 0x1p300;
  EXPECT_FALSE(by_engine<TypeParam>(problem).has_value());
  EXPECT_TRUE(room.in_words(problem, {2, 1}).has_value());
  Problem none = room.make(spec_of(room.name, 1, Style::normal, {}));
  for (const char* tokens : {"q", "k", "v", "beta", "log_decay"})
    if (const auto it = none.inputs.find(tokens); it != none.inputs.end())
      it->second.shape[1] = 0, it->second.data.clear();
  none.cotangents.at("o").shape[1] = 0, none.cotangents.at("o").data.clear();
  EXPECT_FALSE(by_engine<TypeParam>(none).has_value());
  expect_answered(room, none, "no tokens");
}

}  // namespace
}  // namespace assay
