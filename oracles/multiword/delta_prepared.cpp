#include "oracles/multiword/delta_prepared.hpp"

#include <algorithm>
#include <cmath>

#include "oracles/multiword/magnitude.hpp"
#include "reference/core/error.hpp"

namespace assay::words {
namespace {

bool is_bounded(double x) { return std::fabs(x) < 0x1p200; }

void check(const DeltaProblem& x, const Effort& effort) {
  require(effort.words >= 2 && effort.words <= 4, "words: expected 2, 3 or 4, got ", effort.words);
  require(supported(effort.isa), "isa: this machine has no ", name_of(effort.isa));
  require(x.steps <= std::size_t{1} << 24 && x.keys >= 1 && x.keys <= std::size_t{1} << 12 && x.values >= 1,
          "extents out of range: T = ", x.steps, ", K = ", x.keys, ", V = ", x.values);
  require_bounded("q", x.q, x.steps * x.keys, false);
  require_bounded("k", x.k, x.steps * x.keys, false);
  require_bounded("v", x.v, x.steps * x.values, false);
  require_bounded("beta", x.beta, x.steps, true);
  require_bounded("initial_state", x.initial_state, x.keys * x.values, true);
  require(is_bounded(x.scale.word[0]), "scale: expected below 2^200");
  require(x.log_decay.empty() || x.log_decay.size() == x.steps || x.log_decay.size() == x.steps * x.keys,
          "log_decay: expected ", x.steps, " or ", x.steps * x.keys, " numbers, got ", x.log_decay.size());
  require(x.error != DeltaError::undecayed || x.log_decay.empty() || x.log_decay.size() == x.steps,
          "log_decay: an undecayed error takes one decay per step");
  const auto bad = std::find_if_not(x.log_decay.begin(), x.log_decay.end(), [](double a) { return a <= 0; });
  require(bad == x.log_decay.end(), "log_decay: element ", bad - x.log_decay.begin(), " is not <= 0");
}

/// Upper bounds of what a step does to an error of the state: docs/error-analysis.md, section 4.
struct StepNorms {
  double key, query;  ///< 2-norms
  double square;      ///< k . k, computed
  double decay_most = 1;
  double dropped = 0;  ///< absolute error of decays that count as zero
};

/// || alpha I - beta k k^T ||, 0 <= alpha.
double rank_one_norm(double alpha, double beta, const StepNorms& n, double slack) {
  const double length = std::fabs(beta) * n.key * n.key;
  return std::max(alpha, std::fabs(alpha - beta * n.square) + slack * (alpha + length)) * (1 + slack);
}

std::vector<double> decays(const DeltaProblem& x, int words, const Kernels& table) {
  const std::size_t n = x.log_decay.size(), w = static_cast<std::size_t>(words);
  std::vector<double> padded((n + table.lanes - 1) / table.lanes * table.lanes, 0), out(padded.size() * w);
  std::copy(x.log_decay.begin(), x.log_decay.end(), padded.begin());
  for (std::size_t i = 0; i < n; i += table.lanes) table.words[words].exp_of_doubles(&padded[i], &out[i * w]);
  return out;
}

StepNorms norms(const DeltaProblem& x, const Prepared& y, std::size_t t) {
  const std::size_t K = x.keys, w = static_cast<std::size_t>(y.words);
  StepNorms n{norm(&x.k[t * K], K), norm(&x.q[t * K], K), 0};
  for (std::size_t i = 0; i < K; ++i) n.square += x.k[t * K + i] * x.k[t * K + i];
  if (y.decay_kind == DeltaDecay::none) return n;
  const std::size_t count = y.decay_kind == DeltaDecay::per_step ? 1 : K;
  n.decay_most = 0;
  for (std::size_t i = t * count; i < (t + 1) * count; ++i) {
    n.decay_most = std::max(n.decay_most, y.decay[i * w]);
    if (x.log_decay[i] < exp_lowest && std::isfinite(x.log_decay[i])) n.dropped = dropped_weight;
  }
  return n;
}

/// The error of a sum along the keys, in the parts that delta_slab.hpp has: times sum |a| size(b).
double reading(int words, std::size_t keys) {
  const std::size_t parts = delta_parts(words);
  return accumulation(words, static_cast<int>((keys + parts - 1) / parts)) +
         static_cast<double>(parts - 1) * constants(words).add;
}

/// The sizes from which the bounds of a step are made.
struct Step {
  StepNorms norm{};
  double beta = 0;       ///< its size
  double most = 1;       ///< of the decays
  double exp_error = 0;  ///< of a computed decay
  double kept = 1;       ///< norm of what follows a decay that is applied first
  double growth = 1;     ///< norm of the whole step
  bool by_step = false, decaying = false, decayed = false, corrected = false;
};

Step step_of(const DeltaProblem& x, const Prepared& y, std::size_t t) {
  const Constants& c = constants(y.words);
  Step s;
  s.norm = norms(x, y, t), s.beta = y.beta[t];
  const StepNorms& n = s.norm;
  s.by_step = y.decay_kind == DeltaDecay::per_step, s.decaying = y.decay_kind != DeltaDecay::none;
  s.decayed = x.error == DeltaError::decayed, s.corrected = x.error != DeltaError::none;
  // Roundings of a dot product of K terms and a few more operations, relative to the product of the norms.
  const double slack = static_cast<double>(x.keys + 64) * 0x1p-52;
  // Sizes of computed decays and the decays themselves: within 2^-40 of the first word; slack covers it.
  if (s.decaying) s.most = n.decay_most * (1 + 0x1p-40) + n.dropped, s.exp_error = 1.01 * c.exp * s.most + n.dropped;
  s.growth = s.most;
  if (x.error == DeltaError::undecayed) {
    s.growth = rank_one_norm(n.decay_most, s.beta, n, slack) + 0x1p-40 * s.most + n.dropped;
  } else if (s.decayed) {
    s.kept = rank_one_norm(1, s.beta, n, slack);
    s.growth = s.kept * s.most;
  }
  s.beta = std::fabs(s.beta);
  return s;
}

/// The own error of P^T k, times |k| and the size of the state.
double own_reading(const DeltaProblem& x, const Prepared& y, const Step& s) {
  if (!s.corrected) return 0;
  const double read = reading(y.words, x.keys) * (s.decayed ? s.most : 1);
  // A decay of the whole state is part of the update, and multiplies what was read; others make a state of their own.
  return s.by_step && s.decayed ? read + constants(y.words).multiply * s.most + s.exp_error : read;
}

DeltaBound step_bound(const DeltaProblem& x, const Prepared& y, const Step& s) {
  const Constants& c = constants(y.words);
  const double written = s.norm.key * s.beta, read = own_reading(x, y, s);
  const double update = s.by_step ? c.decayed_update : c.update;
  const double decay_error = s.by_step ? s.exp_error : s.kept * (s.exp_error + (s.decaying ? c.multiply * s.most : 0));
  const double scale = std::fabs(x.scale.word[0]) * (1 + 0x1p-40);
  DeltaBound b{};
  b.growth = s.growth * safety;
  b.of_state = (decay_error + written * s.norm.key * read + update * s.most) * safety * safety;
  b.of_residual = written * (c.add + c.multiply_plain) * safety * safety;
  b.of_write = update * s.norm.key * safety * safety;
  b.floor = (s.kept + written + 1) * underflow;
  b.out_of_state = scale * s.norm.query * safety * safety;
  b.out_floor = (scale + 1) * underflow;
  return b;
}

ResidualBound residual_bound(const DeltaProblem& x, const Prepared& y, const Step& s) {
  const Constants& c = constants(y.words);
  if (!s.corrected) return {};
  double of_state = own_reading(x, y, s);
  if (s.decayed && s.decaying && !s.by_step) of_state += s.exp_error + c.multiply * s.most;
  const double key = s.norm.key * safety * safety;
  return {(s.decayed ? s.most : 1) * key, of_state * key, c.add * safety};
}

AdjointBound adjoint_bound(const DeltaProblem& x, const Prepared& y, const Step& s) {
  const Constants& c = constants(y.words);
  const double scale = std::fabs(x.scale.word[0]) * (1 + 0x1p-40), key = s.norm.key, most = s.most;
  const double decay_error = s.decaying ? s.exp_error + c.multiply * most : 0;
  AdjointBound b{};
  b.read_state = c.update, b.read = c.update * s.norm.query;
  b.read_cotangent = s.norm.query * scale * (x.scale.error_of(y.words) + c.multiply_plain);
  b.key = key, b.beta = s.beta, b.reading = reading(y.words, x.keys) * key, b.product = c.multiply_plain * s.beta;
  b.growth = s.growth;
  if (s.by_step && s.corrected) {
    b.of_state = s.exp_error + c.decayed_update * most;
    b.of_own = key * (s.decayed ? most : 1);
    b.of_size = key * (s.decayed ? decay_error + c.decayed_update * most * (1 + 0x1p-40) : c.decayed_update);
  } else if (s.corrected) {
    // First the correction, then decays by channel, if any, of what it made.
    const double corrected = most * c.update + decay_error * (1 + 0x1p-40);
    b.of_state = corrected, b.of_own = key * most, b.of_size = key * corrected;
  } else {
    b.of_state = decay_error;
  }
  const bool erases_decayed = s.decayed && s.decaying;
  b.erased = s.corrected ? (erases_decayed ? most : 1) : 0, b.erased_error = erases_decayed ? decay_error : 0;
  for (double* a : {&b.read_state, &b.read, &b.read_cotangent, &b.key, &b.beta, &b.reading, &b.product, &b.growth,
                    &b.of_state, &b.of_own, &b.of_size, &b.erased, &b.erased_error})
    *a *= safety * safety;
  b.floor = (s.kept * most + (key + 1) * (s.beta + 1)) * underflow;
  return b;
}

}  // namespace

double norm(const double* x, std::size_t n, std::size_t step) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += x[i * step] * x[i * step];
  return std::sqrt(sum) * (1 + 0x1p-30) + 0x1p-530;
}

void require_bounded(const char* name, std::span<const double> a, std::size_t n, bool optional) {
  require(a.size() == n || (optional && a.empty()), name, ": expected ", n, " numbers, got ", a.size());
  const auto bad = std::find_if_not(a.begin(), a.end(), is_bounded);
  require(bad == a.end(), name, ": element ", bad - a.begin(), " is not below 2^200");
}

std::vector<double> padded(std::span<const double> x, std::size_t rows, std::size_t columns, std::size_t stride) {
  std::vector<double> out(rows * stride, 0);
  for (std::size_t t = 0; t < rows; ++t)
    for (std::size_t j = 0; j < columns; ++j) out[t * stride + j] = x[t * columns + j];
  return out;
}

Certified cropped(const Certified& padded, std::size_t columns) {
  Certified out(padded.words, padded.rows, columns);
  for (std::size_t t = 0; t < out.rows; ++t)
    for (std::size_t j = 0; j < columns; ++j) {
      for (int l = 0; l < out.words; ++l) out.word[l][t * columns + j] = padded.word[l][t * padded.columns + j];
      out.bound[t * columns + j] = padded.bound[t * padded.columns + j];
    }
  return out;
}

BackwardBounds backward_bounds(const DeltaProblem& x, const Prepared& y) {
  const Constants& c = constants(y.words);
  BackwardBounds b;
  for (std::size_t t = 0; t < x.steps; ++t) {
    const Step s = step_of(x, y, t);
    b.residual.push_back(residual_bound(x, y, s));
    b.adjoint.push_back(adjoint_bound(x, y, s));
    b.of_decay.push_back(s.most * safety * safety);
    b.of_decay_total.push_back((s.exp_error + c.multiply * s.most) * safety * safety);
  }
  const std::size_t parts = delta_parts(y.words), terms = (x.keys + parts - 1) / parts;
  const auto chunks = static_cast<double>((terms + 127) / 128);  // NOLINT(bugprone-integer-division): upwards
  // Up to eight columns in each of eight sums, one after the other.
  b.sum_error = (c.run_words + column_sums * c.add) * safety * safety;
  b.dot_error = (c.chunk_words * chunks + (static_cast<double>(parts - 1) + 2 * column_sums) * c.add) * safety * safety;
  b.of_query = std::fabs(x.scale.word[0]) * (1 + 0x1p-40) * safety * safety;
  b.of_query_total = y.scale_error;
  return b;
}

DeltaSlab slab_of(const DeltaProblem& x, const Prepared& y, std::size_t slab, std::size_t first, std::size_t count) {
  const std::size_t K = x.keys, of_keys = first * K, words = static_cast<std::size_t>(y.words);
  DeltaSlab s{};
  s.steps = count, s.keys = K, s.value_stride = y.stride;
  s.decay_kind = y.decay_kind, s.error_kind = x.error;
  s.q = x.q.data() + of_keys, s.k = x.k.data() + of_keys;
  s.v = y.v.data() + first * y.stride + slab * y.lanes, s.beta = y.beta.data() + first;
  s.decay = y.decay.data() + first * y.decays_per_step(K) * words, s.scale = x.scale.word.data();
  s.bound = y.bound.data() + first, s.read_error = y.read_error, s.scale_error = y.scale_error;
  return s;
}

Prepared prepare(const DeltaProblem& x, const Effort& effort, std::size_t group) {
  check(x, effort);
  const Kernels& table = kernels(effort.isa);
  Prepared y;
  y.words = effort.words;
  y.lanes = table.lanes;
  const std::size_t unit = std::max(group, y.lanes);
  y.stride = (x.values + unit - 1) / unit * unit;
  y.v = padded(x.v, x.steps, x.values, y.stride);
  y.beta.assign(x.beta.begin(), x.beta.end());
  y.beta.resize(x.steps, 1);
  y.decay_kind = x.log_decay.empty()             ? DeltaDecay::none
                 : x.log_decay.size() == x.steps ? DeltaDecay::per_step
                                                 : DeltaDecay::per_channel;
  y.decay = decays(x, y.words, table);
  const Constants& c = constants(y.words);
  y.read_error = reading(y.words, x.keys) * safety;
  y.scale_error = std::fabs(x.scale.word[0]) * (x.scale.error_of(y.words) + c.multiply) * safety * safety;
  y.bound.reserve(x.steps);
  for (std::size_t t = 0; t < x.steps; ++t) y.bound.push_back(step_bound(x, y, step_of(x, y, t)));
  return y;
}

}  // namespace assay::words
