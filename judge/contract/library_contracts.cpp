// Contracts of libraries. Each says what its source rounds, and `sources` names the lines that say so. bf16 stands for
// the precision of the case: Contract::in.
#include "judge/contract/contract.hpp"

namespace assay {
namespace {

constexpr Format bf16 = Format::bf16, fp32 = Format::fp32;
constexpr bool optional = false;

/// Tensor cores, which cut off, and units of fp32, in whatever order.
const std::vector<Accumulation> any_sums = {Accumulation::exact_blocks, Accumulation::cut_off,
                                            Accumulation::one_by_one};

/// The tangent of a soft-cap by tanh.approx.f32, which PTX promises to 2^-11: a rounding to as many bits.
const Contract::Rule approximate_tanh = {.site = "tanh", .format = Format::tf32, .required = optional, .fixed = true};

/// The gradients of what query heads share are summed by the library, of stored parts.
constexpr bool parts_stored = true;

Contract flash_attention() {
  return {.name = "flash_attention",
          .summary =
              "FlashAttention-2 and 3: the weights (P) and the gradients of the scores (dS) in the precision for the "
              "products, statistics and sums in fp32, D from the o that was stored; gradients of keys and values (dK, "
              "dV) stored for every query head; the tangent of a soft-cap (tanh) to 11 bits",
          .rules = {{"P", bf16},
                    {"S", fp32},
                    {"m", fp32},
                    {"l", fp32},
                    {"O", fp32},
                    {"lse", fp32, optional},
                    {"Oin", bf16, optional, "", true},
                    {"delta", fp32, optional},
                    {"dS", bf16, optional},
                    {"dQ", fp32, optional},
                    {"dK", fp32, optional},
                    {"dV", fp32, optional},
                    approximate_tanh},
          .follows = true,
          .accumulation = any_sums,
          .per_query_head = parts_stored,
          .sources = {"Dao-AILab/flash-attention@0251105 csrc/flash_attn/src/flash_fwd_kernel.h:354,416,443",
                      "Dao-AILab/flash-attention@0251105 csrc/flash_attn/src/flash_bwd_kernel.h:436,549,624",
                      "Dao-AILab/flash-attention@0251105 csrc/flash_attn/src/flash_bwd_preprocess_kernel.h:36,131",
                      "Dao-AILab/flash-attention@0251105 csrc/flash_attn/flash_api.cpp:937,1003",
                      "Dao-AILab/flash-attention@0251105 hopper/mainloop_fwd_sm90_tma_gmma_ws.hpp:1159,1202",
                      "Dao-AILab/flash-attention@0251105 csrc/flash_attn/src/utils.h:399"}};
}

Contract flashinfer() {
  return {.name = "flashinfer",
          .summary =
              "FlashInfer: the weights (P) in the precision, before their row sum is taken, too; scores, o and the "
              "states of split keys in fp32, the tangent of a soft-cap (tanh) to 11 bits. Forward only",
          .rules = {{"p", bf16, optional},
                    {"P", bf16},
                    {"S", fp32},
                    {"m", fp32},
                    {"l", fp32},
                    {"O", fp32},
                    {"Opart", fp32, optional},
                    approximate_tanh},
          .follows = true,
          .accumulation = any_sums,
          .sources = {"flashinfer-ai/flashinfer@fb28d72 include/flashinfer/attention/prefill.cuh:1704-1724",
                      "flashinfer-ai/flashinfer@fb28d72 include/flashinfer/attention/decode.cuh:106-143",
                      "flashinfer-ai/flashinfer@fb28d72 include/flashinfer/attention/hopper/mainloop_mma.cuh:175,225",
                      "flashinfer-ai/flashinfer@fb28d72 include/flashinfer/math.cuh:247-250",
                      "flashinfer-ai/flashinfer@fb28d72 include/flashinfer/attention/variants.cuh:73"}};
}

Contract torch_sdpa() {
  return {.name = "torch_sdpa",
          .summary =
              "torch's scaled_dot_product_attention (flash, efficient, math; CPU and CUDA): the weights (P) and the "
              "gradients of the scores (dS) in the precision, sums in fp32; gradients of keys and values (dK, dV) "
              "stored for every query head and, on the CPU, for every block of queries",
          .rules = {{"P", bf16},
                    {"S", fp32},
                    {"m", fp32},
                    {"l", fp32},
                    {"O", fp32},
                    {"lse", fp32, optional},
                    {"Oin", bf16, optional, "", true},
                    {"delta", fp32, optional},
                    {"dS", bf16, optional},
                    {"dK", bf16, optional, "", true},
                    {"dV", bf16, optional, "", true}},
          .follows = true,
          .of_fp32 = fp32,
          .accumulation = any_sums,
          .per_query_head = parts_stored,
          .sources = {
              "torch 2.15.0 ATen/native/transformers/cuda/mem_eff_attention/kernel_forward.h:99-106,939-940,1230-1343",
              ("torch 2.15.0 ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h:233-235,614-622,1689,"
               "2009,2014,2540-2605"),
              ("torch 2.15.0 ATen/native/transformers/cuda/mem_eff_attention/gemm/mma_from_smem.h:1539,1549,"
               "1760,1907"),
              ("torch 2.6.0 aten/src/ATen/native/cpu/FlashAttentionKernel.cpp:98-100,748-752,802,818-823,980-985,"
               "1065-1087,1121-1125,1138-1160"),
              "torch 2.6.0 aten/src/ATen/native/transformers/attention.cpp:649-650,812-824,858-881"}};
}

Contract parallax() {
  return {.name = "parallax",
          .summary =
              "fla's parallel_parallax: both weights, and the gradients of both scores, in the precision; the "
              "mean of the values (vbar) stored in it for the backward; statistics and sums in fp32",
          .rules = {{"P1", bf16},
                    {"P2", bf16},
                    {"S", fp32},
                    {"T", fp32},
                    {"O1", fp32},
                    {"O2", fp32},
                    {"vbar", bf16, optional, "", true},
                    {"Oin", bf16, optional, "", true},
                    {"dS", bf16, optional},
                    {"dT", bf16, optional}},
          .follows = true,
          .of_fp32 = Format::tf32,
          .accumulation = any_sums,
          .per_query_head = parts_stored,
          .sources = {"fla-core 0.6.0 fla/ops/parallax/parallel.py:133-134,202-203,249-251,374-375,560-561,665",
                      "fla-core 0.6.0 fla/ops/parallax/decode.py:115-116,126"}};
}

Contract mdn() {
  return {.name = "mdn",
          .summary = "fla's chunk_momentum_delta_rule: keys times their step sizes in the precision, all else in fp32",
          .rules = {{"M0", fp32}, {"state", fp32}},
          .follows = true,
          .of_fp32 = fp32,
          .accumulation = {Accumulation::exact_blocks, Accumulation::one_by_one},
          .factors = {{"k"}},
          .sources = {"fla-core 0.6.0 fla/ops/momentum_delta_rule/chunk.py:28-29,42",
                      "fla-core 0.6.0 fla/ops/momentum_delta_rule/naive.py:96-99"}};
}

Contract mamba_ssm() {
  return {.name = "mamba_ssm",
          .summary =
              "Mamba-2's ssd kernels: states in fp32 and in the precision for the products; keys with their decays, "
              "not values, are rounded",
          .rules = {{"state", fp32}, {"Sc", bf16}, {"Yc", bf16}, {"Pc", bf16}, {"decay", fp32}},
          .follows = true,
          .of_fp32 = Format::tf32,
          .accumulation = any_sums,
          .factors = {{"k"}},
          .sources = {"state-spaces/mamba@e9594ce mamba_ssm/ops/triton/ssd_chunk_state.py:242-254,333,462",
                      "state-spaces/mamba@e9594ce mamba_ssm/ops/triton/ssd_chunk_scan.py:115-118,150,500,591,707",
                      "state-spaces/mamba@e9594ce mamba_ssm/ops/triton/ssd_combined.py:169,212,382,443,467-468"}};
}

Contract fla() {
  return {.name = "fla",
          .summary =
              "flash-linear-attention: the state sums in fp32 and is stored in the precision, and so are the "
              "inverse, the values of the rule, and the parts of gradients; queries, keys and values times "
              "their factors are rounded",
          // It has kernels of all families: what a form lacks is not asked of it.
          .rules = {{"state", fp32, optional},
                    {"Sc", bf16, optional},
                    {"P", bf16, optional},
                    {"dS", bf16, optional, "m"},
                    {"H", bf16, optional},
                    {"Tc", bf16, optional},
                    {"W", bf16, optional, "Uc"},
                    {"U", bf16, optional, "Uc"},
                    {"dU", bf16, optional, "Uc"},
                    // Mesa stores its solutions: their products are operands.
                    {"F", bf16, optional, "xunit"},
                    {"E", bf16, optional, "xunit"},
                    {"dlambda", bf16, optional, "xunit"},
                    {"dK", bf16, optional, "xunit", true},
                    {"part", bf16, optional, "", true}},
          .follows = true,
          .of_fp32 = Format::tf32,
          .accumulation = any_sums,
          .factors = {{"q", "Sc"}, {"k", "Uc"}, {"v", "Uc"}},
          .sources = {"fla-core 0.6.0 fla/ops/common/chunk_o.py:154,277-283,311-342,425,446",
                      "fla-core 0.6.0 fla/ops/common/chunk_h.py:126-151,265-299",
                      "fla-core 0.6.0 fla/ops/common/chunk_delta_h.py:185-243,545-600",
                      "fla-core 0.6.0 fla/ops/gated_delta_rule/wy_fast.py:88-106,190-214",
                      "fla-core 0.6.0 fla/ops/delta_rule/wy_fast.py:80-92,158-181",
                      "fla-core 0.6.0 fla/ops/utils/solve_tril.py:95,181-186,336-345",
                      "fla-core 0.6.0 fla/ops/gla/chunk.py:438-453,748-751,862-863",
                      "fla-core 0.6.0 fla/ops/simple_gla/parallel.py:106,137,229",
                      "fla-core 0.6.0 fla/ops/attn/parallel.py:132,309,458,464",
                      "fla-core 0.6.0 fla/ops/mesa_net/chunk_cg_solver_fwd.py:26-27"}};
}

}  // namespace

std::vector<Contract> library_contracts() {
  return {flash_attention(), flashinfer(), torch_sdpa(), fla(), parallax(), mdn(), mamba_ssm()};
}

}  // namespace assay
