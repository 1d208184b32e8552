#pragma once
// Arithmetic of eight numbers of W words at a time, each with a radius: no number is further from its middle than that.
// docs/error-analysis.md, section 7.
//
// A pack is [word][8], then the radii [8]. The radius of a result is what the radii of the operands become, plus what
// the operation rounds away, in terms of the operands' sizes (sum.hpp: size_of).
#include "oracles/multiword/lanes/exp.hpp"
#include "oracles/multiword/lanes/kernels.hpp"
#include "oracles/multiword/lanes/sum.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

/// Where word `w` of a pack begins; its radius is the word after the last.
constexpr std::size_t word_at(int w) { return static_cast<std::size_t>(w) * pack_size; }

/// As many of a pack's eight numbers as there are lanes.
template <int W>
struct Balls {
  Words<Lanes, W> middle;
  Lanes radius, size;
};

template <int W>
ASSAY_INLINE Balls<W> load_balls(const double* pack, int first) {
  Balls<W> a;
  for (int w = 0; w < W; ++w) a.middle.w[w] = load(pack + word_at(w) + first);
  a.radius = load(pack + word_at(W) + first);
  a.size = size_of(a.middle);
  return a;
}

/// Rounded up: at most a dozen operations on non-negative numbers formed `radius`.
template <int W>
ASSAY_INLINE void store_balls(double* pack, int first, const Words<Lanes, W>& middle, Lanes radius) {
  for (int w = 0; w < W; ++w) store(pack + word_at(w) + first, middle.w[w]);
  store(pack + word_at(W) + first, radius * broadcast(1 + 0x1p-49));
}

/// Exact. Sums that cancel can leave the leading word empty after one pass; a size then tells nothing.
template <int W>
ASSAY_INLINE Words<Lanes, W> settled(Words<Lanes, W> x) {
  if constexpr (W > 2) renormalise<W>(x.w);
  return x;
}

/// The most that underflows of one operation add up to, but nothing if `smallest` is zero: then the result is exact.
ASSAY_INLINE Lanes underflow_of(Lanes smallest) {
  return lesser(smallest * broadcast(1024), broadcast(pack_underflow));
}

template <int W>
inline void add_balls(double* r, const double* a, const double* b, const PackConstants& c) {
  for (int i = 0; i < pack_size; i += lane_count) {
    const Balls<W> x = load_balls<W>(a, i), y = load_balls<W>(b, i);
    const Lanes sizes = x.size + y.size;
    store_balls<W>(r, i, settled(x.middle + y.middle),
                   fma(broadcast(c.add), sizes, x.radius + y.radius) + underflow_of(sizes));
  }
}

template <int W>
inline void subtract_balls(double* r, const double* a, const double* b, const PackConstants& c) {
  for (int i = 0; i < pack_size; i += lane_count) {
    const Balls<W> x = load_balls<W>(a, i), y = load_balls<W>(b, i);
    const Lanes sizes = x.size + y.size;
    store_balls<W>(r, i, settled(x.middle - y.middle),
                   fma(broadcast(c.add), sizes, x.radius + y.radius) + underflow_of(sizes));
  }
}

template <int W>
ASSAY_INLINE Lanes sum_of_sizes(const Words<Lanes, W>& x, int first) {
  Lanes sum = broadcast(0);
  for (int w = W - 1; w >= first; --w) sum = sum + abs(x.w[w]);
  return sum;
}

/// The radius of x y from the radii of x and y, and the most that an underflow may add. A size may be twice the number,
/// which in a decaying state would add up with every token.
template <int W>
ASSAY_INLINE Lanes product_radius(const Balls<W>& x, const Balls<W>& y) {
  return fma(sum_of_sizes(x.middle, 0), y.radius, x.radius * (sum_of_sizes(y.middle, 0) + y.radius)) +
         underflow_of(lesser(x.size + x.radius, y.size + y.radius));
}

template <int W>
inline void multiply_balls(double* r, const double* a, const double* b, const PackConstants& c) {
  for (int i = 0; i < pack_size; i += lane_count) {
    const Balls<W> x = load_balls<W>(a, i), y = load_balls<W>(b, i);
    store_balls<W>(r, i, x.middle * y.middle, fma(broadcast(c.multiply) * x.size, y.size, product_radius(x, y)));
  }
}

/// z + x y, or z - x y.
template <int W, bool Minus>
ASSAY_INLINE void store_multiply_add(double* r, int first, const Balls<W>& z, const Balls<W>& x, const Balls<W>& y,
                                     const PackConstants& c) {
  Words<Lanes, W> sum = z.middle;
  multiply_add_words<W>(sum.w, (Minus ? -x.middle : x.middle).w, y.middle.w);
  renormalise<W>(sum.w);
  const Lanes rounding = broadcast(c.multiply_add) * fma(x.size, y.size, z.size);
  store_balls<W>(r, first, settled(sum), z.radius + product_radius(x, y) + rounding);
}

/// r += a b, or r -= a b.
template <int W, bool Minus>
inline void multiply_add_balls(double* r, const double* a, const double* b, const PackConstants& c) {
  for (int i = 0; i < pack_size; i += lane_count)
    store_multiply_add<W, Minus>(r, i, load_balls<W>(r, i), load_balls<W>(a, i), load_balls<W>(b, i), c);
}

/// r_j += a b_j for j < n, or r_j -= a b_j.
template <int W, bool Minus>
inline void add_scaled_balls(PackLine r, const double* a, ConstPackLine b, std::size_t n, const PackConstants& c) {
  for (int i = 0; i < pack_size; i += lane_count) {
    const Balls<W> x = load_balls<W>(a, i);
    double* to = r.first;
    const double* from = b.first;
    for (std::size_t j = 0; j < n; ++j, to += r.step, from += b.step)
      store_multiply_add<W, Minus>(to, i, load_balls<W>(to, i), x, load_balls<W>(from, i), c);
  }
}

/// Half of a sum of products, and what the radius of the sum is made of.
template <int W>
struct DotTerms {
  Words<Lanes, W> sum = words<Lanes, W>(0);
  Lanes sizes = broadcast(0), radius = broadcast(0), smallest = broadcast(0);

  ASSAY_INLINE void add(const double* a, const double* b, int first) {
    const Balls<W> x = load_balls<W>(a, first), y = load_balls<W>(b, first);
    multiply_add_words<W>(sum.w, x.middle.w, y.middle.w);
    const Lanes reach = y.size + y.radius;
    sizes = fma(x.size, y.size, sizes);
    radius = radius + fma(x.size, y.radius, x.radius * reach);
    smallest = smallest + lesser(x.size + x.radius, reach);
  }
};

/// r += a_0 b_0 + ... + a_(n-1) b_(n-1), or r -= that. Two sums take turns: one would wait for itself.
template <int W, bool Minus>
inline void add_dot_balls(double* r, ConstPackLine a, ConstPackLine b, std::size_t n, const PackConstants& c) {
  constexpr std::size_t chunk = std::size_t{2} * terms_per_chunk, run = std::size_t{2} * terms_per_renormalisation;
  for (int i = 0; i < pack_size; i += lane_count)
    for (std::size_t first = 0; first < n; first += chunk) {
      const std::size_t last = n - first < chunk ? n : first + chunk;
      const double* x = a.first + static_cast<std::ptrdiff_t>(first) * a.step;
      const double* y = b.first + static_cast<std::ptrdiff_t>(first) * b.step;
      DotTerms<W> even, odd;
      double runs = 0;
      for (std::size_t from = first; from < last; from += run) {
        const std::size_t to = last - from < run ? last : from + run;
        std::size_t j = from;
        for (; j + 1 < to; j += 2, x += 2 * a.step, y += 2 * b.step) {
          even.add(x, y, i);
          odd.add(x + a.step, y + b.step, i);
        }
        if (j < to) even.add(x, y, i);
        renormalise<W>(even.sum.w);
        renormalise<W>(odd.sum.w);
        runs += 1;
      }
      const Balls<W> z = load_balls<W>(r, i);
      const Words<Lanes, W> dot = even.sum + odd.sum;
      const Lanes sums = size_of(even.sum) + size_of(odd.sum) + size_of(dot) + z.size;
      const Lanes rounding = fma(broadcast(c.dot * runs), even.sizes + odd.sizes, broadcast(c.add) * sums);
      const Lanes lost = lesser((even.smallest + odd.smallest) * broadcast(1024), broadcast(chunk * pack_underflow));
      // Hundreds of non-negative terms, rounded.
      const Lanes own = (even.radius + odd.radius + rounding + lost) * broadcast(1 + 0x1p-40);
      store_balls<W>(r, i, settled(Minus ? z.middle - dot : z.middle + dot), z.radius + own);
    }
}

/// The sum of the words, rounded.
template <int W>
ASSAY_INLINE Lanes nearest(const Words<Lanes, W>& x) {
  Lanes sum = x.w[W - 1];
  for (int w = W - 2; w >= 0; --w) sum = sum + x.w[w];
  return sum;
}

/// Long division, a word at a time. The error of the quotient q is measured: a / b - q = (a - q b) / b. Not a number,
/// or infinite, is the radius where b may be zero.
template <int W>
inline void divide_balls(double* r, const double* a, const double* b, const PackConstants& c) {
  constexpr double up = 1 + 0x1p-49, down = 1 - 0x1p-49;
  for (int i = 0; i < pack_size; i += lane_count) {
    const Balls<W> x = load_balls<W>(a, i), y = load_balls<W>(b, i);
    const Lanes divisor = nearest(y.middle), zero = broadcast(0);
    Balls<W> q{words<Lanes, W>(0), zero, zero};
    Words<Lanes, W> rest = x.middle;
    for (int step = 0; step < W; ++step) {
      const Lanes digit = nearest(rest) / divisor;
      q.middle = plus(q.middle, digit);
      multiply_add<W, W>(rest.w, zero - digit, y.middle.w);
      renormalise<W>(rest.w);
    }
    q.size = size_of(q.middle);
    rest = x.middle;
    multiply_add_words<W>(rest.w, (-q.middle).w, y.middle.w);
    renormalise<W>(rest.w);
    const Lanes radius = x.radius + product_radius(q, y) + broadcast(c.multiply_add) * fma(q.size, y.size, x.size);
    const Lanes most = (sum_of_sizes(rest, 0) + radius) * broadcast(up);
    const Lanes least = abs(y.middle.w[0]) * broadcast(down) - (sum_of_sizes(y.middle, 1) + y.radius) * broadcast(up);
    // By zero where it would be by anything below.
    const Lanes missed = most / (zero - lesser(zero - least, zero));
    store_balls<W>(r, i, q.middle, missed * broadcast(up) + underflow_of(most));
  }
}

/// The first words of the lower triangle of n x n packs, [n][n][8]; `rest` gets the sum of the squares of everything
/// left out, radii and the upper triangle too.
template <int W>
inline void leading_words(ConstPackLine rows, std::size_t n, double* A, double* rest) {
  for (int lane = 0; lane < pack_size; lane += lane_count) {
    Lanes squares = broadcast(0);
    for (std::size_t i = 0; i < n; ++i) {
      const double* from = rows.first + static_cast<std::ptrdiff_t>(i) * rows.step;
      double* to = A + i * n * pack_size;
      for (std::size_t j = 0; j <= i; ++j, from += word_at(W + 1), to += pack_size) {
        const Balls<W> x = load_balls<W>(from, lane);
        const Lanes left = sum_of_sizes(x.middle, 1) + x.radius;
        squares = fma(left * broadcast(i == j ? 1 : 2), left, squares);
        store(to + lane, x.middle.w[0]);
      }
    }
    store(rest + lane, squares);
  }
}

/// exp of middles within [-500, 500] and radii up to 1; anything else is unspecified.
template <int W>
inline void exp_balls(double* r, const double* a, const PackConstants& c) {
  for (int i = 0; i < pack_size; i += lane_count) {
    const Balls<W> x = load_balls<W>(a, i);
    const Words<Lanes, W> power = exp(x.middle);
    // |exp(d) - 1| <= d + d^2 up to d = 1.79.
    const Lanes growth = fma(x.radius, x.radius, x.radius);
    // The rounded power may be the smaller one: one more rounding for the inherited radius.
    store_balls<W>(r, i, power, size_of(power) * fma(growth, broadcast(1 + 0x1p-40), broadcast(c.exp)));
  }
}

template <int W>
constexpr PackKernels pack_kernels() {
  return {add_balls<W>,
          subtract_balls<W>,
          multiply_balls<W>,
          divide_balls<W>,
          multiply_add_balls<W, false>,
          multiply_add_balls<W, true>,
          add_dot_balls<W, false>,
          add_dot_balls<W, true>,
          add_scaled_balls<W, false>,
          add_scaled_balls<W, true>,
          exp_balls<W>,
          leading_words<W>};
}

}  // namespace assay::words::ASSAY_WORDS_ISA
