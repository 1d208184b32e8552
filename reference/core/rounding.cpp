#include "reference/core/rounding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "reference/core/error.hpp"
#include "reference/core/per_machine.hpp"

#define ASSAY_INLINE [[gnu::always_inline]] inline

namespace assay {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest = std::numeric_limits<double>::max();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// The numbers that the one rounding routine needs, all of them data: no format or mode has code of its own.
struct Grid {
  double lowest_binade;   // below it the spacing no longer shrinks
  double highest_binade;  // a cap, so that nothing below overflows
  double spacing;         // of the grid at 1
  double aligner;         // at 1: adding it leaves no bit finer than the spacing
  double lowest_dither;   // the dither is relative to the binade of x, but no smaller than this one
  double max_finite;
  double beyond;       // what a finite value above max_finite becomes
  double at_infinity;  // what infinity becomes
};

constexpr Grid grid_of(Format format, Overflow overflow, Rounding rounding) {
  const FormatInfo f = info(format);
  const double unbounded = f.has_infinity ? infinity : not_a_number;
  const double at_infinity = overflow == Overflow::saturate ? f.max_finite : unbounded;
  const bool narrow = f.mantissa_bits < 52;  // a double needs no rounding, and its aligner would overflow
  return {
      .lowest_binade = power_of_two(f.min_exponent),
      .highest_binade = narrow ? power_of_two(f.max_exponent + 1) : 0.0,
      .spacing = power_of_two(-f.mantissa_bits),
      .aligner = power_of_two(52 - f.mantissa_bits),
      .lowest_dither = rounding == Rounding::jittered ? 0.0 : power_of_two(f.min_exponent),
      .max_finite = f.max_finite,
      .beyond = rounding == Rounding::toward_zero ? f.max_finite : at_infinity,
      .at_infinity = at_infinity,
  };
}

constexpr std::size_t formats = std::size(all_formats) + std::size(scaled_formats),
                      roundings = std::size(all_roundings);

constexpr auto grids = [] {
  std::array<Grid, formats * roundings * 2> table{};
  std::size_t i = 0;
  for (std::size_t format = 0; format < formats; ++format)
    for (const Rounding rounding : all_roundings)
      for (const Overflow overflow : {Overflow::saturate, Overflow::ieee})
        table[i++] = grid_of(static_cast<Format>(format), overflow, rounding);
  return table;
}();

const Grid& grid(Format format, Overflow overflow, Rounding rounding) {
  const auto f = static_cast<std::size_t>(format), r = static_cast<std::size_t>(rounding);
  return grids[(f * roundings + r) * 2 + static_cast<std::size_t>(overflow)];
}

bool rounds_nothing(Format format) { return info(format).mantissa_bits == 52; }

// Every mode is nearest_even of x plus a dither, in [-1/2, 1/2] of a spacing, that is never added (the sum would round)
// but compared with the distance to the midpoints: 0 for nearest_even, -1/2 for toward_zero, uniform for the others.
// Products are by powers of two, differences are of neighbours: exact wherever the outcome depends on them. At -O0,
// where this is tested as well, a standard function would be a call.
template <bool dithered>
ASSAY_INLINE double round_one(double x, const Grid& g, [[maybe_unused]] double dither) {
  constexpr std::uint64_t sign = 0x8000000000000000, exponent = 0x7ff0000000000000;
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  const double magnitude = __builtin_bit_cast(double, (bits & ~sign));
  const double own_binade = __builtin_bit_cast(double, (bits & exponent));
  const double capped = own_binade < g.highest_binade ? own_binade : g.highest_binade;
  const double binade = capped > g.lowest_binade ? capped : g.lowest_binade;

  const double aligner = binade * g.aligner;
  double y = (magnitude + aligner) - aligner;
  if constexpr (dithered) {
    const double spacing = binade * g.spacing, half = 0.5 * spacing;
    const double d = dither * ((capped > g.lowest_dither ? capped : g.lowest_dither) * g.spacing);
    const double rest = magnitude - y;
    const double up = d > half - rest ? spacing : 0.0;
    const double down = d < -half - rest ? spacing : 0.0;
    y = (y + up) - down;
  }
  y = y > g.max_finite ? g.beyond : y;
  y = magnitude > largest ? g.at_infinity : y;
  return __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, y) | (bits & sign));
}

// An odd multiple of 2^-53 in (-1/2, 1/2): symmetric, and of normal numbers none is brought level with a midpoint.
ASSAY_INLINE double uniform_dither(std::uint64_t random_bits) {
  const double one_to_two = __builtin_bit_cast(double, (random_bits >> 12) | 0x3ff0000000000000);
  return (one_to_two - 1.5) + 0x1p-53;
}

double dither_of(Rounding rounding, std::uint64_t random_bits) {
  if (rounding == Rounding::nearest_even) return 0.0;
  return rounding == Rounding::toward_zero ? -0.5 : uniform_dither(random_bits);
}

// Calls body(block) on pieces of one fixed length: what compilers vectorise at every optimisation level.
constexpr std::size_t block = 16;
template <class Body>
ASSAY_INLINE void for_each_block(double* p, std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + block <= n; i += block) body(p + i, i);
  if (i == n) return;
  double rest[block] = {};
  std::copy(p + i, p + n, rest);
  body(rest, i);
  std::copy_n(rest, n - i, p + i);
}

ASSAY_PER_MACHINE void round_nearest(double* p, std::size_t n, const Grid& g) {
  for_each_block(
      p, n, [g](double* q, std::size_t) __attribute__((always_inline)) {
        for (std::size_t j = 0; j < block; ++j) q[j] = round_one<false>(q[j], g, 0.0);
      });
}

ASSAY_PER_MACHINE void round_dithered(double* p, std::size_t n, const Grid& g, double dither) {
  for_each_block(
      p, n, [ g, dither ](double* q, std::size_t) __attribute__((always_inline)) {
        for (std::size_t j = 0; j < block; ++j) q[j] = round_one<true>(q[j], g, dither);
      });
}

ASSAY_PER_MACHINE void round_random(double* p, std::size_t n, const Grid& g, const RandomBits& random) {
  for_each_block(
      p, n, [ g, random ](double* q, std::size_t first) __attribute__((always_inline)) {
        std::uint64_t any = 0;  // rows and columns beyond the problem's end are zero, and zero stays zero
        for (std::size_t j = 0; j < block; ++j) any |= __builtin_bit_cast(std::uint64_t, q[j]);
        if (any << 1 == 0) return;
        const std::uint64_t from = random.counter + first;
        for (std::size_t j = 0; j < block; ++j) q[j] = round_one<true>(q[j], g, uniform_dither(random.at(from + j)));
      });
}

// The layout of an 8- or 16-bit code: sign, exponent field, significand.
struct Layout {
  FormatInfo f;
  unsigned sign;
  unsigned first_special;  // the smallest magnitude that is no finite number
};

Layout layout_of(Format format) {
  const FormatInfo f = info(format);
  require(f.bits <= 16 && !is_scaled(format), "format ", name_of(format),
          " has no 8- or 16-bit code; use bf16, fp16, e4m3 or e5m2");
  const unsigned sign = 1u << (f.bits - 1);
  return {f, sign, f.has_infinity ? sign - (1u << f.mantissa_bits) : sign - 1};
}

}  // namespace

double round_to(double x, Format format, Overflow overflow, Rounding rounding, std::uint64_t random_bits) {
  if (rounds_nothing(format)) return x;
  return round_one<true>(x, grid(format, overflow, rounding), dither_of(rounding, random_bits));
}

double round_to(double x, Format format, Rounding rounding, std::uint64_t random_bits) {
  return round_to(x, format, info(format).on_overflow, rounding, random_bits);
}

void round_span(double* p, std::size_t n, Format format, Overflow overflow, Rounding rounding, RandomBits& random) {
  const bool draws = rounding == Rounding::stochastic || rounding == Rounding::jittered;
  if (!rounds_nothing(format)) {
    const Grid& g = grid(format, overflow, rounding);
    if (rounding == Rounding::nearest_even)
      round_nearest(p, n, g);
    else if (draws)
      round_random(p, n, g, random);
    else
      round_dithered(p, n, g, dither_of(rounding, 0));
  }
  if (draws) random.counter += n;
}

void round_span(double* p, std::size_t n, Format format, Rounding rounding, RandomBits& random) {
  round_span(p, n, format, info(format).on_overflow, rounding, random);
}

void round_span(double* p, std::size_t n, Format format) {
  if (!rounds_nothing(format)) round_nearest(p, n, grid(format, info(format).on_overflow, Rounding::nearest_even));
}

std::uint16_t encode(double x, Format format, Overflow overflow) {
  const Layout layout = layout_of(format);
  const FormatInfo& f = layout.f;
  const double y = round_to(x, format, overflow);
  const auto bits = std::bit_cast<std::uint64_t>(x != x ? x : y);
  const double magnitude = std::bit_cast<double>(bits & 0x7fffffffffffffff);
  const auto digits = static_cast<unsigned>(bits >> (52 - f.mantissa_bits));  // exponent and significand, cut to size
  const unsigned significand = digits & ((1u << f.mantissa_bits) - 1);
  unsigned code = 0;
  if (y != y)  // a payload cut to nothing would read as infinity
    code = f.has_infinity ? layout.first_special | (significand ? significand : 1u << (f.mantissa_bits - 1))
                          : layout.first_special;
  else if (magnitude > f.max_finite)
    code = layout.first_special;
  else if (magnitude < power_of_two(f.min_exponent))
    code = static_cast<unsigned>(magnitude / f.min_positive);
  else
    code =
        (digits & ((2048u << f.mantissa_bits) - 1)) - (static_cast<unsigned>(f.min_exponent + 1022) << f.mantissa_bits);
  return static_cast<std::uint16_t>((bits >> 63 ? layout.sign : 0u) | code);
}

std::uint16_t encode(double x, Format format) { return encode(x, format, info(format).on_overflow); }

double decode(std::uint16_t code, Format format) {
  const Layout layout = layout_of(format);
  const FormatInfo& f = layout.f;
  require(code < 2 * layout.sign, "code ", code, " does not fit in the ", f.bits, " bits of ", name_of(format));
  const unsigned magnitude = code & (layout.sign - 1);
  const auto field = magnitude >> f.mantissa_bits;
  std::uint64_t bits = static_cast<std::uint64_t>(magnitude) << (52 - f.mantissa_bits);
  if (magnitude >= layout.first_special)
    bits |= 0x7ff0000000000000;  // the significand becomes the payload: none is infinity
  else if (field == 0)
    bits = std::bit_cast<std::uint64_t>(static_cast<double>(magnitude) * f.min_positive);
  else
    bits += static_cast<std::uint64_t>(f.min_exponent + 1022) << 52;
  return std::bit_cast<double>(bits | (code & layout.sign ? 0x8000000000000000 : 0));
}

}  // namespace assay
