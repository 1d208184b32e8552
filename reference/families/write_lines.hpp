#pragma once
// The writes and reads of a step of the FALCON rooms, by lines of numbers.
#include <type_traits>

#include "reference/core/columns.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/falcon.hpp"

namespace assay {

/// x_t of a row that writes, or its gradient.
template <class In>
auto features(const WriteOptions& options, In& in, int t) {
  using X = std::remove_reference_t<decltype(write_feature(options, in, t, 0))>;
  return Line<X>{&write_feature(options, in, t, 0), 1, in.k.size(1)};
}

/// o_t = S_t^T q_t, on top of what is there.
template <class S>
void add_read(Tensor<S, 2>& o, int t, const Columns<S>& state, const Tensor<S, 2>& q) {
  for (int c = 0; c < state.size(1); ++c) add_dot(o(t, c), column(state, c), line(q, t));
}

/// dq = S_t do,  G += q do^T.
template <class S>
void add_read_gradients(Tensor<S, 2>& dq, Columns<S>& G, int t, const Columns<S>& state, const Tensor<S, 2>& q,
                        const Tensor<S, 2>& d_o) {
  for (int c = 0; c < state.size(1); ++c) {
    add_scaled(line(dq, t), d_o(t, c), column(state, c));
    add_scaled(column(G, c), d_o(t, c), line(q, t));
  }
}

}  // namespace assay
