#pragma once
// Local linear attention (lla-family.md sections 3 and 4), Parallax (2), softmax attention (1), and their gradients, in
// two to four words with a proven bound for every row.
//
// With w_j = exp(q.k_j / h - m), omega = sum w, c = sum w k / omega, x_j = k_j - c, A = sum w x x^T + diag(ridge):
//
//   A eta = c - q,   o = sum_j w_j (1/omega - x_j . eta) v_j
//
// A is never built in words. Its factor in float (or double) drives a refinement whose residuals gain words step by
// step, and the last residual bounds the error; the gradients take one more solve with the same factor. Parallax has
// the same o with eta = rho / omega of a given rho, softmax attention with eta = 0: neither solves anything.
// docs/error-analysis.md, sections 5 and 6.
#include <span>

#include "oracles/multiword/certified.hpp"
#include "oracles/multiword/number.hpp"

namespace assay::words {

/// In which units lambda is given (lla-family.md section 3): of w itself, of w / max w, of w / sum w.
enum class RidgeMode { absolute, max, mass };

/// Where eta comes from: local linear attention, Parallax, softmax attention.
enum class Slope { solved, given, zero };

/// One head; row-major; taken as exact. All magnitudes below 2^100, at most 2^20 keys of dimension at most 2^10.
struct LlaProblem {
  std::size_t queries = 0, keys = 0, dim = 0, values = 0;
  std::span<const double> q, k, v;  ///< [Tq, K], [Tk, K], [Tk, V]
  std::span<const double> lambda;   ///< [1], [Tq] or [Tq, K], >= 0; only where eta is solved for
  RidgeMode mode = RidgeMode::mass;
  bool causal = true;      ///< end-aligned: query i sees the keys up to i + Tk - Tq
  std::size_t window = 0;  ///< the newest so many of them; 0: all
  Factor inverse_bandwidth = exactly(1);
  Slope slope = Slope::solved;
  std::span<const double> probe;              ///< rho, [Tq, K]; only where eta is given ...
  const Certified* probe_in_words = nullptr;  ///< ... and not in words, each within its bound
};

/// A row whose bound exceeds target * max |o| is computed again with one word more, up to `most_words`; for gradients
/// also one whose bounds exceed target * the sum of its absolute terms.
struct Escalation {
  double target = 0x1p-63;
  int most_words = 4;
};

struct LlaAnswer {
  Certified o;                  ///< [Tq, V], the bounds of a row are equal; infinite where no proof was found
  std::vector<int> words_used;  ///< [Tq]
};

/// A row without visible keys is zero. Throws InputError if a span has the wrong length or anything is out of range.
LlaAnswer lla_forward(const LlaProblem& problem, const Effort& effort, const Escalation& escalation = {});

struct LlaGradients {
  Certified o;                  ///< [Tq, V]
  Certified d_q, d_k, d_v;      ///< [Tq, K], [Tk, K], [Tk, V]; the bounds of a row are equal
  Certified d_lambda;           ///< [1, 1], [Tq, 1] or [Tq, K], as lambda was given; else empty
  Certified d_probe;            ///< [Tq, K] where a probe was given; the bounds of a row are equal
  Certified d_bandwidth;        ///< [1, 1], by h of w = exp(q.k / h)
  std::vector<int> words_used;  ///< [Tq]
};

/// o and the gradients of sum g o. In ridge mode max the largest score is the first of the largest; where others come
/// as close as their errors, the bounds hold what that may change. Rows without visible keys give nothing, nor do rows
/// of g that are zero. d_k and d_v add up in the order of the queries, the last first: all threads give the same bits.
/// Throws InputError as lla_forward does, and if g, [Tq, V], has the wrong length or anything at or above 2^100.
LlaGradients lla_backward(const LlaProblem& problem, std::span<const double> g, const Effort& effort,
                          const Escalation& escalation = {});

}  // namespace assay::words
