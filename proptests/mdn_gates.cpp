#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/exact_problem.hpp"
#include "proptests/laws/reference_laws.hpp"

namespace assay::laws {
namespace {

/// Number h of a scalar per head.
Mp100 scalar(const ExactProblem& p, const char* name, std::size_t h) {
  const ExactArray& a = p.inputs.at(name);
  return a.data[a.shape.empty() ? 0 : h];
}

/// The gates by the functions of their definition: tanh, arctan, sine and cosine.
ExactArrays defined_gates(const ExactProblem& p) {
  ExactArrays gates;
  const ExactArray& a = p.inputs.at("a");
  for (const char* name : {"log_alpha", "log_mu", "beta", "eta"}) gates[name] = a;
  const auto T = static_cast<std::size_t>(a.shape[1]);
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    const auto of = [&](const char* name) { return scalar(p, name, i / T); };
    const auto at = [&](const char* name) { return p.inputs.at(name).data[i]; };
    const auto softplus = [](const Mp100& x) { return Mp100(log1p(exp(x))); };
    const Mp100 eta = 1 + tanh(Mp100(at("e") / parameter(p, "tau")));
    const Mp100 theta = atan(Mp100(eta * exp(of("log_factor"))));
    const Mp100 sine = sin(theta), cosine = cos(theta);
    const Mp100 log_mu = -exp(of("mu_log")) * softplus(at("m") + of("mu_bias"));
    gates["eta"].data[i] = eta;
    gates["beta"].data[i] = sine * sine / (1 + exp(-at("b")));
    gates["log_alpha"].data[i] = log(Mp100(cosine * cosine)) - exp(of("a_log")) * softplus(at("a") + of("dt_bias"));
    gates["log_mu"].data[i] = p.params.contains("min_log_mu") ? std::max(log_mu, parameter(p, "min_log_mu")) : log_mu;
  }
  return gates;
}

std::string are_the_defined_gates(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  return same(answer(room, p).outputs, defined_gates(p), {"log_alpha", "log_mu", "beta", "eta"});
}

/// 0 < eta < 2, alpha <= cos^2 theta, beta <= sin^2 theta, so alpha + beta < 1; log mu keeps its floor.
std::string decay_and_step_leave_room(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  const ExactArrays gates = answer(room, p).outputs;
  for (std::size_t i = 0; i < gates.at("eta").data.size(); ++i) {
    const Mp100 eta = gates.at("eta").data[i], beta = gates.at("beta").data[i];
    const Mp100 alpha = exp(gates.at("log_alpha").data[i]), log_mu = gates.at("log_mu").data[i];
    if (!(eta > 0 && eta < 2)) return text("eta, element ", i);
    if (!(beta > 0 && alpha > 0 && alpha + beta < 1)) return text("alpha + beta, element ", i);
    if (!(log_mu < 0 && (!p.params.contains("min_log_mu") || log_mu >= parameter(p, "min_log_mu"))))
      return text("log_mu, element ", i);
  }
  return "";
}

/// ddt_bias = sum da and dmu_bias = sum dm: the biases are added to the projections (2.8).
std::string biases_collect_their_projections(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  const ExactArrays d = answer(room, p).gradients;
  for (const auto& [bias, projection] : {std::pair{"dt_bias", "a"}, {"mu_bias", "m"}}) {
    const ExactArray& from = d.at(projection);
    ExactArray total(d.at(bias).shape);
    for (std::size_t i = 0; i < from.data.size(); ++i)
      total.data[i / static_cast<std::size_t>(from.shape[1])] += from.data[i];
    if (std::string s = same(bias, d.at(bias), total); !s.empty()) return s;
  }
  return "";
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(mdn_gates, are_the_defined_gates)
ASSAY_REFERENCE_OBEYS(mdn_gates, decay_and_step_leave_room)
ASSAY_REFERENCE_OBEYS(mdn_gates, biases_collect_their_projections)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(mdn_gates, are_the_defined_gates, backward_is_the_adjoint)

namespace assay {
namespace {

TEST(mdn_gates_bad_inputs, numbers_must_be_finite) {
  EXPECT_EQ(bad_inputs::numbers_must_be_finite(listed_room("mdn_gates")), "");
}
TEST(mdn_gates_bad_inputs, shapes_must_fit) { EXPECT_EQ(bad_inputs::shapes_must_fit(listed_room("mdn_gates")), ""); }

TEST(mdn_gates_bad_inputs, temperature_and_floor) {
  const Json good = bad_inputs::good_case(listed_room("mdn_gates"));
  for (const char* tau : {"0", "-1"})
    EXPECT_EQ(bad_inputs::refusal(bad_inputs::changed(good, "/params/tau", tau), Status::domain, -1,
                                  "tau: expected a number > 0"),
              "");
  EXPECT_EQ(
      bad_inputs::refusal(bad_inputs::changed(good, "/params/tau", nullptr), Status::domain, -1, "params.tau: missing"),
      "");
  EXPECT_EQ(bad_inputs::refusal(bad_inputs::changed(good, "/params/min_log_mu", "0.5"), Status::domain, -1,
                                "min_log_mu: a log decay must be <= 0"),
            "");
}

TEST(mdn_gates_bad_inputs, no_tokens_no_gates) {
  const CaseResult r = bad_inputs::result_of(bad_inputs::good_case(listed_room("mdn_gates"), {.T = 0}));
  EXPECT_EQ(r.status, Status::ok) << r.message;
  EXPECT_TRUE(r.answer.outputs.at("beta").data.empty());
}

TEST(mdn_gates_bad_inputs, overflow_is_named) {
  const Json record = bad_inputs::changed(bad_inputs::good_case(listed_room("mdn_gates")), "/inputs/a_log", "1000");
  const CaseResult in_double = bad_inputs::result_of(record, {.digits = 10, .tier = Tier::fp64});
  EXPECT_EQ(in_double.status, Status::nonfinite);
  EXPECT_EQ(in_double.row, 0);
  EXPECT_EQ(in_double.message, "log_alpha[0] is beyond double: exp");
  EXPECT_EQ(bad_inputs::result_of(record).status, Status::ok);
}

/// Far out, where log(1 + tiny), 1 + tanh(-large) and log cos^2 of a small angle would lose every digit, double keeps
/// its own (6.6): each gate is under 16 operations of at most 2 u each, and no argument of an exp exceeds 2^8, which
/// turns the error of one operation into 2^8 u at most.
TEST(mdn_gates_reference, ends_keep_their_digits) {
  Json record = bad_inputs::good_case(listed_room("mdn_gates"), {.T = 4});
  record.erase("cotangents");
  for (const char* name : {"a", "b", "m"}) record["inputs"][name] = Json::parse(R"(["-100", "-40", "60", "0.125"])");
  record["inputs"]["e"] = Json::parse(R"(["-30", "-10", "30", "0.125"])");
  record["inputs"]["log_factor"] = "-30";
  const CaseResult in_double = bad_inputs::result_of(record, {.digits = 17, .tier = Tier::fp64}),
                   exact = bad_inputs::result_of(record);
  ASSERT_EQ(exact.status, Status::ok) << exact.message;
  for (const auto& [name, want] : exact.answer.outputs)
    for (std::size_t i = 0; i < want.data.size(); ++i) {
      const Mp50 truth(want.data[i].text), got(in_double.answer.outputs.at(name).data[i].text);
      EXPECT_LE(abs(got - truth), abs(truth) * ldexp(Mp50(1), -53) * (16 * 2 + 256)) << name << '[' << i << ']';
    }
}

TEST(mdn_gates_bad_inputs, kinds_of_inputs) {
  EXPECT_EQ(bad_inputs::kinds_of_inputs(listed_room("mdn_gates")), "log gates:; optional:; shared:");
}

}  // namespace
}  // namespace assay
