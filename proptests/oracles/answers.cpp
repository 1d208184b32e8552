// Exact answers: against an independent implementation, heads together and alone, and digits behind cancellation.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "oracles/core/room.hpp"
#include "oracles/scalars/precise.hpp"
#include "proptests/core/places.hpp"
#include "proptests/core/published_cases.hpp"

namespace assay {
namespace {

Json answered(const std::string& record, const DecimalOptions& options = {}) {
  const Case c = read_cases(R"({"format": "assay-cases", "version": 1, "cases": [)" + record + "]}", "in.json").at(0);
  return result_record(c, answer_case(c, options));
}

TEST(Answers, AgreeWithAnIndependentImplementation) {
  const auto [cases, records] = published_cases(source_dir() + "/proptests/oracles/cases/small.json");
  int compared = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) expect_published(cases[i], records[i], compared);
  EXPECT_EQ(compared, 98);
}

/// With the arrays that heads share once for each of them.
Problem ungrouped(Problem problem, int heads) {
  for (auto& [name, a] : problem.inputs) {
    if (a.shape.empty() || a.shape[0] == heads) continue;
    const std::vector<double> shared = a.data;
    for (int h = a.shape[0]; h < heads; ++h) a.data.insert(a.data.end(), shared.begin(), shared.end());
    a.shape[0] = heads;
  }
  return problem;
}

/// The gradients of two heads that share keys are sums over the heads; outputs are each head's own.
TEST(Answers, SharedGradientsAreTheSumOverTheirHeads) {
  for (const char* name : {"softmax_attention", "parallax", "deltanet", "gated_deltanet"}) {
    const Room& room = listed_room(name);
    const Problem grouped = room.make(
        {.mechanism = name, .shape = {.seq_len = 5, .heads = 2, .shared_heads = 1, .key_dim = 3, .value_dim = 2}});
    const BasicAnswer<HiLo> together = room.values(grouped, Tier::mp100),
                            alone = room.values(ungrouped(grouped, 2), Tier::mp100);
    const auto expect_same = [&](const std::string& tensor, const std::vector<HiLo>& got, std::vector<Mp50> want) {
      Mp50 largest = 0;
      for (const Mp50& x : want) largest = std::max(largest, Mp50(abs(x)));
      ASSERT_EQ(got.size(), want.size()) << name << ' ' << tensor;
      for (std::size_t i = 0; i < got.size(); ++i)  // pairs hold 106 bits, and three were rounded to them
        EXPECT_LE(abs(Mp50(got[i].hi) + Mp50(got[i].lo) - want[i]), ldexp(Mp50(3), -105) * largest)
            << name << ' ' << tensor << ' ' << i;
    };
    const auto exact = [](const std::vector<HiLo>& pairs) {
      std::vector<Mp50> list;
      for (const HiLo& x : pairs) list.push_back(Mp50(x.hi) + Mp50(x.lo));
      return list;
    };
    expect_same("o", together.outputs.at("o").data, exact(alone.outputs.at("o").data));
    for (const auto& [tensor, array] : together.gradients) {
      std::vector<Mp50> sum = exact(alone.gradients.at(tensor).data);
      const std::size_t n = array.data.size();
      for (std::size_t i = n; i < sum.size(); ++i) sum[i % n] += sum[i];
      sum.resize(n);
      expect_same(tensor, array.data, std::move(sum));
    }
  }
}

TEST(Answers, TangentsAreOfTheInputsAndOfTheirShapes) {
  const Room& room = listed_room("deltanet");
  const Problem problem =
      room.make({.mechanism = "deltanet", .shape = {.seq_len = 4, .heads = 1, .key_dim = 2, .value_dim = 2}});
  EXPECT_THROW(room.slopes(problem, {{"w", Array({1})}}), InputError);
  EXPECT_THROW(room.slopes(problem, {{"v", Array({1})}}), InputError);
}

/// One query that sees one key far ahead of the other, by a score of 160.
const char* const one_hot =
    R"({"id": "a", "mechanism": "softmax_attention", "params": {"bandwidth": "1", "causal": false},
    "inputs": {"q": [["1"]], "k": [["1"], ["-159"]], "v": [["1"], ["0"]]}, "cotangents": {"o": [["3"]]}})";

TEST(Digits, SurviveCancellationBeyondFiftyDigits) {
  // dq = 160 p (1 - p) g with p = exp(-160) / (1 + exp(-160)): 1e-67 where its terms are of size 1.
  const Json exact = answered(one_hot)["gradients"]["q"][0][0];
  const Mp200 e = exp(Mp200(-160)), p = e / (1 + e);
  EXPECT_EQ(exact, to_decimal(Mp200(3 * 160 * p * (1 - p)), 40));
  // Fifty digits alone see noise there, or nothing.
  EXPECT_NE(answered(one_hot, {.digits = 40, .tier = Tier::mp50})["gradients"]["q"][0][0], exact);
}

}  // namespace
}  // namespace assay
