// A backward of softmax attention that no tile program has: D from the products of P and dP.
#include "judge/forms/sequential.hpp"
#include "oracles/core/make_room.hpp"
#include "reference/softmax_attention.hpp"

namespace assay {

namespace {

Emulated kept(const Emulated& x) { return EmulatedArithmetic::kept(x.value); }

/// The room with its factors stored: o_i = sum_j P_ij v_j / l_i, dv_j = sum_i P_ij g_i, and with dP_ij = g_i.v_j
///   D_i = sum_j p_ij dP_ij,  dS_ij = p_ij (dP_ij - D_i),  dq_i = sum_j dS_ij k_j / h,  dk_j = sum_i dS_ij q_i / h,
///   dh = -sum_ij dS_ij (s_ij - m_i) / h.
struct product_sum : softmax_attention {
  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int n = in.q.size(0), V = in.v.size(1);
    Outputs<S> out{Tensor<S, 2>(n, V)};
    for (int i = 0; i < n; ++i) {
      const VisibleRow<S> row = visible_row(options, in.q, in.k, in.bandwidth(), i);
      for (int j = row.first; j < row.last; ++j)
        add_scaled(line(out.o, i), kept(row.weights[static_cast<std::size_t>(j - row.first)]), line(in.v, j));
      for (int c = 0; c < V && row.first < row.last; ++c) out.o(i, c) /= row.sum;
    }
    return out;
  }

  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const S h = in.bandwidth();
    Inputs<S> d{{}, Tensor<S, 2>(in.q.extent), Tensor<S, 2>(in.k.extent), Tensor<S, 2>(in.v.extent)};
    for (int i = 0; i < in.q.size(0); ++i) {
      const VisibleRow<S> row = visible_row(options, in.q, in.k, h, i);
      std::vector<S> dp;
      S sum = S(0);
      for (int j = row.first; j < row.last; ++j) {
        dp.push_back(dot(line(cotangent.o, i), line(in.v, j)));
        sum += row.p(j) * dp.back();
      }
      for (int j = row.first; j < row.last; ++j) {
        const S p = row.p(j), ds = p * (dp[static_cast<std::size_t>(j - row.first)] - sum), factor = kept(ds);
        add_scaled(line(d.q, i), factor, line(in.k, j));
        add_scaled(line(d.k, j), factor, line(in.q, i));
        add_scaled(line(d.v, j), kept(p), line(cotangent.o, i));
        d.bandwidth() -= ds * (row.s(j) - row.max) / h;
      }
    }
    for (Tensor<S, 2>* tensor : {&d.q, &d.k})
      for (S& x : tensor->data) x /= h;
    return d;
  }
};

}  // namespace

Answer emulated_product_sum(const Problem& problem) {
  return detail::doubles_of(
      answer<product_sum, Emulated>(Binding<product_sum, double>(problem), !problem.cotangents.empty()));
}

}  // namespace assay
