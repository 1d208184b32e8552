#include "proptests/core/mutants.hpp"
#include "proptests/laws/delta_laws.hpp"
#include "proptests/laws/falcon_laws.hpp"
#include "proptests/laws/laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(falcon3a)

namespace assay::laws {
namespace {

/// Section 5: windows of one pair, without decay, are FALCON-2A without a ridge.
ASSAY_PROPERTY(falcon3a_chunkwise, one_pair_without_decay_is_falcon2a) {
  const Subject s = subject(kernel_rooms(), "falcon3a", "chunkwise"),
                single = subject(kernel_rooms(), "falcon2a", "chunkwise");
  LawCase c = *law_cases(s.room, s.form);
  c.spec.params = {{"window", 1L}};
  Problem p = s.problem(c);
  p.params.erase("decay_floor");
  for (double& x : p.inputs.at("alpha").data) x = 0;
  Problem one = p;
  one.mechanism = "falcon2a";
  one.params.erase("window");
  one.inputs["lambda"] = one.inputs.at("alpha");
  one.inputs.erase("alpha");
  for (const char* name : {"final_tail_k", "final_tail_v"}) one.cotangents.erase(name);
  Arrays allowed = allowance(s, p, Format::fp64, c.tile);
  for (const char* name : {"d_alpha", "final_tail_k", "final_tail_v"}) allowed.erase(name);
  expect_within(flat(s.run(p, Format::exact, c.tile)), flat(single.run(one, Format::exact, c.tile)), allowed, 2);
}

}  // namespace
}  // namespace assay::laws

namespace assay::laws {
namespace {

/// O = (Q X^T o M) V + diag(prod gamma) Q S_0 and S_T = X^T diag(last row of M) V + prod gamma S_0, with
/// M = D Diag(rho) A,  D_ts = prod of gamma over (s, t],  A_sj = 1 / B_s for the pairs of row s (3.7).
std::string is_masked_attention(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  return outputs_are(room, p, [&](int head) {
    const FalconHead h = falcon_head(p, head);
    const ExactMatrix beta = head_of(p.inputs.at("beta"), heads_of(p), head),
                      alpha = head_of(p.inputs.at("alpha"), heads_of(p), head);
    const int T = h.q.size(0), n = h.x.size(0), K = h.x.size(1), V = h.v.size(1);
    ExactMatrix M(T, n), all(T, 1);  // all: the product of the gammas so far
    std::vector<Mp100> rho, gamma;
    for (int t = 0; t < T; ++t) {
      const FalconHead::Row& row = h.rows[static_cast<std::size_t>(t)];
      const Mp100 D = window_energy(h, row) + parameter(p, "eps");
      const bool steps = row.size() > 0 && D != 0;
      rho.push_back(steps ? Mp100(beta(t, 0) / D) : Mp100(0));
      gamma.push_back(steps ? Mp100(1 - alpha(t, 0)) : Mp100(1));
    }
    for (int t = 0; t < T; ++t) {
      Mp100 D = 1;
      for (int s = t; s >= 0; --s) {
        const FalconHead::Row& row = h.rows[static_cast<std::size_t>(s)];
        for (int j = row.first; j < row.last; ++j) M(t, j) += D * rho[static_cast<std::size_t>(s)] / row.size();
        D *= gamma[static_cast<std::size_t>(s)];
      }
      all(t, 0) = D;
    }
    ExactMatrix o(T, V), state(K, V);
    for (int c = 0; c < V; ++c) {
      for (int t = 0; t < T; ++t) {
        o(t, c) = all(t, 0) * row_times(h.q, t, h.state, c);
        for (int j = 0; j < n; ++j) o(t, c) += row_dot(h.q, t, h.x, j) * M(t, j) * h.v(j, c);
      }
      for (int i = 0; i < K; ++i) {
        state(i, c) = all(T - 1, 0) * h.state(i, c);
        for (int j = 0; j < n; ++j) state(i, c) += h.x(j, i) * M(T - 1, j) * h.v(j, c);
      }
    }
    return std::vector<std::pair<std::string, ExactMatrix>>{{"o", o}, {"final_state", state}};
  });
}

/// The law changes the last token's inputs; it would take an alpha of 0 out of its domain.
std::string the_future_is_unseen_by_open_gates(const Room& room, const Problem& problem) {
  Problem p = problem;
  for (double& x : p.inputs.at("alpha").data) x = x == 0 ? 0x1p-4 : x;
  return the_future_is_unseen(room, p);
}

std::string a_constant_stream_needs_one_pair(const Room& room, const Problem& problem) {
  return a_constant_stream_needs_no_window(room, problem, "falcon3a");
}

/// Keys are basis vectors and values 1, so that row j - 2 of the state is the weight of the pair of token j = 2..T:
/// beta = 1, eps = 0 make rho = 1.
std::vector<double> final_weights(int T, int B, const char* alpha) {
  Json record = Json::parse(R"({"id": "a", "mechanism": "falcon3a", "params": {}, "inputs": {}, "cotangents": {}})");
  record["params"]["window"] = B;
  Json& in = record["inputs"];
  for (int t = 0; t < T; ++t) {
    Json key = Json::array();
    for (int i = 0; i < T; ++i) key.push_back(i == t ? "1" : "0");
    in["q"].push_back(key), in["k"].push_back(key), in["v"].push_back(Json::array({"1"}));
    in["beta"].push_back("1"), in["alpha"].push_back(alpha);
  }
  return doubles(bad_inputs::result_of(record).answer.outputs, "final_state");
}

TEST(falcon3a_reference, early_pairs_weigh_more) {
  // alpha = 0, all steps of token j done: 1 if j > B, else H_B - H_{j-2} + (j - 2) / B (section 5).
  constexpr int T = 11, B = 4;
  const auto H = [](int n) {
    double sum = 0;
    for (int i = 1; i <= n; ++i) sum += 1.0 / i;
    return sum;
  };
  const std::vector<double> weights = final_weights(T, B, "0");
  for (int j = 2; j + B - 1 <= T; ++j)
    EXPECT_DOUBLE_EQ(weights[static_cast<std::size_t>(j) - 2], j > B ? 1 : H(B) - H(j - 2) + (j - 2) / double{B}) << j;
}

TEST(falcon3a_reference, the_stationary_mask) {
  // Constant gates, j >= B + 1: (rho / B) sum of gamma^u over u = max(0, T - j - B + 1) .. T - j (section 5).
  constexpr int T = 11, B = 4;
  const std::vector<double> weights = final_weights(T, B, "0.25");
  for (int j = B + 1; j <= T; ++j) {
    double sum = 0;
    for (int u = std::max(0, T - j - B + 1); u <= T - j; ++u) {
      double power = 1;
      for (int i = 0; i < u; ++i) power *= 0.75;
      sum += power / B;
    }
    EXPECT_DOUBLE_EQ(weights[static_cast<std::size_t>(j) - 2], sum) << j;
  }
}

TEST(falcon3a_refusals, domains) {
  const Room& room = listed_room("falcon3a");
  expect_window_refusals(room);
  const char* fraction = "alpha[1]: expected a number in [0, 1)";
  expect_refusals(
      windowed_case(room),
      {{"/inputs/beta/1", "0", Status::domain, 1, "beta[1]: expected a number > 0"},
       {"/inputs/alpha/1", "-0.5", Status::domain, 1, fraction},
       {"/inputs/alpha/1", "1", Status::domain, 1, fraction},
       {"/params/decay_floor", "0.75", Status::domain, 1, "alpha[1]: expected at most 1 - decay_floor"},
       {"/params/decay_floor", "0", Status::domain, -1,
        "decay_floor: expected a number between 0 and 1, both excluded"},
       {"/params/eps", "-1", Status::domain, -1, "eps: expected a number >= 0"},
       {"/params/ridge_coupling", "live", Status::domain, -1, "params.ridge_coupling: unknown to falcon3a"}});
  Json legal = windowed_case(room);
  legal["inputs"]["beta"][1] = "5";
  legal["inputs"]["alpha"][1] = "0";
  legal["params"]["decay_floor"] = "0.25";  // alpha[2] = 3/4 is the most it allows
  EXPECT_EQ(bad_inputs::result_of(legal).message, "");
}

TEST(falcon3a_reference, short_segments) { expect_short_segments(listed_room("falcon3a")); }

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(falcon3a, the_future_is_unseen_by_open_gates)
ASSAY_REFERENCE_OBEYS(falcon3a, is_masked_attention)
ASSAY_REFERENCE_OBEYS(falcon3a, tail_is_the_newest_pairs)
ASSAY_REFERENCE_OBEYS(falcon3a, a_constant_stream_needs_one_pair)
ASSAY_REFERENCE_OBEYS(falcon3a, features_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(falcon3a, keys_may_be_rotated)
ASSAY_REFERENCE_OBEYS(falcon3a, value_columns_are_independent)
ASSAY_DEGENERATE_ROWS_OBEY(falcon3a, is_masked_attention, backward_is_the_adjoint, linear_in_values,
                           segments_concatenate)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(falcon3a, backward_is_the_adjoint, is_masked_attention)
