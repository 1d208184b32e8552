// Rooms that are computed in words by a form of their own (oracles/rooms/NAME_form.hpp), judged by their references.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "proptests/words/held.hpp"

namespace assay {
namespace {

class PairSums : public testing::TestWithParam<std::tuple<const char*, Style>> {};

TEST_P(PairSums, AreTheReferencesOverAHundredTokens) {
  const auto& [name, style] = GetParam();
  const Room& room = listed_room(name);
  std::vector<Params> all{{}, {{"alignment", "same_step"}}, {{"sequence_start", false}}};
  if (room.name == "falcon3")
    all.insert(all.end(), {{{"ridge_coupling", "live"}, {"decay_floor", "0.5"}}, {{"ridge_coupling", "detach"}}});
  for (const Params& params : all) {
    const CaseSpec spec{name, {1, 100, 2, 0, 5, 3, 0}, Format::bf16, style, 9, params};
    expect_answered(room, room.make(spec), spec.repro());
  }
}

/// A tail comes in; what goes out is all pairs.
TEST_P(PairSums, BeginWithTheTail) {
  const auto& [name, style] = GetParam();
  const Room& room = listed_room(name);
  const CaseSpec spec{
      name, {1, 12, 2, 0, 5, 3, 0}, Format::bf16, style, 9, {{"window", 5L}, {"sequence_start", false}}};
  Problem problem = room.make(spec);
  ASSERT_EQ(problem.inputs.at("tail_k").shape[1], 4);
  problem.params.erase("window");
  for (const char* tail : {"final_tail_k", "final_tail_v"}) problem.cotangents.erase(tail);
  expect_answered(room, problem, spec.repro() + " without its window");
}

/// Rooms that are computed in words by another form than their reference's.
TEST(WordEngines, SayWhatTheReferencesSay) {
  for (const char* name : {"comba", "falcon3", "falcon3a"}) {
    const Room& room = listed_room(name);
    for (const Params& params : room.variants()) {
      const CaseSpec spec{name, {1, 20, 3, 0, 4, 3, 0}, Format::bf16, Style::normal, 2, params};
      expect_answered(room, room.make(spec), spec.repro());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rooms, PairSums,
    testing::Combine(testing::Values("falcon3", "falcon3a"),
                     testing::Values(Style::normal, Style::repeated_keys, Style::gate_ends, Style::cancelling_values)),
    [](const auto& c) { return std::string(std::get<0>(c.param)) + "_" + std::string(name_of(std::get<1>(c.param))); });

}  // namespace
}  // namespace assay
