// Mistakes inside algorithms by blocks are named: what is read from a chunk's state, what the chunk adds, tiles of
// keys. The wrong answers are written out here, token by token, with nothing of what names them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <limits>

#include "oracles/core/room.hpp"
#include "proptests/oracles/bench.hpp"

namespace assay {
namespace {

constexpr int chunk = 16;

/// What is wrong about a chunkwise scalar-gated linear attention.
struct Wrong {
  double within = 1, read = 1;  ///< factors of the two parts of o, in scales
  bool read_decays = true, stale = false, carried = true, carried_decays = true;
};

double number(const Problem& problem, const char* name) {
  return std::stod(std::get<std::string>(problem.params.at(name)));
}

/// o and final_state of mamba2: S_t = e^g S_{t-1} + k v^T, o = scale S^T q.
void answer_wrongly(const Problem& p, const Wrong& w, Arrays& outputs) {
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k"), &v = p.inputs.at("v"), &g = p.inputs.at("log_decay");
  const int H = v.shape[0], T = v.shape[1], K = q.shape[2], V = v.shape[2], group = H / q.shape[0];
  const double scale = number(p, "scale");
  for (int h = 0; h < H; ++h) {
    const auto state_at = [&](const Array& a) { return a.data.begin() + h * K * V; };
    std::vector<double> start(state_at(p.inputs.at("initial_state")), state_at(p.inputs.at("initial_state")) + K * V);
    std::vector<double> before = start, added(start.size(), 0.0);
    for (int t = 0, first = 0; t < T; ++t) {
      double since = 0;
      for (int i = first; i <= t; ++i) since += g.data[static_cast<std::size_t>(h * T + i)];
      const double decay = std::exp(g.data[static_cast<std::size_t>(h * T + t)]);
      const int row = (h / group * T + t) * K;
      for (int c = 0; c < V; ++c) {
        double within = 0, read = 0;
        for (int i = 0; i < K; ++i) {
          double& x = added[static_cast<std::size_t>(i * V + c)];
          x = decay * x +
              k.data[static_cast<std::size_t>(row + i)] * v.data[static_cast<std::size_t>((h * T + t) * V + c)];
          within += q.data[static_cast<std::size_t>(row + i)] * x;
          read += q.data[static_cast<std::size_t>(row + i)] *
                  (w.stale ? before : start)[static_cast<std::size_t>(i * V + c)];
        }
        read *= w.read_decays ? std::exp(since) : 1;
        outputs.at("o").data[static_cast<std::size_t>((h * T + t) * V + c)] =
            scale * (w.within * within + w.read * read);
      }
      if (t + 1 < T && (t + 1) % chunk != 0) continue;
      before = start, first = t + 1;
      for (std::size_t i = 0; i < start.size(); ++i)
        start[i] = added[i] + (w.carried ? (w.carried_decays ? std::exp(since) : 1) * start[i] : 0);
      if (t + 1 < T && !w.carried) std::fill(start.begin(), start.end(), 0.0);
      std::fill(added.begin(), added.end(), 0.0);
    }
    std::copy(start.begin(), start.end(), outputs.at("final_state").data.begin() + h * K * V);
  }
}

std::string said_of(const Bench& bench, const Answer& answer) { return told_of(bench, answer).text(); }

TEST(CausesInBlocks, name_mistakes_in_chunks) {
  const Bench& bench = bench_for("mamba2");
  const double scale = number(bench.problem, "scale");
  struct Case {
    Wrong wrong;
    const char* named;
  };
  const auto with = [](const std::function<void(Wrong&)>& change) {
    Wrong w;
    change(w);
    return w;
  };
  const Case cases[] = {
      {with([&](Wrong& w) { w.within = scale; }), "same chunk add to o multiplied by the scale twice (chunks of 16)"},
      {with([&](Wrong& w) { w.within = 1 / scale; }), "same chunk add to o without its scale (chunks of 16)"},
      {with([&](Wrong& w) { w.within = 0; }), "same chunk add to o missing (chunks of 16)"},
      {with([&](Wrong& w) { w.read = scale; }),
       "reads from the chunk's state multiplied by the scale twice (chunks of 16)"},
      {with([&](Wrong& w) { w.read = 0; }), "reads from the chunk's state missing (chunks of 16)"},
      {with([&](Wrong& w) { w.read_decays = false; }), "reads from the chunk's state not decayed (chunks of 16)"},
      {with([&](Wrong& w) { w.stale = true; }), "the state of the chunk before its own (chunks of 16)"},
      {with([&](Wrong& w) { w.carried_decays = false; }), "not decayed from chunk to chunk (chunks of 16)"},
      {with([&](Wrong& w) { w.carried = false; }), "not carried from chunk to chunk (chunks of 16)"},
  };
  Answer healthy = bench.call().healthy();
  answer_wrongly(bench.problem, {}, healthy.outputs);
  ASSERT_FALSE(told_of(bench, healthy).fails) << said_of(bench, healthy);
  for (const Case& c : cases) {
    Answer answer = bench.call().healthy();
    answer_wrongly(bench.problem, c.wrong, answer.outputs);
    EXPECT_NE(said_of(bench, answer).find(c.named), std::string::npos)
        << c.named << "; said: " << said_of(bench, answer);
  }
}

// ---- the delta rule in chunks: U = (I + A)^-1 (beta (V - K S)), with the matrices written out ----

/// One matrix of the chunk form made otherwise; empty: what it is. i and j are tokens of a chunk, `g` the decay between
/// them.
struct WrongDelta {
  std::function<double(double beta, double decay)> A = [](double beta, double decay) { return beta * decay; };
  std::function<double(double beta, double decay)> read = A;  ///< K S in the error, decayed since the chunk's start
  std::function<double(double decay)> scores = [](double decay) { return decay; };
  std::function<double(double decay)> tail = scores;  ///< to the chunk's end
  bool inverts = true, stale = false, adds = true, first_gate = true, last_write = true, first_write = true;
  bool anew = true;                                  ///< sums of log decays, in each chunk
  double half_keys = 1;                              ///< the share of the key dimensions that get the chunk's writes
  std::function<double(double decay)> end = scores;  ///< of the state, to the next chunk
};

/// o and final_state of gated_deltanet.
void answer_wrongly(const Problem& p, const WrongDelta& w, Arrays& outputs) {
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k"), &v = p.inputs.at("v"), &g = p.inputs.at("log_decay"),
              &b = p.inputs.at("beta");
  const int H = v.shape[0], T = v.shape[1], K = q.shape[2], V = v.shape[2];
  const auto at = [](const Array& a, int h, int t, int c) {
    return a.data[static_cast<std::size_t>((h * a.shape[1] + t) * (a.shape.size() > 2 ? a.shape[2] : 1) + c)];
  };
  for (int h = 0; h < H; ++h) {
    const auto of = [&](const Array& a, int t) {
      return [&a, &at, head = h / (H / a.shape[0]), t](int c) { return at(a, head, t, c); };
    };
    const auto product = [&](const Array& x, int i, const Array& y, int j) {
      double sum = 0;
      for (int c = 0; c < K; ++c) sum += of(x, i)(c) * of(y, j)(c);
      return sum;
    };
    std::vector<double> S(static_cast<std::size_t>(K * V));
    for (int i = 0; i < K * V; ++i)
      S[static_cast<std::size_t>(i)] = p.inputs.at("initial_state").data[static_cast<std::size_t>(h * K * V + i)];
    std::vector<double> before = S;
    double begin = 0;  // of the sums of log decays
    for (int first = 0; first < T; first += chunk) {
      const int n = std::min(chunk, T - first);
      std::vector<double> sums;  // of log decays since the chunk's start
      for (int i = 0; i < n; ++i)
        sums.push_back((i > 0 ? sums.back() : begin) + (i > 0 || w.first_gate ? of(g, first + i)(0) : 0));
      begin = w.anew ? 0 : sums.back();
      const auto decay = [&](int i, int j) {
        return std::exp(sums[static_cast<std::size_t>(i)] - sums[static_cast<std::size_t>(j)]);
      };
      const auto since = [&](int i) { return std::exp(sums[static_cast<std::size_t>(i)]); };
      const std::vector<double>& read = w.stale ? before : S;
      const auto from_state = [&](const Array& x, int i, int c) {
        double sum = 0;
        for (int a = 0; a < K; ++a) sum += of(x, first + i)(a) * read[static_cast<std::size_t>(a * V + c)];
        return sum;
      };
      std::vector<std::vector<double>> U, alone;
      for (int i = 0; i < n; ++i) {
        const double beta = of(b, first + i)(0);
        std::vector<double> row;
        for (int c = 0; c < V; ++c)
          row.push_back(beta * of(v, first + i)(c) - w.read(beta, since(i)) * from_state(k, i, c));
        alone.push_back(row);
        for (int j = 0; j < i; ++j)
          for (int c = 0; c < V; ++c)
            row[static_cast<std::size_t>(c)] -=
                w.A(beta, decay(i, j)) * product(k, first + i, k, first + j) *
                (w.inverts ? U : alone)[static_cast<std::size_t>(j)][static_cast<std::size_t>(c)];
        U.push_back(row);
      }
      for (int i = 0; i < n; ++i)
        for (int c = 0; c < V; ++c) {
          double sum = since(i) * from_state(q, i, c);
          for (int j = 0; j <= i && (i > 0 || w.first_write); ++j)
            sum += w.scores(decay(i, j)) * product(q, first + i, k, first + j) *
                   U[static_cast<std::size_t>(j)][static_cast<std::size_t>(c)];
          outputs.at("o").data[static_cast<std::size_t>((h * T + first + i) * V + c)] = number(p, "scale") * sum;
        }
      before = S;
      for (int a = 0; a < K; ++a)
        for (int c = 0; c < V; ++c) {
          double& x = S[static_cast<std::size_t>(a * V + c)];
          x *= w.adds ? w.end(since(n - 1)) : 0;
          for (int j = 0; j < n - (w.last_write ? 0 : 1) && a < w.half_keys * K; ++j)
            x += w.tail(decay(n - 1, j)) * of(k, first + j)(a) *
                 U[static_cast<std::size_t>(j)][static_cast<std::size_t>(c)];
        }
    }
    std::copy(S.begin(), S.end(), outputs.at("final_state").data.begin() + h * K * V);
  }
}

TEST(CausesInBlocks, name_mistakes_in_chunks_of_the_delta_rule) {
  const Bench& bench = bench_for("gated_deltanet");
  const std::pair<std::function<void(WrongDelta&)>, const char*> cases[] = {
      {[](auto& w) { w.A = [](double beta, double) { return beta; }; }, "the products of keys (A) not decayed"},
      {[](auto& w) { w.A = [](double, double decay) { return decay; }; }, "the products of keys (A) without beta"},
      {[](auto& w) { w.A = [](double beta, double decay) { return -beta * decay; }; }, "(A) with the wrong sign"},
      {[](auto& w) { w.A = [](double, double) { return 0.0; }; }, "(A) missing"},
      {[](auto& w) { w.inverts = false; }, "I - A for the inverse of I + A"},
      {[](auto& w) { w.read = [](double beta, double) { return beta; }; },
       "what the error reads from the chunk's state not decayed"},
      {[](auto& w) { w.read = [](double, double decay) { return decay; }; },
       "what the error reads from the chunk's state without beta"},
      {[](auto& w) { w.read = [](double, double) { return 0.0; }; },
       "what the error reads from the chunk's state missing"},
      {[](auto& w) { w.scores = [](double) { return 1.0; }; }, "what tokens of the same chunk add to o not decayed"},
      {[](auto& w) { w.tail = [](double) { return 1.0; }; }, "writes not decayed to its end"},
      {[](auto& w) { w.stale = true; }, "error and o reading the state of the chunk before"},
      {[](auto& w) { w.adds = false; }, "the state overwritten by each chunk's writes"},
      {[](auto& w) { w.first_gate = false; }, "the decay of each chunk's first token lost"},
      {[](auto& w) { w.last_write = false; }, "the last write of each chunk missing from the state"},
      {[](auto& w) { w.first_write = false; }, "the first row of each chunk without its own write"},
      {[](auto& w) { w.A = [](double beta, double decay) { return beta * beta * decay; }; }, "(A) with beta twice"},
      {[](auto& w) { w.anew = false; }, "sums of log decays not begun anew in each chunk"},
      {[](auto& w) { w.end = [](double decay) { return std::exp2(std::log(decay)); }; },
       "the state decayed by 2^g, not e^g"},
      {[](auto& w) { w.half_keys = 0.5; }, "the second half of the key dimensions of the state without the chunk's"},
  };
  Answer healthy = bench.call().healthy();
  answer_wrongly(bench.problem, WrongDelta(), healthy.outputs);
  ASSERT_FALSE(told_of(bench, healthy).fails) << said_of(bench, healthy);
  for (const auto& [change, named] : cases) {
    WrongDelta wrong;
    change(wrong);
    Answer answer = bench.call().healthy();
    answer_wrongly(bench.problem, wrong, answer.outputs);
    const std::string said = said_of(bench, answer);
    EXPECT_NE(said.find(named), std::string::npos) << named << "; said: " << said;
    EXPECT_NE(said.find("(chunks of 16)"), std::string::npos) << named << "; said: " << said;
  }
}

TEST(CausesInBlocks, name_what_lies_in_the_place_of_others) {
  const Bench& bench = bench_for("gated_deltanet");
  const std::pair<std::function<void(Array&)>, const char*> cases[] = {
      {[](Array& o) {
         const int T = o.shape[1], V = o.shape[2];
         for (int h = 0; h < o.shape[0]; ++h)
           std::swap_ranges(o.data.begin() + (h * T + 4) * V, o.data.begin() + (h * T + 5) * V,
                            o.data.begin() + (h * T + 5) * V);
       },
       "rows permuted (rows 5, 4 in places 4, 5)"},
      {[](Array& o) {
         for (std::size_t i = 3; i < o.data.size(); i += static_cast<std::size_t>(o.shape[2]))
           o.data[i] = o.data[i - 1];
       },
       "columns taken from others (columns 2 in places 3)"},
      {[](Array& o) {
         for (std::size_t i = 3; i < o.data.size(); i += static_cast<std::size_t>(o.shape[2])) o.data[i] = 0;
       },
       "numbers zero: nothing was written there"},
  };
  for (const auto& [change, named] : cases) {
    Answer answer = bench.call().healthy();
    change(answer.outputs.at("o"));
    EXPECT_NE(said_of(bench, answer).find(named), std::string::npos) << named << "; said: " << said_of(bench, answer);
  }
}

TEST(CausesInBlocks, name_a_gradient_without_one_of_its_parts) {
  const Bench& bench = bench_for("mamba2");
  // d_q of a token is S^T d_o: of the chunk's own writes alone, it is that of chunks that start from nothing.
  const Problem& p = bench.problem;
  const Array &k = p.inputs.at("k"), &v = p.inputs.at("v"), &g = p.inputs.at("log_decay"), &d = p.cotangents.at("o");
  const int H = v.shape[0], T = v.shape[1], K = k.shape[2], V = v.shape[2], group = H / k.shape[0];
  Answer answer = bench.call().healthy();
  Array& dq = answer.gradients.at("q");
  std::fill(dq.data.begin(), dq.data.end(), 0.0);
  for (int h = 0; h < H; ++h)
    for (int t = 0; t < T; ++t) {
      double decay = 1;
      for (int j = t; j >= t / chunk * chunk; --j) {
        double written = 0;
        for (int c = 0; c < V; ++c)
          written += v.data[static_cast<std::size_t>((h * T + j) * V + c)] *
                     d.data[static_cast<std::size_t>((h * T + t) * V + c)];
        for (int i = 0; i < K; ++i)
          dq.data[static_cast<std::size_t>((h / group * T + t) * K + i)] +=
              number(p, "scale") * decay * written * k.data[static_cast<std::size_t>((h / group * T + j) * K + i)];
        decay *= std::exp(g.data[static_cast<std::size_t>(h * T + j)]);
      }
    }
  EXPECT_NE(said_of(bench, answer).find("what the chunk's state owes d_q missing (chunks of 16)"), std::string::npos)
      << said_of(bench, answer);
}

TEST(CausesInBlocks, name_what_a_sum_over_a_chunk_lacks) {
  const Bench& bench = bench_for("mamba2");
  Answer answer = bench.call().healthy();
  Array& dg = answer.gradients.at("log_decay");
  const int T = dg.shape[1];
  for (std::size_t i = 0; i < dg.data.size(); ++i)
    dg.data[i] += static_cast<double>(i / static_cast<std::size_t>(T) + 1 + i % static_cast<std::size_t>(T) / chunk);
  EXPECT_NE(said_of(bench, answer).find("off by one number in each chunk of 16 tokens"), std::string::npos)
      << said_of(bench, answer);
}

// ---- attention ----

struct Scores {
  std::vector<double> weight;   ///< e^(s - largest), of the keys that a query sees
  std::vector<double> largest;  ///< of the keys up to each
};

Scores scores_of(const Problem& p, int h, int t) {
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k");
  const int H = q.shape[0], T = q.shape[1], d = q.shape[2], group = H / k.shape[0];
  Scores s;
  std::vector<double> raw;
  double most = -std::numeric_limits<double>::infinity();
  for (int j = 0; j <= t; ++j) {
    double sum = 0;
    for (int i = 0; i < d; ++i)
      sum += q.data[static_cast<std::size_t>((h * T + t) * d + i)] *
             k.data[static_cast<std::size_t>((h / group * T + j) * d + i)];
    raw.push_back(sum / number(p, "bandwidth")), most = std::max(most, raw.back()), s.largest.push_back(most);
  }
  for (const double x : raw) s.weight.push_back(std::exp(x - most));
  return s;
}

/// o of softmax attention with weight j of query t multiplied by f(scores, j), and divided by sums of g(j) of them.
void attend(const Problem& p, Array& o, const std::function<double(const Scores&, int)>& f,
            const std::function<double(int)>& counted) {
  const Array& v = p.inputs.at("v");
  const int H = o.shape[0], T = o.shape[1], V = o.shape[2], group = H / v.shape[0];
  for (int h = 0; h < H; ++h)
    for (int t = 0; t < T; ++t) {
      const Scores s = scores_of(p, h, t);
      double norm = 0;
      std::vector<double> row(static_cast<std::size_t>(V), 0.0);
      for (int j = 0; j <= t; ++j) {
        norm += s.weight[static_cast<std::size_t>(j)] * counted(j);
        for (int c = 0; c < V; ++c)
          row[static_cast<std::size_t>(c)] += s.weight[static_cast<std::size_t>(j)] * f(s, j) *
                                              v.data[static_cast<std::size_t>((h / group * T + j) * V + c)];
      }
      for (int c = 0; c < V; ++c)
        o.data[static_cast<std::size_t>((h * T + t) * V + c)] = row[static_cast<std::size_t>(c)] / norm;
    }
}

TEST(CausesInBlocks, name_mistakes_in_tiles) {
  const Bench& bench = bench_for("softmax_attention");
  const auto one = [](int) { return 1.0; };
  Answer answer = bench.call().healthy();
  attend(
      bench.problem, answer.outputs.at("o"), [](const Scores&, int) { return 1.0; }, one);
  ASSERT_FALSE(told_of(bench, answer).fails) << said_of(bench, answer);
  const auto of_its_tile = [](const Scores& s, int j) {
    const auto last =
        std::min<std::size_t>(s.largest.size() - 1, static_cast<std::size_t>(j / chunk * chunk + chunk - 1));
    return std::exp(s.largest.back() - s.largest[last]);
  };
  attend(bench.problem, answer.outputs.at("o"), of_its_tile, one);
  EXPECT_NE(said_of(bench, answer).find("not rescaled when the maximum grows (tiles of 16 keys)"), std::string::npos)
      << said_of(bench, answer);
}

TEST(CausesInBlocks, name_rows_with_a_wrong_normaliser) {
  Bench bench = bench_for("softmax_attention");
  CaseSpec spec = bench.spec;
  spec.shape.key_dim = spec.shape.value_dim = 16;
  const Bench wide = bench_of(bench.room, bench.form, spec);
  Answer answer = wide.call().healthy();
  attend(
      wide.problem, answer.outputs.at("o"), [](const Scores&, int) { return 1.0; },
      [](int j) { return j >= chunk || j < 2 ? 1.0 : 0.0; });
  EXPECT_NE(said_of(wide, answer).find("every row the right one times a number of its own"), std::string::npos)
      << said_of(wide, answer);
}

TEST(CausesInBlocks, name_a_missing_delta) {
  const Bench& bench = bench_for("softmax_attention");
  CaseSpec spec = bench.spec;
  spec.shape.key_dim = spec.shape.value_dim = 16;
  const Bench square = bench_of(bench.room, bench.form, spec);
  const Problem& p = square.problem;
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k"), &v = p.inputs.at("v"), &d_o = p.cotangents.at("o");
  const int H = q.shape[0], T = q.shape[1], d = q.shape[2], group = H / k.shape[0];
  for (const char* tensor : {"q", "k"}) {
    Answer answer = square.call().healthy();
    Array& got = answer.gradients.at(tensor);
    std::fill(got.data.begin(), got.data.end(), 0.0);
    for (int h = 0; h < H; ++h)
      for (int t = 0; t < T; ++t) {
        const Scores s = scores_of(p, h, t);
        double norm = 0;
        for (const double w : s.weight) norm += w;
        for (int j = 0; j <= t; ++j) {
          double dp = 0;
          for (int c = 0; c < d; ++c)
            dp += d_o.data[static_cast<std::size_t>((h * T + t) * d + c)] *
                  v.data[static_cast<std::size_t>((h / group * T + j) * d + c)];
          const double ds = s.weight[static_cast<std::size_t>(j)] / norm * dp / number(p, "bandwidth");
          for (int i = 0; i < d; ++i) {
            const auto query = static_cast<std::size_t>((h * T + t) * d + i),
                       key = static_cast<std::size_t>((h / group * T + j) * d + i);
            *tensor == 'q' ? got.data[query] += ds * k.data[key] : got.data[key] += ds * q.data[query];
          }
        }
      }
    EXPECT_NE(said_of(square, answer).find("missing from the scores' gradient in d_" + std::string(tensor)),
              std::string::npos)
        << said_of(square, answer);
  }
}

}  // namespace
}  // namespace assay
