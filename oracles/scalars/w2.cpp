// exp and log of W2 without libm: one table of 2^(j/64) serves both.
#include "oracles/scalars/w2.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <iterator>
#include <limits>

namespace assay {
namespace {

using Node = W2Node;

constexpr std::array<Node, 65> nodes{{{0x1.0000000000000p+0, 0x0.0p+0, 0x0.0p+0},
                                      {0x1.02c9a3e778061p+0, -0x1.19083535b085dp-56, -0x1.8c3532cd3c93cp-110},
                                      {0x1.059b0d3158574p+0, 0x1.d73e2a475b465p-55, 0x1.0062605084cdbp-110},
                                      {0x1.0874518759bc8p+0, 0x1.186be4bb284ffp-57, 0x1.0ca2e700712ecp-111},
                                      {0x1.0b5586cf9890fp+0, 0x1.8a62e4adc610bp-54, -0x1.5888c23e969dep-108},
                                      {0x1.0e3ec32d3d1a2p+0, 0x1.03a1727c57b53p-59, -0x1.486191a0844cdp-113},
                                      {0x1.11301d0125b51p+0, -0x1.6c51039449b3ap-54, 0x1.835723ece277ep-109},
                                      {0x1.1429aaea92de0p+0, -0x1.32fbf9af1369ep-54, -0x1.19b78a08a8a4ap-108},
                                      {0x1.172b83c7d517bp+0, -0x1.19041b9d78a76p-55, 0x1.33534d81de012p-109},
                                      {0x1.1a35beb6fcb75p+0, 0x1.e5b4c7b4968e4p-55, 0x1.8559493e1bceep-111},
                                      {0x1.1d4873168b9aap+0, 0x1.e016e00a2643cp-54, 0x1.b80cd32c3195dp-110},
                                      {0x1.2063b88628cd6p+0, 0x1.dc775814a8495p-55, -0x1.4ddfb70a20ffap-111},
                                      {0x1.2387a6e756238p+0, 0x1.9b07eb6c70573p-54, -0x1.24e3a6ddb9b15p-109},
                                      {0x1.26b4565e27cddp+0, 0x1.2bd339940e9d9p-55, 0x1.00a61f908858ap-110},
                                      {0x1.29e9df51fdee1p+0, 0x1.612e8afad1255p-55, 0x1.9b086d8e7ea0bp-111},
                                      {0x1.2d285a6e4030bp+0, 0x1.0024754db41d5p-54, -0x1.a4730f59fba29p-110},
                                      {0x1.306fe0a31b715p+0, 0x1.6f46ad23182e4p-55, 0x1.3f1ab7f3a973fp-110},
                                      {0x1.33c08b26416ffp+0, 0x1.32721843659a6p-54, -0x1.0a8884e8cbfb4p-108},
                                      {0x1.371a7373aa9cbp+0, -0x1.63aeabf42eae2p-54, 0x1.427a498066c30p-108},
                                      {0x1.3a7db34e59ff7p+0, -0x1.5e436d661f5e3p-56, 0x1.4e9852844e1fap-111},
                                      {0x1.3dea64c123422p+0, 0x1.ada0911f09ebcp-55, -0x1.35a7461720115p-109},
                                      {0x1.4160a21f72e2ap+0, -0x1.ef3691c309278p-58, -0x1.e89f8a0d6501ep-115},
                                      {0x1.44e086061892dp+0, 0x1.89b7a04ef80d0p-59, -0x1.a4696c8e759a4p-115},
                                      {0x1.486a2b5c13cd0p+0, 0x1.3c1a3b69062f0p-56, 0x1.77aadfa0a975dp-111},
                                      {0x1.4bfdad5362a27p+0, 0x1.d4397afec42e2p-56, 0x1.59c82d1cd39aep-113},
                                      {0x1.4f9b2769d2ca7p+0, -0x1.4b309d25957e3p-54, -0x1.af2f1d147926cp-113},
                                      {0x1.5342b569d4f82p+0, -0x1.07abe1db13cadp-55, 0x1.7e2881ef402f7p-111},
                                      {0x1.56f4736b527dap+0, 0x1.9bb2c011d93adp-54, -0x1.7dd4859499427p-111},
                                      {0x1.5ab07dd485429p+0, 0x1.6324c054647adp-54, -0x1.12eacf834a636p-109},
                                      {0x1.5e76f15ad2148p+0, 0x1.ba6f93080e65ep-54, -0x1.288c5a19aee89p-108},
                                      {0x1.6247eb03a5585p+0, -0x1.383c17e40b497p-54, 0x1.f92c1ce9c4b7bp-112},
                                      {0x1.6623882552225p+0, -0x1.bb60987591c34p-54, 0x1.d80f5b24846ddp-109},
                                      {0x1.6a09e667f3bcdp+0, -0x1.bdd3413b26456p-54, 0x1.e63eebdaed20dp-109},
                                      {0x1.6dfb23c651a2fp+0, -0x1.bbe3a683c88abp-57, 0x1.26ebcf1509e2ep-115},
                                      {0x1.71f75e8ec5f74p+0, -0x1.16e4786887a99p-55, -0x1.97b060b677479p-110},
                                      {0x1.75feb564267c9p+0, -0x1.0245957316dd3p-54, -0x1.117f3b7058939p-108},
                                      {0x1.7a11473eb0187p+0, -0x1.41577ee04992fp-55, -0x1.b4320943f25bap-114},
                                      {0x1.7e2f336cf4e62p+0, 0x1.05d02ba15797ep-56, 0x1.edd76ebcc6c0ep-113},
                                      {0x1.82589994cce13p+0, -0x1.d4c1dd41532d8p-54, 0x1.67b133bece9a4p-113},
                                      {0x1.868d99b4492edp+0, -0x1.fc6f89bd4f6bap-54, -0x1.460f20292e7cfp-109},
                                      {0x1.8ace5422aa0dbp+0, 0x1.6e9f156864b27p-54, -0x1.8abf4d7df300bp-111},
                                      {0x1.8f1ae99157736p+0, 0x1.5cc13a2e3976cp-55, 0x1.9551a3c4526f1p-115},
                                      {0x1.93737b0cdc5e5p+0, -0x1.75fc781b57ebcp-57, 0x1.cac0b310cac46p-112},
                                      {0x1.97d829fde4e50p+0, -0x1.d185b7c1b85d1p-54, 0x1.e0a1e53c13adap-109},
                                      {0x1.9c49182a3f090p+0, 0x1.c7c46b071f2bep-56, 0x1.b96f77bcdab56p-111},
                                      {0x1.a0c667b5de565p+0, -0x1.359495d1cd533p-54, 0x1.7be8fb6bc3f5ep-110},
                                      {0x1.a5503b23e255dp+0, -0x1.d2f6edb8d41e1p-54, -0x1.101ea51f5dd6cp-111},
                                      {0x1.a9e6b5579fdbfp+0, 0x1.0fac90ef7fd31p-54, 0x1.daf55ab2788f9p-110},
                                      {0x1.ae89f995ad3adp+0, 0x1.7a1cd345dcc81p-54, 0x1.f83442936158ap-109},
                                      {0x1.b33a2b84f15fbp+0, -0x1.2805e3084d708p-57, 0x1.60882e893f9bcp-112},
                                      {0x1.b7f76f2fb5e47p+0, -0x1.5584f7e54ac3bp-56, 0x1.f033e0e67be38p-112},
                                      {0x1.bcc1e904bc1d2p+0, 0x1.23dd07a2d9e84p-55, 0x1.d8166fdc68f94p-110},
                                      {0x1.c199bdd85529cp+0, 0x1.11065895048ddp-55, 0x1.d2c89586b123fp-111},
                                      {0x1.c67f12e57d14bp+0, 0x1.2884dff483cadp-54, -0x1.1e49ac41297c8p-109},
                                      {0x1.cb720dcef9069p+0, 0x1.503cbd1e949dbp-56, 0x1.0740b9610d9c3p-110},
                                      {0x1.d072d4a07897cp+0, -0x1.cbc3743797a9cp-54, -0x1.0c7076b925d25p-108},
                                      {0x1.d5818dcfba487p+0, 0x1.2ed02d75b3707p-55, -0x1.d1ab4904b9340p-112},
                                      {0x1.da9e603db3285p+0, 0x1.c2300696db532p-54, 0x1.9d945b2faa521p-109},
                                      {0x1.dfc97337b9b5fp+0, -0x1.1a5cd4f184b5cp-54, 0x1.d49e2aca001ebp-109},
                                      {0x1.e502ee78b3ff6p+0, 0x1.39e8980a9cc8fp-55, 0x1.2e85146325356p-110},
                                      {0x1.ea4afa2a490dap+0, -0x1.e9c23179c2893p-54, -0x1.0946c3a64778fp-109},
                                      {0x1.efa1bee615a27p+0, 0x1.dc7f486a4b6b0p-54, 0x1.03bc623fe9100p-108},
                                      {0x1.f50765b6e4540p+0, 0x1.9d3e12dd8a18bp-54, -0x1.471c20d2af797p-111},
                                      {0x1.fa7c1819e90d8p+0, 0x1.74853f3a5931ep-55, 0x1.e13509d53ee63p-113},
                                      {0x1.0000000000000p+1, 0x0.0p+0, 0x0.0p+0}}};

// ln 2 / 64 in three words, 2^-142 away from it. The first two have 36 bits: their products with |k| < 2^17 are exact.
constexpr double step_1 = 0x1.62e42fefa0000p-7, step_2 = 0x1.cf79abc9e0000p-46, step_3 = 0x1.d9cc01f97b57ap-85;
constexpr double per_step = 0x1.71547652b82fep+6;

/// x / (ln 2 / 64) to the nearest integer, for |x| < 2^10.
int steps_in(double x) {
  constexpr double shifter = 0x1.8p52;
  return static_cast<int>((x * per_step + shifter) - shifter);
}

/// 2^n x for |n| <= 1100: two factors, because 2^n alone may not be a double.
W2 scaled(const W2& x, int n) {
  const double first = std::ldexp(1.0, n / 2), second = std::ldexp(1.0, n - n / 2);
  return fast_two_sum(x.hi * first * second, x.lo * first * second);
}

/// sum of c[i] s^i in plain double: for terms that are small next to what they are added to.
template <std::size_t N>
double polynomial(const std::array<double, N>& c, double s) {
  double sum = 0;
  for (std::size_t i = N; i-- > 0;) sum = sum * s + c[i];
  return sum;
}

/// c[0] + s (c[1] + s (... + s last)).
template <std::size_t N>
W2 polynomial(const std::array<W2, N>& c, const W2& s, W2 last) {
  for (std::size_t i = N; i-- > 0;) last = c[i] + s * last;
  return last;
}

}  // namespace

std::span<const W2Node> w2_nodes() { return nodes; }

// x = k ln2/64 + r, |r| < 2^-7.5; exp(x) = 2^(k div 64) node(k mod 64) (1 + p), p = r + r^2/2 + ... + r^11/11!.
// Error in u^2: the last addition 3, the node 0.5, its product with p 5 |p| < 0.03, p itself less than (5 + 3) |p| and
// the two additions that make r 6 |r|, together 0.08. The double tail from r^7/7! on and r^12/12! are below 2^-10.
W2 exp(const W2& x) {
  if (std::isnan(x.hi)) return x.hi;
  if (x.hi > 710) return std::numeric_limits<double>::infinity();
  if (x.hi < -746) return 0.0;
  const int k = steps_in(x.hi), j = k & 63;
  const W2 r = (two_sum(x.hi, -k * step_1) + two_sum(x.lo, -k * step_2)) + two_product(-k, step_3);

  static const std::array<W2, 6> inverse_factorials{{1.0,
                                                     0.5,
                                                     {0x1.5555555555555p-3, 0x1.5555555555555p-57},
                                                     {0x1.5555555555555p-5, 0x1.5555555555555p-59},
                                                     {0x1.1111111111111p-7, 0x1.1111111111111p-63},
                                                     {0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65}}};
  constexpr std::array<double, 5> tail{0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-16, 0x1.71de3a556c734p-19,
                                       0x1.27e4fb7789f5cp-22, 0x1.ae64567f544e4p-26};
  const W2 p = r * polynomial(inverse_factorials, r, polynomial(tail, r.hi));

  const W2 node{nodes[static_cast<std::size_t>(j)].hi, nodes[static_cast<std::size_t>(j)].lo};
  return scaled(node + node * p, (k - j) / 64);
}

// As above in doubles; `beyond` is what they leave out. In units of 2^-60, the node being in [1, 2]: p 0.5, which the
// node doubles, the product of both 1, its sum with the node's low word 1, that word times p 0.5: 3.5, and rounding
// beyond -+ `off` itself 1. Where all of [beyond - off, beyond + off] rounds to one double, so does the value of
// exp(W2), which is 2^-104 from the truth. One number in 28 is not as clear.
double exp_to_nearest(double x) {
  if (!(std::fabs(x) < 700)) return exp(W2(x)).hi;
  const int k = steps_in(x), j = k & 63;
  const W2 first = two_sum(x, -k * step_1), r = two_sum(first.hi, -k * step_2);
  constexpr std::array<double, 6> inverse_factorials{0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040};
  const double low = r.lo + (first.lo - k * step_3);
  const double p = r.hi + (low + r.hi * r.hi * polynomial(inverse_factorials, r.hi));
  const Node& node = nodes[static_cast<std::size_t>(j)];
  const double beyond = node.lo + node.hi * p, result = node.hi + beyond;
  constexpr double off = 4.5 * 0x1p-60;
  if (node.hi + (beyond - off) != result || node.hi + (beyond + off) != result) return exp(W2(x)).hi;
  return result * std::bit_cast<double>(static_cast<std::uint64_t>((k - j) / 64 + 1023) << 52);
}

// x = 2^e m, c = (hi + lo) of the node nearest to m, k = 64 e + j:
// log(x) = k ln2/64 - tail(j) + 2 atanh(t), t = (m - c)/(m + c), |t| < 2^-8.5.
// Error in u^2: t is off by 3 + 3 + 15, so that with the last addition of its series the atanh is off by 24.1. Where
// k = 0 that is all. Elsewhere k ln2/64 - tail is off by 3 and at most 2.01 times the result, the atanh at most 1.01
// times, and the last addition takes 3: 33.4. The first term left out is t^15/15, below 2^-122 t.
W2 log(const W2& x) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (x.hi == 0) return -infinity;
  if (!(x.hi > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (x.hi == infinity) return infinity;
  int e = 0;
  const double high = 2 * std::frexp(x.hi, &e);
  --e;
  const W2 m{high, std::ldexp(x.lo, -e)};

  const Node* const above = std::upper_bound(nodes.begin() + 1, nodes.end() - 1, high,
                                             [](double value, const Node& node) { return value < node.hi; });
  const Node* const below = std::prev(above);
  const Node& node = high - below->hi < above->hi - high ? *below : *above;
  const W2 c{node.hi, node.lo}, t = (m - c) / (m + c), s = t * t;

  static const std::array<W2, 3> inverse_odds{{{0x1.5555555555555p-2, 0x1.5555555555555p-56},
                                               {0x1.999999999999ap-3, -0x1.999999999999ap-57},
                                               {0x1.2492492492492p-3, 0x1.2492492492492p-57}}};
  constexpr std::array<double, 3> tail{0x1.c71c71c71c71cp-4, 0x1.745d1745d1746p-4, 0x1.3b13b13b13b14p-4};
  const W2 half = t + t * (s * polynomial(inverse_odds, s, polynomial(tail, s.hi)));

  const int k = 64 * e + static_cast<int>(&node - nodes.data());
  const W2 steps = two_sum(k * step_1, k * step_2) + W2(k * step_3 - node.tail);
  return steps + W2(2 * half.hi, 2 * half.lo);
}

}  // namespace assay
