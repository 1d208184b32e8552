#pragma once
// A room's answer by the engine of oracles/multiword/lla/lla.hpp, one head after another.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "oracles/core/head_sums.hpp"
#include "oracles/core/in_words.hpp"
#include "oracles/multiword/lla/lla.hpp"
#include "oracles/multiword/parallel_sums.hpp"
#include "reference/core/error.hpp"

namespace assay {

/// The part of a problem that all rooms of the family have: queries, keys, values, mask and bandwidth.
template <class Options, class Inputs>
words::LlaProblem engine_problem(const Options& options, const Inputs& in) {
  words::LlaProblem p;
  p.queries = static_cast<std::size_t>(in.q.size(0)), p.keys = static_cast<std::size_t>(in.k.size(0));
  p.dim = static_cast<std::size_t>(in.k.size(1)), p.values = static_cast<std::size_t>(in.v.size(1));
  p.q = in.q.data, p.k = in.k.data, p.v = in.v.data, p.causal = options.causal;
  p.window = options.has_window ? static_cast<std::size_t>(options.window) : 0;
  p.inverse_bandwidth = words::reciprocal(in.bandwidth());
  return p;
}

/// Whether the engine is faster than packs of heads at attention that solves nothing: by its multiply-adds.
template <class Inputs>
bool engine_pays(const Inputs& in) {
  constexpr double engine_work = 1e6;
  const double n = in.q.size(0), T = in.k.size(0), K = in.k.size(1);
  return n * T * K >= engine_work;
}

/// Number i of `x`.
inline WordBall number_of(const words::Certified& x, std::size_t i) {
  WordBall b;
  for (int w = 0; w < x.words; ++w) b.word[static_cast<std::size_t>(w)] = x.word[static_cast<std::size_t>(w)][i];
  b.radius = x.bound[i];
  return b;
}

/// Adds o and, of the gradients found, those of the room's inputs, once sums.add_waiting() is called.
template <class M>
void add_found(const Binding<M, double>& binding, const typename M::template Inputs<double>& in, int head,
               const words::LlaGradients& found, HeadSums& sums, BasicAnswer<WordBall>& answer) {
  const std::array<std::pair<std::string_view, const words::Certified*>, 6> all{{{"q", &found.d_q},
                                                                                 {"k", &found.d_k},
                                                                                 {"v", &found.d_v},
                                                                                 {"lambda", &found.d_lambda},
                                                                                 {"rho", &found.d_probe},
                                                                                 {"bandwidth", &found.d_bandwidth}}};
  sums.add_later(answer.outputs, head, {"o", {in.q.size(0), in.v.size(1)}}, found.o.bound.size(),
                 [&o = found.o](std::size_t i) { return number_of(o, i); });
  binding.for_each(in, [&](const Field& f, const auto& tensor) {
    for (const auto& [name, x] : all)
      if (name == f.name && !x->bound.empty())
        sums.add_later(answer.gradients, head, {name, binding.shape_of(f, tensor), f.heads, binding.split_by_heads(f)},
                       x->bound.size(), [x = x](std::size_t i) { return number_of(*x, i); });
  });
}

/// Whether every number of `x` has a bound: none has where something overflowed on the way.
inline bool all_bounded(const BasicAnswer<WordBall>& x, int threads = 1) {
  for (const auto* arrays : {&x.outputs, &x.gradients})
    for (const auto& [name, array] : *arrays)
      if (!words::all_in_parallel(array.data.size(), threads, [&data = array.data](std::size_t i) {
            return std::isfinite(data[i].word[0]) && std::isfinite(data[i].radius);
          }))
        return false;
  return true;
}

/// o of one head and, if asked for, the gradients.
template <class M>
words::LlaGradients engine_head(const Binding<M, double>& binding, int head, const words::LlaProblem& problem,
                                bool gradients, const words::Effort& how) {
  if (gradients) return words::lla_backward(problem, binding.template cotangent<double>(head).o.data, how);
  words::LlaGradients found;
  found.o = words::lla_forward(problem, how).o;
  return found;
}

/// Heads that go side by side: as many as there are threads, while what is found of them takes no more than 4 GB.
template <class M>
std::size_t heads_side_by_side(const Binding<M, double>& binding, int threads) {
  constexpr double most = 0x1p32, copies = 2;
  const auto extent = [&](Axis axis) { return static_cast<double>(binding.extents()[axis]); };
  const double of_head = copies * sizeof(WordBall) * (extent(Axis::query_len) + extent(Axis::seq_len)) *
                         (extent(Axis::key_dim) + extent(Axis::value_dim));
  return static_cast<std::size_t>(std::clamp(most / std::max(of_head, 1.0), 1.0, std::max(1.0, 1.0 * threads)));
}

/// All heads, some side by side; problem_of(inputs of a head) is the engine's problem, or
/// nothing where the engine is not for it. Nothing either if numbers are out of the engine's range, or overflow in it.
template <class M, class F>
std::optional<BasicAnswer<WordBall>> engine_heads(const Binding<M, double>& binding, bool gradients,
                                                  const WordEffort& effort, F&& problem_of) try {
  BasicAnswer<WordBall> answer;
  HeadSums sums(binding.heads(), 4, effort.threads);  // rows may have taken more words than asked for
  using Inputs = typename M::template Inputs<double>;
  const auto heads = static_cast<std::size_t>(binding.heads().own),
             at_once = heads_side_by_side(binding, effort.threads);
  for (std::size_t first = 0; first < heads; first += at_once) {
    std::vector<std::optional<std::pair<Inputs, words::LlaGradients>>> some(std::min(at_once, heads - first));
    const words::Effort how{effort.words, words::threads_of_each(effort.threads, some.size()), words::best_isa()};
    words::in_parallel(some.size(), effort.threads, [&](std::size_t i) {
      const auto head = static_cast<int>(first + i);
      Inputs in = binding.template inputs<double>(head);
      const std::optional<words::LlaProblem> problem = problem_of(in);
      if (!problem) return;
      words::LlaGradients found = engine_head(binding, head, *problem, gradients, how);
      some[i].emplace(std::move(in), std::move(found));
    });
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (!some[i]) return std::nullopt;
      add_found<M>(binding, some[i]->first, static_cast<int>(first + i), some[i]->second, sums, answer);
    }
    sums.add_waiting();
  }
  if (!all_bounded(answer, effort.threads)) return std::nullopt;
  return answer;
} catch (const InputError&) {
  return std::nullopt;
}

}  // namespace assay
