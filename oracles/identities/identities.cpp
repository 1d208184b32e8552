#include "oracles/identities/identities.hpp"

#include <cmath>
#include <limits>

namespace assay::identities {
namespace {

constexpr int eps_exponent = 60;

double as_double(const Mp200& x) { return static_cast<double>(x); }

IdentityResult measure_identity(const Identity& limit) {
  IdentityResult result;
  // 200 digits, of which cancellation may take a quarter.
  result.allowed = 1e-150;
  const Mp200 size = norm(limit.predicted()), off = norm(limit.distance(Mp200(0)));
  result.error = off == 0 ? 0 : as_double(off / size);
  result.passed = size > 0 && result.error <= result.allowed;
  return result;
}

IdentityResult measure_limit(const Identity& limit) {
  const Mp200 eps = ldexp(Mp200(1), -eps_exponent), half = eps / 2;
  const Vector at_eps = limit.distance(eps), at_half = limit.distance(half);
  IdentityResult result;
  const Mp200 large = norm(at_eps), small = norm(at_half);
  if (small == 0 || large == 0) return result;
  result.measured_order = as_double(log(Mp200(large / small)) / log(Mp200(2)));
  const Vector c = scaled(at_eps, 1 / pow(eps, limit.order)), c_half = scaled(at_half, 1 / pow(half, limit.order));
  const Vector measured = difference(scaled(c_half, 2), c);
  result.coefficient = as_double(norm(measured));
  const Vector predicted = limit.predicted();
  // Constants of the expansions are moderate: 2^20 eps of slack in the order, and 2^20 eps^2 in the coefficient.
  const double order_slack = std::ldexp(1.0, 20 - eps_exponent);
  const bool order_holds = std::fabs(result.measured_order - limit.order) <= order_slack;
  if (predicted.empty()) {
    result.predicted_coefficient = result.error = result.allowed = std::numeric_limits<double>::quiet_NaN();
    result.passed = order_holds;
    return result;
  }
  result.allowed = std::ldexp(1.0, 20 - 2 * eps_exponent);
  result.predicted_coefficient = as_double(norm(predicted));
  result.error = as_double(relative_error(measured, predicted));
  result.passed = order_holds && result.error <= result.allowed;
  return result;
}

}  // namespace

IdentityResult measure(const Identity& limit) {
  if (limit.proof) return limit.proof();
  return limit.order == 0 ? measure_identity(limit) : measure_limit(limit);
}

const std::vector<Identity>& identities() {
  static const std::vector<Identity> all = [] {
    std::vector<Identity> list;
    for (const char* family :
         {"lla_family", "delta_family", "falcon_gains", "falcon_chunks", "falcon_family", "falcon_relations"}) {
      const std::vector<Identity> more = program_identities(family);
      list.insert(list.end(), more.begin(), more.end());
    }
    return list;
  }();
  return all;
}

}  // namespace assay::identities
