#pragma once
// The definition of answer_in_words: included by the rooms' own translation units alone.
#include <algorithm>
#include <array>
#include <exception>
#include <utility>
#include <vector>

#include "oracles/core/head_sums.hpp"
#include "oracles/core/in_words.hpp"
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

/// `read(head)` for every lane, zipped together.
template <class P, class Binding, class F>
auto zipped(const Binding& binding, const PackedHeads& heads, F&& read) {
  auto all = read(heads.head[0]);
  for (int lane = 1; lane < heads.count; ++lane) {
    const auto one = read(heads.head[static_cast<std::size_t>(lane)]);
    std::vector<const std::vector<P>*> from;
    binding.for_each(one, [&](const Field&, const auto& tensor) { from.push_back(&tensor.data); });
    auto next = from.begin();
    binding.for_each(all, [&](const Field&, auto& tensor) {
      const std::vector<P>& source = **next++;
      for (std::size_t i = 0; i < source.size(); ++i)
        for (int to = lane; to < (lane + 1 < heads.count ? lane + 1 : words::pack_size); ++to)
          tensor.data[i].take(to, source[i]);
    });
  }
  return all;
}

template <class M, class P, class X>
PackedAnswer<P> answer_of(const Binding<M, X>& binding, const AnswerParts& parts, const PackedHeads& heads) {
  const auto in =
      binding.completed(zipped<P>(binding, heads, [&](int head) { return binding.template given_inputs<P>(head); }));
  PackedAnswer<P> answer;
  const auto check = [](const auto& tensor) {
    for (const P& x : tensor.data) static_cast<void>(isfinite(x));  // Undecided if nothing is known
  };
  const auto whole = [](const auto& tensor) { return std::vector<int>(tensor.extent.begin(), tensor.extent.end()); };
  auto out = M::forward(binding.options(), in);
  binding.for_each(out, [&](const Field& f, auto& tensor) {
    if (f.missing == Field::Missing::absent && tensor.empty()) return;
    check(tensor);
    answer.outputs.push_back({{f.name, whole(tensor)}, std::move(tensor.data)});
  });
  if constexpr (requires { M::caches(binding.options(), in); })
    if (parts.caches) {
      auto rows = M::caches(binding.options(), in);
      std::remove_cvref_t<decltype(rows)>::each(rows, [&](std::string_view name, auto& tensor) {
        answer.outputs.push_back({{name, whole(tensor)}, std::move(tensor.data)});
      });
    }
  if (!parts.gradients) return answer;
  auto d = M::backward(binding.options(), in,
                       zipped<P>(binding, heads, [&](int head) { return binding.template cotangent<P>(head); }));
  binding.for_each(d, [&](const Field& f, auto& tensor) {
    if (!f.differentiable || (f.missing == Field::Missing::absent && !binding.has(f))) return;
    check(tensor);
    answer.gradients.push_back(
        {{f.name, binding.shape_of(f, tensor), f.heads, binding.split_by_heads(f)}, std::move(tensor.data)});
  });
  return answer;
}

/// As answer_of, but heads that want different branches go one by one.
template <class M, class P, class X>
std::vector<std::pair<PackedHeads, PackedAnswer<P>>> answers_of(const Binding<M, X>& binding, const AnswerParts& parts,
                                                                const PackedHeads& heads) {
  std::vector<std::pair<PackedHeads, PackedAnswer<P>>> list;
  try {
    list.emplace_back(heads, answer_of<M, P>(binding, parts, heads));
  } catch (const Divided&) {
    for (int lane = 0; lane < heads.count; ++lane) {
      PackedHeads one;
      one.head.fill(heads.head[static_cast<std::size_t>(lane)]);
      one.count = 1;
      list.emplace_back(one, answer_of<M, P>(binding, parts, one));
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
  words::in_parallel(packs.size(), threads, [&](std::size_t i) {
    try {
      found[i] = answers_of<M, P>(binding, parts, packs[i]);
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
