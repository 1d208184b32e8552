#pragma once
// The rank of a set of vectors, decided without rounding: modulo a large prime, where every binary fraction has a
// residue. A full rank there is a proof. A deficient one would be wrong only if the prime divided every minor of the
// matrix; it is a random one of 63 bits, related to no power of two.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "reference/core/tensor.hpp"
#include "reference/errors/carried_error.hpp"

namespace assay {
namespace detail {

__extension__ using Wide = unsigned __int128;

/// The first prime from half of 2^64 divided by the golden ratio.
inline constexpr std::uint64_t rank_prime = 0x4f1bbcdcbfa53e3b;

constexpr std::uint64_t product_mod(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>(Wide{a} * b % rank_prime);
}
constexpr std::uint64_t difference_mod(std::uint64_t a, std::uint64_t b) {
  return a >= b ? a - b : a + (rank_prime - b);
}
constexpr std::uint64_t power_mod(std::uint64_t base, std::uint64_t exponent) {
  std::uint64_t power = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) power = product_mod(power, base);
    base = product_mod(base, base);
  }
  return power;
}

}  // namespace detail

using Residues = Tensor<std::uint64_t, 2>;

/// A finite number modulo the prime, in any precision or as a fraction: the value of one that carries more, and of an
/// enclosure the only number in it.
template <class S>
std::uint64_t residue_of(const S& x) {
  using detail::rank_prime;
  using std::frexp, std::ldexp;
  if constexpr (requires { x.value; }) {
    return residue_of(x.value);
  } else if constexpr (Enclosure<S>) {
    std::uint64_t negative = 0;
    for (S rest = x; rest != S(0);) {  // undecided where there are other numbers
      const double part = rest.nearest()[0];
      negative = detail::difference_mod(negative, residue_of(part));
      rest -= S(part);
    }
    return detail::difference_mod(0, negative);
  } else if constexpr (requires { numerator(x.value()), denominator(x.value()); }) {
    const auto modulo = [](const auto& n) {
      const std::remove_cvref_t<decltype(n)> rest(abs(n) % rank_prime);
      return n < 0 ? detail::difference_mod(0, static_cast<std::uint64_t>(rest)) : static_cast<std::uint64_t>(rest);
    };
    return detail::product_mod(modulo(numerator(x.value())),
                               detail::power_mod(modulo(denominator(x.value())), rank_prime - 2));
  } else {
    constexpr int chunk = 53;
    int exponent = 0;
    std::uint64_t sum = 0;
    for (S fraction = frexp(x, &exponent); fraction != S(0);) {
      fraction = ldexp(fraction, chunk);
      exponent -= chunk;
      const auto digits = static_cast<std::int64_t>(fraction);
      fraction -= S(static_cast<double>(digits));
      // 2^(p - 1) = 1.
      const std::uint64_t shift =
          exponent >= 0 ? static_cast<std::uint64_t>(exponent) : rank_prime - 1 - static_cast<std::uint64_t>(-exponent);
      const std::uint64_t size =
          detail::product_mod(static_cast<std::uint64_t>(digits < 0 ? -digits : digits), detail::power_mod(2, shift));
      sum = detail::difference_mod(sum, digits < 0 ? size : detail::difference_mod(0, size));
    }
    return sum;
  }
}

template <class S>
Residues residues_of(const Tensor<S, 2>& vectors) {
  Residues r(vectors.extent);
  for (std::size_t i = 0; i < r.data.size(); ++i) r.data[i] = residue_of(vectors.data[i]);
  return r;
}

/// The first of the vectors [first, last) that are independent, `vector(j)` being the residues of the j-th; no more
/// than the space has dimensions.
template <class F>
std::vector<int> independent(int first, int last, std::size_t dimensions, F&& vector) {
  using detail::difference_mod, detail::product_mod;
  std::vector<int> found;
  std::vector<std::vector<std::uint64_t>> echelon;  // reduced so far, leading element 1
  std::vector<std::size_t> lead;
  for (int j = first; j < last && found.size() < dimensions; ++j) {
    std::vector<std::uint64_t> x = vector(j);
    for (std::size_t r = 0; r < echelon.size(); ++r) {
      const std::uint64_t factor = x[lead[r]];
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = difference_mod(x[i], product_mod(factor, echelon[r][i]));
    }
    std::size_t pivot = 0;
    while (pivot < x.size() && x[pivot] == 0) ++pivot;
    if (pivot == x.size()) continue;
    const std::uint64_t inverse = detail::power_mod(x[pivot], detail::rank_prime - 2);
    for (std::uint64_t& element : x) element = product_mod(element, inverse);
    echelon.push_back(std::move(x));
    lead.push_back(pivot);
    found.push_back(j);
  }
  return found;
}

/// The rank of vectors [first, last) less row `origin` of `origins`, in the coordinates named.
inline int exact_rank(const Residues& vectors, int first, int last, const Residues& origins, int origin,
                      std::span<const int> coordinates) {
  return static_cast<int>(independent(first, last, coordinates.size(), [&](int j) {
                            std::vector<std::uint64_t> x;
                            for (const int c : coordinates)
                              x.push_back(detail::difference_mod(vectors(j, c), origins(origin, c)));
                            return x;
                          }).size());
}

}  // namespace assay
