#pragma once
// FALCON-2, one head (falcon-family.md 3.3): FALCON-1 with a step size per value channel j,
//   D_t = |x_t|^2 + ridge_t + eps,   eta_tj = beta_tj / D_t,   gamma_tj = 1 - eta_tj ridge_t   (kept above decay_floor)
//   S_t = S_{t-1} Diag(gamma_t) + x_t (eta_t o (v_t - S_{t-1}^T x_t))^T,   o_t = S_t^T q_t
// The ridge is lambda_t, or lambda_t |x_t|^2 with ridge_coupling.
#include <string_view>

#include "reference/families/falcon_rule.hpp"

namespace assay {

struct falcon2 : FalconRule<true> {
  static constexpr std::string_view name = "falcon2";
  static constexpr std::string_view summary = "FALCON-1 with a step size per value channel";
};

}  // namespace assay
