#pragma once
// The answer of a program to a problem: all heads, one after the other, in any scalar.
#include "language/answers/posed.hpp"
#include "oracles/multiword/word_ball.hpp"
#include "oracles/scalars/held_in.hpp"

namespace assay {
struct Sized;
}

namespace assay::language {

/// Outputs and, with `gradients`, those of all inputs that have one; of shared inputs and parameters summed over the
/// heads that read them. Throws Refusal where an output does not exist, naming the operation: NONFINITE, of log and
/// sqrt DOMAIN; where it is beyond the scalar NONFINITE. Enclosures throw Undecided in both cases.
template <class S, class X>
BasicAnswer<S> answer(const Posed<X>& posed, bool gradients);

/// The same in Sized, held in such numbers, heads on several threads, which change no bit.
BasicAnswer<Sized> answer_in_sizes(const Posed<double>& posed, bool gradients, const HeldIn& numbers, int threads);

/// Outputs alone, where inputs that `states` names hold those numbers in place of the problem's.
template <class S>
BasicArrays<S> outputs_from(const Posed<double>& posed, const BasicArrays<S>& states);

/// Derivatives of the outputs along `tangent`, an array for each of some inputs, shaped like it.
template <class S>
BasicArrays<S> slopes(const Posed<double>& posed, const Arrays& tangent);

/// In W words (2, 3, 4), eight heads at a time on so many threads, which change no bit. Throws Undecided where these do
/// not decide.
template <int W, class X>
BasicAnswer<WordBall> answer_in_packs(const Posed<X>& posed, bool gradients, int threads);

}  // namespace assay::language
