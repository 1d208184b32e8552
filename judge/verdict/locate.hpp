#pragma once
// Where a tensor is wrong: which heads, tokens and dimensions hold what is beyond its limits, in one sentence.
#include <string>
#include <vector>

#include "judge/verdict/judge.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

/// One axis of a tensor, as people name its indices.
struct NamedAxis {
  std::string one, many;  ///< "token", "tokens"
  int extent = 1;
  int chunk = 0;          ///< kernels walk it in chunks of so many; 0: they do not
  bool has_tail = false;  ///< a tile may be cut off at its end, which is worth a word then
  /// The first index of each of several sequences that lie one after the other, and the extent; empty for one alone.
  std::vector<int> borders = {};
};

/// Tokens of a chunk, as most kernels cut them.
inline constexpr int usual_chunk = 64;

/// The axes of a problem's tensor of that shape, row-major; the heads of `batch` sequences are two axes.
std::vector<NamedAxis> named_axes(const RoomFacts::Ranked& ranked, const std::vector<int>& shape, int batch);

/// The measurements of the judge, element by element, row-major over the axes.
struct Deviations {
  std::vector<double> z;         ///< |error| / sigma
  std::vector<char> failing;     ///< whether the element is beyond its limit
  double mean_square_limit = 0;  ///< what the mean of z^2 over a correct tensor does not exceed
};
Deviations deviations_of(const Expected& expected, const std::vector<double>& got);

/// For every axis the indices at which the tensor is wrong, in order: those of an element beyond its limit, and those
/// whose mean of z^2 (z cut off at the judge's element_sigmas) is beyond chance and nearer to the worst one than to 1.
/// The axis that says most comes first, and what follows is looked at within it alone. All indices of an axis where
/// nothing stands out.
std::vector<std::vector<int>> wrong_indices(const std::vector<NamedAxis>& axes, const Deviations& deviations);

/// "token 17 of 100", "tokens 64..99 of 100 (chunk 1)", "position 0 of every chunk of 64 tokens", "all tokens": the
/// shortest description that leaves none of the indices out. "(34 of 36)" follows one that holds others, too. Of
/// sequences one after the other: "sequence 4 of 5", "token 17 of 100 in sequence 4 of 5", "token 0 of all sequences".
std::string describe(const NamedAxis& axis, const std::vector<int>& indices);

/// "head 1 of 2, tokens 64..99 of 100 (chunk 1), all value dimensions; 2304 of 12800 elements beyond their limits".
std::string locate(const std::vector<NamedAxis>& axes, const Deviations& deviations);

}  // namespace assay
