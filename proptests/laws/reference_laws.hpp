#pragma once
// Laws of references: what a room's oracle obeys whatever its kernels do. A law takes a room and a problem, and answers
// what is violated, or "". All compare in 100 digits.
#include <string>
#include <vector>

#include "oracles/core/room.hpp"
#include "oracles/scalars/scalar.hpp"
#include "proptests/core/index.hpp"
#include "proptests/core/witness.hpp"
#include "reference/core/inputs.hpp"

namespace assay::laws {

/// "" if the law holds, else one sentence.
using ReferenceLaw = std::string (*)(const Room& room, const Problem& problem);

/// The problems that every law is asked about: each setting of the room, one token to a few dozen, several styles,
/// heads grouped where the room groups them.
std::vector<CaseSpec> reference_cases(const Room& room);

// ---- what has rows -------------------------------------------------------------

/// Whether the field's first axis is tokens or queries.
bool is_by_token(const RoomFacts::Ranked& r);
/// Whether what is given for it has a row for each of them. A ridge may be one number for all.
template <class T>
bool has_rows(const RoomFacts::Ranked& r, const BasicArray<T>& given) {
  return is_by_token(r) && given.shape.size() > 1;
}

// ---- comparing -----------------------------------------------------------------

/// The problem with its numbers as text of 20 digits.
BasicProblem<std::string> in_decimals(const Problem& problem);

/// The pair as one number.
Mp100 number(const HiLo& x);
std::vector<Mp100> numbers(const BasicArray<HiLo>& a);

/// "" if `got`, printed as pairs of doubles from 100 digits, is `want`. A pair is good to 2^-105 of the number; where
/// a number cancels, 100 digits leave 1e-80 of the tensor's largest even after twenty have been lost.
std::string agrees(std::string_view name, const BasicArray<HiLo>& got, const std::vector<Mp100>& want);
std::string agrees(std::string_view name, const BasicArray<HiLo>& got, const BasicArray<HiLo>& want);

/// A sum that should vanish, of products of numbers good to 2^-105 each.
class Balance {
 public:
  void add(const Mp100& product) {
    sum_ += product;
    size_ += abs(product);
  }
  /// "" if the terms add up to zero as far as their digits tell.
  std::string violation(std::string_view what) const;

 private:
  Mp100 sum_ = 0, size_ = 0;
};

// ---- laws ------------------------------------------------------------------------

/// For every input x and a random direction d: <cotangent, J d> = <gradient of x, d>, J d by dual numbers.
std::string backward_is_the_adjoint(const Room& room, const Problem& problem);

/// One head's problem alone gives its outputs and, where nothing is shared, its gradients.
std::string heads_are_independent(const Room& room, const Problem& problem);

/// Later tokens change no earlier output. For rooms that see the past alone, whatever their options; a
/// problem with causal = false is left out.
std::string the_future_is_unseen(const Room& room, const Problem& problem);

/// Two segments, the second from what the first carries over (states, normalisers, tail, last key), are one run; the
/// same for gradients, with the cotangents of what is carried handed back.
std::string segments_concatenate(const Room& room, const Problem& problem);

/// Outputs and gradients are those of the room's reference (reference/NAME.hpp), by any engine of the room.
std::string is_its_reference(const Room& room, const Problem& problem);

// ---- tests -----------------------------------------------------------------------

/// The first case that violates the law, and how; "" if none does.
std::string first_violation(const Room& room, ReferenceLaw law);

}  // namespace assay::laws
