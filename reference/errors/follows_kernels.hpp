#pragma once
// Where a reference has a choice that changes no number but what rounds.

namespace assay {

/// Whether a scalar is asked for what kernels round: there a reference takes their choice, and elsewhere the one that
/// all scalars can take (rationals have no logarithm).
template <class S>
inline constexpr bool follows_kernels = false;

}  // namespace assay
