#pragma once
// A room's reference in emulated arithmetic: what stands behind its sequential form. And how large its terms are.
#include <string_view>
#include <vector>

#include "kernels/core/policy.hpp"
#include "oracles/core/bind.hpp"
#include "oracles/scalars/emulated.hpp"
#include "oracles/scalars/sized.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// Outputs, and gradients if the problem has cotangents, all heads, on this thread alone. Site `op` and, where
/// the policy has them, `P` for what a product reads and `out` for what leaves. Throws what the room throws on bad
/// input, and Refusal where a number overflows.
template <class M>
Answer run_sequentially(const Problem& problem, const Policy& policy) {
  const auto format_at = [&](std::string_view site) {
    return policy.sites.find(site) < 0 ? Format::exact : policy.sites.at(site);
  };
  BasicAnswer<Emulated> answered;
  {
    const EmulatedArithmetic arithmetic(policy.sites.at("op"), format_at("P"), policy.rounding, policy.seed);
    answered = answer<M, Emulated>(Binding<M, double>(problem), {!problem.cotangents.empty(), false, false});
  }
  RandomBits random{RandomBits{policy.seed}.at(0), 0};
  const Format stored = format_at("out");
  const auto leave = [&](const BasicArrays<Emulated>& arrays) {
    Arrays list;
    for (const auto& [name, array] : arrays) {
      Array& to = list[name];
      to.shape = array.shape;
      for (const Emulated& x : array.data) to.data.push_back(x.value);
      if (stored != Format::exact) round_span(to.data.data(), to.data.size(), stored, policy.rounding, random);
    }
    return list;
  };
  Answer left;
  left.outputs = leave(answered.outputs);
  left.gradients = leave(answered.gradients);
  return left;
}

/// Outputs, and gradients if the problem has cotangents, all heads, under the PerturbedArithmetic of this thread.
template <class M>
Answer run_perturbed(const Problem& problem) {
  const BasicAnswer<Emulated> answered =
      answer<M, Emulated>(Binding<M, double>(problem), {!problem.cotangents.empty(), false, false});
  const auto numbers = [](const BasicArrays<Emulated>& arrays) {
    Arrays list;
    for (const auto& [name, array] : arrays) {
      Array& to = list[name];
      to.shape = array.shape;
      for (const Emulated& x : array.data) to.data.push_back(x.value);
    }
    return list;
  };
  return {numbers(answered.outputs), numbers(answered.gradients)};
}

/// The sizes of the terms of all outputs, and of gradients if the problem has cotangents, by their names in a report; 0
/// where accumulators of so many bits hold everything exactly in any order. On this thread alone. Throws as above.
template <class M>
Arrays terms_of(const Problem& problem, int bits) {
  Sized::accumulate_in(bits);
  const BasicAnswer<Sized> answered =
      answer<M, Sized>(Binding<M, double>(problem), {!problem.cotangents.empty(), false, false});
  Arrays sizes;
  const auto enter = [&sizes](const std::string& name, const BasicArray<Sized>& array) {
    Array& to = sizes[name];
    to.shape = array.shape;
    for (const Sized& x : array.data) to.data.push_back(x.exact() ? 0 : x.size);
  };
  for (const auto& [name, array] : answered.outputs) enter(name, array);
  for (const auto& [name, array] : answered.gradients) enter("d_" + name, array);
  return sizes;
}

}  // namespace assay
