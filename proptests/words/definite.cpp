// Symmetric positive definite systems of packs: solutions hold the truth for every number in the balls, what is not
// positive definite is not taken for it, and all instruction sets give the same bits.
#include "oracles/multiword/definite.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "oracles/scalars/scalar.hpp"
#include "proptests/words/cases.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/definite.hpp"

namespace assay::words {
namespace {

/// B B^T + ridge, B n x rank, with radii of that size relative to the diagonal.
template <int W>
Tensor<Pack<W>, 2> system(Random& random, int n, int rank, double ridge, double radius) {
  Tensor<Pack<W>, 2> A(n, n), B(n, rank);
  for (Pack<W>& x : B.data)
    for (int i = 0; i < pack_size; ++i) x.take(i, Pack<W>(random.real()));
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; ++j) {
      for (int k = 0; k < rank; ++k) A(i, j) += B(i, k) * B(j, k);
      if (i == j) A(i, j) += Pack<W>(ridge);
      WordBall ball;
      ball.radius = radius;
      A(i, j) += Pack<W>(ball);
      if (j < i) A(j, i) = A(i, j);
    }
  return A;
}

template <class T>
class DefiniteOf : public testing::Test {};
TYPED_TEST_SUITE(DefiniteOf, WordCounts);

TYPED_TEST(DefiniteOf, HoldsTheSolutionOfEverySystemInTheBalls) {
  constexpr int W = TypeParam::value;
  Random random(7);
  for (const int n : {1, 2, 5, 12})
    for (const double ridge : {1.0, 0x1p-10, 0x1p-26})
      for (const double radius : {0.0, 0x1p-60}) {
        const Tensor<Pack<W>, 2> A = system<W>(random, n, n - 1, ridge, radius);
        std::vector<Pack<W>> b(static_cast<std::size_t>(n)), x;
        for (Pack<W>& e : b)
          for (int i = 0; i < pack_size; ++i) e.take(i, Pack<W>(random.real()));
        x = b;
        const DefiniteSolver<W> solver(A.data.data(), n, n);
        ASSERT_TRUE(solver.proven()) << n << ' ' << ridge;
        solver.solve(x);
        for (int lane = 0; lane < pack_size; ++lane)
          for (const int sign : {-1, 0, 1}) {
            Tensor<Mp200, 2> truth(n, n);
            std::vector<Mp200> solution;
            for (int i = 0; i < n; ++i) {
              for (int j = 0; j < n; ++j) {
                const WordBall e = A(std::max(i, j), std::min(i, j)).number(lane);
                truth(i, j) = middle(e) + Mp200(radius) * ((i + j) % 2 == 0 ? sign : -sign);
              }
              solution.push_back(middle(b[static_cast<std::size_t>(i)].number(lane)));
            }
            DefiniteSystem<Mp200>(truth, 0, n).solve(solution);
            for (std::size_t i = 0; i < solution.size(); ++i) {
              const WordBall got = x[i].number(lane);
              ASSERT_LE(abs(middle(got) - solution[i]), Mp200(got.radius)) << n << ' ' << ridge << ' ' << radius;
              // Norms of inputs are a few units; conditions n / ridge; a residual costs `chunk_words` of u^W.
              constexpr double chunk_words[] = {5.0e3, 2.8e5, 2.0e7};  // docs/error-analysis.md, section 2
              const double narrow = std::ldexp(chunk_words[W - 2], -53 * W) + 16 * radius;
              EXPECT_LE(got.radius, narrow * n * n * n / (ridge * ridge)) << n << ' ' << ridge << ' ' << radius;
            }
          }
      }
}

TYPED_TEST(DefiniteOf, ProvesNothingThatIsNotPositiveDefinite) {
  constexpr int W = TypeParam::value;
  Random random(8);
  for (const double ridge : {0.0, -0x1p-70, -0x1p-40, -1.0, std::numeric_limits<double>::infinity()}) {
    const Tensor<Pack<W>, 2> A = system<W>(random, 6, 5, ridge, 0);
    EXPECT_FALSE(DefiniteSolver<W>(A.data.data(), 6, 6).proven()) << ridge;
  }
  const Tensor<Pack<W>, 2> wide = system<W>(random, 6, 5, 0x1p-10, 0x1p-10);
  EXPECT_FALSE(DefiniteSolver<W>(wide.data.data(), 6, 6).proven()) << "the balls hold singular matrices";
}

TYPED_TEST(DefiniteOf, LeavesTheRestToElimination) {
  constexpr int W = TypeParam::value;
  Random random(9);
  const Tensor<Pack<W>, 2> A = system<W>(random, 3, 2, 0x1p-60, 0);
  ASSERT_FALSE(DefiniteSolver<W>(A.data.data(), 3, 3).proven());
  std::vector<Pack<W>> x(3, Pack<W>(1));
  DefiniteSystem<Pack<W>>(A, 0, 3).solve(x);
  for (int i = 0; i < 3; ++i) {
    Pack<W> rest(1);
    subtract_dot(rest, line(A, i), line(x));
    for (int lane = 0; lane < pack_size; ++lane)
      EXPECT_LE(abs(middle(rest.number(lane))), Mp200(rest.number(lane).radius));
  }
}

TEST(Definite, SameBitsOnAllInstructionSets) {
  Random random(10);
  constexpr std::size_t n = 21;
  std::vector<double> A(n * n * pack_size), x(n * pack_size);
  for (double& e : A) e = random.real();
  for (double& e : x) e = random.real();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t l = 0; l < pack_size; ++l) A[(i * n + i) * pack_size + l] += 2.0 * n;
  const auto results = [&](Isa isa) {
    std::vector<double> L = A, y = x;
    kernels(isa).definite.factor(L.data(), n);
    kernels(isa).definite.solve(L.data(), y.data(), n);
    L.insert(L.end(), y.begin(), y.end());
    return L;
  };
  for (const Isa isa : all_isas)
    if (supported(isa)) {
      EXPECT_EQ(results(isa), results(Isa::scalar)) << name_of(isa);
    }
}

}  // namespace
}  // namespace assay::words
