// The stable rank, which no program answers: the spectral norm by powers of the Gram matrix (lla-family.md section 8).
#include <gtest/gtest.h>

#include <vector>

#include "proptests/laws/reference_laws.hpp"

namespace assay::laws {
namespace {

using Matrix = Tensor<Mp100, 2>;

Matrix multiplied(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(0), b.size(1));
  for (int i = 0; i < a.size(0); ++i)
    for (int j = 0; j < b.size(1); ++j)
      for (int l = 0; l < b.size(0); ++l) c(i, j) += a(i, l) * b(l, j);
  return c;
}

Mp100 trace(const Matrix& a) {
  Mp100 sum = 0;
  for (int i = 0; i < a.size(0); ++i) sum += a(i, i);
  return sum;
}

/// |x|_F^2 / |x|_2^2 of a head, |x|_2^2 = tr A^{n+1} / tr A^n for A = x^T x and n = 2^40: an eigenvalue as near to the
/// largest as one part in 2^30 is gone to e^{-1000}.
Mp100 ratio_of_norms(const Array& x, int head) {
  const int T = x.shape[1], D = x.shape[2];
  Matrix A(D, D);
  for (int t = 0; t < T; ++t)
    for (int i = 0; i < D; ++i)
      for (int j = 0; j < D; ++j) A(i, j) += Mp100(x.data[index(x, head, t, i)]) * Mp100(x.data[index(x, head, t, j)]);
  Matrix power = A;
  constexpr int squarings = 40;
  for (int s = 0; s < squarings; ++s) {
    const Mp100 size = trace(power);
    for (Mp100& element : power.data) element /= size;
    power = multiplied(power, power);
  }
  return trace(A) * trace(power) / trace(multiplied(power, A));
}

TEST(stable_rank_reference, is_the_ratio_of_norms) {
  const Room& room = listed_room("stable_rank");
  for (const CaseSpec& spec : reference_cases(room)) {
    const Problem p = room.make(spec);
    const Array& x = p.inputs.at("x");
    std::vector<Mp100> want;
    for (int head = 0; head < x.shape[0]; ++head) want.push_back(ratio_of_norms(x, head));
    EXPECT_EQ(agrees("stable_rank", room.values(p, Tier::mp100).outputs.at("stable_rank"), want), "") << spec.repro();
  }
}

}  // namespace
}  // namespace assay::laws
