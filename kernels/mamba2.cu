// Mamba-2 on the device: launches and instances.
#include "kernels/cuda/decayed_sums.cuh"
#include "kernels/mamba2.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct SumPolicy : StaticPolicy<mamba2_sites, F> {};

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using P = SumPolicy<F>;
    const auto log_decay = upload<P, "decay">(problem.inputs, "log_decay", shape.heads, shape.len, 1);
    Array dlog_decay;
    Answer answer = decayed_answer<P, F, D>(shape, problem, mamba2_sites, log_decay, true, times, dlog_decay);
    if (!problem.cotangents.empty()) answer.gradients["log_decay"] = dlog_decay;
    return answer;
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom mamba2 = {"mamba2", tile::forms};
}
