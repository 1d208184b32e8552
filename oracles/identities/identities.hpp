#pragma once
// Identities and limits of the specifications, measured: not one loose comparison, but the order and the coefficient at
// which a difference vanishes.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/identities/vectors.hpp"

namespace assay::identities {

struct IdentityResult {
  double measured_order = 0;         ///< of a limit
  double coefficient = 0;            ///< measured: the norm of distance / eps^order, extrapolated
  double predicted_coefficient = 0;  ///< its norm; NaN where none is given
  double error = 0;                  ///< relative: of the coefficients; of an identity the residual, or its bound
  double allowed = 0;                ///< what `error` may be
  bool passed = false;
};

/// An identity (order 0: the difference is zero) or a limit (the difference is coefficient * eps^order + higher
/// powers).
struct Identity {
  std::string_view name;       ///< "ridge_to_infinity"
  std::string_view mechanism;  ///< "lla"
  std::string_view statement;  ///< "lambda = 1/eps: o -> softmax_attention"
  std::string_view source;     ///< "lla-family.md 9"
  int order;
  /// The quantity that vanishes, at a given eps (for an identity, at eps = 0).
  std::function<Vector(const Mp200& eps)> distance;
  /// The size that rounding errors of an identity are relative to; the predicted coefficient of a limit, or empty where
  /// the specification gives the rate alone.
  std::function<Vector()> predicted;
  /// In place of both, of an identity that is proven.
  std::function<IdentityResult()> proof = {};
};

/// eps = 2^-60 and 2^-61 in 200 digits. An analytic difference has |D(eps)| / |D(eps/2)| = 2^order (1 + O(eps)), and
/// one Richardson step takes O(eps) out of D / eps^order: what is left of the coefficient is O(eps^2).
IdentityResult measure(const Identity& limit);

/// All of them, by family and in the order of the specifications.
const std::vector<Identity>& identities();

/// The rows of mechanisms/identities/json/NAME.json. Defined in tools/lab/identity_rows.cpp.
std::vector<Identity> program_identities(std::string_view name);

}  // namespace assay::identities
