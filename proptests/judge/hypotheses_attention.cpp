// Mistakes of attention by tiles, forwards and backwards, are named. The wrong answers are written out here, query by
// query, with nothing of what names them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "oracles/core/room.hpp"
#include "proptests/oracles/bench.hpp"

namespace assay {
namespace {

constexpr int tile = 16;

std::string said_of(const Answer& answer) { return told_of(bench_for("softmax_attention"), answer).text(); }

/// One query: weights e^(s - largest) of the keys up to its own, their sum, and the largest score up to each.
struct Query {
  std::vector<double> weight, largest;
  double norm = 0;
};
Query query_of(const Problem& p, int h, int t) {
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k");
  const double bandwidth = std::stod(std::get<std::string>(p.params.at("bandwidth")));
  Query query;
  for (int j = 0; j <= t; ++j) {
    query.weight.push_back(dot(q, h, t, k, h / (q.shape[0] / k.shape[0]), j) / bandwidth);
    query.largest.push_back(std::max(j == 0 ? query.weight[0] : query.largest.back(), query.weight.back()));
  }
  for (double& w : query.weight) query.norm += w = std::exp(w - query.largest.back());
  return query;
}

TEST(CausesInAttention, name_a_sum_that_is_not_rescaled) {
  const Problem& p = bench_for("softmax_attention").problem;
  const Array& v = p.inputs.at("v");
  Answer answer = bench_for("softmax_attention").call().healthy();
  Array& o = answer.outputs.at("o");
  for (int h = 0; h < o.shape[0]; ++h)
    for (int t = 0; t < o.shape[1]; ++t) {
      const Query query = query_of(p, h, t);
      double norm = 0;  // each tile's weights with the maximum that it found
      for (int j = 0; j <= t; ++j) {
        const auto last = static_cast<std::size_t>(std::min(t, j / tile * tile + tile - 1));
        norm += query.weight[static_cast<std::size_t>(j)] * std::exp(query.largest.back() - query.largest[last]);
      }
      for (int c = 0; c < o.shape[2]; ++c) {
        double sum = 0;
        for (int j = 0; j <= t; ++j)
          sum += query.weight[static_cast<std::size_t>(j)] * number_at(v, h / (o.shape[0] / v.shape[0]), j, c);
        o.data[static_cast<std::size_t>((h * o.shape[1] + t) * o.shape[2] + c)] = sum / norm;
      }
    }
  EXPECT_NE(said_of(answer).find("the row's sum of earlier tiles not rescaled when the maximum grows (tiles of 16)"),
            std::string::npos)
      << said_of(answer);
}

TEST(CausesInAttention, name_gradients_of_values_by_wrong_weights) {
  const Problem& p = bench_for("softmax_attention").problem;
  const Array& d_o = p.cotangents.at("o");
  const auto told = [&](const std::function<double(const Query&, int t, int j)>& weight) {
    Answer answer = bench_for("softmax_attention").call().healthy();
    Array& d_v = answer.gradients.at("v");
    std::fill(d_v.data.begin(), d_v.data.end(), 0.0);
    const int group = d_o.shape[0] / d_v.shape[0];
    for (int h = 0; h < d_o.shape[0]; ++h)
      for (int t = 0; t < d_o.shape[1]; ++t) {
        const Query query = query_of(p, h, t);
        for (int j = 0; j <= t; ++j)
          for (int c = 0; c < d_v.shape[2]; ++c)
            d_v.data[static_cast<std::size_t>((h / group * d_v.shape[1] + j) * d_v.shape[2] + c)] +=
                weight(query, t, j) * number_at(d_o, h, t, c);
      }
    return told_of(bench_for("softmax_attention"), answer);
  };
  const auto right = [](const Query& query, int, int j) {
    return query.weight[static_cast<std::size_t>(j)] / query.norm;
  };
  EXPECT_FALSE(told(right).fails);
  const std::string without = told([](const Query&query, int, int j) {
                                return query.weight[static_cast<std::size_t>(j)];
                              }).text(),
                    diagonal = told([&](const Query&query, int t, int j) {
                                 return t / tile == j / tile ? 0 : right(query, t, j);
                               }).text();
  EXPECT_NE(without.find("d_v of weights that were not divided by their sum"), std::string::npos) << without;
  // Of d_k it would be said, too, and d_k is right.
  EXPECT_EQ(diagonal.find("looks like d_k and d_v"), std::string::npos) << diagonal;
}

TEST(CausesInAttention, name_gradients_of_queries_by_their_last_tile) {
  const Problem& p = bench_for("softmax_attention").problem;
  const Array &k = p.inputs.at("k"), &v = p.inputs.at("v"), &d_o = p.cotangents.at("o");
  const double bandwidth = std::stod(std::get<std::string>(p.params.at("bandwidth")));
  Answer answer = bench_for("softmax_attention").call().healthy();
  Array& d_q = answer.gradients.at("q");
  std::fill(d_q.data.begin(), d_q.data.end(), 0.0);
  for (int h = 0; h < d_q.shape[0]; ++h)
    for (int t = 0; t < d_q.shape[1]; ++t) {
      const Query query = query_of(p, h, t);
      const int shared = h / (d_q.shape[0] / k.shape[0]);
      double delta = 0;
      for (int j = 0; j <= t; ++j)
        delta += query.weight[static_cast<std::size_t>(j)] / query.norm * dot(d_o, h, t, v, shared, j);
      for (int j = t / tile * tile; j <= t; ++j) {
        const double ds =
            query.weight[static_cast<std::size_t>(j)] / query.norm * (dot(d_o, h, t, v, shared, j) - delta) / bandwidth;
        for (int c = 0; c < d_q.shape[2]; ++c)
          d_q.data[static_cast<std::size_t>((h * d_q.shape[1] + t) * d_q.shape[2] + c)] +=
              ds * number_at(k, shared, j, c);
      }
    }
  EXPECT_NE(said_of(answer).find("d_q of the last tile of keys alone"), std::string::npos) << said_of(answer);
}

}  // namespace
}  // namespace assay
