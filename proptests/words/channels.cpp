// Recurrences in slices of their value channels: every slice a problem of its own, together the room's own answer.
#include "oracles/core/channels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proptests/words/held.hpp"
#include "reference/deltanet.hpp"
#include "reference/mesanet.hpp"
#include "reference/softmax_attention.hpp"

namespace assay {
namespace {

TEST(Channels, AreCutWhereThereIsAStateAndMoreThanOneSlice) {
  EXPECT_TRUE(slices_of<deltanet>(0).front().all);
  EXPECT_TRUE(slices_of<deltanet>(64).front().all);
  EXPECT_TRUE(slices_of<softmax_attention>(1000).front().all);
  EXPECT_TRUE(slices_of<mesanet>(1000).front().all);
  for (const int channels : {65, 128, 130, 1000}) {
    int next = 0;
    for (const Channels& slice : slices_of<deltanet>(channels)) {
      EXPECT_EQ(slice.first, next);
      EXPECT_FALSE(slice.all);
      EXPECT_GE(slice.count, 32);
      EXPECT_LE(slice.count, channels_of_slice);
      next += slice.count;
    }
    EXPECT_EQ(next, channels);
  }
}

TEST(Channels, OfTheSecondAxisOrTheFirstComeBackWhereTheyWere) {
  for (const int axis : {0, 1}) {
    Tensor<double, 2> whole(axis == 0 ? 130 : 3, axis == 0 ? 3 : 130);
    for (std::size_t i = 0; i < whole.data.size(); ++i) whole.data[i] = static_cast<double>(i);
    struct Part {
      std::vector<int> shape;
      std::vector<double> data;
      int value_axis;
    };
    const std::vector<Channels> cuts = slices_of<deltanet>(130);
    std::vector<std::vector<Part>> parts;
    parts.reserve(cuts.size());
    for (const Channels& slice : cuts) {
      Tensor<double, 2> part = whole;
      detail::cut(part, axis, slice);
      parts.push_back({{{part.extent[0], part.extent[1]}, part.data, axis}, {{2}, {1, 10}, -1}});
    }
    std::vector<std::vector<Part>*> slices;
    slices.reserve(parts.size());
    for (auto& list : parts) slices.push_back(&list);
    EXPECT_EQ(joined_slices(slices, 0, true).data, whole.data) << axis;
    EXPECT_EQ(joined_slices(slices, 1, true).data, (std::vector<double>{3, 30})) << axis;
  }
}

bool same_bits(const BasicArrays<Enclosed>& a, const BasicArrays<Enclosed>& b) {
  const auto same = [](const Enclosed& x, const Enclosed& y) {
    return x.value.hi == y.value.hi && x.value.lo == y.value.lo && x.bound == y.bound;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    return x.first == y.first && std::equal(x.second.data.begin(), x.second.data.end(), y.second.data.begin(), same);
  });
}

class SlicedRooms : public testing::TestWithParam<const Room*> {};

/// With more heads than one pack has, two to a group, which take different branches in some variants.
TEST_P(SlicedRooms, SayWhatTheRoomSaysWhateverTheThreads) {
  const Room& room = *GetParam();
  for (const Params& params : room.variants()) {
    const int shared = groups_heads(room.inputs()) ? 5 : 0;
    const CaseSpec spec{std::string(room.name), {1, 5, 10, shared, 3, 70, 0}, Format::bf16, Style::normal, 8, params};
    const Problem problem = room.make(spec);
    const auto found = room.in_words(problem, {2, 1}), again = room.in_words(problem, {2, 5});
    ASSERT_TRUE(found && again) << spec.repro();
    EXPECT_TRUE(same_bits(found->outputs, again->outputs) && same_bits(found->gradients, again->gradients))
        << spec.repro();
    expect_answered(room, problem, spec.repro());
  }
}

std::vector<const Room*> rooms_with_a_state() {
  std::vector<const Room*> list;
  for (const Room* room : rooms()) {
    const auto inputs = room->inputs();
    if (std::any_of(inputs.begin(), inputs.end(), [](const auto& r) { return r.field.name == "initial_state"; }))
      list.push_back(room);
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(Rooms, SlicedRooms, testing::ValuesIn(rooms_with_a_state()),
                         [](const auto& room) { return std::string(room.param->name); });

}  // namespace
}  // namespace assay
