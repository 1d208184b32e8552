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

#include "oracles/multiword/lla/lla_problem.hpp"

namespace assay::words {

/// A row without visible keys is zero. Throws InputError if a span has the wrong length or anything is out of range.
LlaAnswer lla_forward(const LlaProblem& problem, const Effort& effort, const Escalation& escalation = {});

/// o and the gradients of sum g o. In ridge mode max the largest score is the first of the largest; where others come
/// as close as their errors, the bounds hold what that may change. Rows without visible keys give nothing, nor do rows
/// of g that are zero. d_k and d_v add up in the order of the queries, the last first: all threads give the same bits.
/// Throws InputError as lla_forward does, and if g, [Tq, V], has the wrong length or anything at or above 2^100.
LlaGradients lla_backward(const LlaProblem& problem, std::span<const double> g, const Effort& effort,
                          const Escalation& escalation = {});

}  // namespace assay::words
