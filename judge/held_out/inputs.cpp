#include <algorithm>
#include <cmath>
#include <numbers>

#include "judge/held_out/faults.hpp"
#include "reference/core/rounding.hpp"

namespace assay::held_out {
namespace {

const Names gates = {"log_decay", "log_alpha", "alpha"};

Answer edited(const Call& call, const Names& names, const std::function<void(Array&)>& f) {
  return call.with([&](Problem& p) { edit(p.inputs, names, f); });
}
Answer stored(const Call& call, const Names& names, Format format) {
  return edited(call, names, [format](Array& array) { store_in(array, format); });
}

/// q[h][t] from where [heads][tokens] memory has the row t * heads + h.
void exchange_strides(Array& q) {
  const Array given = q;
  const std::size_t row = q.data.size() / static_cast<std::size_t>(q.shape[0] * q.shape[1]);
  each_row(q, [&](int h, int t, Values to) {
    const auto from = given.data.begin() + static_cast<std::ptrdiff_t>(row) * (t * given.shape[0] + h);
    std::copy(from, from + static_cast<std::ptrdiff_t>(row), to.begin());
  });
}

/// Rows of k that begin every `stride` numbers.
void read_with_stride(Array& k, int stride) {
  Array given = k;
  each_row(k, [&](int h, int t, Values to) {
    const Values head = head_of(given, h);
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = head[(static_cast<std::size_t>(t) * static_cast<std::size_t>(stride) + i) % head.size()];
  });
}

/// Rows [16, 32) of every head are those of the next one.
void exchange_page(Array& array) {
  Array other = array;
  rotate_heads(other);
  each_row(array, [&](int h, int t, Values row) {
    if (t >= 16 && t < 32) std::ranges::copy(row_of(other, h, t), row.begin());
  });
}

/// v_t beta_t.
void multiply_rows(Array& v, const Array& beta) {
  Array factors = beta;
  each_row(v, [&](int h, int t, Values row) {
    for (double& x : row) x *= row_of(factors, h, t)[0];
  });
}

/// Keys [first, last) left out, or there twice.
Answer with_keys(const Call& call, int first, int last, bool twice) {
  return call.with([&](Problem& p) {
    if (p.params.contains("window")) return;
    edit(p.inputs, {"k", "v"}, [&](Array& a) {
      const Array before = rows_between(a, 0, twice ? last : first);
      a = rows_joined(before, rows_between(a, twice ? first : last, a.shape[1]));
    });
  });
}

constexpr Fault of_inputs[] = {
    {{"head_and_token_strides_exchanged", "q in memory by head and token is read as by token and head",
      "launcher bug: [B, T, H, D] passed for [B, H, T, D]"},
     "softmax_attention parallax:split_decode gla mdn",
     [](const Call& c) { return edited(c, {"q"}, exchange_strides); }},
    {{"keys_with_stride_of_values", "rows of k are V numbers apart, not K", "launcher bug: one stride for k and v"},
     "deltanet linear_attention kda lla falcon2",
     [](const Call& c) {
       return edited(c, {"k"}, [&](Array& k) { read_with_stride(k, c.problem.inputs.at("v").shape.back()); });
     }},
    {{"state_read_transposed", "the initial state, [V, K] in memory, is read as [K, V]",
      "launcher bug: a cache with the value dimension first"},
     "deltanet gated_deltanet retnet falcon1",
     [](const Call& c) { return edited(c, {"initial_state"}, read_transposed); }},
    {{"state_of_next_head", "a head starts from the initial state of the next one", "launcher bug: state slot + 1"},
     "gla falcon2a comba linear_attention",
     [](const Call& c) {
       return edited(c, {"initial_state", "initial_momentum"}, rotate_heads);
     }},
    {{"gate_of_next_head", "a head takes the decays of the next one", "fla#1029 class"},
     "gated_deltanet mamba2 falcon3a",
     [](const Call& c) { return edited(c, gates, rotate_heads); }},
    {{"gate_of_token_before", "token t decays by the gate of t - 1", "fla class: decay index i - 1"},
     "gla comba falcon3a",
     [](const Call& c) { return edited(c, gates, shift_rows); }},
    {{"momentum_gate_of_token_before", "mu of t - 1 decays the momentum at t", "fla class: decay index i - 1"},
     "mdn",
     [](const Call& c) { return edited(c, {"log_mu"}, shift_rows); }},
    {{"gate_in_log2", "natural logarithms of decays multiplied by log2(e), and that exponentiated",
      "common: exp2 and log2(e) on one side alone"},
     "mamba2 gla comba",
     [](const Call& c) { return edited(c, gates, [](Array& g) { multiply(g, std::numbers::log2e); }); }},
    {{"gate_exponentiated_twice", "-exp(g) where g is due", "launcher bug: A_log passed for A"},
     "kda gated_deltanet",
     [](const Call& c) {
       return edited(c, gates, [](Array& g) {
         for (double& x : g.data) x = -std::exp(x);
       });
     }},
    {{"gate_cumulated", "prefix sums of the log decays passed for log decays", "fla class: cumulative gates twice"},
     "kda mamba2",
     [](const Call& c) {
       return edited(c, gates, [](Array& g) {
         each_row(g, [&](int h, int t, Values row) {
           for (std::size_t i = 0; t > 0 && i < row.size(); ++i) row[i] += row_of(g, h, t - 1)[i];
         });
       });
     }},
    {{"gate_in_bf16", "log decays cast to bf16 by the caller", "launcher bug: autocast of the gates"},
     "gla mamba2 mdn kda",
     [](const Call& c) {
       return stored(c, {"log_decay", "log_alpha", "log_mu"}, Format::bf16);
     }},
    {{"gate_of_first_channel", "all channels decay by the gate of the first", "launcher bug: channel stride 0"},
     "gla kda",
     [](const Call& c) {
       return edited(c, gates,
                     [](Array& g) { each_row(g, [](int, int, Values row) { std::ranges::fill(row, row[0]); }); });
     }},
    {{"beta_applied_by_caller_too", "values multiplied by beta before the call",
      "launcher bug: pre-scaled values passed on"},
     "deltanet gated_deltanet kda",
     [](const Call& c) { return edited(c, {"v"}, [&](Array& v) { multiply_rows(v, c.problem.inputs.at("beta")); }); }},
    {{"beta_doubled", "beta times 2", "launcher bug: negative eigenvalues allowed twice"},
     "deltanet comba mdn",
     [](const Call& c) { return edited(c, {"beta"}, [](Array& beta) { multiply(beta, 2); }); }},
    {{"beta_in_bf16", "write strengths cast to bf16 by the caller", "launcher bug: autocast of the gates"},
     "deltanet kda falcon1 falcon3",
     [](const Call& c) { return stored(c, {"beta"}, Format::bf16); }},
    {{"beta_of_first_channel", "all channels step by the beta of the first", "launcher bug: channel stride 0"},
     "falcon2",
     [](const Call& c) {
       return edited(c, {"beta"},
                     [](Array& beta) { each_row(beta, [](int, int, Values row) { std::ranges::fill(row, row[0]); }); });
     }},
    {{"eta_and_beta_exchanged", "the weight of the gradient and the step along the momentum change places",
      "MDN: eta and beta swapped"},
     "mdn",
     [](const Call& c) { return c.with([](Problem& p) { std::swap(p.inputs.at("beta"), p.inputs.at("eta")); }); }},
    {{"lambda_of_first_token", "every token has the ridge of the first", "launcher bug: token stride 0"},
     "falcon1 falcon2_lite falcon3",
     [](const Call& c) {
       return edited(c, {"lambda"}, [](Array& lambda) {
         each_row(lambda, [&](int h, int, Values row) { std::ranges::copy(row_of(lambda, h, 0), row.begin()); });
       });
     }},
    {{"lambda_in_bf16", "the ridge cast to bf16 by the caller", "launcher bug: autocast of the ridge"},
     "falcon2a lla mesanet affine_mesanet",
     [](const Call& c) { return stored(c, {"lambda"}, Format::bf16); }},
    {{"lambda_plus_1e_5", "1e-5 added to the ridge", "fla Mesa, FlashLLA: 1e-5 in denominators"},
     "lla mesanet affine_mesanet falcon2_lite",
     [](const Call& c) {
       return edited(c, {"lambda"}, [](Array& lambda) {
         for (double& x : lambda.data) x += 1e-5;
       });
     }},
    {{"q_in_tf32", "queries in tf32", "evintunador#6 class: TF32 where fp32 is due"},
     "softmax_attention deltanet mamba2",
     [](const Call& c) { return stored(c, {"q"}, Format::tf32); }},
    {{"k_in_bf16", "keys in bf16 beside wider queries and values", "launcher bug: a key cache in the model's format"},
     "kda lla falcon2",
     [](const Call& c) { return stored(c, {"k"}, Format::bf16); }},
    {{"v_in_fp16", "values in fp16", "launcher bug: a value cache in fp16"},
     "retnet value_averaging parallax:split_decode",
     [](const Call& c) { return stored(c, {"v"}, Format::fp16); }},
    {{"cache_in_fp8", "keys and values stored in fp8 e4m3", "catalogue: fp8 under a bf16 contract"},
     "softmax_attention:split_decode mesanet",
     [](const Call& c) {
       return stored(c, {"k", "v"}, Format::e4m3);
     }},
    {{"probe_in_bf16", "the probe rho in bf16", "launcher bug: autocast of the probe"},
     "parallax affine_linear_attention",
     [](const Call& c) { return stored(c, {"rho"}, Format::bf16); }},
    {{"prediction_key_in_bf16", "the prediction key p in bf16", "launcher bug: autocast of one of two keys"},
     "comba",
     [](const Call& c) { return stored(c, {"p"}, Format::bf16); }},
    {{"initial_state_in_bf16", "the initial state in bf16", "launcher bug: a state cache in the model's format"},
     "gated_deltanet mamba2 falcon2a falcon3",
     [](const Call& c) { return stored(c, {"initial_state"}, Format::bf16); }},
    {{"initial_momentum_in_fp16", "the initial momentum in fp16", "launcher bug: a state cache in fp16"},
     "mdn",
     [](const Call& c) { return stored(c, {"initial_momentum"}, Format::fp16); }},
    {{"initial_normalizer_in_bf16", "the initial normaliser in bf16", "launcher bug: a state cache in bf16"},
     "linear_attention",
     [](const Call& c) { return stored(c, {"initial_normalizer"}, Format::bf16); }},
    {{"last_value_in_bf16", "the last token's value in bf16", "launcher bug: the newest token before it is cast"},
     "value_averaging affine_linear_attention comba",
     [](const Call& c) {
       return edited(c, {"v"}, [](Array& v) {
         for (int h = 0; h < v.shape[0]; ++h)
           for (double& x : row_of(v, h, row_count(v) - 1)) x = round_to(x, Format::bf16);
       });
     }},
    {{"one_key_channel_in_bf16", "the last channel of the keys in bf16", "catalogue: padding of head dimensions"},
     "falcon1 affine_mesanet",
     [](const Call& c) {
       return edited(c, {"k"}, [](Array& k) {
         each_row(k, [](int, int, Values row) { row.back() = round_to(row.back(), Format::bf16); });
       });
     }},
    {{"values_of_token_before", "key t is written with the value of t - 1", "launcher bug: caches a token apart"},
     "linear_attention mesanet affine_mesanet",
     [](const Call& c) { return edited(c, {"v"}, shift_rows); }},
    {{"page_of_another_sequence", "tokens 16 to 31 of the cache are the next head's",
      "launcher bug: stale block table"},
     "softmax_attention softmax_attention:split_decode parallax:split_decode",
     [](const Call& c) {
       return edited(c, {"k", "v"}, exchange_page);
     }},
    {{"newest_token_not_cached", "the last key and value are still zero", "launcher bug: the cache is read too early"},
     "softmax_attention:split_decode parallax:split_decode",
     [](const Call& c) {
       return edited(c, {"k", "v"}, [](Array& a) {
         for (int h = 0; h < a.shape[0]; ++h) std::ranges::fill(row_of(a, h, row_count(a) - 1), 0.0);
       });
     }},
    {{"middle_split_not_merged", "keys 16 to 31 are left out", "fla#671, TE#2986 class: a split lost"},
     "softmax_attention:split_decode parallax:split_decode",
     [](const Call& c) { return with_keys(c, 16, std::min(32, c.tokens() - 1), false); }},
    {{"middle_split_merged_twice", "keys 16 to 31 count twice", "fla#671, TE#2986 class: overlapping splits"},
     "softmax_attention:split_decode parallax:split_decode",
     [](const Call& c) { return with_keys(c, 16, std::min(32, c.tokens()), true); }},
};

}  // namespace

std::span<const Fault> input_faults() { return of_inputs; }

}  // namespace assay::held_out
