#include "kernels/delta/deltanet.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/plans/deltanet.hpp"
#include "reference/core/inputs.hpp"

namespace assay::tile {
namespace {

/// Tiles on the CPU: every block has the columns of the whole dimension. Outputs alone or on the way have the same
/// bits; both are run. `Width`: D by the name that says how wide it is.
template <class T, Size C, Size D, Size Width, bool Doubling>
struct Tiles {
  using Executor = HostBlock<T>;
  using Systems = Executor;
  static constexpr Size tokens = C, dim = D, forward_values = D, backward_values = D;
  static constexpr Size output_values = is_wide(Width) ? Size{0} : D;
  static constexpr int forward_stages = 2, backward_stages = 2;
  static constexpr bool doubling = Doubling;
};

template <bool Doubling>
Answer run(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, Size C, Size D>() {
    return by_width<D>([&]<Size Width>() {
      const HostDevice<T> device(shape, with_narrow_sites(policy));
      return deltanet_plan<Tiles<T, C, D, Width, Doubling>>(device, shape, problem);
    });
  });
}

constexpr Mutant mutants[] = {
    {"beta_of_column", "the triangular system scaled by the beta of the column instead of the row", "catalogue"},
    {"scores_exclude_self", "j < i instead of j <= i in Q X^T", "catalogue"},
    {"initial_state_ignored", "the first chunk starts from zero", "FLA naive delta_rule chunk"},
    {"state_not_carried", "every chunk starts from the initial state", "MDN common-mode reference"},
    {"tail_dropped", "the last, ragged chunk is never run", "aotriton#237"},
    {"scale_forgotten", "o not scaled", "TE#2300 class"},
    {"head_modulo", "value head h reads query and key head h mod H instead of h div group", "fla#1029"},
    {"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    {"inverse_in_bf16", "the triangular inverse substitutes in bf16", "megagdn-pto#74, aiter#4952"},
    {"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 11 line 1"},
    {"adjoint_not_carried", "backward: every chunk starts from the final state's cotangent", "fla class"},
    {"dbeta_of_value", "dbeta takes v instead of v minus what the state reads", "fla#1142 class"},
    {"dk_without_read", "dk without the term of the read X S", "fla#1140 class"},
    {"dq_unscaled", "dq's term of the state without the scale", "GQA"},
    {"solve_gradient_sign", "the gradient of the triangular system added with the wrong sign", "FALCON Alg 8 line 5"},
    {"one_head_of_group", "dq and dk of the first value head of the group only", "GQA"},
};

/// Faults of its own program: the shared ones answer as the other form's.
constexpr Mutant neumann_mutants[] = {
    {"sum_of_powers", "a factor adds I + A where I - A is due: the inverse of I - A", "catalogue"},
    {"last_power_dropped", "the product ends a factor early: paths of half a chunk's writes and more are lost",
     "catalogue"},
};

std::vector<Setting> chunkwise_settings() {
  return {{},
          {.params = {{"alignment", "next_latent"}}},
          {.params = {{"alignment", "next_latent"}, {"sequence_start", false}}},
          {.style = Style::repeated_keys}};
}
std::vector<Setting> neumann_settings() {
  return {{},
          {.params = {{"alignment", "next_latent"}}},
          {.style = Style::repeated_keys},
          {.style = Style::correlated_keys}};
}

constexpr KernelForm forms[] = {
    {.name = "chunkwise",
     .summary = "WY form: one triangular system per chunk of tokens, the state carried from chunk to chunk",
     .sites = deltanet_sites,
     .tiles = chunk_tiles,
     .mutants = mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run<false>,
     .settings = chunkwise_settings},
    {.name = "neumann",
     .summary = "the same with the inverse by doubling: powers of the chunk's system, squared again and again",
     .sites = deltanet_neumann_sites,
     .tiles = chunk_tiles,
     .mutants = neumann_mutants,
     .has_gradients = true,
     .obstacle = key_dim_obstacle,
     .run = run<true>,
     .unstable = "powers of the system are as large as binomials of the chunk where its inverse is not: keys that are "
                 "alike overflow fp16 and cancel in all formats; megagdn-pto#74",
     .settings = neumann_settings},
};

}  // namespace

namespace kernel_rooms {
extern const KernelRoom deltanet = {"deltanet", forms, "delta"};
}

}  // namespace assay::tile
