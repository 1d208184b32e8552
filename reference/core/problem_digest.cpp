#include "reference/core/problem_digest.hpp"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reference/core/error.hpp"
#include "reference/core/sha256.hpp"

namespace assay {

std::string problem_digest(const Problem& problem) {
  Sha256 sum;
  // With its length: no two lists of words are the same bytes.
  const auto word = [&](std::string_view said) { sum.update(text(said.size(), ' ')).update(said); };
  std::vector<const Array*> numbers;
  for (const Arrays* all : {&problem.inputs, &problem.cotangents})
    for (const auto& [name, array] : *all) numbers.push_back(&array);
  const std::vector<std::string> digests = sha256(numbers);
  auto digest = digests.begin();
  const auto arrays = [&](const Arrays& all) {
    word(text(all.size()));
    for (const auto& [name, array] : all) {
      word(name), word(text(array.shape.size()));
      for (const int n : array.shape) word(text(n));
      word(*digest++);
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
