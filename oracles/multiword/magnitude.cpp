#include "oracles/multiword/magnitude.hpp"

#include <algorithm>
#include <array>

#include "oracles/multiword/lanes/exp.hpp"

namespace assay::words {
namespace {

using portable::error_of;
using portable::exp_degree;
using portable::exp_polynomial;
using portable::exp_reduced;
using portable::Magnitude;
using portable::magnitudes;
using portable::multiply_add;
using portable::multiply_add_words;
using portable::product;
using portable::renormalise;
using portable::splat;
using portable::terms_per_chunk;
using portable::terms_per_renormalisation;
using portable::times;
using portable::Words;
using portable::words;

/// The larger of two vertices: errors are linear in the sizes, so their maximum over a simplex is at a vertex.
template <class F>
double worst_of_two(F&& f) {
  return std::max(f(1.0, 0.0), f(0.0, 1.0));
}

/// A row of `terms` products a b, a of one word or of all (`Long`). The worst place for all the mass is the first term,
/// where it stays longest.
template <int W, bool Long>
Words<Magnitude, W> row_of(int terms) {
  auto sum = words<Magnitude, W>(0);
  for (int i = 0; i < terms; ++i) {
    const auto a = magnitudes<W>(1), b = magnitudes<W>(i == 0 ? 1 : 0);
    if constexpr (Long)
      multiply_add_words<W>(sum.w, a.w, b.w);
    else
      multiply_add<W, W>(sum.w, a.w[0], b.w);
    if (W > 1 && (i + 1) % terms_per_renormalisation == 0) renormalise<W>(sum.w);
  }
  renormalise<W>(sum.w);
  return sum;
}

/// The error of a whole chunk. Later chunks of a row start from words that are already there.
template <int W, bool Long>
double chunk_error() {
  const double first = error_of(row_of<W, Long>(terms_per_chunk));
  return std::max(first, error_of(row_of<W, Long>(2 * terms_per_chunk)) - first);
}

/// The error that every run between two renormalisations adds to a row of up to a chunk.
template <int W>
double run_error() {
  double worst = 0;
  for (int runs = 1; runs * terms_per_renormalisation <= terms_per_chunk; ++runs)
    worst = std::max(worst, error_of(row_of<W, true>(runs * terms_per_renormalisation)) / runs);
  return worst;
}

/// A constant of the table: W words, rounded as exp_table.hpp promises.
template <int W>
Words<Magnitude, W> constant(double size) {
  Words<Magnitude, W> c = magnitudes<W>(size);
  double unit = size;
  for (int i = 0; i < W; ++i) unit *= unit_roundoff;
  c.w[W - 1].error = unit * (1 + 0x1p-40);
  return c;
}

/// exp.hpp step by step on magnitudes; section 3.
template <int W>
double exp_error() {
  constexpr double largest = 501, most_steps = largest * exp_steps_per_unit;
  const Words<Magnitude, W> x = magnitudes<W>(largest);
  const Words<Magnitude, W + 1> step = constant<W + 1>(1.06e-5);
  const Words<Magnitude, W> r = exp_reduced<W>(x, Magnitude{most_steps, 0}, step.w);

  Magnitude inverse_factorial[exp_degree<W> + 1][4];
  double value = 1, remainder = 1;
  for (int j = 0; j <= exp_degree<W>; ++j) {
    if (j > 0) value /= j;
    const Words<Magnitude, W> c = j < 2 ? magnitudes<W>(1) : constant<W>(value);
    for (int i = 0; i < W; ++i) inverse_factorial[j][i] = i > 0 && j < 2 ? Magnitude{} : c.w[i];
    remainder *= exp_reduced_limit / (j + 1);
  }
  Words<Magnitude, W> p = exp_polynomial<W>(r, inverse_factorial);
  p.w[W - 1].error += 1.01 * remainder;
  return error_of(constant<W>(1) * constant<W>(1) * p);
}

template <int W>
Constants derive() {
  Constants c{};
  c.add = worst_of_two([](double a, double b) { return error_of(magnitudes<W>(a) + magnitudes<W>(b)); });
  c.multiply = error_of(magnitudes<W>(1) * magnitudes<W>(1));
  c.multiply_plain = error_of(times(magnitudes<W>(1), splat<Magnitude>(1)));
  c.update = worst_of_two([](double a, double b) {
    auto sum = magnitudes<W>(a);
    multiply_add<W, W>(sum.w, splat<Magnitude>(1), magnitudes<W>(b).w);
    renormalise<W>(sum.w);
    return error_of(sum);
  });
  c.decayed_update = worst_of_two([](double a, double b) {
    auto sum = product(magnitudes<W>(1), magnitudes<W>(a));
    multiply_add<W, W>(sum.w, splat<Magnitude>(1), magnitudes<W>(b).w);
    renormalise<W>(sum.w);
    return error_of(sum);
  });
  c.multiply_add = worst_of_two([](double a, double b) {
    auto sum = magnitudes<W>(a);
    multiply_add_words<W>(sum.w, magnitudes<W>(1).w, magnitudes<W>(b).w);
    renormalise<W>(sum.w);
    return error_of(sum);
  });
  c.chunk = chunk_error<W, false>();
  c.chunk_words = chunk_error<W, true>();
  c.run_words = run_error<W>();
  c.chunk_add = c.add;
  if constexpr (W > 1) c.exp = exp_error<W>() * (1 + 0x1p-12);
  for (double* x : {&c.add, &c.multiply, &c.multiply_plain, &c.update, &c.decayed_update, &c.multiply_add, &c.chunk,
                    &c.chunk_words, &c.run_words, &c.chunk_add, &c.exp})
    *x *= safety;
  return c;
}

}  // namespace

const Constants& constants(int words) {
  static const std::array<Constants, 4> all{derive<1>(), derive<2>(), derive<3>(), derive<4>()};
  return all[static_cast<std::size_t>(words - 1)];
}

double accumulation(int words, int terms) {
  // Linear in the number of renormalised blocks, rounded up to whole chunks.
  return constants(words).chunk * std::max(1, (terms + terms_per_chunk - 1) / terms_per_chunk);
}

double matrix_accumulation(int words, int terms) {
  const int chunks = std::max(1, (terms + terms_per_chunk - 1) / terms_per_chunk);
  return (constants(words).chunk + constants(words).chunk_add * chunks) * safety;
}

}  // namespace assay::words
