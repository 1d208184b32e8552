#pragma once
// What the launch code of the rooms that weigh all tokens alike shares on the device.
#include "kernels/core/uniform_shape.hpp"
#include "kernels/cuda/decayed_sums.cuh"

namespace assay::tile {

/// Vectors by head or by chunk, one row each, as the rows of an accumulator.
template <class B>
typename B::RowIn row_vectors_in(const DeviceArray& x) {
  return {x.data(), x.cols(), x.head_rows() * x.cols()};
}
template <class B>
typename B::RowOut row_vectors_out(DeviceArray& x) {
  return {x.data(), x.cols(), x.head_rows() * x.cols()};
}

}  // namespace assay::tile
