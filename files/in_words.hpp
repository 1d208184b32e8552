#pragma once
// Numbers in sentences: how many of what, and values that an answer has.
#include <cmath>
#include <string>
#include <string_view>

namespace assay {

/// "1 run", "2 runs"; `many` is the plural of a word that takes more than an s.
template <class Count>
std::string counted(Count n, std::string_view one, std::string_view many = {}) {
  std::string words = std::to_string(n) + ' ';
  words += n == 1 || many.empty() ? one : many;
  if (n != 1 && many.empty()) words += 's';
  return words;
}

/// The number; of a NaN that without its sign, which says nothing and would be printed.
inline double unsigned_nan(double x) { return std::isnan(x) ? std::fabs(x) : x; }

}  // namespace assay
