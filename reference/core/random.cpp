#include "reference/core/random.hpp"

#include <Random123/philox.h>

#include <bit>
#include <cmath>

namespace assay {
namespace {

/// Natural logarithm of a normal number: 2 artanh((m - 1) / (m + 1)) by its series, for m in [2^-1/2, 2^1/2].
double log_by_series(double x) {
  constexpr std::uint64_t fraction = (std::uint64_t{1} << 52) - 1;
  const auto pattern = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(pattern >> 52) - 1023;
  auto m = std::bit_cast<double>((pattern & fraction) | (std::uint64_t{1023} << 52));
  if (m > 1.4142135623730951) m *= 0.5, ++exponent;
  const double f = (m - 1) / (m + 1), square = f * f;  // square < 0.0295: the first term left out is below 2^-65
  double series = 1.0 / 23;
  for (int k = 21; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return exponent * 0.69314718055994531 + 2 * f * series;
}

template <std::size_t N>
double polynomial(const double (&coefficients)[N], double x) {
  double sum = coefficients[N - 1];
  for (std::size_t i = N - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// AS241, routine PPND16: numerators and denominators, constant term first.
constexpr double centre_above[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                                   1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                   3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr double centre_below[] = {1.0,
                                   4.2313330701600911252e+1,
                                   6.8718700749205790830e+2,
                                   5.3941960214247511077e+3,
                                   2.1213794301586595867e+4,
                                   3.9307895800092710610e+4,
                                   2.8729085735721942674e+4,
                                   5.2264952788528545610e+3};
constexpr double middle_above[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                   3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                   2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double middle_below[] = {1.0,
                                   2.05319162663775882187e0,
                                   1.67638483018380384940e0,
                                   6.89767334985100004550e-1,
                                   1.48103976427480074590e-1,
                                   1.51986665636164571966e-2,
                                   5.47593808499534494600e-4,
                                   1.05075007164441684324e-9};
constexpr double tail_above[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                 2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                 2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double tail_below[] = {1.0,
                                 5.99832206555887937690e-1,
                                 1.36929880922735805310e-1,
                                 1.48753612908506148525e-2,
                                 7.86869131145613259100e-4,
                                 1.84631831751005468180e-5,
                                 1.42151175831644588870e-7,
                                 2.04426310338993978564e-15};

}  // namespace

std::array<std::uint32_t, 4> philox4x32_10(const std::array<std::uint32_t, 4>& counter,
                                           const std::array<std::uint32_t, 2>& key) {
  using Philox = r123::Philox4x32_R<10>;
  const Philox::ctr_type out =
      Philox{}(Philox::ctr_type{{counter[0], counter[1], counter[2], counter[3]}}, Philox::key_type{{key[0], key[1]}});
  return {out[0], out[1], out[2], out[3]};
}

double normal_quantile(std::uint64_t bits) {
  const std::uint64_t k = (bits >> 11) & ((std::uint64_t{1} << 52) - 1);
  const double q = (static_cast<double>(k) + 0.5) * 0x1p-53;  // exact: k + 1/2 has 53 bits
  double z;
  if (q <= 0.425) {
    const double r = 0.180625 - q * q;
    z = q * polynomial(centre_above, r) / polynomial(centre_below, r);
  } else {
    const double r = std::sqrt(-log_by_series(0.5 - q));
    z = r <= 5 ? polynomial(middle_above, r - 1.6) / polynomial(middle_below, r - 1.6)
               : polynomial(tail_above, r - 5) / polynomial(tail_below, r - 5);
  }
  return bits >> 63 ? -z : z;
}

std::uint64_t Stream::bits(std::uint64_t index) const {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const auto words = philox4x32_10({low(index), high(index), low(name_), high(name_)}, {low(seed_), high(seed_)});
  return std::uint64_t{words[1]} << 32 | words[0];
}

}  // namespace assay
