#pragma once
// FALCON's rooms on the CPU executor: what all of them read, and the rule with one step size per token, the programs of
// kernels/programs/falcon_gain.hpp around those of kernels/programs/gated_delta.hpp, compiled once for the rooms whose
// arithmetic it is.
#include <array>

#include "kernels/launches/gated_delta_launch.hpp"
#include "kernels/programs/falcon_gain.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// As the problem's parameters say.
struct FalconOptions {
  bool next_latent = true, sequence_start = true;
  Coupling coupling = Coupling::raw;

  explicit FalconOptions(const Problem& problem) {
    OptionReader read(problem.params);
    read("alignment", next_latent, {{"same_step", false}, {"next_latent", true}});
    read("sequence_start", sequence_start);
    read("ridge_coupling", coupling, {{"live", Coupling::live}, {"detach", Coupling::detach}});
  }
};

/// The keys of a problem on their way to features and back, in the executor's scalar.
template <class T>
struct FalconKeys {
  FalconOptions options;
  HostArray<T> carry;

  FalconKeys(const RecurrenceShape& shape, const Problem& problem);

  /// The first row that writes.
  int first() const { return options.next_latent && options.sequence_start ? 1 : 0; }
  /// What the keys write: themselves, or one row later.
  HostArray<T> features(HostArray<T> keys);
  /// gradients["k"], that of the features, becomes that of the keys, next to the carried key's.
  void of_keys(const Problem& problem, HostArray<T> keys, Arrays& gradients);
};
extern template struct FalconKeys<double>;
extern template struct FalconKeys<long double>;

/// A parameter that is a number, 0 if it is missing, rounded as a gate at the site "lambda".
template <class T>
T rounded_gate(const Problem& problem, const Policy& policy, std::string_view name) {
  T x = parameter(problem, name, T(0));
  HostBlock<T>(policy, ~0ULL).round("lambda", &x, 1);
  return x;
}

/// And what the gains read besides the steps.
template <class T>
struct FalconRows : FalconKeys<T> {
  HostArray<T> lambda, active;  ///< active: 1 for every token that writes
  T eps, floor;                 ///< floor: 0 if there is none

  FalconRows(const RecurrenceShape& shape, const Problem& problem, const Policy& policy);
};
extern template struct FalconRows<double>;
extern template struct FalconRows<long double>;

/// Throws InputError where a decay of these is 0: chunkwise gradients go through its logarithm.
template <class T>
void require_open(const HostArray<T>& decays) {
  for (std::size_t i = 0; i < decays.data.size(); ++i)
    require(decays.data[i] != 0, "the decay of token ", i % static_cast<std::size_t>(decays.rows),
            " is 0: chunkwise gradients go through its logarithm");
}

/// Throws InputError where a gradient is wanted and a decay is 0: it would be that of a logarithm.
Answer falcon_rule(const Problem& problem, const Policy& policy, int tile);

/// The faults of gains,
inline constexpr std::array gain_mutants{
    Mutant{"floor_forgotten", "decay_floor is not applied", "catalogue"},
    Mutant{"floor_passes_gradient", "a decay at its floor passes its gradient on", "FALCON E.2"},
    Mutant{"ridge_left_out", "the denominator without the ridge", "catalogue"},
    Mutant{"first_row_writes", "the first row of a sequence decays the state", "catalogue"}};
inline constexpr std::array coupling_mutants{
    Mutant{"detached_ridge_stays_live", "a detached ridge passes its gradient on to the energy", "catalogue"}};
/// and those of these programs.
inline constexpr std::array falcon_mutants = joined(joined(gated_delta_mutants, gain_mutants), coupling_mutants);

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
