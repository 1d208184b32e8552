// Affine MesaNet: the ridge regression with an intercept, and local linear attention that does not look at its scores
// (lla-family.md sections 7, 9 and 10).
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/laws/laws.hpp"
#include "proptests/laws/lla_laws.hpp"
#include "proptests/laws/reference_laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(affine_mesanet)

namespace assay::laws {
namespace {

bool averages_moments(const ExactProblem& p) {
  const auto it = p.params.find("lambda_scaling");
  return it != p.params.end() && std::get<std::string>(it->second) == "mean";
}

/// The intercept at q_i of argmin sum_j |v_j - b - W (k_j - q_i)|^2 + tr(W l W^T).
std::string is_a_regression_with_an_intercept(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p);
  for (int head = 0; head < H; ++head) {
    const auto of = [&](const char* name) { return head_of(p.inputs.at(name), H, head); };
    const ExactMatrix q = of("q"), k = of("k"), v = of("v");
    const ExactMatrix ridge = ridge_of(p.inputs.at("lambda"), H, head, k.size(0), k.size(1));
    ExactArray o;
    for (int i = 0; i < k.size(0); ++i) {
      ExactMatrix z = first_rows(k, i + 1);
      for (int j = 0; j <= i; ++j)
        for (int x = 0; x < k.size(1); ++x) z(j, x) -= q(i, x);
      std::vector<Mp100> l = row_of(ridge, i);
      for (Mp100& x : l) x *= averages_moments(p) ? i + 1 : 1;
      const auto at_query =
          regression_intercept(std::vector<Mp100>(static_cast<std::size_t>(i + 1), 1), z, first_rows(v, i + 1), l);
      o.data.insert(o.data.end(), at_query.begin(), at_query.end());
    }
    if (std::string s = near("o", {{}, head_of(got.outputs.at("o"), H, head).data}, o); !s.empty()) return s;
  }
  return "";
}

/// In a bandwidth so wide that all weights are one to 95 digits: lambda on sums is mode absolute or max, on means mode
/// mass. The gradients agree as well.
std::string is_lla_of_a_wide_bandwidth(const Room& room, const Problem& given) {
  const ExactProblem p = of_output_alone(exact(given));
  const ExactAnswer got = answer(room, p);
  const std::vector<std::string> modes =
      averages_moments(p) ? std::vector<std::string>{"mass"} : std::vector<std::string>{"absolute", "max"};
  for (const std::string& mode : modes) {
    ExactProblem local = p;
    local.params = {{"bandwidth", "1e95"}, {"lambda_mode", mode}};
    if (std::string s = same_rows(got, answer("lla", local), {"q", "k", "v", "lambda"}); !s.empty())
      return text(mode, ": ", s);
  }
  return "";
}

/// Values on a line v = b + B k come out as b + B q without a ridge, once the keys span the dimensions affinely.
std::string lines_with_an_intercept_are_reproduced(const Room& room, const Problem& given) {
  ExactProblem p = of_output_alone(exact(given));
  const int H = heads_of(p), T = p.inputs.at("k").shape[1], K = p.inputs.at("k").shape[2];
  const int V = p.inputs.at("v").shape[2], shared = p.inputs.at("k").shape[0];
  const auto on_line = [&](const ExactMatrix& x) {
    ExactMatrix y(x.size(0), V);
    for (int i = 0; i < y.size(0); ++i)
      for (int c = 0; c < V; ++c) {
        y(i, c) = Mp100(c + 1) / 2;
        for (int a = 0; a < K; ++a) y(i, c) += Mp100(2 * a - 3 * c + 1) / 4 * x(i, a);
      }
    return y;
  };
  for (int head = 0; head < shared; ++head)
    set_head(p.inputs.at("v"), head, on_line(head_of(p.inputs.at("k"), shared, head)));
  ExactArray ridge({H, T});
  for (std::size_t i = 0; i < ridge.data.size(); ++i) ridge.data[i] = static_cast<int>(i) % T < K ? 1 : 0;
  p.inputs.at("lambda") = ridge;
  const ExactAnswer got = answer(room, p);
  for (int head = 0; head < H; ++head) {
    const ExactMatrix o = head_of(got.outputs.at("o"), H, head), want = on_line(head_of(p.inputs.at("q"), H, head));
    for (int i = K; i < T; ++i)
      if (std::string s = near("o", {{}, row_of(o, i)}, {{}, row_of(want, i)}); !s.empty()) return s;
  }
  return "";
}

/// As lambda grows what is left is the mean of the values: lambda (o - vbar) -> -X zbar / i on the sums, so o itself is
/// vbar to 1 / lambda.
std::string large_ridges_leave_value_averaging(const Room& room, const Problem& given) {
  ExactProblem p = of_output_alone(ungrouped(exact(given)));
  for (Mp100& x : p.inputs.at("lambda").data) x = Mp100("1e95");
  ExactProblem mean = p;
  mean.params = {};
  for (const char* name : {"q", "k", "lambda"}) mean.inputs.erase(name);
  return same_rows(answer(room, p), answer("value_averaging", mean), {"v"});
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(affine_mesanet, is_a_regression_with_an_intercept)
ASSAY_REFERENCE_OBEYS(affine_mesanet, is_lla_of_a_wide_bandwidth)
ASSAY_REFERENCE_OBEYS(affine_mesanet, lines_with_an_intercept_are_reproduced)
ASSAY_REFERENCE_OBEYS(affine_mesanet, large_ridges_leave_value_averaging)
ASSAY_REFERENCE_OBEYS(affine_mesanet, final_moments_are_sums)
ASSAY_REFERENCE_OBEYS(affine_mesanet, keys_may_be_turned)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(affine_mesanet, is_a_regression_with_an_intercept, backward_is_the_adjoint)

namespace assay {
namespace {

laws::Subject chunkwise() { return laws::subject(kernel_rooms(), "affine_mesanet", "chunkwise"); }

/// o -> vbar as lambda grows. Scores differ from 1 / i by less than |k - kbar| |kbar - q| / lambda.
ASSAY_PROPERTY(affine_mesanet_chunkwise, large_ridges_leave_value_averaging) {
  const laws::Subject s = chunkwise();
  const LawCase c = *law_cases(s.room, s.form);
  RC_PRE(c.spec.shape.own() == c.spec.shape.shared());
  constexpr double huge = 0x1p200;
  Problem p = s.room.make(c.spec);
  for (double& x : p.inputs.at("lambda").data) x = huge;
  std::erase_if(p.cotangents, [](const auto& entry) { return entry.first != "o"; });
  Problem mean = p;
  mean.mechanism = "value_averaging", mean.params = {};
  for (const char* name : {"q", "k", "lambda"}) mean.inputs.erase(name);
  const auto size = [](const Array& a) {
    return std::accumulate(a.data.begin(), a.data.end(), 0.0, [](double sum, double x) { return sum + std::fabs(x); });
  };
  const double k = 2 * size(p.inputs.at("k")), left = k * (k + size(p.inputs.at("q"))) * c.spec.shape.seq_len / huge;
  Arrays want, limits = laws::allowance(s, p, Format::fp64, c.tile);
  std::erase_if(limits, [](const auto& entry) { return entry.first != "o" && entry.first != "d_v"; });
  for (double& x : limits.at("o").data) x += left * size(p.inputs.at("v"));
  for (double& x : limits.at("d_v").data) x += left * size(p.cotangents.at("o"));
  for (const auto& [name, tensor] : oracle_of(listed_room("value_averaging"), mean).tensors) {
    Array& a = want[name] = Array(tensor.shape);
    for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = tensor.value[i].hi;
  }
  laws::expect_within(flat(s.run(p, Format::exact, c.tile)), want, limits, 1);
}

/// The scores of a row sum to one, however its system is solved: constant values come out as they went in.
ASSAY_PROPERTY(affine_mesanet_chunkwise, constant_values_come_out) {
  const laws::Subject s = chunkwise();
  const LawCase c = *law_cases(s.room, s.form);
  Problem p = s.problem(c);
  for (double& x : p.inputs.at("v").data) x = 0.75;
  Arrays got = flat(s.run(p, c.spec.precision, c.tile));
  Arrays want{{"o", got.at("o")}};
  for (double& x : want.at("o").data) x = 0.75;
  const Arrays allowed = laws::allowance(s, p, c.spec.precision, c.tile);
  laws::expect_within(got, want, {{"o", allowed.at("o")}}, 1);
}

using bad_inputs::changed, bad_inputs::refusal, bad_inputs::result_of;

TEST(affine_mesanet_bad_inputs, what_conjugate_gradients_cannot_solve) {
  Problem p = listed_room("affine_mesanet")
                  .make({"affine_mesanet", {1, 3, 1, 1, 2, 2, 0}, Format::fp32, Style::integers, 0, {}});
  EXPECT_EQ(chunkwise().form.obstacle(p), "");
  p.inputs.at("lambda") = Array({}, {0});
  EXPECT_EQ(chunkwise().form.obstacle(p), "lambda: conjugate gradients need a ridge in every dimension, got 0");
}

TEST(affine_mesanet_bad_inputs, the_table) {
  const Room& room = listed_room("affine_mesanet");
  const Json good = bad_inputs::good_case(room);
  EXPECT_EQ(bad_inputs::shapes_must_fit(room), "");
  EXPECT_EQ(bad_inputs::empty_extents(room), "");
  EXPECT_EQ(bad_inputs::heads_must_divide(room), "");
  for (const char* name : {"q", "k", "v"})
    EXPECT_EQ(refusal(changed(good, "/inputs/" + std::string(name) + "/2/1", "nan"), Status::nonfinite, 2,
                      name + std::string("[2][1]: not a finite number")),
              "");
  for (const char* number : {"-1e-30", "nan", "inf"})
    EXPECT_EQ(refusal(changed(good, "/inputs/lambda/1/0", number), Status::domain, 1,
                      "lambda[1][0]: expected a finite number >= 0"),
              "");
}

/// Without a ridge the keys so far must span the dimensions affinely: in the plane, three not on one line.
TEST(affine_mesanet_singular, the_first_row_whose_keys_do_not_span_is_named) {
  Json record = bad_inputs::good_case(listed_room("affine_mesanet"));
  record["inputs"]["k"] = Json::parse(R"([["1", "2"], ["2", "1"], ["0", "1"]])");
  EXPECT_EQ(refusal(changed(record, "/inputs/lambda", "0"), Status::singular, 0,
                    "lambda: zero in 2 dimensions of row 0, where its keys less the first have rank 0"),
            "");
  EXPECT_EQ(result_of(changed(record, "/inputs/lambda", Json::array({"1", "1", "0"}))).status, Status::ok);
  record["inputs"]["k"][2] = Json::array({"0", "3"});
  EXPECT_EQ(refusal(changed(record, "/inputs/lambda", Json::array({"1", "1", "0"})), Status::singular, 2,
                    "lambda: zero in 2 dimensions of row 2, where its keys less the first have rank 1"),
            "");
  EXPECT_EQ(result_of(changed(record, "/inputs/lambda", Json::parse(R"([["1", "1"], ["1", "0"], ["0", "1"]])"))).status,
            Status::ok);
}

}  // namespace
}  // namespace assay
