// Fixed point with 320 bits behind the point, everything rounded down: an entry is at most 2^-300 from its number.
#include "oracles/multiword/lanes/exp_table.hpp"

#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>

namespace assay::words {
namespace {

using boost::multiprecision::cpp_int;
constexpr int fraction_bits = 320;

/// x / 2^320 word by word, each word rounded to nearest (halves away from zero).
template <int N>
void to_words(cpp_int x, double (&words)[N]) {
  for (double& word : words) {
    const bool negative = x < 0;
    const cpp_int size = negative ? cpp_int(-x) : x;
    if (size == 0) {
      word = 0;
      continue;
    }
    const int drop = std::max(0, static_cast<int>(msb(size)) - 52);
    cpp_int top = size >> drop;
    if (drop > 0 && bit_test(size, static_cast<unsigned>(drop - 1))) ++top;
    word = std::ldexp(static_cast<double>(static_cast<long long>(top)), drop - fraction_bits);
    if (negative) word = -word;
    const cpp_int taken = top << drop;
    x -= negative ? cpp_int(-taken) : taken;
  }
}

cpp_int product(const cpp_int& a, const cpp_int& b) { return (a * b) >> fraction_bits; }

/// ln 2 = 2 atanh(1/3) = sum of 2 / ((2 i + 1) 3^(2 i + 1)): 110 terms, each down by less than two last bits, and a
/// rest below 3^-219.
cpp_int ln2() {
  cpp_int sum = 0, power = (cpp_int(2) << fraction_bits) / 3;
  for (int i = 0; i < 110; ++i, power /= 9) sum += power / (2 * i + 1);
  return sum;
}

ExpTable make() {
  ExpTable table{};
  const cpp_int one = cpp_int(1) << fraction_bits;
  // root[i] = 2^(2^-i-1): each square root halves the relative error of the one before and adds its own last bit.
  cpp_int root[16], x = one * 2;
  for (cpp_int& r : root) r = x = sqrt(cpp_int(x << fraction_bits));
  for (int i = 0; i < 256; ++i) {
    cpp_int coarse = one, fine = one;
    for (int bit = 0; bit < 8; ++bit)
      if (i >> bit & 1) coarse = product(coarse, root[7 - bit]), fine = product(fine, root[15 - bit]);
    to_words(coarse, table.coarse[i]);
    to_words(fine, table.fine[i]);
  }
  cpp_int inverse = one;
  for (int i = 0; i <= 10; ++i) {
    if (i > 0) inverse /= i;
    to_words(inverse, table.inverse_factorial[i]);
  }
  // Three hundred bits of the step itself: divide after scaling up would gain nothing.
  to_words(cpp_int(ln2() >> 16), table.step);
  return table;
}

}  // namespace

const ExpTable& exp_table() {
  static const ExpTable table = make();
  return table;
}

}  // namespace assay::words
