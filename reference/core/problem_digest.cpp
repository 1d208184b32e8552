#include "reference/core/problem_digest.hpp"

#include <span>
#include <string_view>
#include <variant>

#include "reference/core/error.hpp"
#include "reference/core/sha256.hpp"

namespace assay {

std::string problem_digest(const Problem& problem) {
  Sha256 sum;
  // With its length: no two lists of words are the same bytes.
  const auto word = [&](std::string_view said) { sum.update(text(said.size(), ' ')).update(said); };
  const auto arrays = [&](const Arrays& all) {
    word(text(all.size()));
    for (const auto& [name, array] : all) {
      word(name), word(text(array.shape.size()));
      for (const int n : array.shape) word(text(n));
      sum.update(std::span<const double>(array.data));
    }
  };
  word(problem.mechanism), word(text(problem.params.size()));
  for (const auto& [name, value] : problem.params) {
    word(name), word(text(value.index()));
    std::visit([&](const auto& x) { word(text(x)); }, value);
  }
  arrays(problem.inputs), arrays(problem.cotangents);
  return sum.hex();
}

}  // namespace assay
