// Rooms in words: whatever computes them there (packs, engines of large problems, slices of channels, forms of their
// own), the answer is what the room says in a hundred digits, and the same bits by any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "proptests/words/held.hpp"

namespace assay {
namespace {

struct InWords {
  const char* why;
  std::string room;
  Shape shape;
  std::uint64_t seed;
  std::vector<Style> styles;
  std::vector<Params> params = {};  ///< none: the room's variants
  friend std::ostream& operator<<(std::ostream& os, const InWords& c) { return os << c.room << ' ' << c.why; }
};

std::vector<InWords> all_in_words() {
  const std::vector<Style> every(std::begin(all_styles), std::end(all_styles)), normal{Style::normal};
  std::vector<InWords> all;
  for (const char* room : {"gated_deltanet", "comba", "mdn", "rls"})
    for (const Style style : every)
      all.push_back({"over_hundreds_of_tokens", room, {1, 300, 2, 0, 8, 3, 0}, 4, {style}});
  for (const char* room : {"comba", "falcon3", "falcon3a"})
    all.push_back({"by_another_form", room, {1, 20, 3, 0, 4, 3, 0}, 2, normal});
  for (const char* room : {"softmax_attention", "parallax", "parallax_gate"})
    all.push_back({"by_the_engine", room, {1, 125, 2, 1, 64, 8, 0}, 5, normal, {{}, {{"window", 24L}}}});
  for (const char* room : {"falcon3", "falcon3a"})
    for (const Style style : {Style::normal, Style::repeated_keys, Style::gate_ends, Style::cancelling_values}) {
      std::vector<Params> params{{}, {{"alignment", "same_step"}}, {{"sequence_start", false}}};
      if (room == std::string("falcon3"))
        params.insert(params.end(),
                      {{{"ridge_coupling", "live"}, {"decay_floor", "0.5"}}, {{"ridge_coupling", "detach"}}});
      all.push_back({"by_sums_over_pairs", room, {1, 100, 2, 0, 5, 3, 0}, 9, {style}, params});
    }
  // Eleven heads make a full pack and a ragged one; grouped heads add their gradients up across packs.
  for (const Room* room : rooms()) {
    const bool grouped = groups_heads(room->inputs());
    const Shape shape{1, 6, grouped ? 12 : 11, grouped ? 3 : 0, 4, 3, 0};
    all.push_back({"in_packs", std::string(room->name), shape, 9, normal, {room->variants().front()}});
  }
  // With more heads than one pack has, two to a group, which take different branches in some variants.
  for (const Room* room : rooms()) {
    const auto inputs = room->inputs();
    if (std::any_of(inputs.begin(), inputs.end(), [](const auto& r) { return r.field.name == "initial_state"; }))
      all.push_back(
          {"of_many_channels", std::string(room->name), {1, 5, 10, groups_heads(inputs) ? 5 : 0, 3, 70, 0}, 8, normal});
  }
  return all;
}

class RoomsInWords : public testing::TestWithParam<InWords> {};

TEST_P(RoomsInWords, SayWhatTheRoomSaysWhateverTheThreads) {
  const InWords& c = GetParam();
  const Room& room = listed_room(c.room);
  for (const Params& params : c.params.empty() ? room.variants() : c.params)
    for (const Style style : c.styles) {
      const CaseSpec spec{c.room, c.shape, Format::bf16, style, c.seed, params};
      const Problem problem = room.make(spec);
      expect_answered(room, problem, spec.repro());
      if (c.shape.seq_len > 20) continue;  // for time
      const auto found = room.in_words(problem, {2, 1}), again = room.in_words(problem, {2, 5});
      ASSERT_TRUE(found && again) << spec.repro();
      EXPECT_TRUE(same_bits(found->outputs, again->outputs) && same_bits(found->gradients, again->gradients))
          << spec.repro();
    }
}

INSTANTIATE_TEST_SUITE_P(Rooms, RoomsInWords, testing::ValuesIn(all_in_words()), [](const auto& c) {
  return c.param.room + "_" + c.param.why + "_" + std::string(name_of(c.param.styles.front()));
});

/// A tail comes in; what goes out is all pairs.
TEST(PairSums, BeginWithTheTail) {
  for (const char* name : {"falcon3", "falcon3a"})
    for (const Style style : {Style::normal, Style::repeated_keys, Style::gate_ends, Style::cancelling_values}) {
      const Room& room = listed_room(name);
      const CaseSpec spec{
          name, {1, 12, 2, 0, 5, 3, 0}, Format::bf16, style, 9, {{"window", 5L}, {"sequence_start", false}}};
      Problem problem = room.make(spec);
      ASSERT_EQ(problem.inputs.at("tail_k").shape[1], 4);
      problem.params.erase("window");
      for (const char* tail : {"final_tail_k", "final_tail_v"}) problem.cotangents.erase(tail);
      expect_answered(room, problem, spec.repro() + " without its window");
    }
}

}  // namespace
}  // namespace assay
