#include "language/emit/prelude.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "language/emit/emit.hpp"
#include "oracles/scalars/w2.hpp"

namespace assay::language::device {
namespace {

/// Everything before the table of exp and log.
constexpr std::string_view before_nodes = R"prelude(#ifndef ASSAY_EMITTED
#define ASSAY_EMITTED
// A block is one head. On a device its threads are groups of lanes: they share vectors, and of every matrix a lane has a
// column, of which its group has `share` rows of every `stage_lines`. On the host one thread does the work of all. Sums
// are never contracted: compile with --fmad=false or -ffp-contract=off.
#ifdef __CUDACC__
#define DEVICE static __device__
#define CONSTANTS __device__ const
#define RARE static __device__ __noinline__
#define MEET __syncthreads()
#define ONCE if (threadIdx.x == 0)
#define EACH(i, n) for (int i = (int)threadIdx.x; i < (n); i += (int)blockDim.x)
#define EACH_FROM(begin, i, n) \
  for (int i = (int)((threadIdx.x + (begin) / 32 * 32) % blockDim.x); i < (n); i += (int)blockDim.x)
#define EACH_LONG(i, n) for (long i = (long)threadIdx.x; i < (n); i += (long)blockDim.x)
#define EACH_COLUMN(c, columns) if (const int c = (int)threadIdx.x % lanes; c < (columns))
#define IN_TURN(first, rows) \
  for (bool has_turn = await_turn(first, group, groups, lanes); has_turn; \
       has_turn = end_turn((first) + stage_lines < (rows), group, groups, lanes))
#define PRIVATE(name, rows, columns) double name[((rows) + stage_lines - 1) / stage_lines * share]
#define TILE(name, r, c, columns) name[(r) / stage_lines * share + (r) % share]
#define TERMS(name, columns) double name[share]
#define TERM(name, j, c, columns) name[j]
#define UNROLLED _Pragma("unroll")
#define KEYS(name, n) __shared__ Key name[n]
#define LANES(longest) (((longest) + 31) / 32 * 32)
#define GROUPS(lanes) ((lanes) > 256 ? 1 : (lanes) < 64 ? 8 : 512 / (lanes))
#define GROUP ((int)threadIdx.x / lanes)
#define ENTRY(name) \
  extern "C" __global__ void __launch_bounds__(emitted_##name::groups * emitted_##name::lanes, @BLOCKS@) \
      assay_##name(const Launch launch, const Draw draw) { \
    extern __shared__ double shared[]; \
    emitted_##name::run(launch, draw, (int)blockIdx.x, shared); \
  } \
  extern "C" __global__ void assay_##name##_workspace(const Launch launch, long* numbers) { \
    *numbers = emitted_##name::workspace_numbers(launch); \
  } \
  extern "C" { \
  __device__ long assay_##name##_block[2] = {emitted_##name::groups * emitted_##name::lanes, \
                                             emitted_##name::shared_numbers}; \
  }
#else
#include <cmath>
#include <cstring>
#include <vector>
#define DEVICE static inline
#define CONSTANTS const
#define RARE static inline
#define MEET (void)0
#define ONCE
#define EACH(i, n) for (int i = 0; i < (n); ++i)
#define EACH_FROM(begin, i, n) EACH(i, n)
#define EACH_LONG(i, n) for (long i = 0; i < (n); ++i)
#define EACH_COLUMN(c, columns) EACH(c, columns)
#define IN_TURN(first, rows)
#define PRIVATE(name, rows, columns) double name[(rows) * (columns)]
#define TILE(name, r, c, columns) name[(r) * (columns) + (c)]
#define TERMS(name, columns) double name[share * (columns)]
#define TERM(name, j, c, columns) name[(j) * (columns) + (c)]
#define UNROLLED
#define KEYS(name, n) Key name[n]
#define LANES(longest) (longest)
#define GROUPS(lanes) 1
#define GROUP 0
#define ENTRY(name) \
  extern "C" void assay_##name(const Launch* launch, const Draw* draw, int head) { \
    std::vector<double> shared((std::size_t)emitted_##name::shared_numbers); \
    emitted_##name::run(*launch, *draw, head, shared.data()); \
  } \
  extern "C" long assay_##name##_workspace(const Launch* launch) { return emitted_##name::workspace_numbers(*launch); }
#endif
#define FOR_TILE(r, rows, c, columns) \
  for (int r = group * share; r < (rows); r += r % share < share - 1 ? 1 : stage_lines - share + 1) \
    EACH_COLUMN(c, columns)
// Rows from `first` on that a thread has on the stage.
#define FOR_STAGE(j, line, r, first, rows) \
  UNROLLED for (int j = 0; j < share; ++j) \
    if (const int line = group * share + j, r = (first) + line; r < (rows))
#define STAGE(which, line, columns) (stage + (which) * stage_lines * (lanes + 1) + (line) * ((columns) + 1))

// Arrays of all heads follow each other. `length` has the axes that scans run along.
struct Launch {
  const double* const* inputs;
  double* const* outputs;
  double* workspace;
  int length[@LENGTHS@];
  int heads, segment;
};

// How a draw errs (oracles/scalars/perturbed.hpp): spacings at 1 and smallest ones, of operands and of sums, all powers
// of two. ASSAY_CUT_OFF: operands are cut off; ASSAY_NARROW: they are as wide as sums; ASSAY_EVERY: all operations err.
// The last three members repeat these.
struct Draw {
  unsigned long long seed;
  double unit, least, sum_unit, sum_least, shift;
  int narrow, every;
};

namespace {

#ifdef __CUDACC__
// Groups one after another, over and over: each waits for the one before it, at a barrier of these two.
DEVICE bool await_turn(int first, int group, int groups, int lanes) {
  if (groups > 1 && (first > 0 || group > 0))
    asm volatile("bar.sync %0, %1;" ::"r"(1 + (group + groups - 1) % groups), "r"(2 * lanes) : "memory");
  return true;
}
DEVICE bool end_turn(bool others_follow, int group, int groups, int lanes) {
  if (groups > 1 && (others_follow || group < groups - 1))
    asm volatile("bar.arrive %0, %1;" ::"r"(1 + group), "r"(2 * lanes) : "memory");
  return false;
}
#endif
constexpr bool cut_off = ASSAY_CUT_OFF, narrow = ASSAY_NARROW, every = ASSAY_EVERY;
constexpr int most(int a, int b) { return a < b ? b : a; }
constexpr int share = 2;

DEVICE double bits(unsigned long long n) {
#ifdef __CUDACC__
  return __longlong_as_double((long long)n);
#else
  double x;
  std::memcpy(&x, &n, sizeof x);
  return x;
#endif
}
DEVICE double none() { return bits(0x7ff8000000000000ULL); }
DEVICE double endless() { return bits(0x7ff0000000000000ULL); }
DEVICE bool is_none(double x) { return x != x; }
DEVICE bool is_finite(double x) { return x - x == 0; }

// ---- pairs of doubles (oracles/scalars/w2.hpp)

struct W2 {
  double hi, lo;
};
DEVICE W2 pair(double hi, double lo) {
  W2 x;
  x.hi = hi, x.lo = lo;
  return x;
}
DEVICE W2 pair(double hi) { return pair(hi, 0.0); }
DEVICE W2 two_sum(double a, double b) {
  const double sum = a + b, part = sum - a;
  return pair(sum, (a - (sum - part)) + (b - part));
}
DEVICE W2 two_product(double a, double b) {
  const double product = a * b;
  return pair(product, fma(a, b, -product));
}
DEVICE W2 fast_two_sum(double a, double b) {
  const double sum = a + b;
  return is_finite(sum) ? pair(sum, b - (sum - a)) : pair(sum);
}
DEVICE W2 negative(W2 a) { return pair(-a.hi, -a.lo); }
DEVICE W2 plus(W2 a, W2 b) {
  const W2 high = two_sum(a.hi, b.hi);
  if (!is_finite(high.hi)) return pair(high.hi);
  const W2 low = two_sum(a.lo, b.lo);
  const W2 sum = fast_two_sum(high.hi, high.lo + low.hi);
  return fast_two_sum(sum.hi, low.lo + sum.lo);
}
DEVICE W2 minus(W2 a, W2 b) { return plus(a, negative(b)); }
DEVICE W2 times(W2 a, W2 b) {
  const W2 high = two_product(a.hi, b.hi);
  if (!is_finite(high.hi)) return pair(high.hi);
  const double cross = fma(a.lo, b.hi, fma(a.hi, b.lo, a.lo * b.lo));
  return fast_two_sum(high.hi, high.lo + cross);
}
DEVICE W2 over(W2 a, W2 b) {
  const double quotient = a.hi / b.hi;
  if (!is_finite(quotient) || b.hi == endless() || b.hi == -endless()) return pair(quotient);
  const W2 high = two_product(b.hi, quotient);
  const W2 product = fast_two_sum(high.hi, b.lo * quotient);
  const W2 back = fast_two_sum(product.hi, product.lo + high.lo);
  const double rest = (a.hi - back.hi) + (a.lo - back.lo);
  return fast_two_sum(quotient, rest / b.hi);
}

// ---- exp and log (oracles/scalars/w2.cpp): 2^(j/64) in three words

CONSTANTS double nodes[65][3] = {
)prelude";

/// Everything behind it.
constexpr std::string_view behind_nodes = R"prelude(};
constexpr double step_1 = 0x1.62e42fefa0000p-7, step_2 = 0x1.cf79abc9e0000p-46, step_3 = 0x1.d9cc01f97b57ap-85;

DEVICE int steps_in(double x) {
  const double shifter = 0x1.8p52;
  return (int)((x * 0x1.71547652b82fep+6 + shifter) - shifter);
}
DEVICE double power_of_two(int n) { return ldexp(1.0, n); }
RARE W2 exp_of(W2 x) {
  if (is_none(x.hi)) return pair(x.hi);
  if (x.hi > 710) return pair(endless());
  if (x.hi < -746) return pair(0.0);
  const int k = steps_in(x.hi), j = k & 63;
  const W2 r = plus(plus(two_sum(x.hi, -k * step_1), two_sum(x.lo, -k * step_2)), two_product(-k, step_3));
  double tail = 0;
  tail = tail * r.hi + 0x1.ae64567f544e4p-26, tail = tail * r.hi + 0x1.27e4fb7789f5cp-22;
  tail = tail * r.hi + 0x1.71de3a556c734p-19, tail = tail * r.hi + 0x1.a01a01a01a01ap-16;
  tail = tail * r.hi + 0x1.a01a01a01a01ap-13;
  W2 p = pair(tail);
  p = plus(pair(0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65), times(r, p));
  p = plus(pair(0x1.1111111111111p-7, 0x1.1111111111111p-63), times(r, p));
  p = plus(pair(0x1.5555555555555p-5, 0x1.5555555555555p-59), times(r, p));
  p = plus(pair(0x1.5555555555555p-3, 0x1.5555555555555p-57), times(r, p));
  p = plus(pair(0.5), times(r, p));
  p = plus(pair(1.0), times(r, p));
  p = times(r, p);
  const W2 node = pair(nodes[j][0], nodes[j][1]), whole = plus(node, times(node, p));
  const int n = (k - j) / 64;
  const double first = power_of_two(n / 2), second = power_of_two(n - n / 2);
  return fast_two_sum(whole.hi * first * second, whole.lo * first * second);
}
// exp_of(x).hi, sooner.
DEVICE double exponential(double x) {
  if (!(fabs(x) < 700)) return exp_of(pair(x)).hi;
  const int k = steps_in(x), j = k & 63;
  const W2 first = two_sum(x, -k * step_1), r = two_sum(first.hi, -k * step_2);
  const double low = r.lo + (first.lo - k * step_3);
  double sum = 0;
  sum = sum * r.hi + 1.0 / 5040, sum = sum * r.hi + 1.0 / 720, sum = sum * r.hi + 1.0 / 120;
  sum = sum * r.hi + 1.0 / 24, sum = sum * r.hi + 1.0 / 6, sum = sum * r.hi + 0.5;
  const double p = r.hi + (low + r.hi * r.hi * sum);
  const double beyond = nodes[j][1] + nodes[j][0] * p, result = nodes[j][0] + beyond, off = 0x1p-57;
  if (nodes[j][0] + (beyond - off) != result || nodes[j][0] + (beyond + off) != result) return exp_of(pair(x)).hi;
  return result * bits((unsigned long long)((k - j) / 64 + 1023) << 52);
}
RARE W2 log_of(W2 x) {
  if (x.hi == 0) return pair(-endless());
  if (!(x.hi > 0)) return pair(none());
  if (x.hi == endless()) return pair(endless());
  int e = 0;
  const double high = 2 * frexp(x.hi, &e);
  --e;
  const W2 m = pair(high, ldexp(x.lo, -e));
  int j = 1;
  while (j < 64 && !(high < nodes[j][0])) ++j;
  if (high - nodes[j - 1][0] < nodes[j][0] - high) --j;
  const W2 c = pair(nodes[j][0], nodes[j][1]), t = over(minus(m, c), plus(m, c)), s = times(t, t);
  double tail = 0;
  tail = tail * s.hi + 0x1.3b13b13b13b14p-4, tail = tail * s.hi + 0x1.745d1745d1746p-4;
  tail = tail * s.hi + 0x1.c71c71c71c71cp-4;
  W2 p = pair(tail);
  p = plus(pair(0x1.2492492492492p-3, 0x1.2492492492492p-57), times(s, p));
  p = plus(pair(0x1.999999999999ap-3, -0x1.999999999999ap-57), times(s, p));
  p = plus(pair(0x1.5555555555555p-2, 0x1.5555555555555p-56), times(s, p));
  const W2 half = plus(t, times(t, times(s, p)));
  const int k = 64 * e + j;
  const W2 steps = plus(two_sum(k * step_1, k * step_2), pair(k * step_3 - nodes[j][2]));
  return plus(steps, pair(2 * half.hi, 2 * half.lo));
}

// ---- the operations of the language (language/evaluate/functions.hpp)

DEVICE double logarithm(double x) { return log_of(pair(x)).hi; }
DEVICE double root(double x) { return sqrt(x); }
DEVICE double magnitude(double x) { return fabs(x); }
DEVICE double hyperbolic_tangent(double x) {
  if (fabs(x) > 40) return x < 0 ? -1.0 : 1.0;
  if (is_none(x) || x == 0) return x;
  const W2 power = exp_of(pair(2 * x)), one = pair(1.0);
  return over(minus(power, one), plus(power, one)).hi;
}
DEVICE double logistic(double x) {
  const W2 one = pair(1.0);
  if (x > 0) return over(one, plus(one, exp_of(pair(-x, -0.0)))).hi;
  const W2 power = exp_of(pair(x));
  return over(power, plus(one, power)).hi;
}
DEVICE W2 log_of_one_plus(W2 y) {
  const W2 one = pair(1.0), sum = plus(one, y);
  return plus(log_of(sum), over(minus(y, minus(sum, one)), sum));
}
DEVICE double soft_plus(double x) {
  return x > 0 ? plus(pair(x), log_of_one_plus(exp_of(pair(-x, -0.0)))).hi : log_of_one_plus(exp_of(pair(x))).hi;
}
DEVICE double quotient(double a, double b) { return b == 0 ? none() : a / b; }
DEVICE double maximum(double a, double b) { return is_none(a) ? a : b < a ? a : b; }
// An exact zero, whatever the other factor is.
DEVICE double absorbing(double a, double b) { return a == 0 ? 0.0 : a * b; }
DEVICE double absorbing_quotient(double a, double b) { return a == 0 ? 0.0 : quotient(a, b); }
DEVICE double absorbing_term(double a, double b) {
  const double product = a * b;
  return is_none(product) && a == 0 ? 0.0 : product;
}
DEVICE double power(double x, long n) {
  if (n < 0 && x == 0) return none();
  double result = 1;
  for (unsigned long left = n < 0 ? -(unsigned long)n : (unsigned long)n; left > 0;) {
    if (left % 2 == 1) result = result * x;
    left /= 2;
    if (left > 0) x = x * x;
  }
  return n < 0 ? quotient(1.0, result) : result;
}

// Truth values: 0 no, 1 yes, 2 depends on a number that does not exist.
DEVICE int compared_lt(double a, double b) { return is_none(a) || is_none(b) ? 2 : a < b; }
DEVICE int compared_le(double a, double b) { return is_none(a) || is_none(b) ? 2 : a <= b; }
DEVICE int compared_eq(double a, double b) { return is_none(a) || is_none(b) ? 2 : a == b; }
DEVICE int ordered_lt(long a, long b) { return a < b; }
DEVICE int ordered_le(long a, long b) { return a <= b; }
DEVICE int ordered_eq(long a, long b) { return a == b; }
DEVICE int neither(int a) { return a == 2 ? 2 : !a; }
DEVICE int both(int a, int b) { return a == 0 || b == 0 ? 0 : a == 2 ? 2 : b; }
DEVICE int either(int a, int b) { return a == 1 || b == 1 ? 1 : a == 2 ? 2 : b; }
DEVICE double chosen(int c, double a, double b) {
  return c == 2 && !(a == 0 && b == 0) ? none() : c == 0 ? b : a;
}
DEVICE int chosen_truth(int c, int a, int b) { return c == 2 && a != b ? 2 : c == 0 ? b : a; }

struct Key {
  unsigned first, second;
};
// Philox4x32-10, the first two words.
RARE Key key_at(const Draw& draw, unsigned head, unsigned block, unsigned token, unsigned word) {
  unsigned low = (unsigned)draw.seed, high = (unsigned)(draw.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xd2511f53ULL * head, b = 0xcd9e8d57ULL * token;
    head = (unsigned)(b >> 32) ^ block ^ low, token = (unsigned)(a >> 32) ^ word ^ high;
    block = (unsigned)b, word = (unsigned)a;
    low += 0x9e3779b9U, high += 0xbb67ae85U;
  }
  Key key;
  key.first = head, key.second = block;
  return key;
}
DEVICE unsigned hashed(Key key, unsigned n) {
  unsigned h = key.first + n * 0x9e3779b9U;
  h = (h ^ (h >> 16)) * 0x85ebca6bU + key.second;
  h = (h ^ (h >> 13)) * 0xc2b2ae35U;
  return h ^ (h >> 16);
}
// Between -2^31 and 2^31; as a conversion, which takes a GPU longer.
DEVICE double centred_steps(Key key, unsigned n) {
  return bits(0x4330000000000000ULL | (hashed(key, n) ^ 0x80000000U)) - 0x1.000008p52;
}
DEVICE double centred(Key key, long n) { return centred_steps(key, (unsigned)n) * 0x1p-32; }
template <class N>
DEVICE Key of_round(Key key, N n, unsigned round) {
  const Key zero = {0, 0};
  if (sizeof(N) > 4) round += (unsigned)((unsigned long long)n >> 32) << 16;
  if (round != 0) key.second += hashed(zero, round);
  return key;
}
DEVICE unsigned long long bits_of(double x) {
#ifdef __CUDACC__
  return (unsigned long long)__double_as_longlong(x);
#else
  unsigned long long n;
  std::memcpy(&n, &x, sizeof n);
  return n;
#endif
}
DEVICE double binade(double x) { return bits(bits_of(x) & 0x7ff0000000000000ULL); }
DEVICE double larger(double a, double b) { return a < b ? b : a; }
// Exponents where doubles have them, and powers of two from them.
constexpr int of_one = 0x3ff00000, binade_step = 1 << 20;
DEVICE int exponent(double x) { return (int)(bits_of(x) >> 32) & 0x7ff00000; }
DEVICE double power_from(int exponent) { return bits((unsigned long long)(unsigned)exponent << 32); }

template <class N>
DEVICE double as_read(const Draw& draw, Key key, N n, double x) {
  if (narrow || x == 0) return x;
  const double size = power_from(most(exponent(x) + exponent(draw.unit) - of_one, exponent(draw.least)));
  double off = centred_steps(key, (unsigned)n) * 0x1p-32;
  if (cut_off) off -= copysign(0.5, x);
  return fma(off, size, x);  // the product is exact
}
RARE double one_off(const Draw& draw, Key key, long n, unsigned round, double x, double units) {
  if (!is_finite(x)) return x;
  const double u = centred(of_round(key, n, round), n);
  const double size = x == 0 ? 0.0 : units * larger(binade(x) * draw.sum_unit, draw.sum_least);
  if (draw.sum_unit == 0x1p-52) return fabs(u) < 0.5 - 1.0 / 24 ? x : x + copysign(size, u);
  return x + u * size;
}
DEVICE double rounded(const Draw& draw, Key key, long n, unsigned round, double x) {
  return every ? one_off(draw, key, n, round, x, 1) : x;
}
DEVICE double exponential_off(const Draw& draw, Key key, long n, double x) {
  return one_off(draw, key, n, 0, x, draw.sum_unit == 0x1p-52 ? 1 : 4);
}
RARE double power_off(const Draw& draw, Key key, long n, double x, long to) {
  if (to < 0 && x == 0) return none();
  double result = 1;
  unsigned round = 0;
  for (unsigned long left = to < 0 ? -(unsigned long)to : (unsigned long)to; left > 0;) {
    if (left % 2 == 1) result = rounded(draw, key, n, round++, result * x);
    left /= 2;
    if (left > 0) x = rounded(draw, key, n, round++, x * x);
  }
  return to < 0 ? rounded(draw, key, n, round, quotient(1.0, result)) : result;
}

// Sums of products: one term more of a line, or the whole of one.
RARE double add_rarely(const Draw& draw, Key key, long n, double to, double term) {
  if (narrow) return one_off(draw, key, n, 1, to + one_off(draw, key, n, 0, term, 1), 1);
  const double sum = to + term, of_term = binade(term) * draw.sum_unit, of_sum = binade(sum) * draw.sum_unit;
  return sum + centred(of_round(key, n, 0), n) * sqrt(of_term * of_term + 2 * of_sum * of_sum);
}
// The root is that of the larger one's square times a number that the ratio says, to the bit unless they are extreme.
template <class N>
DEVICE double add_scaled(const Draw& draw, Key key, N n, double to, double term) {
  const double sum = to + term;
  const int a = exponent(term), b = exponent(sum), whole = most(a, b), apart = (a - b) >> 20;
  if (narrow || whole < of_one - 400 * binade_step || whole > of_one + 400 * binade_step)
    return add_rarely(draw, key, n, to, term);
  const double steps = centred_steps(of_round(key, n, 0), (unsigned)n) * widths[most(-27, -most(-27, -apart)) + 27];
  return fma(steps, power_from(whole + exponent(draw.sum_unit) - of_one - 32 * binade_step), sum);
}
struct Moments {
  double sums[8], squares[8];
};
DEVICE void add_term(Moments& moments, int i, double term) {
  moments.sums[i & 7] += term, moments.squares[i & 7] += term * term;
}
#ifdef __CUDACC__
// By eight threads that lie side by side; every warp has to come here as a whole.
constexpr int threads_a_line = 8;
DEVICE Moments moments_of(const double* line, int n) {
  double sum = 0, square = 0;
  for (int i = (int)threadIdx.x & 7; i < n; i += 8) sum += line[i], square += line[i] * line[i];
  Moments moments;
  for (int l = 0; l < 8; ++l) {
    moments.sums[l] = __shfl_sync(0xffffffffU, sum, l, 8);
    moments.squares[l] = __shfl_sync(0xffffffffU, square, l, 8);
  }
  return moments;
}
#else
constexpr int threads_a_line = 1;
DEVICE Moments moments_of(const double* line, int n) {
  Moments moments = {};
  for (int i = 0; i < n; ++i) add_term(moments, i, line[i]);
  return moments;
}
#endif
// The moments of sums over rows that others go on with.
DEVICE Moments kept_moments(const double* kept, int c, int columns) {
  Moments moments;
  for (int l = 0; l < 8; ++l) moments.sums[l] = kept[l * columns + c], moments.squares[l] = kept[(8 + l) * columns + c];
  return moments;
}
DEVICE void keep_moments(double* kept, int c, int columns, const Moments& moments) {
  for (int l = 0; l < 8; ++l) kept[l * columns + c] = moments.sums[l], kept[(8 + l) * columns + c] = moments.squares[l];
}
// By how much a sum of products is off (oracles/scalars/perturbed.cpp): of n terms, whose thirds and halves those are;
// `mean`: the sum's square over n.
DEVICE double width_of(const Draw& draw, double sum, double squares, double third, double half, double mean) {
  const double partial = third * sum * sum + half * larger(0.0, squares - mean);
  return sqrt((squares + partial) * 0.5410106403333613) * draw.sum_unit;
}
DEVICE double dot_of(const Draw& draw, Key key, long n, const Moments& moments, double terms) {
  double sum = 0, squares = 0;
  for (int l = 0; l < 8; ++l) sum += moments.sums[l], squares += moments.squares[l];
  const double width = width_of(draw, sum, squares, terms / 3, terms / 2, sum * sum / terms);
  return sum + centred(of_round(key, n, 0), n) * width;
}
DEVICE double add_dot(const Draw& draw, Key key, long n, double to, double dot) {
  const double total = to + dot;
  return narrow ? one_off(draw, key, n, 1, total, 1) : total;
}
DEVICE double add_product(const Draw& draw, Key key, long n, double to, double term) {
  Moments moments = {};
  add_term(moments, 0, term);
  return add_dot(draw, key, n, to, dot_of(draw, key, n, moments, 1));
}

}  // namespace
#endif
)prelude";

}  // namespace

std::string literal_of(double x) {
  if (x == 0) return std::signbit(x) ? "-0x0p+0" : "0x0p+0";
  return fmt::format("{:a}", x);
}

std::string prelude(bool has_few_registers) {
  std::string whole(before_nodes);
  const auto put = [&whole](std::string_view mark, std::size_t number) {
    whole.replace(whole.find(mark), mark.size(), std::to_string(number));
  };
  put("@BLOCKS@", has_few_registers ? 2 : 1), put("@LENGTHS@", most_free_lengths);
  for (const W2Node& node : w2_nodes())
    whole += fmt::format("    {{{}, {}, {}}},\n", literal_of(node.hi), literal_of(node.lo), literal_of(node.tail));
  whole +=
      "};\n// By the exponent of a / b, from -27 on: sqrt(a * a + 2 * b * b) of the larger one, 1.\nCONSTANTS double "
      "widths[55] = {";
  for (int apart = -27; apart <= 27; ++apart) {
    const double a = std::ldexp(1.0, std::min(apart, 0)), b = std::ldexp(1.0, -std::max(apart, 0));
    whole += literal_of(std::sqrt(a * a + 2 * b * b)) + ", ";
  }
  return whole.append(behind_nodes);
}

}  // namespace assay::language::device
