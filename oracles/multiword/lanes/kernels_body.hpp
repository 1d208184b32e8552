#pragma once
// The table of one instruction set: included by kernels_*.cpp alone.
#include "oracles/multiword/lanes/ball_kernels.hpp"
#include "oracles/multiword/lanes/definite_kernels.hpp"
#include "oracles/multiword/lanes/delta_adjoint.hpp"
#include "oracles/multiword/lanes/delta_slab.hpp"
#include "oracles/multiword/lanes/kernels.hpp"
#include "oracles/multiword/lanes/matrix.hpp"
#include "oracles/multiword/lanes/passes.hpp"
#include "oracles/multiword/lanes/precondition.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

template <int W>
constexpr WordKernels word_kernels() {
  WordKernels k{product<W, W>,    product<W, 1>,
                product_words<W>, dot_row<W>,
                residual_row<W>,  residual_end<W>,
                center_row<W>,    output_row<W>,
                multiply_row<W>,  score_gradient_row<W>,
                nullptr,          nullptr,
                nullptr,          {}};
  if constexpr (W > 1) {
    k.weights = weights_row<W>, k.exp_of_doubles = exp_of_doubles<W>, k.delta = delta_slab<W>;
    k.pack = pack_kernels<W>();
  }
  return k;
}

template <class R>
constexpr Preconditioner<R> preconditioner() {
  return {covariance<R>, cholesky<R>, transpose_factor<R>, solve_factored<R>};
}

inline const Kernels& table() {
  static constexpr Kernels all{lane_count,
                               {{}, word_kernels<1>(), word_kernels<2>(), word_kernels<3>(), word_kernels<4>()},
                               preconditioner<float>(),
                               preconditioner<double>(),
                               {factor_definite, solve_definite}};
  return all;
}

}  // namespace assay::words::ASSAY_WORDS_ISA
