#pragma once
// Answers as decimals, from anything that has one in every scalar: `answer<S>(posed, gradients)`.
#include <optional>
#include <utility>

#include "language/answers/answer.hpp"
#include "oracles/core/make_room.hpp"

namespace assay::language::detail {

/// Asks for `narrow`(answer in balls of so many bits, whether it is the last time) with more and more bits, until it
/// makes something. Where enclosures know nothing the numbers may not exist: a run in 100 digits says so.
template <class P, class F>
auto in_balls(const P& posed, bool gradients, long bits, F&& narrow) {
  constexpr long widest = 4096;
  decltype(narrow(BasicAnswer<Ball>(), false)) result;
  bool asked = false;
  for (; !result && bits <= widest; bits *= 2) {
    const BallPrecision precision(bits);
    try {
      result = narrow(answer<Ball>(posed, gradients), 2 * bits > widest);
    } catch (const Undecided&) {
      if (!std::exchange(asked, true)) answer<Mp100>(posed, gradients);
    }
  }
  return result;
}

template <class S>
Decimals printed(const BasicAnswer<S>& answer, int digits) {
  Decimals result{assay::detail::convert_answer<Cell>(
                      [&](std::string_view name, const S& x) { return assay::detail::cell(name, x, digits); }, answer),
                  {}};
  if constexpr (std::is_same_v<S, Rational>) {
    assay::detail::add_bounds(answer.outputs, result.outputs, "", result);
    assay::detail::add_bounds(answer.gradients, result.gradients, "d_", result);
  }
  return result;
}

/// Two tiers vouch for every digit, and where they cannot, two higher ones do.
template <class P>
Decimals agreed(const P& posed, bool gradients, int digits) {
  const auto mp100 = answer<Mp100>(posed, gradients);
  bool all = true;
  Decimals result{assay::detail::convert_answer<Cell>(
                      [&](std::string_view name, const Mp100& high, const Mp50& low) -> Cell {
                        std::optional<Cell> cell = assay::detail::settled(name, low, high, digits);
                        all = all && cell;
                        return std::move(cell).value_or(Cell{});
                      },
                      mp100, answer<Mp50>(posed, gradients)),
                  {}};
  if (all) return result;
  return {assay::detail::convert_answer<Cell>(
              [&](std::string_view name, const Mp200& high, const Mp100& low) {
                std::optional<Cell> cell = assay::detail::settled(name, low, high, digits);
                return cell ? std::move(*cell) : assay::detail::best_guess(name, low, high, digits);
              },
              answer<Mp200>(posed, gradients), mp100),
          {}};
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
  Decimals result = agreed(posed, gradients, digits);
  if (cells) {  // what they have decided, with its bounds
    for (auto& [name, array] : cells->outputs) result.outputs[name] = std::move(array);
    for (auto& [name, array] : cells->gradients) result.gradients[name] = std::move(array);
    result.bounds = std::move(cells->bounds);
  }
  return result;
}

}  // namespace assay::language::detail
