#include <algorithm>
#include <cmath>

#include "judge/held_out/faults.hpp"
#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"

namespace assay::held_out {
namespace {

const Names states = {"initial_state", "initial_momentum", "initial_normalizer"};

/// Two calls, with `f` on the states that the second one is handed.
Answer with_states(const Call& call, const std::function<void(Array&)>& f) {
  if (!continues(call)) return call.healthy();
  return in_two_calls(call, {.carried = [&](const Call&, Problem& second) { edit(second.inputs, states, f); }});
}

/// Two calls, the second of which is not handed what `names` say.
Answer second_without(const Call& call, const Names& names) {
  if (!continues(call)) return call.healthy();
  return in_two_calls(call, {.carried = [&](const Call&, Problem& second) {
                        for (const std::string_view name : names) second.inputs.erase(std::string(name));
                      }});
}

/// The decay of the last token before the seam, on the rows of a state.
void decay_once_more(const Call& call, Array& state) {
  Array gate = call.problem.inputs.at("log_decay");
  each_row(state, [&](int h, int i, Values row) {
    const Values last = row_of(gate, h, seam_of(call) - 1);
    for (double& x : row) x *= std::exp(last[last.size() > 1 ? static_cast<std::size_t>(i) : 0]);
  });
}

/// As many tokens as fill the last tile of 16, made by `pad` from the last one; the answer without them.
Answer padded(const Call& call, const std::function<void(std::string_view name, Array& row)>& pad) {
  const int tokens = call.tokens(), extra = (16 - tokens % 16) % 16;
  Answer answer = call.with([&](Problem& p) {
    for (auto& [name, array] : p.inputs) {
      if (!call.by_token(name)) continue;
      Array row = rows_between(array, tokens - 1, tokens);
      pad(name, row);
      for (int i = 0; i < extra; ++i) array = rows_joined(array, row);
    }
    for (auto& [name, cotangent] : p.cotangents) {
      if (!call.by_token(name)) continue;
      Array zero = rows_between(cotangent, tokens - 1, tokens);
      fill(zero, 0);
      for (int i = 0; i < extra; ++i) cotangent = rows_joined(cotangent, zero);
    }
  });
  for (auto* arrays : {&answer.outputs, &answer.gradients})
    for (auto& [name, array] : *arrays)
      if (call.by_token(name)) array = rows_between(array, 0, tokens);
  return answer;
}

/// `extra` rows in front of all keys and values, made from the heads' own, and none in their gradients.
Answer with_keys_in_front(const Call& call, int extra, const std::function<void(Array&)>& make) {
  Answer answer = call.with([&](Problem& p) {
    edit(p.inputs, {"k", "v"}, [&](Array& a) {
      Array front = rows_between(a, a.shape[1] - extra, a.shape[1]);
      make(front);
      a = rows_joined(front, a);
    });
  });
  edit(answer.gradients, {"k", "v"}, [&](Array& d) { d = rows_between(d, extra, d.shape[1]); });
  return answer;
}

/// Every head starts from what the call made of the head before, whole or of its last token alone.
Answer after_head_before(const Call& call, bool last_token_alone) {
  Problem before = last_token_alone ? segment(call, call.tokens() - 1, call.tokens()) : call.problem;
  before.cotangents.clear();
  if (last_token_alone)  // from the state that it should have left alone
    for (const auto& [name, array] : call.problem.inputs)
      if (name.starts_with("initial_")) before.inputs[name] = array;
  Answer left = call.run(before);
  return call.with([&](Problem& p) {
    for (const std::string name : {"state", "momentum", "normalizer"}) {
      const auto to = p.inputs.find("initial_" + name), from = left.outputs.find("final_" + name);
      if (to == p.inputs.end() || from == left.outputs.end()) continue;
      for (int h = 1; h < to->second.shape[0]; ++h)
        std::ranges::copy(head_of(from->second, h - 1), head_of(to->second, h).begin());
    }
  });
}

constexpr Fault of_sequences[] = {
    {{"seam_state_dropped", "a sequence in two calls: the second starts from zero", "fla class: state not carried"},
     "gla mamba2 falcon2 falcon3a",
     [](const Call& c) { return second_without(c, states); }},
    {{"seam_state_transposed", "a sequence in two calls: the state is handed over [V, K] and read [K, V]",
      "launcher bug: a cache with the value dimension first"},
     "kda falcon1 comba",
     [](const Call& c) {
       return with_states(c, [](Array& s) {
         if (s.shape.size() > 2) read_transposed(s);
       });
     }},
    {{"seam_state_in_bf16", "a sequence in two calls: the state is handed over in bf16",
      "launcher bug: a state cache in the model's format"},
     "retnet comba mdn falcon2_lite linear_attention",
     [](const Call& c) { return with_states(c, [](Array& s) { store_in(s, Format::bf16); }); }},
    {{"seam_state_in_fp16", "a sequence in two calls: the state is handed over in fp16",
      "launcher bug: a state cache in fp16"},
     "kda mamba2 deltanet",
     [](const Call& c) { return with_states(c, [](Array& s) { store_in(s, Format::fp16); }); }},
    {{"seam_state_of_next_head", "a sequence in two calls: a head goes on from the state of the next one",
      "launcher bug: state slot + 1"},
     "falcon2 mdn falcon3",
     [](const Call& c) { return with_states(c, rotate_heads); }},
    {{"seam_decayed_twice", "a sequence in two calls: the state decays by the last gate once more",
      "fla#1142, #906 class"},
     "gated_deltanet gla kda",
     [](const Call& c) { return with_states(c, [&](Array& s) { decay_once_more(c, s); }); }},
    {{"seam_token_repeated", "a sequence in two calls: the second writes the last token of the first again",
      "launcher bug: chunked prefill that overlaps by one"},
     "deltanet retnet mdn",
     [](const Call& c) { return c.room.shifted(c.problem.params) ? c.healthy() : in_two_calls(c, {.repeated = 1}); }},
    {{"seam_token_not_written", "a sequence in two calls: the second misses its first token's write",
      "launcher bug: chunked prefill with a gap"},
     "gated_deltanet comba linear_attention",
     [](const Call& c) {
       return in_two_calls(c, {.carried = [](const Call&, Problem& second) {
                             edit(second.inputs, {"k", "v"}, [](Array& a) {
                               for (int h = 0; h < a.shape[0]; ++h) std::ranges::fill(row_of(a, h, 0), 0.0);
                             });
                           }});
     }},
    {{"momentum_reset_at_seam", "a sequence in two calls: the second starts without momentum",
      "MDN common-mode reference: momentum not carried"},
     "mdn",
     [](const Call& c) { return second_without(c, {"initial_momentum"}); }},
    {{"state_and_momentum_exchanged", "a sequence in two calls: state and momentum in each other's place",
      "launcher bug: two caches of one shape"},
     "mdn",
     [](const Call& c) {
       return in_two_calls(c, {.carried = [](const Call&, Problem& second) {
                             std::swap(second.inputs.at("initial_state"), second.inputs.at("initial_momentum"));
                           }});
     }},
    {{"normalizer_reset_at_seam", "a sequence in two calls: the second starts without a normaliser",
      "launcher bug: one of two states handed over"},
     "linear_attention falcon2a",
     [](const Call& c) { return second_without(c, {"initial_normalizer"}); }},
    {{"count_restarts_at_seam", "a sequence in two calls: the second counts its tokens from 1",
      "launcher bug: position not handed over"},
     "linear_attention",
     [](const Call& c) { return continues(c) ? c.healthy() : in_two_calls(c, {}); }},
    {{"carried_key_forgotten", "a sequence in two calls: the second begins like a sequence, without the key before",
      "launcher bug: short-term state not handed over"},
     "falcon1 falcon2_lite falcon2 deltanet",
     [](const Call& c) {
       if (!c.room.shifted(c.problem.params)) return c.healthy();
       return in_two_calls(c, {.carried = [](const Call&, Problem& second) {
                             second.inputs.erase("k_carry"), second.params["sequence_start"] = true;
                           }});
     }},
    {{"carried_key_of_this_token", "a sequence in two calls: the carried key is the first of the second call",
      "launcher bug: cache written before it is read"},
     "falcon2a falcon3a",
     [](const Call& c) {
       return in_two_calls(c, {.carried = [](const Call&, Problem& second) {
                             edit(second.inputs, {"k_carry"}, [&](Array& carry) {
                               for (int h = 0; h < carry.shape[0]; ++h)
                                 std::ranges::copy(row_of(second.inputs.at("k"), h, 0), head_of(carry, h).begin());
                             });
                           }});
     }},
    {{"tail_forgotten", "a sequence in two calls: the second's windows are cut short at the seam",
      "launcher bug: short-term state not handed over"},
     "falcon3 falcon3a",
     [](const Call& c) {
       // Without a window, as much is handed on as was handed over.
       const auto window = c.problem.params.find("window");
       if (window == c.problem.params.end()) return c.healthy();
       require(c.tokens() - seam_of(c) + 1 >= std::get<long>(window->second),
               "the second call has fewer pairs than it hands on");
       return second_without(c, {"tail_k", "tail_v"});
     }},
    {{"seam_gradient_dropped", "backward in two calls: the first does not learn what the second makes of its state",
      "launcher bug: the state detached"},
     "deltanet mamba2 falcon2_lite gla",
     [](const Call& c) {
       if (!continues(c)) return c.healthy();
       return in_two_calls(c, {.returned = [](Arrays& cotangents) {
                             std::erase_if(cotangents, [](const auto& d) { return d.first.starts_with("final_"); });
                           }});
     }},
    {{"seam_gradient_transposed", "backward in two calls: the state's gradient is handed back [V, K] and read [K, V]",
      "launcher bug: a cache with the value dimension first"},
     "gated_deltanet kda falcon1",
     [](const Call& c) {
       return in_two_calls(
           c, {.returned = [](Arrays& cotangents) { edit(cotangents, {"final_state"}, read_transposed); }});
     }},
    {{"second_call_starts_anew", "a sequence in two calls: the second knows nothing of the first",
      "launcher bug: prefix cache lost"},
     "value_averaging affine_linear_attention mesanet affine_mesanet",
     [](const Call& c) { return in_two_calls(c, {}); }},
    {{"state_of_sequence_before", "a sequence starts from where the one before it in the batch ended",
      "fla#1142, #906: state not reset at the boundary"},
     "gated_deltanet gla mdn falcon2",
     [](const Call& c) { return after_head_before(c, false); }},
    {{"one_token_over_the_boundary", "a sequence starts with the last write of the one before it in the batch",
      "cu_seqlens class"},
     "mamba2 linear_attention comba",
     [](const Call& c) { return after_head_before(c, true); }},
    {{"one_key_over_the_boundary", "a sequence sees the last key of the one before it in the batch",
      "cu_seqlens class"},
     "softmax_attention parallax lla",
     [](const Call& c) { return with_keys_in_front(c, 1, rotate_heads); }},
    {{"left_padding_seen", "three keys and values of zeros in front are not masked",
      "launcher bug: padding mask not forwarded"},
     "softmax_attention:split_decode parallax:split_decode lla",
     [](const Call& c) { return with_keys_in_front(c, 3, [](Array& a) { fill(a, 0); }); }},
    {{"tail_padded_with_last_token", "the last tile is filled up with copies of the last token, and they are written",
      "fla#1142, #906: tails"},
     "deltanet gla retnet mesanet affine_linear_attention",
     [](const Call& c) { return padded(c, [](std::string_view, Array&) {}); }},
    {{"tail_padded_with_last_gate", "the last tile is filled up with zeros, and the last gate goes on decaying",
      "fla#1142, #906: gamma at the padded end"},
     "mamba2 gated_deltanet kda comba mdn",
     [](const Call& c) {
       return padded(c, [](std::string_view name, Array& row) {
         if (!name.starts_with("log_")) fill(row, 0);
       });
     }},
};

}  // namespace

std::span<const Fault> sequence_faults() { return of_sequences; }

}  // namespace assay::held_out
