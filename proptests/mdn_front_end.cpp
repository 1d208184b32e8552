#include "proptests/core/bad_inputs.hpp"
#include "proptests/laws/delta_laws.hpp"

namespace assay::laws {
namespace {

Mp100 eps_of(const ExactProblem& p) { return p.params.contains("l2_eps") ? parameter(p, "l2_eps") : Mp100("1e-6"); }

/// x / sqrt(|x|^2 + eps) by rows of [H][T][K].
ExactArray unit_rows(const ExactArray& x, const Mp100& eps) {
  return scaled_rows(x, mapped(row_products(x, x), [&](const Mp100& square) {
                       return square + eps == 0 ? Mp100(0) : Mp100(1 / sqrt(Mp100(square + eps)));
                     }));
}

/// q - exp(log_d) k, by head.
ExactArray corrected_queries(const ExactProblem& p) {
  ExactArray q = p.inputs.at("q");
  const auto d = p.inputs.find("log_d");
  if (d == p.inputs.end()) return q;
  const std::size_t size = q.data.size() / d->second.data.size();
  for (std::size_t i = 0; i < q.data.size(); ++i) q.data[i] -= exp(d->second.data[i / size]) * p.inputs.at("k").data[i];
  return q;
}

/// The core's problem on queries, keys and prediction keys prepared by the caller, one key head per value head.
ExactProblem core_of(const ExactProblem& p) {
  ExactProblem core = p;
  core.mechanism = "mdn";
  core.params.erase("l2_eps");
  core.inputs.erase("log_d");
  core.inputs.at("q") = unit_rows(corrected_queries(p), eps_of(p));
  core.inputs.at("k") = unit_rows(p.inputs.at("k"), eps_of(p));
  core.inputs["p"] =
      scaled_rows(core.inputs.at("k"), mapped(p.inputs.at("log_alpha"), [](const Mp100& g) { return Mp100(exp(g)); }));
  return core;
}

std::string is_the_core_on_prepared_keys(const Room& room, const Problem& problem) {
  const ExactProblem p = ungrouped(exact(problem));
  const ExactAnswer got = answer(room, p), core = answer("mdn", core_of(p));
  if (std::string s = same(got.outputs, core.outputs, {"o", "final_state", "final_momentum"}); !s.empty()) return s;
  return same(got.gradients, core.gradients, {"v", "log_mu", "beta", "eta", "initial_state", "initial_momentum"});
}

/// As above without log_d.
std::string is_the_core_without_correction(const Room& room, const Problem& problem) {
  Problem plain = problem;
  plain.inputs.erase("log_d");
  if (std::string s = is_the_core_on_prepared_keys(room, plain); !s.empty()) return s;
  return backward_is_the_adjoint(room, plain);
}

/// Without eps, twice the query and key are the same direction: the same outputs, half the gradients.
std::string lengths_do_not_matter_without_eps(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  p.params["l2_eps"] = "0";
  ExactProblem twice = p;
  ExactAnswer want = answer(room, p);
  for (const char* name : {"q", "k"}) {
    twice.inputs.at(name) = mapped(p.inputs.at(name), [](const Mp100& x) { return Mp100(2 * x); });
    want.gradients.at(name) = mapped(want.gradients.at(name), [](const Mp100& x) { return Mp100(x / 2); });
  }
  return same(answer(room, twice), want);
}

/// dlog_d = -exp(log_d) sum_t <dq_t, k_t> (2.3).
std::string correction_gradient_is_the_query_s(const Room& room, const Problem& problem) {
  const ExactProblem p = ungrouped(exact(problem));
  const ExactAnswer got = answer(room, p);
  const ExactArray inner = row_products(p.inputs.at("k"), got.gradients.at("q"));
  ExactArray want = p.inputs.at("log_d");
  const std::size_t size = inner.data.size() / want.data.size();
  for (std::size_t h = 0; h < want.data.size(); ++h) {
    ExactBalance balance;
    balance.add(1, got.gradients.at("log_d").data[h]);
    for (std::size_t t = 0; t < size; ++t) balance.add(1, exp(p.inputs.at("log_d").data[h]) * inner.data[h * size + t]);
    if (std::string s = balance.violation("dlog_d of head ", h); !s.empty()) return s;
  }
  return "";
}

/// A zero key is normalized to zero. Its gradient is the core's, p's share through alpha included, over the root of
/// eps, a thousandfold at 1e-6; zero if eps is zero (section 7).
std::string zero_keys_have_a_gradient(const Room& room, const Problem& problem) {
  ExactProblem p = ungrouped(exact(problem));
  p.inputs.erase("log_d");
  const Mp100 eps = eps_of(p);
  for (Mp100& x : p.inputs.at("k").data) x = 0;
  const ExactProblem core = core_of(p);
  const ExactAnswer got = answer(room, p), inner = answer("mdn", core);
  const ExactArray alpha = mapped(p.inputs.at("log_alpha"), [](const Mp100& g) { return Mp100(exp(g)); });
  const ExactArray dk = sum(inner.gradients.at("k"), scaled_rows(inner.gradients.at("p"), alpha));
  return same("k", got.gradients.at("k"),
              mapped(dk, [&](const Mp100& x) { return eps == 0 ? Mp100(0) : Mp100(x / sqrt(eps)); }));
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(mdn_front_end, closed_gates_have_gradient_zero)
ASSAY_REFERENCE_OBEYS(mdn_front_end, keys_may_be_rotated)
ASSAY_REFERENCE_OBEYS(mdn_front_end, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(mdn_front_end, is_the_core_on_prepared_keys)
ASSAY_REFERENCE_OBEYS(mdn_front_end, is_the_core_without_correction)
ASSAY_REFERENCE_OBEYS(mdn_front_end, lengths_do_not_matter_without_eps)
ASSAY_REFERENCE_OBEYS(mdn_front_end, correction_gradient_is_the_query_s)
ASSAY_REFERENCE_OBEYS(mdn_front_end, zero_keys_have_a_gradient)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(mdn_front_end, is_the_core_on_prepared_keys, backward_is_the_adjoint)
ASSAY_REFUSES_BAD_INPUTS(mdn_front_end)

namespace assay {
namespace {

TEST(mdn_front_end_bad_inputs, eps_and_correction) {
  const Json good = bad_inputs::good_case(listed_room("mdn_front_end"));
  EXPECT_EQ(bad_inputs::refusal(bad_inputs::changed(good, "/params/l2_eps", "-1e-6"), Status::domain, -1,
                                "l2_eps: expected a number >= 0"),
            "");
  EXPECT_EQ(bad_inputs::refusal(bad_inputs::changed(good, "/inputs/log_d", "-inf"), Status::nonfinite, -1,
                                "log_d: not a finite number"),
            "");
  const CaseResult default_eps = bad_inputs::result_of(good),
                   stated = bad_inputs::result_of(bad_inputs::changed(good, "/params/l2_eps", "0.000001"));
  EXPECT_EQ(default_eps.answer.outputs, stated.answer.outputs);
}

TEST(mdn_front_end_bad_inputs, kinds_of_inputs) {
  EXPECT_EQ(bad_inputs::kinds_of_inputs(listed_room("mdn_front_end")),
            "log gates: log_alpha log_mu; optional: initial_state initial_momentum log_d; shared: q k");
}

TEST(mdn_front_end_bad_inputs, any_strength_is_legal) {
  EXPECT_EQ(bad_inputs::any_strength_is_legal(listed_room("mdn_front_end")), "");
}

}  // namespace
}  // namespace assay
