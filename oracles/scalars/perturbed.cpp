#include "oracles/scalars/perturbed.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "reference/core/per_machine.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// Uniform in [-1/2, 1/2), number `index` of the stream of `key` (the finaliser of MurmurHash3 on a Weyl sequence).
inline double centred(std::uint32_t key, std::uint32_t index) {
  std::uint32_t h = key + index * 0x9e3779b9U;
  h = (h ^ (h >> 16)) * 0x85ebca6bU;
  h = (h ^ (h >> 13)) * 0xc2b2ae35U;
  return static_cast<double>(static_cast<std::int32_t>(h ^ (h >> 16))) * 0x1p-32;
}

/// The power of two at or below |x|, of a number that is no subnormal.
inline double binade(double x) { return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0x7ff0000000000000U); }

/// y, negated where x is negative.
inline double with_sign_of(double x, double y) {
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(y) ^ (std::bit_cast<std::uint64_t>(x) & sign));
}

/// out_i = x_i + (shift + centred) spacing(x_i), zeros as they are. `shift` is 0, or -1/2 towards zero.
ASSAY_PER_MACHINE void perturb_line(const double* __restrict x, int n, std::uint32_t key, std::uint32_t from,
                                    double unit, double least, double shift, double* __restrict out) {
  for (int i = 0; i < n; ++i) {
    const double size = std::max(binade(x[i]) * unit, least);
    const double u = centred(key, from + static_cast<std::uint32_t>(i)) + with_sign_of(x[i], shift);
    const double off = x[i] + u * size;
    out[i] = x[i] == 0 ? x[i] : off;
  }
}

/// y_i += a x_i, where the product, the sum, and what decays y before, round to a grid: one number that has the
/// variance of all three.
ASSAY_PER_MACHINE void rounded_add_scaled(double* __restrict y, double a, const double* __restrict x, int n,
                                          std::uint32_t key, std::uint32_t from, double unit) {
  for (int i = 0; i < n; ++i) {
    const double term = a * x[i], sum = y[i] + term;
    const double of_term = binade(term) * unit, of_sum = binade(sum) * unit;
    y[i] =
        sum + centred(key, from + static_cast<std::uint32_t>(i)) * std::sqrt(of_term * of_term + 2 * of_sum * of_sum);
  }
}

constexpr int lanes = 8;

/// The sum of the products and that of their squares, in eight sums each, whatever the machine adds at once.
struct Moments {
  double sum, squares;
};
ASSAY_PER_MACHINE Moments moments(const double* __restrict a, const double* __restrict b, int n) {
  using Lanes __attribute__((vector_size(lanes * sizeof(double)))) = double;
  Lanes sums{}, squares{}, x{}, y{};
  int i = 0;
  for (; i + lanes <= n; i += lanes) {
    std::memcpy(&x, a + i, sizeof x), std::memcpy(&y, b + i, sizeof y);
    const Lanes terms = x * y;
    sums += terms, squares += terms * terms;
  }
  for (int l = 0; i < n; ++i, ++l) {
    const double term = a[i] * b[i];
    sums[l] += term, squares[l] += term * term;
  }
  Moments m{0, 0};
  for (int l = 0; l < lanes; ++l) m.sum += sums[l], m.squares += squares[l];
  return m;
}

bool same(const Strided& x, const std::vector<double>& numbers) {
  if (static_cast<std::size_t>(x.size) != numbers.size()) return false;
  if (x.size == 0 || x.first[0] != numbers[0]) return x.size == 0;
  if (x.step == 1 && std::memcmp(x.first, numbers.data(), numbers.size() * sizeof(double)) == 0) return true;
  for (int i = 0; i < x.size; ++i)
    if (x.first[i * x.step] != numbers[static_cast<std::size_t>(i)]) return false;
  return true;
}

}  // namespace

/// What binary32 and its like cannot hold as a normal number is flushed to zero by much hardware.
PerturbedArithmetic::Grid::Grid(Format format)
    : unit(std::ldexp(1.0, -info(format).mantissa_bits)),
      least(std::max(info(format).min_positive, info(format).min_exponent == -126 ? 0x1p-126 : 0.0)) {}

PerturbedArithmetic::PerturbedArithmetic(Format format, Operands operands, std::uint64_t seed, States states)
    : operand_grid_(format),
      sum_grid_(info(format).mantissa_bits > info(Format::fp32).mantissa_bits ? format : Format::fp32),
      narrow_(operand_grid_.unit == sum_grid_.unit),
      operands_(operands),
      states_(states),
      seed_(seed),
      before_(active) {
  active = this;
}

PerturbedArithmetic::~PerturbedArithmetic() { active = before_; }

/// A stream for each 2^32 numbers, so that none is drawn twice.
std::uint32_t PerturbedArithmetic::key() const {
  return static_cast<std::uint32_t>(RandomBits{seed_}.at(drawn_ >> 32) >> 32);
}

double PerturbedArithmetic::uniform() {
  const double u = centred(key(), static_cast<std::uint32_t>(drawn_));
  ++drawn_;
  return u;
}

void PerturbedArithmetic::perturb(const double* x, int n, double* out) {
  const double shift = operands_ == Operands::cut_off ? -0.5 : 0;
  perturb_line(x, n, key(), static_cast<std::uint32_t>(drawn_), operand_grid_.unit, operand_grid_.least, shift, out);
  drawn_ += static_cast<std::uint64_t>(n);
}

double PerturbedArithmetic::exponential(double power) {
  return one_rounding_off(power, sum_grid_.unit == 0x1p-52 ? 1 : 4);
}

double PerturbedArithmetic::one_rounding_off(double x, double units) {
  if (!std::isfinite(x)) return x;
  const double u = uniform(), size = x == 0 ? 0 : units * std::max(binade(x) * sum_grid_.unit, sum_grid_.least);
  // A double holds no fraction of its own spacing: a whole one, as rarely as gives the variance of a rounding.
  if (sum_grid_.unit == 0x1p-52) return std::fabs(u) < 0.5 - 1.0 / 24 ? x : x + std::copysign(size, u);
  return x + u * size;
}

/// A line that was just read is the same operand still: rounded once, for all the products that it goes into. It is
/// known by its numbers: where they lie is the allocator's affair.
const double* PerturbedArithmetic::operand(const Strided& x, Reads& reads) {
  Read* oldest = &reads.front();
  for (Read& read : reads) {
    if (same(x, read.exact)) {
      read.when = ++calls_;
      return read.perturbed.data();
    }
    if (read.when < oldest->when) oldest = &read;
  }
  oldest->when = ++calls_;
  oldest->exact.resize(static_cast<std::size_t>(x.size)), oldest->perturbed.resize(oldest->exact.size());
  if (x.step == 1)
    std::copy_n(x.first, x.size, oldest->exact.begin());
  else
    for (int i = 0; i < x.size; ++i) oldest->exact[static_cast<std::size_t>(i)] = x.first[i * x.step];
  if (narrow_)
    oldest->perturbed = oldest->exact;
  else
    perturb(oldest->exact.data(), x.size, oldest->perturbed.data());
  return oldest->perturbed.data();
}

double PerturbedArithmetic::dot(double sum, const Strided& a, const Strided& b, double sign) {
  if (a.size == 0) return sum;
  const double* left = operand(a, first_);
  const Moments m = moments(left, operand(b, second_), a.size);
  // Every product and every partial sum rounds. Of n terms of mean m and variance v the k-th partial sum squared is
  // (k m)^2 + k v, and over all k that is n^3 m^2 / 3 + n^2 v / 2.
  const double n = a.size;
  const double partial = n / 3 * m.sum * m.sum + n / 2 * std::max(0.0, m.squares - m.sum * m.sum / n);
  // (spacing / x)^2 in the mean over binades is 3 / (8 ln 2) in units of the spacing at 1.
  const double width = std::sqrt((m.squares + partial) * 0.5410106403333613) * sum_grid_.unit;
  const double total = sum + sign * (m.sum + uniform() * width);
  return narrow_ ? one_rounding_off(total) : total;
}

void PerturbedArithmetic::add_scaled(double* y, std::ptrdiff_t step, double a, const Strided& x, double sign) {
  if (narrow_) {
    for (int i = 0; i < x.size; ++i)
      y[i * step] = one_rounding_off(y[i * step] + sign * one_rounding_off(a * x.first[i * x.step]));
    return;
  }
  double factor = 0;
  perturb(&a, 1, &factor);
  const double* line = operand(x, scaled_);
  if (step != 1) {
    for (int i = 0; i < x.size; ++i) y[i * step] = one_rounding_off(y[i * step] + sign * factor * line[i]);
    return;
  }
  rounded_add_scaled(y, sign * factor, line, x.size, key(), static_cast<std::uint32_t>(drawn_), sum_grid_.unit);
  drawn_ += static_cast<std::uint64_t>(x.size);
}

}  // namespace assay
