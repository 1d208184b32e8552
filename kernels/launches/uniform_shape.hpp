#pragma once
// How the rooms that weigh all tokens alike lie in memory, on the host: probes rho by output head, keys and values by
// the heads that share them. No formula of any room is here.
#include "kernels/launches/recurrence.hpp"

namespace assay::tile {

/// `shared_heads` are those of k and v, `heads` those of rho. Values alone are a head each.
inline RecurrenceShape uniform_shape(const Problem& problem) {
  const std::vector<int>& values = problem.inputs.at("v").shape;
  const auto rho = problem.inputs.find("rho");
  const bool alone = rho == problem.inputs.end();
  Problem axes;  // shapes without data, under the names that a recurrence gives them
  axes.inputs["v"].shape = values;
  axes.inputs["q"].shape = alone ? std::vector<int>(values.begin(), values.end() - 1) : problem.inputs.at("k").shape;
  if (!alone && rho->second.shape.size() == 3) axes.inputs["v"].shape[0] = rho->second.shape[0];
  for (const auto& [name, array] : problem.cotangents) axes.cotangents[name].shape = array.shape;
  return RecurrenceShape(axes);
}

/// 1, 2, ... for every token, and on to the end of the last chunk.
template <class T>
std::vector<T> token_counts(int chunks, int tokens) {
  std::vector<T> counts(static_cast<std::size_t>(chunks) * static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<T>(i + 1);
  return counts;
}

}  // namespace assay::tile
