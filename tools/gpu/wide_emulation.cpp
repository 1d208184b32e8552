#include "tools/gpu/wide_emulation.hpp"

#include "kernels/frontends/plan.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/plans/deltanet.hpp"
#include "reference/core/inputs.hpp"

namespace assay {
namespace tile {
namespace {

template <class T, Size C, Size D>
struct DeltaNetBlocks {
  using Executor = HostBlock<T>;
  using Systems = Executor;
  static constexpr Size tokens = C, dim = D, forward_values = 16, output_values = 32, backward_values = 16;
  static constexpr int forward_stages = 2, backward_stages = 2;
  static constexpr bool doubling = false;
};
template <class T, Size D>
struct FrontEndTiles {
  using Executor = HostBlock<T>;
  static constexpr int rows = 64;
  static constexpr Size dim = D;
};

Answer deltanet(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape whole(problem);
  return with_chunk(whole, policy, tile, [&]<class T, Size C, Size D>() {
    const auto answer = [&](const Problem& own) {
      const RecurrenceShape shape(own);
      return deltanet_plan<DeltaNetBlocks<T, C, D>>(HostDevice<T>(shape, policy), shape, own);
    };
    if (!has_front_end(problem)) return answer(recurrence_of(problem));
    const HostDevice<T> device(whole, policy);
    FrontEnd<FrontEndTiles<T, D>, HostDevice<T>> front_end(device, whole, problem);
    return front_end.answer(answer(front_end.recurrence()));
  });
}

}  // namespace
}  // namespace tile

RunInBlocks in_blocks_of_wide_heads(std::string_view mechanism) {
  return mechanism == "deltanet" ? &tile::deltanet : nullptr;
}

}  // namespace assay
