// Delta rules with wide keys on the device: instances.
#include "kernels/delta/comba.hpp"
#include "kernels/delta/gated_deltanet.hpp"
#include "kernels/gpu/wide_recurrences.hpp"
#include "kernels/plans/deltanet.hpp"
#include "kernels/plans/gated_delta.hpp"
#include "kernels/plans/kda.hpp"

namespace assay::tile {
namespace {

template <Format F>
using DeltaNetPolicy = StaticPolicy<deltanet_sites, F>;
template <Format F>
using GatedDeltaNetPolicy = StaticPolicy<gated_deltanet_sites, F>;
template <Format F>
using CombaPolicy = StaticPolicy<comba_sites, F>;
template <Format F>
using KdaPolicy = StaticPolicy<kda_sites, F>;

template <class P>
struct DeltaNetTiles : WideDeviceTiles<P, 32, 16> {
  using Systems = typename WideDeviceTiles<P, 32, 16>::Executor;
  static constexpr int forward_values = 16, output_values = 32, backward_values = 16, forward_stages = 2,
                       backward_stages = 2;
  static constexpr bool doubling = false;
};

Answer deltanet(const Problem& problem, GpuTimes* times) {
  using P = DeltaNetPolicy<Format::bf16>;
  const RecurrenceShape shape(problem);
  return deltanet_plan<DeltaNetTiles<P>>(CudaDevice<P>(shape, times), shape, problem);
}
Answer gated_deltanet(const Problem& problem, GpuTimes* times) {
  using P = GatedDeltaNetPolicy<Format::bf16>;
  const RecurrenceShape shape(problem);
  int lag = 0;
  OptionReader read(problem.params);
  read("error", lag, {{"decayed", 0}, {"undecayed", 1}});
  return gated_delta_plan<WideDeviceTiles<P, 32, 32>, false>(CudaDevice<P>(shape, times), shape, problem, lag);
}
Answer comba(const Problem& problem, GpuTimes* times) {
  using P = CombaPolicy<Format::bf16>;
  const RecurrenceShape shape(problem);
  return gated_delta_plan<WideDeviceTiles<P, 32, 32>, true>(CudaDevice<P>(shape, times), shape, problem, 1);
}
Answer kda(const Problem& problem, GpuTimes* times) {
  using P = KdaPolicy<Format::bf16>;
  const RecurrenceShape shape(problem);
  return kda_plan<WideDeviceTiles<P, 16, 32>>(CudaDevice<P>(shape, times), shape, problem);
}

}  // namespace

const WideGpuForm* wide_delta_rule_on_gpu(std::string_view mechanism) {
  static constexpr WideGpuForm of_deltanet = {1, deltanet}, of_gated_deltanet = {1, gated_deltanet},
                               of_comba = {1, comba}, of_kda = {2, kda};
  return mechanism == "deltanet"         ? &of_deltanet
         : mechanism == "gated_deltanet" ? &of_gated_deltanet
         : mechanism == "comba"          ? &of_comba
         : mechanism == "kda"            ? &of_kda
                                         : nullptr;
}

}  // namespace assay::tile
