#pragma once
// The bits of portable_ex2 at many arguments, as one number, for hosts and devices to compare.
#include <bit>
#include <cstdint>

namespace assay::tile {

/// Every 61st float of [2^-30, 127.5], and of their negatives down to -200: x(i), i in [0, count).
struct Ex2Arguments {
  static constexpr std::uint32_t first = std::bit_cast<std::uint32_t>(0x1p-30F), step = 61;
  static constexpr std::uint32_t positive = (std::bit_cast<std::uint32_t>(127.5F) - first) / step + 1;
  static constexpr std::uint32_t negative = (std::bit_cast<std::uint32_t>(200.0F) - first) / step + 1;
  static constexpr std::uint32_t count = positive + negative;
  /// The bits of x(i).
  static constexpr std::uint32_t bits(std::uint32_t i) {
    return i < positive ? first + step * i : (first + step * (i - positive)) | 0x80000000U;
  }
};

/// The digest of the bits of 2^x(i), given by bits(i) in turn.
template <class F>
std::uint64_t digest_of_ex2(F bits) {
  std::uint64_t digest = 0;
  for (std::uint32_t i = 0; i < Ex2Arguments::count; ++i) digest = digest * 1099511628211U + bits(i);
  return digest;
}
inline constexpr std::uint64_t ex2_digest = 17356186777334229491U;

}  // namespace assay::tile
