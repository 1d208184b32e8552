#pragma once
// FALCON as matrix formulas in 200 digits: the affine recurrence, and the chunkwise algorithms of the
// paper (falcon-family.md section 4), which can also run one of their lines as the paper prints it.
#include <string_view>
#include <vector>

#include "oracles/identities/exact_problem.hpp"

namespace assay::identities::falcon_formulas {

// ---- small matrices -------------------------------------------------------------------

struct Matrix {
  int rows = 0, cols = 0;
  Vector data;

  Matrix() = default;
  Matrix(int r, int c) : rows(r), cols(c), data(static_cast<std::size_t>(r) * static_cast<std::size_t>(c)) {}

  Mp200& operator()(int i, int j) { return data[at(i, j)]; }
  const Mp200& operator()(int i, int j) const { return data[at(i, j)]; }

 private:
  std::size_t at(int i, int j) const {
    return static_cast<std::size_t>(i) * static_cast<std::size_t>(cols) + static_cast<std::size_t>(j);
  }
};

Matrix operator+(const Matrix& a, const Matrix& b);
Matrix operator-(const Matrix& a, const Matrix& b);
Matrix operator*(const Matrix& a, const Matrix& b);
Matrix operator*(const Mp200& factor, const Matrix& a);
Matrix& operator+=(Matrix& a, const Matrix& b);
Matrix transposed(const Matrix& a);
Matrix entrywise(const Matrix& a, const Matrix& b);
/// Entries with column <= row + k.
Matrix lower(const Matrix& a, int k);
Matrix unit(int n);
Matrix diagonal(const Vector& d);
/// Sum of entrywise products.
Mp200 dot(const Matrix& a, const Matrix& b);
/// Row i of a against row i of b.
Vector row_dots(const Matrix& a, const Matrix& b);
Matrix rows_of(const Matrix& a, int first, int count);
Matrix column_of(const Matrix& a, int j);
void add_rows(Matrix& to, int first, const Matrix& rows);
/// L^{-1} b and L^{-T} b for a unit lower triangle L.
Matrix solve_lower(const Matrix& L, const Matrix& b);
Matrix solve_lower_transposed(const Matrix& L, const Matrix& b);
/// A^{-1} b by Gauss's elimination with pivots.
Matrix solve(Matrix a, Matrix b);

Matrix matrix_of(const BasicArray<Mp200>& array);
BasicArray<Mp200> array_of(const Matrix& a);
BasicArray<Mp200> array_of(const Vector& a);

// ---- a problem as the formulas see it ----------------------------------------------------

/// Whether x_t = k_{t-1}, and the first row that writes.
bool shifted(const ExactProblem& p);
int first_row(const ExactProblem& p);
/// B, or 1 for a room without a window.
int window_of(const ExactProblem& p);

/// Rows x_t, a zero row for the start of a shifted sequence.
Matrix write_features(const ExactProblem& p);
/// The rows of the pairs that step t writes, without any incoming tail; none before first_row.
struct Rows {
  int first = 0, count = 0;
};
Rows window_at(const ExactProblem& p, int t);

/// The gains of every step; a row that does not write has eta = 0 and gamma = 1. FALCON-3A's rho is eta.
struct Gains {
  Vector energy, ridge, denominator, eta, gamma;
  std::vector<bool> follows;  ///< the decay is not at its floor
};
/// Of a room with one gain per step.
Gains gains_of(const ExactProblem& p);

/// Rows [first, first + count) as a problem of their own; a shifted one takes the key before them. State and tail are
/// those of `p`.
ExactProblem segment_of(const ExactProblem& p, int first, int count);

/// Value channel j of a falcon2 problem as one of falcon1.
ExactProblem channel_of(const ExactProblem& p, int j);
/// The answer to a falcon2 problem from those to its channels.
BasicAnswer<Mp200> of_channels(const std::vector<BasicAnswer<Mp200>>& channels);

// ---- the affine recurrence -----------------------------------------------------------------

/// S_t = S_{t-1} Diag(gamma_t) + (N_t - C_t S_{t-1}) Diag(eta_t), o_t = S_t^T q_t, with the window means N_t of x v^T
/// and C_t of x x^T (0 for an associative write); eta and gamma are [T, V].
struct Recurrence {
  Matrix q, initial_state;
  std::vector<Matrix> C, N;
  Matrix eta, gamma;
};
Recurrence recurrence_of(const ExactProblem& p);

struct Path {
  Matrix o, final_state;
};
Path run(const Recurrence& r);

// ---- chunkwise algorithms ----------------------------------------------------------------------

/// The erratum on trial: the one line of an algorithm that runs as printed while the others are correct.
struct Trial {
  std::string_view erratum;

  template <class X>
  X line(std::string_view id, X corrected, X printed) const {
    return erratum == id ? printed : corrected;
  }
};

// Answers of the algorithms, outputs and gradients under the names of the rooms, in chunks of `chunk` rows, the last
// one shorter; the gradients also hold "x", with the row of a sequence start. Cotangents of an outgoing tail count as
// zero.

/// Algorithms 7 and 8 (4.1): deltanet with scale 1 and beta >= 0.
BasicAnswer<Mp200> wy_formula(const ExactProblem& p, int chunk, const Trial& trial = {});
/// Algorithms 10 and 11 (4.3): falcon1 or falcon2_lite, decay > 0. `first` and `dummy` are the write feature and the
/// renormalized gain of a sequence start.
BasicAnswer<Mp200> lite_formula(const ExactProblem& p, int chunk, const Trial& trial = {}, const Vector& first = {},
                                const Mp200& dummy = 0);
/// Algorithm 4 and its reverse (4.4): falcon3 without incoming tail, decay > 0.
BasicAnswer<Mp200> flow_formula(const ExactProblem& p, int chunk);
/// Algorithms 5 and 6 (4.5): falcon3a without incoming tail.
BasicAnswer<Mp200> masked_formula(const ExactProblem& p, int chunk, const Trial& trial = {});
/// The ratio kernel (4.6): falcon1, falcon3, or deltanet with scale 1; any decay but 0, any gain.
BasicAnswer<Mp200> ratio_formula(const ExactProblem& p, int chunk);

/// M = D Diag(rho) A of 3.7, from FALCON-3A's gains: M(t, j) weighs the pair of row j at step t.
Matrix mask_of(const ExactProblem& p);

}  // namespace assay::identities::falcon_formulas
