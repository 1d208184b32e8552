#pragma once
// Laws every room obeys, written once against the registry; a room adds only the identities that are its own. A law
// takes a form and a drawn case; tolerances are the judge's: sigma of the contract, times the reach the judge allows.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "judge/sigma/expected.hpp"
#include "judge/verdict/judge.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "proptests/core/generators.hpp"
#include "proptests/core/index.hpp"
#include "proptests/laws/property.hpp"

namespace assay::laws {

/// A room with one of its forms, healthy or with faults to plant.
struct Subject {
  const Room& room;
  const KernelForm& form;

  /// The drawn case, or a discarded one if the form cannot run it.
  Problem problem(const LawCase& c) const;
  Answer run(const Problem& p, Format precision, int tile) const;
};

/// The subject called `room`:`form` among `kernels`.
Subject subject(std::span<const KernelRoom* const> kernels, std::string_view room, std::string_view form);

/// The allowance of a correct kernel against the oracle under that precision's contract: reach * sigma + bound by name,
/// and of fp64, by which runs that do not round are judged, residues on top.
Arrays allowance(const Subject& s, const Problem& problem, Format precision, int tile);

/// The oracle's values as doubles.
Arrays values_of(const Oracle& oracle);

/// Fails the property where `got` and `want` are further apart than `times` the allowance and the rounding to fp64.
void expect_within(const Arrays& got, const Arrays& want, const Arrays& allowed, double times);

// ---- within the budget -----------------------------------------------------------

/// Every output and gradient is what the contract of the precision allows.
void stays_within_budget(const Subject& s, const LawCase& c);
/// With no site rounded the kernel is the oracle, as sharply as the fp64 contract can say.
void exact_policy_is_the_oracle(const Subject& s, const LawCase& c);
void exact_policy_is_the_oracle(const Subject& s, const Problem& p, int tile);
/// Any tile shape, the same exact answer.
void tile_shape_changes_nothing(const Subject& s, const LawCase& c);

// ---- bits ------------------------------------------------------------------------

/// Two runs, one thread or two: the same bits.
void same_bits_twice(const Subject& s, const LawCase& c);
/// Finite inputs, no rounding: every element written, none NaN.
void every_element_is_written(const Subject& s, const LawCase& c);
/// Later tokens change no bit of earlier ones.
void the_future_changes_no_bit(const Subject& s, const LawCase& c);
/// Heads do not see each other: one head's problem alone gives its bits.
void heads_are_independent(const Subject& s, const LawCase& c);

// ---- gradients -------------------------------------------------------------------

/// <cotangent, J x> = <J^T cotangent, x> for a random direction x, J x by dual numbers in 50 digits: for the reference
/// to the last bits of a pair of doubles, for the kernel as sharply as the fp64 contract can say.
void backward_is_the_adjoint(const Subject& s, const LawCase& c);
/// Outputs are linear in values and states: <v, dv> + <S_0, dS_0> = <o, do> + <S_T, dS_T>, at every precision.
void linear_in_values(const Subject& s, const LawCase& c);

/// <q_t, dq_t> = <o_t, do_t> for every token of an unnormalised read (delta-family.md section 4), at every precision.
void reads_are_linear_in_the_query(const Subject& s, const LawCase& c);

// ---- recurrences -----------------------------------------------------------------

/// Two segments, the second from the first one's final state, are one run; the same for gradients, with the cotangents
/// of the carried state handed back.
void segments_concatenate(const Subject& s, const LawCase& c);

// ---- helpers for the identities of one room ---------------------------------------

/// Sum of a[i] b[i] with the limit that the allowance of b puts on it.
struct Product {
  double value = 0, limit = 0;
};
Product product(const Array& known, const Array& judged, const Array& allowed);
/// Fails the property unless the terms, with their signs, add up to zero within their limits.
void expect_zero_sum(const std::vector<std::pair<double, Product>>& terms);

}  // namespace assay::laws
