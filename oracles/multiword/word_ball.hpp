#pragma once
// One certified number: what a pack (pack.hpp) holds eight of.
#include <array>
#include <string>
#include <string_view>

namespace assay {

/// |x - (word[0] + word[1] + ...)| <= radius. Words that a number does not use are zero.
struct WordBall {
  std::array<double, 4> word{};
  double radius = 0;
};

/// The sum of two numbers as Pack<words> forms it.
WordBall add(int words, const WordBall& a, const WordBall& b);

/// The sum of the words, to `digits` significant digits.
std::string to_decimal(const WordBall& x, int digits);
/// How far that sum is from the number in `text`, rounded up.
double distance(const WordBall& x, std::string_view text);

}  // namespace assay
