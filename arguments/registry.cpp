#include "arguments/registry.hpp"

#include <algorithm>

#include "arguments/programs/library.hpp"
#include "files/did_you_mean.hpp"
#include "files/input_file.hpp"
#include "language/room.hpp"

namespace assay::arguments {
namespace {

using enum Group;

constexpr Argument table[] = {
    {"scale", Part::params, scores,
     "a number of any sign; it or `bandwidth` = 1 / scale. Of recurrences at the read of the query: K^{-1/2}, with "
     "`dt` 1"},
    {"soft_cap", Part::params, scores, "a number c > 0: c tanh(s / c) for s. Without it no cap"},
    {"bias", Part::inputs, scores, "[Tq][Tk], or that for every query head; -inf hides a pair"},
    {"bias_place", Part::params, scores, "after_cap, before_cap, before_scale"},
    {"alibi_slopes", Part::inputs, scores, "a number for every query head"},
    {"alibi_form", Part::params, scores, "distance: - slope \\|c_i - j\\|; signed: + slope (j - c_i)"},
    {"mask", Part::inputs, scores, "truth values [Tq][Tk], or that for every query head"},
    {"documents_q", Part::inputs, scores, "integers [Tq]: a row sees keys of its own document"},
    {"documents_k", Part::inputs, scores, "integers [Tk]; without them those of the queries"},
    {"causal_align", Part::params, scores, "end: c_i = i + Tk - Tq; start: c_i = i"},
    {"window_left", Part::params, scores, "an integer of at least 0: j >= c_i - left. Without it unlimited"},
    {"window_right", Part::params, scores, "as above: j <= c_i + right; `causal` makes it 0"},
    {"lse", Part::cotangents, scores, "[Tq], an output with a cotangent; -inf where a row sees nothing"},
    {"lse_base", Part::params, scores, "e, 2"},
    {"sink", Part::inputs, sink, "a number for every query head, one more logit without a value; -inf is none"},
    {"value_dim", Part::params, operands, "an integer: v is the first so many channels of k"},
    {"q_scale", Part::inputs, operands,
     "one number, one for every head, [T] for every token, or of blocks: q times them is what counts"},
    {"k_scale", Part::inputs, operands, "as `q_scale`"},
    {"v_scale", Part::inputs, operands, "as `q_scale`"},
    {"scale_block", Part::params, operands, "[r, c]: rows and channels of a block"},
    {"scale_layout", Part::params, operands,
     "of files, where scales of blocks lie: linear; swizzled_128x4; swizzled_4x4, of v alone"},
    {"page_table", Part::inputs, operands,
     "integers [N][pages of the sequence]; k and v are [pages][S][d], and `lengths_k` says how many keys there are"},
    {"topk_indices", Part::inputs, chosen,
     "integers [Tq][n], or that for heads of q that share a list: the keys that a row may see, counted from 0 in its "
     "sequence; -1 is none"},
    {"topk_length", Part::inputs, chosen, "integers [Tq], or that for every list: entries behind so many do not count"},
    {"topk_block_size", Part::params, chosen, "an integer S of at least 1: entry b names keys bS .. bS + S - 1"},
    {"cu_seqlens", Part::inputs, sequences, "integers [N + 1]: sequence n is rows cu[n] .. cu[n + 1] - 1"},
    {"lengths", Part::inputs, sequences, "integers [N]: how many rows of every slot count"},
    {"cu_seqlens_q", Part::inputs, both_sequences, "as `cu_seqlens`, of queries"},
    {"cu_seqlens_k", Part::inputs, both_sequences, "as `cu_seqlens`, of keys"},
    {"lengths_q", Part::inputs, both_sequences, "as `lengths`, of queries"},
    {"lengths_k", Part::inputs, both_sequences, "as `lengths`, of keys"},
    {"state_layout", Part::params, states, "k_first: states are [K][V]; v_first: [V][K]"},
    {"state_every", Part::params, states,
     "C >= 1: `chunk_states` has the state before tokens 0, C, 2C, ... of every sequence"},
    {"chunk_states", Part::cotangents, states, "an output with a cotangent"},
    {"checkpoint_every", Part::params, states,
     "C >= 1: `checkpoints` has the state after C, 2C, ... tokens of every sequence"},
    {"checkpoints", Part::cotangents, states, "an output with a cotangent"},
    {"state_at", Part::inputs, states, "integers [M], rows: `states_at` has the state right after each"},
    {"states_at", Part::cotangents, states, "an output with a cotangent"},
    {"gate", Part::params, gate,
     "log: `log_decay` is given; softplus: -e^a_log softplus(a + dt_bias); bounded: L sigmoid(e^a_log (a + dt_bias)); "
     "logsigmoid: max(ln sigmoid(a + dt_bias) / n, gate_min)"},
    {"a", Part::inputs, gate, "[T], or [T][K] where log_decay is"},
    {"a_log", Part::inputs, log_gate, "a number for every head"},
    {"dt_bias", Part::inputs, log_gate, "a number for every head, or [K] of it; without it 0"},
    {"softplus_threshold", Part::params, gate, "a number: above it softplus(x) is x. Without it the exact function"},
    {"lower_bound", Part::params, gate, "L < 0"},
    {"gate_normalizer", Part::params, gate, "n > 0; without it 1"},
    {"gate_min", Part::params, gate, "a number of at most 0; without it none"},
    {"beta_gate", Part::params, write_gate, "sigmoid: beta = beta_scale sigmoid(b)"},
    {"b", Part::inputs, write_gate, "[T]"},
    {"beta_scale", Part::params, write_gate, "1 or 2"},
    {"l2_norm", Part::params, norm,
     "of q, k and comba's p, n = \\|x\\|: root: x / sqrt(n^2 + eps); sum: x / (n + eps); max: x / max(n, eps)"},
    {"l2_eps", Part::params, norm, "a number of at least 0, required with `l2_norm`"},
    {"dt", Part::inputs, step,
     "[T]: Delta = min(max(y, dt_min), dt_max), y = dt + dt_bias or its softplus; log_decay = Delta A, and Delta v is "
     "written"},
    {"rate", Part::inputs, step, "A <= 0 for every head; or `a_log`, A = -e^a_log"},
    {"dt_softplus", Part::params, step, "true, false"},
    {"dt_min", Part::params, step, "a number of at least 0; without it 0"},
    {"dt_max", Part::params, step, "a number; without it none"},
    {"skip", Part::inputs, step, "a number for every head, or [V] of it: o + skip v"},
    {"z", Part::inputs, step, "[T][V]: o z sigmoid(z), after the skip"},
};

bool has_axes(const Facts& facts, std::string_view input, std::initializer_list<std::string_view> axes) {
  const language::Input* one = facts.program == nullptr ? nullptr : facts.program->input(input);
  return one != nullptr && language::has_axes(one->type, axes);
}

/// Whether a mechanism says itself what becomes of its keys and gates.
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
  if (group == chosen) return softmax ? "" : "no kernel of it takes keys that rows chose";
  return "it is an attention form, and this is of recurrences";
}

std::string of_recurrence(const Facts& facts, Group group) {
  const bool gated = has_axes(facts, "log_decay", {"T"}) || has_axes(facts, "log_decay", {"T", "K"});
  switch (group) {
    case scores:
    case sink:
    case operands:
    case chosen:
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
  facts.program =
      facts.room->is_program() ? &language::program_of(*facts.room).program : find_mechanism_program(mechanism);
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

bool takes_argument(const Facts& facts, std::string_view name) {
  return std::ranges::any_of(table, [&](const Argument& a) { return a.name == name && why_not(facts, a).empty(); });
}

bool holds_integers(std::string_view name) {
  constexpr std::string_view names[] = {"cu_seqlens",  "cu_seqlens_q", "cu_seqlens_k", "lengths",
                                        "lengths_q",   "lengths_k",    "page_table",   "state_at",
                                        "documents_q", "documents_k",  "topk_indices", "topk_length"};
  return std::ranges::find(names, name) != std::end(names);
}

bool is_argument(std::string_view name) {
  return std::any_of(std::begin(table), std::end(table), [&](const Argument& a) { return a.name == name; });
}

bool is_argument(const Facts& facts, Part part, std::string_view name) {
  return std::any_of(std::begin(table), std::end(table),
                     [&](const Argument& argument) { return argument.name == name && argument.part == part; }) &&
         !is_word(own_names(facts, part), name);
}

void admit_names(const Given& given, const Facts& facts) {
  for (const Part part : {Part::params, Part::inputs, Part::cotangents}) {
    const std::vector<std::string> own = own_names(facts, part);
    for (const std::string& name : given.names(name_of(part))) {
      if (is_word(own, name)) continue;
      const auto* const argument = std::find_if(std::begin(table), std::end(table),
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
