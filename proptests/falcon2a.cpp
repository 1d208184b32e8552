#include "proptests/core/mutants.hpp"
#include "proptests/laws/delta_laws.hpp"
#include "proptests/laws/falcon_laws.hpp"
#include "proptests/laws/laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(falcon2a)

namespace assay::laws {
namespace {

/// lambda = 0 closes no decay: linear attention of values times eta, at scale 1.
ASSAY_PROPERTY(falcon2a_chunkwise, without_ridge_it_is_linear_attention) {
  const Subject s = subject(kernel_rooms(), "falcon2a", "chunkwise"),
                plain = subject(kernel_rooms(), "linear_attention", "chunkwise");
  LawCase c = *law_cases(s.room, s.form);
  c.spec.params = {{"alignment", "same_step"}};
  Problem p = s.problem(c), written = p;
  p.params["eps"] = "1";
  written.mechanism = "linear_attention";
  written.params = {{"scale", "1"}};
  for (double& x : p.inputs.at("lambda").data) x = 0;
  for (const char* name : {"beta", "lambda"}) written.inputs.erase(name);
  const Array &k = p.inputs.at("k"), &beta = p.inputs.at("beta");
  Array& v = written.inputs.at("v");
  const auto K = static_cast<std::size_t>(k.shape[2]), V = static_cast<std::size_t>(v.shape[2]),
             T = static_cast<std::size_t>(v.shape[1]), group = static_cast<std::size_t>(v.shape[0] / k.shape[0]);
  for (std::size_t i = 0; i < v.data.size(); ++i) {
    const std::size_t row = i / V, shared = row / T / group * T + row % T;
    double den = 1;
    for (std::size_t j = 0; j < K; ++j) den += k.data[shared * K + j] * k.data[shared * K + j];
    v.data[i] *= beta.data[row] / den;
  }
  const Arrays allowed = allowance(s, p, Format::fp64, c.tile);
  const Arrays got = flat(s.run(p, Format::exact, c.tile)), want = flat(plain.run(written, Format::exact, c.tile));
  // What is written was made here in doubles, with the roundings of a contract's steps: one more answer on the way.
  for (const char* name : {"o", "final_state", "d_initial_state"})
    expect_within({{name, got.at(name)}}, {{name, want.at(name)}}, {{name, allowed.at(name)}}, 3);
}

TEST(falcon2a_chunkwise, a_decay_of_zero_has_no_logarithm) {
  const Subject s = subject(kernel_rooms(), "falcon2a", "chunkwise");
  Problem p =
      s.room.make({"falcon2a", {1, 3, 1, 1, 2, 2, 0}, Format::fp64, Style::normal, 3, {{"alignment", "same_step"}}});
  p.params["eps"] = "0";
  std::fill_n(p.inputs.at("k").data.begin() + 2, 2, 0.0);
  p.inputs.at("beta").data[1] = 1;
  EXPECT_THROW(s.run(p, Format::exact, 0), InputError);
  p.cotangents.clear();
  EXPECT_NO_THROW(s.run(p, Format::exact, 0));
}

bool normalizes(const Problem& p) { return p.params.contains("normalization"); }

/// The unrolled recurrence; a normaliser is one more value channel, of ones, with z for its state (3.4).
std::string is_unrolled_with_a_channel_of_ones(const Room& room, const Problem& problem) {
  if (!normalizes(problem)) return is_unrolled(room, problem);
  const ExactProblem p = exact(problem);
  return outputs_are(room, p, [&](int head) {
    FalconHead h = falcon_head(p, head);
    const ExactMatrix z = head_of(p.inputs.at("initial_normalizer"), heads_of(p), head), S = h.state, v = h.v;
    const int T = h.q.size(0), K = S.size(0), V = S.size(1);
    h.state = ExactMatrix(K, V + 1), h.v = ExactMatrix(v.size(0), V + 1);
    for (int c = 0; c <= V; ++c) {
      for (int i = 0; i < K; ++i) h.state(i, c) = c < V ? S(i, c) : z(i, 0);
      for (int j = 0; j < v.size(0); ++j) h.v(j, c) = c < V ? v(j, c) : Mp100(1);
    }
    ExactMatrix reads(T, V + 1), states(K, V + 1), o(T, V), state(K, V), normalizer(K, 1);
    for (int c = 0; c <= V; ++c) unrolled(h, falcon_steps(p, h, head, 0), false, c, reads, states);
    for (int c = 0; c < V; ++c) {
      for (int t = 0; t < T; ++t) o(t, c) = reads(t, c) / (reads(t, V) + parameter(p, "eps_normalizer"));
      for (int i = 0; i < K; ++i) state(i, c) = states(i, c);
    }
    for (int i = 0; i < K; ++i) normalizer(i, 0) = states(i, V);
    return std::vector<std::pair<std::string, ExactMatrix>>{
        {"o", o}, {"final_state", state}, {"final_normalizer", normalizer}};
  });
}

/// Section 5: FALCON-3A with a window of one pair, its E + eps set to D, so that rho = eta, and alpha = eta ridge.
std::string is_falcon3a_of_one_pair(const Room& room, const Problem& problem) {
  if (normalizes(problem)) return "";
  const ExactProblem p = exact(problem);
  ExactProblem gated = p;
  gated.mechanism = "falcon3a";
  gated.params = {{"window", 1L}, {"eps", "0"}};
  for (const char* name : {"alignment", "sequence_start"})
    if (p.params.contains(name)) gated.params[name] = p.params.at(name);
  gated.inputs["alpha"] = p.inputs.at("lambda");
  gated.inputs.erase("lambda");
  gated.cotangents.clear();
  for (int head = 0; head < heads_of(p); ++head) {
    const FalconHead h = falcon_head(p, head);
    const std::vector<FalconStep> steps = falcon_steps(p, h, head, 0);
    ExactMatrix beta(h.q.size(0), 1), alpha = beta;
    for (int t = 0; t < beta.size(0); ++t) {
      const FalconHead::Row& row = h.rows[static_cast<std::size_t>(t)];
      const FalconStep& step = steps[static_cast<std::size_t>(t)];
      // The start row's gates are not read, but must be legal.
      beta(t, 0) = row.size() == 0 ? Mp100(1) : Mp100(step.weight * window_energy(h, row));
      alpha(t, 0) = 1 - step.gamma;
      if (alpha(t, 0) >= 1) return "";
    }
    set_head(gated.inputs.at("beta"), head, beta);
    set_head(gated.inputs.at("alpha"), head, alpha);
  }
  return same(answer(room, p).outputs, answer("falcon3a", gated).outputs, {"o", "final_state"});
}

/// <q_t, dq_t> = <o_t, do_t> without a normaliser. With one, q scales numerator and z.q alike.
std::string unnormalized_reads_are_linear(const Room& room, const Problem& problem) {
  return normalizes(problem) ? "" : reads_are_linear_in_the_query(room, problem);
}

/// With z.q alone below the line a read is an average: constant values come out of a state that holds the same
/// constant.
std::string normalized_reads_are_averages(const Room& room, const Problem& problem) {
  if (!normalizes(problem)) return "";
  ExactProblem p = exact(problem);
  p.params["eps_normalizer"] = "0";
  for (Mp100& x : p.inputs.at("v").data) x = Mp100(0.75);
  ExactArray& S = p.inputs.at("initial_state");
  const ExactArray& z = p.inputs.at("initial_normalizer");
  for (std::size_t i = 0; i < S.data.size(); ++i)
    S.data[i] = Mp100(0.75) * z.data[i / static_cast<std::size_t>(S.shape[2])];
  const ExactArray o = answer(room, p).outputs.at("o");
  return same("o of constant values", o, mapped(o, [](const Mp100&) { return Mp100(0.75); }));
}

TEST(falcon2a_refusals, domains) {
  const Room& room = listed_room("falcon2a");
  EXPECT_EQ(bad_inputs::numbers_must_be_finite(room), "");
  EXPECT_EQ(bad_inputs::shapes_must_fit(room), "");
  EXPECT_EQ(bad_inputs::empty_extents(room), "");
  EXPECT_EQ(bad_inputs::heads_must_divide(room), "");
  const Json z = Json::parse(R"(["1", "1"])");
  expect_refusals(
      bad_inputs::good_case(room),
      {{"/inputs/beta/1", "2", Status::domain, 1, "beta[1]: expected a number between 0 and 2, both excluded"},
       {"/inputs/lambda/2", "-1", Status::domain, 2, "lambda[2]: expected a number >= 0"},
       {"/params/eps", "-1", Status::domain, -1, "eps: expected a number >= 0"},
       {"/params/eps_normalizer", "-1", Status::domain, -1, "eps_normalizer: expected a number >= 0"},
       {"/params/decay_floor", "1", Status::domain, -1,
        "decay_floor: expected a number between 0 and 1, both excluded"},
       {"/params/normalization", "count", Status::domain, -1, "params.normalization: unknown value 'count'"},
       {"/inputs/initial_normalizer", z, Status::domain, -1,
        "initial_normalizer: only normalization = features takes it"}});
}

Json normalized() {
  Json record = bad_inputs::good_case(listed_room("falcon2a"));
  record["params"]["normalization"] = "features";
  record["inputs"]["initial_normalizer"] = Json::parse(R"(["1", "1"])");
  return record;
}

TEST(falcon2a_refusals, a_normalizer_must_not_vanish) {
  Json record = normalized();
  record["params"]["eps_normalizer"] = "0";
  EXPECT_EQ(bad_inputs::result_of(record).message, "");
  record["inputs"]["q"][0] = Json::parse(R"(["1", "-1"])");
  EXPECT_EQ(bad_inputs::refusal(record, Status::nonfinite, 0, "o[0][0] is undefined: div of element [0] of token 0"),
            "");
  // A read along a zero query later on.
  record = normalized();
  record["params"]["eps_normalizer"] = "0";
  record["inputs"]["q"][2] = Json::parse(R"(["0", "0"])");
  EXPECT_EQ(bad_inputs::refusal(record, Status::nonfinite, 2, "o[2][0] is undefined: div of element [0] of token 2"),
            "");
  record["inputs"]["initial_normalizer"] = Json::parse(R"(["nan", "1"])");
  EXPECT_EQ(bad_inputs::refusal(record, Status::nonfinite, -1, "initial_normalizer[0]: not a finite number"), "");
}

TEST(falcon2a_reference, a_fresh_start_reads_zero) {
  Json record = normalized();
  record["params"]["eps_normalizer"] = "0";
  record["inputs"].erase("initial_normalizer");
  // A state without a normaliser is not fresh.
  EXPECT_EQ(bad_inputs::refusal(record, Status::nonfinite, 0, "o[0][0] is undefined: div of element [0] of token 0"),
            "");
  record["inputs"].erase("initial_state");
  record["inputs"]["v"] = Json::parse(R"([["1", "1"], ["1", "1"], ["1", "1"]])");
  const CaseResult r = bad_inputs::result_of(record);
  ASSERT_EQ(r.message, "");
  const std::vector<double> o = doubles(r.answer.outputs, "o"), dq = doubles(r.answer.gradients, "q");
  EXPECT_EQ(o, (std::vector<double>{0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(std::vector(dq.begin(), dq.begin() + 2), (std::vector<double>{0, 0}));
  EXPECT_FALSE(r.answer.gradients.contains("initial_normalizer"));
  EXPECT_EQ(r.answer.outputs.at("final_normalizer").shape, std::vector{2});
}

TEST(falcon2a_reference, without_normalization_there_is_no_normalizer) {
  EXPECT_FALSE(bad_inputs::result_of(bad_inputs::good_case(listed_room("falcon2a")))
                   .answer.outputs.contains("final_normalizer"));
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(falcon2a, unnormalized_reads_are_linear)
ASSAY_REFERENCE_OBEYS(falcon2a, normalized_reads_are_averages)
ASSAY_REFERENCE_OBEYS(falcon2a, is_unrolled_with_a_channel_of_ones)
ASSAY_REFERENCE_OBEYS(falcon2a, is_falcon3a_of_one_pair)
ASSAY_REFERENCE_OBEYS(falcon2a, a_detached_ridge_is_frozen)
ASSAY_REFERENCE_OBEYS(falcon2a, features_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(falcon2a, keys_may_be_rotated)
ASSAY_REFERENCE_OBEYS(falcon2a, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(falcon2a, a_huge_ridge_only_decays)
ASSAY_DEGENERATE_ROWS_OBEY(falcon2a, is_unrolled_with_a_channel_of_ones, backward_is_the_adjoint, linear_in_values,
                           segments_concatenate)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(falcon2a, backward_is_the_adjoint, is_unrolled_with_a_channel_of_ones)
