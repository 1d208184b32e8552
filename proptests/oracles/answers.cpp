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

TEST(Diagnostics, IdentitiesOfSectionEight) {
  const std::string record = R"({"id": "a", "mechanism": "parallax", "params": {"bandwidth": "1.5"}, "inputs": {
    "q": [["1","0.5"],["-1","2"],["0.25","1"],["3","1"],["-0.5","0.75"]],
    "k": [["0.5","1"],["2","-1"],["-1","0.25"],["1","1.5"],["0.75","-2"]],
    "rho": [["1","2"],["0","0"],["2","-1"],["0.5","3"],["-1","1"]],
    "v": [["1"],["-2"],["0.5"],["4"],["3"]]}})";
  const Json outputs = answered(record)["outputs"];
  const auto cell = [&](const char* name, int i) { return outputs[name][static_cast<std::size_t>(i)]; };
  for (int i = 0; i < 5; ++i) {
    const auto row = static_cast<std::size_t>(i);
    // Weights sum to one, whatever the probe; forty digits are kept of each.
    Mp50 sum(0), largest(0);
    for (const Json& s : outputs["score"][row]) {
      const auto x = from_decimal<Mp50>(s.get<std::string>());
      sum += x;
      largest = std::max(largest, Mp50(abs(x)));
    }
    EXPECT_EQ(outputs["score"][row].size(), row + 1);
    EXPECT_LE(abs(sum - 1), (i + 1) * largest * from_decimal<Mp50>("5e-40"));
    // The entropy is lse - sum p s; with one value dimension X is a row, and the probe's share of it is a cosine.
    if (i == 1) {
      EXPECT_TRUE(cell("diagnostics.cpa", i).is_null());
      EXPECT_EQ(cell("diagnostics.cor", i), "0.0");
    } else if (i > 0) {
      const auto cpa = from_decimal<Mp50>(cell("diagnostics.cpa", i).get<std::string>());
      EXPECT_GT(cpa, 0);
      EXPECT_LE(cpa, 1);
    }
  }
  // |J| = max(d, dv) + 1 = 3: every canonical correlation is one. Fewer keys have no covariance of full rank.
  EXPECT_TRUE(cell("diagnostics.corr_norm", 1).is_null());
  EXPECT_EQ(cell("diagnostics.corr_norm", 2), "1." + std::string(39, '0'));
  EXPECT_LT(from_decimal<Mp50>(cell("diagnostics.corr_norm", 4).get<std::string>()), 1);
  EXPECT_EQ(cell("diagnostics.sink", 0), "1." + std::string(39, '0'));
  EXPECT_EQ(cell("diagnostics.entropy", 0), "0.0");

  // Without a probe the scores are the weights, and the sink is p_1^2 / sum p^2.
  Json plain = Json::parse(record);
  for (Json& row : plain["inputs"]["rho"]) row = Json::parse(R"(["0", "0"])");
  const Json softmax = answered(plain.dump())["outputs"];
  for (std::size_t i = 0; i < 5; ++i) {
    Mp50 squares(0), entropy(0);
    for (const Json& s : softmax["score"][i]) {
      const auto p = from_decimal<Mp50>(s.get<std::string>());
      squares += p * p;
      entropy -= p * log(p);
    }
    const auto first = from_decimal<Mp50>(softmax["score"][i][0].get<std::string>());
    EXPECT_EQ(softmax["diagnostics.sink_softmax"][i], softmax["score"][i][0]);
    // Weights of 40 digits: 1e-39 for the ratio of squares, and as much per term of the entropy with |ln p| < 10.
    const auto unit = from_decimal<Mp50>("1e-39");
    EXPECT_LE(abs(first * first / squares - from_decimal<Mp50>(softmax["diagnostics.sink"][i].get<std::string>())),
              4 * unit);
    EXPECT_LE(abs(entropy - from_decimal<Mp50>(softmax["diagnostics.entropy"][i].get<std::string>())), 10 * 5 * unit);
  }
}

}  // namespace
}  // namespace assay
