#include "kernels/uniform/value_averaging.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/launches/uniform_shape.hpp"
#include "kernels/plans/value_averaging.hpp"

namespace assay::tile {
namespace {

template <class T, Size C, Size D>
struct Tiles {
  using Executor = HostBlock<T>;
  static constexpr Size tokens = C, values = D;
};

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape = uniform_shape(problem);
  const Policy run = with_narrow_state(policy);
  return with_chunk(shape, run, tile, [&]<class T, Size C, Size D>() {
    return value_averaging_plan<Tiles<T, C, D>>(HostDevice<T>(shape, run), shape, problem);
  });
}

std::string no_obstacle(const Problem&) { return ""; }

constexpr std::array mutants{
    Mutant{"own_value_unread", "j < i instead of j <= i", "catalogue"},
    Mutant{"counts_from_two", "the sum up to i by i + 1", "catalogue"},
    Mutant{"sum_not_carried", "every chunk starts from the sum of the one before", "MDN common-mode reference"},
    Mutant{"state_in_bf16", "the sum is carried in bf16", "triton#7216 class"},
    Mutant{"dv_unweighted", "do_i enters dv of its own chunk undivided", "catalogue"},
    Mutant{"dv_without_own_row", "dv_j misses the read at j", "catalogue"},
    Mutant{"dv_without_later_chunks", "dv without the term of the reads in later chunks", "fla#1140 class"},
};

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "chunks in parallel: their sums, one pass over them, what every token reads",
     .sites = value_averaging_sites,
     .tiles = chunk_tiles,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = no_obstacle,
     .run = run_chunkwise},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom value_averaging = {"value_averaging", forms, "uniform"};
}

}  // namespace assay::tile
