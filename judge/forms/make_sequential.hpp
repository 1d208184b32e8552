#pragma once
// A room's reference in emulated arithmetic: what stands behind its sequential form. And how large its terms are.
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/core/policy.hpp"
#include "oracles/core/bind.hpp"
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
    for (const Sized& x : array.data) to.data.push_back(x.rounded_at());
  };
  for (const auto& [name, array] : answered.outputs) enter(name, array);
  for (const auto& [name, array] : answered.gradients) enter("d_" + name, array);
  return sizes;
}

}  // namespace assay
