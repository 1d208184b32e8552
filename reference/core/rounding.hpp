#pragma once
// Software rounding of doubles to any Format, and the 8- and 16-bit codes. The same bits under every compiler,
// optimisation level and instruction set; assumes the default floating-point environment.
#include <cstddef>
#include <cstdint>

#include "reference/core/format.hpp"

namespace assay {

/// Counter-based random words (SplitMix64 of Steele, Lea and Flood, OOPSLA 2014): word i is a function of seed and i.
struct RandomBits {
  std::uint64_t seed = 0;
  std::uint64_t counter = 0;  ///< words drawn so far

  std::uint64_t next() { return at(counter++); }

  /// Word `index` of the stream, whatever has been drawn.
  std::uint64_t at(std::uint64_t index) const {
    std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
};

/// `x` rounded to `format`, as a double. Signed zeros and the sign of NaN are kept; a value beyond the largest finite
/// number is rounded as if the exponent were unbounded, then `overflow` says what it becomes. stochastic and jittered
/// take their one uniform number from the upper 52 bits of `random_bits`, so probabilities are multiples of 2^-52:
/// exact for normal numbers, within 2^-52 below them. The other modes ignore it.
double round_to(double x, Format format, Overflow overflow, Rounding rounding = Rounding::nearest_even,
                std::uint64_t random_bits = 0);

/// As above, with the format's own overflow (FormatInfo::on_overflow).
double round_to(double x, Format format, Rounding rounding = Rounding::nearest_even, std::uint64_t random_bits = 0);

/// Rounds p[0..n) in place; the random modes use one word of `random` per element, in order, the others none.
void round_span(double* p, std::size_t n, Format format, Overflow overflow, Rounding rounding, RandomBits& random);

/// As above, with the format's own overflow (FormatInfo::on_overflow).
void round_span(double* p, std::size_t n, Format format, Rounding rounding, RandomBits& random);

/// Rounds p[0..n) in place to nearest even, with the format's own overflow: the inner loop of an emulated kernel.
void round_span(double* p, std::size_t n, Format format);

/// The code of `x` rounded to nearest even in bf16, fp16, e4m3 or e5m2 (low byte). NaN keeps its sign and as much of
/// its payload as fits. Throws InputError for any other format.
std::uint16_t encode(double x, Format format, Overflow overflow);
std::uint16_t encode(double x, Format format);

/// The number that `code` stands for in bf16, fp16, e4m3 or e5m2; encode(decode(code)) == code for every code, NaN
/// included. Throws InputError for any other format and for an 8-bit code above 0xff.
double decode(std::uint16_t code, Format format);

}  // namespace assay
