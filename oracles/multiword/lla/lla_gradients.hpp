#pragma once
// The adjoint of a block of queries: where eta was solved for, one more solve with the factors of the first;
// docs/error-analysis.md, section 6.
// With a_j = g.v_j, u_j = w_j (1/omega - x_j.eta) and beta the solution of A beta = -sum_j w_j a_j x_j:
//
//   phi_j = a_j - mean a + x_j.beta,   f_j = w_j phi_j,   D_j = u_j phi_j + what the ridge's own unit adds
//   d_q = S - beta,  S = sum_j D_j k_j / h,   d_h = -q.S / h,   d_lambda = -unit eta beta
//   d_k_j = sum_i D_ij q_i / h - f_ij eta_i + u_ij beta_i,   d_v_j = sum_i u_ij g_i
//
// Where eta was given as rho / omega or is 0, beta = 0 and d_rho = r / omega with the residual r = -sum_j f_j x_j; the
// weights move eta, which adds -w_j eta.r / omega to D_j.
#include <span>
#include <vector>

#include "oracles/multiword/lla/lla_block.hpp"

namespace assay::words::lla {

/// A cotangent of o, [Tq, V], and what only gradients want of a head.
struct Cotangent {
  Cotangent(const Head& head, std::span<const double> cotangent);

  std::vector<double> g, v_transposed;           ///< [Tq][value_stride], [V][key_stride]
  std::vector<double> norm, largest, query_max;  ///< [Tq] upper bounds: of g's 2-norm and entries, of q's entries
  std::vector<double> value_norm;                ///< [key] of v's 2-norm
};

/// The results that every query has for itself.
struct RowResults {
  RowResults(const LlaProblem& problem, int words);

  Certified o, d_q;
  Certified d_lambda;     ///< [Tq, K] or summed over the dimensions, [Tq, 1]; empty without one
  Certified d_probe;      ///< [Tq, K] or empty
  Certified d_bandwidth;  ///< [Tq, 1]: q.S, before the sum and -1/h
};

/// Sums over queries, while blocks come in.
struct KeySums {
  KeySums(const Head& head, int words);
  /// Ends a round of blocks of `words` words: its roundings go to the bounds.
  void settle(int words);
  /// Rows of the first `columns` numbers.
  static Certified certified(const Field& sums, const std::vector<double>& bound, std::size_t rows, std::size_t columns,
                             int words);

  Field d_k, d_v;                        ///< [key][dim_stride], [key][value_stride]
  std::vector<double> k_bound, v_bound;  ///< [key] of every entry
  std::vector<double> k_size, v_size;    ///< [key] sums of the sizes of an entry's terms
  std::vector<double> blocks;            ///< [key] how many came in since settle()
};

class GradientBlock : public Block {
 public:
  GradientBlock(const Head& head, const Cotangent& cotangent, std::span<const std::size_t> queries, int words,
                const Kernels& table);
  /// Computes the rows; which of them met the target, or have as many words as there may be. The others are to come
  /// again with more and are not in commit().
  std::vector<char> run(const Escalation& escalation, RowResults& results);
  /// Adds what the rows give to `keys`, counted from the head's first key.
  void commit(KeyRange keys, KeySums& sums);

 private:
  struct RowBound;

  void solve_adjoint();
  void set_euler(std::size_t b);
  void differentiate();
  SystemErrors adjoint_errors(std::size_t b, const RowErrors& row, std::vector<double>& a_size, double& mean_size);
  std::vector<char> rivals(std::size_t b, const RowErrors& row) const;
  double euler_error(std::size_t b, const RowErrors& row, const SystemErrors& line, const SystemErrors& adjoint);
  RowBound bound(std::size_t b);
  void bound_ridge(std::size_t b, const RowErrors& row, const SystemErrors& line, const SystemErrors& adjoint,
                   RowBound& to);
  void bound_probe(std::size_t b, const RowErrors& row, const SystemErrors& adjoint, RowBound& to);
  void write(std::size_t b, const RowBound& bound, RowResults& results);
  void write_ridge(std::size_t b, const RowBound& bound, RowResults& results);
  void write_probe(std::size_t b, const RowBound& bound, RowResults& results);
  void drop(std::size_t b);
  void add_bounds(const RowBound& bound);

  const Cotangent& cotangent_;
  const double factor_, factor_error_;  ///< upper bound of 1/h and its relative error
  System adjoint_;                      ///< A beta = -sum w a x, or its residual at beta = 0
  Field start_, gradient_;              ///< [query][key]: a, D / h
  Field shift_, probe_;                 ///< [query][dim]: S, eta beta
  std::vector<std::array<double, 4>> euler_;
  std::vector<double> g_, q_;                                ///< [query], this block's rows
  std::vector<double> k_bound_, v_bound_, k_size_, v_size_;  ///< [key], of the rows that count
};

}  // namespace assay::words::lla
