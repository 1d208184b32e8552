// Large problems of softmax attention, Parallax and gated Parallax go to the engine, whose answers are the rooms' own
// in 335 bits.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "oracles/rooms/engines.hpp"
#include "proptests/words/held.hpp"
#include "reference/lla.hpp"
#include "reference/parallax.hpp"
#include "reference/parallax_gate.hpp"
#include "reference/softmax_attention.hpp"

namespace assay {
namespace {

/// A problem of two heads for one head of keys and values.
Problem problem_of(std::string_view name, int tokens, const Params& params = {}) {
  const CaseSpec spec{std::string(name), {1, tokens, 2, 1, 64, 8, 0}, Format::bf16, Style::normal, 5, params};
  return listed_room(name).make(spec);
}

template <class M>
class AttentionRooms : public testing::Test {};
using Rooms = testing::Types<softmax_attention, parallax, parallax_gate>;
TYPED_TEST_SUITE(AttentionRooms, Rooms);

TYPED_TEST(AttentionRooms, LargeProblemsGoToTheEngineAndSmallOnesDoNot) {
  const Problem small = problem_of(TypeParam::name, 124), large = problem_of(TypeParam::name, 125);
  EXPECT_FALSE(engine_answer(Binding<TypeParam, double>(small), true, {2, 1}).has_value());
  EXPECT_TRUE(engine_answer(Binding<TypeParam, double>(large), true, {2, 1}).has_value());
}

TYPED_TEST(AttentionRooms, NumbersOutOfTheEnginesRangeAreLeftToThePacks) {
  Problem large = problem_of(TypeParam::name, 125);
  large.inputs.at("k").data[77] = 0x1p100;
  EXPECT_FALSE(engine_answer(Binding<TypeParam, double>(large), true, {2, 1}).has_value());
}

/// exp(-m) of a row whose scores are all near -1000 is beyond the doubles: a ridge in absolute units with it.
TEST(LlaRoom, AnOverflowInTheEngineIsLeftToThePacks) {
  Problem large = problem_of(lla::name, 160, {{"lambda_mode", "absolute"}});
  EXPECT_TRUE(engine_answer(Binding<lla, double>(large), true, {2, 1}).has_value());
  for (double& x : large.inputs.at("q").data) x = 4;
  for (double& x : large.inputs.at("k").data) x -= 32;
  EXPECT_FALSE(engine_answer(Binding<lla, double>(large), true, {2, 1}).has_value());
}

TYPED_TEST(AttentionRooms, TheEngineSaysWhatTheRoomSays) {
  const Room& room = listed_room(TypeParam::name);
  for (const Params& params : {Params{}, Params{{"window", 24L}}})
    expect_answered(room, problem_of(TypeParam::name, 125, params), std::string(room.name));
}

}  // namespace
}  // namespace assay
