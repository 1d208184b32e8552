// Mistakes of attention by tiles and about the probe's mean are named, forwards and backwards. The wrong answers are
// written out here, query by query, with nothing of what names them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/core/room.hpp"
#include "proptests/oracles/bench.hpp"

namespace assay {
namespace {

constexpr int tile = 16;
constexpr const char* softmax = "softmax_attention";

std::size_t at(int j) { return static_cast<std::size_t>(j); }

/// One query: weights e^(s - largest) of the keys up to its own, their sum, and the largest score up to each.
struct Query {
  const Problem& problem;
  int h, t, shared;  ///< the head of its keys
  std::vector<double> weight = {}, largest = {};
  double norm = 0;
};
Query query_of(const Problem& p, int h, int t) {
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k");
  Query query{p, h, t, h / (q.shape[0] / k.shape[0])};
  for (int j = 0; j <= t; ++j) {
    query.weight.push_back(dot(q, h, t, k, query.shared, j) / param_of(p, "bandwidth"));
    query.largest.push_back(std::max(j == 0 ? query.weight[0] : query.largest.back(), query.weight.back()));
  }
  for (double& w : query.weight) query.norm += w = std::exp(w - query.largest.back());
  return query;
}
double weight_of(const Query& query, int j) { return query.weight[at(j)]; }
double share_of(const Query& query, int j) { return query.weight[at(j)] / query.norm; }
/// The weight by the largest score that the key's tile has seen.
double weight_of_its_tile(const Query& query, int j) {
  return query.weight[at(j)] *
         std::exp(query.largest.back() - query.largest[at(std::min(query.t, j / tile * tile + tile - 1))]);
}

/// The numbers that a kernel makes of a query and a key that it sees; the defaults are right.
struct Kernel {
  std::function<double(const Query&, int j)> weight = weight_of;    ///< of the key's value in o ...
  std::function<double(const Query&, int j)> counted = weight_of;   ///< ... and what of it is in the sum that divides
  std::function<double(const Query&, int j)> of_values = share_of;  ///< of d_o in d_v
  std::function<double(const Query&, int j, double dp, double delta)> of_scores =
      [](const Query& query, int j, double dp, double delta) { return share_of(query, j) * (dp - delta); };
};

void attend(const Problem& p, const Kernel& kernel, Answer& answer) {
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k"), &v = p.inputs.at("v"), &d_o = p.cotangents.at("o");
  Array o(d_o.shape), d_q(q.shape), d_k(k.shape), d_v(v.shape);
  for (int h = 0; h < q.shape[0]; ++h)
    for (int t = 0; t < q.shape[1]; ++t) {
      const Query query = query_of(p, h, t);
      double sum = 0, delta = 0;
      for (int j = 0; j <= t; ++j)
        sum += kernel.counted(query, j), delta += share_of(query, j) * dot(d_o, h, t, v, query.shared, j);
      for (int j = 0; j <= t; ++j) {
        const double w = kernel.weight(query, j) / sum, of_value = kernel.of_values(query, j),
                     ds = kernel.of_scores(query, j, dot(d_o, h, t, v, query.shared, j), delta) /
                          param_of(p, "bandwidth");
        for (int c = 0; c < v.shape[2]; ++c) {
          number_at(o, h, t, c) += w * number_at(v, query.shared, j, c);
          number_at(d_v, query.shared, j, c) += of_value * number_at(d_o, h, t, c);
        }
        for (int c = 0; c < q.shape[2]; ++c) {
          number_at(d_q, h, t, c) += ds * number_at(k, query.shared, j, c);
          number_at(d_k, query.shared, j, c) += ds * number_at(q, h, t, c);
        }
      }
    }
  answer.outputs.at("o") = o;
  answer.gradients.at("q") = d_q, answer.gradients.at("k") = d_k, answer.gradients.at("v") = d_v;
}

/// The usual case of a room; "square" is softmax attention with as many dimensions of values as of keys.
const Bench& bench_of_case(std::string_view name) {
  if (name != "square") return bench_for(name);
  static const Bench bench = [] {
    const Bench& usual = bench_for(softmax);
    CaseSpec spec = usual.spec;
    spec.shape.key_dim = spec.shape.value_dim = 16;
    return bench_of(usual.room, usual.form, spec);
  }();
  return bench;
}

/// The healthy answer with one tensor ("o", "d_q") of another kernel's.
Told told_of_one(const Bench& bench, const Kernel& kernel, const std::string& tensor) {
  Answer answer = bench.call().healthy(), wrong = answer;
  attend(bench.problem, kernel, wrong);
  if (tensor == "o")
    answer.outputs.at("o") = wrong.outputs.at("o");
  else
    answer.gradients.at(tensor.substr(2)) = wrong.gradients.at(tensor.substr(2));
  return told_of(bench, answer);
}

double last_tile_alone(const Query& query, int j, double dp, double delta) {
  return j < query.t / tile * tile ? 0 : share_of(query, j) * (dp - delta);
}
double first_tile_twice(const Query& query, int j, double dp, double delta) {
  return (j < tile ? 2 : 1) * share_of(query, j) * (dp - delta);
}
double without_delta(const Query& query, int j, double dp, double) { return share_of(query, j) * dp; }
double two_keys_and_later_tiles(const Query& query, int j) { return j >= tile || j < 2 ? weight_of(query, j) : 0; }
double without_the_probes_mean(const Query& query, int j) {
  const Arrays& inputs = query.problem.inputs;
  return weight_of(query, j) * (1 - dot(inputs.at("rho"), query.h, query.t, inputs.at("k"), query.shared, j));
}

struct AttentionCase {
  const char *name, *tensor;
  Kernel kernel;
  const char* named;
};
const AttentionCase attention_cases[] = {
    {softmax, "o", {.weight = weight_of_its_tile}, "not rescaled when the maximum grows (tiles of 16)"},
    {softmax,
     "o",
     {.counted = weight_of_its_tile},
     "sum of earlier tiles not rescaled when the maximum grows (tiles of 16)"},
    {"square", "o", {.counted = two_keys_and_later_tiles}, "every row the right one times a number of its own"},
    {softmax, "d_v", {.of_values = weight_of}, "d_v of weights that were not divided by their sum"},
    {softmax, "d_q", {.of_scores = last_tile_alone}, "d_q of the last tile of keys alone"},
    {softmax, "d_q", {.of_scores = first_tile_twice}, "what the first tile of keys owes d_q added twice (tiles of 16)"},
    {"square", "d_q", {.of_scores = without_delta}, "missing from the scores' gradient in d_q"},
    {"square", "d_k", {.of_scores = without_delta}, "missing from the scores' gradient in d_k"},
    {"parallax", "o", {.weight = without_the_probes_mean}, "the mean of the probe's scores missing"},
    {"parallax", "d_v", {}, "d_v of the softmax weights"},
};

TEST(CausesInAttention, name_mistakes_of_tiles_and_probes) {
  for (const AttentionCase& c : attention_cases) {
    SCOPED_TRACE(text(c.name, ' ', c.tensor));
    expect_said(told_of_one(bench_of_case(c.name), c.kernel, c.tensor).text(), c.named);
  }
}

TEST(CausesInAttention, know_the_right_kernel) {
  for (const char* name : {softmax, "square"})
    for (const char* tensor : {"o", "d_q", "d_k", "d_v"}) {
      const Told told = told_of_one(bench_of_case(name), {}, tensor);
      EXPECT_FALSE(told.fails) << name << ' ' << tensor << ": " << told.text();
    }
}

TEST(CausesInAttention, name_another_number_in_each_row) {
  const Bench& bench = bench_for(softmax);
  Answer answer = bench.call().healthy(), wrong = answer;
  const auto of_thirds = [](const Query& query, int j, double dp, double delta) {
    return share_of(query, j) * (dp - (query.t % 3) * delta);
  };
  attend(bench.problem, {.of_scores = of_thirds}, wrong);
  answer.gradients.at("q") = wrong.gradients.at("q"), answer.gradients.at("k") = wrong.gradients.at("k");
  expect_named(bench, answer, "d_q and d_k: looks like another number for D = <d_o, o> in each row");
}

/// Neither explains o by itself, and a form by tiles asks no room: it must be the room.
TEST(CausesInAttention, name_a_slip_of_tiles_beside_another_convention) {
  const Bench& bench = bench_for(softmax);
  Answer answer = bench.call().healthy();
  const Arrays& inputs = bench.problem.inputs;
  const Array &q = inputs.at("q"), &k = inputs.at("k"), &v = inputs.at("v");
  Array o(answer.outputs.at("o").shape);
  for (int h = 0; h < q.shape[0]; ++h)
    for (int t = 0; t < q.shape[1]; ++t) {
      const int shared = h / (q.shape[0] / k.shape[0]);
      const auto weight = [&](int j) { return j > t ? 1 : std::exp(dot(q, h, t, k, shared, j)); };
      double sum = 0;
      for (int j = 0; j < k.shape[1]; ++j) sum += weight(j);
      for (int j = 0; j < k.shape[1]; ++j)
        for (int c = 0; c < v.shape[2]; ++c) number_at(o, h, t, c) += weight(j) / sum * number_at(v, shared, j, c);
    }
  answer.outputs.at("o") = o;
  expect_named(bench, answer, ", and masked scores counted as 0");
}

/// The same cause would explain d_k, too, and d_k is right.
TEST(CausesInAttention, do_not_name_what_other_tensors_contradict) {
  const auto off_the_diagonal = [](const Query& query, int j) {
    return query.t / tile == j / tile ? 0 : share_of(query, j);
  };
  const std::string said = told_of_one(bench_for(softmax), {.of_values = off_the_diagonal}, "d_v").text();
  EXPECT_EQ(said.find("looks like d_k and d_v"), std::string::npos) << said;
}

}  // namespace
}  // namespace assay
