// Mistakes about the probe's mean are named. The wrong answers are written out here, query by query.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "oracles/core/room.hpp"
#include "proptests/oracles/bench.hpp"

namespace assay {
namespace {

TEST(CausesOfProbes, name_a_missing_mean_and_a_plain_gradient_of_values) {
  const Bench& bench = bench_for("parallax");
  const Problem& p = bench.problem;
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k"), &v = p.inputs.at("v"), &rho = p.inputs.at("rho"),
              &d_o = p.cotangents.at("o");
  const double bandwidth = std::stod(std::get<std::string>(p.params.at("bandwidth")));
  const int group = q.shape[0] / k.shape[0];
  Answer outputs = bench.call().healthy(), gradients = outputs;
  Array &o = outputs.outputs.at("o"), &d_v = gradients.gradients.at("v");
  std::fill(o.data.begin(), o.data.end(), 0.0), std::fill(d_v.data.begin(), d_v.data.end(), 0.0);
  for (int h = 0; h < q.shape[0]; ++h)
    for (int t = 0; t < q.shape[1]; ++t) {
      std::vector<double> weight;
      double norm = 0;
      for (int j = 0; j <= t; ++j) norm += std::exp(dot(q, h, t, k, h / group, j) / bandwidth);
      for (int j = 0; j <= t; ++j) weight.push_back(std::exp(dot(q, h, t, k, h / group, j) / bandwidth) / norm);
      for (int j = 0; j <= t; ++j)
        for (int c = 0; c < v.shape[2]; ++c) {
          const double w = weight[static_cast<std::size_t>(j)];
          o.data[static_cast<std::size_t>((h * o.shape[1] + t) * o.shape[2] + c)] +=
              w * (1 - dot(rho, h, t, k, h / group, j)) * number_at(v, h / group, j, c);
          d_v.data[static_cast<std::size_t>((h / group * v.shape[1] + j) * v.shape[2] + c)] +=
              w * number_at(d_o, h, t, c);
        }
    }
  const std::string of_o = told_of(bench, outputs).text(), of_v = told_of(bench, gradients).text();
  EXPECT_NE(of_o.find("the mean of the probe's scores missing"), std::string::npos) << of_o;
  EXPECT_NE(of_v.find("d_v of the softmax weights"), std::string::npos) << of_v;
}

}  // namespace
}  // namespace assay
