#pragma once
// The numbers of the executor for draws (draw_block.hpp), which runs on a GPU with the bits of HostBlock: random words
// by index, and rounding by data. These are the definitions of reference/core/rounding.cpp as code of the device; tests
// compare the bits.
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "kernels/core/tile.hpp"
#include "kernels/draws/draw_functions.hpp"
#if !defined(ASSAY_DEVICE_CODE)
#include <limits>

#include "kernels/core/policy.hpp"
#endif

namespace assay::draws {

inline constexpr std::uint64_t word_step = 0x9e3779b97f4a7c15;
DRAW_HD std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
/// RandomBits{seed}.at(index).
DRAW_HD std::uint64_t random_word(std::uint64_t seed, std::uint64_t index) {
  return mixed(seed + (index + 1) * word_step);
}

// ---- rounding

/// The numbers that one rounding routine needs of a format: reference/core/rounding.cpp says what each is for.
struct Grid {
  double lowest_binade, highest_binade, spacing, aligner, lowest_dither, max_finite, beyond, at_infinity;
  int narrow;                      ///< or a double needs no rounding
  unsigned first_normal, normals;  ///< exponents of normal numbers but the largest, as doubles have them
  int dropped;                     ///< bits of a double below the last one of the format
};

#if !defined(ASSAY_DEVICE_CODE)
inline Grid grid_of(Format format, Rounding rounding) {
  const FormatInfo f = info(format);
  const double infinity = std::numeric_limits<double>::infinity();
  const double unbounded = f.has_infinity ? infinity : std::numeric_limits<double>::quiet_NaN();
  const double at_infinity = f.on_overflow == Overflow::saturate ? f.max_finite : unbounded;
  const bool narrow = f.mantissa_bits < 52;
  return {std::ldexp(1.0, f.min_exponent),
          narrow ? std::ldexp(1.0, f.max_exponent + 1) : 0.0,
          std::ldexp(1.0, -f.mantissa_bits),
          std::ldexp(1.0, 52 - f.mantissa_bits),
          rounding == Rounding::jittered ? 0.0 : std::ldexp(1.0, f.min_exponent),
          f.max_finite,
          rounding == Rounding::toward_zero ? f.max_finite : at_infinity,
          at_infinity,
          narrow ? 1 : 0,
          static_cast<unsigned>(f.min_exponent + 1023),
          static_cast<unsigned>(f.max_exponent - f.min_exponent),
          52 - f.mantissa_bits};
}
#endif

/// A site's name as a number that code of the device compares.
constexpr std::uint64_t key_of(std::string_view name) {
  std::uint64_t key = 0xcbf29ce484222325;
  for (const char c : name) key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return key;
}

/// A policy as plain data: what a launch takes along.
struct DrawPolicy {
  static constexpr int slots = 256, formats = static_cast<int>(std::size(all_formats));
  Grid grids[formats]{};
  std::uint64_t keys[slots]{};
  Format format[slots]{};
  std::uint64_t seed = 0;
  int products = 1;
  Rounding rounding = Rounding::nearest_even;
  bool narrow = true;  ///< no number but an output has more digits than fp32

  DrawPolicy() = default;
#if !defined(ASSAY_DEVICE_CODE)
  explicit DrawPolicy(const Policy& policy) : seed(policy.seed), products(policy.products), rounding(policy.rounding) {
    for (int f = 0; f < formats; ++f) grids[f] = grid_of(all_formats[f], rounding);
    for (int i = 0; i < policy.sites.size; ++i) {
      const std::uint64_t key = key_of(policy.sites.entries[i].view());
      int at = static_cast<int>(key % slots);
      while (keys[at] != 0) {
        if (keys[at] == key) throw std::logic_error("two sites of a contract have one number");
        at = (at + 1) % slots;
      }
      keys[at] = key, format[at] = policy.sites.entries[i].format;
      const bool is_narrow =
          grids[static_cast<int>(format[at])].dropped >= grids[static_cast<int>(Format::fp32)].dropped;
      narrow = narrow && (is_narrow || policy.sites.entries[i].role == tile::Role::output);
    }
  }
#endif

  DRAW_HD Format format_of(std::uint64_t key) const {
    int at = static_cast<int>(key % slots);
    for (int tried = 0; keys[at] != key; ++tried, at = (at + 1) % slots)
      if (tried == slots) return missing();
    return format[at];
  }
  /// A program that asks for a site that its contract does not have.
  DRAW_HD static Format missing() {
#if defined(__CUDA_ARCH__)
    __trap();
    return Format::exact;
#else
    throw std::out_of_range("site not in the contract's table");
#endif
  }
  DRAW_HD bool draws() const { return rounding == Rounding::stochastic || rounding == Rounding::jittered; }
};

/// How one span is rounded: its grid, and the words of its elements, fewer than 2^32, from `base` on.
struct Rounder {
  const Grid* grid;     ///< null: nothing is rounded
  std::uint64_t start;  ///< of words: seed + (base + 1) times the step of random_word
  Rounding rounding;
  // Random rounding is a sum of integers for numbers whose exponent is in these, as doubles have it.
  unsigned first_normal, normals;
  int dropped;  ///< bits of a double below the last one of the format

  DRAW_FN std::uint64_t word(std::uint64_t i) const {
    return mixed(start + static_cast<std::uint64_t>(static_cast<std::uint32_t>(i)) * word_step);
  }
  DRAW_FN double dither(std::uint64_t i) const {
    if (rounding == Rounding::toward_zero) return -0.5;
    return (double_of((word(i) >> 12) | 0x3ff0000000000000) - 1.5) + 0x1p-53;
  }
  /// Element i of the span. Numbers on the grid stay where they are, whatever the dither, and need none.
  DRAW_FN double operator()(double x, std::uint64_t i) const {
    const std::uint64_t bits = bits_of(x);
    if (grid == nullptr || bits << 1 == 0) return x;
    // Between two normal numbers x goes up if its dropped digits and those of the word, half a unit of which the dither
    // lies above, carry: where dither > 1/2 - rest of a rest below a half, and not dither < -1/2 - rest of one above.
    if ((static_cast<unsigned>(bits >> 52) & 2047u) - first_normal < normals) {
      const std::uint64_t rest = bits & ((std::uint64_t{1} << dropped) - 1);
      if (rest == 0) return x;
      const std::uint64_t carry = ((rest << (52 - dropped)) + (word(i) >> 12)) >> 52;
      return double_of(bits - rest + (carry << dropped));
    }
    return by_grid(x, i);
  }

 private:
  DRAW_CALL double by_grid(double x, std::uint64_t i) const {
    const Grid& g = *grid;
    const std::uint64_t sign = 0x8000000000000000, exponent = 0x7ff0000000000000, bits = bits_of(x);
    const double magnitude = double_of(bits & ~sign), own_binade = double_of(bits & exponent);
    const double capped = own_binade < g.highest_binade ? own_binade : g.highest_binade;
    const double binade = capped > g.lowest_binade ? capped : g.lowest_binade;
    const double aligner = binade * g.aligner;
    double y = (magnitude + aligner) - aligner;
    const double rest = magnitude - y;
    if (rounding != Rounding::nearest_even && rest != 0.0) {
      const double spacing = binade * g.spacing, half = 0.5 * spacing;
      const double d = dither(i) * ((capped > g.lowest_dither ? capped : g.lowest_dither) * g.spacing);
      const double up = d > half - rest ? spacing : 0.0;
      const double down = d < -half - rest ? spacing : 0.0;
      y = (y + up) - down;
    }
    y = y > g.max_finite ? g.beyond : y;
    y = magnitude > 0x1.fffffffffffffp1023 ? g.at_infinity : y;
    return double_of(bits_of(y) | (bits & sign));
  }
};

/// That of a span whose first word has index `base`.
DRAW_FN Rounder rounder_of(const DrawPolicy& policy, Format format, std::uint64_t seed, std::uint64_t base) {
  const Grid& grid = policy.grids[static_cast<int>(format)];
  return {format == Format::exact || grid.narrow == 0 ? nullptr : &grid,
          seed + (base + 1) * word_step,
          policy.rounding,
          grid.first_normal,
          policy.draws() ? grid.normals : 0u,
          grid.dropped};
}

}  // namespace assay::draws
