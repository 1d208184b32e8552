#include <algorithm>
#include <cmath>

#include "judge/held_out/faults.hpp"
#include "reference/core/rounding.hpp"

namespace assay::held_out {
namespace {

/// The call without these parameters, so that their defaults count.
Answer without(const Call& call, const Names& names) {
  return call.with([&](Problem& p) {
    for (const std::string_view name : names) p.params.erase(std::string(name));
  });
}

Answer with_number(const Call& call, std::string_view name, double x) {
  return call.with([&](Problem& p) { set_number(p, name, x); });
}

Answer with_queries_times(const Call& call, double factor) {
  return call.with([&](Problem& p) { multiply(p.inputs.at("q"), factor); });
}

constexpr Fault of_options[] = {
    {{"scale_forgotten", "the scale is 1", "TE#2300 class"},
     "mamba2 comba",
     [](const Call& c) { return with_number(c, "scale", 1); }},
    {{"scale_applied_by_caller_too", "queries multiplied by the scale before the call", "TE#2300 class"},
     "kda mdn deltanet",
     [](const Call& c) { return with_queries_times(c, number(c.problem, "scale")); }},
    {{"bandwidth_applied_by_caller_too", "queries divided by the bandwidth before the call", "TE#2300 class"},
     "parallax softmax_attention:split_decode",
     [](const Call& c) { return with_queries_times(c, 1 / number(c.problem, "bandwidth")); }},
    {{"scale_of_value_dim", "V^-1/2 for K^-1/2", "launcher bug: head_dim taken from v"},
     "gated_deltanet linear_attention",
     [](const Call& c) {
       return with_number(
           c, "scale",
           round_to(1 / std::sqrt(static_cast<double>(c.problem.inputs.at("v").shape.back())), Format::fp32));
     }},
    {{"bandwidth_of_value_dim", "V^1/2 for the bandwidth", "launcher bug: head_dim taken from v"},
     "softmax_attention lla",
     [](const Call& c) {
       return with_number(
           c, "bandwidth",
           round_to(std::sqrt(static_cast<double>(c.problem.inputs.at("v").shape.back())), Format::fp32));
     }},
    {{"bandwidth_in_fp16", "the bandwidth through fp16", "launcher bug: a scalar in the tensors' format"},
     "lla",
     [](const Call& c) { return with_number(c, "bandwidth", round_to(number(c.problem, "bandwidth"), Format::fp16)); }},
    {{"eps_of_1e_6", "the denominator's eps is 1e-6, whatever is asked for", "fla Mesa, FlashLLA: fixed eps"},
     "falcon1 falcon2 falcon3a linear_attention",
     [](const Call& c) { return with_number(c, "eps", 1e-6); }},
    {{"eps_ignored", "the denominator's eps is 0", "launcher bug: argument not forwarded"},
     "falcon2_lite falcon3",
     [](const Call& c) { return without(c, {"eps"}); }},
    {{"eps_normalizer_is_eps", "the normaliser's eps is twice the one asked for", "launcher bug: two eps added"},
     "falcon2a",
     [](const Call& c) { return with_number(c, "eps_normalizer", 2 * number(c.problem, "eps_normalizer")); }},
    {{"ridge_coupling_ignored", "the ridge is lambda whatever the coupling", "launcher bug: argument not forwarded"},
     "falcon2_lite falcon2a falcon3",
     [](const Call& c) { return without(c, {"ridge_coupling"}); }},
    {{"error_option_ignored", "the error is always that of the decayed state", "launcher bug: argument not forwarded"},
     "gated_deltanet",
     [](const Call& c) { return without(c, {"error"}); }},
    {{"start_taken_for_continuation", "the first row of a sequence writes the last key of the call before",
      "launcher bug: stale cached key"},
     "deltanet falcon1 falcon2",
     [](const Call& c) {
       if (!c.room.shifted(c.problem.params) || c.problem.inputs.contains("k_carry")) return c.healthy();
       Answer answer = c.with([&](Problem& p) {
         const Array& k = p.inputs.at("k");
         Array carry = rows_between(k, k.shape[1] - 1, k.shape[1]);
         carry.shape.erase(carry.shape.begin() + 1);
         p.inputs["k_carry"] = std::move(carry), p.params["sequence_start"] = false;
       });
       answer.gradients.erase("k_carry");
       return answer;
     }},
    {{"count_ignored", "o is the sum, not the mean over the tokens", "launcher bug: argument not forwarded"},
     "linear_attention",
     [](const Call& c) {
       const auto it = c.problem.params.find("normalization");
       const bool counts = it != c.problem.params.end() && std::get<std::string>(it->second) == "count";
       return counts ? without(c, {"normalization"}) : c.healthy();
     }},
    {{"head_offset_ignored", "a shard's heads count from 0", "launcher bug: head offset of a tensor-parallel rank"},
     "retnet",
     [](const Call& c) { return without(c, {"head"}); }},
    {{"lambda_mode_ignored", "the ridge is in units of the mass, whatever is asked for",
      "launcher bug: argument not forwarded"},
     "lla",
     [](const Call& c) { return without(c, {"lambda_mode"}); }},
    {{"blocks_ignored", "the whole system is solved, not its diagonal blocks", "launcher bug: argument not forwarded"},
     "lla",
     [](const Call& c) {
       return without(c, {"blocks", "block_form"});
     }},
    {{"one_step_fewer", "conjugate gradients stop a step early", "fla Mesa, FlashLLA: off by one"},
     "lla",
     [](const Call& c) {
       return c.with([](Problem& p) {
         const auto steps = p.params.find("iterations");
         if (steps != p.params.end() && std::get<long>(steps->second) > 1) std::get<long>(steps->second) -= 1;
       });
     }},
    {{"solved_to_the_end", "the system is solved, whatever number of steps is asked for",
      "launcher bug: argument not forwarded"},
     "lla",
     [](const Call& c) {
       return without(c, {"solver", "iterations", "tolerance"});
     }},
    {{"tolerance_tenfold", "conjugate gradients stop at ten times the tolerance", "fla Mesa: rtol and atol confused"},
     "lla",
     [](const Call& c) {
       return c.problem.params.contains("tolerance") ? with_number(c, "tolerance", 10 * number(c.problem, "tolerance"))
                                                     : c.healthy();
     }},
    {{"window_one_narrower", "window W taken as W - 1", "Parallax docstring against code, the other way"},
     "softmax_attention:split_decode parallax lla",
     [](const Call& c) {
       return c.with([](Problem& p) {
         const auto window = p.params.find("window");
         if (window != p.params.end() && std::get<long>(window->second) > 1) std::get<long>(window->second) -= 1;
       });
     }},
    {{"causal_dropped", "every query sees every key", "launcher bug: is_causal not forwarded"},
     "softmax_attention parallax:split_decode lla",
     [](const Call& c) { return c.with([](Problem& p) { p.params["causal"] = false, p.params.erase("window"); }); }},
    {{"causal_forced", "what is not causal is", "launcher bug: is_causal not forwarded"},
     "parallax softmax_attention:split_decode",
     [](const Call& c) { return without(c, {"causal"}); }},
    {{"mask_aligned_at_the_top", "query i of n sees keys up to i, not up to i + T - n",
      "FlashAttention before 2.1: causal masks of fewer queries than keys"},
     "softmax_attention:split_decode parallax:split_decode",
     [](const Call& c) {
       return c.with([](Problem& p) {
         const auto causal = p.params.find("causal");
         if (causal != p.params.end() && !std::get<bool>(causal->second)) return;
         const int queries = p.inputs.at("q").shape[1];
         edit(p.inputs, {"k", "v"}, [&](Array& a) { a = rows_between(a, 0, std::min(queries, a.shape[1])); });
       });
     }},
};

}  // namespace

std::span<const Fault> option_faults() { return of_options; }

}  // namespace assay::held_out
