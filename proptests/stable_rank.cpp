// The stable rank: the spectral norm by powers of the Gram matrix, and what no rotation or scale changes
// (lla-family.md section 8).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proptests/core/bad_inputs.hpp"
#include "proptests/laws/lla_laws.hpp"
#include "proptests/laws/reference_laws.hpp"

namespace assay::laws {
namespace {

ExactMatrix multiplied(const ExactMatrix& a, const ExactMatrix& b) {
  ExactMatrix c(a.size(0), b.size(1));
  for (int i = 0; i < a.size(0); ++i)
    for (int j = 0; j < b.size(1); ++j)
      for (int l = 0; l < b.size(0); ++l) c(i, j) += a(i, l) * b(l, j);
  return c;
}
ExactMatrix transposed(const ExactMatrix& a) {
  ExactMatrix t(a.size(1), a.size(0));
  for (int i = 0; i < a.size(0); ++i)
    for (int j = 0; j < a.size(1); ++j) t(j, i) = a(i, j);
  return t;
}
Mp100 trace(const ExactMatrix& a) {
  Mp100 sum = 0;
  for (int i = 0; i < a.size(0); ++i) sum += a(i, i);
  return sum;
}

/// |x|_2^2 = tr A^{n+1} / tr A^n for A = x^T x and n = 2^40: an eigenvalue as near to the largest as one part in 2^30
/// is gone to e^{-1000}.
std::string is_the_ratio_of_norms(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  const ExactAnswer got = answer(room, p);
  const int H = static_cast<int>(p.inputs.at("x").shape[0]);
  for (int head = 0; head < H; ++head) {
    const ExactMatrix x = head_of(p.inputs.at("x"), H, head), A = multiplied(transposed(x), x);
    ExactMatrix power = A;
    constexpr int squarings = 40;
    for (int s = 0; s < squarings; ++s) {
      const Mp100 size = trace(power);
      for (Mp100& element : power.data) element /= size;
      power = multiplied(power, power);
    }
    const Mp100 square = trace(multiplied(power, A)) / trace(power);
    const Mp100 rank = got.outputs.at("stable_rank").data[static_cast<std::size_t>(head)];
    if (std::string s = near("stable_rank", {{}, {rank}}, {{}, {Mp100(trace(A) / square)}}); !s.empty()) return s;
    if (!(rank >= 1 - Mp100("1e-80") && rank <= std::min(x.size(0), x.size(1)) + Mp100("1e-80")))
      return text("stable_rank: ", to_decimal(rank, 20), " is not between 1 and the rank");
  }
  return "";
}

/// Turning rows, or multiplying all by a number, changes nothing; the gradient is orthogonal to x.
std::string only_directions_count(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  ExactProblem turned = p;
  turned.inputs.at("x") = reflected(mapped(p.inputs.at("x"), [](const Mp100& x) { return Mp100(-3 * x); }));
  const ExactAnswer a = answer(room, p), b = answer(room, turned);
  if (std::string s = near("stable_rank", b.outputs.at("stable_rank"), a.outputs.at("stable_rank")); !s.empty())
    return s;
  const ExactArray back = mapped(reflected(b.gradients.at("x")), [](const Mp100& x) { return Mp100(-3 * x); });
  if (std::string s = near("dx", back, a.gradients.at("x")); !s.empty()) return s;
  Mp100 along = 0;
  for (const Mp100& x : product(p.inputs.at("x"), a.gradients.at("x")).data) along += x;
  return near("x.dx", {{}, {along}}, {{}, {Mp100(0)}});
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(stable_rank, is_the_ratio_of_norms)
ASSAY_REFERENCE_OBEYS(stable_rank, only_directions_count)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(stable_rank, is_the_ratio_of_norms, backward_is_the_adjoint)

namespace assay {
namespace {

CaseResult rank_of(const char* x) {
  return bad_inputs::result_of(
      Json{{"id", "a"}, {"mechanism", "stable_rank"}, {"params", Json::object()}, {"inputs", {{"x", Json::parse(x)}}}});
}

TEST(stable_rank_values, known_ones) {
  const auto value = [](const char* x) { return Mp50(rank_of(x).answer.outputs.at("stable_rank").data.at(0).text); };
  EXPECT_EQ(value(R"([["1", "0", "0"], ["0", "-1", "0"], ["0", "0", "1"]])"), 3);
  EXPECT_EQ(value(R"([["2", "4"], ["1", "2"], ["-3", "-6"]])"), 1);
  EXPECT_EQ(value(R"([["2", "0"], ["0", "1"]])"), Mp50("1.25"));
  EXPECT_EQ(value(R"([["-7"]])"), 1);
}

TEST(stable_rank_bad_inputs, the_table) {
  const Room& room = listed_room("stable_rank");
  EXPECT_EQ(bad_inputs::numbers_must_be_finite(room), "");
  for (const char* zeros : {R"([["0", "0"], ["-0", "0"]])", "[]"}) {
    const CaseResult r = rank_of(zeros);
    EXPECT_EQ(r.status, Status::domain);
    EXPECT_EQ(r.row, -1);
    EXPECT_EQ(r.message, "x: a matrix of zeros has no stable rank");
  }
}

}  // namespace
}  // namespace assay
