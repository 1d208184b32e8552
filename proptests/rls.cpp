#include "proptests/core/index.hpp"
#include "proptests/laws/falcon_laws.hpp"

namespace assay::laws {
namespace {

/// A^{-1} B for a symmetric positive definite A, by elimination.
ExactMatrix solved(ExactMatrix A, ExactMatrix B) {
  const int n = A.size(0);
  for (int pivot = 0; pivot < n; ++pivot)
    for (int i = 0; i < n; ++i) {
      if (i == pivot) continue;
      const Mp100 factor = A(i, pivot) / A(pivot, pivot);
      for (int j = 0; j < n; ++j) A(i, j) -= factor * A(pivot, j);
      for (int j = 0; j < B.size(1); ++j) B(i, j) -= factor * B(pivot, j);
    }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < B.size(1); ++j) B(i, j) /= A(i, i);
  return B;
}

/// Token by token the normal equations, lambda counted once:
///   S_t = (lambda I + X^T X)^{-1} (X^T V + lambda S_0),   P_T = (lambda I + X^T X)^{-1}
std::string is_batch_ridge(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  return outputs_are(room, p, [&](int head) {
    const FalconHead h = falcon_head(p, head);
    const ExactArray& lambdas = p.inputs.at("lambda");
    const Mp100 lambda = lambdas.data[lambdas.data.size() == 1 ? 0 : static_cast<std::size_t>(head)];
    const int T = h.q.size(0), K = h.x.size(1), V = h.v.size(1);
    ExactMatrix A(K, K), B(K, V), I(K, K), o(T, V);
    for (int i = 0; i < K; ++i) {
      A(i, i) = lambda, I(i, i) = 1;
      for (int c = 0; c < V; ++c) B(i, c) = lambda * h.state(i, c);
    }
    for (int t = 0; t < T; ++t) {
      const FalconHead::Row& row = h.rows[static_cast<std::size_t>(t)];
      for (int j = row.first; j < row.last; ++j)
        for (int i = 0; i < K; ++i) {
          for (int l = 0; l < K; ++l) A(i, l) += h.x(j, i) * h.x(j, l);
          for (int c = 0; c < V; ++c) B(i, c) += h.x(j, i) * h.v(j, c);
        }
      const ExactMatrix state = solved(A, B);
      for (int c = 0; c < V; ++c) o(t, c) = row_times(h.q, t, state, c);
    }
    return std::vector<std::pair<std::string, ExactMatrix>>{
        {"o", o}, {"final_state", solved(A, B)}, {"final_covariance", solved(A, I)}};
  });
}

/// Section 5: lambda -> infinity leaves the prior mean, to first order in 1 / lambda.
std::string a_sure_prior_stays(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  if (falcon_head(p, 0).x.size(0) == 0) return "";
  const ExactArray prior = mapped(p.inputs.at("initial_state"), [](const Mp100& x) { return Mp100(-x); });
  return is_of_first_order("final_state", [&](const Mp100& small) {
    for (Mp100& x : p.inputs.at("lambda").data) x = 1 / small;
    return sum(answer(room, p).outputs.at("final_state"), prior);
  });
}

/// Section 5: lambda -> 0 with no more pairs than key channels interpolates them, to first order in lambda.
std::string no_prior_interpolates(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  const FalconHead first = falcon_head(p, 0);
  const int n = first.x.size(0), V = first.v.size(1);
  if (n == 0 || n > first.x.size(1)) return "";
  return is_of_first_order("S_T^T x - v", [&](const Mp100& small) {
    for (Mp100& x : p.inputs.at("lambda").data) x = small;
    const ExactArray state = answer(room, p).outputs.at("final_state");
    ExactArray left({n, V});
    for (int j = 0; j < n; ++j)
      for (int c = 0; c < V; ++c)
        left.data[index(left, j, c)] = row_times(first.x, j, head_of(state, heads_of(p), 0), c) - first.v(j, c);
    return left;
  });
}

TEST(rls_refusals, domains) {
  const Room& room = listed_room("rls");
  EXPECT_EQ(bad_inputs::numbers_must_be_finite(room), "");
  EXPECT_EQ(bad_inputs::shapes_must_fit(room), "");
  EXPECT_EQ(bad_inputs::empty_extents(room), "");
  EXPECT_EQ(bad_inputs::heads_must_divide(room), "");
  const Json k = Json::parse(R"(["1", "2"])");
  expect_refusals(bad_inputs::good_case(room),
                  {{"/inputs/lambda", "0", Status::domain, -1, "lambda: expected a number > 0"},
                   {"/inputs/lambda", "-1", Status::domain, -1, "lambda: expected a number > 0"},
                   {"/inputs/lambda", k, Status::domain, -1, "lambda: expected 0 axes, got shape [2]"},
                   {"/params/eps", "0", Status::domain, -1, "params.eps: unknown to rls"},
                   {"/inputs/k_carry", k, Status::domain, -1,
                    "k_carry: only a next_latent continuation (sequence_start false) takes it"}});
}

TEST(rls_reference, a_zero_feature_changes_nothing) {
  Json record = bad_inputs::good_case(listed_room("rls"), {.T = 1});
  record["params"]["alignment"] = "same_step";
  record["inputs"]["k"] = Json::parse(R"([["0", "0"]])");
  const CaseResult r = bad_inputs::result_of(record);
  ASSERT_EQ(r.message, "");
  EXPECT_EQ(doubles(r.answer.outputs, "final_state"), (std::vector{0.25, 0.5, 0.75, 0.25}));
  EXPECT_EQ(doubles(r.answer.outputs, "final_covariance"), (std::vector<double>{4, 0, 0, 4}));
  EXPECT_EQ(doubles(r.answer.gradients, "v"), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(rls, is_batch_ridge)
ASSAY_REFERENCE_OBEYS(rls, features_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(rls, a_sure_prior_stays)
ASSAY_REFERENCE_OBEYS(rls, no_prior_interpolates)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(rls, backward_is_the_adjoint, is_batch_ridge)
