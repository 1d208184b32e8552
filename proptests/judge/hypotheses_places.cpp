// Inputs and answers of another place, channel or head are named, and gates in terms that they do not belong to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "judge/hypotheses/scene.hpp"
#include "oracles/core/room.hpp"
#include "proptests/oracles/bench.hpp"

namespace assay {
namespace {

TEST(CausesInPlaces, name_a_gain_of_some_channels_and_of_some_rows) {
  const Bench& bench = bench_for("gated_deltanet");
  Answer columns = bench.call().healthy(), rows = columns;
  Array &o = columns.outputs.at("o"), &other = rows.outputs.at("o");
  const int T = o.shape[1], V = o.shape[2];
  for (int i = 0; i < static_cast<int>(o.data.size()); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i % V >= 4 && i % V < 8) o.data[at] *= 1.5;
    if (i / V % T % 16 == 15) other.data[at] *= 1.5;
  }
  expect_named(bench, columns, " times the right values in columns 4..7");
  expect_named(bench, rows, " times the right values in ");
}

TEST(CausesInPlaces, name_no_number_that_leaves_a_hundredth) {
  const Bench& bench = bench_for("gated_deltanet");
  Answer answer = bench.call().healthy();
  std::vector<double>& o = answer.outputs.at("o").data;
  for (std::size_t i = 0; i < o.size(); ++i) o[i] *= i % 2 == 0 ? 1.47 : 1.53;  // 99.6% is 1.5 times
  EXPECT_EQ(told_of(bench, answer).text().find("times the right values"), std::string::npos);
}

TEST(CausesInPlaces, name_gradients_of_groups_and_of_other_tensors) {
  const Bench& gates = bench_for("mamba2");
  Answer summed = gates.call().healthy();
  Array &d_g = summed.gradients.at("log_decay"), own = d_g;
  const int group = d_g.shape[0] / gates.problem.inputs.at("k").shape[0];
  for (int h = 0; h < d_g.shape[0]; ++h)
    for (int t = 0; t < d_g.shape[1]; ++t)
      for (int other = h / group * group; other < (h / group + 1) * group; ++other)
        number_at(d_g, h, t) += other == h ? 0 : number_at(own, other, t);
  expect_named(gates, summed, "summed over the heads of each group");

  Answer joined = bench_for("comba").call().healthy();
  std::vector<double>&d_k = joined.gradients.at("k").data, &d_p = joined.gradients.at("p").data;
  for (std::size_t i = 0; i < d_k.size(); ++i) d_k[i] += d_p[i], d_p[i] = 0;
  expect_named(bench_for("comba"), joined, "d_p added to it, too");
}

TEST(CausesInPlaces, name_a_number_that_is_its_neighbours) {
  const Bench& bench = bench_for("gated_deltanet");
  Answer answer = bench.call().healthy();
  std::vector<double>& o = answer.outputs.at("o").data;
  const auto V = static_cast<std::size_t>(answer.outputs.at("o").shape[2]);
  std::size_t most = 1;  // the number that differs most from the one before it
  for (std::size_t i = 1; i < o.size(); ++i)
    if (i % V != 0 && std::abs(o[i] - o[i - 1]) > std::abs(o[most] - o[most - 1])) most = i;
  o[most] = o[most - 1];
  expect_named(bench, answer, "one number that is the previous column's");
}

TEST(CausesInPlaces, name_gradients_summed_over_other_heads) {
  const Bench& bench = bench_for("mamba2");
  const Problem& p = bench.problem;
  Problem apart = p;  // every head has its own keys and queries
  const int H = p.inputs.at("v").shape[0], shared = p.inputs.at("k").shape[0];
  for (const char* name : {"q", "k"}) {
    Array& x = apart.inputs.at(name);
    const Array given = x;
    const auto n = static_cast<std::ptrdiff_t>(given.data.size()) / shared;
    x.shape[0] = H, x.data.clear();
    for (int h = 0; h < H; ++h) {
      const auto from = given.data.begin() + h / (H / shared) * n;
      x.data.insert(x.data.end(), from, from + n);
    }
  }
  const Array parts = hypotheses::answer_of(bench.room, apart).at("d_k");
  Answer answer = bench.call().healthy();
  Array& d_k = answer.gradients.at("k");
  const std::size_t n = d_k.data.size() / static_cast<std::size_t>(shared);
  std::fill(d_k.data.begin(), d_k.data.end(), 0.0);
  for (std::size_t i = 0; i < parts.data.size(); ++i)
    d_k.data[i / n % static_cast<std::size_t>(shared) * n + i % n] += parts.data[i];
  expect_named(bench, answer, "summed over heads h mod H_kv");
}

TEST(CausesInPlaces, name_inputs_of_another_head_order_or_name) {
  const Bench& bench = bench_for("gated_deltanet");
  const auto with = [&](const char* name, const std::function<void(Array&)>& change) {
    return bench.call().with([&](Problem& p) { change(p.inputs.at(name)); });
  };
  expect_named(bench,
               with("initial_state",
                    [](Array& x) {
                      const auto n = static_cast<std::ptrdiff_t>(x.data.size()) / x.shape[0];
                      for (int h = 1; h < x.shape[0]; ++h) std::copy_n(x.data.begin(), n, x.data.begin() + h * n);
                    }),
               "initial_state of head 0 for all heads");
  expect_named(bench,
               with("q",
                    [](Array& x) {
                      const auto d = static_cast<std::size_t>(x.shape[2]);
                      const Array given = x;
                      for (std::size_t i = 0; i < x.data.size(); ++i) {
                        const std::size_t c = i % d;
                        x.data[i] = given.data[i - c + (c < d / 2 ? 2 * c : 2 * (c - d / 2) + 1)];
                      }
                    }),
               "channels of q in another order: pairs (2i, 2i + 1) in halves");
}

TEST(CausesInPlaces, name_a_gate_where_it_does_not_belong) {
  const Bench& bench = bench_for("mdn");
  expect_named(bench, bench.call().with([](Problem& p) {
    Array& eta = p.inputs.at("eta");
    for (std::size_t i = 0; i < eta.data.size(); ++i) eta.data[i] *= std::exp(p.inputs.at("log_mu").data[i]);
  }),
               "eta multiplied by exp(log_mu)");
  expect_named(bench, bench.call().with([](Problem& p) { p.inputs.at("p") = p.inputs.at("k"); }),
               "k read in the place of p");
}

}  // namespace
}  // namespace assay
