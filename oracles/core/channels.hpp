#pragma once
// The value channels of a recurrence in slices. No column of its state ever meets another one, so a slice is a problem
// of its own, for a thread of its own: outputs and gradients that have a value axis are put side by side, gradients of
// what all channels share are summed. The slices follow from the problem alone, never from the number of threads.
#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/tensor.hpp"

namespace assay {

/// A room whose outputs in a value channel depend on the inputs in that channel, and on those that have no channels.
template <class M>
concept CarriesState = requires(const typename M::template Inputs<double>& in) {
  in.initial_state;
};

/// Some value channels, or all of them.
struct Channels {
  int first = 0, count = 0;
  bool all = true;
};

/// Fewer are not worth what every slice computes again: what the channels share.
inline constexpr int channels_of_slice = 64;

template <class M>
std::vector<Channels> slices_of(int value_dim) {
  if (!CarriesState<M> || value_dim <= channels_of_slice) return {Channels{}};
  const int slices = (value_dim + channels_of_slice - 1) / channels_of_slice;
  std::vector<Channels> list;
  for (int s = 0; s < slices; ++s) {
    const int first = value_dim * s / slices, last = value_dim * (s + 1) / slices;
    list.push_back({first, last - first, false});
  }
  return list;
}

/// Which of a tensor's axes has the value channels, or -1.
inline int value_axis(const Field& f, int rank) {
  for (int r = 0; r < rank; ++r)
    if (f.axes[static_cast<std::size_t>(r)] == Axis::value_dim) return r;
  return -1;
}

namespace detail {

/// How many numbers lie between neighbours of an axis.
template <class Shape>
std::size_t numbers_after(const Shape& shape, int axis) {
  std::size_t n = 1;
  for (auto r = static_cast<std::size_t>(axis) + 1; r < shape.size(); ++r) n *= static_cast<std::size_t>(shape[r]);
  return n;
}

template <class S, int Rank>
void cut(Tensor<S, Rank>& tensor, int axis, const Channels& slice) {
  auto extent = tensor.extent;
  int& channels = extent[static_cast<std::size_t>(axis)];
  if (channels == 0) return;  // an input that is absent
  const std::size_t inner = numbers_after(extent, axis), from = static_cast<std::size_t>(channels) * inner;
  channels = slice.count;
  Tensor<S, Rank> part(extent);
  const std::size_t to = static_cast<std::size_t>(slice.count) * inner;
  for (std::size_t i = 0; i < part.data.size(); ++i)
    part.data[i] = tensor.data[i / to * from + static_cast<std::size_t>(slice.first) * inner + i % to];
  tensor = std::move(part);
}

}  // namespace detail

/// Inputs of some channels.
template <class M, class In>
In in_slice(In in, const Channels& slice) {
  if (slice.all) return in;
  In::each(in, [&](const Field& f, auto& tensor) {
    if constexpr (std::remove_reference_t<decltype(tensor)>::rank > 0)
      if (const int axis = value_axis(f, tensor.rank); axis >= 0) detail::cut(tensor, axis, slice);
  });
  return in;
}

/// The cotangent of some channels' outputs; that of outputs which have no channels goes with the first.
template <class M, class Out>
Out cotangent_in_slice(Out cotangent, const Channels& slice) {
  if (slice.all) return cotangent;
  Out::each(cotangent, [&](const Field& f, auto& tensor) {
    using S = typename Out::scalar;
    if constexpr (std::remove_reference_t<decltype(tensor)>::rank > 0)
      if (const int axis = value_axis(f, tensor.rank); axis >= 0) return detail::cut(tensor, axis, slice);
    if (slice.first > 0) std::fill(tensor.data.begin(), tensor.data.end(), S(0));
  });
  return cotangent;
}

/// Tensor k of all slices, which are lists of tensors with `shape`, `data` and `value_axis`. One without channels is
/// the sum of all, or else the first: then all are the same.
template <class Tensors>
auto joined_slices(const std::vector<Tensors*>& slices, std::size_t k, bool sums) {
  auto whole = std::move((*slices.front())[k]);
  const auto axis = static_cast<std::size_t>(std::max(whole.value_axis, 0));
  for (std::size_t s = 1; s < slices.size(); ++s) {
    const auto part = std::move((*slices[s])[k]);
    if (whole.value_axis < 0) {
      for (std::size_t i = 0; sums && i < part.data.size(); ++i) whole.data[i] += part.data[i];
      continue;
    }
    const std::size_t inner = detail::numbers_after(part.shape, whole.value_axis),
                      left = static_cast<std::size_t>(whole.shape[axis]) * inner,
                      right = static_cast<std::size_t>(part.shape[axis]) * inner;
    auto side_by_side = std::move(whole.data);
    whole.data.clear();
    whole.data.reserve(side_by_side.size() + part.data.size());
    for (std::size_t i = 0, j = 0; i < side_by_side.size(); i += left, j += right) {
      const auto at = [](const auto& numbers, std::size_t n) {
        return numbers.begin() + static_cast<std::ptrdiff_t>(n);
      };
      whole.data.insert(whole.data.end(), at(side_by_side, i), at(side_by_side, i + left));
      whole.data.insert(whole.data.end(), at(part.data, j), at(part.data, j + right));
    }
    whole.shape[axis] += part.shape[axis];
  }
  return whole;
}

}  // namespace assay
