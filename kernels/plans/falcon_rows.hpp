#pragma once
// The inputs of the plans of FALCON's rooms besides their rule's arrays: features from keys, step sizes and the gates
// around them.
#include <vector>

#include "kernels/launches/falcon_options.hpp"
#include "kernels/launches/next_latent.hpp"
#include "kernels/launches/recurrence.hpp"
#include "reference/core/error.hpp"

namespace assay::tile {

/// The keys of a problem on their way to features and back.
struct FalconKeys {
  FalconOptions options;
  int shared, len, key_dim;

  FalconKeys(const RecurrenceShape& shape, const Problem& problem)
      : options(problem), shared(shape.shared_heads), len(shape.len), key_dim(shape.key_dim) {}

  /// The first row that writes.
  int first() const { return options.next_latent && options.sequence_start ? 1 : 0; }
  /// The features that the keys write: the keys themselves, or those one row later.
  std::vector<double> features(const Problem& problem) const {
    return options.next_latent ? next_latent_features(problem, head_size(), row()) : problem.inputs.at("k").data;
  }
  /// The same features on a device.
  template <class Device>
  typename Device::Values features(const Device& device, const Problem& problem) const {
    return device.template array<"K">(shared, len, key_dim, features(problem));
  }
  /// gradients["k"], that of the features, becomes that of the keys, next to the carried key's.
  void of_keys(const Problem& problem, Arrays& gradients) const {
    if (options.next_latent) gradients_of_keys(problem, head_size(), row(), gradients);
  }

 private:
  std::size_t row() const { return static_cast<std::size_t>(key_dim); }
  std::size_t head_size() const { return row() * static_cast<std::size_t>(len); }
};

/// And what the gains read besides the steps.
template <class Device>
struct FalconInputs : FalconKeys {
  using Values = typename Device::Values;
  Values lambda, active;             ///< active: 1 for every token that writes
  typename Device::Real eps, floor;  ///< floor: 0 if there is none

  FalconInputs(const Device& device, const RecurrenceShape& shape, const Problem& problem)
      : FalconKeys(shape, problem),
        lambda(device.template input<"lambda">(problem.inputs, "lambda", shape.heads, len, 1)),
        active(device.template array<"beta">(shape.heads, len, 1, writers(device, shape.heads))),
        eps(device.template gate<"lambda">(problem, "eps")),
        floor(device.template gate<"lambda">(problem, "decay_floor")) {}

  /// Throws InputError where a decay is 0: chunkwise gradients go through its logarithm.
  void require_open(const Device& device, const Values& decays) const {
    const auto values = device.values(decays);
    for (std::size_t i = 0; i < values.size(); ++i)
      require(values[i] != 0, "the decay of token ", i % static_cast<std::size_t>(len),
              " is 0: chunkwise gradients go through its logarithm");
  }

 private:
  std::vector<double> writers(const Device& device, int heads) const {
    const int begin = device.planted("first_row_writes"_s, first(), 0);
    std::vector<double> rows(static_cast<std::size_t>(heads) * static_cast<std::size_t>(len), 1);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (static_cast<int>(i % static_cast<std::size_t>(len)) < begin) rows[i] = 0;
    return rows;
  }
};

}  // namespace assay::tile
