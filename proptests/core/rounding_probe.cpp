// Prints one hash of everything round_to, round_span, encode and decode answer on a fixed set of inputs. Builds of this
// program by any compiler at any optimisation level must print the same: tools/dev/rounding_matrix.sh compares them.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

#include "reference/core/rounding.hpp"

namespace assay {
namespace {

// Order-dependent, one multiplication per word; NaN counts by its sign alone, for its payload is the processor's.
class Hash {
 public:
  void add(std::uint64_t word) { state_ = std::rotl(state_ ^ word, 29) * 0x9e3779b97f4a7c15; }
  void add(double x) { add(std::isnan(x) ? std::uint64_t{0x7ff8} + std::signbit(x) : std::bit_cast<std::uint64_t>(x)); }
  std::uint64_t value() const { return state_ ^ state_ >> 32; }

 private:
  std::uint64_t state_ = 1;
};

constexpr double infinity = std::numeric_limits<double>::infinity();

void add_codes(Hash& hash) {
  for (const Format format : {Format::bf16, Format::fp16, Format::e4m3, Format::e5m2}) {
    const unsigned codes = info(format).bits == 8 ? 0x100 : 0x10000;
    std::vector<double> x;
    for (unsigned code = 0; code < codes; ++code) {
      const double here = decode(static_cast<std::uint16_t>(code), format);
      const double next = decode(static_cast<std::uint16_t>((code + 1) % codes), format);
      hash.add(here);
      hash.add(std::uint64_t{encode(here, format)});
      x.insert(x.end(), {here, std::nextafter(here, infinity)});
      if (std::isnan(here) || std::isnan(next)) continue;  // which sign a sum of two NaN has is the compiler's choice
      const double midpoint = 0.5 * here + 0.5 * next;
      x.insert(x.end(), {midpoint, std::nextafter(midpoint, infinity), std::nextafter(midpoint, -infinity)});
    }
    for (const double value : x) hash.add(std::uint64_t{encode(value, format, Overflow::ieee)});
    for (const Rounding rounding : all_roundings)
      for (const Overflow overflow : {Overflow::saturate, Overflow::ieee}) {
        std::vector<double> y = x;
        RandomBits random{1};
        round_span(y.data(), y.size(), format, overflow, rounding, random);
        for (const double value : y) hash.add(value);
      }
  }
}

void add_random(Hash& hash, std::size_t n) {
  RandomBits source{2};
  for (const Format format : all_formats) {
    const FormatInfo f = info(format);
    std::vector<double> x(n);
    for (double& value : x) {  // one half any double, the other in and around the format's range
      const std::uint64_t word = source.next();
      value = std::bit_cast<double>(word);
      if (word & 1) continue;
      const int lowest = f.min_exponent - f.mantissa_bits - 3, count = f.max_exponent + 3 - lowest;
      const int exponent = lowest + static_cast<int>((word >> 52) % static_cast<unsigned>(count));
      value = std::ldexp(1.0 + static_cast<double>(word & 0xfffffffffffff) * 0x1p-52, exponent);
    }
    for (const Rounding rounding : all_roundings) {
      std::vector<double> y = x;
      RandomBits random{3};
      round_span(y.data(), n, format, rounding, random);
      for (std::size_t i = 0; i < n; ++i) {
        hash.add(y[i]);
        if (i % 4 == 0) hash.add(round_to(x[i], format, rounding, random.at(i)));
      }
    }
    std::vector<double> y = x;
    round_span(y.data(), n, format);
    for (const double value : y) hash.add(value);
  }
}

}  // namespace
}  // namespace assay

int main() {
  assay::Hash hash;
  assay::add_codes(hash);
  assay::add_random(hash, 1'000'000);
  std::printf("%016llx\n", static_cast<unsigned long long>(hash.value()));
}
