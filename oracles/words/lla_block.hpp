#pragma once
// A block of queries that share keys: the engine behind lla.hpp.
#include <array>
#include <span>
#include <vector>

#include "oracles/words/lla.hpp"

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
  };
  Row row(std::size_t row);
};

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

/// Runs queries[0], queries[1], ... (at most block_queries, each with visible keys) in `words` words and writes their
/// rows of o and their bounds.
void run_block(const Head& head, std::span<const std::size_t> queries, int words, const Kernels& table, Certified& o);

}  // namespace assay::words::lla
