// Mistakes inside algorithms by chunks are named: what is read from a chunk's state, what the chunk adds, and what
// their backward passes owe. The wrong answers are written out here, token by token, with nothing of what names them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "judge/hypotheses/scene.hpp"
#include "oracles/core/room.hpp"
#include "proptests/core/share.hpp"
#include "proptests/oracles/bench.hpp"

namespace assay {
namespace {

constexpr int chunk = 16;

/// A factor c beta^b decay^d. Decays are between tokens of a chunk, or since its start.
struct Factor {
  double c = 1, b = 0, d = 1;
  double operator()(double beta, double decay) const { return c * std::pow(beta, b) * std::pow(decay, d); }
  double operator()(double decay) const { return c * std::pow(decay, d); }
};
constexpr Factor none{0}, undecayed{1, 0, 0};

/// U = (I + A)^-1 (beta (V - K S)), with the matrices written out, of which a case makes one otherwise.
struct WrongChunks {
  Factor A = {1, 1};
  Factor read = {1, 1};                      ///< K S in the error
  Factor scores = {}, from = {}, tail = {};  ///< in o of the chunk's tokens, and of its state; to the chunk's end
  Factor end = {};                           ///< of the state, to the next chunk
  bool inverts = true, stale = false, adds = true, carried = true, first_gate = true, last_write = true;
  bool first_write = true, anew = true;  ///< anew: sums of log decays, in each chunk
  bool joined = true;                    ///< whether A has products between the halves of a chunk
  bool tail_reads = true;                ///< whether the error of the last, partial chunk reads its state
  int first_kept = 0;                    ///< the first token whose write joins the state
  double half_keys = 1;                  ///< the share of the key dimensions that get writes
  int size = chunk;
};

/// o and final_state of gated_deltanet, and of mamba2, whose beta is 1.
Answer answer_by(const Bench& bench, WrongChunks w) {
  const Problem& p = bench.problem;
  const int size = w.size;
  if (!p.inputs.contains("beta")) w.A = w.read = none;  // nothing is predicted
  Answer answer = bench.call().healthy();
  Arrays& outputs = answer.outputs;
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k"), &v = p.inputs.at("v"), &g = p.inputs.at("log_decay");
  const int H = v.shape[0], T = v.shape[1], K = q.shape[2], V = v.shape[2], group = H / q.shape[0];
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  for (int h = 0; h < H; ++h) {
    Array S({1, K, V});
    for (int a = 0; a < K; ++a)
      for (int c = 0; c < V; ++c) number_at(S, 0, a, c) = number_at(p.inputs.at("initial_state"), h, a, c);
    Array before = S;
    double begin = 0;  // of the sums of log decays
    for (int first = 0; first < T; first += size) {
      const int n = std::min(size, T - first);
      const auto beta = [&](int i) {
        return p.inputs.contains("beta") ? number_at(p.inputs.at("beta"), h, first + i) : 1;
      };
      std::vector<double> sums;  // of log decays since the chunk's start
      sums.reserve(at(n));
      for (int i = 0; i < n; ++i)
        sums.push_back((i > 0 ? sums.back() : begin) + (i > 0 || w.first_gate ? number_at(g, h, first + i) : 0));
      begin = w.anew ? 0 : sums.back();
      const auto decay = [&](int i, int j) { return std::exp(sums[at(i)] - sums[at(j)]); };
      const auto since = [&](int i) { return std::exp(sums[at(i)]); };
      const auto products = [&](const Array& x, int i, int j) {
        return dot(x, h / group, first + i, k, h / group, first + j);
      };
      const auto from_state = [&](const Array& x, int i, int c) {
        double sum = 0;
        for (int a = 0; a < K; ++a)
          sum += number_at(x, h / group, first + i, a) * number_at(w.stale ? before : S, 0, a, c);
        return sum;
      };
      Array U({1, n, V}), alone = U;
      for (int i = 0; i < n; ++i)
        for (int c = 0; c < V; ++c) {
          double& u = number_at(U, 0, i, c);
          u = beta(i) * number_at(v, h, first + i, c) -
              (n == size || w.tail_reads ? w.read(beta(i), since(i)) : 0) * from_state(k, i, c);
          number_at(alone, 0, i, c) = u;
          for (int j = w.joined || i < size / 2 ? 0 : size / 2; j < i; ++j)
            u -= w.A(beta(i), decay(i, j)) * products(k, i, j) * number_at(w.inverts ? U : alone, 0, j, c);
        }
      for (int i = 0; i < n; ++i)
        for (int c = 0; c < V; ++c) {
          double sum = w.from(since(i)) * from_state(q, i, c);
          for (int j = 0; j <= i && (i > 0 || w.first_write); ++j)
            sum += w.scores(decay(i, j)) * products(q, i, j) * number_at(U, 0, j, c);
          number_at(outputs.at("o"), h, first + i, c) = param_of(p, "scale") * sum;
        }
      before = S;
      for (int a = 0; a < K; ++a)
        for (int c = 0; c < V; ++c) {
          double& x = number_at(S, 0, a, c);
          x *= w.adds && w.carried ? w.end(since(n - 1)) : 0;
          for (int j = w.first_kept; j < n - (w.last_write ? 0 : 1) && a < w.half_keys * K; ++j)
            x += w.tail(decay(n - 1, j)) * number_at(k, h / group, first + j, a) * number_at(U, 0, j, c);
          if (!w.carried && first + size < T) x = 0;
        }
    }
    std::copy(S.data.begin(), S.data.end(), outputs.at("final_state").data.begin() + h * K * V);
  }
  return answer;
}

struct ChunkCase {
  const char* room;
  WrongChunks wrong;
  std::string named;
};
/// The scale of both is 1/4.
const ChunkCase chunk_cases[] = {
    {"mamba2", {.scores = {0.25}}, "same chunk add to o multiplied by the scale twice (chunks of 16)"},
    {"mamba2", {.scores = {4}}, "same chunk add to o without its scale (chunks of 16)"},
    {"mamba2", {.scores = none}, "same chunk add to o missing (chunks of 16)"},
    {"mamba2", {.from = {0.25}}, "reads from the chunk's state multiplied by the scale twice (chunks of 16)"},
    {"mamba2", {.from = none}, "reads from the chunk's state missing (chunks of 16)"},
    {"mamba2", {.from = undecayed}, "reads from the chunk's state not decayed (chunks of 16)"},
    {"mamba2", {.stale = true}, "the state of the chunk before its own (chunks of 16)"},
    {"mamba2", {.end = undecayed}, "the state not decayed from chunk to chunk (chunks of 16)"},
    {"mamba2", {.end = undecayed, .size = 23}, "the state not decayed from chunk to chunk (chunks of 23)"},
    {"mamba2", {.end = undecayed, .size = 30}, "the state not decayed from chunk to chunk (chunks of 30)"},
    {"mamba2", {.carried = false}, "not carried from chunk to chunk (chunks of 16)"},
    {"gated_deltanet", {.A = {1, 1, 0}}, "the products of keys (A) not decayed"},
    {"gated_deltanet", {.A = {1, 0, 1}}, "the products of keys (A) without beta"},
    {"gated_deltanet", {.A = {-1, 1, 1}}, "(A) with the wrong sign"},
    {"gated_deltanet", {.A = none}, "(A) missing"},
    {"gated_deltanet", {.inverts = false}, "I - A for the inverse of I + A"},
    {"gated_deltanet", {.read = {1, 1, 0}}, "what the error reads from the chunk's state not decayed"},
    {"gated_deltanet", {.read = {1, 0, 1}}, "what the error reads from the chunk's state without beta"},
    {"gated_deltanet", {.read = none}, "what the error reads from the chunk's state missing"},
    {"gated_deltanet", {.scores = undecayed}, "what tokens of the same chunk add to o not decayed"},
    {"gated_deltanet", {.tail = undecayed}, "writes not decayed to its end"},
    {"gated_deltanet", {.stale = true}, "error and o reading the state of the chunk before"},
    {"gated_deltanet", {.adds = false}, "the state overwritten by each chunk's writes"},
    {"gated_deltanet", {.first_gate = false}, "the decay of each chunk's first token lost"},
    {"gated_deltanet", {.last_write = false}, "the last write of each chunk missing from the state"},
    {"gated_deltanet", {.first_write = false}, "the first row of each chunk without its own write"},
    {"gated_deltanet", {.A = {1, 2, 1}}, "(A) with beta twice"},
    {"gated_deltanet", {.anew = false}, "sums of log decays not begun anew in each chunk"},
    {"gated_deltanet", {.end = {1, 0, std::numbers::ln2}}, "the state decayed by 2^g, not e^g"},
    {"gated_deltanet", {.half_keys = 0.5}, "the second half of the key dimensions of the state without the chunk's"},
    {"mamba2", {.scores = {1.5}}, "what tokens of the same chunk add to o multiplied by 1.5"},
    {"mamba2", {.first_kept = 1}, "the first write of each chunk missing from the state"},
    {"gated_deltanet", {.joined = false}, "the inverse of I + A within the halves of a chunk alone"},
};

/// One in three, or more.
TEST(CausesInBlocks, name_mistakes_in_chunks) {
  Share share(3);
  while (share.goes_on())
    for (const ChunkCase& c : chunk_cases) {
      if (!share.takes()) continue;
      const Bench& bench = bench_for(c.room);
      SCOPED_TRACE(text(c.room, ": ", c.named));
      ASSERT_EQ(param_of(bench.problem, "scale"), 0.25);
      const std::string said = told_of(bench, answer_by(bench, c.wrong)).text();
      expect_said(said, c.named);
      expect_said(said, text("(chunks of ", c.wrong.size, ")"));
    }
}

TEST(CausesInBlocks, name_what_the_last_chunk_alone_has) {
  const Bench& bench = bench_for("gated_deltanet");
  const std::string said = told_of(bench, answer_by(bench, {.tail_reads = false})).text();
  expect_said(said, "what the error reads from the chunk's state missing (chunks of ");  // those of 32 end as of 16 do
  expect_said(said, ", in the last, partial one alone)");
}

TEST(CausesInBlocks, know_the_right_kernels) {
  for (const char* room : {"mamba2", "gated_deltanet"}) {
    const Told told = told_of(bench_for(room), answer_by(bench_for(room), {}));
    EXPECT_FALSE(told.fails) << room << ": " << told.text();
  }
}

/// d_k of mamba2: D_t v_t of every head, with D_t = scale q_t d_o_t^T + e^g D_{t+1}. The next chunk's part of D is
/// multiplied by `owed` of its decay since token t.
Array keys_owed(const Problem& p, const std::function<double(double decay)>& owed) {
  const Array &q = p.inputs.at("q"), &v = p.inputs.at("v"), &g = p.inputs.at("log_decay"), &d_o = p.cotangents.at("o");
  const int T = v.shape[1], K = q.shape[2], V = v.shape[2], group = v.shape[0] / q.shape[0];
  Array d_k(p.inputs.at("k").shape);
  for (int h = 0; h < v.shape[0]; ++h) {
    Array next({1, K, V}), within({1, K, V});  // of the chunk's end, not decayed; of its own tokens
    for (int i = 0; i < K; ++i)
      for (int c = 0; c < V; ++c) number_at(next, 0, i, c) = number_at(p.cotangents.at("final_state"), h, i, c);
    double since = 1;
    for (int t = T - 1; t >= 0; --t) {
      const double decay = t + 1 < T ? std::exp(number_at(g, h, t + 1)) : 1;
      if ((t + 1) % chunk == 0 && t + 1 < T) {
        for (std::size_t i = 0; i < next.data.size(); ++i)
          next.data[i] = decay * (within.data[i] + since * next.data[i]), within.data[i] = 0;
        since = 1;
      } else {
        for (double& x : within.data) x *= decay;
        since *= decay;
      }
      for (int i = 0; i < K; ++i)
        for (int c = 0; c < V; ++c) {
          double& x = number_at(within, 0, i, c);
          x += param_of(p, "scale") * number_at(q, h / group, t, i) * number_at(d_o, h, t, c);
          number_at(d_k, h / group, t, i) += (x + owed(since) * number_at(next, 0, i, c)) * number_at(v, h, t, c);
        }
    }
  }
  return d_k;
}

TEST(CausesInChunkGradients, name_what_the_next_state_owes_keys_undecayed) {
  const Bench& bench = bench_for("mamba2");
  Answer answer = bench.call().healthy();
  answer.gradients.at("k") = keys_owed(bench.problem, [](double decay) { return decay; });
  ASSERT_FALSE(told_of(bench, answer).fails) << told_of(bench, answer).text();
  answer.gradients.at("k") = keys_owed(bench.problem, [](double) { return 1.0; });
  expect_named(bench, answer, "what the next state owes d_k not decayed to the chunk's end (chunks of 16)");
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
        decay *= std::exp(number_at(g, h, t));
        double predicted = 0;
        for (int i = 0; i < K; ++i)
          for (int c = 0; c < V; ++c)
            predicted += number_at(S, h, i, c) * number_at(k, h / group, t, i) * number_at(d_v, h, t, c);
        number_at(answer.gradients.at("beta"), h, t) += decay * predicted / number_at(b, h, t);
      }
    }
  }
  expect_named(bench, answer, "d_beta of v, not of the error v - k S (chunks of 16)");
}

}  // namespace
}  // namespace assay
