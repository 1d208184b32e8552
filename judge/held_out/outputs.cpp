#include <algorithm>
#include <limits>

#include "judge/held_out/faults.hpp"
#include "reference/core/rounding.hpp"

namespace assay::held_out {
namespace {

/// The first row of the last tile of 16.
int last_tile(const Array& o) { return (row_count(o) - 1) / 16 * 16; }

/// The healthy answer with `f` on o.
Answer with_output(const Call& call, const std::function<void(Array&)>& f) {
  Answer answer = call.healthy();
  f(answer.outputs.at("o"));
  return answer;
}

/// o as the kernel has it before it is stored, then as `store` stores it in the contract's format.
Answer stored_otherwise(const Call& call, const std::function<void(Array&, Format)>& store) {
  const auto* const first = call.policy.sites.entries;
  const auto* const site = std::find_if(first, first + call.policy.sites.size,
                                        [](const auto& entry) { return entry.role == tile::Role::output; });
  Policy unstored = call.policy;
  unstored.sites = unstored.sites.with(tile::Role::output, Format::exact);
  Answer answer = call.healthy();
  Array& o = answer.outputs.at("o");
  o = call.form.run(call.problem, unstored, call.tile).outputs.at("o");
  store(o, site->format);
  return answer;
}

/// The states after the first `tokens` tokens, with the other outputs and the gradients of all.
Answer with_states_after(const Call& call, int tokens) {
  Answer answer = call.healthy();
  Problem part = segment(call, 0, tokens);
  part.cotangents.clear();
  for (auto& [name, output] : call.run(part).outputs)
    if (!call.by_token(name)) answer.outputs[name] = std::move(output);
  return answer;
}

void exchange(Values a, Values b) { std::swap_ranges(a.begin(), a.end(), b.begin()); }

constexpr Fault of_outputs[] = {
    {{"all_zero", "o is never written to memory of zeros", "rocm-libraries#10988, #11330; KernelBench#165"},
     "softmax_attention:split_decode value_averaging falcon2",
     [](const Call& c) { return with_output(c, [](Array& o) { fill(o, 0); }); }},
    {{"one_nan", "one element of the last row is NaN", "FA#2374, #1745; cudnn-frontend#624; fla#1214"},
     "lla retnet falcon3",
     [](const Call& c) {
       return with_output(c, [](Array& o) { o.data.back() = std::numeric_limits<double>::quiet_NaN(); });
     }},
    {{"sign_of_one_head", "the last head has the wrong sign", "rocm-libraries#11003"},
     "softmax_attention comba affine_mesanet",
     [](const Call& c) {
       return with_output(c, [](Array& o) {
         for (double& x : head_of(o, o.shape[0] - 1)) x = -x;
       });
     }},
    {{"gain_1_01", "o is 1% too large", "catalogue"},
     "deltanet mesanet parallax:split_decode falcon2a",
     [](const Call& c) { return with_output(c, [](Array& o) { multiply(o, 1.01); }); }},
    {{"gain_1_001_of_one_head", "the last head's o is 0.1% too large", "catalogue: gain"},
     "mamba2 lla falcon1 mdn",
     [](const Call& c) {
       return with_output(c, [](Array& o) {
         for (double& x : head_of(o, o.shape[0] - 1)) x *= 1.001;
       });
     }},
    {{"last_channel_unwritten", "the last channel of the last tile's rows is zero",
      "catalogue: padded head dimensions"},
     "softmax_attention gated_deltanet falcon2_lite affine_linear_attention",
     [](const Call& c) {
       return with_output(c, [](Array& o) {
         each_row(o, [&](int, int t, Values row) {
           if (t >= last_tile(o)) row.back() = 0;
         });
       });
     }},
    {{"one_row_unwritten", "the last row of the first head is zero", "aotriton#237"},
     "parallax kda value_averaging",
     [](const Call& c) {
       return with_output(c, [](Array& o) { std::ranges::fill(row_of(o, 0, row_count(o) - 1), 0.0); });
     }},
    {{"row_of_tile_before", "the last row holds that of the tile before, 16 tokens ago", "aotriton#237 class"},
     "gla lla mesanet",
     [](const Call& c) {
       return with_output(c, [](Array& o) {
         const int last = row_count(o) - 1;
         for (int h = 0; h < o.shape[0]; ++h) std::ranges::copy(row_of(o, h, last - 16), row_of(o, h, last).begin());
       });
     }},
    {{"rows_exchanged", "two rows of the last tile in each other's place", "race class: fla#889, FA#2528"},
     "linear_attention softmax_attention mdn",
     [](const Call& c) {
       return with_output(c, [](Array& o) { exchange(row_of(o, 1, last_tile(o)), row_of(o, 1, last_tile(o) + 1)); });
     }},
    {{"heads_in_other_order", "heads are written with the group's index first", "fla#1029 class"},
     "parallax retnet falcon2a mesanet",
     [](const Call& c) {
       return with_output(c, [&](Array& o) {
         const int group = c.group(), shared = o.shape[0] / group;
         Array given = o;
         for (int h = 0; h < o.shape[0]; ++h)
           std::ranges::copy(head_of(given, h), head_of(o, h % group * shared + h / group).begin());
       });
     }},
    {{"last_head_is_first", "the last head is not run; its memory is that of the first", "launcher bug: grid short"},
     "softmax_attention:split_decode falcon1 comba",
     [](const Call& c) {
       return with_output(c, [](Array& o) { std::ranges::copy(head_of(o, 0), head_of(o, o.shape[0] - 1).begin()); });
     }},
    {{"last_tile_of_call_before", "the last tile's rows are left from a call with other values",
      "FA#2481 class: stale memory"},
     "parallax retnet affine_mesanet",
     [](const Call& c) {
       Array before = c.with([](Problem& p) { rotate_heads(p.inputs.at("v")); }).outputs.at("o");
       return with_output(c, [&](Array& o) {
         each_row(o, [&](int h, int t, Values row) {
           if (t >= last_tile(o)) std::ranges::copy(row_of(before, h, t), row.begin());
         });
       });
     }},
    {{"output_truncated", "o is cut off, not rounded", "H100 RZ paths"},
     "softmax_attention deltanet mamba2 value_averaging",
     [](const Call& c) {
       return stored_otherwise(c, [](Array& o, Format format) {
         for (double& x : o.data) x = round_to(x, format, Rounding::toward_zero);
       });
     },
     "in bf16 alone is there anything to cut off. Beside the roundings of the operands, the root mean square of the "
     "error is only 1.1 to 1.5 times the healthy kernel's, within what such a kernel may have. But it leans towards "
     "zero, by 0.34 to 0.54 of its root mean square where the healthy kernel's leans by 0.09 at most: a signed sum "
     "would tell them apart"},
    {{"output_rounded_twice", "o is rounded to fp16, then to its format", "catalogue: fp32 -> fp16 -> bf16"},
     "parallax gla comba affine_linear_attention",
     [](const Call& c) {
       return stored_otherwise(c, [](Array& o, Format format) {
         store_in(o, Format::fp16);
         store_in(o, format);
       });
     }},
    {{"output_through_fp8", "o is stored in fp8 e4m3 and widened", "catalogue"},
     "gated_deltanet lla falcon3a",
     [](const Call& c) { return with_output(c, [](Array& o) { store_in(o, Format::e4m3); }); }},
    {{"state_before_last_token", "final states miss the last token", "launcher bug: speculative token rolled back"},
     "deltanet falcon2a mdn mesanet",
     [](const Call& c) { return with_states_after(c, c.tokens() - 1); }},
    {{"state_before_last_tile", "final states miss the last, ragged tile", "fla#906 class: tails"},
     "gla kda mamba2 affine_mesanet",
     [](const Call& c) { return with_states_after(c, last_tile(c.problem.inputs.at("v"))); }},
    {{"state_written_transposed", "the final state in memory is [V, K] where [K, V] is due, or the other way",
      "launcher bug: a cache with the value dimension first"},
     "mamba2 comba falcon2 mesanet affine_linear_attention",
     [](const Call& c) {
       Answer answer = c.healthy();
       edit(answer.outputs, {"final_state", "final_scatter_vk"}, read_transposed);
       return answer;
     }},
    {{"final_states_exchanged", "final state and momentum in each other's place",
      "launcher bug: two caches of one shape"},
     "mdn",
     [](const Call& c) {
       Answer answer = c.healthy();
       std::swap(answer.outputs.at("final_state"), answer.outputs.at("final_momentum"));
       return answer;
     }},
    {{"half_of_gram_unwritten", "what is symmetric is written above its diagonal alone",
      "launcher bug: syrk's triangle"},
     "mesanet affine_mesanet",
     [](const Call& c) {
       Answer answer = c.healthy();
       edit(answer.outputs, {"final_gram", "final_scatter_kk"},
            [](Array& gram) { each_row(gram, [](int, int i, Values row) { std::fill_n(row.begin(), i, 0.0); }); });
       return answer;
     }},
    {{"final_state_in_bf16", "the final state is stored in bf16", "launcher bug: a state cache in the model's format"},
     "retnet falcon3a falcon2_lite",
     [](const Call& c) {
       Answer answer = c.healthy();
       edit(answer.outputs, {"final_state"}, [](Array& state) { store_in(state, Format::bf16); });
       return answer;
     }},
};

}  // namespace

std::span<const Fault> output_faults() { return of_outputs; }

}  // namespace assay::held_out
