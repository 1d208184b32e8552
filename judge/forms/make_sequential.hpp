#pragma once
// A room's reference in emulated arithmetic: what stands behind its sequential form. And how large its terms are.
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/core/policy.hpp"
#include "oracles/core/bind.hpp"
#include "oracles/multiword/parallel.hpp"
#include "oracles/scalars/emulated.hpp"
#include "oracles/scalars/sized.hpp"
#include "reference/core/problem.hpp"

namespace assay {
namespace detail {

/// The numbers of arrays, each through `leave`(name, its data) as it leaves.
template <class Leave>
Arrays numbers_of(const BasicArrays<Emulated>& arrays, const Leave& leave) {
  Arrays list;
  for (const auto& [name, array] : arrays) {
    Array& to = list[name];
    to.shape = array.shape;
    for (const Emulated& x : array.data) to.data.push_back(x.value);
    leave(name, to.data);
  }
  return list;
}

/// Whether room M's gradients of that input are as wide as its sums: those of states, gates and ridges, which no
/// product reads.
template <class M>
bool has_wide_gradient(const std::string& input) {
  bool wide = true;
  const typename M::template Inputs<double> in;
  std::remove_cvref_t<decltype(in)>::each(in, [&](const Field& f, const auto&) {
    for (const Domain narrow : {Domain::query, Domain::key, Domain::value, Domain::probe})
      if (f.name == input && f.domain == narrow) wide = false;
  });
  return wide;
}

}  // namespace detail

/// Outputs, and gradients if the problem has cotangents, all heads, on this thread alone. Site `op` and, where the
/// policy has them, `P` for what a product reads, `S` and `G` for what is carried from token to token and back, `final`
/// for the states that leave and `out` for all that leaves else (where there is no `final`, for everything). Throws
/// what the room throws on bad input, and Refusal where a number overflows.
template <class M>
Answer run_sequentially(const Problem& problem, const Policy& policy) {
  const auto format_at = [&](std::string_view site) {
    return policy.sites.find(site) < 0 ? Format::exact : policy.sites.at(site);
  };
  const bool carries = policy.sites.find("final") >= 0;
  BasicAnswer<Emulated> answered;
  {
    const Format operations = policy.sites.at("op");
    const EmulatedArithmetic arithmetic(
        {operations, format_at("P"), format_at("S"), format_at("G"), carries && operations == Format::fp32},
        policy.rounding, policy.seed);
    answered = answer<M, Emulated>(Binding<M, double>(problem), {!problem.cotangents.empty(), false, false});
  }
  RandomBits random{RandomBits{policy.seed}.at(0), 0};
  const auto leave = [&](std::vector<double>& data, Format stored) {
    if (stored != Format::exact) round_span(data.data(), data.size(), stored, policy.rounding, random);
  };
  const Format out = format_at("out"), state = carries ? policy.sites.at("final") : out,
               wide = carries ? Format::exact : out;
  Answer left;
  left.outputs = detail::numbers_of(answered.outputs, [&](const std::string& name, std::vector<double>& data) {
    leave(data, name.starts_with("final_") ? state : out);
  });
  left.gradients = detail::numbers_of(answered.gradients, [&](const std::string& name, std::vector<double>& data) {
    leave(data, detail::has_wide_gradient<M>(name) ? wide : out);
  });
  return left;
}

/// Outputs, and gradients if the problem has cotangents, all heads, under the PerturbedArithmetic of this thread.
template <class M>
Answer run_perturbed(const Problem& problem) {
  const BasicAnswer<Emulated> answered =
      answer<M, Emulated>(Binding<M, double>(problem), {!problem.cotangents.empty(), false, false});
  const auto leave = [](const std::string&, std::vector<double>&) {};
  return {detail::numbers_of(answered.outputs, leave), detail::numbers_of(answered.gradients, leave)};
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
BasicAnswer<S> answer_by_heads(const B& binding, const AnswerParts& parts, int threads, const OnThread& on_thread) {
  const HeadCount& heads = binding.heads();
  std::vector<BasicAnswer<S>> of_head(static_cast<std::size_t>(heads.own));
  words::in_parallel(of_head.size(), threads, [&](std::size_t head) {
    on_thread();
    of_head[head] = answer<M, S>(OneHead<B>(binding, static_cast<int>(head)), parts);
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

/// The sizes of the terms of all outputs, and of gradients if the problem has cotangents, by their names in a report; 0
/// where accumulators of so many bits hold everything exactly in any order. The number of threads changes nothing.
/// Throws as above.
template <class M>
Arrays terms_of(const Problem& problem, int bits, int threads) {
  const BasicAnswer<Sized> answered =
      detail::answer_by_heads<M, Sized>(Binding<M, double>(problem), {!problem.cotangents.empty(), false, false},
                                        threads, [bits] { Sized::accumulate_in(bits); });
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

}  // namespace assay
