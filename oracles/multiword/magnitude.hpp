#pragma once
// Proofs of the templates of sum.hpp and exp.hpp: run on Magnitude these bound every word and the error of every result
// in the worst case over all inputs of given sizes. docs/error-analysis.md, sections 1 to 3.
#include "oracles/multiword/lanes/sum.hpp"

namespace assay::words {

inline constexpr double unit_roundoff = 0x1p-53;

/// The error bounds of a result of W words, per unit of the operands' sizes (sum.hpp: size_of). Underflow apart.
struct Constants {
  double add;             ///< a + b, plus(a, b): times size(a) + size(b)
  double multiply;        ///< a b: times size(a) size(b)
  double multiply_plain;  ///< times(a, b), b one word: times size(a) |b|
  double update;          ///< renormalised c + a b, a one word: times size(c) + |a| size(b)
  double decayed_update;  ///< renormalised a x + b y, b one word: times size(a) size(x) + |b| size(y)
  double multiply_add;    ///< renormalised c + a b: times size(c) + size(a) size(b)
  double chunk;           ///< a chunk of terms_per_chunk products: times sum |a| size(b)
  double chunk_words;     ///< the same where a has as many words: times sum size(a) size(b)
  double run_words;       ///< as chunk_words, for every terms_per_renormalisation of up to a chunk
  double chunk_add;       ///< adding one chunk to the total: times sum |a| size(b) over all chunks
  double exp;             ///< relative error of exp: words, tables and polynomial
};

/// For 1 to 4 words; 1 word is plain double (no exp).
const Constants& constants(int words);

/// Error of a sum of `terms` products in a row, renormalised as the engines do: times sum |a| size(b).
double accumulation(int words, int terms);
/// The same where chunks are added up (matrix products).
double matrix_accumulation(int words, int terms);

/// Room for the roundings of a bound's own arithmetic: up to 2^20 operations on non-negative numbers.
inline constexpr double safety = 1 + 0x1p-30;
/// The most that all underflows of one step of an engine may add up to: 2^24 residues below 2^-1074.
inline constexpr double underflow = 0x1p-1050;

}  // namespace assay::words

namespace assay::words::ASSAY_WORDS_ISA {

/// |x| <= size, and x is at most `error` away from what it would be without any rounding or omission.
/// Every rule below is linear in the sizes with non-negative coefficients.
struct Magnitude {
  double size = 0, error = 0;
};

inline Magnitude exact_product(const Magnitude& a, const Magnitude& b) {
  return {a.size * b.size, a.size * b.error + a.error * b.size + a.error * b.error};
}
/// A value of that size, rounded.
inline Magnitude rounded(double size, double error) {
  return {size * (1 + unit_roundoff), error + unit_roundoff * size};
}
inline Magnitude operator+(const Magnitude& a, const Magnitude& b) {
  return rounded(a.size + b.size, a.error + b.error);
}
inline Magnitude operator-(const Magnitude& a, const Magnitude& b) { return a + b; }
inline Magnitude operator*(const Magnitude& a, const Magnitude& b) {
  const Magnitude p = exact_product(a, b);
  return rounded(p.size, p.error);
}
inline Magnitude fma(const Magnitude& a, const Magnitude& b, const Magnitude& c) {
  const Magnitude p = exact_product(a, b);
  return rounded(p.size + c.size, p.error + c.error);
}
inline Two<Magnitude> two_sum(const Magnitude& a, const Magnitude& b) {
  const double sum = a.size + b.size;
  return {{sum * (1 + unit_roundoff), a.error + b.error}, {unit_roundoff * sum, 0}};
}
inline Two<Magnitude> two_product(const Magnitude& a, const Magnitude& b) {
  const Magnitude p = exact_product(a, b);
  return {{p.size * (1 + unit_roundoff), p.error}, {unit_roundoff * p.size, 0}};
}
inline void leave_out(Magnitude& sum, const Magnitude& a, const Magnitude& b) {
  const Magnitude p = exact_product(a, b);
  sum.error += p.size + p.error;
}
inline void assume_at_most(Magnitude& x, double size) {
  if (size < x.size) x.size = size;
}
template <>
inline Magnitude splat<Magnitude>(double x) {
  return {x < 0 ? -x : x, 0};
}

/// W words of the given size, each known exactly.
template <int W>
Words<Magnitude, W> magnitudes(double size) {
  Words<Magnitude, W> m;
  for (Magnitude& w : m.w) {
    w = {size, 0};
    size *= unit_roundoff;
  }
  return m;
}
template <int W>
double error_of(const Words<Magnitude, W>& m) {
  double e = 0;
  for (const Magnitude& w : m.w) e += w.error;
  return e;
}
template <int W>
double largest_size(const Words<Magnitude, W>& m) {
  double size = 0, unit = 1;
  for (const Magnitude& w : m.w) {
    if (w.size > size * unit) size = w.size / unit;
    unit *= unit_roundoff;
  }
  return size;
}

}  // namespace assay::words::ASSAY_WORDS_ISA
