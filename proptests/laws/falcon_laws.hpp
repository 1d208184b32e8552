#pragma once
// Laws that the FALCON rooms share (falcon-family.md): the unrolled recurrence 4.6 as their second definition, the
// identities of section 5 and the decisions on degenerate rows. Nothing here is the references' own.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/exact_problem.hpp"
#include "proptests/laws/reference_laws.hpp"

namespace assay::laws {

// ---- one head, its pairs lined up ------------------------------------------------------

/// The pairs (x_j, v_j) of one head, the incoming tail first, and which of them each row writes: [first, last).
struct FalconHead {
  ExactMatrix q, x, v, state;
  struct Row {
    int first = 0, last = 0;
    int size() const { return last - first; }
  };
  std::vector<Row> rows;
};

bool flag(const ExactProblem& p, std::string_view name, bool by_default);
std::string word(const ExactProblem& p, std::string_view name);

/// How many pairs a row writes at most: `window`, 1 in the rooms that have none, all if it is missing.
int widest(const ExactProblem& p, int all);

FalconHead falcon_head(const ExactProblem& p, int head);

/// <row j of a, row l of b>.
Mp100 row_dot(const ExactMatrix& a, int j, const ExactMatrix& b, int l);
/// (A S)_{j c}.
Mp100 row_times(const ExactMatrix& a, int j, const ExactMatrix& state, int c);

/// Mean energy of the pairs that a row writes.
Mp100 window_energy(const FalconHead& h, const FalconHead::Row& row);

/// w, the weight of every pair that a row writes, and gamma, what it keeps of the state.
struct FalconStep {
  Mp100 weight = 0, gamma = 1;
};

/// Of channel c, row by row: eta = beta / (E + ridge + eps), gamma = max(1 - eta ridge, floor).
std::vector<FalconStep> falcon_steps(const ExactProblem& p, const FalconHead& h, int head, int c);

/// Column c of O and of S_T without any state: with R(t, s) the product of the gammas of rows s+1..t,
///   Z_tj = v_j - R(t-1, 0) x_j.S_0 - sum_{s<t} R(t-1, s) sum_{i in I_s} (x_j.x_i) w_s Z_si   (rooms that correct; else
///   v_j) o_t = R(t, 0) q_t.S_0 + sum_{s<=t} R(t, s) sum_{i in I_s} (q_t.x_i) w_s Z_si
void unrolled(const FalconHead& h, const std::vector<FalconStep>& steps, bool corrects, int c, ExactMatrix& o,
              ExactMatrix& state);

/// Compares outputs, head by head, with what `compute(head)` says they are: pairs (name, matrix).
template <class F>
std::string outputs_are(const Room& room, const ExactProblem& p, F&& compute) {
  const ExactAnswer got = answer(room, p);
  ExactArrays want;
  std::vector<std::string> names;
  for (int head = 0; head < heads_of(p); ++head)
    for (const auto& [name, matrix] : compute(head)) {
      if (head == 0) names.push_back(name), want[name] = ExactArray(got.outputs.at(name).shape);
      set_head(want.at(name), head, matrix);
    }
  return same(got.outputs, want, names);
}

/// The rooms with a gain: outputs and final state are the unrolled recurrence; the tail is the newest pairs.
std::string is_unrolled(const Room& room, const Problem& problem);

/// The outgoing tail is the newest pairs, at most B - 1.
std::string tail_is_the_newest_pairs(const Room& room, const Problem& problem);

// ---- identities --------------------------------------------------------------------------

/// Section 2: the gradient under a detached ridge is that under a raw one, lambda_bar E held where it is. The raw
/// ridge's own gradient, times E, is lambda_bar's.
std::string a_detached_ridge_is_frozen(const Room& room, const Problem& problem);

/// Section 5: one pair, met again and again, makes every window that pair alone: `single` answers for windows of one.
std::string a_constant_stream_needs_no_window(const Room& room, const Problem& problem, std::string_view single);

/// Section 5: outputs and gradients are FALCON-3's with a window of one pair.
std::string is_falcon3_of_one_pair(const Room& room, const Problem& problem);

/// Section 5: with lambda = 0, DeltaNet with eta = beta / (|x|^2 + eps).
std::string without_ridge_it_is_deltanet(const Room& room, const Problem& problem);

/// Section 5: with beta = 1 and eps = lambda = 0 the last pair written is recalled, S_T^T x = v.
std::string the_last_write_is_recalled(const Room& room, const Problem& problem);

/// Section 5, Euler: features times c and states over c change no output, if eps = 0 and lambda grows like c^2 or the
/// ridge is coupled, live. At c = 1 the derivative is
///   <k, dk> + <q, dq> - <S_0, dS_0> + <S_T, dS_T> (+ 2 <lambda, dlambda>) = 0
/// with tails like keys, normalisers like states, and a covariance over c^2.
std::string features_may_be_rescaled(const Room& room, const Problem& problem);

/// Section 9: rows without energy, some or all. Without ridge and eps too they are no-ops; else they write nothing and
/// decay. The laws, of outputs and of gradients, hold there as anywhere.
std::string degenerate_rows_are_defined(const Room& room, const Problem& problem,
                                        const std::vector<ReferenceLaw>& laws);

// ---- limits ------------------------------------------------------------------------------

/// "" if `defect` is of first order: halving the small number s = 2^-60 halves it, but for terms smaller by s again,
/// whose constant may be 2^10 times as large.
template <class F>
std::string is_of_first_order(std::string_view name, F&& defect) {
  const ExactArray once = defect(ldexp(Mp100(1), -60)), half = defect(ldexp(Mp100(1), -61));
  Mp100 largest = 0;
  for (const Mp100& x : once.data) largest = std::max(largest, Mp100(abs(x)));
  if (largest == 0 || largest > ldexp(Mp100(1), -50)) return text(name, ": the defect is ", to_decimal(largest, 5));
  for (std::size_t i = 0; i < once.data.size(); ++i)
    if (!(abs(once.data[i] - 2 * half.data[i]) <= ldexp(largest, -50)))
      return text(name, ", element ", i, ": not of first order");
  return "";
}

/// lambda -> infinity: S_T -> S_0 times the product over the rows that write of 1 - beta, or of the floor if larger.
std::string a_huge_ridge_only_decays(const Room& room, const Problem& problem);

// ---- cases written out -------------------------------------------------------------------

/// What becomes of a case when the value at `place` ("/inputs/q/0/1") is replaced; null removes it.
struct Refused {
  const char* place;
  Json value;
  Status status;
  int row;
  const char* message;
};

void expect_refusals(const Json& good, std::initializer_list<Refused> list);

/// The numbers of an answered tensor, in order.
std::vector<double> doubles(const BasicArrays<Cell>& arrays, std::string_view name);

/// A good case of a room with a window of three pairs: three tokens, a start, an outgoing tail of two.
Json windowed_case(const Room& room);

/// That case as a continuation with a full tail.
Json continued_case(const Room& room);

/// Section 9 on windows, tails and what is carried.
void expect_window_refusals(const Room& room);

/// T = 0: S_0 and the tail come back; a start's first row alone leaves no pair.
void expect_short_segments(const Room& room);

}  // namespace assay::laws

/// A law of this room on rows without energy: `ASSAY_DEGENERATE_ROWS_OBEY(falcon1, is_unrolled, ...)`.
#define ASSAY_DEGENERATE_ROWS_OBEY(mechanism, ...)                                                      \
  TEST(mechanism##_reference, degenerate_rows_are_defined) {                                            \
    using namespace ::assay::laws; /* NOLINT(google-build-using-namespace) */                           \
    const ::assay::Room& room = ::assay::listed_room(#mechanism);                                       \
    for (const ::assay::CaseSpec& spec : reference_cases(room))                                         \
      EXPECT_EQ(degenerate_rows_are_defined(room, room.make(spec), {__VA_ARGS__}), "") << spec.repro(); \
  }
