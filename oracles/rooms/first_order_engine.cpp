// DeltaNet, Gated DeltaNet, KDA, GLA, Mamba-2 and linear attention by the engine of oracles/multiword/delta.hpp, one
// head after another.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "oracles/core/engine_heads.hpp"
#include "oracles/multiword/delta.hpp"
#include "oracles/multiword/parallel.hpp"
#include "oracles/multiword/slab_executor.hpp"
#include "oracles/rooms/engines.hpp"
#include "reference/deltanet.hpp"
#include "reference/gated_deltanet.hpp"
#include "reference/gla.hpp"
#include "reference/kda.hpp"
#include "reference/linear_attention.hpp"
#include "reference/mamba2.hpp"

namespace assay {
namespace {

/// Which state a write corrects. Without a strength it corrects none.
template <class In, class Options>
words::DeltaError error_of([[maybe_unused]] const In& in, [[maybe_unused]] const Options& o) {
  if constexpr (requires { o.error; })
    return o.error == first_order::Error::decayed ? words::DeltaError::decayed : words::DeltaError::undecayed;
  else if constexpr (requires { in.beta; })
    return words::DeltaError::decayed;
  else
    return words::DeltaError::none;
}

/// Whether a step writes the key of the step before.
template <class M>
bool is_shifted(const M&) {
  return false;
}
bool is_shifted(const deltanet::Options& options) { return options.shifted(); }

/// The keys of the steps before: the first is the key carried over, or none, which writes and reads nothing.
template <class In>
std::vector<double> earlier_keys(const In& in) {
  const auto K = static_cast<std::size_t>(in.k.size(1));
  std::vector<double> keys(K, 0);
  if constexpr (requires { in.k_carry; })
    if (!in.k_carry.empty()) keys = in.k_carry.data;
  keys.insert(keys.end(), in.k.data.begin(), in.k.data.end() - static_cast<std::ptrdiff_t>(K));
  return keys;
}

/// One head's problem with the numbers that it looks at.
template <class M>
struct Head {
  typename M::template Inputs<double> in;
  std::vector<double> keys;  ///< in place of its own

  words::DeltaProblem problem(const Binding<M, double>& binding) const {
    words::DeltaProblem x;
    x.steps = static_cast<std::size_t>(in.k.size(0)), x.keys = static_cast<std::size_t>(in.k.size(1));
    x.values = static_cast<std::size_t>(in.v.size(1));
    x.q = in.q.data, x.k = in.k.data, x.v = in.v.data, x.initial_state = in.initial_state.data;
    if (!keys.empty()) x.k = keys;
    if constexpr (requires { in.beta; }) x.beta = in.beta.data;
    if constexpr (requires { in.log_decay; }) x.log_decay = in.log_decay.data;
    x.error = error_of(in, binding.options());
    x.scale = words::reciprocal_sqrt(static_cast<double>(x.keys));
    binding.for_each(in, [&](const Field& f, const auto& tensor) {
      if (f.name == "scale" && binding.has(f)) x.scale = words::exactly(tensor.data.front());
    });
    return x;
  }
};

/// Number i of the gradient of k, from those of the keys that the steps wrote: the last one is written by none.
WordBall of_later_key(const words::Certified& d, std::size_t i) {
  return i + d.columns < d.bound.size() ? number_of(d, i + d.columns) : WordBall{};
}

template <class M>
void add_gradients(const Binding<M, double>& binding, const Head<M>& head, int index, const words::DeltaGradients& d,
                   HeadSums& sums, BasicAnswer<WordBall>& answer) {
  const bool shifted = is_shifted(binding.options());
  binding.for_each(head.in, [&](const Field& f, const auto& tensor) {
    if (!f.differentiable || (f.missing == Field::Missing::absent && !binding.has(f))) return;
    const auto add = [&](auto number) {
      sums.add_later(answer.gradients, index, {f.name, binding.shape_of(f, tensor), f.heads, binding.split_by_heads(f)},
                     tensor.data.size(), number);
    };
    const auto add_all = [&](const words::Certified& x) { add([&x](std::size_t i) { return number_of(x, i); }); };
    if (f.name == "k" && shifted) return add([&k = d.k](std::size_t i) { return of_later_key(k, i); });
    if (f.name == "q") return add_all(d.q);
    if (f.name == "k" || f.name == "k_carry") return add_all(d.k);
    if (f.name == "v") return add_all(d.v);
    if (f.name == "beta") return add_all(d.beta);
    if (f.name == "log_decay") return add_all(d.log_decay);
    if (f.name == "initial_state") return add_all(d.initial_state);
  });
}

/// A head and what the engine found, gradients or the answer alone.
template <class M>
struct Found {
  Head<M> head;
  words::DeltaGradients gradients;

  Found(const Binding<M, double>& binding, int index, bool backward, const words::Effort& how) {
    head.in = binding.template inputs<double>(index);
    if (is_shifted(binding.options())) head.keys = earlier_keys(head.in);
    const words::DeltaProblem problem = head.problem(binding);
    if (backward) {
      const auto cotangent = binding.template cotangent<double>(index);
      gradients = words::delta_backward(problem, {cotangent.o.data, cotangent.final_state.data}, how);
    } else {
      gradients.answer = words::delta_forward(problem, how);
    }
  }
};

/// Heads at a time: as many as there are threads, or as another executor takes.
template <class M>
int heads_at_once(const Binding<M, double>& binding, bool gradients, const WordEffort& effort) {
  const auto extent = [&](Axis axis) { return static_cast<std::size_t>(binding.extents()[axis]); };
  const int elsewhere = words::slabs_at_once(extent(Axis::seq_len), extent(Axis::key_dim), extent(Axis::value_dim),
                                             effort.words, gradients);
  return elsewhere > 0 ? elsewhere : std::max(effort.threads, 1);
}

/// All heads in exactly `effort.words` words.
template <class M>
BasicAnswer<WordBall> all_heads(const Binding<M, double>& binding, bool gradients, const WordEffort& effort) {
  BasicAnswer<WordBall> answer;
  HeadSums sums(binding.heads(), effort.words, effort.threads);
  const int heads = binding.heads().own, threads = heads_at_once(binding, gradients, effort);
  for (int first = 0; first < heads; first += threads) {
    const int count = std::min(threads, heads - first);
    const words::Effort how{effort.words, words::threads_of_each(threads, static_cast<std::size_t>(count)),
                            words::best_isa()};
    std::vector<std::optional<Found<M>>> found(static_cast<std::size_t>(count));
    words::in_parallel(found.size(), threads,
                       [&](std::size_t i) { found[i].emplace(binding, first + static_cast<int>(i), gradients, how); });
    for (int i = 0; i < count; ++i) {
      const Found<M>& one = *found[static_cast<std::size_t>(i)];
      const auto& in = one.head.in;
      const auto add = [&](std::string_view name, std::vector<int> shape, const words::Certified& x) {
        sums.add_later(answer.outputs, first + i, {name, std::move(shape)}, x.bound.size(),
                       [&x](std::size_t n) { return number_of(x, n); });
      };
      add("o", {in.q.size(0), in.v.size(1)}, one.gradients.answer.o);
      add("final_state", {in.k.size(1), in.v.size(1)}, one.gradients.answer.final_state);
      if (gradients) add_gradients(binding, one.head, first + i, one.gradients, sums, answer);
    }
    sums.add_waiting();
  }
  return answer;
}

/// Whether every bound meets the rooms' target. Only underflows' errors can stand beside zeros.
bool meets_target(const BasicAnswer<WordBall>& answer, int threads) {
  struct Widest {
    double value = 0, radius = 0;
    void operator+=(const Widest& other) {
      value = std::max(value, other.value), radius = std::max(radius, other.radius);
    }
  };
  for (const auto* arrays : {&answer.outputs, &answer.gradients})
    for (const auto& [name, array] : *arrays) {
      const auto widest_of = [&data = array.data](std::size_t first, std::size_t last) {
        Widest widest;
        for (std::size_t i = first; i < last; ++i) widest += {std::abs(data[i].word[0]), data[i].radius};
        return widest;
      };
      const Widest widest = words::sum_of_blocks(array.data.size(), threads, widest_of);
      if (widest.radius > std::max(word_target * widest.value, 0x1p-500)) return false;
    }
  return true;
}

/// Nothing where packs have to tell: of no tokens or channels, of numbers out of the engine's range, and where four
/// words do not meet the target.
template <class M>
std::optional<BasicAnswer<WordBall>> by_slabs(const Binding<M, double>& binding, bool gradients,
                                              WordEffort effort) try {
  if (binding.extents()[Axis::seq_len] == 0 || binding.extents()[Axis::value_dim] == 0) return std::nullopt;
  for (; effort.words <= 4; ++effort.words) {
    BasicAnswer<WordBall> answer = all_heads(binding, gradients, effort);
    if (!all_bounded(answer, effort.threads)) return std::nullopt;
    if (meets_target(answer, effort.threads)) return answer;
  }
  return std::nullopt;
} catch (const InputError&) {
  return std::nullopt;
}

}  // namespace

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<deltanet, double>& binding, bool gradients,
                                                   const WordEffort& effort) {
  return by_slabs(binding, gradients, effort);
}
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<gated_deltanet, double>& binding, bool gradients,
                                                   const WordEffort& effort) {
  return by_slabs(binding, gradients, effort);
}
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<kda, double>& binding, bool gradients,
                                                   const WordEffort& effort) {
  return by_slabs(binding, gradients, effort);
}
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<gla, double>& binding, bool gradients,
                                                   const WordEffort& effort) {
  return by_slabs(binding, gradients, effort);
}
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<mamba2, double>& binding, bool gradients,
                                                   const WordEffort& effort) {
  return by_slabs(binding, gradients, effort);
}

/// Its normalised forms are left to the packs.
template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<linear_attention, double>& binding, bool gradients,
                                                   const WordEffort& effort) {
  if (binding.options().normalization != linear_attention::Normalization::none) return std::nullopt;
  return by_slabs(binding, gradients, effort);
}

}  // namespace assay
