#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/exact_problem.hpp"
#include "proptests/laws/reference_laws.hpp"

namespace assay::laws {
namespace {

/// |x_t|^2.
Mp100 square(const ExactMatrix& x, int t) {
  Mp100 sum = 0;
  for (int i = 0; i < x.size(1); ++i) sum += x(t, i) * x(t, i);
  return sum;
}

/// y_t points along x_t, |y_t|^2 = d (r / (r + eps))^2: x_t times sqrt(d) over |x_t| + eps sqrt(d).
std::string has_that_length(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  const ExactAnswer got = answer(room, p);
  ExactArray want = p.inputs.at("x");
  for (int head = 0; head < heads_of(p); ++head) {
    ExactMatrix y = head_of(want, heads_of(p), head);
    const Mp100 root = sqrt(Mp100(y.size(1)));
    for (int t = 0; t < y.size(0); ++t) {
      const Mp100 length = sqrt(square(y, t));
      for (int i = 0; i < y.size(1); ++i) y(t, i) *= root / (length + parameter(p, "eps") * root);
    }
    set_head(want, head, y);
  }
  return same("y", got.outputs.at("y"), want);
}

/// Euler, row by row: a longer x is only seen by eps, <x, dx> = eps / (r + eps) <y, dy>.
std::string length_is_seen_by_eps_alone(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  const ExactAnswer got = answer(room, p);
  const int own = heads_of(p);
  for (int head = 0; head < own; ++head) {
    const ExactMatrix x = head_of(p.inputs.at("x"), own, head), dx = head_of(got.gradients.at("x"), own, head),
                      y = head_of(got.outputs.at("y"), own, head), dy = head_of(p.cotangents.at("y"), own, head);
    for (int t = 0; t < x.size(0); ++t) {
      const Mp100 eps = parameter(p, "eps"), n = sqrt(Mp100(square(x, t) / x.size(1))) + eps;
      Mp100 left = 0, size = 0;
      for (int i = 0; i < x.size(1); ++i) {
        left += x(t, i) * dx(t, i) - eps / n * y(t, i) * dy(t, i);
        size += abs(Mp100(x(t, i) * dx(t, i))) + abs(Mp100(y(t, i) * dy(t, i)));
      }
      if (!(abs(left) <= Mp100("1e-80") * size)) return text("row ", t, ": ", to_decimal(left, 5), " is left");
    }
  }
  return "";
}

/// Zero rows: y = 0 and dx = dy / eps.
std::string a_zero_row_is_divided_by_eps(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  for (Mp100& x : p.inputs.at("x").data) x = 0;
  const ExactAnswer got = answer(room, p);
  const Mp100 eps = parameter(p, "eps");
  if (std::string s = same("y", got.outputs.at("y"), p.inputs.at("x")); !s.empty()) return s;
  return same("gradients.x", got.gradients.at("x"),
              mapped(p.cotangents.at("y"), [&](const Mp100& dy) { return Mp100(dy / eps); }));
}

TEST(rmsnorm_refusals, table) {
  const Room& room = listed_room("rmsnorm");
  EXPECT_EQ(bad_inputs::numbers_must_be_finite(room), "");
  EXPECT_EQ(bad_inputs::shapes_must_fit(room), "");
  Json record = bad_inputs::good_case(room);
  EXPECT_EQ(bad_inputs::refusal(bad_inputs::changed(record, "/params/eps", "-0.5"), Status::domain, -1,
                                "eps: expected a number >= 0"),
            "");
  record["params"]["eps"] = "0";
  EXPECT_EQ(bad_inputs::result_of(record).message, "");
  record["inputs"]["x"][1] = Json::parse(R"(["0", "0", "0"])");
  EXPECT_EQ(bad_inputs::refusal(record, Status::nonfinite, 1, "y[1][0] is undefined: div of element [1, 0]"), "");
  record["cotangents"].erase("y");
  record["inputs"]["x"] = Json::parse(R"([[], []])");
  EXPECT_EQ(bad_inputs::refusal(record, Status::domain, -1, "x: expected D >= 1, got 0"), "");
  record["inputs"]["x"] = Json::array();
  EXPECT_EQ(bad_inputs::result_of(record).message, "");
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(rmsnorm, has_that_length)
ASSAY_REFERENCE_OBEYS(rmsnorm, length_is_seen_by_eps_alone)
ASSAY_REFERENCE_OBEYS(rmsnorm, a_zero_row_is_divided_by_eps)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(rmsnorm, backward_is_the_adjoint, has_that_length)
