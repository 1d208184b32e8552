#include "arguments/registry.hpp"

#include <algorithm>

#include "arguments/library.hpp"
#include "files/did_you_mean.hpp"
#include "files/input_file.hpp"
#include "language/room.hpp"

namespace assay::arguments {
namespace {

using enum Group;

constexpr Argument table[] = {
    {"scale", Part::params, scores},
    {"soft_cap", Part::params, scores},
    {"bias", Part::inputs, scores},
    {"bias_place", Part::params, scores},
    {"alibi_slopes", Part::inputs, scores},
    {"alibi_form", Part::params, scores},
    {"mask", Part::inputs, scores},
    {"documents_q", Part::inputs, scores},
    {"documents_k", Part::inputs, scores},
    {"causal_align", Part::params, scores},
    {"window_left", Part::params, scores},
    {"window_right", Part::params, scores},
    {"lse", Part::cotangents, scores},
    {"lse_base", Part::params, scores},
    {"sink", Part::inputs, sink},
    {"value_dim", Part::params, operands},
    {"q_scale", Part::inputs, operands},
    {"k_scale", Part::inputs, operands},
    {"v_scale", Part::inputs, operands},
    {"scale_block", Part::params, operands},
    {"page_table", Part::inputs, operands},
    {"cu_seqlens", Part::inputs, sequences},
    {"lengths", Part::inputs, sequences},
    {"cu_seqlens_q", Part::inputs, both_sequences},
    {"cu_seqlens_k", Part::inputs, both_sequences},
    {"lengths_q", Part::inputs, both_sequences},
    {"lengths_k", Part::inputs, both_sequences},
    {"state_layout", Part::params, states},
    {"state_every", Part::params, states},
    {"chunk_states", Part::cotangents, states},
    {"checkpoint_every", Part::params, states},
    {"checkpoints", Part::cotangents, states},
    {"state_at", Part::inputs, states},
    {"states_at", Part::cotangents, states},
    {"gate", Part::params, gate},
    {"a", Part::inputs, gate},
    {"a_log", Part::inputs, log_gate},
    {"dt_bias", Part::inputs, log_gate},
    {"softplus_threshold", Part::params, gate},
    {"lower_bound", Part::params, gate},
    {"gate_normalizer", Part::params, gate},
    {"gate_min", Part::params, gate},
    {"beta_gate", Part::params, write_gate},
    {"b", Part::inputs, write_gate},
    {"beta_scale", Part::params, write_gate},
    {"l2_norm", Part::params, norm},
    {"l2_eps", Part::params, norm},
    {"dt", Part::inputs, step},
    {"rate", Part::inputs, step},
    {"dt_softplus", Part::params, step},
    {"dt_min", Part::params, step},
    {"dt_max", Part::params, step},
    {"skip", Part::inputs, step},
    {"z", Part::inputs, step},
};

bool has_axes(const Facts& facts, std::string_view input, std::initializer_list<std::string_view> axes) {
  if (facts.program == nullptr) return false;
  for (const language::Input& one : facts.program->inputs)
    if (one.name == input)
      return std::equal(one.type.axes.begin(), one.type.axes.end(), axes.begin(), axes.end(),
                        [](const language::Dim& dim, std::string_view name) { return dim.name == name; });
  return false;
}

/// Of mechanisms that say themselves what becomes of their keys and gates.
bool has_own_front_end(const Facts& facts) {
  return facts.name.starts_with("falcon") || facts.name.starts_with("mdn") || facts.name == "rls";
}

std::string of_attention(const Facts& facts, Group group) {
  const bool softmax = facts.name == "softmax_attention";
  if (group == scores || group == sequences || group == both_sequences) return "";
  if (group == sink)
    return softmax
               ? ""
               : "with a sink its weights do not sum to one: they have no mean, and its covariance has three readings";
  if (group == operands) return softmax ? "" : "no kernel of it has such operands";
  return "it has no state, no gate and no write strength";
}

std::string of_recurrence(const Facts& facts, Group group) {
  const bool gated = has_axes(facts, "log_decay", {"T"}) || has_axes(facts, "log_decay", {"T", "K"});
  switch (group) {
    case scores:
    case sink:
    case operands:
      return "it has no scores";
    case both_sequences:
      return "its queries and keys are the same rows: cu_seqlens and lengths are of both";
    case gate:
    case log_gate:
      return gated ? "" : "it has no log_decay for every token";
    case write_gate:
      return !has_axes(facts, "beta", {"T"}) ? "it has no beta for every token"
             : has_own_front_end(facts)      ? "its beta is no write strength of a delta rule"
                                             : "";
    case norm:
      return has_own_front_end(facts) ? "it says itself what becomes of its keys" : "";
    case step:
      return facts.name == "mamba2" ? "" : "it is an argument of mamba2";
    default:
      return "";
  }
}

bool is_word(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Facts facts_of(const std::string& mechanism) {
  Facts facts{mechanism, Family::other, nullptr, nullptr};
  if (mechanism == "short_conv") facts.family = Family::convolution;
  if (mechanism == "gated_rmsnorm") facts.family = Family::norm;
  if (mechanism == "quantize") facts.family = Family::quantizer;
  if (facts.family != Family::other) return facts;
  facts.room = find_room(mechanism);
  if (facts.room == nullptr) return facts;
  for (const char* form : {"softmax_attention", "parallax", "parallax_gate", "lla"})
    if (mechanism == form) facts.family = Family::attention;
  if (facts.family == Family::attention) return facts;
  const language::Mechanism* users = language::find_mechanism(mechanism);
  facts.program = users != nullptr ? &users->program : find_mechanism_program(mechanism);
  const auto is = [&](const char* name) { return mechanism == name; };
  // Tails of earlier tokens, and a front end that has these names already, are not composed.
  if (is("falcon3") || is("falcon3a") || is("mdn_front_end") || is("mdn_gates")) facts.program = nullptr;
  if (facts.program != nullptr && has_axes(facts, "initial_state", {"K", "V"})) facts.family = Family::recurrence;
  return facts;
}

std::span<const Argument> all_arguments() { return table; }

std::string why_not(const Facts& facts, const Argument& argument) {
  switch (facts.family) {
    case Family::attention:
      return of_attention(facts, argument.group);
    case Family::recurrence:
      return argument.name == "scale" ? "" : of_recurrence(facts, argument.group);
    case Family::convolution:
      return argument.group == sequences ? "" : "it is a convolution";
    case Family::norm:
      return "it is a norm";
    case Family::quantizer:
      return "it is a cast";
    default:
      return "none of these arguments is defined for it";
  }
}

std::vector<std::string> own_names(const Facts& facts, Part part) {
  if (facts.family == Family::convolution)
    return part == Part::params   ? std::vector<std::string>{"activation"}
           : part == Part::inputs ? std::vector<std::string>{"x", "weight", "bias", "initial_state"}
                                  : std::vector<std::string>{"o", "final_state"};
  if (facts.family == Family::norm)
    return part == Part::params   ? std::vector<std::string>{"eps", "norm_before_gate", "activation", "group_size"}
           : part == Part::inputs ? std::vector<std::string>{"x", "z", "weight"}
                                  : std::vector<std::string>{"o"};
  if (facts.family == Family::quantizer)
    return part == Part::params   ? std::vector<std::string>{"format", "scale_block", "scale_rounding"}
           : part == Part::inputs ? std::vector<std::string>{"x", "tensor_scale"}
                                  : std::vector<std::string>{};
  std::vector<std::string> names;
  if (facts.room == nullptr) return names;
  if (part == Part::cotangents) {
    for (const RoomFacts::Ranked& r : facts.room->outputs()) names.emplace_back(r.field.name);
    return names;
  }
  for (const RoomFacts::Ranked& r : facts.room->inputs())
    if ((r.field.place == Field::Place::param) == (part == Part::params)) names.emplace_back(r.field.name);
  if (part == Part::params) names.insert(names.end(), facts.room->options.begin(), facts.room->options.end());
  return names;
}

bool has_arguments(const Given& given, const Facts& facts) {
  if (facts.family == Family::convolution || facts.family == Family::norm || facts.family == Family::quantizer)
    return true;
  if (facts.room == nullptr) return false;
  return std::any_of(std::begin(table), std::end(table), [&](const Argument& argument) {
    return is_word(given.names(name_of(argument.part)), argument.name) &&
           !is_word(own_names(facts, argument.part), argument.name);
  });
}

void admit_names(const Given& given, const Facts& facts) {
  for (const Part part : {Part::params, Part::inputs, Part::cotangents}) {
    const std::vector<std::string> own = own_names(facts, part);
    for (const std::string& name : given.names(name_of(part))) {
      if (is_word(own, name)) continue;
      const auto argument = std::find_if(std::begin(table), std::end(table),
                                         [&](const Argument& a) { return a.name == name && a.part == part; });
      std::vector<std::string> known = own;
      for (const Argument& a : table)
        if (a.part == part) known.emplace_back(a.name);
      require_domain(argument != std::end(table), -1, name_of(part), ".", excerpt(name), ": unknown to ", facts.name,
                     did_you_mean(name, known));
      const std::string reason = why_not(facts, *argument);
      require_domain(reason.empty(), -1, name, ": ", facts.name, " does not take it: ", reason);
    }
  }
}

}  // namespace assay::arguments
