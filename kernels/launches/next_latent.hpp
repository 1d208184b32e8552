#pragma once
// Features of next-latent alignment: the keys one row later.
#include <cstddef>
#include <utility>
#include <vector>

#include "reference/core/problem.hpp"

namespace assay::tile {

/// The keys one row later, after the carried key, or after zeros at the start of a sequence: no write.
inline std::vector<double> next_latent_features(const Problem& problem, std::size_t head_size, std::size_t row) {
  const std::vector<double>& keys = problem.inputs.at("k").data;
  const auto carry = problem.inputs.find("k_carry");
  std::vector<double> x(keys.size());
  for (std::size_t i = 0; i < x.size() && head_size > 0; ++i) {
    const std::size_t head = i / head_size, column = i % head_size;
    x[i] = column >= row ? keys[i - row] : carry == problem.inputs.end() ? 0 : carry->second.data[head * row + column];
  }
  return x;
}

/// gradients["k"], that of the features, becomes that of the keys, next to the carried key's. Without tokens both are
/// zeros.
inline void gradients_of_keys(const Problem& problem, std::size_t head_size, std::size_t row, Arrays& gradients) {
  std::vector<double>& keys = gradients.at("k").data;
  const std::vector<double> of_features = std::exchange(keys, std::vector<double>(keys.size()));
  const auto carry = problem.inputs.find("k_carry");
  std::vector<double> of_carry(carry == problem.inputs.end() ? 0 : carry->second.data.size());
  for (std::size_t i = 0; i < of_features.size(); ++i) {
    const std::size_t head = i / head_size, column = i % head_size;
    if (column >= row)
      keys[i - row] = of_features[i];
    else if (!of_carry.empty())
      of_carry[head * row + column] = of_features[i];
  }
  if (!of_carry.empty()) gradients["k_carry"] = Array(carry->second.shape, std::move(of_carry));
}

}  // namespace assay::tile
