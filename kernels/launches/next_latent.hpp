#pragma once
// Features of next-latent alignment: the keys one row later.
#include <cstddef>
#include <vector>

#include "reference/core/problem.hpp"

namespace assay::tile {

/// The keys one row later, after the carried key, or after zeros at the start of a sequence: no write.
inline std::vector<double> next_latent_features(const Problem& problem, std::size_t head_size, std::size_t row) {
  const std::vector<double>& keys = problem.inputs.at("k").data;
  const auto carry = problem.inputs.find("k_carry");
  std::vector<double> x(keys.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t head = i / head_size, column = i % head_size;
    x[i] = column >= row ? keys[i - row] : carry == problem.inputs.end() ? 0 : carry->second.data[head * row + column];
  }
  return x;
}

/// What the features' gradient is for the keys (`carry` false) or the carried key (true).
inline std::vector<double> next_latent_gradient(const std::vector<double>& dx, std::size_t head_size, std::size_t row,
                                                bool carry) {
  std::vector<double> gradient(carry ? dx.size() / head_size * row : dx.size());
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const std::size_t head = i / head_size, column = i % head_size;
    if (column >= row && !carry) gradient[i - row] = dx[i];
    if (column < row && carry) gradient[head * row + column] = dx[i];
  }
  return gradient;
}

/// gradients["k"], that of the features, becomes that of the keys, next to the carried key's.
inline void gradients_of_keys(const Problem& problem, std::size_t head_size, std::size_t row, Arrays& gradients) {
  std::vector<double>& keys = gradients.at("k").data;
  const std::vector<double> of_features = keys;
  keys = next_latent_gradient(of_features, head_size, row, false);
  if (const auto carry = problem.inputs.find("k_carry"); carry != problem.inputs.end())
    gradients["k_carry"] = Array(carry->second.shape, next_latent_gradient(of_features, head_size, row, true));
}

}  // namespace assay::tile
