// Sums that decay with wide keys on the device: instances.
#include "kernels/decayed/gla.hpp"
#include "kernels/decayed/linear_attention.hpp"
#include "kernels/decayed/mamba2.hpp"
#include "kernels/decayed/retnet.hpp"
#include "kernels/gpu/wide_recurrences.hpp"
#include "kernels/plans/gla.hpp"
#include "kernels/plans/linear_attention.hpp"
#include "kernels/plans/mamba2.hpp"
#include "kernels/plans/retnet.hpp"

namespace assay::tile {
namespace {

template <Format F>
using LinearPolicy = StaticPolicy<linear_attention_sites, F>;
template <Format F>
using RetNetPolicy = StaticPolicy<retnet_sites, F>;
template <Format F>
using Mamba2Policy = StaticPolicy<mamba2_sites, F>;
template <Format F>
using GlaPolicy = StaticPolicy<gla_sites, F>;

template <class P>
using SumTiles = WideDeviceTiles<P, 32, 32>;

Answer linear_attention(const Problem& problem, GpuTimes* times) {
  using P = LinearPolicy<Format::bf16>;
  const RecurrenceShape shape(problem);
  const CudaDevice<P> device(shape, times);
  return normalization_of(problem) == Normalization::features
             ? linear_attention_plan<SumTiles<P>, true>(device, shape, problem)
             : linear_attention_plan<SumTiles<P>, false>(device, shape, problem);
}
Answer retnet(const Problem& problem, GpuTimes* times) {
  using P = RetNetPolicy<Format::bf16>;
  const RecurrenceShape shape(problem);
  return retnet_plan<SumTiles<P>>(CudaDevice<P>(shape, times), shape, problem);
}
Answer mamba2(const Problem& problem, GpuTimes* times) {
  using P = Mamba2Policy<Format::bf16>;
  const RecurrenceShape shape(problem);
  return mamba2_plan<SumTiles<P>>(CudaDevice<P>(shape, times), shape, problem);
}
Answer gla(const Problem& problem, GpuTimes* times) {
  using P = GlaPolicy<Format::bf16>;
  const RecurrenceShape shape(problem);
  return gla_plan<WideDeviceTiles<P, 16, 32>>(CudaDevice<P>(shape, times), shape, problem);
}

}  // namespace

const WideGpuForm* wide_sums_on_gpu(std::string_view mechanism) {
  static constexpr WideGpuForm of_linear_attention = {1, linear_attention}, of_retnet = {1, retnet},
                               of_mamba2 = {1, mamba2}, of_gla = {2, gla};
  return mechanism == "linear_attention" ? &of_linear_attention
         : mechanism == "retnet"         ? &of_retnet
         : mechanism == "mamba2"         ? &of_mamba2
         : mechanism == "gla"            ? &of_gla
                                         : nullptr;
}

}  // namespace assay::tile
