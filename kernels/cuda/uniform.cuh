#pragma once
// What the launch code of the rooms that weigh all tokens alike shares on the device.
#include "kernels/core/uniform_shape.hpp"
#include "kernels/cuda/decayed_sums.cuh"

namespace assay::tile {

/// Vectors by head or by chunk, as the rows of an accumulator: one row each.
template <class B>
typename B::RowIn row_vectors_in(const DeviceArray& x) {
  return {x.data(), x.cols()};
}
template <class B>
typename B::RowOut row_vectors_out(DeviceArray& x) {
  return {x.data(), x.cols()};
}

}  // namespace assay::tile
