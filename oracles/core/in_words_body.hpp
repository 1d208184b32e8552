#pragma once
// The definition of answer_in_words: included by the rooms' own translation units alone.
#include <algorithm>
#include <array>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "oracles/core/head_sums.hpp"
#include "oracles/core/in_words.hpp"
#include "oracles/words/definite.hpp"
#include "oracles/words/pack.hpp"
#include "oracles/words/parallel.hpp"

namespace assay {
namespace detail {

/// The heads of one pack, one per lane. Where there are fewer than lanes, the last one fills up.
struct PackedHeads {
  std::array<int, words::pack_size> head{};
  int count = 0;

  static std::vector<PackedHeads> of(int heads) {
    std::vector<PackedHeads> packs;
    for (int first = 0; first < heads; first += words::pack_size) {
      PackedHeads pack;
      pack.count = std::min(words::pack_size, heads - first);
      for (int lane = 0; lane < words::pack_size; ++lane)
        pack.head[static_cast<std::size_t>(lane)] = first + std::min(lane, pack.count - 1);
      packs.push_back(pack);
    }
    return packs;
  }
};

/// What one pack of heads found: a tensor of packs for each name, in the order of the room's fields.
template <class P>
struct PackedTensor : HeadTensor {
  std::vector<P> data;
};
template <class P>
struct PackedAnswer {
  std::vector<PackedTensor<P>> outputs, gradients;
};

/// `read<S>(head)` for every lane, zipped together. Where `is_given` says no, a tensor is the same for all heads.
template <class P, class M, class X, class Read, class Given>
auto zipped(const Binding<M, X>& binding, const PackedHeads& heads, Read&& read, Given&& is_given) {
  using Number = std::conditional_t<std::is_same_v<X, double>, double, P>;  // what is given as such is read as such
  auto all = read.template operator()<P>(heads.head[0]);
  for (int lane = 1; lane < heads.count; ++lane) {
    const auto one = read.template operator()<Number>(heads.head[static_cast<std::size_t>(lane)]);
    std::vector<const std::vector<Number>*> from;
    binding.for_each(one, [&](const Field&, const auto& tensor) { from.push_back(&tensor.data); });
    auto next = from.begin();
    binding.for_each(all, [&](const Field& f, auto& tensor) {
      const std::vector<Number>& source = **next++;
      if (!is_given(f)) return;
      for (std::size_t i = 0; i < source.size(); ++i)
        for (int to = lane; to < (lane + 1 < heads.count ? lane + 1 : words::pack_size); ++to)
          tensor.data[i].take(to, source[i]);
    });
  }
  return all;
}
template <class P, class M, class X>
auto zipped_inputs(const Binding<M, X>& binding, const PackedHeads& heads) {
  return binding.completed(zipped<P>(
      binding, heads, [&]<class S>(int head) { return binding.template given_inputs<S>(head); },
      [&](const Field& f) { return binding.has(f); }));
}
template <class P, class M, class X>
auto zipped_cotangent(const Binding<M, X>& binding, const PackedHeads& heads) {
  return zipped<P>(
      binding, heads, [&]<class S>(int head) { return binding.template cotangent<S>(head); },
      [](const Field&) { return true; });
}

/// Undecided if nothing is known of some number.
template <class P>
void require_known(const std::vector<P>& numbers) {
  for (const P& x : numbers) static_cast<void>(isfinite(x));
}

template <class P, class Tensor>
PackedTensor<P> packed(std::string_view name, Tensor& tensor) {
  return {{name, std::vector<int>(tensor.extent.begin(), tensor.extent.end())}, std::move(tensor.data)};
}

template <class P, class M, class X, class In>
std::vector<PackedTensor<P>> outputs_of(const Binding<M, X>& binding, const In& in, bool caches) {
  std::vector<PackedTensor<P>> list;
  auto out = M::forward(binding.options(), in);
  binding.for_each(out, [&](const Field& f, auto& tensor) {
    if (f.missing == Field::Missing::absent && tensor.empty()) return;
    require_known(tensor.data);
    list.push_back(packed<P>(f.name, tensor));
  });
  if constexpr (requires { M::caches(binding.options(), in); })
    if (caches) {
      auto rows = M::caches(binding.options(), in);
      std::remove_cvref_t<decltype(rows)>::each(
          rows, [&](std::string_view name, auto& tensor) { list.push_back(packed<P>(name, tensor)); });
    }
  return list;
}

template <class P, class M, class X, class In>
std::vector<PackedTensor<P>> gradients_of(const Binding<M, X>& binding, const In& in, const PackedHeads& heads) {
  std::vector<PackedTensor<P>> list;
  auto d = M::backward(binding.options(), in, zipped_cotangent<P>(binding, heads));
  binding.for_each(d, [&](const Field& f, auto& tensor) {
    if (!f.differentiable || (f.missing == Field::Missing::absent && !binding.has(f))) return;
    require_known(tensor.data);
    list.push_back({{f.name, binding.shape_of(f, tensor), f.heads, binding.split_by_heads(f)}, std::move(tensor.data)});
  });
  return list;
}

/// Outputs and gradients at the same time where there are threads for it.
template <class M, class P, class X>
PackedAnswer<P> answer_of(const Binding<M, X>& binding, const AnswerParts& parts, const PackedHeads& heads,
                          int threads) {
  const auto in = zipped_inputs<P>(binding, heads);
  PackedAnswer<P> answer;
  if (threads < 2 || !parts.gradients) {
    answer.outputs = outputs_of<P>(binding, in, parts.caches);
    if (parts.gradients) answer.gradients = gradients_of<P>(binding, in, heads);
    return answer;
  }
  std::array<std::exception_ptr, 2> failed;  // the outputs' goes first, whoever was faster
  words::in_parallel(2, threads, [&](std::size_t part) {
    try {
      if (part == 0)
        answer.outputs = outputs_of<P>(binding, in, parts.caches);
      else
        answer.gradients = gradients_of<P>(binding, in, heads);
    } catch (...) {
      failed[part] = std::current_exception();
    }
  });
  for (const std::exception_ptr& one : failed)
    if (one) std::rethrow_exception(one);
  return answer;
}

/// As answer_of, but heads that want different branches go one by one.
template <class M, class P, class X>
std::vector<std::pair<PackedHeads, PackedAnswer<P>>> answers_of(const Binding<M, X>& binding, const AnswerParts& parts,
                                                                const PackedHeads& heads, int threads) {
  std::vector<std::pair<PackedHeads, PackedAnswer<P>>> list;
  try {
    list.emplace_back(heads, answer_of<M, P>(binding, parts, heads, threads));
  } catch (const Divided&) {
    for (int lane = 0; lane < heads.count; ++lane) {
      PackedHeads one;
      one.head.fill(heads.head[static_cast<std::size_t>(lane)]);
      one.count = 1;
      list.emplace_back(one, answer_of<M, P>(binding, parts, one, threads));
    }
  }
  return list;
}

template <class M, int W, class X>
BasicAnswer<WordBall> in_words(const Binding<M, X>& binding, const AnswerParts& parts, int threads) {
  using P = Pack<W>;
  const std::vector<PackedHeads> packs = PackedHeads::of(binding.heads().own);
  std::vector<std::vector<std::pair<PackedHeads, PackedAnswer<P>>>> found(packs.size());
  std::vector<std::exception_ptr> failed(packs.size());
  const int threads_of_pack = threads / static_cast<int>(std::max<std::size_t>(packs.size(), 1));
  words::in_parallel(packs.size(), threads, [&](std::size_t i) {
    try {
      found[i] = answers_of<M, P>(binding, parts, packs[i], threads_of_pack);
    } catch (...) {
      failed[i] = std::current_exception();
    }
  });
  BasicAnswer<WordBall> result;
  HeadSums sums(binding.heads(), W);
  for (std::size_t i = 0; i < packs.size(); ++i) {
    if (failed[i]) std::rethrow_exception(failed[i]);
    for (auto& [heads, answer] : found[i])
      for (int lane = 0; lane < heads.count; ++lane) {
        const int head = heads.head[static_cast<std::size_t>(lane)];
        const auto add = [&](BasicArrays<WordBall>& into, const PackedTensor<P>& tensor) {
          sums.add(into, head, tensor, tensor.data.size(), [&](std::size_t n) { return tensor.data[n].number(lane); });
        };
        for (const auto& tensor : answer.outputs) add(result.outputs, tensor);
        for (const auto& tensor : answer.gradients) add(result.gradients, tensor);
      }
    found[i].clear();
  }
  return result;
}

}  // namespace detail

template <class M, class X>
BasicAnswer<WordBall> answer_in_words(const Binding<M, X>& binding, const AnswerParts& parts,
                                      const WordEffort& effort) {
  switch (effort.words) {
    case 2:
      return detail::in_words<M, 2>(binding, parts, effort.threads);
    case 3:
      return detail::in_words<M, 3>(binding, parts, effort.threads);
    default:
      return detail::in_words<M, 4>(binding, parts, effort.threads);
  }
}

}  // namespace assay
