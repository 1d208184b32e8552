#include "kernels/host/falcon_rule.hpp"

#include "kernels/plans/falcon_rule.hpp"

namespace assay::tile {

Answer falcon_rule(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    const HostDevice<T> device(shape, with_narrow_sites(policy));
    return falcon_rule_plan<HostTiles<T, C, D>>(device, shape, problem);
  });
}

}  // namespace assay::tile
