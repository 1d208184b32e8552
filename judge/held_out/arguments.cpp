#include "judge/held_out/arguments.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "arguments/registry.hpp"
#include "judge/court/argument_form.hpp"
#include "kernels/core/tile.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

struct ArgumentFault {
  Mutant mutant;
  std::string_view argument;  ///< that it is of: mechanisms that do not take that do not have it
  /// Changes the input of that name, or the problem; nothing: the caller leaves the parameter out.
  std::variant<std::monostate, void (*)(Array&), void (*)(Problem&)> edit = {};
  std::string_view name = argument;
};

void set(Problem& p, const std::string& param, const char* to) {
  if (p.params.contains(param)) p.params[param] = std::string(to);
}
void edit(Problem& p, const std::string& input, const std::function<void(Array&)>& f) {
  if (const auto found = p.inputs.find(input); found != p.inputs.end()) f(found->second);
}
/// A number of every head: the next one's.
void rotate(Array& x) { std::rotate(x.data.begin(), x.data.begin() + (x.data.empty() ? 0 : 1), x.data.end()); }
/// Gives each part of the first axis that of the next one.
void rotate_parts(Array& x) {
  if (x.shape.empty() || x.shape[0] < 2) return;
  std::rotate(x.data.begin(), x.data.begin() + static_cast<std::ptrdiff_t>(x.data.size()) / x.shape[0], x.data.end());
}
void map(Array& x, double (*f)(double)) {
  for (double& y : x.data) y = f(y);
}
void negate(Array& x) {
  map(x, [](double y) { return -y; });
}
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

constexpr ArgumentFault attention_faults[] = {
    {{"cap_dropped", "the caller leaves soft_cap out", "sglang#33915"}, "soft_cap"},
    {{"cap_place_dropped", "a bias for before the cap or scale handed over as any other", "TE pre_scale_bias"},
     "bias_place"},
    {{"alignment_dropped", "the caller's alignment is not handed on", "mlx#2835"}, "causal_align"},
    {{"slopes_of_the_next_head", "every head has the next one's slope", "launcher bug"}, "alibi_slopes", rotate},
    {{"sinks_of_the_next_head", "every head has the next one's sink", "launcher bug"}, "sink", rotate},
    {{"mask_negated", "true where the kernel means hidden", "pytorch#158212 class"},
     "mask",
     [](Array& x) { map(x, [](double y) { return 1 - y; }); }},
    {{"bias_negated", "a bias subtracted", "launcher bug"}, "bias", negate},
    {{"documents_of_the_next_row", "rows have the document of the row behind", "launcher bug"}, "documents_q", rotate},
    {{"window_of_the_caller_counts_itself", "window_left handed over as a window's length", "FA#2876 class"},
     "window_left",
     [](Problem& p) {
       if (const auto left = p.params.find("window_left"); left != p.params.end())
         left->second = std::max(0L, std::get<long>(left->second) - 1);
     }},
    {{"slopes_negated", "slopes that reward distance", "launcher bug"}, "alibi_slopes", negate},
    {{"alibi_form_dropped", "signed distances handed over as any others", "FlashInfer, TransformerEngine"},
     "alibi_form"},
    {{"lse_base_dropped", "the base of the lse is not handed on", "FlashInfer merge_state"}, "lse_base"},
    {{"scales_of_the_next_head", "every head has the next one's k_scale", "launcher bug"}, "k_scale", rotate_parts},
    {{"scale_layout_dropped", "swizzled scales handed to a kernel that reads them by rows and columns", "vllm#55976"},
     "scale_layout"},
    {{"pages_exchanged", "the first and the last page of a sequence in each other's place", "launcher bug"},
     "page_table",
     [](Array& x) {
       if (x.data.size() > 1) std::swap(x.data[0], x.data[static_cast<std::size_t>(x.shape.back()) - 1]);
     }},
    {{"choice_of_the_next_list", "every row has the keys that the next one chose", "launcher bug"},
     "topk_indices",
     [](Array& x) {
       if (const auto n = static_cast<std::size_t>(x.shape.back()); n < x.data.size())
         std::rotate(x.data.begin(), x.data.begin() + static_cast<std::ptrdiff_t>(n), x.data.end());
     }},
    {{"length_of_the_next_list", "every list is as long as the next one", "launcher bug"}, "topk_length", rotate},
    {{"block_size_dropped", "entries that name blocks handed over as keys", "launcher bug"}, "topk_block_size"},
    {{"sequences_one_row_early", "every sequence but the first starts one row early", "launcher bug"},
     "cu_seqlens",
     [](Array& x) {
       for (std::size_t n = 1; n + 1 < x.data.size(); ++n) x.data[n] = std::max(x.data[n - 1], x.data[n] - 1);
     }},
};

constexpr ArgumentFault recurrence_faults[] = {
    {{"eps_of_the_default", "the caller's l2_eps is not handed on: 1e-6", "maxtext#5098"},
     "l2_eps",
     [](Problem& p) { set(p, "l2_eps", "1e-6"); }},
    {{"norm_of_another_kind", "F.normalize in front of a kernel that is told of it", "vllm#51779 class"},
     "l2_norm",
     [](Problem& p) { set(p, "l2_norm", "max"); }},
    {{"a_log_of_the_next_head", "every head has the next one's a_log", "launcher bug"}, "a", rotate_parts, "a_log"},
    {{"bias_of_the_next_head", "every head has the next one's dt_bias", "launcher bug"}, "a", rotate_parts, "dt_bias"},
    {{"normalizer_of_the_default", "gate_normalizer 1 whatever the caller says", "fla gla layer"}, "gate_normalizer"},
    {{"bound_of_the_default", "lower_bound of half the caller's", "KDA lower_bound"},
     "lower_bound",
     [](Problem& p) { set(p, "lower_bound", "-2.5"); }},
    {{"sigmoid_twice", "the caller hands sigmoid(b) to a kernel that takes b", "vllm#53877 class"},
     "b",
     [](Array& x) { map(x, logistic); }},
    {{"state_layout_dropped", "states with values first handed over as any other", "tpu-inference#3189"},
     "state_layout"},
    {{"state_of_the_next_sequence", "every sequence starts from the next one's state", "vllm#39273"},
     "state_layout",
     rotate_parts,
     "initial_state"},
    {{"step_not_smoothed", "dt_softplus is not handed on", "mamba_ssm class"}, "dt_softplus"},
    {{"step_not_limited", "dt_min and dt_max are not handed on", "mamba_ssm class"},
     "dt_min",
     [](Problem& p) { p.params.erase("dt_min"), p.params.erase("dt_max"); }},
    {{"norm_dropped", "l2_norm is not handed on", "flashinfer gdn_prefill"},
     "l2_norm",
     [](Problem& p) { p.params.erase("l2_norm"), p.params.erase("l2_eps"); }},
    {{"bias_negated_in_gates", "dt_bias subtracted", "launcher bug"}, "a", negate, "dt_bias"},
    {{"factor_of_the_default", "beta_scale 1 whatever the caller says", "fla allow_neg_eigval"}, "beta_scale"},
    {{"states_one_row_early", "states_at has the state after the row before", "vllm#39273 class"},
     "state_at",
     [](Array& x) { map(x, [](double y) { return std::max(0.0, y - 1); }); }},
    {{"z_not_handed_on", "the gate of the output left out", "mamba_ssm layers"},
     "z",
     [](Array& x) {
       constexpr double open = 1.2784645427610738;  // z sigmoid(z) = 1
       map(x, [](double) { return open; });
     }},
    {{"skip_of_the_next_head", "every head has the next one's skip", "launcher bug"}, "skip", rotate},
};

const ArgumentFault* find_argument_fault(std::string_view name) {
  for (const ArgumentFault& fault : attention_faults)
    if (fault.mutant.name == name) return &fault;
  for (const ArgumentFault& fault : recurrence_faults)
    if (fault.mutant.name == name) return &fault;
  return nullptr;
}

/// A changed problem that the kernel refuses shows nothing, and neither does one whose answer has another shape.
Answer faulty(const KernelForm& form, const Problem& problem, const Policy& planting, int tile) {
  const ArgumentFault* const fault = find_argument_fault(planting.fault);
  const Policy policy = planting.healthy();
  Answer healthy = form.run(problem, policy, tile);
  if (fault == nullptr) return healthy;
  Problem changed = problem;
  const std::string name(fault->name);
  if (const auto* of_input = std::get_if<void (*)(Array&)>(&fault->edit))
    edit(changed, name, *of_input);
  else if (const auto* of_problem = std::get_if<void (*)(Problem&)>(&fault->edit))
    (*of_problem)(changed);
  else
    changed.params.erase(name);
  // Cases that read the NaN of unchosen keys are refused. A launcher has no such door, and memory may hold zeros.
  for (const char* read : {"k", "v"})
    edit(changed, read, [](Array& x) { map(x, [](double y) { return std::isfinite(y) ? y : 0.0; }); });
  try {
    if (!form.obstacle(changed).empty()) return healthy;
    Answer answer = form.run(changed, policy, tile);
    const auto same_shapes = [](const Arrays& a, const Arrays& b) {
      return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const auto& one) {
               const auto other = b.find(one.first);
               return other != b.end() && other->second.data.size() == one.second.data.size();
             });
    };
    const bool same = same_shapes(answer.outputs, healthy.outputs) && same_shapes(answer.gradients, healthy.gradients);
    return same ? answer : healthy;
  } catch (const InputError&) {
    return healthy;
  }
}

/// Those of arguments that the mechanism takes.
std::vector<Mutant> mutants_of(std::string_view mechanism) {
  const arguments::Facts facts = arguments::facts_of(std::string(mechanism));
  std::vector<Mutant> all;
  for (const std::span<const ArgumentFault> faults :
       {std::span<const ArgumentFault>(attention_faults), std::span<const ArgumentFault>(recurrence_faults)})
    for (const ArgumentFault& fault : faults)
      if (arguments::takes_argument(facts, fault.argument)) all.push_back(fault.mutant);
  return all;
}

template <tile::FixedString Mechanism>
const KernelRoom* room() {
  static const std::string name = std::string(Mechanism.view()) + "+arguments";
  const KernelRoom* healthy = find_argument_forms(name);
  if (healthy == nullptr) return nullptr;
  static const std::vector<Mutant> mutants = mutants_of(Mechanism.view());
  static const std::vector<KernelForm> forms = [&] {
    KernelForm form = healthy->forms.front();
    form.mutants = mutants;
    form.run = [](const Problem& problem, const Policy& policy, int tile) {
      return faulty(find_argument_forms(name)->forms.front(), problem, policy, tile);
    };
    return std::vector<KernelForm>{form};
  }();
  static const KernelRoom found = {name, forms, healthy->folder};
  return &found;
}

}  // namespace

const KernelRoom* held_out_with_arguments(std::string_view name) {
  const std::string_view mechanism = name.substr(0, name.find('+'));
  if (mechanism.size() == name.size()) return nullptr;
#define MECHANISM(known) \
  if (mechanism == #known) return room<#known>();
#include "mechanisms.def"
#undef MECHANISM
  return nullptr;
}

}  // namespace assay
