#pragma once
// The row passes of the local-linear-attention engine: everything between two matrix products.
#include "oracles/multiword/lanes/exp.hpp"
#include "oracles/multiword/lanes/kernels.hpp"
#include "oracles/multiword/lanes/sum.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

template <int W>
ASSAY_INLINE Words<Lanes, W> load_planes(const double* const* planes, std::size_t at) {
  Words<Lanes, W> r;
  for (int w = 0; w < W; ++w) r.w[w] = load(planes[w] + at);
  return r;
}
template <int W>
ASSAY_INLINE void store_planes(double* const* planes, std::size_t at, const Words<Lanes, W>& x) {
  for (int w = 0; w < W; ++w) store(planes[w] + at, x.w[w]);
}

/// Sums `term(at)` over at = 0, lanes, ... < n, n a multiple of 8: always eight partial sums, whatever the lanes, added
/// one after the other. Error: add * (n / 8 + 8) * the sum of the terms' sizes.
template <int W, class F>
ASSAY_INLINE void row_sum(std::size_t n, double* out, F&& term) {
  constexpr int packs = 8 / lane_count;
  Words<Lanes, W> partial[packs];
  for (auto& p : partial) p = words<Lanes, W>(0);
  for (std::size_t at = 0; at < n; at += 8)
    for (int i = 0; i < packs; ++i) partial[i] = partial[i] + term(at + static_cast<std::size_t>(i) * lane_count);
  double planes[W][8];
  for (int w = 0; w < W; ++w)
    for (int i = 0; i < packs; ++i) store(&planes[w][i * lane_count], partial[i].w[w]);
  Words<double, W> sum = words<double, W>(0);
  for (int lane = 0; lane < 8; ++lane) {
    Words<double, W> x;
    for (int w = 0; w < W; ++w) x.w[w] = planes[w][lane];
    sum = sum + x;
  }
  for (int w = 0; w < W; ++w) out[w] = sum.w[w];
}

/// x <- exp(factor x - shift), 0 outside of [first, last) and below e^-500; `sum` gets the total.
template <int W>
void weights_row(double* const* x, std::size_t n, std::size_t first, std::size_t last, const double* factor,
                 double shift, double* sum) {
  const Words<Lanes, W> f = broadcast_words<W>(factor);
  for (std::size_t at = 0; at < n; at += lane_count) {
    if (at + lane_count <= first || at >= last) {
      store_planes<W>(x, at, words<Lanes, W>(0));
      continue;
    }
    const Words<Lanes, W> s = plus(load_planes<W>(x, at) * f, broadcast(-shift));
    Words<Lanes, W> e = exp<W>(s);
    double lowest[lane_count];
    store(lowest, s.w[0]);
    for (int l = 0; l < lane_count; ++l) {
      const std::size_t j = at + static_cast<std::size_t>(l);
      lowest[l] = j >= first && j < last && !(lowest[l] < exp_lowest) ? 1 : 0;
    }
    for (int w = 0; w < W; ++w) e.w[w] = kept(e.w[w], lowest);
    store_planes<W>(x, at, e);
  }
  row_sum<W>(n, sum, [&](std::size_t at) { return load_planes<W>(x, at); });
}

/// sum of a b.
template <int W>
void dot_row(const double* const* a, const double* const* b, std::size_t n, double* out) {
  row_sum<W>(n, out, [&](std::size_t at) { return load_planes<W>(a, at) * load_planes<W>(b, at); });
}

/// center <- center * factor, pull <- center - q.
template <int W>
void center_row(double* const* center, double* const* pull, const double* q, const double* factor, std::size_t n) {
  const Words<Lanes, W> f = broadcast_words<W>(factor);
  for (std::size_t at = 0; at < n; at += lane_count) {
    const Words<Lanes, W> c = load_planes<W>(center, at) * f;
    store_planes<W>(center, at, c);
    store_planes<W>(pull, at, plus(c, broadcast(0) - load(q + at)));
  }
}

/// t <- t - offset, u <- weight t; `sum` gets the total of u.
template <int W>
void residual_row(double* const* t, double* const* u, const double* const* weight, const double* offset, std::size_t n,
                  double* sum) {
  const Words<Lanes, W> minus = -broadcast_words<W>(offset);
  for (std::size_t at = 0; at < n; at += lane_count) {
    const Words<Lanes, W> x = load_planes<W>(t, at) + minus;
    store_planes<W>(t, at, x);
    store_planes<W>(u, at, x * load_planes<W>(weight, at));
  }
  row_sum<W>(n, sum, [&](std::size_t at) { return load_planes<W>(u, at); });
}

/// r <- pull - ridge eta - r + center sum_u.
template <int W>
void residual_end(double* const* r, const double* const* pull, const double* const* ridge, const double* const* eta,
                  const double* const* center, const double* sum_u, std::size_t n) {
  const Words<Lanes, W> total = broadcast_words<W>(sum_u);
  for (std::size_t at = 0; at < n; at += lane_count) {
    Words<Lanes, W> x = load_planes<W>(pull, at) - load_planes<W>(ridge, at) * load_planes<W>(eta, at);
    x = x - load_planes<W>(r, at);
    store_planes<W>(r, at, x + load_planes<W>(center, at) * total);
  }
}

/// out <- weight factor - u.
template <int W>
void output_row(double* const* out, const double* const* weight, const double* factor, const double* const* u,
                std::size_t n) {
  const Words<Lanes, W> f = broadcast_words<W>(factor);
  for (std::size_t at = 0; at < n; at += lane_count)
    store_planes<W>(out, at, load_planes<W>(weight, at) * f - load_planes<W>(u, at));
}

/// out <- a b.
template <int W>
void multiply_row(double* const* out, const double* const* a, const double* const* b, std::size_t n) {
  for (std::size_t at = 0; at < n; at += lane_count)
    store_planes<W>(out, at, load_planes<W>(a, at) * load_planes<W>(b, at));
}

/// out <- (u slope + weight share) factor.
template <int W>
void score_gradient_row(double* const* out, const double* const* u, const double* const* slope,
                        const double* const* weight, const double* share, const double* factor, std::size_t n) {
  const Words<Lanes, W> e = broadcast_words<W>(share), f = broadcast_words<W>(factor);
  for (std::size_t at = 0; at < n; at += lane_count) {
    const Words<Lanes, W> d = load_planes<W>(u, at) * load_planes<W>(slope, at);
    store_planes<W>(out, at, (d + load_planes<W>(weight, at) * e) * f);
  }
}

}  // namespace assay::words::ASSAY_WORDS_ISA
