// Exact answers: against an independent implementation, and digits behind cancellation.
#include <gtest/gtest.h>

#include <string>

#include "oracles/core/room.hpp"
#include "oracles/scalars/precise.hpp"
#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/places.hpp"
#include "proptests/core/published_cases.hpp"

namespace assay {
namespace {

TEST(Answers, AgreeWithAnIndependentImplementation) {
  const auto [cases, records] = published_cases(source_dir() + "/proptests/oracles/cases/small.json");
  int compared = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) expect_published(cases[i], records[i], compared);
  EXPECT_EQ(compared, 98);
}

TEST(Answers, TangentsAreOfTheInputsAndOfTheirShapes) {
  const Room& room = listed_room("deltanet");
  const Problem problem =
      room.make({.mechanism = "deltanet", .shape = {.seq_len = 4, .heads = 1, .key_dim = 2, .value_dim = 2}});
  EXPECT_THROW(room.slopes(problem, {{"w", Array({1})}}), InputError);
  EXPECT_THROW(room.slopes(problem, {{"v", Array({1})}}), InputError);
}

/// One query that sees one key far ahead of the other, by a score of 160.
TEST(Digits, SurviveCancellationBeyondFiftyDigits) {
  const Json one_hot = Json::parse(
      R"({"id": "a", "mechanism": "softmax_attention", "params": {"bandwidth": "1", "causal": false},
      "inputs": {"q": [["1"]], "k": [["1"], ["-159"]], "v": [["1"], ["0"]]}, "cotangents": {"o": [["3"]]}})");
  const auto dq = [&](const DecimalOptions& options) {
    return bad_inputs::result_of(one_hot, options).answer.gradients.at("q").data.at(0).text;
  };
  // dq = 160 p (1 - p) g with p = exp(-160) / (1 + exp(-160)): 1e-67 where its terms are of size 1.
  const Mp200 e = exp(Mp200(-160)), p = e / (1 + e);
  EXPECT_EQ(dq({}), to_decimal(Mp200(3 * 160 * p * (1 - p)), 40));
  // Fifty digits alone see noise there, or nothing.
  EXPECT_NE(dq({.digits = 40, .tier = Tier::mp50}), dq({}));
}

}  // namespace
}  // namespace assay
