#pragma once
// A block of queries that share keys: the engine behind lla.hpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <type_traits>
#include <vector>

#include "oracles/multiword/lla/lla_problem.hpp"
#include "oracles/multiword/magnitude.hpp"

namespace assay::words::lla {

inline constexpr std::size_t block_queries = 32;

/// `rows` rows of numbers of `words` words, one plane per word.
struct Field {
  std::size_t rows = 0, stride = 0;
  std::array<std::vector<double>, 4> plane;

  Field() = default;
  Field(int words, std::size_t r, std::size_t s);
  void clear();
  /// Pointers to row `row` of every plane.
  struct Row {
    double* plane[4];
    operator double* const*() const { return plane; }        // NOLINT(google-explicit-constructor)
    operator const double* const*() const { return plane; }  // NOLINT(google-explicit-constructor)
    /// From number `n` on.
    Row from(std::size_t n) const;
  };
  Row row(std::size_t row);
};

/// Upper bound on the 2-norm of `n` numbers.
double norm(const double* x, std::size_t n);
std::size_t rounded_up(std::size_t n, std::size_t to);

/// Size (sum.hpp) of number n of a row.
inline double size_at(const Field::Row& row, std::size_t n, int words) {
  double size = 0;
  for (int w = words; w-- > 0;) size = size * 0x1p53 + std::fabs(row.plane[w][n]);
  return size;
}
/// Sizes of the first n numbers of a row: their 2-norm, rounded up, and the largest.
struct RowSize {
  double norm, largest;
};
RowSize row_size(const Field::Row& row, std::size_t n, int words);

/// f(std::integral_constant<int, words>()).
template <class F>
decltype(auto) with_words(int words, F&& f) {
  if (words == 1) return f(std::integral_constant<int, 1>());
  if (words == 2) return f(std::integral_constant<int, 2>());
  if (words == 3) return f(std::integral_constant<int, 3>());
  return f(std::integral_constant<int, 4>());
}

template <int W>
portable::Words<double, W> words_of(const double* x) {
  portable::Words<double, W> r;
  std::copy_n(x, W, r.w);
  return r;
}
template <int W>
portable::Words<double, W> words_at(const Field::Row& row, std::size_t n) {
  portable::Words<double, W> r;
  for (int w = 0; w < W; ++w) r.w[w] = row.plane[w][n];
  return r;
}
template <int W>
void put(const Field::Row& row, std::size_t n, const portable::Words<double, W>& x) {
  for (int w = 0; w < W; ++w) row.plane[w][n] = x.w[w];
}

/// Keys [first, last).
struct KeyRange {
  std::size_t first, last;
};

/// The inputs of a head, padded and in both orders.
struct Head {
  explicit Head(const LlaProblem& problem);

  /// Keys that query i sees.
  KeyRange visible(std::size_t i) const;
  double lambda(std::size_t i, std::size_t a) const;

  const LlaProblem& problem;
  std::size_t dim_stride, value_stride, key_rows, key_stride;
  std::vector<double> q, k, k_transposed, v;
  std::vector<float> k_float;
  std::vector<double> key_norm, value_max, query_norm;  ///< upper bounds: 2-norm, largest entry, 2-norm
};

/// The state of one query beside the fields.
struct Query {
  std::size_t index;
  KeyRange keys;             ///< relative to the block's first key
  double shift = 0;          ///< m, a double
  double omega[4] = {};      ///< sum of the computed weights
  double inverse[4] = {};    ///< 1 / omega
  double inverse_error = 0;  ///< relative, to the exact sum of the computed weights
  double unit[4] = {};       ///< what lambda is times: exp(-m), max w or omega
  double unit_error = 0;     ///< absolute, beside the error of the weights
  std::size_t heaviest = 0;  ///< the first key of the largest weight; ridge mode max alone
  double ridge_least = 0;    ///< lower bound of the exact ridge
  double ridge_most = 0;     ///< upper bound of the computed ridge's sizes
  double ridge_error = 0;    ///< absolute, of every ridge entry
  double probe_error = 0;    ///< of the given rho, 2-norm
  double eigenvalue = 0;     ///< lower bound of the smallest eigenvalue of A
  double correction = 0, last_correction = 0;
  bool settled = false;  ///< the level of refine() has nothing more to say
  bool in_double = false;
};

/// Factors U and U^T of every query's preconditioner.
template <class R>
struct Factors {
  std::vector<R> U, L;
};

/// A x = pull - sum_j w_j (start_j - mean) x_j for every query, as residuals see it:
///   slope_j = start_j - mean + x_j . x,   residual = pull - ridge x - sum_j w_j slope_j (k_j - c)
struct System {
  System(int words, std::size_t queries, std::size_t key_stride, std::size_t dim_stride);

  Field unknown, residual, pull;  ///< [query][dim]
  Field slope;                    ///< [query][key]
  Field* start = nullptr;         ///< [query][key]; none: 0
  bool trivial = false;           ///< the unknown is 0
  std::vector<std::array<double, 4>> mean;
};

/// Section 5.2 of docs/error-analysis.md for one row: what its weights, mean and matrix may be off by.
struct RowErrors {
  bool tame = false;  ///< else nothing is known
  double key_size = 0, center_size = 0;
  double gamma_d = 0, gamma_n = 0, gamma_dot = 0, rows = 0;
  double omega = 0;                       ///< lower bound
  double weight_per_key = 0, weight = 0;  ///< relative error of weight j: weight_per_key |k_j| + weight
  double sum_e = 0, largest_e = 0;        ///< of the weights' errors
  double mean = 0;                        ///< of c, 2-norm
  double normalised = 0;                  ///< relative, of 1 / omega and its product with a number
  double ridge = 0, unit = 0;             ///< absolute, of every ridge entry and of what lambda is times
  double eigenvalue = 0;                  ///< lower bound of the exact matrix's smallest; 0: none; 1 without a system
};

/// Bounds on the errors of the computed solution of one row. Infinite where there is no proof.
struct SystemErrors {
  double size = 0, largest = 0;  ///< of the unknown: sizes' 2-norm and largest entry
  double energy = 0;             ///< of the unknown, in the norm of A; 0 where nothing is solved for
  double norm = 0;               ///< of the unknown, 2-norm
  double missed = 0;             ///< of the computed residual, 2-norm
  std::vector<double> slope;     ///< [key] roundings in the slope at the computed unknown ...
  std::vector<double> product;   ///< [key] ... and of the weight times it
};

/// The bounds that output() found for a row.
struct RowProof {
  RowErrors row;
  SystemErrors line;          ///< of eta
  std::vector<double> score;  ///< [key] roundings of w_j / omega - u_j at the computed eta
};

/// Runs queries[0], queries[1], ... (at most block_queries, each with visible keys) in `words` words.
class Block {
 public:
  Block(const Head& head, std::span<const std::size_t> queries, int words, const Kernels& table);
  /// Weights, mean and eta, with ridge and factors where it is solved for.
  void solve();
  /// o = sum_j (w_j / omega - u_j) v_j and its bounds.
  void output(Certified& o);

 protected:
  void refine(System& system);
  /// The system's slopes, and weight times slope in product_.
  void slopes(System& system, int words);
  /// The system's residual, for the slopes and products just computed.
  void close(System& system, int words);
  void residual(System& system, int words) { slopes(system, words), close(system, words); }
  RowErrors row_errors(std::size_t b);
  /// `slope`: the error of the slopes; `pull`: the error and the size of the right-hand side.
  SystemErrors system_errors(std::size_t b, const RowErrors& row, System& system, std::vector<double> slope,
                             double pull_error, double pull_size);

  std::size_t count() const { return queries_.size(); }
  double weight(std::size_t b, std::size_t j) const { return weight_.plane[0][b * weight_.stride + j]; }
  double weight_error(const RowErrors& row, std::size_t b, std::size_t j) const {
    const double w = weight(b, j);
    const double relative = row.weight_per_key * head_.key_norm[first_key_ + j] + row.weight;
    return w == 0 ? dropped_weight : w * relative * (1 + 0x1p-39);
  }

  const Head& head_;
  const LlaProblem& problem_;
  const int words_;
  const Kernels& table_;
  const WordKernels& kernels_;
  const Constants& constants_;
  std::vector<Query> queries_;
  std::size_t first_key_, keys_, padded_queries_, stride_;
  Field weight_, product_, score_;  ///< [query][key]: w, w times slope, w (1 / omega - x . eta)
  Field center_, ridge_, out_;      ///< [query][dim]
  System line_;                     ///< A eta = c - q
  std::vector<RowProof> proofs_;    ///< [query]

 private:
  void weigh();
  void centre();
  void set_probe(std::size_t b);
  void set_ridge(std::size_t b);
  template <class R>
  bool factor(std::size_t b, Factors<R>& factors, const Preconditioner<R>& kernels, const R* keys);
  template <class R>
  void raise_eigenvalue(std::size_t b, std::vector<R>& A, const Factors<R>& factors, const Preconditioner<R>& kernels);
  void precondition(std::size_t b);
  void correct(System& system);
  bool strengthen(int step, int level);
  double weakest_eigenvalue(std::size_t b, const RowErrors& row, double sum_k, double mean_k);
  SystemErrors line_errors(std::size_t b, const RowErrors& row);
  std::vector<double> score_errors(std::size_t b, const RowErrors& row, const SystemErrors& line);
  double bound(std::size_t b);

  std::vector<std::array<double, 4>> sum_product_;
  std::vector<Factors<float>> in_float_;
  std::vector<Factors<double>> in_double_;
};

}  // namespace assay::words::lla
