#pragma once
// Counter-based random numbers: element i of a named stream is a function of seed, name and i alone, so that order,
// threads and neighbours do not matter. Only integers and + - * / sqrt: the same bits on every machine.
#include <array>
#include <cstdint>
#include <string_view>

namespace assay {

/// Philox4x32-10 of Salmon, Moraes, Dror and Shaw (SC 2011), the lowest words first.
std::array<std::uint32_t, 4> philox4x32_10(const std::array<std::uint32_t, 4>& counter,
                                           const std::array<std::uint32_t, 2>& key);

/// FNV-1a, 64 bits.
constexpr std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// The standard normal quantile at a uniform number of 53 bits: the sign is bit 63, the magnitude that of
/// Phi(|z|) - 1/2 = (k + 1/2) 2^-53 with k in bits 11 to 62, so 0 < |z| < 8.3. Wichura's AS241 (Applied Statistics 37,
/// 1988) with a logarithm of our own; the relative error is below 40 units of 2^-53.
double normal_quantile(std::uint64_t bits);

/// The numbers called `name` under `seed`: the key is the seed, the counter the element's index and the name's hash.
class Stream {
 public:
  Stream(std::uint64_t seed, std::string_view name) : seed_(seed), name_(fnv1a(name)) {}

  /// 64 uniform bits.
  std::uint64_t bits(std::uint64_t index) const;
  /// Uniform in [0, 1), a multiple of 2^-53.
  double uniform(std::uint64_t index) const { return static_cast<double>(bits(index) >> 11) * 0x1p-53; }
  /// Uniform in {0, ..., bound - 1}, each to within 2^-32 of its probability; bound > 0.
  int integer(std::uint64_t index, int bound) const {
    return static_cast<int>(((bits(index) >> 32) * static_cast<std::uint64_t>(bound)) >> 32);
  }
  /// Standard normal.
  double normal(std::uint64_t index) const { return normal_quantile(bits(index)); }

 private:
  std::uint64_t seed_, name_;
};

}  // namespace assay
