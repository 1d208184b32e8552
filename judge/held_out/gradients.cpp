#include <algorithm>
#include <cmath>
#include <numbers>

#include "judge/held_out/faults.hpp"

namespace assay::held_out {
namespace {

/// The healthy answer with `f` on these gradients.
Answer with_gradients(const Call& call, const Names& names, const std::function<void(Array&)>& f) {
  Answer answer = call.healthy();
  edit(answer.gradients, names, f);
  return answer;
}

/// Backward from these inputs changed: what it makes of all of them.
Answer backward_from(const Call& call, const Names& names, const std::function<void(Array&)>& f) {
  return call.backward_with([&](Problem& p) { edit(p.inputs, names, f); });
}

/// Backward without these parameters, so that their defaults count.
Answer backward_without(const Call& call, const Names& names) {
  return call.backward_with([&](Problem& p) {
    for (const std::string_view name : names) p.params.erase(std::string(name));
  });
}

Answer cotangents_ignored(const Call& call, const Names& names) {
  return call.backward_with([&](Problem& p) { edit(p.cotangents, names, [](Array& d) { fill(d, 0); }); });
}

/// f(number of d, number of x), row by row.
void with_rows(Array& d, Array x, const std::function<double(double, double)>& f) {
  for (std::size_t i = 0; i < d.data.size(); ++i) d.data[i] = f(d.data[i], x.data[i]);
}

/// Gradients of what is shared, of the last head of a group alone.
Answer of_last_heads(const Call& call) {
  const int group = call.group();
  Answer answer = call.healthy(), alone = call.with([&](Problem&p) {
    for (auto& [name, d] : p.cotangents)
      for (int h = 0; h < d.shape[0]; ++h)
        if ((h + 1) % group != 0) std::ranges::fill(head_of(d, h), 0.0);
  });
  for (const std::string& name : call.shared_inputs())
    if (const auto it = alone.gradients.find(name); it != alone.gradients.end()) answer.gradients[name] = it->second;
  return answer;
}

const Names gradients_of_gates = {"log_decay", "log_alpha", "log_mu"};

constexpr Fault of_gradients[] = {
    {{"last_head_of_group", "backward: what heads share gets the gradient of the group's last head", "GQA"},
     "gla gated_deltanet lla mesanet falcon3",
     of_last_heads},
    {{"mean_over_group", "backward: what heads share gets the mean over its group", "GQA"},
     "softmax_attention kda parallax affine_mesanet",
     [](const Call& c) {
       Answer answer = c.healthy();
       for (const std::string& name : c.shared_inputs())
         edit(answer.gradients, {name}, [&](Array& d) { multiply(d, 1.0 / c.group()); });
       return answer;
     }},
    {{"d_initial_state_missing", "backward: the initial state's gradient is zero", "fla class"},
     "deltanet mamba2 falcon2",
     [](const Call& c) { return with_gradients(c, {"initial_state"}, [](Array& d) { fill(d, 0); }); }},
    {{"d_initial_state_transposed", "backward: the initial state's gradient is [V, K] where [K, V] is due",
      "launcher bug: a cache with the value dimension first"},
     "retnet comba mdn",
     [](const Call& c) { return with_gradients(c, {"initial_state"}, read_transposed); }},
    {{"d_initial_state_of_next_head", "backward: the initial state's gradient is the next head's",
      "launcher bug: state slot + 1"},
     "falcon2a gla",
     [](const Call& c) { return with_gradients(c, {"initial_state"}, rotate_heads); }},
    {{"gate_gradient_in_log2", "backward: the gradient of log2 of the decay",
      "fla#1142, #1140 class: a factor missing"},
     "mamba2 gla kda",
     [](const Call& c) {
       return with_gradients(c, gradients_of_gates, [](Array& d) { multiply(d, std::numbers::ln2); });
     }},
    {{"gate_gradient_of_decay", "backward: the gradient of the decay, not of its logarithm",
      "fla#1142, #1140 class: a factor missing"},
     "mdn gated_deltanet",
     [](const Call& c) {
       Answer answer = c.healthy();
       for (const std::string_view gate : gradients_of_gates)
         edit(answer.gradients, {gate}, [&](Array& d) {
           with_rows(d, c.problem.inputs.find(gate)->second, [](double x, double g) { return x / std::exp(g); });
         });
       return answer;
     }},
    {{"gate_gradient_shifted", "backward: the gradient of token t's gate is that of t - 1", "fla class: index i - 1"},
     "comba gla falcon3a",
     [](const Call& c) {
       return with_gradients(c, {"log_decay", "alpha"}, shift_rows);
     }},
    {{"beta_gradient_of_logit", "backward: beta's gradient times beta (1 - beta)", "fla#1142 class: a factor too many"},
     "deltanet kda falcon1",
     [](const Call& c) {
       return with_gradients(c, {"beta"}, [&](Array& d) {
         with_rows(d, c.problem.inputs.at("beta"), [](double x, double beta) { return x * beta * (1 - beta); });
       });
     }},
    {{"saved_in_bf16", "backward: from keys and values saved in bf16", "launcher bug: autocast of what is saved"},
     "linear_attention falcon2_lite affine_linear_attention mesanet",
     [](const Call& c) {
       return backward_from(c, {"k", "v"}, [](Array& x) { store_in(x, Format::bf16); });
     }},
    {{"saved_in_fp8", "backward: from keys and values saved in fp8 e4m3", "launcher bug: compressed activations"},
     "softmax_attention parallax",
     [](const Call& c) {
       return backward_from(c, {"k", "v"}, [](Array& x) { store_in(x, Format::e4m3); });
     }},
    {{"gradients_in_bf16", "backward: gradients stored in bf16", "launcher bug: a buffer in the model's format"},
     "mdn falcon3 value_averaging retnet",
     [](const Call& c) {
       Answer answer = c.healthy();
       for (auto& [name, d] : answer.gradients) store_in(d, Format::bf16);
       return answer;
     }},
    {{"gradients_in_e5m2", "backward: gradients of queries and keys stored in fp8 e5m2",
      "launcher bug: the wrong recipe's format"},
     "gated_deltanet falcon2",
     [](const Call& c) {
       return with_gradients(c, {"q", "k"}, [](Array& d) { store_in(d, Format::e5m2); });
     }},
    {{"added_to_stale_memory", "backward: dk is added to the dk of the call before", "FA#2481 class: stale memory"},
     "softmax_attention mamba2 lla falcon3a",
     [](const Call& c) { return with_gradients(c, {"k"}, [](Array& d) { multiply(d, 2); }); }},
    {{"dq_and_dk_exchanged", "backward: dq and dk in each other's place", "launcher bug: order of return values"},
     "deltanet linear_attention falcon2",
     [](const Call& c) {
       Answer answer = c.healthy();
       if (!answer.gradients.empty()) std::swap(answer.gradients.at("q"), answer.gradients.at("k"));
       return answer;
     }},
    {{"queries_of_one_tile_lost", "backward: dk and dv miss the reads of tokens 16 to 31",
      "race class: an atomic addition lost"},
     "softmax_attention parallax lla kda",
     [](const Call& c) {
       return c.backward_with(
           [](Problem& p) {
             edit(p.cotangents, {"o"}, [](Array& d) {
               each_row(d, [](int, int t, Values row) {
                 if (t >= 16 && t < 32) std::ranges::fill(row, 0.0);
               });
             });
           },
           {"k", "v"});
     }},
    {{"last_row_of_gradients_unwritten", "backward: dk and dv of the last token are zero", "aotriton#237 class"},
     "linear_attention comba affine_mesanet",
     [](const Call& c) {
       return with_gradients(c, {"k", "v"}, [](Array& d) {
         for (int h = 0; h < d.shape[0]; ++h) std::ranges::fill(row_of(d, h, row_count(d) - 1), 0.0);
       });
     }},
    {{"backward_from_zero_state", "backward: recomputes from a state of zeros", "fla class: initial state not saved"},
     "kda falcon1 mdn",
     [](const Call& c) {
       return backward_from(c, {"initial_state", "initial_momentum"}, [](Array& s) { fill(s, 0); });
     }},
    {{"backward_of_other_error", "backward: of the decayed state's error, whatever the forward's",
      "launcher bug: argument not forwarded"},
     "gated_deltanet",
     [](const Call& c) { return backward_without(c, {"error"}); }},
    {{"backward_of_other_ridge", "backward: of the default unit or coupling of the ridge",
      "launcher bug: argument not forwarded"},
     "lla affine_mesanet falcon3 falcon1",
     [](const Call& c) {
       return backward_without(c, {"lambda_mode", "lambda_scaling", "ridge_coupling"});
     }},
    {{"backward_without_window", "backward: without the forward's window", "FA class: argument not forwarded"},
     "softmax_attention parallax",
     [](const Call& c) { return backward_without(c, {"window"}); }},
    {{"backward_without_eps", "backward: with eps 0 in the denominators", "launcher bug: argument not forwarded"},
     "falcon2_lite falcon2a falcon3a",
     [](const Call& c) {
       return backward_without(c, {"eps", "eps_normalizer"});
     }},
    {{"cotangent_in_bf16", "backward: the cotangent of o in bf16", "launcher bug: autocast of the loss"},
     "gated_deltanet affine_linear_attention mesanet",
     [](const Call& c) {
       return c.backward_with(
           [](Problem& p) { edit(p.cotangents, {"o"}, [](Array& d) { store_in(d, Format::bf16); }); });
     }},
    {{"cotangent_of_momentum_ignored", "backward: as if nothing came back to the final momentum",
      "FALCON Alg 6 line 20, of the second state"},
     "mdn",
     [](const Call& c) { return cotangents_ignored(c, {"final_momentum"}); }},
    {{"cotangent_of_normalizer_ignored", "backward: as if nothing came back to the final normaliser",
      "FALCON Alg 6 line 20, of the second state"},
     "linear_attention falcon2a",
     [](const Call& c) { return cotangents_ignored(c, {"final_normalizer"}); }},
    {{"cotangent_of_gram_ignored", "backward: as if nothing came back to the keys' second moments",
      "FALCON Alg 6 line 20, of the second state"},
     "mesanet affine_mesanet",
     [](const Call& c) {
       return cotangents_ignored(c, {"final_gram", "final_scatter_kk"});
     }},
    {{"cotangent_of_means_ignored", "backward: as if nothing came back to the final means",
      "FALCON Alg 6 line 20, of the second state"},
     "affine_linear_attention",
     [](const Call& c) {
       return cotangents_ignored(c, {"final_mean_k", "final_mean_v"});
     }},
    {{"bandwidth_gradient_of_last_head", "backward: the bandwidth's gradient is the last head's alone",
      "race class: a plain store for an atomic addition"},
     "softmax_attention parallax lla",
     [](const Call& c) {
       return c.backward_with(
           [](Problem& p) {
             edit(p.cotangents, {"o"}, [](Array& d) {
               for (int h = 0; h + 1 < d.shape[0]; ++h) std::ranges::fill(head_of(d, h), 0.0);
             });
           },
           {"bandwidth"});
     }},
    {{"carried_key_without_gradient", "backward: the carried key's gradient is zero",
      "launcher bug: output not written"},
     "deltanet falcon1 falcon2_lite",
     [](const Call& c) { return with_gradients(c, {"k_carry"}, [](Array& d) { fill(d, 0); }); }},
    {{"dk_one_token_late", "backward: the gradient of a written key goes to the token that writes it",
      "launcher bug: shift of the features not undone"},
     "falcon2 falcon2a",
     [](const Call& c) {
       return c.room.shifted(c.problem.params) ? with_gradients(c, {"k"}, shift_rows) : c.healthy();
     }},
    {{"lambda_gradient_sign", "backward: the ridge's gradient has the wrong sign", "rocm-libraries#11003 class"},
     "lla falcon2_lite",
     [](const Call& c) { return with_gradients(c, {"lambda"}, [](Array& d) { multiply(d, -1); }); }},
    {{"lambda_gradient_of_first_head", "backward: every head's ridge gets the first head's gradient",
      "launcher bug: head stride 0"},
     "mesanet affine_mesanet",
     [](const Call& c) {
       return with_gradients(c, {"lambda"}, [](Array& d) {
         Array first = d;
         for (int h = 1; h < d.shape[0]; ++h) std::ranges::copy(head_of(first, 0), head_of(d, h).begin());
       });
     }},
};

}  // namespace

std::span<const Fault> gradient_faults() { return of_gradients; }

}  // namespace assay::held_out
