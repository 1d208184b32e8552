#pragma once
// The table of bad inputs of delta-family.md section 7, for any room with tokens: each function answers what was not
// refused as it should be, or "".
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "files/case_file.hpp"
#include "oracles/core/room.hpp"
#include "oracles/scalars/precise.hpp"

namespace assay::bad_inputs {

/// The lengths of a case's axes.
struct Lengths {
  int T = 3, K = 2, V = 2;
  int of(Axis a) const { return a == Axis::key_dim ? K : a == Axis::value_dim ? V : T; }
};

/// Numbers 1/4, 2/4, 3/4, 1/4 ..., negative in log gates, nested as deep as the shape; "" if it is empty.
Json numbers(const std::vector<int>& shape, bool negative, std::size_t depth = 0, int* count = nullptr);

/// Every input and cotangent of the room, optional ones left out, with `heads` leading if > 0 (`shared` for shared
/// ones).
Json good_case(const Room& room, const Lengths& lengths = {}, int heads = 0, int shared = 0);

/// The kinds that the room takes its inputs for, by name: the checks below follow them, so a test states them anew.
std::string kinds_of_inputs(const Room& room);

CaseResult result_of(const Json& record, const DecimalOptions& options = {});

/// With the value at `place` ("/inputs/q/0/1") replaced; null removes it.
Json changed(Json record, const std::string& place, const Json& value);

/// "" if the case is refused as stated and has no answer.
std::string refusal(const Json& record, Status status, int row, const std::string& message);

/// NaN and infinities in any input, cotangent or parameter, but for -inf in a log gate.
std::string numbers_must_be_finite(const Room& room);

/// A missing input, one too many, and one whose length is another's no longer.
std::string shapes_must_fit(const Room& room);

/// Steps and weights of any sign and size, zero among them, and keys that are zero: legal, all of them (section 7).
std::string any_strength_is_legal(const Room& room);

/// Without tokens or value channels the states come back unchanged; without key channels there is nothing to ask.
std::string empty_extents(const Room& room);

/// Value heads share key heads evenly, and every tensor has as many as its kind.
std::string heads_must_divide(const Room& room);

/// In double, a value and a scale whose product is beyond it: the first token that reads it is named.
std::string overflow_names_the_first_token(const Room& room);

}  // namespace assay::bad_inputs
