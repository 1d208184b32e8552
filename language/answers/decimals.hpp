#pragma once
// Answers as decimals, from anything that has one in every scalar: `answer<S>(posed, gradients)`.
#include <utility>

#include "language/answers/answer.hpp"
#include "oracles/core/make_room.hpp"

namespace assay::language::detail {

/// In that many words.
template <class X>
BasicAnswer<WordBall> in_packs(const Posed<X>& posed, bool gradients, const WordEffort& effort) {
  return with_words(effort.words, [&]<int W>() { return answer_in_packs<W>(posed, gradients, effort.threads); });
}

/// Asks for `narrow`(answer in balls of so many bits, whether it is the last time) with more and more bits, until it
/// makes something. Where enclosures know nothing the numbers may not exist: a run in 100 digits says so.
template <class P, class F>
auto in_balls(const P& posed, bool gradients, long bits, F&& narrow) {
  bool asked = false;
  const auto balls = [&] {
    try {
      return answer<Ball>(posed, gradients);
    } catch (const Undecided&) {
      if (!std::exchange(asked, true)) answer<Mp100>(posed, gradients);
      throw;
    }
  };
  return assay::detail::in_balls(balls, bits, narrow);
}

/// Right to the last digit, by enclosures narrow enough for all numbers to round alike; what they cannot decide, by two
/// tiers that agree.
template <class P>
Decimals proven(const P& posed, bool gradients, int digits) {
  bool whole = false;
  auto cells = in_balls(posed, gradients, 128 + 4 * digits, [&](const BasicAnswer<Ball>& balls, bool last) {
    auto found = assay::detail::narrow_enough(balls, digits, last);
    whole = found && found->outputs.size() == balls.outputs.size() && found->gradients.size() == balls.gradients.size();
    return found;
  });
  if (whole) return std::move(*cells);
  Decimals result = assay::detail::agreed([&]<class S>(const S&) { return answer<S>(posed, gradients); }, digits);
  if (cells) {  // what they have decided, with its bounds
    for (auto& [name, array] : cells->outputs) result.outputs[name] = std::move(array);
    for (auto& [name, array] : cells->gradients) result.gradients[name] = std::move(array);
    result.bounds = std::move(cells->bounds);
  }
  return result;
}

}  // namespace assay::language::detail
