#pragma once
// A recurrence in several calls, each of which continues the one before: what a state inside of a sequence is, whatever
// computes the calls, and whose gradients go back from call to call.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "reference/core/problem.hpp"

namespace assay::tile {

/// Inputs and outputs with a row for every token, and which axis is that of rows.
using TokenAxes = std::map<std::string, int, std::less<>>;
/// Answers call number `call`.
using AnswerCall = std::function<Answer(const Problem& problem, std::uint64_t call)>;

/// The answer with one more output, "states": [heads][T][K][V], the states before tokens `before` (ascending, each
/// once) and zeros elsewhere. Its cotangent counts there.
Answer answer_in_calls(const Problem& problem, const TokenAxes& tokens, const std::vector<int>& before,
                       const AnswerCall& run);

}  // namespace assay::tile
