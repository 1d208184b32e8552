#pragma once
// The definition of answer_in_words: included by the rooms' own translation units alone.
#include <algorithm>
#include <array>
#include <exception>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "oracles/core/head_sums.hpp"
#include "oracles/core/in_words.hpp"
#include "oracles/core/word_engine.hpp"
#include "oracles/multiword/definite.hpp"
#include "oracles/multiword/pack.hpp"
#include "oracles/multiword/parallel.hpp"

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

/// One tensor of a pack of heads.
template <class P>
struct PackedTensor : HeadTensor {
  std::vector<P> data;
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
  auto out = WordEngine<M>::forward(binding.options(), in);
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

template <class P, class M, class X, class In, class Out>
std::vector<PackedTensor<P>> gradients_of(const Binding<M, X>& binding, const In& in, const Out& cotangent) {
  std::vector<PackedTensor<P>> list;
  auto d = WordEngine<M>::backward(binding.options(), in, cotangent);
  binding.for_each(d, [&](const Field& f, auto& tensor) {
    if (!f.differentiable || (f.missing == Field::Missing::absent && !binding.has(f))) return;
    require_known(tensor.data);
    list.push_back({{f.name, binding.shape_of(f, tensor), f.heads, binding.split_by_heads(f)}, std::move(tensor.data)});
  });
  return list;
}

/// A share of the threads' work: one part of the answer, of one pack of heads.
template <class P>
struct PackedPart {
  enum class Of { gradients, outputs };

  PackedHeads heads;
  Of of;
  std::vector<PackedTensor<P>> found;  ///< in the order of the room's fields
  std::exception_ptr failed;
};

template <class M, class P, class X>
void compute(const Binding<M, X>& binding, const AnswerParts& parts, PackedPart<P>& part) try {
  const auto in = zipped_inputs<P>(binding, part.heads);
  part.found = part.of == PackedPart<P>::Of::outputs
                   ? outputs_of<P>(binding, in, parts.caches)
                   : gradients_of<P>(binding, in, zipped_cotangent<P>(binding, part.heads));
} catch (...) {
  part.failed = std::current_exception();
}

/// All parts of the answers of `packs`: the order of the packs, of each the outputs before the gradients.
template <class M, class P, class X>
std::vector<PackedPart<P>> computed(const Binding<M, X>& binding, const AnswerParts& parts,
                                    const std::vector<PackedHeads>& packs, int threads) {
  using Of = typename PackedPart<P>::Of;
  std::vector<PackedPart<P>> list;
  for (const PackedHeads& heads : packs)
    for (const Of of : {Of::outputs, Of::gradients})
      if (of == Of::outputs || parts.gradients) list.push_back({heads, of, {}, {}});
  // Gradients take longest and go first.
  std::vector<PackedPart<P>*> order;
  for (const Of of : {Of::gradients, Of::outputs})
    for (PackedPart<P>& part : list)
      if (part.of == of) order.push_back(&part);
  words::in_parallel(order.size(), threads, [&](std::size_t i) { compute(binding, parts, *order[i]); });
  return list;
}

/// The failure of the first part that failed, if any.
template <class P>
std::exception_ptr failure_of(std::span<const PackedPart<P>> parts) {
  for (const PackedPart<P>& part : parts)
    if (part.failed) return part.failed;
  return nullptr;
}

/// Whether heads want different branches; rethrows any other failure.
inline bool is_divided(const std::exception_ptr& failure) try {
  if (failure) std::rethrow_exception(failure);
  return false;
} catch (const Divided&) {
  return true;
}

/// Every head of a pack as a pack of its own.
inline std::vector<PackedHeads> one_by_one(const PackedHeads& heads) {
  std::vector<PackedHeads> list;
  for (int lane = 0; lane < heads.count; ++lane) {
    PackedHeads one;
    one.head.fill(heads.head[static_cast<std::size_t>(lane)]);
    one.count = 1;
    list.push_back(one);
  }
  return list;
}

/// Adds what the parts of one pack of heads found; frees it.
template <class P>
void add_parts(std::span<PackedPart<P>> parts, HeadSums& sums, BasicAnswer<WordBall>& answer) {
  for (PackedPart<P>& part : parts) {
    BasicArrays<WordBall>& into = part.of == PackedPart<P>::Of::outputs ? answer.outputs : answer.gradients;
    for (const PackedTensor<P>& tensor : std::exchange(part.found, {}))
      for (int lane = 0; lane < part.heads.count; ++lane)
        sums.add(into, part.heads.head[static_cast<std::size_t>(lane)], tensor, tensor.data.size(),
                 [&](std::size_t n) { return tensor.data[n].number(lane); });
  }
}

template <class M, int W, class X>
BasicAnswer<WordBall> in_words(const Binding<M, X>& binding, const AnswerParts& parts, int threads) {
  using P = Pack<W>;
  BasicAnswer<WordBall> result;
  HeadSums sums(binding.heads(), W, threads);
  const std::vector<PackedHeads> packs = PackedHeads::of(binding.heads().own);
  std::vector<PackedPart<P>> found = computed<M, P>(binding, parts, packs, threads);
  const std::size_t parts_of_pack = found.size() / std::max<std::size_t>(packs.size(), 1);
  for (std::size_t i = 0; i < packs.size(); ++i) {
    const auto of_pack = std::span(found).subspan(i * parts_of_pack, parts_of_pack);
    if (!is_divided(failure_of<P>(of_pack))) {
      add_parts<P>(of_pack, sums, result);
      continue;
    }
    for (PackedPart<P>& part : of_pack) part.found.clear();
    std::vector<PackedPart<P>> of_heads = computed<M, P>(binding, parts, one_by_one(packs[i]), threads);
    if (const std::exception_ptr failure = failure_of<P>(of_heads)) std::rethrow_exception(failure);
    for (std::size_t n = 0; n < of_heads.size(); n += parts_of_pack)
      add_parts<P>(std::span(of_heads).subspan(n, parts_of_pack), sums, result);
  }
  return result;
}

}  // namespace detail

template <class M, class X>
BasicAnswer<WordBall> answer_in_words(const Binding<M, X>& binding, const AnswerParts& parts,
                                      const WordEffort& effort) {
  return with_words(effort.words, [&]<int W>() { return detail::in_words<M, W>(binding, parts, effort.threads); });
}

}  // namespace assay
