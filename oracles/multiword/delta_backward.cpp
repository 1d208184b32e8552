#include <algorithm>
#include <utility>
#include <vector>

#include "oracles/multiword/delta.hpp"
#include "oracles/multiword/delta_prepared.hpp"
#include "oracles/multiword/magnitude.hpp"
#include "oracles/multiword/parallel.hpp"
#include "oracles/multiword/slab_executor.hpp"
#include "reference/core/error.hpp"

namespace assay::words {
namespace {

/// Where number i of each word of `x` is.
void point_to(double* (&word)[4], Certified& x, std::size_t i) {
  for (std::size_t w = 0; w < static_cast<std::size_t>(x.words); ++w) word[w] = x.word[w].data() + i;
}

/// Sums over columns of one step, in column_sums lanes.
struct Sums {
  std::vector<double> words, error;

  Sums(std::size_t n, std::size_t w) : words(n * w * column_sums), error(column_sums) {}
  void clear() {
    std::fill(words.begin(), words.end(), 0);
    std::fill(error.begin(), error.end(), 0);
  }
  /// Hundreds of non-negative terms, and what underflows.
  double bound(double factor) const {
    double sum = 0;
    for (const double e : error) sum += e;
    return sum * factor * safety + (factor + 1) * underflow;
  }
};

/// One slab's columns on their way.
struct Columns {
  std::size_t slab;
  std::vector<double> firsts, first_errors;  ///< [segment]: the state that it begins with, and its error
  std::vector<double> states, errors, sizes, residuals, residual_errors;  ///< of the segment at hand: DeltaTrace
  std::vector<double> adjoint, adjoint_error, adjoint_size;
};

/// Some columns of the problem, up to summed_columns, forward and back.
class Slice {
 public:
  Slice(SlabRun& run, Isa isa, std::size_t first_slab, std::size_t slabs)
      : b_(run),
        x_(run.problem),
        y_(run.prepared),
        words_(static_cast<std::size_t>(y_.words)),
        isa_(isa),
        length_(segment_length(x_.steps)),
        q_(x_.keys, words_),
        k_(x_.keys, words_),
        decay_(std::max<std::size_t>(y_.decays_per_step(x_.keys), 1), words_),
        beta_(1, words_) {
    for (std::size_t s = first_slab; s < first_slab + slabs; ++s) columns_.push_back(begun(s));
  }

  void run(SharedGradients& found) {
    for (Columns& c : columns_) forward(c);
    for (std::size_t begin = x_.steps; begin > 0;) {
      const std::size_t end = begin;
      begin = (end - 1) / length_ * length_;
      for (Columns& c : columns_) replay(c, begin, end - begin);
      for (std::size_t t = end; t-- > begin;) step_back(t, t - begin, found);
    }
    for (const Columns& c : columns_) keep_state(c, c.adjoint, c.adjoint_error, b_.initial_state);
  }

 private:
  Columns begun(std::size_t s) const {
    const std::size_t lanes = y_.lanes, n = state_size(), K = x_.keys, w = words_, stride = y_.stride;
    Columns c;
    c.slab = s;
    c.states.resize((length_ + 1) * n), c.errors.resize((length_ + 1) * lanes), c.sizes.resize((length_ + 1) * lanes);
    c.residuals.resize(length_ * w * lanes), c.residual_errors.resize(length_ * lanes);
    c.adjoint.resize(n), c.adjoint_error.resize(lanes), c.adjoint_size.resize(lanes);
    const double* from = b_.final_cotangent.data() + s * lanes;
    for (std::size_t i = 0; i < K; ++i) std::copy_n(from + i * stride, lanes, &c.adjoint[i * w * lanes]);
    for (std::size_t j = 0; j < lanes; ++j) c.adjoint_size[j] = norm(from + j, K, stride);
    return c;
  }

  /// Numbers of a slab's state.
  std::size_t state_size() const { return x_.keys * words_ * y_.lanes; }

  /// All outputs, and what every segment begins with.
  void forward(Columns& c) const {
    const std::size_t lanes = y_.lanes, n = state_size(), K = x_.keys, V = x_.values, at = c.slab * lanes;
    std::vector<double> state(n), error(lanes);
    for (std::size_t i = 0; i < K && !x_.initial_state.empty(); ++i)
      for (std::size_t j = at; j < std::min(at + lanes, V); ++j)
        state[i * words_ * lanes + j - at] = x_.initial_state[i * V + j];
    for (std::size_t t = 0; t < x_.steps; t += length_) {
      c.firsts.insert(c.firsts.end(), state.begin(), state.end());
      c.first_errors.insert(c.first_errors.end(), error.begin(), error.end());
      DeltaSlab slab = slab_of(x_, y_, c.slab, t, std::min(length_, x_.steps - t));
      double* out[4] = {};
      point_to(out, b_.o, t * y_.stride + at);
      slab.state = state.data(), slab.error = error.data(), slab.out = out;
      slab.out_bound = b_.o.bound.data() + t * y_.stride + at;
      kernels(isa_).words[y_.words].delta(slab);
    }
    keep_state(c, state, error, b_.final_state);
  }

  /// `count` steps from `begin` on once more, their states kept.
  void replay(Columns& c, std::size_t begin, std::size_t count) const {
    const std::size_t lanes = y_.lanes, n = state_size(), segment = begin / length_;
    const auto from = [&](const std::vector<double>& all, std::size_t size) {
      const double* first = all.data() + segment * size;
      return std::vector<double>(first, first + size);
    };
    std::vector<double> state = from(c.firsts, n), error = from(c.first_errors, lanes);
    DeltaSlab slab = slab_of(x_, y_, c.slab, begin, count);
    slab.state = state.data(), slab.error = error.data();
    delta_kernels(isa_, y_.words)
        .traced(slab, {&b_.bounds.residual[begin], c.states.data(), c.errors.data(), c.sizes.data(), c.residuals.data(),
                       c.residual_errors.data()});
  }

  /// Step t, number `i` of the segment at hand.
  void step_back(std::size_t t, std::size_t i, SharedGradients& found) {
    for (Sums* s : {&q_, &k_, &decay_, &beta_}) s->clear();
    for (Columns& c : columns_) step_back(c, t, i);
    total(q_, found.q, t, x_.scale.word.data(), b_.bounds.of_query, b_.bounds.of_query_total);
    total(k_, found.k, t, nullptr, 1, 0);
    total(beta_, found.beta, t, nullptr, 1, 0);
    if (found.log_decay.columns == 0) return;
    // The sums are of <G, S> with G before the decay where the error is that of the undecayed state.
    const bool decays = y_.decay_kind == DeltaDecay::per_step && x_.error == DeltaError::undecayed;
    if (decays)
      total(decay_, found.log_decay, t, &y_.decay[t * words_], b_.bounds.of_decay[t], b_.bounds.of_decay_total[t]);
    else
      total(decay_, found.log_decay, t, nullptr, 1, 0);
  }

  void step_back(Columns& c, std::size_t t, std::size_t i) {
    const std::size_t lanes = y_.lanes, n = state_size(), K = x_.keys, w = words_;
    const std::size_t at = c.slab * lanes, lane = at % column_sums, row = t * y_.stride + at;
    DeltaAdjoint s{};
    s.keys = K, s.decay_kind = y_.decay_kind, s.error_kind = x_.error;
    s.q = &x_.q[t * K], s.k = &x_.k[t * K], s.beta = y_.beta[t];
    s.decay = y_.decay.data() + t * y_.decays_per_step(K) * w, s.scale = x_.scale.word.data();
    s.cotangent = &b_.cotangent[row], s.bound = &b_.bounds.adjoint[t];
    s.sum_error = b_.bounds.sum_error, s.dot_error = b_.bounds.dot_error;
    s.before = &c.states[i * n], s.after = &c.states[(i + 1) * n];
    s.before_error = &c.errors[i * lanes], s.after_error = &c.errors[(i + 1) * lanes];
    s.before_size = &c.sizes[i * lanes], s.after_size = &c.sizes[(i + 1) * lanes];
    s.residual = &c.residuals[i * w * lanes], s.residual_error = &c.residual_errors[i * lanes];
    s.adjoint = c.adjoint.data(), s.error = c.adjoint_error.data(), s.size = c.adjoint_size.data();
    point_to(s.value, b_.v, row);
    s.value_bound = &b_.v.bound[row];
    s.of_query = &q_.words[lane], s.of_key = &k_.words[lane];
    s.of_decay = &decay_.words[lane], s.of_strength = &beta_.words[lane];
    s.query_error = &q_.error[lane], s.key_error = &k_.error[lane];
    s.decay_error = &decay_.error[lane], s.strength_error = &beta_.error[lane];
    delta_kernels(isa_, y_.words).back(s);
  }

  /// Row t of `to`: the sums times a factor of that size, which is off by `missed` of what it multiplies.
  void total(const Sums& sums, Certified& to, std::size_t t, const double* factor, double size, double missed) const {
    ColumnTotals s{to.columns, sums.words.data(), factor, {}, &to.bound[t * to.columns], sums.bound(size), missed};
    point_to(s.word, to, t * to.columns);
    delta_kernels(isa_, y_.words).total(s);
  }

  /// A slab's state [key][word][lanes] as columns of `to`.
  void keep_state(const Columns& c, const std::vector<double>& state, const std::vector<double>& error,
                  Certified& to) const {
    const std::size_t lanes = y_.lanes, at = c.slab * lanes;
    for (std::size_t i = 0; i < x_.keys; ++i)
      for (std::size_t j = 0; j < lanes; ++j) {
        for (std::size_t w = 0; w < words_; ++w)
          to.word[w][i * to.columns + at + j] = state[(i * words_ + w) * lanes + j];
        to.bound[i * to.columns + at + j] = error[j];
      }
  }

  SlabRun& b_;
  const DeltaProblem& x_;
  const Prepared& y_;
  std::size_t words_;
  Isa isa_;
  std::size_t length_;  // of a segment
  std::vector<Columns> columns_;
  Sums q_, k_, decay_, beta_;
};

template <int W>
void add_words(Certified& to, const Certified& from) {
  using portable::size_of;
  for (std::size_t i = 0; i < to.bound.size(); ++i) {
    portable::Words<double, W> a, b;
    for (std::size_t w = 0; w < W; ++w) a.w[w] = to.word[w][i], b.w[w] = from.word[w][i];
    to.bound[i] = (to.bound[i] + from.bound[i] + constants(W).add * (size_of(a) + size_of(b))) * safety;
    a = a + b;
    for (std::size_t w = 0; w < W; ++w) to.word[w][i] = a.w[w];
  }
}
void add(Certified& to, const Certified& from) {
  if (to.words == 2) return add_words<2>(to, from);
  if (to.words == 3) return add_words<3>(to, from);
  return add_words<4>(to, from);
}

/// All slices, each a problem of its own.
void run_slices(SlabRun& run, const Effort& effort) {
  const std::size_t slabs = run.prepared.stride / run.prepared.lanes, each = summed_columns / run.prepared.lanes;
  in_parallel(run.shared.size(), effort.threads, [&](std::size_t i) {
    Slice(run, effort.isa, i * each, std::min(each, slabs - i * each)).run(run.shared[i]);
  });
}

SlabRun laid_out(const DeltaProblem& x, const DeltaCotangent& cotangent, const Effort& effort) {
  Prepared y = prepare(x, effort, column_sums);
  require_bounded("cotangents.o", cotangent.o, x.steps * x.values, false);
  require_bounded("cotangents.final_state", cotangent.final_state, x.keys * x.values, true);
  BackwardBounds bounds = backward_bounds(x, y);
  const std::size_t stride = y.stride;
  std::vector<double> end(x.keys * stride, 0);
  if (!cotangent.final_state.empty()) end = padded(cotangent.final_state, x.keys, x.values, stride);
  SlabRun run{x,
              std::move(y),
              Certified(effort.words, x.steps, stride),
              Certified(effort.words, x.keys, stride),
              true,
              std::move(bounds),
              padded(cotangent.o, x.steps, x.values, stride),
              std::move(end),
              Certified(effort.words, x.steps, stride),
              Certified(effort.words, x.keys, stride)};
  run.shared.assign((stride + summed_columns - 1) / summed_columns, SharedGradients(x, run.prepared));
  return run;
}

}  // namespace

DeltaGradients delta_backward(const DeltaProblem& problem, const DeltaCotangent& cotangent, const Effort& effort) {
  SlabRun b = laid_out(problem, cotangent, effort);
  if (!run_elsewhere(b)) run_slices(b, effort);
  SharedGradients& shared = b.shared[0];
  // The gradients that slices share are added up in their order.
  for (std::size_t i = 1; i < b.shared.size(); ++i) {
    add(shared.q, b.shared[i].q), add(shared.k, b.shared[i].k);
    add(shared.beta, b.shared[i].beta), add(shared.log_decay, b.shared[i].log_decay);
  }
  const auto cut = [&](Certified& x) {
    return x.columns == problem.values ? std::move(x) : cropped(x, problem.values);
  };
  DeltaGradients d{{cut(b.o), cut(b.final_state)}, std::move(shared.q),         std::move(shared.k), cut(b.v),
                   std::move(shared.beta),         std::move(shared.log_decay), cut(b.initial_state)};
  for (Certified* x : {&d.answer.o, &d.answer.final_state, &d.q, &d.k, &d.v, &d.beta, &d.log_decay, &d.initial_state})
    x->settle();
  return d;
}

}  // namespace assay::words
