// Tokens of a draw that go many at once: the program's own answer, but for the errors that a draw makes.
#include "language/evaluate/in_tiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "language/answers/answer.hpp"
#include "language/evaluate/products.hpp"
#include "language/room.hpp"
#include "oracles/scalars/emulated.hpp"
#include "proptests/language/programs.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay::language {
namespace {

/// Whether scans of the program and of its gradient go in tiles.
bool goes_in_tiles(const Mechanism& mechanism) {
  return std::ranges::any_of(mechanism.gradient.body->nodes, [&](const Node& node) {
    const Attributes& a = node.attributes;
    const auto step = node.op == Op::scan ? step_of_tile(*a.body, a.carry, a.xs) : nullptr;
    return step != nullptr;
  });
}

/// The distance of a draw in fp64 from the answer in doubles, of the largest number.
double distance(const Posed<double>& posed) {
  const BasicAnswer<double> exact = answer<double>(posed, true);
  const PerturbedArithmetic draw(Format::fp64, PerturbedArithmetic::Operands::nearest, 1);
  const BasicAnswer<Emulated> drawn = answer<Emulated>(posed, true);
  double furthest = 0;
  for (const auto& [right, found] : {std::pair(&exact.outputs, &drawn.outputs), {&exact.gradients, &drawn.gradients}})
    for (const auto& [name, array] : *right) {
      double largest = 0, off = 0;
      for (std::size_t i = 0; i < array.data.size(); ++i) {
        largest = std::max(largest, std::fabs(array.data[i]));
        off = std::max(off, std::fabs(found->at(name).data[i].value - array.data[i]));
      }
      furthest = std::max(furthest, off / largest);
    }
  return furthest;
}

/// More than two tiles, the last one with fewer tokens. Doubles are off by up to 2^-38 here, and by 2^-7 and more where
/// the last key that a token sees is left out.
TEST(TokensInTiles, AreTokensOneAfterTheOther) {
  std::size_t programs = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() + "/mechanisms/json")) {
    const Room& room = program_room(file.path().string());
    const Mechanism& mechanism = program_of(room);
    const Problem problem = made(room, "1,70,1,4,5");
    if (!goes_in_tiles(mechanism)) continue;
    ++programs;
    EXPECT_LE(distance(Posed<double>(mechanism, problem)), 0x1p-30) << room.name;
    const std::pair<const char*, Param> others[] = {{"window", 9L}, {"causal", false}};
    for (const auto& [name, value] : others) {
      if (mechanism.program.input(name) == nullptr) continue;
      Problem other = problem;
      other.params[name] = value;
      EXPECT_LE(distance(Posed<double>(mechanism, other)), 0x1p-30) << room.name << ", " << name;
    }
  }
  EXPECT_GE(programs, 30U);
}

/// An element of a factor, x - a.b: a draw has 5/6 to 3/2 of the variance of fp32 that takes one product after the
/// other, as products take little of x or all of it (docs/judge-derivation.md).
TEST(DrawsOfSolves, AreOffAsFp32IsThatTakesOneProductAfterTheOther) {
  constexpr int n = 48, samples = 4000;
  // Five sigma of the ratio of two mean squares: of uniform numbers, and of sums of many roundings.
  const double chance = 1 + 5 * std::sqrt((9 / 5.0 - 1 + 2) / samples);
  for (const double taken : {0.01, 1.0}) {
    RandomBits random{11, 0};
    PerturbedArithmetic draw(Format::bf16, PerturbedArithmetic::Operands::nearest, 5);
    draw.go_to({0, 1, 2, 3});
    double of_draws = 0, of_fp32 = 0;
    for (int sample = 0; sample < samples; ++sample) {
      const auto uniform = [&] { return 1 + static_cast<double>(random.next() >> 11) * 0x1p-53; };
      std::vector<double> a(n), b(n);
      for (std::vector<double>* x : {&a, &b})
        std::ranges::generate(*x, [&] { return round_to(uniform(), Format::fp32); });
      const double sum = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
      const double x = static_cast<float>(sum / taken * uniform());
      auto left = static_cast<float>(x);
      for (int k = 0; k < n; ++k)
        left -= static_cast<float>(a[static_cast<std::size_t>(k)] * b[static_cast<std::size_t>(k)]);
      of_fp32 += std::pow((static_cast<double>(left) - (x - sum)) / x, 2);
      of_draws += std::pow((draw.less_products(x, a.data(), b.data(), n) - (x - sum)) / x, 2);
    }
    EXPECT_LE(of_draws, 3 / 2.0 * chance * of_fp32) << taken;
    EXPECT_GE(of_draws * chance, 5 / 6.0 * of_fp32) << taken;
  }
}

/// a[b m k] times c[b k n], of any order of axes: sums are off by up to half of what they and their terms round, and
/// not by much less. Zeros are no terms.
TEST(TokensInTiles, ProductsAreOffByTheRoundingsOfTheirSums) {
  constexpr int B = 2, M = 5, N = 19, K = 23;
  RandomBits random{7, 0};
  const auto number = [&] {
    return random.next() % 4 == 0 ? 0.0 : 1 + static_cast<double>(random.next() >> 11) * 0x1p-53;
  };
  std::vector<double> a(B * M * K), c(B * K * N);
  for (std::vector<double>* x : {&a, &c}) std::ranges::generate(*x, number);
  const Index b{B, M * K, K * N, M * N, true, true, true}, m{M, K, 0, N, true, false, true},
      k{K, 1, N, 0, true, true, false}, n{N, 0, 1, 1, false, true, true};
  PerturbedArithmetic draw(Format::bf16, PerturbedArithmetic::Operands::nearest, 3);
  double largest = 0;
  for (const std::vector<Index>& indices : {std::vector{b, m, k, n}, {k, n, m, b}}) {
    std::vector<double> out(B * M * N, 0.0);
    draw.go_to({0, 1, 2, 3});
    add_products(indices, a.data(), c.data(), out.data(), draw);
    for (int i = 0; i < B * M * N; ++i) {
      const double* const row = a.data() + i / N * K;
      const double* const column = c.data() + i / (M * N) * (K * N) + i % N;
      double sum = 0, squares = 0, of_row = 0, of_column = 0;
      for (int j = 0; j < K; ++j) {
        const double term = row[j] * column[j * N];
        sum += term, squares += term * term;
        of_row += row[j] != 0 ? 1 : 0, of_column += column[j * N] != 0 ? 1 : 0;
      }
      const double terms = std::min(of_row, of_column), mean = sum / terms;
      const double partial = std::pow(terms, 3) * mean * mean / 3 + terms * (squares - terms * mean * mean) / 2;
      const double half = std::sqrt((squares + partial) * 3 / (8 * std::log(2.0))) * 0x1p-24;
      const double off = std::fabs(out[static_cast<std::size_t>(i)] - sum) / half;
      EXPECT_LE(off, 1 + 0x1p-20) << i;  // and by the roundings of doubles
      largest = std::max(largest, off);
    }
  }
  EXPECT_GT(largest, 0.9);
}

}  // namespace
}  // namespace assay::language
