#pragma once
// The launches of kernels/programs/normalized_read.hpp on the CPU executor, compiled once for the rooms whose
// arithmetic it is.
#include <array>
#include <string_view>

#include "kernels/launches/decayed_sums_launch.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// Sums and, where they are `divided`, the mass: a second set of sums, with the weights of the values in the first of
/// its value columns.
template <class T>
struct NormalizedSums {
  DecayedSums<T> sums, mass;
  T eps;
  HostArray<T> o;

  /// Weights of 1, no decays yet. `eps_name`: the parameter that the denominator adds.
  NormalizedSums(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile, SumKind kind,
                 std::string_view eps_name);

  bool divided() const { return sums.kind.divided; }
  /// Parts of the gradients of q and k for each head.
  int parts() const { return sums.blocks() + (divided() ? 1 : 0); }
  void forward();
  /// `more`: parts for each head that another program writes.
  void backward(const Problem& problem, int more = 0);
  Arrays outputs() const;
  /// Gradients of q, k, what was written and the initial states, the parts of blocks and groups summed.
  Arrays gradients(const Problem& problem) const;
};
extern template struct NormalizedSums<double>;
extern template struct NormalizedSums<long double>;

/// The faults of these programs.
inline constexpr std::array normalized_read_mutants{
    Mutant{"eps_forgotten", "the denominator without eps", "catalogue"},
    Mutant{"mass_is_constant", "backward takes the denominator for a constant", "FLA normalize class"}};

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
