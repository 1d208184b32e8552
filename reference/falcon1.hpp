#pragma once
// FALCON-1, one head (falcon-family.md 3.1): one normalised least-mean-squares step per token on a ridge-regularised
// squared error,
//   D_t = |x_t|^2 + ridge_t + eps,   eta_t = beta_t / D_t,   gamma_t = 1 - eta_t ridge_t   (kept above decay_floor)
//   S_t = gamma_t S_{t-1} + eta_t x_t (v_t - S_{t-1}^T x_t)^T,   o_t = S_t^T q_t
// The ridge is lambda_t, or lambda_t |x_t|^2 with ridge_coupling.
#include <string_view>

#include "reference/families/falcon_rule.hpp"

namespace assay {

struct falcon1 : FalconRule<false> {
  static constexpr std::string_view name = "falcon1";
  static constexpr std::string_view summary = "normalised delta rule with a ridge that decays the state";
};

}  // namespace assay
