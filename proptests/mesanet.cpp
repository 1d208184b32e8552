// MesaNet: the ridge regression through the origin, column by column (lla-family.md sections 7, 9 and 10).
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/laws/laws.hpp"
#include "proptests/laws/lla_laws.hpp"
#include "proptests/laws/reference_laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(mesanet)

namespace assay::laws {
namespace {

bool scales_means(const ExactProblem& p) {
  const auto it = p.params.find("lambda_scaling");
  return it != p.params.end() && std::get<std::string>(it->second) == "mean";
}

/// The map W of argmin sum_j |v_j - W k_j|^2 + tr(W l W^T), row by row, at the query; states are plain sums.
std::string is_a_ridge_regression(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p);
  for (int head = 0; head < H; ++head) {
    const auto of = [&](const char* name) { return head_of(p.inputs.at(name), H, head); };
    const ExactMatrix q = of("q"), k = of("k"), v = of("v");
    const int T = k.size(0), K = k.size(1), V = v.size(1);
    const ExactMatrix ridge = ridge_of(p.inputs.at("lambda"), H, head, T, K);
    ExactArray o;
    ExactMatrix gram(K, K), state(V, K);
    for (int i = 0; i < T; ++i) {
      for (int a = 0; a < K; ++a) {
        for (int b = 0; b < K; ++b) gram(a, b) += k(i, a) * k(i, b);
        for (int c = 0; c < V; ++c) state(c, a) += v(i, c) * k(i, a);
      }
      ExactMatrix system = gram;
      for (int a = 0; a < K; ++a) system(a, a) += (scales_means(p) ? i + 1 : 1) * ridge(i, a);
      for (int c = 0; c < V; ++c) {
        const std::vector<Mp100> W = eliminated(system, row_of(state, c));
        Mp100 read = 0;
        for (int a = 0; a < K; ++a) read += W[static_cast<std::size_t>(a)] * q(i, a);
        o.data.push_back(read);
      }
    }
    const auto answered = [&](const char* name) { return ExactArray({}, head_of(got.outputs.at(name), H, head).data); };
    if (std::string s = near("o", answered("o"), o); !s.empty()) return s;
    if (std::string s = near("final_state", answered("final_state"), {{}, state.data}); !s.empty()) return s;
    if (std::string s = near("final_gram", answered("final_gram"), {{}, gram.data}); !s.empty()) return s;
  }
  return "";
}

/// lambda o -> S q as lambda grows, to 1 / lambda: linear attention, of sums or of means.
std::string large_ridges_leave_linear_attention(const Room& room, const Problem& given) {
  ExactProblem p = of_output_alone(ungrouped(exact(given)));
  // 100 digits hold the limit to 1e-85; what is left of it is 1e-85.
  const Mp100 huge("1e85");
  for (Mp100& x : p.inputs.at("lambda").data) x = huge;
  ExactProblem linear = p;
  linear.inputs.erase("lambda");
  linear.params = {{"scale", "1"}};
  if (scales_means(p)) linear.params["normalization"] = "count";
  ExactAnswer got = answer(room, p);
  for (Mp100& x : got.outputs.at("o").data) x *= huge;
  for (const char* name : {"q", "k", "v"})
    for (Mp100& x : got.gradients.at(name).data) x *= huge;
  return same_rows(got, answer("linear_attention", linear), {"q", "k", "v"});
}

/// Values on a line v = B k come out as B q without a ridge, once the keys span the dimensions.
std::string lines_are_reproduced(const Room& room, const Problem& given) {
  ExactProblem p = of_output_alone(exact(given));
  const int H = heads_of(p), T = p.inputs.at("k").shape[1], K = p.inputs.at("k").shape[2];
  const int V = p.inputs.at("v").shape[2], shared = p.inputs.at("k").shape[0];
  const auto on_line = [&](const ExactMatrix& x) {
    ExactMatrix y(x.size(0), V);
    for (int i = 0; i < y.size(0); ++i)
      for (int c = 0; c < V; ++c)
        for (int a = 0; a < K; ++a) y(i, c) += Mp100(2 * a - 3 * c + 1) / 4 * x(i, a);
    return y;
  };
  for (int head = 0; head < shared; ++head)
    set_head(p.inputs.at("v"), head, on_line(head_of(p.inputs.at("k"), shared, head)));
  ExactArray ridge({H, T});
  for (std::size_t i = 0; i < ridge.data.size(); ++i) ridge.data[i] = static_cast<int>(i) % T < K - 1 ? 1 : 0;
  p.inputs.at("lambda") = ridge;
  const ExactAnswer got = answer(room, p);
  for (int head = 0; head < H; ++head) {
    const ExactMatrix o = head_of(got.outputs.at("o"), H, head), want = on_line(head_of(p.inputs.at("q"), H, head));
    for (int i = K - 1; i < T; ++i)
      if (std::string s = near("o", {{}, row_of(o, i)}, {{}, row_of(want, i)}); !s.empty()) return s;
  }
  return "";
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(mesanet, is_a_ridge_regression)
ASSAY_REFERENCE_OBEYS(mesanet, large_ridges_leave_linear_attention)
ASSAY_REFERENCE_OBEYS(mesanet, lines_are_reproduced)
ASSAY_REFERENCE_OBEYS(mesanet, keys_may_be_turned)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(mesanet, is_a_ridge_regression, backward_is_the_adjoint)

namespace assay {
namespace {

/// lambda o -> S q as lambda grows. What is left of sums of three factors is below 2 |G| / lambda of what they are
/// without signs, |G| <= (sum |k|)^2.
ASSAY_PROPERTY(mesanet_chunkwise, large_ridges_leave_linear_attention) {
  const laws::Subject s = laws::subject(kernel_rooms(), "mesanet", "chunkwise");
  const LawCase c = *law_cases(s.room, s.form);
  RC_PRE(c.spec.shape.own() == c.spec.shape.shared());
  constexpr double huge = 0x1p200;
  Problem p = s.room.make(c.spec);
  for (double& x : p.inputs.at("lambda").data) x = huge;
  std::erase_if(p.cotangents, [](const auto& entry) { return entry.first != "o"; });
  Problem linear = p;
  linear.mechanism = "linear_attention", linear.params = {{"scale", "1"}};
  if (p.params.contains("lambda_scaling")) linear.params["normalization"] = "count";
  linear.inputs.erase("lambda");
  const auto size = [](const Array& a) {
    return std::accumulate(a.data.begin(), a.data.end(), 0.0, [](double sum, double x) { return sum + std::fabs(x); });
  };
  const double q = size(p.inputs.at("q")), k = size(p.inputs.at("k")), v = size(p.inputs.at("v")),
               g = size(p.cotangents.at("o")), left = 2 * k * k / huge;
  const Arrays got = flat(s.run(p, Format::exact, c.tile)), allowed = laws::allowance(s, p, Format::fp64, c.tile);
  Arrays scaled, want, limits;
  for (const auto& [name, rest] : std::map<std::string, double>{
           {"o", left * q * k * v}, {"d_q", left * g * k * v}, {"d_k", left * q * g * v}, {"d_v", left * q * k * g}}) {
    scaled[name] = got.at(name), limits[name] = allowed.at(name);
    for (double& x : scaled[name].data) x *= huge;
    for (double& x : limits[name].data) x = huge * x + rest;
  }
  for (const auto& [name, tensor] : oracle_of(listed_room("linear_attention"), linear).tensors) {
    Array& a = want[name] = Array(tensor.shape);
    for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = tensor.value[i].hi;
  }
  laws::expect_within(scaled, want, limits, 1);
}

/// After one token the answer is v_1 (k_1.q_1) / (k_1.k_1 + lambda).
ASSAY_PROPERTY(mesanet_chunkwise, one_token_is_a_projection) {
  const laws::Subject s = laws::subject(kernel_rooms(), "mesanet", "chunkwise");
  LawCase c = *law_cases(s.room, s.form);
  c.spec.shape.seq_len = 1, c.spec.shape.heads = c.spec.shape.shared_heads = 1;
  Problem p = s.problem(c);
  p.inputs.at("lambda") = Array({1}, {0.25});
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k"), &v = p.inputs.at("v");
  long double kq = 0, kk = 0.25;
  for (std::size_t a = 0; a < k.data.size(); ++a) {
    kq += static_cast<long double>(k.data[a]) * q.data[a];
    kk += static_cast<long double>(k.data[a]) * k.data[a];
  }
  Arrays want{{"o", v}};
  for (double& x : want.at("o").data) x = static_cast<double>(x * kq / kk);
  const Arrays allowed = laws::allowance(s, p, Format::fp64, c.tile);
  laws::expect_within(flat(s.run(p, Format::exact, c.tile)), want, {{"o", allowed.at("o")}}, 1);
}

using bad_inputs::changed, bad_inputs::refusal, bad_inputs::result_of;

TEST(mesanet_bad_inputs, what_conjugate_gradients_cannot_solve) {
  const KernelForm& form = laws::subject(kernel_rooms(), "mesanet", "chunkwise").form;
  Problem p = listed_room("mesanet").make({"mesanet", {1, 3, 1, 1, 2, 2, 0}, Format::fp32, Style::integers, 0, {}});
  EXPECT_EQ(form.obstacle(p), "");
  p.inputs.at("lambda") = Array({}, {0});
  EXPECT_EQ(form.obstacle(p), "lambda: conjugate gradients need a ridge in every dimension, got 0");
  p.inputs.at("lambda") = Array({}, {0x1p-40});
  EXPECT_TRUE(form.obstacle(p).starts_with("lambda: too small for conjugate gradients: the condition may reach "));
}

TEST(mesanet_bad_inputs, the_table) {
  const Room& room = listed_room("mesanet");
  const Json good = bad_inputs::good_case(room);
  EXPECT_EQ(bad_inputs::shapes_must_fit(room), "");
  EXPECT_EQ(bad_inputs::empty_extents(room), "");
  EXPECT_EQ(bad_inputs::heads_must_divide(room), "");
  for (const char* name : {"q", "k", "v"})
    EXPECT_EQ(refusal(changed(good, "/inputs/" + std::string(name) + "/2/1", "inf"), Status::nonfinite, 2,
                      name + std::string("[2][1]: not a finite number")),
              "");
  for (const char* number : {"-1e-30", "nan", "inf"}) {
    EXPECT_EQ(
        refusal(changed(good, "/inputs/lambda", number), Status::domain, -1, "lambda: expected a finite number >= 0"),
        "");
    EXPECT_EQ(refusal(changed(good, "/inputs/lambda/1/0", number), Status::domain, 1,
                      "lambda[1][0]: expected a finite number >= 0"),
              "");
  }
  EXPECT_EQ(refusal(changed(good, "/params/lambda_scaling", "avg"), Status::domain, -1,
                    "params.lambda_scaling: unknown value 'avg'"),
            "");
}

/// Without a ridge the keys so far must span the dimensions; a ridge where they do not is enough.
TEST(mesanet_singular, the_first_row_whose_keys_do_not_span_is_named) {
  Json record = bad_inputs::good_case(listed_room("mesanet"));
  record["inputs"]["k"] = Json::parse(R"([["1", "2"], ["2", "4"], ["1", "0"]])");
  EXPECT_EQ(refusal(changed(record, "/inputs/lambda", "0"), Status::singular, 0,
                    "lambda: zero in 2 dimensions of row 0, where its keys less zero have rank 1"),
            "");
  EXPECT_EQ(refusal(changed(record, "/inputs/lambda", Json::array({"1", "0", "0"})), Status::singular, 1,
                    "lambda: zero in 2 dimensions of row 1, where its keys less zero have rank 1"),
            "");
  EXPECT_EQ(result_of(changed(record, "/inputs/lambda", Json::array({"1", "1", "0"}))).status, Status::ok);
  const Json by_dimension = Json::parse(R"([["1", "0"], ["0", "1"], ["0", "0"]])");
  EXPECT_EQ(result_of(changed(record, "/inputs/lambda", by_dimension)).status, Status::ok);
  record["inputs"]["k"][0][0] = "0";
  EXPECT_EQ(refusal(changed(record, "/inputs/lambda", Json::parse(R"([["0", "1"], ["1", "1"], ["1", "1"]])")),
                    Status::singular, 0, "lambda: zero in 1 dimensions of row 0, where its keys less zero have rank 0"),
            "");
}

}  // namespace
}  // namespace assay
