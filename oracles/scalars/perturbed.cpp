#include "oracles/scalars/perturbed.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/core/per_machine.hpp"
#include "reference/core/random.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// The finaliser of MurmurHash3 on a Weyl sequence: number `index` of the stream that begins with two words, of which
/// the first says where in the sequence, and the second which one.
inline std::uint32_t hashed(std::uint32_t first, std::uint32_t second, std::uint32_t index) {
  std::uint32_t h = first + index * 0x9e3779b9U;
  h = (h ^ (h >> 16)) * 0x85ebca6bU + second;
  h = (h ^ (h >> 13)) * 0xc2b2ae35U;
  return h ^ (h >> 16);
}

/// The same, uniform in [-1/2, 1/2).
inline double centred(std::uint32_t first, std::uint32_t second, std::uint32_t index) {
  return static_cast<double>(static_cast<std::int32_t>(hashed(first, second, index))) * 0x1p-32;
}

/// The power of two at or below |x|, of a number that is no subnormal.
inline double binade(double x) { return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0x7ff0000000000000U); }

/// The spacing at x of a format that has `unit` at 1, and nowhere less than `least`.
inline double spacing(double x, double unit, double least) { return std::max(binade(x) * unit, least); }

/// y, negated where x is negative.
inline double with_sign_of(double x, double y) {
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(y) ^ (std::bit_cast<std::uint64_t>(x) & sign));
}

/// out_i = x_i + (shift + centred) spacing(x_i), zeros as they are. `shift` is 0, or -1/2 towards zero.
ASSAY_PER_MACHINE void perturb_line(const double* __restrict x, int n, std::uint32_t first, std::uint32_t second,
                                    std::uint32_t from, double unit, double least, double shift,
                                    double* __restrict out) {
  for (int i = 0; i < n; ++i) {
    const double u = centred(first, second, from + static_cast<std::uint32_t>(i)) + with_sign_of(x[i], shift);
    const double off = x[i] + u * spacing(x[i], unit, least);
    out[i] = x[i] == 0 ? x[i] : off;
  }
}

/// x_i += centred spacing(x_i); zeros, and what is not finite, as they are.
ASSAY_PER_MACHINE void round_line(double* __restrict x, int n, std::uint32_t first, std::uint32_t second, double unit,
                                  double least) {
  for (int i = 0; i < n; ++i) {
    const double off = x[i] + centred(first, second, static_cast<std::uint32_t>(i)) * spacing(x[i], unit, least);
    x[i] = x[i] == 0 || !(std::fabs(x[i]) <= std::numeric_limits<double>::max()) ? x[i] : off;
  }
}

/// y_i += a x_i, where the product, the sum, and what decays y before, round to a grid: one number that has the
/// variance of all three.
ASSAY_PER_MACHINE void rounded_add_scaled(double* __restrict y, double a, const double* __restrict x, int n,
                                          std::uint32_t first, std::uint32_t second, std::uint32_t from, double unit) {
  for (int i = 0; i < n; ++i) {
    const double term = a * x[i], sum = y[i] + term;
    const double of_term = binade(term) * unit, of_sum = binade(sum) * unit;
    const double u = centred(first, second, from + static_cast<std::uint32_t>(i));
    y[i] = sum + u * std::sqrt(of_term * of_term + 2 * of_sum * of_sum);
  }
}

/// By how much a sum is off that rounds to a grid, of n products whose sum and sum of squares that are: the width of a
/// uniform number. Every product and every partial sum rounds. The square of the k-th partial sum of n terms of mean m
/// and variance v is (k m)^2 + k v, and over all k that is n^3 m^2 / 3 + n^2 v / 2.
inline double width_of_sum(double sum, double squares, double n, double unit) {
  const double partial = n / 3 * sum * sum + n / 2 * std::max(0.0, squares - sum * sum / n);
  // (spacing / x)^2 in the mean over binades is 3 / (8 ln 2) in units of the spacing at 1.
  return std::sqrt((squares + partial) * 0.5410106403333613) * unit;
}

/// y_i += sums_i, where these and their terms round to a grid.
ASSAY_PER_MACHINE void add_rounded_sums(double* __restrict y, const double* __restrict sums,
                                        const double* __restrict squares, const double* __restrict terms, int n,
                                        std::uint32_t first, std::uint32_t second, std::uint32_t from, double unit) {
  for (int i = 0; i < n; ++i) {
    const double u = centred(first, second, from + static_cast<std::uint32_t>(i));
    y[i] += sums[i] + u * width_of_sum(sums[i], squares[i], std::max(terms[i], 1.0), unit);
  }
}

constexpr int lanes = 8;

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

Moments moments_of(const double* a, const double* b, int n) { return moments(a, b, n); }

/// Much hardware flushes numbers to zero that binary32 and its like cannot hold as normal ones. Formats of multiples
/// have no smallest spacing: their scales do.
PerturbedArithmetic::Grid::Grid(Format format)
    : unit(std::ldexp(1.0, -info(format).mantissa_bits)),
      least(is_scaled(format)
                ? 0.0
                : std::max(info(format).min_positive, info(format).min_exponent == -126 ? 0x1p-126 : 0.0)) {}

PerturbedArithmetic::PerturbedArithmetic(Format format, Operands operands, std::uint64_t seed, States states,
                                         int threads)
    : operand_grid_(format),
      sum_grid_(info(format).mantissa_bits > info(Format::fp32).mantissa_bits ? format : Format::fp32),
      narrow_(operand_grid_.unit == sum_grid_.unit),
      operands_(operands),
      states_(states),
      threads_(threads),
      seed_(seed),
      before_(active) {
  active = this;
}

PerturbedArithmetic::PerturbedArithmetic(const PerturbedArithmetic& draw, std::uint32_t head)
    : operand_grid_(draw.operand_grid_),
      sum_grid_(draw.sum_grid_),
      narrow_(draw.narrow_),
      every_operation_(draw.every_operation_),
      operands_(draw.operands_),
      states_(draw.states_),
      threads_(1),
      seed_(draw.seed_),
      place_{.head = head},
      before_(active) {
  active = this;
}

PerturbedArithmetic::~PerturbedArithmetic() { active = before_; }

/// A stream for each 2^32 numbers of a head, so that none is drawn twice.
PerturbedArithmetic::Key PerturbedArithmetic::counted_key() const {
  const std::uint64_t stream = (static_cast<std::uint64_t>(place_.head) << 32) + (drawn_ >> 32);
  return {static_cast<std::uint32_t>(RandomBits{seed_}.at(stream) >> 32), 0};
}

PerturbedArithmetic::Key PerturbedArithmetic::key_of(Part part) const {
  const auto words =
      philox4x32_10({place_.head, place_.block, place_.token, 4 * place_.node + static_cast<std::uint32_t>(part)},
                    {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
  return {words[0], words[1]};
}

/// The key of computed numbers: elements 2^32 apart, and the numbers that one element needs, have their own streams.
PerturbedArithmetic::Key PerturbedArithmetic::key_of_round() {
  if (!key_is_known_) key_ = key_of(Part::computed), key_is_known_ = true;
  const std::uint32_t round = round_ + (static_cast<std::uint32_t>(element_ >> 32) << 16);
  return {key_.first, round == 0 ? key_.second : key_.second + hashed(0, 0, round)};
}

double PerturbedArithmetic::uniform() {
  const Key key = is_placed_ ? key_of_round() : counted_key();
  const auto index = static_cast<std::uint32_t>(is_placed_ ? element_ : drawn_);
  if (is_placed_)
    ++round_;
  else
    ++drawn_;
  return centred(key.first, key.second, index);
}

void PerturbedArithmetic::perturb(const double* x, int n, double* out) {
  const double shift = operands_ == Operands::cut_off ? -0.5 : 0;
  const Key key = counted_key();
  perturb_line(x, n, key.first, key.second, static_cast<std::uint32_t>(drawn_), operand_grid_.unit, operand_grid_.least,
               shift, out);
  drawn_ += static_cast<std::uint64_t>(n);
}

void PerturbedArithmetic::reads(Part part, const double* x, std::size_t n, double* out) const {
  const double shift = operands_ == Operands::cut_off ? -0.5 : 0;
  const Key key = key_of(part);
  perturb_line(x, static_cast<int>(n), key.first, key.second, 0, operand_grid_.unit, operand_grid_.least, shift, out);
}

double PerturbedArithmetic::exponential(double power) {
  return one_rounding_off(power, sum_grid_.unit == 0x1p-52 ? 1 : 4);
}

double PerturbedArithmetic::one_rounding_off(double x, double units) {
  if (!std::isfinite(x)) return x;
  const double u = uniform(), size = x == 0 ? 0 : units * spacing(x, sum_grid_.unit, sum_grid_.least);
  // A double holds no fraction of its own spacing: a whole one, as rarely as gives the variance of a rounding.
  if (sum_grid_.unit == 0x1p-52) return std::fabs(u) < 0.5 - 1.0 / 24 ? x : x + std::copysign(size, u);
  return x + u * size;
}

void PerturbedArithmetic::operations(double* x, std::size_t n, std::uint32_t round) {
  if (!rounds_every_operation()) return;
  if (sum_grid_.unit != 0x1p-52) {
    element_ = 0, round_ = round;
    const Key key = key_of_round();
    return round_line(x, static_cast<int>(n), key.first, key.second, sum_grid_.unit, sum_grid_.least);
  }
  for (std::size_t i = 0; i < n; ++i) {
    element_ = i, round_ = round;
    x[i] = one_rounding_off(x[i]);
  }
}

/// A line that was just read is the same operand still: rounded once, for all the products that it goes into. It is
/// known by its numbers: where they lie is the allocator's affair. At a place all operands are rounded already.
const double* PerturbedArithmetic::operand(const Strided& x, Reads& known) {
  if (is_placed_ && x.step == 1) return x.first;
  Read* oldest = &known.front();
  for (Read& read : known) {
    if (is_placed_) break;
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
  if (is_placed_) return oldest->exact.data();
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
  const double width = width_of_sum(m.sum, m.squares, a.size, sum_grid_.unit);
  double total = sum + sign * (m.sum + uniform() * width);
  if (narrow_) total = one_rounding_off(total);
  if (is_placed_) at_element(element_ + 1);
  return total;
}

double PerturbedArithmetic::less_products(double x, const double* a, const double* b, int n) {
  const Moments m = moments(a, b, n);
  const double width = width_of_sum(x - m.sum, m.squares + x * x, n + 1, sum_grid_.unit);
  double total = x - m.sum;
  if (std::isfinite(width)) total += uniform() * width;
  if (narrow_) total = one_rounding_off(total);
  at_element(element_ + 1);
  return total;
}

void PerturbedArithmetic::add_sums(double* y, const double* sums, const double* squares, const double* terms,
                                   std::size_t n) {
  const std::uint64_t first = element_;
  const Key key = key_of_round();
  add_rounded_sums(y, sums, squares, terms, static_cast<int>(n), key.first, key.second,
                   static_cast<std::uint32_t>(first), sum_grid_.unit);
  for (std::size_t i = 0; narrow_ && i < n; ++i) {
    if (terms[i] == 0) continue;
    element_ = first + i, round_ = 1;
    y[i] = one_rounding_off(y[i]);
  }
}

void PerturbedArithmetic::add_scaled(double* y, std::ptrdiff_t step, double a, const Strided& x, double sign) {
  const std::uint64_t first = element_;
  const auto go_on_to = [&](int i) {
    if (is_placed_) at_element(first + static_cast<std::uint64_t>(i));
  };
  if (narrow_) {
    for (int i = 0; i < x.size; ++i) {
      go_on_to(i);
      y[i * step] = one_rounding_off(y[i * step] + sign * one_rounding_off(a * x.first[i * x.step]));
    }
    return go_on_to(x.size);
  }
  double factor = a;
  if (!is_placed_) perturb(&a, 1, &factor);
  const double* line = operand(x, scaled_);
  if (step != 1) {
    for (int i = 0; i < x.size; ++i) {
      go_on_to(i);
      y[i * step] = one_rounding_off(y[i * step] + sign * factor * line[i]);
    }
    return go_on_to(x.size);
  }
  const Key key = is_placed_ ? key_of_round() : counted_key();
  rounded_add_scaled(y, sign * factor, line, x.size, key.first, key.second,
                     static_cast<std::uint32_t>(is_placed_ ? first : drawn_), sum_grid_.unit);
  go_on_to(x.size);
  if (!is_placed_) drawn_ += static_cast<std::uint64_t>(x.size);
}

}  // namespace assay
