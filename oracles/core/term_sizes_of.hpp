#pragma once
// How large the terms of a room's reference are.
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "oracles/core/bind.hpp"
#include "oracles/multiword/parallel.hpp"
#include "oracles/scalars/sized.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// By their names in a report: "o", "d_q".
inline Arrays reported_sizes(const BasicAnswer<Sized>& answered) {
  Arrays sizes;
  const auto enter = [&sizes](const std::string& name, const BasicArray<Sized>& array) {
    Array& to = sizes[name];
    to.shape = array.shape;
    for (const Sized& x : array.data) to.data.push_back(x.rounded_at());
  };
  for (const auto& [name, array] : answered.outputs) enter(name, array);
  for (const auto& [name, array] : answered.gradients) enter("d_" + name, array);
  return sizes;
}

namespace detail {

/// One head of a problem, as a binding of its own.
template <class B>
class OneHead {
 public:
  OneHead(const B& all, int head) : all_(all), head_(head), heads_{all.heads().axis, 1, 1} {}

  const auto& options() const { return all_.options(); }
  const HeadCount& heads() const { return heads_; }
  template <class S>
  auto inputs(int) const {
    return all_.template inputs<S>(head_);
  }
  template <class S>
  auto cotangent(int) const {
    return all_.template cotangent<S>(head_);
  }
  bool has(const Field& f) const { return all_.has(f); }
  bool split_by_heads(const Field& f) const { return all_.split_by_heads(f); }
  template <class T>
  auto shape_of(const Field& f, const T& tensor) const {
    return all_.shape_of(f, tensor);
  }
  template <class Fields, class F>
  static void for_each(Fields& fields, F&& f) {
    B::for_each(fields, f);
  }

 private:
  const B& all_;
  int head_;
  HeadCount heads_;
};

/// The answer of room M with its gradients, head by head on several threads; the heads that add to a number add to it
/// in their order, as answer() has it.
template <class M, class S, class B, class OnThread>
BasicAnswer<S> answer_by_heads(const B& binding, bool with_gradients, int threads, const OnThread& on_thread) {
  const HeadCount& heads = binding.heads();
  std::vector<BasicAnswer<S>> of_head(static_cast<std::size_t>(heads.own));
  words::in_parallel(of_head.size(), threads, [&](std::size_t head) {
    on_thread();
    of_head[head] = answer<M, S>(OneHead<B>(binding, static_cast<int>(head)), with_gradients);
  });
  std::map<std::string, Field, std::less<>> inputs;
  const typename M::template Inputs<double> fields;
  B::for_each(fields, [&](const Field& f, const auto&) { inputs.emplace(f.name, f); });
  BasicAnswer<S> all;
  const auto join = [&](BasicArrays<S>& into, BasicArrays<S>& from, int head, bool gradients) {
    for (auto& [name, part] : from) {
      const Field::Heads side = gradients ? inputs.at(name).heads : Field::Heads::own;
      const bool split = heads.axis && (!gradients || binding.split_by_heads(inputs.at(name)));
      const auto [entry, fresh] = into.try_emplace(name);
      BasicArray<S>& array = entry->second;
      if (fresh) {
        array.shape = part.shape;
        if (split) array.shape.front() = heads.of(side);
        array.data.assign(array.count(), S(0));
      }
      const std::size_t at = split ? part.data.size() * static_cast<std::size_t>(heads.block(side, head)) : 0;
      for (std::size_t i = 0; i < part.data.size(); ++i) array.data[at + i] += part.data[i];
      part = {};
    }
  };
  on_thread();
  for (int head = 0; head < heads.own; ++head) {
    BasicAnswer<S>& part = of_head[static_cast<std::size_t>(head)];
    join(all.outputs, part.outputs, head, false), join(all.gradients, part.gradients, head, true);
  }
  return all;
}

}  // namespace detail

/// As Room::term_sizes.
template <class M>
Arrays term_sizes_of(const Problem& problem, const HeldIn& numbers, int threads) {
  return reported_sizes(detail::answer_by_heads<M, Sized>(Binding<M, double>(problem), !problem.cotangents.empty(),
                                                          threads, [&numbers] { Sized::hold_in(numbers); }));
}

}  // namespace assay
