#pragma once
// Problems and answers of local linear attention in words.
#include <cstddef>
#include <span>
#include <vector>

#include "oracles/multiword/certified.hpp"
#include "oracles/multiword/number.hpp"

namespace assay::words {

/// In which units lambda is given (lla-family.md section 3): of w itself, of w / max w, of w / sum w.
enum class RidgeMode { absolute, max, mass };

/// Where eta comes from: local linear attention, Parallax, softmax attention.
enum class Slope { solved, given, zero };

/// One head; row-major; taken as exact. All magnitudes below 2^100, at most 2^20 keys of dimension at most 2^10.
struct LlaProblem {
  std::size_t queries = 0, keys = 0, dim = 0, values = 0;
  std::span<const double> q, k, v;  ///< [Tq, K], [Tk, K], [Tk, V]
  std::span<const double> lambda;   ///< [1], [Tq] or [Tq, K], >= 0; only where eta is solved for
  RidgeMode mode = RidgeMode::mass;
  bool causal = true;      ///< end-aligned: query i sees the keys up to i + Tk - Tq
  std::size_t window = 0;  ///< the newest so many of them; 0: all
  Factor inverse_bandwidth = exactly(1);
  Slope slope = Slope::solved;
  std::span<const double> probe;              ///< rho, [Tq, K]; only where eta is given ...
  const Certified* probe_in_words = nullptr;  ///< ... and not in words, each within its bound
};

/// A row whose bound exceeds target * max |o| is computed again with one word more, up to `most_words`; for gradients
/// also one whose bounds exceed target * the sum of its absolute terms.
struct Escalation {
  double target = 0x1p-63;
  int most_words = 4;
};

struct LlaAnswer {
  Certified o;                  ///< [Tq, V], the bounds of a row are equal; infinite where no proof was found
  std::vector<int> words_used;  ///< [Tq]
};

struct LlaGradients {
  Certified o;                  ///< [Tq, V]
  Certified d_q, d_k, d_v;      ///< [Tq, K], [Tk, K], [Tk, V]; the bounds of a row are equal
  Certified d_lambda;           ///< [1, 1], [Tq, 1] or [Tq, K], as lambda was given; else empty
  Certified d_probe;            ///< [Tq, K] where a probe was given; the bounds of a row are equal
  Certified d_bandwidth;        ///< [1, 1], by h of w = exp(q.k / h)
  std::vector<int> words_used;  ///< [Tq]
};

}  // namespace assay::words
