#pragma once
// What the launch code of FALCON's rooms reads besides their rule's arrays, on the device: features from keys, step
// sizes and the gates around them.
#include "kernels/cuda/recurrence.cuh"
#include "kernels/launches/falcon_launch.hpp"

namespace assay::tile {

/// The keys of a problem on their way to features and back.
struct DeviceFalconKeys {
  FalconOptions options;
  const RecurrenceShape& shape;
  std::size_t row, head_size;

  DeviceFalconKeys(const RecurrenceShape& s, const Problem& problem)
      : options(problem), shape(s), row(static_cast<std::size_t>(s.key_dim)), head_size(row * s.len) {}

  /// The first row that writes.
  int first() const { return options.next_latent && options.sequence_start ? 1 : 0; }
  /// What the keys write: themselves, or one row later.
  std::vector<double> features(const Problem& problem) const {
    return options.next_latent ? next_latent_features(problem, head_size, row) : problem.inputs.at("k").data;
  }
  template <class P>
  DeviceArray features_array(const Problem& problem) const {
    return DeviceArray(format_of<P, "K">, shape.shared_heads, shape.len, shape.key_dim, features(problem));
  }
  /// Gradients of the keys and of the carried key from that of the features.
  void of_keys(const Problem& problem, const std::vector<double>& of_features, Arrays& gradients) const {
    gradients["k"] =
        Array(array_shape(shape, shape.shared_heads, shape.len, shape.key_dim),
              options.next_latent ? next_latent_gradient(of_features, head_size, row, false) : of_features);
    if (const auto carry = problem.inputs.find("k_carry"); carry != problem.inputs.end())
      gradients["k_carry"] = Array(carry->second.shape, next_latent_gradient(of_features, head_size, row, true));
  }
};

/// And what the gains read besides the steps.
template <class P>
struct DeviceFalconRows : DeviceFalconKeys {
  DeviceArray lambda, active;  ///< active: 1 for every token that writes
  typename P::Real eps, floor;

  DeviceFalconRows(const RecurrenceShape& s, const Problem& problem)
      : DeviceFalconKeys(s, problem),
        lambda(upload<P, "lambda">(problem.inputs, "lambda", s.heads, s.len, 1)),
        active(format_of<P, "beta">, s.heads, s.len, 1, writers(s.heads, s.len, first())),
        eps(real<P>(parameter(problem, "eps", 0.0))),
        floor(real<P>(parameter(problem, "decay_floor", 0.0))) {}

 private:
  static std::vector<double> writers(int heads, int len, int first) {
    std::vector<double> rows(static_cast<std::size_t>(heads) * len, 1);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (static_cast<int>(i % len) < first) rows[i] = 0;
    return rows;
  }
};

/// Rows that the host has laid out, in the format of site S,
template <class P, FixedString S>
DeviceArray array_of(const HostArray<double>& x) {
  return DeviceArray(format_of<P, S>, x.heads, x.rows, x.cols, x.data);
}
/// and what a kernel wrote, for the host to lay out.
inline HostArray<double> host_array_of(const RecurrenceShape& shape, const DeviceArray& x) {
  auto array = shape.output<double>(x.heads(), x.rows(), x.cols());
  array.data = x.values();
  return array;
}

/// Throws InputError where a decay of these is 0: chunkwise gradients go through its logarithm.
inline void require_open(const DeviceArray& decays) {
  const std::vector<double> values = decays.values();
  for (std::size_t i = 0; i < values.size(); ++i)
    require(values[i] != 0, "the decay of token ", i % static_cast<std::size_t>(decays.rows()),
            " is 0: chunkwise gradients go through its logarithm");
}

}  // namespace assay::tile
