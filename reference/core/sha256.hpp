#pragma once
// SHA-256 (FIPS 180-4): names the exact bits of inputs and fixtures.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/core/tensor.hpp"

namespace assay {

/// A running hash: any split of the same bytes gives the same digest.
class Sha256 {
 public:
  Sha256& update(std::string_view bytes);
  /// The values as little-endian doubles.
  Sha256& update(std::span<const double> values);

  /// The digest of everything so far: 64 hexadecimal digits.
  std::string hex() const;

 private:
  void absorb(unsigned char byte);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> block_{};
  std::uint64_t length_ = 0;  // in bytes
};

/// The digest of a tensor's values as little-endian doubles, row-major.
std::string sha256(const Array& array);
/// Of several, in their order; large ones are read side by side.
std::vector<std::string> sha256(const std::vector<const Array*>& arrays);

}  // namespace assay
