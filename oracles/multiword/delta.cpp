#include "oracles/multiword/delta.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "oracles/multiword/magnitude.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"

namespace assay::words {
namespace {

void check(const DeltaProblem& x, const Effort& effort) {
  require(effort.words >= 2 && effort.words <= 4, "words: expected 2, 3 or 4, got ", effort.words);
  require(supported(effort.isa), "isa: this machine has no ", name_of(effort.isa));
  require(x.steps <= std::size_t{1} << 24 && x.keys >= 1 && x.keys <= std::size_t{1} << 12 && x.values >= 1,
          "extents out of range: T = ", x.steps, ", K = ", x.keys, ", V = ", x.values);
  const auto bounded = [](double a) { return std::fabs(a) < 0x1p200; };
  const auto span = [&](const char* name, std::span<const double> a, std::size_t n, bool optional) {
    require(a.size() == n || (optional && a.empty()), name, ": expected ", n, " numbers, got ", a.size());
    const auto bad = std::find_if_not(a.begin(), a.end(), bounded);
    require(bad == a.end(), name, ": element ", bad - a.begin(), " is not below 2^200");
  };
  span("q", x.q, x.steps * x.keys, false);
  span("k", x.k, x.steps * x.keys, false);
  span("p", x.p, x.steps * x.keys, true);
  span("v", x.v, x.steps * x.values, false);
  span("beta", x.beta, x.steps, true);
  span("initial_state", x.initial_state, x.keys * x.values, true);
  require(bounded(x.scale.word[0]), "scale: expected below 2^200");
  require(x.log_decay.empty() || x.log_decay.size() == x.steps || x.log_decay.size() == x.steps * x.keys,
          "log_decay: expected ", x.steps, " or ", x.steps * x.keys, " numbers, got ", x.log_decay.size());
  const auto bad = std::find_if_not(x.log_decay.begin(), x.log_decay.end(), [](double a) { return a <= 0; });
  require(bad == x.log_decay.end(), "log_decay: element ", bad - x.log_decay.begin(), " is not <= 0");
}

/// Upper bound on the 2-norm of `n` numbers.
double norm(const double* x, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return std::sqrt(sum) * (1 + 0x1p-30) + 0x1p-530;
}

/// Upper bounds of what a step does to an error of the state: docs/error-analysis.md, section 4.
struct StepNorms {
  double key, prediction, query;  ///< 2-norms
  double overlap;                 ///< k . p, computed
  double decay_most = 1, decay_least = 1;
  double dropped = 0;  ///< absolute error of decays that count as zero
};

/// || alpha I - beta k p^T ||, 0 <= alpha: in the plane of k and p its singular values have the product |det| and the
/// sum of squares `frobenius`; everywhere else it is alpha, which is no larger.
double rank_one_norm(double alpha, double beta, const StepNorms& n, bool same, double slack) {
  const double length = std::fabs(beta) * n.key * n.prediction, c = beta * n.overlap;
  if (same) return std::max(alpha, std::fabs(alpha - c) + slack * (alpha + length)) * (1 + slack);
  const double room = slack * (alpha + length) * (alpha + length);
  const double det = alpha * std::fabs(alpha - c),
               frobenius = alpha * alpha + alpha * (alpha - 2 * c) + length * length;
  return 0.5 * (std::sqrt(frobenius + 2 * det + room) + std::sqrt(std::max(0.0, frobenius - 2 * det) + room)) * safety;
}

/// || D - beta k p^T || for a diagonal D.
double undecayed_norm(double beta, const StepNorms& n, bool same, double slack) {
  if (n.decay_most == n.decay_least) return rank_one_norm(n.decay_most, beta, n, same, slack);
  const double length = std::fabs(beta) * n.key * n.prediction * safety;
  if (same && beta >= 0) return std::max(n.decay_most, length - n.decay_least + slack * (1 + length));
  return (n.decay_most + length) * safety;
}

/// The problem in the layout of the slabs.
struct Prepared {
  std::size_t lanes, stride;
  int words;
  DeltaDecay decay_kind;
  std::vector<double> v, beta, decay;
  std::vector<DeltaBound> bound;
  double read_error, scale_error;
};

std::vector<double> decays(const DeltaProblem& x, int words, const Kernels& table) {
  const std::size_t n = x.log_decay.size(), w = static_cast<std::size_t>(words);
  std::vector<double> padded((n + table.lanes - 1) / table.lanes * table.lanes, 0), out(padded.size() * w);
  std::copy(x.log_decay.begin(), x.log_decay.end(), padded.begin());
  for (std::size_t i = 0; i < n; i += table.lanes) table.words[words].exp_of_doubles(&padded[i], &out[i * w]);
  return out;
}

StepNorms norms(const DeltaProblem& x, const Prepared& y, std::span<const double> p, std::size_t t) {
  const std::size_t K = x.keys, w = static_cast<std::size_t>(y.words);
  StepNorms n{norm(&x.k[t * K], K), norm(&p[t * K], K), norm(&x.q[t * K], K), 0};
  for (std::size_t i = 0; i < K; ++i) n.overlap += x.k[t * K + i] * p[t * K + i];
  if (y.decay_kind == DeltaDecay::none) return n;
  const std::size_t count = y.decay_kind == DeltaDecay::per_step ? 1 : K;
  n.decay_most = 0;
  for (std::size_t i = t * count; i < (t + 1) * count; ++i) {
    n.decay_most = std::max(n.decay_most, y.decay[i * w]);
    n.decay_least = std::min(n.decay_least, y.decay[i * w]);
    if (x.log_decay[i] < exp_lowest && std::isfinite(x.log_decay[i])) n.dropped = dropped_weight;
  }
  return n;
}

/// What a sum along the keys misses, in the parts that delta_slab.hpp has: times sum |a| size(b).
double reading(int words, std::size_t keys) {
  const std::size_t parts = delta_parts(words);
  return accumulation(words, static_cast<int>((keys + parts - 1) / parts)) +
         static_cast<double>(parts - 1) * constants(words).add;
}

DeltaBound step_bound(const DeltaProblem& x, const Prepared& y, std::span<const double> p, std::size_t t) {
  const Constants& c = constants(y.words);
  const StepNorms n = norms(x, y, p, t);
  const double beta = y.beta[t], written = n.key * std::fabs(beta);
  const bool decaying = y.decay_kind != DeltaDecay::none, same = p.data() == x.k.data();
  // Roundings of a dot product of K terms and a few more operations, relative to the product of the norms.
  const double slack = static_cast<double>(x.keys + 64) * 0x1p-52;
  // Sizes of computed decays and the decays themselves: within 2^-40 of the first word; slack covers it.
  const double most = decaying ? n.decay_most * (1 + 0x1p-40) + n.dropped : 1;
  const double exp_error = decaying ? 1.01 * c.exp * most + n.dropped : 0;

  double growth = most, kept = 1;
  if (x.error == DeltaError::undecayed) {
    growth = undecayed_norm(beta, n, same, slack) + 0x1p-40 * most + n.dropped;
  } else if (x.error == DeltaError::decayed) {
    kept = rank_one_norm(1, beta, n, same, slack);
    growth = kept * most;
  }
  // A decay of the whole state is part of the update, and multiplies what was read; others make a state of their own.
  const bool by_step = y.decay_kind == DeltaDecay::per_step, decayed = x.error == DeltaError::decayed;
  double read = reading(y.words, x.keys) * (decayed ? most : 1);
  if (by_step && decayed) read += c.multiply * most + exp_error;
  if (x.error == DeltaError::none) read = 0;
  const double update = by_step ? c.decayed_update : c.update;
  const double decay_error = by_step ? exp_error : kept * (exp_error + (decaying ? c.multiply * most : 0));
  const double scale = std::fabs(x.scale.word[0]) * (1 + 0x1p-40);
  DeltaBound b{};
  b.growth = growth * safety;
  b.of_state = (decay_error + written * n.prediction * read + update * most) * safety * safety;
  b.of_residual = written * (c.add + c.multiply_plain) * safety * safety;
  b.of_write = update * n.key * safety * safety;
  b.floor = (kept + written + 1) * underflow;
  b.out_of_state = scale * n.query * safety * safety;
  b.out_floor = (scale + 1) * underflow;
  return b;
}

Prepared prepare(const DeltaProblem& x, const Effort& effort, const Kernels& table) {
  Prepared y;
  y.words = effort.words;
  y.lanes = table.lanes;
  y.stride = (x.values + y.lanes - 1) / y.lanes * y.lanes;
  y.v.assign(x.steps * y.stride, 0);
  for (std::size_t t = 0; t < x.steps; ++t)
    for (std::size_t j = 0; j < x.values; ++j) y.v[t * y.stride + j] = x.v[t * x.values + j];
  y.beta.assign(x.beta.begin(), x.beta.end());
  y.beta.resize(x.steps, 1);
  y.decay_kind = x.log_decay.empty()             ? DeltaDecay::none
                 : x.log_decay.size() == x.steps ? DeltaDecay::per_step
                                                 : DeltaDecay::per_channel;
  y.decay = decays(x, y.words, table);
  const Constants& c = constants(y.words);
  y.read_error = reading(y.words, x.keys) * safety;
  y.scale_error = std::fabs(x.scale.word[0]) * (x.scale.error_of(y.words) + c.multiply) * safety * safety;
  const std::span<const double> p = x.p.empty() ? x.k : x.p;
  y.bound.reserve(x.steps);
  for (std::size_t t = 0; t < x.steps; ++t) y.bound.push_back(step_bound(x, y, p, t));
  return y;
}

/// Runs slab `s` and copies what it found to the answer.
void run_slab(const DeltaProblem& x, const Prepared& y, const Kernels& table, std::size_t s, Certified& padded_o,
              Certified& final_state) {
  const std::size_t w = static_cast<std::size_t>(y.words), lanes = y.lanes, first = s * lanes;
  const std::size_t columns = std::min(lanes, x.values - first);
  std::vector<double> state(x.keys * w * lanes, 0);
  std::vector<double> error(lanes, 0);
  if (!x.initial_state.empty())
    for (std::size_t i = 0; i < x.keys; ++i)
      for (std::size_t j = 0; j < columns; ++j) state[i * w * lanes + j] = x.initial_state[i * x.values + first + j];
  double* out[4] = {};
  for (std::size_t i = 0; i < w; ++i) out[i] = padded_o.word[i].data() + first;
  DeltaSlab slab{};
  slab.steps = x.steps, slab.keys = x.keys, slab.value_stride = y.stride;
  slab.decay_kind = y.decay_kind, slab.error_kind = x.error;
  slab.q = x.q.data(), slab.k = x.k.data(), slab.p = x.p.empty() ? x.k.data() : x.p.data();
  slab.v = y.v.data() + first, slab.beta = y.beta.data(), slab.decay = y.decay.data(), slab.scale = x.scale.word.data();
  slab.bound = y.bound.data(), slab.read_error = y.read_error, slab.scale_error = y.scale_error;
  slab.state = state.data(), slab.error = error.data(), slab.out = out, slab.out_bound = padded_o.bound.data() + first;
  table.words[y.words].delta(slab);
  for (std::size_t i = 0; i < x.keys; ++i)
    for (std::size_t j = 0; j < columns; ++j) {
      const std::size_t to = i * x.values + first + j;
      for (std::size_t l = 0; l < w; ++l) final_state.word[l][to] = state[(i * w + l) * lanes + j];
      final_state.bound[to] = error[j];
    }
}

/// Without the columns that only fill up the last slab.
Certified cropped(const Certified& padded, std::size_t columns) {
  Certified out(padded.words, padded.rows, columns);
  for (std::size_t t = 0; t < out.rows; ++t)
    for (std::size_t j = 0; j < columns; ++j) {
      for (int l = 0; l < out.words; ++l) out.word[l][t * columns + j] = padded.word[l][t * padded.columns + j];
      out.bound[t * columns + j] = padded.bound[t * padded.columns + j];
    }
  return out;
}

}  // namespace

DeltaAnswer delta_forward(const DeltaProblem& problem, const Effort& effort) {
  check(problem, effort);
  const Kernels& table = kernels(effort.isa);
  const Prepared prepared = prepare(problem, effort, table);
  Certified o(effort.words, problem.steps, prepared.stride);
  DeltaAnswer answer{{}, Certified(effort.words, problem.keys, problem.values)};
  in_parallel(prepared.stride / prepared.lanes, effort.threads,
              [&](std::size_t s) { run_slab(problem, prepared, table, s, o, answer.final_state); });
  answer.o = prepared.stride == problem.values ? std::move(o) : cropped(o, problem.values);
  answer.o.settle();
  answer.final_state.settle();
  return answer;
}

}  // namespace assay::words
