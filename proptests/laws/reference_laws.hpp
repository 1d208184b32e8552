#pragma once
// Laws of references: what a room's oracle obeys whatever its kernels do. A law takes a room, healthy or with a fault
// planted, and a problem, and answers what is violated, or "". All compare in 100 digits.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "oracles/core/room.hpp"
#include "oracles/scalars/scalar.hpp"
#include "proptests/core/index.hpp"
#include "proptests/core/planted_room.hpp"
#include "reference/core/inputs.hpp"

namespace assay::laws {

/// "" if the law holds, else one sentence.
using ReferenceLaw = std::string (*)(const Room& room, const Problem& problem);

/// The problems that every law is asked about: each setting of the room, one token to a few dozen, several styles,
/// heads grouped where the room groups them.
std::vector<CaseSpec> reference_cases(const Room& room);

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

/// (1 + tbar) vbar - E[t v] under weights exp(q.k / h) on the visible keys, t_ij = probe(head, i, j); sums without
/// shift, element by element in the order of `o`. An empty row is zero.
std::vector<Mp100> attention_by_definition(const Problem& p, const std::function<Mp100(int, int, int)>& probe);

// ---- laws ------------------------------------------------------------------------

/// For every input x and a random direction d: <cotangent, J d> = <gradient of x, d>, J d by dual numbers.
std::string backward_is_the_adjoint(const Room& room, const Problem& problem);

/// One head's problem alone gives its outputs and, where nothing is shared, its gradients.
std::string heads_are_independent(const Room& room, const Problem& problem);

/// Outputs that are values or states are linear in values and states, the other outputs do not see them:
/// <v, dv> + <S_0, dS_0> = <o, do> + <S_T, dS_T>, summed over fields of the domains value and state.
std::string linear_in_values(const Room& room, const Problem& problem);

/// <q_t, dq_t> = <o_t, do_t> for every token of an unnormalised read of a state.
std::string reads_are_linear_in_the_query(const Room& room, const Problem& problem);

/// What comes after a token changes nothing before it. For rooms that see the past alone, whatever their options; a
/// problem with causal = false is left out.
std::string the_future_is_unseen(const Room& room, const Problem& problem);

/// A value that is the same for every key comes out of every average unchanged (lla-family.md section 10).
std::string constants_are_reproduced(const Room& room, const Problem& problem);

/// Two segments, the second from what the first carries over (states, normalisers, tail, last key), are one run; the
/// same for gradients, with the cotangents of what is carried handed back.
std::string segments_concatenate(const Room& room, const Problem& problem);

// ---- tests -----------------------------------------------------------------------

/// The first case that violates the law, and how; "" if none does.
std::string first_violation(const Room& room, ReferenceLaw law);

struct PlantedReferenceFault {
  std::string_view room, fault;
  std::vector<ReferenceLaw> laws;  // one of them is to find it
  friend std::ostream& operator<<(std::ostream& os, const PlantedReferenceFault& f) {
    return os << f.room << ":" << f.fault;
  }
};
/// Its test says that the fault is found; rooms instantiate it.
class ReferenceFaults : public ::testing::TestWithParam<PlantedReferenceFault> {};

std::vector<PlantedReferenceFault> reference_faults(std::string_view room, const std::vector<ReferenceLaw>& laws);

/// The first of the laws that the planted room violates, and where; "" if it passes them all.
std::string conviction(const PlantedReferenceFault& fault);

}  // namespace assay::laws

/// Makes a test of a law: `ASSAY_REFERENCE_OBEYS(kda, backward_is_the_adjoint)`.
#define ASSAY_REFERENCE_OBEYS(mechanism, law)                                             \
  TEST(mechanism##_reference, law) {                                                      \
    using namespace ::assay::laws; /* NOLINT(google-build-using-namespace) */             \
    EXPECT_EQ(::assay::laws::first_violation(::assay::listed_room(#mechanism), law), ""); \
  }

/// One test a planted fault, `room/ReferenceFaults.is_found/fault`: one of the laws named must be violated.
#define ASSAY_REFERENCE_KILLS_ITS_FAULTS(mechanism, ...)                                                    \
  using ::assay::laws::ReferenceFaults;                                                                     \
  static std::vector<::assay::laws::PlantedReferenceFault> mechanism##_reference_faults() {                 \
    using namespace ::assay::laws; /* NOLINT(google-build-using-namespace) */                               \
    return reference_faults(#mechanism, {__VA_ARGS__});                                                     \
  }                                                                                                         \
  INSTANTIATE_TEST_SUITE_P(mechanism, ReferenceFaults, ::testing::ValuesIn(mechanism##_reference_faults()), \
                           [](const auto& fault) { return std::string(fault.param.fault); });
