// Recurrences with front ends on the device: a room's own launches behind those of kernels/frontends/plan.hpp. What
// front ends make goes to the room's launches as their inputs do.
#include "kernels/arguments/gpu_rooms.hpp"
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/frontends/plan.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct FrontEndPolicy : StaticPolicy<front_end_only_sites, F> {};

template <class P, int D>
struct FrontEndTiles {
  static constexpr int rows = 64, dim = D;
  using Executor = MmaBlock<P, rows / 16>;
};

Answer run_behind_front_end(const GpuForm& recurrence, const Problem& problem, Format precision, GpuTimes* times) {
  if (!has_front_end(problem)) return recurrence.run(recurrence_of(problem), precision, times);
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using P = FrontEndPolicy<F>;
    const CudaDevice<P> device(shape, nullptr);
    FrontEnd<FrontEndTiles<P, D>, CudaDevice<P>> front_end(device, shape, problem);
    return front_end.answer(recurrence.run(front_end.recurrence(), precision, times));
  });
}

/// Of a room's first form.
template <const GpuRoom& Room>
struct Behind {
  static const GpuForm& recurrence() { return Room.forms[0]; }
  static std::string obstacle(const Problem& problem, Format precision) {
    return recurrence().obstacle(recurrence_of(problem), precision);
  }
  static int tile(const Problem& problem, Format precision) {
    return recurrence().tile(recurrence_of(problem), precision);
  }
  static Answer run(const Problem& problem, Format precision, GpuTimes* times) {
    return run_behind_front_end(recurrence(), problem, precision, times);
  }
  static constexpr GpuForm forms[] = {{"chunkwise", obstacle, tile, run}};
};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom deltanet, gated_deltanet, comba, linear_attention, retnet, mamba2, gla, kda;

#define BEHIND_FRONT_END(name) \
  extern const GpuRoom name##_with_arguments = {#name "+arguments", tile::Behind<name>::forms};
BEHIND_FRONT_END(deltanet)
BEHIND_FRONT_END(gated_deltanet)
BEHIND_FRONT_END(comba)
BEHIND_FRONT_END(linear_attention)
BEHIND_FRONT_END(retnet)
BEHIND_FRONT_END(mamba2)
BEHIND_FRONT_END(gla)
BEHIND_FRONT_END(kda)
#undef BEHIND_FRONT_END
}  // namespace assay::gpu
