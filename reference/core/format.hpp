#pragma once
// Number formats and how a value enters one: what a rounding site of a kernel names. Constexpr on host and device.
#include <optional>
#include <string_view>

#if defined(__CUDACC__)
#define ASSAY_HOST_DEVICE __host__ __device__
#else
#define ASSAY_HOST_DEVICE
#endif

namespace assay {

/// A binary floating-point format, or integers of some bits. `exact` rounds nothing: the site is switched off.
enum class Format : unsigned char { exact, fp64, fp32, tf32, bf16, fp16, e4m3, e5m2, e2m1, int8, int4 };

/// The formats of single numbers: what a precision may be.
inline constexpr Format all_formats[] = {Format::exact, Format::fp64, Format::fp32, Format::tf32,
                                         Format::bf16,  Format::fp16, Format::e4m3, Format::e5m2};
/// Those that hold nothing but multiples of a scale, in the order of their enumerators.
inline constexpr Format scaled_formats[] = {Format::e2m1, Format::int8, Format::int4};
constexpr bool is_scaled(Format format) {
  for (const Format scaled : scaled_formats)
    if (format == scaled) return true;
  return false;
}

/// Which of the two neighbours on the format's grid (subnormals included) a value goes to.
enum class Rounding : unsigned char {
  nearest_even,  ///< the nearer one; of two equally near, the one with the even last digit
  toward_zero,   ///< the smaller magnitude: a finite value never overflows to infinity
  stochastic,    ///< the larger magnitude with probability equal to the fractional position between the two: unbiased
  /// nearest_even after adding a uniform jitter below half a unit in the last place of the value's *own* binade. Above
  /// the smallest normal number this is stochastic rounding; below it, where that unit is finer than the grid, it tends
  /// to nearest_even and small values underflow as they do in a correctly rounded kernel. Grid points stay put.
  jittered,
};

inline constexpr Rounding all_roundings[] = {Rounding::nearest_even, Rounding::toward_zero, Rounding::stochastic,
                                             Rounding::jittered};

/// The result of a value that rounds beyond the largest finite number (OCP OFP8 names both for the 8-bit formats).
enum class Overflow : unsigned char {
  saturate,  ///< the largest finite number, infinities included
  ieee,      ///< infinity, or NaN where the format has no infinity
};

struct FormatInfo {
  int bits;              ///< width in memory; tf32 occupies 32, of which 19 count
  int mantissa_bits;     ///< stored bits of the significand, the leading one not counted
  int min_exponent;      ///< the smallest normal number is 2^min_exponent
  int max_exponent;      ///< the largest finite number lies in [2^max_exponent, 2^(max_exponent + 1))
  double max_finite;     ///< the largest finite number
  double min_positive;   ///< the smallest positive (subnormal) number: 2^(min_exponent - mantissa_bits)
  bool has_infinity;     ///< e4m3 spends those codes on numbers
  Overflow on_overflow;  ///< the default: 8-bit formats saturate, as cvt.rn.satfinite does
};

/// The parameters of `format`. Those of `exact` are fp64's: values are doubles.
ASSAY_HOST_DEVICE constexpr FormatInfo info(Format format) {
  switch (format) {
    case Format::fp32:
      return {32, 23, -126, 127, 0x1.fffffep127, 0x1p-149, true, Overflow::ieee};
    case Format::tf32:
      return {32, 10, -126, 127, 0x1.ffcp127, 0x1p-136, true, Overflow::ieee};
    case Format::bf16:
      return {16, 7, -126, 127, 0x1.fep127, 0x1p-133, true, Overflow::ieee};
    case Format::fp16:
      return {16, 10, -14, 15, 65504.0, 0x1p-24, true, Overflow::ieee};
    case Format::e4m3:
      return {8, 3, -6, 8, 448.0, 0x1p-9, false, Overflow::saturate};
    case Format::e5m2:
      return {8, 2, -14, 15, 57344.0, 0x1p-16, true, Overflow::saturate};
    case Format::e2m1:
      return {4, 1, 0, 2, 6.0, 0.5, false, Overflow::saturate};
    // Integers are numbers below the smallest normal one but for those of the last binade, which have their spacing, 1.
    case Format::int8:
      return {8, 6, 6, 6, 127.0, 1.0, false, Overflow::saturate};
    case Format::int4:
      return {4, 2, 2, 2, 7.0, 1.0, false, Overflow::saturate};
    case Format::exact:
    case Format::fp64:
      break;
  }
  return {64, 52, -1022, 1023, 0x1.fffffffffffffp1023, 0x1p-1074, true, Overflow::ieee};
}

/// Half the spacing at 1: the largest relative error of nearest_even on normal numbers (other modes: twice that).
/// 2^-24 for fp32, 0 for `exact`.
ASSAY_HOST_DEVICE constexpr double unit_roundoff(Format format) {
  if (format == Format::exact) return 0.0;
  return 0.5 / static_cast<double>(1LL << info(format).mantissa_bits);
}

ASSAY_HOST_DEVICE constexpr const char* name_of(Format format) {
  switch (format) {
    case Format::exact:
      return "exact";
    case Format::fp64:
      return "fp64";
    case Format::fp32:
      return "fp32";
    case Format::tf32:
      return "tf32";
    case Format::bf16:
      return "bf16";
    case Format::fp16:
      return "fp16";
    case Format::e4m3:
      return "e4m3";
    case Format::e5m2:
      return "e5m2";
    case Format::e2m1:
      return "e2m1";
    case Format::int8:
      return "int8";
    case Format::int4:
      return "int4";
  }
  return "?";
}

ASSAY_HOST_DEVICE constexpr const char* name_of(Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even:
      return "nearest_even";
    case Rounding::toward_zero:
      return "toward_zero";
    case Rounding::stochastic:
      return "stochastic";
    case Rounding::jittered:
      return "jittered";
  }
  return "?";
}

ASSAY_HOST_DEVICE constexpr const char* name_of(Overflow overflow) {
  return overflow == Overflow::saturate ? "saturate" : "ieee";
}

/// The format of single numbers called `name`, as name_of spells it; nothing for any other word.
constexpr std::optional<Format> format_from(std::string_view name) {
  for (const Format format : all_formats)
    if (name == name_of(format)) return format;
  return std::nullopt;
}

/// The format of a scale.
enum class ScaleFormat : unsigned char {
  fp32,
  e4m3,
  e8m0,  ///< powers of two: the smallest by which the largest number is in range
};

/// Blocks of an array [rows][columns] whose numbers are multiples of a scale: the block's largest number over the
/// format's. Blocks are cut where the array ends.
struct Blocks {
  static constexpr int all = 1 << 30;
  int rows = 0;       ///< of a block; 0: there are no blocks
  int cols = 0;       ///< of a block
  int leading = all;  ///< columns that have blocks; those behind keep their digits
  int modulo = 0;     ///< rows r of a block share a scale where (r % modulo) / run is the same; 0: all do
  int run = 1;
  ScaleFormat scale = ScaleFormat::fp32;
  bool two_level =
      false;             ///< scales are multiples of one of their row, in fp32, which makes the largest fill its format
  bool late = false;     ///< numbers are divided by what scales are before these are rounded
  bool centred = false;  ///< the mean of all rows is taken off before, and kept
  constexpr bool none() const { return rows == 0; }
  friend constexpr bool operator==(const Blocks&, const Blocks&) = default;
};

/// The rounding mode called `name`, as name_of spells it; nothing for any other word.
constexpr std::optional<Rounding> rounding_from(std::string_view name) {
  for (const Rounding rounding : all_roundings)
    if (name == name_of(rounding)) return rounding;
  return std::nullopt;
}

}  // namespace assay
