#include "tools/gpu/wide_emulation.hpp"

#include "kernels/frontends/plan.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/plans/deltanet.hpp"
#include "kernels/plans/linear_attention.hpp"
#include "kernels/plans/mamba2.hpp"
#include "kernels/plans/retnet.hpp"
#include "reference/core/inputs.hpp"

namespace assay {
namespace tile {
namespace {

/// As WideDeviceTiles<P, 32, 32>.
template <class T, Size C, Size D>
struct Blocks : HostTiles<T, C, D> {
  static constexpr Size values = 32;
};
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

/// recurrence(device, shape, problem) by the sizes of the run, behind the front end if there is one.
template <class Recurrence>
Answer behind_front_end(const Problem& problem, const Policy& policy, int tile, Recurrence recurrence) {
  const RecurrenceShape whole(problem);
  return with_chunk(whole, policy, tile, [&]<class T, Size C, Size D>() {
    const auto answer = [&](const Problem& own) {
      const RecurrenceShape shape(own);
      return recurrence.template operator()<T, C, D>(HostDevice<T>(shape, policy), shape, own);
    };
    if (!has_front_end(problem)) return answer(recurrence_of(problem));
    const HostDevice<T> device(whole, policy);
    FrontEnd<FrontEndTiles<T, D>, HostDevice<T>> front_end(device, whole, problem);
    return front_end.answer(answer(front_end.recurrence()));
  });
}

Answer deltanet(const Problem& problem, const Policy& policy, int tile) {
  return behind_front_end(problem, policy, tile,
                          []<class T, Size C, Size D>(const auto& device, const auto& shape, const Problem& own) {
                            return deltanet_plan<DeltaNetBlocks<T, C, D>>(device, shape, own);
                          });
}
Answer linear_attention(const Problem& problem, const Policy& policy, int tile) {
  return behind_front_end(problem, policy, tile,
                          []<class T, Size C, Size D>(const auto& device, const auto& shape, const Problem& own) {
                            return normalization_of(own) == Normalization::features
                                       ? linear_attention_plan<Blocks<T, C, D>, true>(device, shape, own)
                                       : linear_attention_plan<Blocks<T, C, D>, false>(device, shape, own);
                          });
}
Answer retnet(const Problem& problem, const Policy& policy, int tile) {
  return behind_front_end(problem, policy, tile,
                          []<class T, Size C, Size D>(const auto& device, const auto& shape, const Problem& own) {
                            return retnet_plan<Blocks<T, C, D>>(device, shape, own);
                          });
}
Answer mamba2(const Problem& problem, const Policy& policy, int tile) {
  return behind_front_end(problem, policy, tile,
                          []<class T, Size C, Size D>(const auto& device, const auto& shape, const Problem& own) {
                            return mamba2_plan<Blocks<T, C, D>>(device, shape, own);
                          });
}

}  // namespace
}  // namespace tile

RunInBlocks in_blocks_of_wide_heads(std::string_view mechanism) {
  return mechanism == "deltanet"           ? &tile::deltanet
         : mechanism == "linear_attention" ? &tile::linear_attention
         : mechanism == "retnet"           ? &tile::retnet
         : mechanism == "mamba2"           ? &tile::mamba2
                                           : nullptr;
}

}  // namespace assay
