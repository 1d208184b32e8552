#pragma once
// What the plans of FALCON's rooms read besides their rule's arrays: features from keys, step sizes and the gates
// around them.
#include <vector>

#include "kernels/launches/falcon_launch.hpp"
#include "kernels/launches/next_latent.hpp"

namespace assay::tile {

template <class Device>
struct FalconInputs {
  using Values = decltype(std::declval<const Device&>().template result<"lambda">(1, 1, 1));
  FalconOptions options;
  int shared, len, key_dim;
  Values lambda, active;             ///< active: 1 for every token that writes
  typename Device::Real eps, floor;  ///< floor: 0 if there is none

  FalconInputs(const Device& device, const RecurrenceShape& shape, const Problem& problem)
      : options(problem),
        shared(shape.shared_heads),
        len(shape.len),
        key_dim(shape.key_dim),
        lambda(device.template input<"lambda">(problem.inputs, "lambda", shape.heads, len, 1)),
        active(device.template array<"beta">(shape.heads, len, 1, writers(device, shape.heads))),
        eps(device.template gate<"lambda">(problem, "eps")),
        floor(device.template gate<"lambda">(problem, "decay_floor")) {}

  /// What the keys write: themselves, or one row later.
  auto features(const Device& device, const Problem& problem) const {
    return options.next_latent
               ? device.template array<"K">(shared, len, key_dim, next_latent_features(problem, head_size(), row()))
               : device.template input<"K">(problem.inputs, "k", shared, len, key_dim);
  }
  /// gradients["k"], that of the features, becomes that of the keys, next to the carried key's.
  void of_keys(const Problem& problem, Arrays& gradients) const {
    if (options.next_latent) gradients_of_keys(problem, head_size(), row(), gradients);
  }

 private:
  std::size_t row() const { return static_cast<std::size_t>(key_dim); }
  std::size_t head_size() const { return row() * static_cast<std::size_t>(len); }
  std::vector<double> writers(const Device& device, int heads) const {
    const int first = device.planted("first_row_writes"_s, options.next_latent && options.sequence_start ? 1 : 0, 0);
    std::vector<double> rows(static_cast<std::size_t>(heads) * static_cast<std::size_t>(len), 1);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (static_cast<int>(i % static_cast<std::size_t>(len)) < first) rows[i] = 0;
    return rows;
  }
};

}  // namespace assay::tile
