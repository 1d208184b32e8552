#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/laws/delta_laws.hpp"
#include "proptests/laws/laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(linear_attention)

namespace assay::laws {
namespace {

std::string normalization_of(const ExactProblem& p) {
  const auto it = p.params.find("normalization");
  return it == p.params.end() ? "none" : std::get<std::string>(it->second);
}

/// Masked attention: token j <= t weighs scale q_t.k_j, divided by nothing, by t, or by what it and z_0 add up to.
std::string is_masked_attention(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  const std::string normalization = normalization_of(p);
  const ExactAnswer got = answer(room, p);
  ExactArray o = got.outputs.at("o");
  const int H = heads_of(p), T = o.shape[1], V = o.shape[2], K = p.inputs.at("k").shape[2];
  const Mp100 scale = parameter(p, "scale"), eps = parameter(p, "eps");
  for (int h = 0; h < H; ++h) {
    const auto input = [&](const char* name) { return head_of(p.inputs.at(name), H, h); };
    const ExactMatrix q = input("q"), k = input("k"), v = input("v"), state = input("initial_state");
    const ExactMatrix z = normalization == "features" ? input("initial_normalizer") : ExactMatrix(K, 1);
    ExactMatrix want(T, V);
    for (int t = 0; t < T; ++t) {
      Mp100 mass = eps;
      for (int i = 0; i < K; ++i) {
        mass += scale * q(t, i) * z(i, 0);
        for (int x = 0; x < V; ++x) want(t, x) += scale * q(t, i) * state(i, x);
      }
      for (int j = 0; j <= t; ++j) {
        Mp100 weight = 0;
        for (int i = 0; i < K; ++i) weight += scale * q(t, i) * k(j, i);
        mass += weight;
        for (int x = 0; x < V; ++x) want(t, x) += weight * v(j, x);
      }
      const Mp100 n = normalization == "none" ? Mp100(1) : normalization == "count" ? Mp100(t + 1) : mass;
      for (int x = 0; x < V; ++x) want(t, x) /= n;
    }
    set_head(o, h, want);
  }
  return same("o", got.outputs.at("o"), o);
}

/// Final states are sums over all tokens, in any order: here from the last to the first.
std::string states_are_sums(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p);
  ExactArray state = p.inputs.at("initial_state");
  for (int h = 0; h < H; ++h) {
    const ExactMatrix k = head_of(p.inputs.at("k"), H, h), v = head_of(p.inputs.at("v"), H, h);
    ExactMatrix sum = head_of(state, H, h);
    for (int t = k.size(0); t-- > 0;)
      for (int i = 0; i < k.size(1); ++i)
        for (int x = 0; x < v.size(1); ++x) sum(i, x) += k(t, i) * v(t, x);
    set_head(state, h, sum);
  }
  if (std::string s = same("final_state", got.outputs.at("final_state"), state); !s.empty()) return s;
  const bool features = normalization_of(p) == "features";
  if (got.outputs.contains("final_normalizer") != features) return "final_normalizer: only features have one";
  if (!features) return "";
  ExactArray z = p.inputs.at("initial_normalizer");
  for (int h = 0; h < H; ++h) {
    const ExactMatrix k = head_of(p.inputs.at("k"), H, h);
    ExactMatrix sum = head_of(z, H, h);
    for (int t = k.size(0); t-- > 0;)
      for (int i = 0; i < k.size(1); ++i) sum(i, 0) += k(t, i);
    set_head(z, h, sum);
  }
  return same("final_normalizer", got.outputs.at("final_normalizer"), z);
}

/// The count of a second segment starts over.
std::string segments_concatenate_unless_counted(const Room& room, const Problem& problem) {
  return normalization_of(exact(problem)) == "count" ? "" : segments_concatenate(room, problem);
}

/// A denominator that sees the query makes the read nonlinear; without eps it is blind to the query's length, and to
/// scale.
std::string reads_are_linear_or_scale_free(const Room& room, const Problem& problem) {
  if (normalization_of(exact(problem)) != "features") return reads_are_linear_in_the_query(room, problem);
  ExactProblem p = exact(problem);
  p.params["eps"] = "0";
  const ExactAnswer got = answer(room, p);
  const ExactArray inner = row_products(p.inputs.at("q"), got.gradients.at("q"));
  const ExactArray size = row_products(mapped(p.inputs.at("q"), [](const Mp100& x) { return Mp100(abs(x)); }),
                                       mapped(got.gradients.at("q"), [](const Mp100& x) { return Mp100(abs(x)); }));
  for (std::size_t i = 0; i < inner.data.size(); ++i)
    if (!(abs(inner.data[i]) <= Mp100("1e-80") * size.data[i])) return text("<q, dq> of row ", i, " is not zero");
  p.params["scale"] = "0.375";
  return same(answer(room, p), got);
}

/// With non-negative features, no eps and nothing carried in, every output lies in the range of the values so far.
std::string outputs_are_means_of_values(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  if (normalization_of(p) != "features") return "";
  p.params["eps"] = "0";
  for (const char* name : {"q", "k"})
    p.inputs.at(name) = mapped(p.inputs.at(name), [](const Mp100& x) { return Mp100(abs(x)); });
  for (const char* name : {"initial_state", "initial_normalizer"})
    for (Mp100& x : p.inputs.at(name).data) x = 0;
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p);
  for (int h = 0; h < H; ++h) {
    const ExactMatrix v = head_of(p.inputs.at("v"), H, h), o = head_of(got.outputs.at("o"), H, h);
    for (int x = 0; x < v.size(1); ++x) {
      Mp100 low = v(0, x), high = low, size = abs(low);
      for (int t = 0; t < v.size(0); ++t) {
        low = std::min(low, v(t, x)), high = std::max(high, v(t, x)), size = std::max(size, Mp100(abs(v(t, x))));
        const Mp100 slack = size * Mp100("1e-80");
        if (!(o(t, x) >= low - slack && o(t, x) <= high + slack)) return text("o[", t, "][", x, "] of head ", h);
      }
    }
  }
  return "";
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(linear_attention, reads_are_linear_or_scale_free)
ASSAY_REFERENCE_OBEYS(linear_attention, segments_concatenate_unless_counted)
ASSAY_REFERENCE_OBEYS(linear_attention, is_masked_attention)
ASSAY_REFERENCE_OBEYS(linear_attention, states_are_sums)
ASSAY_REFERENCE_OBEYS(linear_attention, keys_may_be_rotated)
ASSAY_REFERENCE_OBEYS(linear_attention, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(linear_attention, channels_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(linear_attention, outputs_are_means_of_values)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(linear_attention, is_masked_attention, backward_is_the_adjoint)
ASSAY_REFUSES_BAD_INPUTS(linear_attention)

namespace assay {
namespace {

Json features_case() {
  Json record =
      bad_inputs::changed(bad_inputs::good_case(listed_room("linear_attention")), "/params/normalization", "features");
  record["params"]["eps"] = "0";
  return record;
}

TEST(linear_attention_bad_inputs, options_and_normalizers) {
  const Json good = bad_inputs::good_case(listed_room("linear_attention"));
  EXPECT_EQ(bad_inputs::refusal(bad_inputs::changed(good, "/params/normalization", "mean"), Status::domain, -1,
                                "params.normalization: unknown value 'mean'"),
            "");
  EXPECT_EQ(bad_inputs::refusal(bad_inputs::changed(good, "/params/eps", "-1e-30"), Status::domain, -1,
                                "eps: expected a number >= 0"),
            "");
  const Json z = Json::array({"1", "2"});
  EXPECT_EQ(bad_inputs::refusal(bad_inputs::changed(good, "/inputs/initial_normalizer", z), Status::domain, -1,
                                "initial_normalizer: only normalization = features takes it"),
            "");
  EXPECT_EQ(bad_inputs::result_of(bad_inputs::changed(features_case(), "/inputs/initial_normalizer", z)).status,
            Status::ok);
  EXPECT_EQ(
      bad_inputs::refusal(bad_inputs::changed(features_case(), "/inputs/initial_normalizer", Json::array({"1", "nan"})),
                          Status::nonfinite, -1, "initial_normalizer[1]: not a finite number"),
      "");
}

/// Signed features may cancel; that row is named, not clamped, and eps moves it away.
TEST(linear_attention_bad_inputs, a_vanishing_denominator_names_its_token) {
  Json record = features_case();
  record["inputs"]["k"] = Json::parse(R"([["1", "2"], ["-2", "0.5"], ["1", "1"]])");  // z_2 = (-1, 2.5)
  record["inputs"]["q"] = Json::parse(R"([["1", "1"], ["5", "2"], ["1", "1"]])");
  EXPECT_EQ(bad_inputs::refusal(record, Status::nonfinite, 1, "o[1][0] is undefined: div of element [0] of token 1"),
            "");
  record["params"]["eps"] = "1e-10";
  EXPECT_EQ(bad_inputs::result_of(record).status, Status::ok);
}

TEST(linear_attention_bad_inputs, kinds_of_inputs) {
  EXPECT_EQ(bad_inputs::kinds_of_inputs(listed_room("linear_attention")),
            "log gates:; optional: initial_state initial_normalizer; shared: q k");
}

}  // namespace
}  // namespace assay
