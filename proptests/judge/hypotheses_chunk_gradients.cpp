// Mistakes of backward passes by chunks are named. The wrong gradients are written out here, token by token, with
// nothing of what names them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "judge/hypotheses/scene.hpp"
#include "oracles/core/room.hpp"
#include "proptests/oracles/bench.hpp"

namespace assay {
namespace {

constexpr int chunk = 16;

std::string said_of(const Bench& bench, const Answer& answer) { return told_of(bench, answer).text(); }

double at(const Array& a, int h, int t, int c) {
  return a.data[static_cast<std::size_t>((h * a.shape[1] + t) * (a.shape.size() > 2 ? a.shape[2] : 1) + c)];
}

/// d_k of mamba2: D_t v_t of every head, with D_t = scale q_t d_o_t^T + e^g D_{t+1}. Of D, what the next chunk owes is
/// multiplied by `owed` of its decay since token t.
Array keys_owed(const Problem& p, const std::function<double(double decay)>& owed) {
  const Array &q = p.inputs.at("q"), &v = p.inputs.at("v"), &g = p.inputs.at("log_decay"), &d_o = p.cotangents.at("o"),
              &d_end = p.cotangents.at("final_state");
  const int H = v.shape[0], T = v.shape[1], K = q.shape[2], V = v.shape[2], group = H / q.shape[0];
  const double scale = std::stod(std::get<std::string>(p.params.at("scale")));
  Array d_k(p.inputs.at("k").shape);
  for (int h = 0; h < H; ++h) {
    Array next({1, K, V}), within({1, K, V});  // of the chunk's end, not decayed; of its own tokens
    for (int i = 0; i < K; ++i)
      for (int c = 0; c < V; ++c) next.data[static_cast<std::size_t>(i * V + c)] = at(d_end, h, i, c);
    double since = 1;
    for (int t = T - 1; t >= 0; --t) {
      if ((t + 1) % chunk == 0 && t + 1 < T) {
        for (std::size_t i = 0; i < next.data.size(); ++i)
          next.data[i] = std::exp(at(g, h, t + 1, 0)) * (within.data[i] + since * next.data[i]), within.data[i] = 0;
        since = 1;
      } else if (t + 1 < T) {
        for (double& x : within.data) x *= std::exp(at(g, h, t + 1, 0));
        since *= std::exp(at(g, h, t + 1, 0));
      }
      for (int i = 0; i < K; ++i)
        for (int c = 0; c < V; ++c) {
          double& x = within.data[static_cast<std::size_t>(i * V + c)];
          x += scale * at(q, h / group, t, i) * at(d_o, h, t, c);
          d_k.data[static_cast<std::size_t>((h / group * T + t) * K + i)] +=
              (x + owed(since) * next.data[static_cast<std::size_t>(i * V + c)]) * at(v, h, t, c);
        }
    }
  }
  return d_k;
}

TEST(CausesInChunkGradients, name_what_the_next_state_owes_keys_undecayed) {
  const Bench& bench = bench_for("mamba2");
  Answer answer = bench.call().healthy();
  answer.gradients.at("k") = keys_owed(bench.problem, [](double decay) { return decay; });
  ASSERT_FALSE(told_of(bench, answer).fails) << said_of(bench, answer);
  answer.gradients.at("k") = keys_owed(bench.problem, [](double) { return 1.0; });
  EXPECT_NE(said_of(bench, answer).find("what the next state owes d_k not decayed to the chunk's end (chunks of 16)"),
            std::string::npos)
      << said_of(bench, answer);
}

TEST(CausesInChunkGradients, name_gates_that_are_summed_otherwise) {
  const Bench& bench = bench_for("mamba2");
  const auto told = [&](const std::function<double(double own, double later, bool last)>& f) {
    Answer answer = bench.call().healthy();
    Array& d = answer.gradients.at("log_decay");
    const Array right = d;
    const int T = d.shape[1];
    for (int i = 0; i < static_cast<int>(d.data.size()); ++i) {
      const bool last = i % T == T - 1 || (i % T + 1) % chunk == 0;
      d.data[static_cast<std::size_t>(i)] =
          f(right.data[static_cast<std::size_t>(i)], last ? 0 : right.data[static_cast<std::size_t>(i + 1)], last);
    }
    return said_of(bench, answer);
  };
  const std::string single = told([](double own, double later, bool) { return own - later; }),
                    without = told([](double, double later, bool) { return later; });
  EXPECT_NE(single.find("not summed over later tokens of the chunk (chunks of 16)"), std::string::npos) << single;
  EXPECT_NE(without.find("later tokens without its own (chunks of 16)"), std::string::npos) << without;
}

/// d_beta is d_e.e of the error e = v - S^T k, and d_e = d_v / beta; what the state that a chunk starts with predicts
/// may be left out of it.
TEST(CausesInChunkGradients, name_beta_of_values_without_their_error) {
  const Bench& bench = bench_for("gated_deltanet");
  const Problem& p = bench.problem;
  const hypotheses::Scene scene(bench.room, p, 1);
  const Array &k = p.inputs.at("k"), &v = p.inputs.at("v"), &g = p.inputs.at("log_decay"), &b = p.inputs.at("beta");
  const int H = v.shape[0], T = v.shape[1], K = k.shape[2], V = v.shape[2], group = H / k.shape[0];
  const Array d_v = hypotheses::answer_of(bench.room, p).at("d_v");
  Answer answer = bench.call().healthy();
  for (int first = 0; first < T; first += chunk) {
    const Array S =
        first == 0 ? p.inputs.at("initial_state")
                   : hypotheses::answer_of(bench.room, hypotheses::tokens_of(scene, 0, static_cast<std::size_t>(first)))
                         .at("final_state");
    for (int h = 0; h < H; ++h) {
      double decay = 1;
      for (int t = first; t < std::min(T, first + chunk); ++t) {
        decay *= std::exp(at(g, h, t, 0));
        double predicted = 0;
        for (int i = 0; i < K; ++i)
          for (int c = 0; c < V; ++c) predicted += at(S, h, i, c) * at(k, h / group, t, i) * at(d_v, h, t, c);
        answer.gradients.at("beta").data[static_cast<std::size_t>(h * T + t)] += decay * predicted / at(b, h, t, 0);
      }
    }
  }
  EXPECT_NE(said_of(bench, answer).find("d_beta of v, not of the error v - k S (chunks of 16)"), std::string::npos)
      << said_of(bench, answer);
}

}  // namespace
}  // namespace assay
