#include "judge/court/sequence_faults.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

namespace assay {
namespace {

constexpr double nobody_wrote = std::numeric_limits<double>::quiet_NaN();

/// A mutant and its argument, "" if it has none: mechanisms that do not take the argument do not have the mutant.
struct SequenceMutant {
  std::string_view name, what, seen;  ///< as a Mutant has them
  std::string_view argument;
  bool backward = false;
};
constexpr SequenceMutant of_scores[] = {
    {"key_behind_the_sequence", "every sequence reads one key more than it has, which is the next one's or padding",
     "FA#2324 class", ""},
    {"later_sequences_unwritten", "rows of sequences behind the first are not written", "pytorch#194167", ""},
    {"lse_times_ln_2", "lse times ln 2, as if it were in base 2", "pytorch#181645", ""},
    {"pages_in_order", "the page table is not read: keys lie page by page", "catalogue: pages", "page_table"},
    {"sink_dropped", "a path of the kernel that knows no sink", "modular#6198", "sink"},
    {"scales_dropped", "operands as they are stored, without their scales", "fp8 caches", "k_scale"},
    {"scale_of_the_absorbed_width", "latent attention: scale 1 / sqrt(K) of the absorbed keys", "sglang#14936 class",
     "value_dim"},
    {"queries_of_the_next_head", "every head has the next one's queries", "vllm#46952 class", ""},
    {"entries_behind_the_length", "keys behind topk_length are seen, too", "flashinfer#5095", "topk_length"},
    {"missing_entry_is_the_last_key", "an entry of -1 is the last key of the sequence", "miles#2079 class",
     "topk_indices"},
    {"rows_without_keys_are_nan", "o and dq of a row that chose nothing are NaN", "cudnn-fe#676", "topk_indices"},
    {"no_query_leaves_gradients_unwritten", "dk and dv of a sequence without queries are not written", "FA#2562", "",
     true},
    {"lse_of_padding_read", "backward: dk takes in rows behind the sequence, whose lse nobody wrote", "tilelang#2461",
     "", true},
    {"sink_gradient_missing", "backward: none for the sink", "FA#1973", "sink", true},
    {"slope_gradient_missing", "backward: none for ALiBi's slopes", "FA#2876", "alibi_slopes", true},
    {"bias_gradient_missing", "backward: none for the bias", "pytorch#191612 class", "bias", true},
    {"nan_gradients_of_low_lse", "backward: e^-lse, which overflows where the lse is below -88", "pytorch#196678", "",
     true},
    {"query_gradient_five_times", "backward: dq five times as large", "TE#3216", "", true},
};
constexpr SequenceMutant of_states[] = {
    {"empty_sequence_ends_in_zero", "the final state of a sequence of no token is zero", "vllm#39273 class", ""},
    {"state_not_reset", "every sequence starts from what the one before has left", "mamba_ssm seq_idx", ""},
    {"states_of_the_call_before", "a state inside of a sequence is the one asked for before it", "vllm#39273", ""},
    {"gate_of_the_other_kind", "softplus gates computed as bounded ones", "FlashKDA#7", "gate"},
    {"a_log_not_read", "gates without e^a_log", "fla#1107 class", "gate"},
    {"write_strength_not_squashed", "beta = b, without the sigmoid", "llama.cpp#237 class", "b"},
    {"state_cotangents_dropped", "backward: cotangents of states inside of sequences are not read", "catalogue", "",
     true},
    {"state_gradient_not_transposed", "backward: d_initial_state with K first whatever the layout",
     "tpu-inference#3189 class", "", true},
};

/// The array's rows along `axis`, as blocks: outer x rows x inner.
struct Rows {
  std::size_t outer = 1, count = 0, inner = 1;
  Rows(const std::vector<int>& shape, int axis) {
    const auto a = static_cast<std::size_t>(axis);
    for (std::size_t i = 0; i < shape.size(); ++i)
      (i < a ? outer : i == a ? count : inner) *= i == a ? 1 : static_cast<std::size_t>(shape[i]);
    count = static_cast<std::size_t>(shape[a]);
  }
};

/// Every block with one row more, which is the row of the case's tensor behind the last.
void append_row(Problem& sequence, const arguments::Plan& plan, const arguments::Piece& piece,
                const std::string& name) {
  const auto picked = piece.inputs.find(name);
  const auto found = sequence.inputs.find(name);
  const auto axis = plan.tokens.find(name);
  if (picked == piece.inputs.end() || found == sequence.inputs.end() || axis == plan.tokens.end()) return;
  Array& array = found->second;
  const Rows rows(array.shape, axis->second);
  if (rows.count == 0) return;
  const std::vector<std::string>& all = plan.inputs.at(picked->second.from).data;
  Array longer;
  longer.shape = array.shape;
  ++longer.shape[static_cast<std::size_t>(axis->second)];
  for (std::size_t o = 0; o < rows.outer; ++o) {
    const std::size_t first = o * rows.count * rows.inner, end = first + rows.count * rows.inner;
    longer.data.insert(longer.data.end(), array.data.begin() + static_cast<std::ptrdiff_t>(first),
                       array.data.begin() + static_cast<std::ptrdiff_t>(end));
    for (std::size_t i = end - rows.inner; i < end; ++i) {
      const std::size_t behind = picked->second.at[i] + rows.inner;
      longer.data.push_back(behind < all.size() ? std::strtod(all[behind].c_str(), nullptr) : nobody_wrote);
    }
  }
  array = std::move(longer);
}

/// The inverse, of a gradient.
void drop_row(Array& array, int axis) {
  const Rows rows(array.shape, axis);
  Array shorter;
  shorter.shape = array.shape;
  --shorter.shape[static_cast<std::size_t>(axis)];
  for (std::size_t o = 0; o < rows.outer; ++o)
    shorter.data.insert(
        shorter.data.end(), array.data.begin() + static_cast<std::ptrdiff_t>(o * rows.count * rows.inner),
        array.data.begin() + static_cast<std::ptrdiff_t>((o + 1) * rows.count * rows.inner - rows.inner));
  array = std::move(shorter);
}

/// Shows the rows of a sequence more of their lists than counts: entries behind the length, or the last key for -1.
void see_more(const arguments::Choice& choice, const arguments::Piece& piece, bool behind, Array& mask) {
  const std::size_t rank = mask.shape.size(), keys = static_cast<std::size_t>(mask.shape[rank - 1]),
                    rows = static_cast<std::size_t>(mask.shape[rank - 2]),
                    heads = rank > 2 ? static_cast<std::size_t>(mask.shape[0]) : 1,
                    lists = static_cast<std::size_t>(std::max(choice.heads, 1)),
                    block = static_cast<std::size_t>(choice.block), count = keys == 0 ? 0 : (keys - 1) / block + 1;
  const auto& places = piece.outputs.find("lse")->second.pairs;  // those of the first head are the case's rows
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t list = h * lists / heads * static_cast<std::size_t>(choice.rows) + places[i].second;
      for (int e = 0; e < choice.entries; ++e) {
        const int entry = choice.keys[list * static_cast<std::size_t>(choice.entries) + static_cast<std::size_t>(e)];
        const bool counts = e < choice.lengths[list];
        if (count == 0 || counts == behind || (entry == -1) == behind) continue;
        const std::size_t first = behind ? static_cast<std::size_t>(std::max(entry, 0)) : count - 1;
        for (std::size_t j = first * block; j < std::min(keys, (first + 1) * block); ++j)
          mask.data[(h * rows + i) * keys + j] = 1;
      }
    }
}

/// o and dq of rows whose mask hides all keys.
void forget_rows_without_keys(const Problem& sequence, Answer& answer) {
  const auto mask = sequence.inputs.find("mask");
  if (mask == sequence.inputs.end() || mask->second.data.empty()) return;
  const std::size_t keys = static_cast<std::size_t>(mask->second.shape.back()), rows = mask->second.data.size() / keys;
  const auto forget = [&](Array& x) {
    const std::size_t inner = static_cast<std::size_t>(x.shape.back());
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      const auto seen = mask->second.data.begin() + static_cast<std::ptrdiff_t>(i / inner % rows * keys);
      if (std::all_of(seen, seen + static_cast<std::ptrdiff_t>(keys), [](double s) { return s == 0; }))
        x.data[i] = nobody_wrote;
    }
  };
  forget(answer.outputs.at("o"));
  if (const auto dq = answer.gradients.find("q"); dq != answer.gradients.end()) forget(dq->second);
}

/// [..][K][V] read as [..][V][K].
void transpose(Array& state) {
  const std::size_t rank = state.shape.size(), k = static_cast<std::size_t>(state.shape[rank - 2]),
                    v = static_cast<std::size_t>(state.shape[rank - 1]);
  const std::vector<double> was = state.data;
  for (std::size_t i = 0; i < was.size(); ++i) {
    const std::size_t block = i / (k * v) * (k * v), row = i % (k * v) / v, column = i % v;
    state.data[i] = was[block + column * k % (k * v) + row % k];
  }
}

/// Keys and values of sequence n as if its pages lay one behind the other.
void read_pages_in_order(std::size_t n, Problem& sequence, const arguments::Plan& plan) {
  for (const char* name : {"k", "v"}) {
    const auto found = sequence.inputs.find(name);
    if (found == sequence.inputs.end()) continue;
    Array& array = found->second;
    const std::vector<int>& whole = plan.inputs.at(name).shape;  // [H][pages][S][d]
    const std::vector<std::string>& all = plan.inputs.at(name).data;
    const std::size_t rank = array.shape.size(), d = static_cast<std::size_t>(array.shape[rank - 1]),
                      rows = static_cast<std::size_t>(array.shape[rank - 2]),
                      slots = static_cast<std::size_t>(whole[whole.size() - 2]) *
                              static_cast<std::size_t>(whole[whole.size() - 3]),
                      heads = rows * d == 0 ? 0 : array.data.size() / (rows * d);
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t j = 0; j < rows; ++j)
        for (std::size_t c = 0; c < d; ++c)
          array.data[(h * rows + j) * d + c] =
              std::strtod(all[(h * slots + (n * rows + j) % slots) * d + c].c_str(), nullptr);
  }
}

}  // namespace

std::vector<Mutant> sequence_mutants(std::string_view mechanism, bool gradients) {
  const arguments::Facts facts = arguments::facts_of(std::string(mechanism));
  std::vector<Mutant> all;
  const auto add = [&](const auto& list) {
    for (const SequenceMutant& one : list)
      if ((gradients || !one.backward) && (one.argument.empty() || arguments::takes_argument(facts, one.argument)))
        all.push_back({one.name, one.what, one.seen});
  };
  if (facts.family == arguments::Family::attention) add(of_scores);
  if (facts.family == arguments::Family::recurrence) add(of_states);
  return all;
}

bool is_sequence_fault(std::string_view name) {
  const auto has = [&](const auto& list) {
    return std::any_of(std::begin(list), std::end(list), [&](const SequenceMutant& one) { return one.name == name; });
  };
  return has(of_scores) || has(of_states);
}

void SequenceFault::spoil(std::size_t n, Problem& sequence) const {
  const arguments::Plan& plan = file_.plan();
  if (is("key_behind_the_sequence") && !sequence.inputs.contains("mask"))  // which would say nothing of that key
    for (const char* name : {"k", "v"}) append_row(sequence, plan, plan.pieces[n], name);
  if (is("pages_in_order")) read_pages_in_order(n, sequence, plan);
  if (is("sink_dropped")) sequence.inputs.erase("sink"), sequence.inputs.erase("has_sink");
  if (is("scales_dropped"))
    for (const char* name : {"q_scale", "k_scale", "v_scale"}) sequence.inputs.erase(name);
  for (const auto& [name, behind] :
       {std::pair("entries_behind_the_length", true), std::pair("missing_entry_is_the_last_key", false)})
    if (is(name) && plan.choice) see_more(*plan.choice, plan.pieces[n], behind, sequence.inputs.at("mask"));
  const auto number = [&](const char* name) { return sequence.inputs.find(name); };
  if (is("scale_of_the_absorbed_width") && number("scale") != sequence.inputs.end())
    number("scale")->second.data[0] = 1 / std::sqrt(number("k")->second.shape.back());
  if (is("queries_of_the_next_head"))
    if (Array& q = number("q")->second; q.shape.size() == 3 && q.shape[0] > 1)
      std::rotate(q.data.begin(), q.data.begin() + static_cast<std::ptrdiff_t>(q.data.size()) / q.shape[0],
                  q.data.end());
  if (is("gate_of_the_other_kind") && number("a") != sequence.inputs.end())
    sequence.params["gate"] = std::string("bounded"), sequence.params["lower_bound"] = std::string("-5");
  if (is("a_log_not_read") && number("a_log") != sequence.inputs.end())
    std::fill(number("a_log")->second.data.begin(), number("a_log")->second.data.end(), 0);
  if (is("write_strength_not_squashed") && number("b") != sequence.inputs.end()) {
    sequence.inputs["beta"] = number("b")->second;
    sequence.inputs.erase("b"), sequence.params.erase("beta_gate"), sequence.params.erase("beta_scale");
  }
  if (is("state_cotangents_dropped")) sequence.cotangents.erase("states");
  if (is("state_not_reset") && n > 0) sequence.inputs["initial_state"] = left_;
}

void SequenceFault::spoil(std::size_t n, const std::vector<int>& states, Answer& answer) {
  const arguments::Plan& plan = file_.plan();
  if (is("key_behind_the_sequence"))
    for (const char* name : {"k", "v"}) {
      const auto picked = plan.pieces[n].inputs.find(name);
      const auto gradient = answer.gradients.find(name);
      if (gradient == answer.gradients.end() || !plan.tokens.contains(name)) continue;
      if (gradient->second.data.size() > picked->second.at.size()) drop_row(gradient->second, plan.tokens.at(name));
    }
  const auto forget = [](Array& array) { std::fill(array.data.begin(), array.data.end(), nobody_wrote); };
  if (is("later_sequences_unwritten") && n > 0) forget(answer.outputs.at("o"));
  if (is("lse_of_padding_read") && answer.gradients.contains("k")) forget(answer.gradients.at("k"));
  if (is("no_query_leaves_gradients_unwritten") && answer.outputs.at("o").data.empty())
    for (const char* name : {"k", "v"})
      if (const auto found = answer.gradients.find(name); found != answer.gradients.end()) forget(found->second);
  if (is("lse_times_ln_2") && answer.outputs.contains("lse"))
    for (double& x : answer.outputs.at("lse").data) x *= 0.6931471805599453;
  if (is("nan_gradients_of_low_lse") && answer.gradients.contains("q") && answer.outputs.contains("lse")) {
    const std::vector<double>& lse = answer.outputs.at("lse").data;
    std::vector<double>& dq = answer.gradients.at("q").data;
    for (std::size_t i = 0; i < dq.size(); ++i)
      if (lse[i / (dq.size() / lse.size())] < -88) dq[i] = nobody_wrote;
  }
  if (is("rows_without_keys_are_nan") && plan.choice)
    forget_rows_without_keys(file_.folded_doubles().problems()[n], answer);
  if (is("query_gradient_five_times") && answer.gradients.contains("q"))
    for (double& x : answer.gradients.at("q").data) x *= 5;
  for (const auto& [name, of] :
       {std::pair("sink_gradient_missing", "sink"), std::pair("slope_gradient_missing", "alibi_slopes"),
        std::pair("bias_gradient_missing", "bias")})
    if (is(name)) answer.gradients.erase(of);
  const auto state = answer.outputs.find("final_state");
  if (state == answer.outputs.end()) return;
  if (is("empty_sequence_ends_in_zero") && answer.outputs.at("o").data.empty())
    std::fill(state->second.data.begin(), state->second.data.end(), 0);
  if (is("state_not_reset")) left_ = state->second;
  if (is("state_gradient_not_transposed"))
    if (const auto found = answer.gradients.find("initial_state"); found != answer.gradients.end())
      transpose(found->second);
  const auto inner = answer.outputs.find("states");
  if (is("states_of_the_call_before") && inner != answer.outputs.end()) {
    const Rows rows(inner->second.shape, plan.tokens.at("v"));
    for (std::size_t o = 0; o < rows.outer; ++o)
      for (std::size_t s = states.size(); s-- > 1;)
        for (std::size_t i = 0; i < rows.inner; ++i)
          inner->second.data[(o * rows.count + static_cast<std::size_t>(states[s])) * rows.inner + i] =
              inner->second.data[(o * rows.count + static_cast<std::size_t>(states[s - 1])) * rows.inner + i];
  }
}

}  // namespace assay
