#include "judge/court/growing_steps.hpp"

#include <fmt/format.h>

namespace assay {

std::string growing_steps_of(const Problem& problem) {
  const auto keys = problem.inputs.find("k"), rates = problem.inputs.find("beta");
  const bool delta =
      problem.mechanism == "deltanet" || problem.mechanism == "gated_deltanet" || problem.mechanism == "kda";
  if (!delta || keys == problem.inputs.end() || rates == problem.inputs.end()) return "";
  const Array &k = keys->second, &beta = rates->second;
  if (k.shape.size() != 3 || beta.shape.size() != 2 || k.shape[1] != beta.shape[1] || k.data.empty()) return "";
  const auto tokens = static_cast<std::size_t>(k.shape[1]), dims = static_cast<std::size_t>(k.shape[2]);
  const std::size_t heads = beta.data.size() / tokens, group = heads / static_cast<std::size_t>(k.shape[0]);
  std::size_t beyond = 0, worst = 0;
  double largest = 2;
  for (std::size_t step = 0; step < beta.data.size(); ++step) {
    const double* key = &k.data[(step / tokens / group * tokens + step % tokens) * dims];
    double squares = 0;
    for (std::size_t c = 0; c < dims; ++c) squares += key[c] * key[c];
    const double found = beta.data[step] * squares;
    if (!(found > 2)) continue;
    ++beyond;
    if (found > largest) largest = found, worst = step;
  }
  if (beyond == 0) return "";
  return fmt::format(
      "a delta rule grows where beta |k|^2 > 2: it is {:.3g} at token {}, and beyond 2 at {} of {} steps; "
      "are the keys to be of length 1?",
      largest, worst % tokens, beyond, beta.data.size());
}

}  // namespace assay
