#include "oracles/multiword/definite.hpp"

#include <algorithm>
#include <cmath>

#include "oracles/multiword/magnitude.hpp"

namespace assay::words {
namespace {

constexpr auto lanes = static_cast<std::size_t>(pack_size);
/// Numbers of ordinary size, for which no underflow matters.
constexpr double ordinary = 0x1p500;

const DefiniteKernels& kernels() { return words::kernels(best_isa()).definite; }

}  // namespace

template <int W>
DefiniteSolver<W>::DefiniteSolver(const Pack<W>* rows, std::ptrdiff_t step, int n)
    : rows_(rows), step_(step), n_(static_cast<std::size_t>(n)) {
  std::vector<double> A(n_ * n_ * lanes);
  Bounds rest, trace;
  if (n_ > 0) Pack<W>::kernels().leading_words({rows->at_, Pack<W>::doubles(step)}, n_, A.data(), rest.at.data());
  factor_ = A;
  kernels().factor(factor_.data(), n_);
  for (std::size_t i = 0; i < n_; ++i)
    for (std::size_t l = 0; l < lanes; ++l) trace.at[l] += std::abs(A[(i * n_ + i) * lanes + l]);
  Bounds shift = estimate();
  for (double& s : shift.at) s *= 0.25;
  // A smaller shift may do where the estimate was too large.
  for (int attempt = 0; attempt < 3 && !proven_; ++attempt) {
    std::vector<double> shifted = A;
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t l = 0; l < lanes; ++l) shifted[(i * n_ + i) * lanes + l] -= shift.at[l];
    kernels().factor(shifted.data(), n_);
    proven_ = true;
    for (std::size_t l = 0; l < lanes; ++l) {
      bool positive = true;
      for (std::size_t i = 0; i < n_; ++i) {
        const double inverse = shifted[(i * n_ + i) * lanes + l];
        positive = positive && inverse > 0 && inverse < ordinary;
      }
      const double rounding = static_cast<double>(n_ + 40) * unit_roundoff * 1.05 * trace.at[l];
      smallest_.at[l] = shift.at[l] * (1 - 0x1p-40) - rounding - std::sqrt(rest.at[l]) * (1 + 0x1p-30);
      const bool enough = smallest_.at[l] > shift.at[l] / 2 && smallest_.at[l] > 1 / ordinary;
      if (positive && enough && trace.at[l] < ordinary) continue;
      proven_ = false;
      shift.at[l] /= 16;
    }
  }
}

template <int W>
void DefiniteSolver<W>::precondition(std::vector<double>& x) const {
  kernels().solve(factor_.data(), x.data(), n_);
}

template <int W>
typename DefiniteSolver<W>::Bounds DefiniteSolver<W>::estimate() const {
  std::vector<double> x(n_ * lanes, 1);
  Bounds before, after;
  for (int step = 0; step < 4; ++step) {
    before = after = {};
    for (std::size_t i = 0; i < x.size(); ++i) before.at[i % lanes] += x[i] * x[i];
    // Any start but an unlucky one will do.
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = x[i] / std::sqrt(before.at[i % lanes]) + (step == 0 ? static_cast<double>(i / lanes % 7) : 0);
    before = {};
    for (std::size_t i = 0; i < x.size(); ++i) before.at[i % lanes] += x[i] * x[i];
    precondition(x);
    for (std::size_t i = 0; i < x.size(); ++i) after.at[i % lanes] += x[i] * x[i];
  }
  for (std::size_t l = 0; l < lanes; ++l) before.at[l] = std::sqrt(before.at[l] / after.at[l]);
  return before;
}

/// |x - x'| <= |b - A x'| / lambda_min, both norms over a whole vector; the residual holds what is unknown of A and b.
template <int W>
void DefiniteSolver<W>::solve(std::span<Pack<W>> x) const {
  const std::vector<Pack<W>> b(x.begin(), x.end());
  std::vector<Pack<W>> residual = b;
  std::vector<double> step(n_ * lanes);
  std::fill(x.begin(), x.end(), Pack<W>());
  const Line<const Pack<W>> guess{x.data(), 1, static_cast<int>(n_)};
  constexpr int most_rounds = 12;
  Bounds error, before;
  before.at.fill(std::numeric_limits<double>::infinity());
  for (int round = 0; round < most_rounds; ++round) {
    if (round > 0)
      for (std::size_t i = 0; i < n_; ++i) {
        residual[i] = b[i];
        const Pack<W>* of_row = rows_ + static_cast<std::ptrdiff_t>(i) * step_;
        Pack<W>::subtract_dot(residual[i], {of_row, 1, static_cast<int>(n_)}, guess);
      }
    Bounds squares, known, sum;
    for (const Pack<W>& r : residual)
      for (std::size_t l = 0; l < lanes; ++l) {
        const double size = r.most(static_cast<int>(l)), radius = r.radius(static_cast<int>(l));
        squares.at[l] += size * size, known.at[l] += radius * radius, sum.at[l] += size;
      }
    bool done = true;
    for (std::size_t l = 0; l < lanes; ++l) {
      // Squares may underflow.
      const double norm = sum.at[l] == 0 ? 0 : std::sqrt(squares.at[l]) * (1 + 0x1p-30) + 0x1p-500;
      error.at[l] = norm / smallest_.at[l] * (1 + 0x1p-40);
      // Another step removes what is no radius; where steps help no more, none is made.
      done = done && (squares.at[l] <= 16 * known.at[l] || !(error.at[l] < before.at[l] / 4));
    }
    if (done || round + 1 == most_rounds) break;
    before = error;
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t l = 0; l < lanes; ++l) step[i * lanes + l] = residual[i].nearest(static_cast<int>(l));
    precondition(step);
    for (std::size_t i = 0; i < n_; ++i) {
      Pack<W> digit;
      std::copy_n(&step[i * lanes], lanes, digit.at_);
      x[i] += digit;
      x[i].forget_radii();
    }
  }
  for (Pack<W>& e : x)
    for (std::size_t l = 0; l < lanes; ++l) e.radius(static_cast<int>(l)) = error.at[l];
}

template class DefiniteSolver<2>;
template class DefiniteSolver<3>;
template class DefiniteSolver<4>;

}  // namespace assay::words
