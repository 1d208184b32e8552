#pragma once
// Problems and answers as numbers of 200 digits: what identities, limits and errata are computed with.
#include <string>
#include <string_view>
#include <vector>

#include "oracles/core/room.hpp"
#include "oracles/scalars/scalar.hpp"
#include "reference/core/inputs.hpp"

namespace assay::identities {

using Vector = std::vector<Mp200>;

struct ExactProblem {
  std::string mechanism;
  Params params;
  BasicArrays<Mp200> inputs, cotangents;

  /// The value of a number under `params`.
  Mp200 number(std::string_view param) const;
  void set_number(std::string_view param, const Mp200& value);
};

/// One seeded head without a head axis: [T][K], [T], ...; cotangents for every output.
ExactProblem make(std::string_view mechanism, const Params& params = {}, int T = 7, int K = 4, int V = 3);

/// The room's answer in 200 digits. Throws what the room throws.
BasicAnswer<Mp200> answer(const ExactProblem& problem);

/// All numbers of some tensors, one after the other.
Vector flat(const BasicArrays<Mp200>& arrays, const std::vector<std::string_view>& names);

Vector difference(const Vector& a, const Vector& b);
Vector scaled(const Vector& a, const Mp200& factor);
/// The Euclidean norm.
Mp200 norm(const Vector& a);
/// |a - b| / |b|; 0 where both vanish.
Mp200 relative_error(const Vector& a, const Vector& b);

/// The text of a number with all digits that matter here.
std::string text_of(const Mp200& x);

}  // namespace assay::identities
