// Large problems of softmax attention, Parallax and gated Parallax go to the engine, whose answers are the rooms' own
// in 335 bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "oracles/rooms/lla_engine.hpp"
#include "oracles/rooms/parallax_engine.hpp"
#include "oracles/rooms/parallax_gate_engine.hpp"
#include "oracles/rooms/softmax_attention_engine.hpp"

namespace assay {
namespace {

/// A problem of two heads for one head of keys and values.
Problem problem_of(std::string_view name, int tokens, const Params& params = {}) {
  const CaseSpec spec{std::string(name), {1, tokens, 2, 1, 64, 8, 0}, Format::bf16, Style::normal, 5, params};
  return listed_room(name).make(spec);
}

/// Every number lies within its bound, which meets the rooms' target.
void expect_same(const BasicArrays<Enclosed>& got, const BasicArrays<HiLo>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, array] : want) {
    const BasicArray<Enclosed>& a = got.at(name);
    ASSERT_EQ(a.shape, array.shape) << name;
    double largest = 0, bound = 0;
    for (std::size_t i = 0; i < array.data.size(); ++i) {
      const Enclosed& x = a.data[i];
      const double off = (x.value.hi - array.data[i].hi) + (x.value.lo - array.data[i].lo);
      // The room's answer is rounded to a pair.
      ASSERT_LE(std::abs(off), x.bound + 0x1p-104 * std::abs(x.value.hi)) << name << ' ' << i;
      largest = std::max(largest, std::abs(x.value.hi)), bound = std::max(bound, x.bound);
    }
    EXPECT_GT(bound, 0) << name;
    EXPECT_LE(bound, word_target * largest) << name;
  }
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
  for (const Params& params : {Params{}, Params{{"window", 24L}}}) {
    const Problem p = problem_of(TypeParam::name, 125, params);
    const auto found = room.in_words(p, {2, 2});
    ASSERT_TRUE(found.has_value());
    const BasicAnswer<HiLo> exact = room.values(p, Tier::mp100);
    expect_same(found->outputs, exact.outputs);
    expect_same(found->gradients, exact.gradients);
  }
}

}  // namespace
}  // namespace assay
