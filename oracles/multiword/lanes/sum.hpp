#pragma once
// Numbers of W words: the unevaluated sum c[0] + ... + c[W-1] of W doubles, word i of the order u^i, u = 2^-53.
//
// Sums of products are *deferred*: every exact product and every rounding error of a sum is pushed to the word of its
// order, and only the last word is rounded. Renormalising now and then keeps the words apart.
//
// One source, three readings: on Lanes it computes, on double it computes one number, and on Magnitude (magnitude.hpp)
// it proves: there the same statements bound the size of every word and the error of the result.
// docs/error-analysis.md.
#include "oracles/multiword/lanes/lanes.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

template <class V>
struct Two {
  V high, low;
};

/// a + b exactly (Knuth).
template <class V>
ASSAY_INLINE Two<V> two_sum(const V& a, const V& b) {
  const V sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

/// a * b exactly, unless its last bit is below 2^-1074.
template <class V>
ASSAY_INLINE Two<V> two_product(const V& a, const V& b) {
  const V product = a * b;
  return {product, product_rest(a, b, product)};
}

/// Says that a * b is left out of a sum. Only Magnitude listens.
template <class V>
ASSAY_INLINE void leave_out(V&, const V&, const V&) {}
/// Says what is known about |x| from elsewhere. Only Magnitude listens.
template <class V>
ASSAY_INLINE void assume_at_most(V&, double) {}

template <class V, int W>
struct Words {
  V w[W];
};

template <class V, int W>
ASSAY_INLINE Words<V, W> words(double x) {
  Words<V, W> r;
  r.w[0] = splat<V>(x);
  for (int i = 1; i < W; ++i) r.w[i] = splat<V>(0);
  return r;
}

template <int W>
ASSAY_INLINE Words<Lanes, W> broadcast_words(const double* p) {
  Words<Lanes, W> r;
  for (int w = 0; w < W; ++w) r.w[w] = broadcast(p[w]);
  return r;
}

/// c += x, x of the order of word K.
template <int K, int W, class V>
ASSAY_INLINE void push(V* c, const V& x) {
  if constexpr (K == W - 1) {
    c[K] = c[K] + x;
  } else {
    const Two<V> t = two_sum(c[K], x);
    c[K] = t.high;
    push<K + 1, W>(c, t.low);
  }
}

/// One pass from the last word up to word `Top`: exact, afterwards |c[Top + 1]| <= u |c[Top]|.
template <int W, int Top, class V>
ASSAY_INLINE void sweep(V* c) {
  ASSAY_UNROLL
  for (int i = W - 1; i > Top; --i) {
    const Two<V> t = two_sum(c[i - 1], c[i]);
    c[i - 1] = t.high, c[i] = t.low;
  }
}

/// Sorts the words by size again: exact.
template <int W, int Top = 0, class V>
ASSAY_INLINE void renormalise(V* c) {
  if constexpr (Top + 1 < W) {
    sweep<W, Top>(c);
    renormalise<W, Top + 1>(c);
  }
}

/// c += b.
template <int W, int I = 0, class V>
ASSAY_INLINE void add_to(V* c, const V* b) {
  if constexpr (I < W) {
    push<I, W>(c, b[I]);
    add_to<W, I + 1>(c, b);
  }
}

/// c += a b, a one word, b of N words.
template <int W, int N, int I = 0, class V>
ASSAY_INLINE void multiply_add(V* c, const V& a, const V* b) {
  if constexpr (I < N && I < W) {
    if constexpr (I == W - 1) {
      c[I] = fma(a, b[I], c[I]);
    } else {
      const Two<V> p = two_product(a, b[I]);
      push<I, W>(c, p.high);
      push<I + 1, W>(c, p.low);
    }
    multiply_add<W, N, I + 1>(c, a, b);
  }
}

/// a b, the first words of both alone, with zeros for the words below: where a sum of products begins.
template <class V, int W>
ASSAY_INLINE Words<V, W> first_product(const V& a, const V& b) {
  Words<V, W> r = words<V, W>(0);
  if constexpr (W == 1) {
    r.w[0] = a * b;
  } else {
    const Two<V> p = two_product(a, b);
    r.w[0] = p.high, r.w[1] = p.low;
  }
  return r;
}

/// c += a b, both of W words, without the products below the last word; from product (I, J) on.
template <int W, int I = 0, int J = 0, class V>
ASSAY_INLINE void multiply_add_words(V* c, const V* a, const V* b) {
  if constexpr (I < W && J < W) {
    if constexpr (I + J >= W) {
      leave_out(c[W - 1], a[I], b[J]);
    } else if constexpr (I + J == W - 1) {
      c[W - 1] = fma(a[I], b[J], c[W - 1]);
    } else {
      const Two<V> p = two_product(a[I], b[J]);
      push<I + J, W>(c, p.high);
      push<I + J + 1, W>(c, p.low);
    }
    multiply_add_words<W, I, J + 1>(c, a, b);
  } else if constexpr (I < W) {
    multiply_add_words<W, I + 1, 0>(c, a, b);
  }
}

template <class V, int W>
ASSAY_INLINE Words<V, W> operator+(Words<V, W> a, const Words<V, W>& b) {
  add_to<W>(a.w, b.w);
  renormalise<W>(a.w);
  return a;
}
template <class V, int W>
ASSAY_INLINE Words<V, W> operator-(const Words<V, W>& a) {
  Words<V, W> r;
  for (int i = 0; i < W; ++i) r.w[i] = splat<V>(0) - a.w[i];
  return r;
}
template <class V, int W>
ASSAY_INLINE Words<V, W> operator-(const Words<V, W>& a, const Words<V, W>& b) {
  return a + -b;
}
/// a b with its words as they come, not renormalised.
template <class V, int W>
ASSAY_INLINE Words<V, W> product(const Words<V, W>& a, const Words<V, W>& b) {
  Words<V, W> r = first_product<V, W>(a.w[0], b.w[0]);
  multiply_add_words<W, 0, 1>(r.w, a.w, b.w);
  return r;
}
template <class V, int W>
ASSAY_INLINE Words<V, W> operator*(const Words<V, W>& a, const Words<V, W>& b) {
  Words<V, W> r = product(a, b);
  renormalise<W>(r.w);
  return r;
}
/// a b, b one word.
template <class V, int W>
ASSAY_INLINE Words<V, W> times(const Words<V, W>& a, const V& b) {
  Words<V, W> r = first_product<V, W>(b, a.w[0]);
  multiply_add<W, W, 1>(r.w, b, a.w);
  renormalise<W>(r.w);
  return r;
}
/// a + b, b one word.
template <class V, int W>
ASSAY_INLINE Words<V, W> plus(Words<V, W> a, const V& b) {
  push<0, W>(a.w, b);
  renormalise<W>(a.w);
  return a;
}

/// Sums of products are renormalised after this many terms ...
inline constexpr int terms_per_renormalisation = 16;
/// ... and added to the total after this many (matrix products).
inline constexpr int terms_per_chunk = 128;

/// A size of a number of W words: |c[i]| <= u^i size for every i. All error bounds are in terms of sizes.
template <class V, int W>
ASSAY_INLINE V size_of(const Words<V, W>& c) {
  V s = abs(c.w[W - 1]);
  ASSAY_UNROLL
  for (int i = W - 2; i >= 0; --i) s = fma(s, splat<V>(0x1p53), abs(c.w[i]));
  return s;
}

}  // namespace assay::words::ASSAY_WORDS_ISA
