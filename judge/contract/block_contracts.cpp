// Contracts of kernels whose operands are multiples of scales of blocks. Each says what its source rounds, and
// `sources` names the lines that say so.
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "judge/contract/contract.hpp"

namespace assay {
namespace {

constexpr int whole = Blocks::all;

Contract::Rule in_blocks(const char* site, Format format, const Blocks& blocks) {
  return {.site = site, .format = format, .fixed = true, .blocks = blocks};
}
/// Weights times 2^8, whatever the row's largest is.
Contract::Rule weights_in_e4m3() { return {.site = "P", .format = Format::e4m3, .fixed = true}; }

/// Statistics of rows and sums, which tensor cores cut off.
Contract with_sums_in_fp32(Contract contract) {
  for (const char* site : {"S", "m", "l", "O"}) contract.rules.push_back({.site = site, .fixed = true});
  contract.follows = true;
  contract.accumulation.assign(std::begin(all_accumulations), std::end(all_accumulations));
  return contract;
}

/// What a kernel of SageAttention 1 and 2 allows: queries and keys in int8, keys less their mean, and then `values`.
Contract sage_attention(const char* name, std::string summary, Blocks q, Blocks k, std::vector<Contract::Rule> values,
                        const std::vector<std::string>& sources) {
  q.cols = k.cols = whole, k.centred = true;
  Contract contract = with_sums_in_fp32({.name = name,
                                         .summary = "SageAttention" + std::move(summary) + ". Forward only",
                                         .rules = {in_blocks("Q", Format::int8, q), in_blocks("K", Format::int8, k)}});
  for (Contract::Rule& rule : values) contract.rules.push_back(std::move(rule));
  for (const std::string& source : sources) contract.sources.push_back("thu-ml/SageAttention@d1a57a5 " + source);
  return contract;
}
/// Values in e4m3 with a scale for each channel, and weights in e4m3.
std::vector<Contract::Rule> values_in_e4m3() {
  return {in_blocks("V", Format::e4m3, {.rows = whole, .cols = 1}), weights_in_e4m3()};
}
/// Values and weights in fp16, whatever the precision is, and those in `more`.
std::vector<Contract::Rule> values_in_fp16(const char* more) {
  std::vector<Contract::Rule> rules;
  for (const char* site : {"V", "P", more}) rules.push_back({.site = site, .format = Format::fp16, .fixed = true});
  return rules;
}

std::vector<Contract> sage_attentions() {
  return {
      // Sums of 64 keys are in fp16 and added to sums in fp32.
      sage_attention("sage_attention",
                     " in Triton: queries and keys less their mean in int8, with a scale for 128 queries and for 64 "
                     "keys; values and weights in fp16, and sums of their products",
                     {.rows = 128}, {.rows = 64}, values_in_fp16("O"),
                     {"sageattention/core.py:280,297-298,304", "sageattention/triton/quant_per_block.py:42-45,49,54",
                      "sageattention/triton/attn_qk_int8_per_block.py:45,57-58,66-68",
                      "sageattention/triton/attn_qk_int8_per_block_causal.py:41,50-51,59-61"}),
      sage_attention(
          "sage_attention2",
          "2 on Hopper: queries and keys less their mean in int8, with a scale for every eighth query of 16 "
          "and for the keys that a thread has of 128; values in e4m3 with a scale for each channel; weights "
          "in e4m3",
          {.rows = 16, .modulo = 8}, {.rows = 128, .modulo = 8, .run = 2}, values_in_e4m3(),
          {"sageattention/core.py:949,969,983", "sageattention/triton/quant_per_thread.py:32,41,75-76,89,159",
           "csrc/qattn/qk_int_sv_f8_cuda_sm90.cu:182,193,263,303,308,317-323,353,402,505",
           "csrc/qattn/attn_utils.cuh:30,379,388,450", "csrc/fused/fused.cu:390,393,399,418"}),
      sage_attention("sage_attention2_warp",
                     "2 on Hopper with qk_quant_gran=\"per_warp\": as sage_attention2, with a scale for 16 queries and "
                     "for 128 keys",
                     {.rows = 16}, {.rows = 128}, values_in_e4m3(),
                     {"sageattention/core.py:967", "csrc/fused/fused.cu:124,147-180",
                      "csrc/qattn/qk_int_sv_f8_cuda_sm90.cu:177,188"}),
      sage_attention("sage_attention2_ada",
                     "2 on Ada: as sage_attention2, with a scale for every eighth query of 32 and for the keys that a "
                     "thread has of 64",
                     {.rows = 32, .modulo = 8}, {.rows = 64, .modulo = 8, .run = 2}, values_in_e4m3(),
                     {"sageattention/core.py:793,805-809", "sageattention/triton/quant_per_thread.py:32,41,75-76,89"}),
      // The row sum is of the weights that enter the product.
      sage_attention("sage_attention2_fp16",
                     "2 with values in fp16: queries and keys as sage_attention2_ada; values and weights in fp16",
                     {.rows = 32, .modulo = 8}, {.rows = 64, .modulo = 8, .run = 2}, values_in_fp16("p"),
                     {"sageattention/core.py:604,613-614", "csrc/qattn/qk_int_sv_f16_cuda_sm80.cu:316-320,814"})};
}

Contract sage_attention3() {
  const Blocks of_channels = {.rows = 1, .cols = 16, .scale = ScaleFormat::e4m3};
  Blocks of_keys = of_channels, of_weights = of_channels;
  of_keys.centred = true;
  // Scales of weights are rounded after the weights have been divided by them.
  of_weights.two_level = of_weights.late = true;
  return with_sums_in_fp32(
      {.name = "sage_attention3",
       .summary = "SageAttention3: e2m1 with a scale in e4m3 for 16 channels of a query and of a key less the mean of "
                  "keys, for 16 values of a channel, and for 16 weights of a row, whose scales are multiples of one of "
                  "the row. Forward only",
       .rules = {in_blocks("Q", Format::e2m1, of_channels), in_blocks("K", Format::e2m1, of_keys),
                 in_blocks("V", Format::e2m1, {.rows = 16, .cols = 1, .scale = ScaleFormat::e4m3}),
                 in_blocks("P", Format::e2m1, of_weights)},
       .sources = {
           "thu-ml/SageAttention@d1a57a5 sageattention3_blackwell/sageattn3/api.py:84,95-116",
           "thu-ml/SageAttention@d1a57a5 "
           "sageattention3_blackwell/sageattn3/quantization/fp4_quantization_4d.cu:196-218",
           "thu-ml/SageAttention@d1a57a5 sageattention3_blackwell/sageattn3/blackwell/softmax_fused.h:32-34,125-135",
           "thu-ml/SageAttention@d1a57a5 sageattention3_blackwell/sageattn3/blackwell/mainloop_tma_ws.h:750-764"}});
}

Contract flash_attention3_fp8() {
  const Blocks of_head = {.rows = whole, .cols = whole};
  return with_sums_in_fp32(
      {.name = "flash_attention3_fp8",
       .summary = "FlashAttention-3 in fp8: queries, keys and values in e4m3 with a scale for each head (q_descale, "
                  "k_descale, v_descale), weights in e4m3. Forward only",
       .rules = {in_blocks("Q", Format::e4m3, of_head), in_blocks("K", Format::e4m3, of_head),
                 in_blocks("V", Format::e4m3, of_head), weights_in_e4m3()},
       .sources = {"Dao-AILab/flash-attention@0251105 hopper/flash_api.cpp:694-696,1116-1132",
                   "Dao-AILab/flash-attention@0251105 hopper/softmax.h:67-79,146",
                   "Dao-AILab/flash-attention@0251105 hopper/flash_fwd_kernel_sm90.h:412-416",
                   "Dao-AILab/flash-attention@0251105 hopper/mainloop_fwd_sm90_tma_gmma_ws.hpp:1159,1202,1241"}});
}

Contract flash_mla_fp8() {
  const Blocks of_channels = {.rows = 1, .cols = 128, .leading = 512, .scale = ScaleFormat::e8m0};
  return with_sums_in_fp32(
      {.name = "flash_mla_fp8",
       .summary =
           "FlashMLA on a cache in fp8: the first 512 channels of keys, which are the values, in e4m3 with a "
           "power of two for each 128 of them; what is behind, queries and weights in the precision. Forward only",
       .rules = {in_blocks("K", Format::e4m3, of_channels), in_blocks("V", Format::e4m3, of_channels)},
       .sources = {"deepseek-ai/FlashMLA@9241ae3 tests/quant.py:13,17-18,37-52",
                   "deepseek-ai/FlashMLA@9241ae3 README.md:116-121"}});
}

}  // namespace

std::vector<Contract> block_contracts() {
  std::vector<Contract> contracts = sage_attentions();
  for (Contract& contract : std::vector{sage_attention3(), flash_attention3_fp8(), flash_mla_fp8()})
    contracts.push_back(std::move(contract));
  return contracts;
}

}  // namespace assay
