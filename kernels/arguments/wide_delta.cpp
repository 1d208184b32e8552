// Delta rules.
#include "kernels/arguments/wide_tiles.hpp"
#include "kernels/host/channel_sums.hpp"
#include "kernels/host/gated_delta.hpp"
#include "kernels/plans/deltanet.hpp"
#include "kernels/plans/kda.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

#ifdef ASSAY_PLANT_FAULTS

RunWide wide_delta_rule(std::string_view) { return nullptr; }

#else

namespace {

/// Outputs on the way, as of 128 channels.
template <class T, int C>
struct WideDeltaNetTiles {
  using Executor = HostBlock<T>;
  using Systems = Executor;
  static constexpr int tokens = C, dim = widest_keys, forward_values = dim, backward_values = dim, output_values = 0,
                       forward_stages = 2, backward_stages = 2;
  static constexpr bool doubling = false;
};

Answer deltanet(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_wide_chunk(policy, tile, [&]<class T, int C>() {
    const Policy narrow = with_narrow_sites(policy);
    return deltanet_plan<WideDeltaNetTiles<T, C> >(HostDevice<T>(shape, narrow), shape, problem);
  });
}
Answer gated_deltanet(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  int lag = 0;
  OptionReader read(problem.params);
  read("error", lag, {{"decayed", 0}, {"undecayed", 1}});
  return with_wide_chunk(policy, tile, [&]<class T, int C>() {
    const HostDevice<T> device(shape, with_narrow_sites(policy));
    return gated_delta_plan<WideTiles<T, C>, false>(device, shape, problem, lag);
  });
}
Answer comba(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_wide_chunk(policy, tile, [&]<class T, int C>() {
    const HostDevice<T> device(shape, with_narrow_sites(policy));
    return gated_delta_plan<WideTiles<T, C>, true>(device, shape, problem, 1);
  });
}
Answer kda(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_wide_chunk(policy, tile, [&]<class T, int C>() {
    const HostDevice<T> device(shape, with_narrow_sites(policy));
    return kda_plan<WideTiles<T, C> >(device, shape, problem);
  });
}

}  // namespace

RunWide wide_delta_rule(std::string_view mechanism) {
  return mechanism == "deltanet"         ? deltanet
         : mechanism == "gated_deltanet" ? gated_deltanet
         : mechanism == "comba"          ? comba
         : mechanism == "kda"            ? kda
                                         : nullptr;
}

#endif

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
