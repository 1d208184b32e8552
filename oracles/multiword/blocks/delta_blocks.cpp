#include "oracles/multiword/blocks/delta_blocks.hpp"

#include <algorithm>
#include <type_traits>

#include "oracles/multiword/magnitude.hpp"

namespace assay::words {
namespace {

/// Structs of doubles as doubles.
template <class X>
const double* numbers_of(const std::vector<X>& x) {
  static_assert(std::is_trivially_copyable_v<X> && sizeof(X) % sizeof(double) == 0);
  return reinterpret_cast<const double*>(x.data());
}

/// Calls f(planes, the answer they go to) for all planes that come back of the columns, in their order.
template <class Arguments, class Run, class F>
void each_answer(Arguments& x, Run& run, F&& f) {
  f(x.o, run.o), f(x.final_state, run.final_state);
  if (!run.backward) return;
  f(x.value, run.v), f(x.first_state, run.initial_state);
}

}  // namespace

std::size_t BlocksRun::put(const double* first, std::size_t count) {
  const std::size_t at = up_.size();
  if (count > 0) up_.insert(up_.end(), first, first + count);
  return at;
}

BlocksRun::BlocksRun(const SlabRun& run) {
  const DeltaProblem& x = run.problem;
  const Prepared& y = run.prepared;
  const std::size_t words = static_cast<std::size_t>(y.words), planes = words + 1;
  words_ = words, blocks_ = (y.stride + block_columns - 1) / block_columns;
  all_.steps = x.steps, all_.keys = x.keys, all_.stride = y.stride, all_.length = segment_length(x.steps);
  all_.decay_kind = y.decay_kind, all_.error_kind = x.error, all_.backward = run.backward;
  all_.read_error = y.read_error, all_.scale_error = y.scale_error;
  all_.sum_error = run.bounds.sum_error, all_.dot_error = run.bounds.dot_error;
  all_.of_query = run.bounds.of_query, all_.of_query_total = run.bounds.of_query_total;
  all_.safety = safety, all_.underflow = underflow;
  const std::vector<double> initial =
      x.initial_state.empty() ? std::vector<double>() : padded(x.initial_state, x.keys, x.values, y.stride);
  std::vector<double> final_size(run.backward ? y.stride : 0);
  for (std::size_t j = 0; j < final_size.size(); ++j) final_size[j] = norm(&run.final_cotangent[j], x.keys, y.stride);
  up_at_ = {put(x.q.data(), x.q.size()),
            put(x.k.data(), x.k.size()),
            put(y.v.data(), y.v.size()),
            put(y.beta.data(), y.beta.size()),
            put(y.decay.data(), y.decay.size()),
            put(x.scale.word.data(), words),
            put(initial.data(), initial.size()),
            put(numbers_of(y.bound), y.bound.size() * sizeof(DeltaBound) / sizeof(double)),
            put(numbers_of(run.bounds.residual), run.bounds.residual.size() * sizeof(ResidualBound) / sizeof(double)),
            put(numbers_of(run.bounds.adjoint), run.bounds.adjoint.size() * sizeof(AdjointBound) / sizeof(double)),
            put(run.bounds.of_decay.data(), run.bounds.of_decay.size()),
            put(run.bounds.of_decay_total.data(), run.bounds.of_decay_total.size()),
            put(run.cotangent.data(), run.cotangent.size()),
            put(run.final_cotangent.data(), run.final_cotangent.size()),
            put(final_size.data(), final_size.size())};
  work_ = blocks_ * block_work(x.steps, all_.length, x.keys, words, run.backward);
  each_answer(all_, run,
              [&](BlockPlanes& to, const Certified& c) { to.plane = c.bound.size(), down_ += planes * to.plane; });
  if (!run.backward) return;
  const std::size_t rows = blocks_ * x.steps;
  all_.of_q.plane = all_.of_k.plane = rows * x.keys, all_.of_beta.plane = rows;
  all_.of_log_decay.plane = rows * all_.decays_per_step();
  for (const BlockPlanes* of : {&all_.of_q, &all_.of_k, &all_.of_beta, &all_.of_log_decay}) down_ += planes * of->plane;
}

DeltaBlocks BlocksRun::arguments(const double* up, double* work, double* down) const {
  DeltaBlocks x = all_;
  const double** const at[] = {&x.q, &x.k, &x.v, &x.beta, &x.decay, &x.scale, &x.initial_state};
  for (std::size_t i = 0; i < std::size(at); ++i) *at[i] = up + up_at_[i];
  if (up_at_[7] == up_at_[6]) x.initial_state = nullptr;
  x.bound = reinterpret_cast<const DeltaBound*>(up + up_at_[7]);
  x.residual = reinterpret_cast<const ResidualBound*>(up + up_at_[8]);
  x.adjoint = reinterpret_cast<const AdjointBound*>(up + up_at_[9]);
  x.of_decay = up + up_at_[10], x.of_decay_total = up + up_at_[11];
  x.cotangent = up + up_at_[12], x.final_cotangent = up + up_at_[13], x.final_size = up + up_at_[14];
  x.work = work;
  const std::size_t planes = words_ + 1;
  for (BlockPlanes* to :
       {&x.o, &x.final_state, &x.value, &x.first_state, &x.of_q, &x.of_k, &x.of_beta, &x.of_log_decay})
    to->data = down, down += planes * to->plane;
  return x;
}

void BlocksRun::take(const std::vector<double>& down, SlabRun& run) const {
  const double* from = down.data();
  // Part `part` of planes that several answers share.
  const auto take_part = [&](const BlockPlanes& planes, std::size_t part, Certified& to) {
    const std::size_t count = to.bound.size();
    const double* first = from + part * count;
    for (std::size_t w = 0; w < static_cast<std::size_t>(to.words); ++w, first += planes.plane)
      std::copy_n(first, count, to.word[w].data());
    std::copy_n(first, count, to.bound.data());
  };
  const std::size_t planes = words_ + 1;
  each_answer(all_, run, [&](const BlockPlanes& x, Certified& to) {
    take_part(x, 0, to);
    from += planes * x.plane;
  });
  for (const auto& [x, member] :
       {std::pair(&all_.of_q, &SharedGradients::q), std::pair(&all_.of_k, &SharedGradients::k),
        std::pair(&all_.of_beta, &SharedGradients::beta), std::pair(&all_.of_log_decay, &SharedGradients::log_decay)}) {
    for (std::size_t part = 0; part < run.shared.size(); ++part) take_part(*x, part, run.shared[part].*member);
    from += planes * x->plane;
  }
}

double bytes_of_blocks(std::size_t steps, std::size_t keys, std::size_t values, int words, bool backward) {
  const std::size_t w = static_cast<std::size_t>(words), blocks = (values + block_columns - 1) / block_columns;
  const std::size_t stride = blocks * block_columns, rows = steps + keys;
  const std::size_t work = blocks * block_work(steps, segment_length(steps), keys, w, backward);
  const std::size_t up = steps * (2 * keys + 2 * stride + w * keys + 40) + 2 * keys * stride;
  const std::size_t down = (w + 1) * (2 * rows * stride + blocks * steps * (3 * keys + 1));
  return static_cast<double>(work + up + down) * sizeof(double);
}

}  // namespace assay::words
