#pragma once
// Where a reference does in scalars whose operations err what it leaves out in others.
#include <vector>

#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

/// Whether contractions of this scalar err, on this thread, as those of any healthy kernel may (evidence `model`).
template <class S>
bool errs() {
  if constexpr (requires { S::errs(); })
    return S::errs();
  else
    return false;
}

/// sum += a b, numbers of two states: a term of a gate's gradient. Where kernels store states as operands it is a
/// product of what they have stored.
template <class S>
void add_product_of_states(S& sum, const S& a, const S& b) {
  if constexpr (requires { S::stores_states(); })
    if (S::stores_states()) return add_dot(sum, Line<const S>{&a, 1, 1}, Line<const S>{&b, 1, 1});
  sum += a * b;
}

/// y_i += x_i, which kernels make a product with ones of: there x is an operand.
template <class S>
void add_line(const Line<S>& y, const detail::LineOf<const S>& x) {
  if (errs<S>()) return add_scaled(y, S(1), x);
  for (int i = 0; i < x.size; ++i) y[i] += x[i];
}

/// The rows of x as a kernel reads them that goes on with what it has read: an operand of many contractions is rounded
/// once. Elsewhere x itself.
template <class S>
Tensor<S, 2> read_once(const Tensor<S, 2>& x) {
  if (!errs<S>()) return x;
  Tensor<S, 2> read(x.extent);
  for (int i = 0; i < x.size(0); ++i) add_scaled(line(read, i), S(1), line(x, i));
  return read;
}

/// factor times products with x, and either operand of them may carry the factor: a small one leaves the range of a
/// narrow format with x, and not behind the product.
template <class S>
class ScaledProducts {
 public:
  ScaledProducts(const S& factor, const Line<const S>& x) : factor_(factor) {
    for (int i = 0; errs<S>() && i < x.size; ++i) scaled_.push_back(factor * x[i]);
  }
  /// factor a.x, `product` being a.x.
  S with(const Line<const S>& a, const S& product) const {
    return errs<S>() ? dot(a, line(scaled_)) : S(factor_ * product);
  }

 private:
  S factor_;
  std::vector<S> scaled_;
};

}  // namespace assay
