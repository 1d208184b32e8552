#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/laws/delta_laws.hpp"
#include "proptests/laws/laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(retnet)

namespace assay::laws {
namespace {

/// Mamba-2 with log gamma at every token, and the sum of its gate gradients (I14).
std::string is_mamba2_at_a_constant_gate(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem), gated = p;
  const auto option = p.params.find("head");
  const long head = option == p.params.end() ? 0 : std::get<long>(option->second);
  const Mp100 log_gamma = log(Mp100(1) - ldexp(Mp100(1), static_cast<int>(-5 - head)));
  gated.params.erase("head");
  const ExactArray& v = p.inputs.at("v");
  ExactArray& g = gated.inputs["log_decay"] = ExactArray({v.shape[0], v.shape[1]});
  for (Mp100& x : g.data) x = log_gamma;
  ExactAnswer want = answer("mamba2", gated);
  ExactArray total({v.shape[0]});
  for (std::size_t i = 0; i < g.data.size(); ++i)
    total.data[i / static_cast<std::size_t>(v.shape[1])] += want.gradients.at("log_decay").data[i];
  want.gradients.at("log_decay") = total;
  return same(answer(room, p), want);
}

/// dlog gamma = sum_t dg_t with dg_t = <S_T, dS_T> + sum_{r >= t} q_r dq_r - k_r dk_r (delta-family.md 3.2).
std::string decay_gradient_without_the_states(const Room& room, const Problem& problem) {
  const ExactProblem p = ungrouped(exact(problem));
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p), T = p.inputs.at("v").shape[1], K = p.inputs.at("k").shape[2];
  for (int h = 0; h < H; ++h) {
    ExactBalance balance;
    balance.add(-1, got.gradients.at("log_decay").data[static_cast<std::size_t>(h)]);
    for (int i = 0; i < K; ++i)
      for (int t = 0; t < T; ++t)
        balance.add_row(1, head_of(p.cotangents.at("final_state"), H, h), head_of(got.outputs.at("final_state"), H, h),
                        i);
    for (const auto& [name, sign] : {std::pair{"q", 1}, {"k", -1}})
      for (int r = 0; r < T; ++r)
        for (int t = 0; t <= r; ++t)
          balance.add_row(sign, head_of(p.inputs.at(name), H, h), head_of(got.gradients.at(name), H, h), r);
    if (std::string s = balance.violation("dlog gamma of head ", h); !s.empty()) return s;
  }
  return "";
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(retnet, is_one_chunk)
ASSAY_REFERENCE_OBEYS(retnet, keys_may_be_rotated)
ASSAY_REFERENCE_OBEYS(retnet, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(retnet, channels_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(retnet, is_mamba2_at_a_constant_gate)
ASSAY_REFERENCE_OBEYS(retnet, decay_gradient_without_the_states)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(retnet, is_one_chunk, backward_is_the_adjoint, decay_gradient_without_the_states)
ASSAY_REFUSES_BAD_INPUTS(retnet)

namespace assay {
namespace {

TEST(retnet_bad_inputs, heads_are_counted_from_zero) {
  const Json good = bad_inputs::good_case(listed_room("retnet"));
  const auto with_head = [&](const Json& head) { return bad_inputs::changed(good, "/params/head", head); };
  EXPECT_EQ(bad_inputs::refusal(with_head(-1), Status::domain, -1, "params.head: expected 0 to 1000, got -1"), "");
  EXPECT_EQ(bad_inputs::refusal(with_head(1001), Status::domain, -1, "params.head: expected 0 to 1000, got 1001"), "");
  EXPECT_EQ(bad_inputs::refusal(with_head("1"), Status::domain, -1, "params.head: expected an integer"), "");
  EXPECT_EQ(bad_inputs::result_of(with_head(0)).answer.outputs, bad_inputs::result_of(good).answer.outputs);
}

/// A far head's gamma is 1 but for 2^-205: linear attention, but for about as much of what is read.
TEST(retnet_reference, far_heads_hardly_forget) {
  Json record = bad_inputs::changed(bad_inputs::good_case(listed_room("retnet")), "/params/head", 200);
  const auto last = [&] {
    const CaseResult r = bad_inputs::result_of(record, {.digits = 150, .tier = Tier::mp200});
    return from_decimal<Mp200>(r.answer.outputs.at("o").data.back().text);
  };
  const Mp200 slow = last();
  record["mechanism"] = "linear_attention";
  record["params"].erase("head");
  const Mp200 none = last();
  // Every number of the case is positive: each of three tokens takes at most 2^-205 of what is read.
  EXPECT_LT(slow, none);
  EXPECT_LE(none - slow, 3 * ldexp(none, -205));
  EXPECT_GE(none - slow, ldexp(none, -210));
}

TEST(retnet_bad_inputs, kinds_of_inputs) {
  EXPECT_EQ(bad_inputs::kinds_of_inputs(listed_room("retnet")), "log gates:; optional: initial_state; shared: q k");
}

}  // namespace
}  // namespace assay
