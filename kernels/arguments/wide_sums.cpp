// Sums that decay.
#include "kernels/arguments/wide_tiles.hpp"
#include "kernels/host/channel_sums.hpp"
#include "kernels/host/decayed_sums.hpp"
#include "kernels/host/normalized_read.hpp"
#include "kernels/plans/gla.hpp"
#include "kernels/plans/linear_attention.hpp"
#include "kernels/plans/mamba2.hpp"
#include "kernels/plans/retnet.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

#ifdef ASSAY_PLANT_FAULTS

RunWide wide_sums(std::string_view) { return nullptr; }

#else

namespace {

Answer linear_attention(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_wide_chunk(policy, tile, [&]<class T, int C>() {
    const HostDevice<T> device(shape, with_narrow_state(policy));
    return normalization_of(problem) == Normalization::features
               ? linear_attention_plan<WideTiles<T, C>, true>(device, shape, problem)
               : linear_attention_plan<WideTiles<T, C>, false>(device, shape, problem);
  });
}
Answer retnet(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_wide_chunk(policy, tile, [&]<class T, int C>() {
    const HostDevice<T> device(shape, with_narrow_state(policy));
    return retnet_plan<WideTiles<T, C> >(device, shape, problem);
  });
}
Answer mamba2(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_wide_chunk(policy, tile, [&]<class T, int C>() {
    const HostDevice<T> device(shape, with_narrow_state(policy));
    return mamba2_plan<WideTiles<T, C> >(device, shape, problem);
  });
}
Answer gla(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_wide_chunk(policy, tile, [&]<class T, int C>() {
    const HostDevice<T> device(shape, with_narrow_state(policy));
    return gla_plan<WideTiles<T, C> >(device, shape, problem);
  });
}

}  // namespace

RunWide wide_sums(std::string_view mechanism) {
  return mechanism == "linear_attention" ? linear_attention
         : mechanism == "retnet"         ? retnet
         : mechanism == "mamba2"         ? mamba2
         : mechanism == "gla"            ? gla
                                         : nullptr;
}

#endif

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
