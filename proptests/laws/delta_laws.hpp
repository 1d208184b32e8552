#pragma once
// Laws that rooms of the delta family share (delta-family.md): the chunkwise form 3.3 as the second definition of the
// first-order rules, and what rotations, rescalings, closed gates and single columns change.
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proptests/core/exact_problem.hpp"
#include "proptests/laws/laws.hpp"
#include "proptests/laws/reference_laws.hpp"

namespace assay::laws {

/// One head of a first-order rule: D and beta are spelled out for rules that have none.
struct FirstOrderHead {
  bool error = false, decayed = false;
  Mp100 scale;
  ExactMatrix q, k, v, p, beta, D, state;
};

FirstOrderHead first_order_head(std::string_view room, const ExactProblem& problem, int head);

/// Outputs and final state of one head by one chunk of all tokens: the errors solve (I + L) E = V - P S, row by row.
std::pair<ExactMatrix, ExactMatrix> one_chunk(const FirstOrderHead& h);

/// The recurrence is the chunkwise form with C >= T (I1); for rules without an error that is masked attention.
std::string is_one_chunk(const Room& room, const Problem& given);

/// The problem with -inf in every log gate of token T/2.
Problem with_closed_gates(const Room& room, Problem problem);

/// Where a gate is closed its log gradient is zero, and all gradients are the adjoint still (I1, section 7).
std::string closed_gates_have_gradient_zero(const Room& room, const Problem& problem);

/// The chunkwise form holds through closed gates (I1).
std::string closed_gates_are_one_chunk(const Room& room, const Problem& problem);

/// Another orthonormal basis of the keys, a Householder reflection of every tensor along its key axis, changes no
/// output but the states, which turn with it (I13).
std::string keys_may_be_rotated(const Room& room, const Problem& problem);

/// The problem of the last value column alone has that column's outputs, and its gradients of values and states (I13).
std::string value_columns_are_independent(const Room& room, const Problem& problem);

/// Products of numbers good to 100 digits that should add up to zero.
class ExactBalance {
 public:
  void add(int sign, const Mp100& product) {
    sum_ += sign * product;
    size_ += abs(product);
  }
  /// As above, with row t of two matrices: column x alone, or all if x < 0.
  void add_row(int sign, const ExactMatrix& a, const ExactMatrix& b, int t, int x = -1) {
    for (int i = x < 0 ? 0 : x; i < (x < 0 ? a.size(1) : x + 1); ++i) add(sign, a(t, i) * b(t, i));
  }
  /// "" if the terms vanish but for the last twenty digits of their size.
  template <class... Parts>
  std::string violation(const Parts&... what) const {
    if (abs(sum_) <= Mp100("1e-80") * size_) return "";
    return text(what..., ": ", to_decimal(sum_, 5), " is left of terms of size ", to_decimal(size_, 5));
  }

 private:
  Mp100 sum_ = 0, size_ = 0;
};

/// Scaling key channel i by r, and that of queries and prediction keys by 1/r, scales row i of every state by r and
/// changes no output. The derivative at r = 1, for rules whose p is independent of k:
///   sum_t k dk - q dq - p dp + S_0 dS_0 + z_0 dz_0 = S_T dS_T + z_T dz_T
std::string channels_may_be_rescaled(const Room& room, const Problem& problem);

/// <k_t, dk_t> = weight_t dweight_t where k_t does nothing but be written (section 4).
std::string written_keys_scale_like(const char* weight, const Room& room, const Problem& problem);

/// The gate gradients of first-order rules telescope (sections 3.2 and 4), for scalar gates summed over channels:
///   none:       dg_t + k dk - q dq = dg_{t+1}
///   undecayed:  dg_t + k dk - q dq = dg_{t+1} + p_{t+1} dp_{t+1}
///   decayed, p = k:  dg_t + 2 beta dbeta - k dk - q dq = dg_{t+1}   (k dk holds beta dbeta and p dp)
/// The right side is S_T dS_T after the last token, and S_0 dS_0 before the first.
std::string gate_gradients_telescope(const Room& room, const Problem& problem);

/// Gives all channels of a gate the first one's values; that one gate.
template <class A>
A make_one_gate(A& g) {
  A one({g.shape[0], g.shape[1]});
  const auto K = static_cast<std::size_t>(g.shape[2]);
  for (std::size_t i = 0; i < g.data.size(); ++i) g.data[i] = one.data[i / K] = g.data[i / K * K];
  return one;
}
/// Summed over channels, as the gradient of the one gate is.
template <class A>
A over_channels(const A& d) {
  A total({d.shape[0], d.shape[1]});
  const auto K = static_cast<std::size_t>(d.shape[2]);
  for (std::size_t i = 0; i < d.data.size(); ++i) total.data[i / K] += d.data[i];
  return total;
}

/// Equal channels are one gate: the rule called `scalar`, whose gate gradient is the sum over channels (I14).
std::string equal_channels_are(const char* scalar, const Room& room, const Problem& problem);
/// The same of their kernels, for a drawn case.
void expect_equal_channels_are(std::string_view scalar, std::string_view room);

}  // namespace assay::laws
