#include "judge/trial/argument_cases.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "reference/core/error.hpp"

namespace assay {
namespace {

using With = std::vector<std::pair<std::string, std::string>>;
using Words = std::initializer_list<std::pair<const char*, const char*>>;

Params words_of(Words list) {
  Params params;
  for (const auto& [name, value] : list) params[name] = std::string(value);
  return params;
}
CaseSpec with_params(CaseSpec request, Params params) {
  request.params.merge(params);
  return request;
}
CaseSpec with_inputs(CaseSpec request, With with) {
  request.with = std::move(with);
  return request;
}

constexpr Shape unequal = {
    .batch = 1, .seq_len = 40, .heads = 4, .shared_heads = 2, .key_dim = 16, .value_dim = 16, .query_len = 24};
constexpr Shape equal = {.batch = 1, .seq_len = 40, .heads = 2, .key_dim = 16, .value_dim = 16};

ArgumentCase tiled(std::string_view name, CaseSpec request, std::vector<std::string_view> mutants) {
  return {name, "tiled", std::move(request), std::move(mutants)};
}
ArgumentCase decoding(std::string_view name, CaseSpec request, std::vector<std::string_view> mutants) {
  return {name, "split_decode", std::move(request), std::move(mutants)};
}

/// Cases that every attention form takes.
std::vector<ArgumentCase> shared_cases(std::string_view mechanism) {
  const CaseSpec base{.mechanism = std::string(mechanism), .shape = unequal};
  CaseSpec decode = base, window = base, open = base, same = base, empty = base, packed = base;
  decode.cotangents = false, decode.shape.query_len = 3, decode.shape.seq_len = 300;
  window.params = {{"window_left", 6L}};
  open.params["causal"] = false;
  same.shape = equal, same.argument_style = "short_documents";
  empty.argument_style = "empty_rows", empty.params = {{"causal", false}};
  packed.shape = equal, packed.argument_style = "short_sequences";
  CaseSpec cross = base, low = base, high = base;
  low.shape = high.shape = equal, low.argument_style = "low_lse", high.argument_style = "high_lse";
  low.precision = high.precision = Format::fp32;
  cross.with = {{"cu_seqlens_q", "0,4,4,4,20"}, {"cu_seqlens_k", "0,9,16,16,37"}, {"lse", ""}};
  CaseSpec decode_packed = cross;
  decode_packed.cotangents = false, decode_packed.with.pop_back();
  decode_packed.with.front().second = "0,4,4,4,8", decode_packed.shape.query_len = 8;
  CaseSpec ahead = open, both = open, padded = base;
  ahead.params["window_right"] = 3L, ahead.params["causal_align"] = std::string("start");
  both.with = {{"documents_q", ""}, {"documents_k", ""}};
  padded.shape.batch = 2, padded.with = {{"lengths_q", "24,7"}, {"lengths_k", "40,19"}, {"lse", ""}};
  std::vector<ArgumentCase> cases = {
      tiled("window_ahead", with_inputs(ahead, {{"lse", ""}}), {"lse_off_by_ln_2", "lse_times_ln_2"}),
      tiled("documents_of_both", both, {"documents_ignored", "documents_of_the_next_row"}),
      tiled("lengths", padded, {"key_behind_the_sequence", "later_sequences_unwritten"}),
      tiled("cap", with_inputs(with_params(base, words_of({{"soft_cap", "2"}, {"lse_base", "2"}})), {{"lse", ""}}),
            {"score_times_its_tanh", "slope_of_the_cap_forgotten", "lse_off_by_ln_2", "lse_cotangent_dropped",
             "aligned_at_the_first_key", "cap_dropped", "lse_times_ln_2", "queries_of_the_next_head",
             "query_gradient_five_times", "lse_base_dropped"}),
      tiled("signed_alibi",
            with_inputs(with_params(open, words_of({{"alibi_form", "signed"}})), {{"alibi_slopes", "0.03125"}}),
            {"alibi_gradient_of_the_other_form", "alibi_form_dropped", "slopes_negated"}),
      tiled("alibi_in_a_window", with_inputs(window, {{"alibi_slopes", ""}}),
            {"window_one_off_at_unequal_lengths", "aligned_at_the_first_key", "slopes_of_the_next_head",
             "window_of_the_caller_counts_itself", "slope_gradient_missing"}),
      tiled(
          "bias_before_the_scale",
          with_inputs(with_params(base, words_of({{"bias_place", "before_scale"}, {"soft_cap", "2"}})), {{"bias", ""}}),
          {"bias_after_the_cap", "bias_gradient_without_scale", "cap_place_dropped", "bias_negated",
           "bias_gradient_missing"}),
      tiled("bias_before_the_cap",
            with_inputs(with_params(base, words_of({{"bias_place", "before_cap"}, {"soft_cap", "2"}})), {{"bias", ""}}),
            {"bias_after_the_cap"}),
      tiled("masks", with_inputs(open, {{"mask", ""}, {"bias", ""}}), {"mask_of_the_next_key", "mask_negated"}),
      tiled("aligned_at_start", with_params(base, words_of({{"causal_align", "start"}, {"scale", "-0.5"}})),
            {"alignment_dropped"}),
      tiled("empty_rows", empty, {"mask_of_the_next_key"}),
      tiled("documents", with_inputs(same, {{"lse", ""}}),
            {"documents_ignored", "lse_cotangent_dropped", "documents_of_the_next_row"}),
      tiled("packed", with_inputs(with_params(packed, words_of({{"soft_cap", "2"}})), {{"lse", ""}}),
            {"slope_of_the_cap_forgotten", "lse_cotangent_dropped", "key_behind_the_sequence",
             "later_sequences_unwritten", "lse_of_padding_read", "sequences_one_row_early"}),
      tiled("packed_unequal", cross,
            {"key_behind_the_sequence", "no_query_leaves_gradients_unwritten", "aligned_at_the_first_key"}),
      decoding("decode", with_params(decode, words_of({{"soft_cap", "2"}})),
               {"lse_off_by_ln_2", "score_times_its_tanh", "aligned_at_the_first_key", "lse_times_ln_2",
                "queries_of_the_next_head"}),
      tiled("low_lse", low, {"lse_off_by_ln_2", "nan_gradients_of_low_lse"}),
      tiled("high_lse", high, {"lse_off_by_ln_2"}),
      decoding("decode_packed", decode_packed, {"key_behind_the_sequence", "later_sequences_unwritten"}),
  };
  if (mechanism == "parallax") {  // heads beyond those that the room's own form is compiled for
    CaseSpec wide = base, wide_decode = decode;
    wide.shape = {.batch = 1, .seq_len = 20, .heads = 1, .key_dim = 192, .value_dim = 136, .query_len = 12};
    wide_decode.shape = {.batch = 1, .seq_len = 70, .heads = 1, .key_dim = 256, .value_dim = 256, .query_len = 2};
    cases.push_back(tiled("wide_heads", with_inputs(wide, {{"lse", ""}}), {}));
    wide_decode.params["soft_cap"] = std::string("2");
    cases.push_back(decoding("decode_wide_heads", wide_decode, {}));
  }
  if (mechanism != "softmax_attention")
    for (ArgumentCase& one : cases)  // where the probe shows, and not a mean of many keys
      one.request.seed = 1;
  return cases;
}

/// Keys that rows chose.
std::vector<ArgumentCase> chosen_cases() {
  const CaseSpec base{.mechanism = "softmax_attention", .shape = unequal};
  CaseSpec open = base, empty = base, lengths = base, far = base, shared = base, latent = base, blocks = base,
           pages = base, packed = base, decode = base, none = base;
  open.params["causal"] = false;
  empty.argument_style = "empty_choices", lengths.argument_style = "choice_lengths", far.argument_style = "far_choices";
  shared.argument_style = "one_key_for_all", none.argument_style = "nothing_chosen";
  lengths.shape = {.batch = 1, .seq_len = 96, .heads = 2, .key_dim = 16, .value_dim = 16, .query_len = 10};
  latent.shape = {
      .batch = 1, .seq_len = 40, .heads = 4, .shared_heads = 1, .key_dim = 32, .value_dim = 16, .query_len = 24};
  latent.params = {{"value_dim", 16L}, {"scale", std::string("0.25")}};
  blocks.params = {{"topk_block_size", 4L}, {"causal", false}};
  pages.shape.batch = 2;
  packed.shape = equal, packed.argument_style = "short_sequences";
  decode.cotangents = false, decode.shape.query_len = 3, decode.shape.seq_len = 300, decode.params["causal"] = false;
  CaseSpec decode_empty = decode;
  decode_empty.argument_style = "empty_choices";
  return {
      tiled("chosen", with_inputs(open, {{"topk_indices", ""}, {"lse", ""}}),
            {"missing_entry_is_the_last_key", "choice_of_the_next_list", "query_gradient_five_times"}),
      tiled("empty_choices", empty, {"rows_without_keys_are_nan", "choice_of_the_next_list"}),
      tiled("nothing_chosen", none, {"rows_without_keys_are_nan"}),
      tiled("choice_lengths", lengths, {"entries_behind_the_length", "length_of_the_next_list"}),
      tiled("far_choices", far, {"choice_of_the_next_list"}),
      tiled("one_key_for_all", with_inputs(shared, {{"mask", ""}}), {"choice_of_the_next_list"}),
      tiled("chosen_latent",
            with_inputs(latent, {{"topk_indices", ""}, {"topk_length", ""}, {"sink", ""}, {"lse", ""}}),
            {"entries_behind_the_length", "sink_left_out_of_the_backward", "sink_gradient_missing", "sink_dropped"}),
      tiled("chosen_blocks", with_inputs(blocks, {{"topk_indices", "6"}}),
            {"block_size_dropped", "choice_of_the_next_list"}),
      tiled("chosen_pages", with_inputs(pages, {{"page_table", "8"}, {"topk_indices", ""}}),
            {"pages_in_order", "choice_of_the_next_list"}),
      tiled("chosen_packed", with_inputs(packed, {{"topk_indices", ""}, {"topk_length", ""}}),
            {"later_sequences_unwritten"}),
      decoding("decode_chosen", with_inputs(decode, {{"topk_indices", "16"}, {"topk_length", "5,16,9"}}),
               {"entries_behind_the_length", "missing_entry_is_the_last_key"}),
      decoding("decode_empty_choices", decode_empty, {"rows_without_keys_are_nan"}),
  };
}

/// Operands with scales, and caches as they are stored.
std::vector<ArgumentCase> scale_cases() {
  const CaseSpec base{.mechanism = "softmax_attention", .shape = unequal};
  CaseSpec decode = base;
  decode.cotangents = false, decode.shape.query_len = 3, decode.shape.seq_len = 300;
  CaseSpec mxfp8 = base, nvfp4 = base;
  mxfp8.shape =
      nvfp4.shape = {.batch = 1, .seq_len = 20, .heads = 2, .shared_heads = 1, .key_dim = 64, .value_dim = 32};
  mxfp8.argument_style = "mxfp8", nvfp4.argument_style = "nvfp4";
  CaseSpec swizzled = nvfp4, tiles = mxfp8, fp8_pages = base;
  swizzled.shape.value_dim = 64, swizzled.params["scale_layout"] = std::string("swizzled_4x4");
  tiles.params["scale_layout"] = std::string("swizzled_128x4");
  CaseSpec four_bit_pages = swizzled;
  four_bit_pages.shape.batch = 2, four_bit_pages.with = {{"page_table", "8"}, {"lengths_k", "20,12"}};
  fp8_pages.argument_style = "fp8_per_token_head", fp8_pages.shape.batch = 2, fp8_pages.with = {{"page_table", "8"}};
  return {
      decoding("decode_scales", with_inputs(decode, {{"k_scale", ""}, {"v_scale", ""}}), {"scales_dropped"}),
      tiled("scales", with_inputs(base, {{"q_scale", ""}, {"k_scale", ""}, {"v_scale", ""}}),
            {"gradient_of_codes_without_scale", "scales_dropped", "scales_of_the_next_head"}),
      tiled("blocks",
            with_inputs(with_params(base, words_of({{"scale_block", "[8,8]"}})), {{"k_scale", ""}, {"v_scale", ""}}),
            {"scale_of_the_next_block"}),
      tiled("mxfp8", mxfp8, {"scales_dropped"}),
      tiled("nvfp4", nvfp4, {"scales_dropped"}),
      tiled("nvfp4_swizzled", swizzled, {"scale_layout_dropped", "scales_dropped"}),
      tiled("nvfp4_pages", four_bit_pages, {"scale_layout_dropped", "pages_in_order"}),
      tiled("mxfp8_tiles", tiles, {"scales_dropped"}),
      tiled("fp8_pages", fp8_pages, {"scales_dropped", "pages_in_order"}),
  };
}

/// Cases of softmax attention alone.
std::vector<ArgumentCase> sink_cases() {
  const CaseSpec base{.mechanism = "softmax_attention", .shape = unequal};
  CaseSpec decode = base;
  decode.cotangents = false, decode.shape.query_len = 3, decode.shape.seq_len = 300;
  CaseSpec expanded = base, absorbed = decode;
  expanded.shape = {.batch = 1, .seq_len = 20, .heads = 1, .key_dim = 192, .value_dim = 128, .query_len = 12};
  absorbed.shape = {
      .batch = 1, .seq_len = 70, .heads = 2, .shared_heads = 1, .key_dim = 576, .value_dim = 512, .query_len = 2};
  absorbed.params["value_dim"] = 512L, absorbed.with.clear();
  absorbed.params["scale"] = std::string("0.07216878364870322");  // of the expanded form, 192^-1/2
  CaseSpec wide = base;
  wide.shape = {.batch = 1, .seq_len = 20, .heads = 1, .key_dim = 256, .value_dim = 256, .query_len = 12};
  CaseSpec absorbed_forward = absorbed;
  absorbed_forward.shape.query_len = 5, absorbed_forward.shape.seq_len = 12;
  CaseSpec pages = base, decode_pages = decode;
  pages.shape.batch = 2, pages.with = {{"page_table", "8"}, {"sink", ""}};
  decode_pages.shape.batch = 2, decode_pages.shape.seq_len = 100, decode_pages.with = {{"page_table", "16"}};
  return {
      tiled("sink", with_inputs(with_params(base, words_of({{"soft_cap", "2"}})), {{"sink", ""}, {"lse", ""}}),
            {"sink_counted_twice", "sink_in_base_e", "lse_off_by_ln_2", "lse_cotangent_dropped",
             "sinks_of_the_next_head", "sink_dropped", "sink_gradient_missing"}),
      decoding("decode_sink", with_inputs(decode, {{"sink", "3"}}),
               {"sink_in_every_split", "sink_in_base_e", "sink_dropped"}),
      tiled("pages", pages, {"pages_in_order", "pages_exchanged"}),
      decoding("decode_pages", decode_pages, {"pages_in_order", "later_sequences_unwritten"}),
      tiled("latent", with_params(base, {{"value_dim", 8L}}), {"queries_of_the_next_head"}),
      tiled("latent_heads", with_inputs(expanded, {{"lse", ""}}), {}),
      decoding("absorbed", absorbed, {"scale_of_the_absorbed_width"}),
      tiled("absorbed_forward", absorbed_forward, {"scale_of_the_absorbed_width"}),
      tiled("wide_heads", with_inputs(wide, {{"lse", ""}}), {"query_gradient_five_times"}),
  };
}

constexpr Shape two_heads = {.batch = 1, .seq_len = 40, .heads = 2, .key_dim = 16, .value_dim = 16};
/// More value heads than key heads.
constexpr Shape grouped = {.batch = 1, .seq_len = 40, .heads = 4, .shared_heads = 2, .key_dim = 16, .value_dim = 16};

CaseSpec case_of(std::string_view mechanism, Words words, Shape shape = two_heads) {
  return {.mechanism = std::string(mechanism), .shape = shape, .params = words_of(words)};
}
CaseSpec with_style(CaseSpec drawn, const char* style) {
  drawn.argument_style = style;
  return drawn;
}
CaseSpec with_count(CaseSpec drawn, const char* name, long count) {
  drawn.params[name] = count;
  return drawn;
}

ArgumentCase named(std::string_view name, CaseSpec request, std::vector<std::string_view> mutants) {
  return {name, "chunkwise", std::move(request), std::move(mutants)};
}

/// Cases of a recurrence that normalises.
std::vector<ArgumentCase> norm_cases(std::string_view mechanism) {
  const CaseSpec root = case_of(mechanism, {{"l2_norm", "root"}, {"l2_eps", "1e-6"}});
  CaseSpec wide = root;
  wide.precision = Format::fp32;
  CaseSpec inside = with_style(case_of(mechanism, {{"state_layout", "v_first"}}), "short_sequences");
  inside = with_count(with_count(inside, "state_every", 4), "checkpoint_every", 6);
  inside.with = {{"state_at", "0,5,37"}};
  return {
      named("normalised", root, {"norm_gradient_not_projected", "keys_not_normalised", "norm_dropped"}),
      named("keys_near_eps", with_style(case_of(mechanism, {{"l2_norm", "root"}, {"l2_eps", "1e-2"}}), "tiny_norms"),
            {"eps_outside_the_root", "eps_of_the_mean", "eps_of_the_forward_pass_alone", "eps_of_the_default",
             "norm_of_another_kind"}),
      named("sum", with_style(case_of(mechanism, {{"l2_norm", "sum"}, {"l2_eps", "1e-2"}}), "tiny_norms"),
            {"eps_of_the_mean"}),
      named("max", with_style(case_of(mechanism, {{"l2_norm", "max"}, {"l2_eps", "1e-2"}}), "tiny_norms"),
            {"eps_of_the_mean"}),
      named("norm_in_fp32", wide, {"norm_in_bf16"}),
      named("v_first",
            case_of(mechanism, {{"l2_norm", "root"}, {"l2_eps", "1e-6"}, {"state_layout", "v_first"}}, grouped),
            {"state_layout_dropped"}),
      named(
          "packed", with_style(root, "short_sequences"),
          {"state_of_the_next_sequence", "empty_sequence_ends_in_zero", "state_not_reset", "sequences_one_row_early"}),
      named("slots", with_inputs(root, {{"cu_seqlens", "0,20,40"}, {"lengths", "15,0"}}),
            {"empty_sequence_ends_in_zero", "state_not_reset"}),
      named("packed_states", inside,
            {"states_of_the_call_before", "state_cotangents_dropped", "state_gradient_not_transposed",
             "empty_sequence_ends_in_zero", "states_one_row_early"}),
  };
}
void add(std::vector<ArgumentCase>& to, std::vector<ArgumentCase> cases) {
  to.insert(to.end(), std::make_move_iterator(cases.begin()), std::make_move_iterator(cases.end()));
}

/// Cases of a recurrence that has gates.
std::vector<ArgumentCase> gate_cases(std::string_view mechanism) {
  return {
      named("softplus", case_of(mechanism, {{"gate", "softplus"}}),
            {"dt_bias_forgotten", "gate_slope_forgotten", "da_log_without_factor", "a_log_of_the_next_head",
             "bias_of_the_next_head", "gate_of_the_other_kind", "a_log_not_read", "bias_negated_in_gates"}),
      named("threshold",
            with_style(case_of(mechanism, {{"gate", "softplus"}, {"softplus_threshold", "20"}}), "saturated_gates"),
            {"gate_of_the_other_kind", "a_log_not_read"}),
      named("bounded", case_of(mechanism, {{"gate", "bounded"}, {"lower_bound", "-5"}}),
            {"da_log_without_factor", "bound_of_the_default", "a_log_not_read"}),
      named("logsigmoid",
            case_of(mechanism, {{"gate", "logsigmoid"}, {"gate_normalizer", "4"}, {"gate_min", "-0.125"}}),
            {"gate_normalizer_forgotten", "gate_minimum_passes_gradient", "normalizer_of_the_default"}),
  };
}

/// Keys of more channels than rooms' own forms are compiled for.
constexpr Shape wide_keys = {.batch = 1, .seq_len = 20, .heads = 1, .key_dim = 136, .value_dim = 8};

/// Cases of a recurrence that has write strengths.
std::vector<ArgumentCase> strength_cases(std::string_view mechanism) {
  CaseSpec wide = case_of(mechanism, {{"beta_gate", "sigmoid"}});
  wide.precision = Format::fp32;
  return {
      named(
          "doubled",
          case_of(mechanism, {{"beta_gate", "sigmoid"}, {"beta_scale", "2"}, {"l2_norm", "root"}, {"l2_eps", "1e-6"}}),
          {"beta_scale_forgotten", "dbeta_of_the_unscaled", "sigmoid_twice", "write_strength_not_squashed",
           "factor_of_the_default"}),
      named("strength", wide, {"strength_in_bf16"}),
  };
}

CaseSpec fused(std::string_view mechanism, Shape shape = two_heads) {
  return case_of(mechanism, {{"gate", "softplus"}, {"beta_gate", "sigmoid"}, {"l2_norm", "root"}, {"l2_eps", "1e-6"}},
                 shape);
}
std::vector<ArgumentCase> fused_cases(std::string_view mechanism) {
  CaseSpec inside = with_count(with_count(fused(mechanism), "state_every", 16), "checkpoint_every", 12);
  inside.with = {{"state_at", "3,3,39"}};
  return {
      named("fused", fused(mechanism, grouped), {"dt_bias_forgotten", "norm_gradient_not_projected"}),
      named("fused_packed", with_style(fused(mechanism), "short_sequences"), {}),
      named("states_inside", inside, {}),
      named("fused_wide", fused(mechanism, wide_keys), {}),
  };
}

/// Cases of mamba2.
std::vector<ArgumentCase> step_cases() {
  CaseSpec steps = case_of("mamba2", {{"state_layout", "v_first"}}, grouped);
  steps.params["dt_softplus"] = true;
  CaseSpec limits = with_params(steps, words_of({{"dt_min", "0.5"}, {"dt_max", "1"}}));
  return {
      named("steps", with_inputs(steps, {{"dt", ""}, {"rate", ""}, {"dt_bias", ""}}),
            {"dt_bias_after_the_softplus", "dt_gradient_of_values_alone", "dv_without_step", "step_not_smoothed"}),
      named("limits", with_inputs(limits, {{"dt", ""}, {"a_log", ""}}),
            {"dt_limits_pass_gradient", "step_not_limited"}),
      named("layer", with_inputs(steps, {{"dt", ""}, {"a_log", ""}, {"skip", ""}, {"z", ""}}),
            {"gated_before_the_skip", "dz_of_the_sigmoid_alone", "dz_without_the_skip", "skip_of_the_next_head",
             "z_not_handed_on"}),
      named("steps_wide", with_inputs(case_of("mamba2", {}, wide_keys), {{"dt", ""}, {"rate", ""}}), {}),
      named("skip_alone", with_inputs(case_of("mamba2", {}), {{"skip", ""}}), {}),
      named("steps_packed", with_inputs(with_style(steps, "short_sequences"), {{"dt", ""}, {"a_log", ""}, {"z", ""}}),
            {}),
  };
}

std::vector<ArgumentCase> recurrence_cases(std::string_view mechanism) {
  std::vector<ArgumentCase> cases = norm_cases(mechanism);
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), mechanism) != names.end();
  };
  if (is({"gated_deltanet", "comba", "mamba2", "gla", "kda"})) add(cases, gate_cases(mechanism));
  if (is({"deltanet", "gated_deltanet", "comba", "kda"})) add(cases, strength_cases(mechanism));
  if (is({"gated_deltanet", "comba", "kda"})) add(cases, fused_cases(mechanism));
  if (is({"mamba2"})) add(cases, step_cases());
  return cases;
}

}  // namespace

std::vector<ArgumentCase> argument_cases(std::string_view mechanism) {
  constexpr std::string_view recurrences[] = {"deltanet", "gated_deltanet", "comba", "linear_attention",
                                              "retnet",   "mamba2",         "gla",   "kda"};
  std::vector<ArgumentCase> cases;
  if (mechanism == "softmax_attention" || mechanism == "parallax") cases = shared_cases(mechanism);
  if (mechanism == "softmax_attention") add(cases, sink_cases()), add(cases, scale_cases()), add(cases, chosen_cases());
  if (std::ranges::find(recurrences, mechanism) != std::end(recurrences)) cases = recurrence_cases(mechanism);
  return cases;
}

std::string command_of(const CaseSpec& request) {
  std::string command = text("assay case ", request.mechanism, " --shape ", text_of(request.shape), " --precision ",
                             name_of(request.precision), " --style ", request.style_name(), " --seed ", request.seed,
                             flags_of(request.params));
  for (const auto& [name, value] : request.with) command += text(" --with ", name, value.empty() ? "" : "=", value);
  return command + (request.cotangents ? "" : " --no-cotangents");
}

}  // namespace assay
