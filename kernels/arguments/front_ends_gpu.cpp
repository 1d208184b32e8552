// Recurrences with front ends on the device: a room's own launches behind those of kernels/frontends/plan.hpp. What
// front ends make goes to the room's launches as their inputs do.
#include "kernels/frontends/plan.hpp"
#include "kernels/gpu/argument_rooms.hpp"
#include "kernels/gpu/cuda_device.hpp"
#include "kernels/gpu/wide_recurrences.hpp"

namespace assay::tile {
namespace {

template <Format F>
using FrontEndPolicy = StaticPolicy<front_end_only_sites, F>;

template <class P, int D>
struct FrontEndTiles {
  static constexpr int rows = 64, dim = D;
  using Executor = MmaBlock<P, rows / 16>;
};

/// Runs `recurrence` on the problem behind its front end, if it has one.
template <class Recurrence>
Answer run_behind_front_end(const Problem& problem, Format precision, Recurrence recurrence) {
  if (!has_front_end(problem)) return recurrence(recurrence_of(problem));
  const RecurrenceShape shape(problem);
  const auto with_columns = [&]<Format F, int D>() {
    using P = FrontEndPolicy<F>;
    const CudaDevice<P> device(shape, nullptr);
    FrontEnd<FrontEndTiles<P, D>, CudaDevice<P>> front_end(device, shape, problem);
    return front_end.answer(recurrence(front_end.recurrence()));
  };
  if (shape.key_dim > max_head_dim) return with_columns.template operator()<Format::bf16, widest_device_keys>();
  return with_instance(precision, shape.key_dim, with_columns);
}

/// A room's first form behind a front end, or the wide form of keys and values that it is not compiled for.
template <const GpuRoom& Room>
struct Behind {
  static const GpuForm& recurrence() { return Room.forms[0]; }
  static const WideGpuForm& wide() { return *Room.wide; }
  static bool is_narrow(const Problem& problem, Format precision) {
    return recurrence().obstacle(recurrence_of(problem), precision).empty();
  }
  /// Rows are loaded 16 bytes at a time and stored 8 numbers at a time.
  static std::string obstacle(const Problem& problem, Format precision) {
    const std::string narrow = recurrence().obstacle(recurrence_of(problem), precision);
    if (narrow.empty() || precision != Format::bf16) return narrow;
    const RecurrenceShape shape(problem);
    for (const int d : {shape.key_dim, shape.value_dim}) {
      if (d % 8 != 0) return text("device kernels with arguments take K and V of multiples of 8, got ", d);
      if (d > widest_device_keys)
        return text("device kernels with arguments are compiled for K and V of up to ", widest_device_keys, ", got ",
                    d);
    }
    return "";
  }
  static int tile(const Problem& problem, Format precision) {
    return is_narrow(problem, precision) ? recurrence().tile(recurrence_of(problem), precision) : wide().tile;
  }
  static Answer run(const Problem& problem, Format precision, GpuTimes* times) {
    const bool narrow = is_narrow(problem, precision);
    return run_behind_front_end(problem, precision, [&](const Problem& own) {
      return narrow ? recurrence().run(own, precision, times) : wide().run(own, times);
    });
  }
  static constexpr GpuForm forms[] = {{"chunkwise", obstacle, tile, run}};
};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
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
}  // namespace assay::on_gpu
