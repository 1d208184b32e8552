#pragma once
// Momentum DeltaNet, chunkwise (delta-family.md 2.5 and 2.6). A token's gradient stays in the momentum and is written
// again at every later step, so that what it weighs after token i is no product of decays. For a chunk of C tokens
//   rho_ij = prod_{j < l <= i} mu_l,   a_i = prod_{l <= i} alpha_l,   m_i = prod_{l <= i} mu_l
//   Gamma_ij = alpha_i Gamma_{i-1,j} + beta_i rho_ij,   b_i = alpha_i b_{i-1} + beta_i m_i,   from zero
// without a logarithm, quotient or difference: any gate may be 0. g and r are the last rows of Gamma and rho; errors
// read the state before their token, with late rows: Gamma'_ij = Gamma_{i-1,j}, a'_i = a_{i-1}, b'_i = b_{i-1}. With
// the state S and the momentum M before the chunk
//   T = (I + strict_lower(P K^T) o Gamma' diag(eta))^{-1} by forward substitution,   E = T (V - a' o P S + b' o P M)
//   O = scale (a o Q S - b o Q M + (lower(Q K^T) o Gamma diag(eta)) E)
//   S <- a_C S - b_C M + K^T (eta g o E),   M <- m_C M - K^T (eta r o E)
// Backward, last chunk first, G and N the cotangents of S and M after the chunk and Y = scale dO:
//   dE = (lower(Q K^T) o Gamma diag(eta))^T Y + eta g o K G - eta r o K N,   dV = T^T dE
//   N <- m_C N - b_C G - Q^T (b o Y) + P^T (b' o dV),   G <- a_C G + Q^T (a o Y) - P^T (a' o dV)
//   X = lower(Y E^T) o Gamma,   F = -strict_lower(dV E^T) o Gamma'
//   dQ = a o Y S^T - b o Y M^T + X diag(eta) K,   dP = -a' o dV S^T + b' o dV M^T + F diag(eta) K
//   dK = eta o H,   deta = rowsum(H o K),   H = X^T Q + F^T P + (g o E) G^T - (r o E) N^T
// The summands of Gamma, beta_l rho_lj and beta_l m_l, get their gradient through the transposed recurrence
//   D_lj = dGamma_lj + dGamma'_{l+1,j} + alpha_{l+1} D_{l+1,j},   and likewise d_l from db and db'
//   dbeta_l = sum_j D_lj rho_lj + d_l m_l,   dlog_alpha_l = alpha_l (sum_j D_lj Gamma'_lj + d_l b'_l) + ...
// and a product of gates, times its cotangent, is a term of the gradient of the log of every gate it contains.
// Chunks are independent but for the two passes. States lie in memory as operands, DK rows for each chunk; Gamma and
// the inverses as C rows.
#include <limits>

#include "kernels/core/functions.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// The weights of every chunk's tokens and the factors of what it carries; the totals DK times for each chunk.
template <class Row>
struct MomentumRows {
  Row a, b, late_a, late_b, g, r, total_a, total_b, total_m;
};

/// Those of them that a step of a pass takes, g and r times eta.
template <class Row, class Total>
struct RowsOfChunk {
  Row late_a, late_b, g, r;
  Total total_a, total_b, total_m;
};

/// Gates in, weights out.
template <ExecutorTypes B>
struct MomentumGates {
  typename B::RowIn log_alpha, log_mu, beta;
  MomentumRows<typename B::RowOut> rows;
  int len;
};

/// The weights by their recurrence.
template <ExecutorTypes B, Size C, Size DK>
struct LinearWeights {
  struct Smem {
    typename B::template Tile<"decay", C, C> rho;
    typename B::template Tile<"Gamma", C, C> steps;  // diag(beta) rho
  };

  template <class Ex, class Tile>
  TILE_FN static void run(Ex& b, Smem& s, Tile& Gamma, Tile& late, const MomentumGates<B>& a, int head, int chunk) {
    const int row = chunk * C, n = imin(C, a.len - row);
    const auto times_beta = [&](auto x, auto beta) {
      return x * b.planted("step_offset"_s, beta, beta + decltype(beta)(1e-6));
    };
    const auto stepped = [&](auto, auto x, auto beta) { return times_beta(x, beta); };
    auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, row);
    b.decay_ratios("decay"_s, s.rho, a.log_mu, head, row);
    b.sync();
    auto X = b.acc("Gamma"_s, Shape<C, C>{});
    X.zip("Gamma"_s, stepped, s.rho, beta);
    b.put(s.steps, X);
    b.sync();
    decay_scan(b, "Gamma"_s, Gamma, s.steps, a.log_alpha, head, row);
    decay_scan(b, "Gamma"_s, late, s.steps, a.log_alpha, head, row, b.planted("weights_of_errors"_s, 1, 0));

    auto m = b.decay_prefix("decay"_s, Shape<C>{}, a.log_mu, head, row);
    auto z = b.decay_suffix("decay"_s, Shape<C>{}, a.log_alpha, head, row);
    auto of_momentum = b.rows("Gamma"_s, times_beta, m, beta), of_end = b.rows("Gamma"_s, times_beta, z, beta);
    auto none = b.row("Gamma"_s, Shape<C>{}, 0);
    const int count = b.planted("tail_decay"_s, C, n < C ? n - 1 : int{C});
    b.store_row("decay"_s, a.rows.a, head, row, b.decay_prefix("decay"_s, Shape<C>{}, a.log_alpha, head, row));
    b.store_row("decay"_s, a.rows.late_a, head, row, b.decay_prefix("decay"_s, Shape<C>{}, a.log_alpha, head, row, 1));
    b.store_row("Gamma"_s, a.rows.b, head, row, decay_scan(b, "Gamma"_s, of_momentum, a.log_alpha, head, row));
    b.store_row("Gamma"_s, a.rows.late_b, head, row, decay_scan(b, "Gamma"_s, of_momentum, a.log_alpha, head, row, 1));
    b.store_row("Gamma"_s, a.rows.g, head, row, decay_scan_adjoint(b, "Gamma"_s, of_end, none, a.log_mu, head, row));
    b.store_row("decay"_s, a.rows.r, head, row, b.decay_suffix("decay"_s, Shape<C>{}, a.log_mu, head, row));
    b.store_row("decay"_s, a.rows.total_a, head, chunk * DK,
                b.decay_total("decay"_s, Shape<DK>{}, a.log_alpha, head, row, count));
    b.store_row("Gamma"_s, a.rows.total_b, head, chunk * DK,
                b.gates_of_total("Gamma"_s, Shape<DK>{}, b.rows("Gamma"_s, times, of_momentum, z)));
    b.store_row("decay"_s, a.rows.total_m, head, chunk * DK,
                b.decay_total("decay"_s, Shape<DK>{}, a.log_mu, head, row, C));
  }

  struct GradientSmem {
    typename B::template Tile<"decay", C, C> rho;
    typename B::template Tile<"dsteps", C, C> D;
    typename B::template Tile<"dsteps", C, C> terms;
  };

  /// Backwards through the recurrences of Gamma and b. `of` holds the cotangents of the rows; those of products of
  /// gates, a, late_a, r, total_a and total_m, times the products.
  template <class Ex, class Tile, class Cotangent, class Args, class Row>
  TILE_FN static void gradients(Ex& b, GradientSmem& s, Tile&, Tile& late, Cotangent& dGamma, Cotangent& dlate,
                                const Args& a, const MomentumRows<Row>& of, int head, int chunk, int part) {
    const int row = chunk * C;
    const auto weighed = [](auto x, auto y, auto beta) { return x * y * beta; };
    const auto of_alpha = [](auto alpha, auto sums, auto prefix, auto errors, auto carried) {
      return alpha * sums + prefix + errors + carried;
    };
    const auto of_mu = [&](auto ratios, auto prefix, auto last, auto carried) {
      return ratios + prefix + last + b.planted("dlog_mu_without_momentum"_s, carried, carried * 0);
    };
    auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, row);
    auto late_b = b.load_row("Gamma"_s, Shape<C>{}, a.rows.late_b, head, row);
    auto z = b.decay_suffix("decay"_s, Shape<C>{}, a.log_alpha, head, row);
    auto m = b.decay_prefix("decay"_s, Shape<C>{}, a.log_mu, head, row);
    b.decay_ratios("decay"_s, s.rho, a.log_mu, head, row);
    decay_scan_adjoint(b, "gates"_s, s.D, dGamma, dlate, a.log_alpha, head, row);
    auto d = b.rows("gates"_s, plus_times, decay_scan_adjoint(b, "gates"_s, of.b, of.late_b, a.log_alpha, head, row), z,
                    of.total_b);
    b.sync();
    auto D = b.acc("gates"_s, Shape<C, C>{}), ratios = D, weights = D;
    D.zip("gates"_s, copy, s.D);
    D.map("gates"_s, plus_times, z, b.column_of(of.g));
    D.mask(lower, 0);
    ratios.zip("gates"_s, copy, s.rho);
    weights.zip("gates"_s, copy, late);
    b.store_row("dbeta"_s, a.dbeta, part, row, b.rows("gates"_s, plus_times, b.dot("gates"_s, D, ratios), d, m));
    auto of_sums = b.rows("gates"_s, plus_times, b.dot("gates"_s, D, weights), d, late_b);
    D.zip("gates"_s, weighed, s.rho, beta);
    b.put(s.terms, D);
    b.sync();
    const auto of_late = b.gates_of_prefix("gates"_s, of.late_a, 1), of_a = b.gates_of_prefix("gates"_s, of.a);
    b.store_row("dlog_alpha"_s, a.dlog_alpha, part, row,
                b.rows("gates"_s, of_alpha, b.decays("decay"_s, Shape<C>{}, a.log_alpha, head, row), of_sums, of_a,
                       of_late, of.total_a));
    auto from_m = b.rows("gates"_s, times, b.rows("gates"_s, times, m, beta), d);
    const auto of_r = b.gates_of_suffix("gates"_s, of.r), of_m = b.gates_of_prefix("gates"_s, from_m);
    b.store_row("dlog_mu"_s, a.dlog_mu, part, row,
                b.rows("gates"_s, of_mu, b.gates_of_ratios("gates"_s, s.terms), of_m, of_r, of.total_m));
  }
};

/// The weights as they were published (delta-family.md 2.7): with prefix sums la and lm of the log gates,
///   x_i = log beta_i + lm_i - la_i,   lc_i = log sum_{l <= i} exp(x_l)
///   L_ij = exp(la_i - lm_j + lc_i),   R_ij = exp(lc_{j-1} - lc_i)
///   Gamma_ij = L_ij (1 - R_ij),   b_i = exp(la_i + lc_i)
/// Where mu decays faster than alpha 1 - R is what rounding leaves of it, and then L overflows. No gate may be closed
/// and no beta be zero. Backward is their derivative:
///   U = dGamma o Gamma is a term of dla_i, of dlc_i and, negative, of dlm_j
///   W = dGamma o L o R one of dlc_i and, negative, of dlc_{j-1};   dx_l = sum_{i >= l} dlc_i exp(x_l - lc_i)
template <ExecutorTypes B, Size C, Size DK>
struct LogDomainWeights {
  static constexpr auto log_of_zero = -std::numeric_limits<typename B::Real>::infinity();
  struct Smem {};

  template <class Ex, class Tile>
  TILE_FN static void run(Ex& b, Smem&, Tile& Gamma, Tile& late, const MomentumGates<B>& a, int head, int chunk) {
    const int row = chunk * C;
    const auto to_power = [](auto x) { return exponential(x); };
    const auto exponential_of_sum = [](auto x, auto y) { return exponential(x + y); };
    const auto exponential_of_difference = [](auto x, auto y) { return exponential(x - y); };
    const auto weigh = [](auto x, auto ratio) { return x * (1 - ratio); };
    const auto weigh_end = [](auto la, auto lm, auto lc, auto before) {
      return exponential(la - lm + lc) * (1 - exponential(before - lc));
    };
    const auto l = logs(b, a, head, row);
    const auto put = [&](Tile& tile, const auto& la, const auto& lc, auto keep) {
      auto R = ratios(b, l, lc);
      auto X = leading(b, l, la, lc);
      X.zip("Gamma"_s, weigh, R);
      X.mask(keep, 0);
      b.put(tile, X);
    };
    put(Gamma, l.la, l.lc, lower);
    put(late, l.late_la, l.late_lc, [](int i, int j) { return i > j; });

    auto log_alpha = b.load_row("log"_s, Shape<C>{}, a.log_alpha, head, row);
    auto log_mu = b.load_row("log"_s, Shape<C>{}, a.log_mu, head, row);
    auto total_la = b.gates_of_total("log"_s, Shape<DK>{}, log_alpha);
    b.store_row("decay"_s, a.rows.a, head, row, b.rows("decay"_s, to_power, l.la));
    b.store_row("decay"_s, a.rows.late_a, head, row, b.rows("decay"_s, to_power, l.late_la));
    b.store_row("Gamma"_s, a.rows.b, head, row, b.rows("Gamma"_s, exponential_of_sum, l.la, l.lc));
    b.store_row("Gamma"_s, a.rows.late_b, head, row, b.rows("Gamma"_s, exponential_of_sum, l.late_la, l.late_lc));
    b.store_row("Gamma"_s, a.rows.g, head, row, b.rows("Gamma"_s, weigh_end, l.end_la, l.lm, l.end_lc, l.late_lc));
    b.store_row("decay"_s, a.rows.r, head, row, b.rows("decay"_s, exponential_of_difference, l.end_lm, l.lm));
    b.store_row("decay"_s, a.rows.total_a, head, chunk * DK, b.rows("decay"_s, to_power, total_la));
    b.store_row("Gamma"_s, a.rows.total_b, head, chunk * DK,
                b.rows("Gamma"_s, exponential_of_sum, total_la,
                       log_sum_exp(b, Shape<DK>{}, l.of_x, [](int, int) { return true; })));
    b.store_row("decay"_s, a.rows.total_m, head, chunk * DK,
                b.rows("decay"_s, to_power, b.gates_of_total("log"_s, Shape<DK>{}, log_mu)));
  }

  struct GradientSmem {
    typename B::template Tile<"dlog", C, C> now;
    typename B::template Tile<"dlog", C, C> late;
    typename B::template Tile<"dlog", C, C> sums;
  };

  /// As of LinearWeights.
  template <class Ex, class Tile, class Cotangent, class Args, class Row>
  TILE_FN static void gradients(Ex& b, GradientSmem& s, Tile& Gamma, Tile& late, Cotangent& dGamma, Cotangent& dlate,
                                const Args& a, const MomentumRows<Row>& of, int head, int chunk, int part) {
    const int row = chunk * C;
    const auto plus_minus = [](auto x, auto y, auto z) { return x + y - z; };
    const auto sum_of_three = [](auto x, auto y, auto z) { return x + y + z; };
    const auto sum_of_four = [](auto x, auto y, auto z, auto u) { return x + y + z + u; };
    const auto of_end_ratio = [&](auto g, auto la, auto lm, auto lc, auto before) {
      return exponential(la - lm + lc) * g * exponential(before - lc);
    };
    const auto plus_total = [](auto x, auto cotangent, auto la, auto lc) {
      return x + cotangent * exponential(la + lc);
    };
    const auto plus_share = [&](auto sum, auto x, auto lc, auto cotangent) {
      return sum + b.planted("end_dropped"_s, cotangent, cotangent * 0) * exponential(x - lc);
    };
    const auto taken_by_steps = [&](auto x) { return b.planted("steps_dropped"_s, x, x * 0); };
    const auto l = logs(b, a, head, row);
    // Through L and b: U.
    auto U = of_weights(b, dGamma, Gamma, lower), U_late = of_weights(b, dlate, late, strictly_lower);
    auto g = b.rows("dlog"_s, times, of.g, b.load_row("Gamma"_s, Shape<C>{}, a.rows.g, head, row));
    auto of_b = b.rows("dlog"_s, times, of.b, b.load_row("Gamma"_s, Shape<C>{}, a.rows.b, head, row));
    auto of_late_b = b.rows("dlog"_s, times, of.late_b, b.load_row("Gamma"_s, Shape<C>{}, a.rows.late_b, head, row));
    auto now = b.rows("dlog"_s, plus, row_sums(b, U), of_b),
         before = b.rows("dlog"_s, plus, row_sums(b, U_late), of_late_b);
    auto end = b.rows("dlog"_s, plus_total, b.gates_of_total("dlog"_s, Shape<C>{}, g), of.total_b, l.end_la, l.end_lc);
    auto columns = b.rows("dlog"_s, plus, column_sums(b, s, a, head, U, U_late), g);

    // Through R: W.
    auto W = of_ratios(b, l, dGamma, l.la, l.lc, lower),
         W_late = of_ratios(b, l, dlate, l.late_la, l.late_lc, strictly_lower);
    auto W_end = b.rows("dlog"_s, of_end_ratio, of.g, l.end_la, l.lm, l.end_lc, l.late_lc);
    auto taken = b.rows("dlog"_s, plus, column_sums(b, s, a, head, W, W_late), W_end);
    auto dlc = b.rows("dlog"_s, plus, now, row_sums(b, W));
    auto late_dlc = b.rows("dlog"_s, plus_minus, before, row_sums(b, W_late), taken);
    auto end_dlc = b.rows("dlog"_s, plus, end, b.gates_of_total("dlog"_s, Shape<C>{}, W_end));

    // Through the sums.
    auto sums =
        column_sums(b, s, a, head, of_sums(b, l, dlc, l.lc, lower), of_sums(b, l, late_dlc, l.late_lc, strictly_lower));
    auto dx = b.rows("dlog"_s, plus_share, sums, l.x, l.end_lc, end_dlc);
    auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, row);
    b.store_row("dbeta"_s, a.dbeta, part, row, b.rows("dlog"_s, over, dx, beta));
    dx = b.rows("dlog"_s, taken_by_steps, dx);
    auto dla = b.rows("dlog"_s, plus_minus, now, of.a, dx), late_dla = b.rows("dlog"_s, plus, before, of.late_a);
    const auto of_late = b.gates_of_prefix("dlog"_s, late_dla, 1);
    b.store_row("dlog_alpha"_s, a.dlog_alpha, part, row,
                b.rows("dlog"_s, sum_of_four, b.gates_of_prefix("dlog"_s, dla), of_late, end, of.total_a));
    auto dlm = b.rows("dlog"_s, minus, dx, columns);
    const auto of_r = b.gates_of_suffix("dlog"_s, of.r);
    b.store_row("dlog_mu"_s, a.dlog_mu, part, row,
                b.rows("dlog"_s, sum_of_three, b.gates_of_prefix("dlog"_s, dlm), of_r, of.total_m));
  }

 private:
  template <class Row, class Col>
  struct Logs {
    Row la, late_la, lm, x, lc, late_lc, end_la, end_lm, end_lc;
    Col of_lm, of_x, of_late_lc;  // by column
  };

  template <class Ex, class X>
  TILE_FN static auto row_sums(Ex& b, const X& x) {
    auto sum = b.partial("dlog"_s, Shape<C>{});
    sum.fold(b.row("dlog"_s, Shape<C>{}, 1), x);
    return sum.total();
  }
  /// Sums of the columns of both triangles: nothing decays beyond the end; the scan sums from the diagonal down.
  template <class Ex, class Args, class X>
  TILE_FN static auto column_sums(Ex& b, GradientSmem& s, const Args& a, int head, const X& x, const X& late) {
    b.put(s.now, x);
    b.put(s.late, late);
    b.sync();
    decay_scan_adjoint(b, "dlog"_s, s.sums, s.now, s.late, a.log_alpha, head, a.log_alpha.rows);
    b.sync();
    auto Y = in_registers(b, "dlog"_s, s.sums);
    Y.mask([](int i, int j) { return i == j; }, 0);
    return row_sums(b, Y);
  }
  template <class Ex, class Tile, class Cotangent, class Keep>
  TILE_FN static auto of_weights(Ex& b, Cotangent& cotangent, Tile& weights, Keep keep) {
    auto U = in_registers(b, "dlog"_s, cotangent);
    U.zip("dlog"_s, times, weights);
    U.mask(keep, 0);
    return U;
  }
  template <class Ex, class L, class Cotangent, class Row, class Keep>
  TILE_FN static auto of_ratios(Ex& b, const L& l, Cotangent& cotangent, const Row& la, const Row& lc, Keep keep) {
    const auto of_ratio = [](auto weight, auto derivative, auto ratio) { return weight * derivative * ratio; };
    auto R = ratios(b, l, lc);
    auto W = leading(b, l, la, lc);
    W.zip("dlog"_s, of_ratio, cotangent, R);
    W.mask(keep, 0);
    return W;
  }
  template <class Ex, class L, class Row, class Keep>
  TILE_FN static auto of_sums(Ex& b, const L& l, const Row& cotangent, const Row& lc, Keep keep) {
    auto X = b.acc("exponent"_s, Shape<C, C>{});
    X.map(
        "exponent"_s, [](auto, auto x, auto log) { return exponential(x - log); }, l.of_x, lc);
    X.mask(keep, 0);
    X.map("dlog"_s, times, cotangent);
    return X;
  }

  template <class X>
  TILE_FN static X exponential(X x) {
    return ex2(x * X(1.442695040888963407359924681001892137L));
  }
  template <class X>
  TILE_FN static X logarithm(X x) {
    return lg2(x) * X(0.693147180559945309417232121458176568L);
  }

  /// Row i: the log of the sum of exp(x) over the columns that it keeps.
  template <Size R, class Ex, class Col, class Keep>
  TILE_FN static auto log_sum_exp(Ex& b, Shape<R>, const Col& x, Keep keep) {
    auto X = b.acc("exponent"_s, Shape<R, C>{});
    X.map(
        "exponent"_s, [](auto, auto y) { return y; }, x);
    X.mask(keep, log_of_zero);
    auto top = X.row_max();
    X.map(
        "exponent"_s, [](auto y, auto most) { return exponential(y - most); }, top);
    X.mask(keep, 0);
    auto sum = b.partial("log"_s, Shape<R>{});
    sum.fold(b.row("log"_s, Shape<R>{}, 1), X);
    return b.rows(
        "log"_s, [](auto most, auto y) { return most + logarithm(y); }, top, sum.total());
  }

  template <class Ex, class Gates>
  TILE_FN static auto logs(Ex& b, const Gates& a, int head, int row) {
    const auto logarithm_of = [](auto beta) { return logarithm(beta); };
    auto log_alpha = b.load_row("log"_s, Shape<C>{}, a.log_alpha, head, row);
    auto log_mu = b.load_row("log"_s, Shape<C>{}, a.log_mu, head, row);
    auto late_la = b.gates_of_suffix("log"_s, log_alpha), la = b.rows("log"_s, plus, late_la, log_alpha);
    auto lm = b.rows("log"_s, plus, b.gates_of_suffix("log"_s, log_mu), log_mu);
    auto log_beta = b.rows("log"_s, logarithm_of, b.load_row("beta"_s, Shape<C>{}, a.beta, head, row));
    auto x = b.rows("log"_s, minus, b.rows("log"_s, plus, log_beta, lm), la);
    auto of_x = b.column_of(x);
    auto lc = log_sum_exp(b, Shape<C>{}, of_x, lower);
    auto late_lc = log_sum_exp(b, Shape<C>{}, of_x, [](int i, int j) { return i > j; });
    auto end_lc = log_sum_exp(b, Shape<C>{}, of_x, [](int, int) { return true; });
    auto of_lm = b.column_of(lm), of_late_lc = b.column_of(b.planted("inclusive_sum"_s, late_lc, lc));
    auto end_la = b.gates_of_total("log"_s, Shape<C>{}, log_alpha),
         end_lm = b.gates_of_total("log"_s, Shape<C>{}, log_mu);
    return Logs<decltype(la), decltype(of_x)>{la,     late_la, lm,     x,     lc,   late_lc,
                                              end_la, end_lm,  end_lc, of_lm, of_x, of_late_lc};
  }

  /// R, of the rows' logs.
  template <class Ex, class L, class Row>
  TILE_FN static auto ratios(Ex& b, const L& l, const Row& lc) {
    auto R = b.acc("ratio"_s, Shape<C, C>{});
    R.map(
        "ratio"_s, [](auto, auto log, auto earlier) { return exponential(earlier - log); }, lc, l.of_late_lc);
    return R;
  }
  /// L.
  template <class Ex, class L, class Row>
  TILE_FN static auto leading(Ex& b, const L& l, const Row& la, const Row& lc) {
    auto X = b.acc("exponent"_s, Shape<C, C>{});
    X.map(
        "exponent"_s, [](auto, auto x, auto y, auto z) { return x - z + y; }, la, lc, l.of_lm);
    X.map("Gamma"_s, [](auto x) { return exponential(x); });
    return X;
  }
};

/// All that does not depend on the values. Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK, class Weights>
struct MomentumSystem {
  struct Args {
    typename B::In k, p;
    MomentumGates<B> gates;
    typename B::RowIn eta;
    typename B::Out weights, late_weights, inverse;
    int group;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"Kp", C, DK> P;
    typename B::template Tile<"Gamma", C, C> Gamma;
    typename B::template Tile<"Gamma", C, C> late;
    typename B::template Tile<"A", C, C> A;
    typename B::template Tile<"Tc", C, C> T;
    typename Weights::Smem weights;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int row = chunk * C;
    const auto weighed = [&](auto x, auto weight, auto of_row, auto of_column) {
      return x * weight * b.planted("eta_of_row"_s, of_column, of_row);
    };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.K, a.k, head / a.group, row);
          b.load(s.P, a.p, head / a.group, row);
        },
        [&](int, int) {
          Weights::run(b, s.weights, s.Gamma, s.late, a.gates, head, chunk);
          b.sync();
          auto X = in_registers(b, "Gamma"_s, s.Gamma);
          b.store("Gamma"_s, a.weights, head, row, X);
          X.zip("Gamma"_s, copy, s.late);
          b.store("Gamma"_s, a.late_weights, head, row, X);
          auto A = b.abt("PK"_s, s.P, s.K);
          const auto of_column = b.load_col("eta"_s, Shape<1, C>{}, a.eta, head, row);
          A.zip("A"_s, weighed, s.late, b.load_row("eta"_s, Shape<C>{}, a.eta, head, row), of_column);
          A.mask([](int i, int j) { return i > j; }, 0);
          b.put(s.A, A);
          b.sync();
          b.unit_lower_inverse("T"_s, s.T, s.A);
          b.sync();
          A.zip("PK"_s, copy, s.T);
          b.store("Tc"_s, a.inverse, head, row, A);
        });
  }
};

/// All before a step starts, for memory answers late.
template <Size C, Size DK, class X, class Rows, class Row>
TILE_FN auto rows_of_chunk(X& b, const MomentumRows<Rows>& of, const Row& eta, int head, int chunk) {
  const auto token = [&](auto site, const Rows& rows) { return b.load_row(site, Shape<C>{}, rows, head, chunk * C); };
  const auto total = [&](auto site, const Rows& rows) { return b.load_row(site, Shape<DK>{}, rows, head, chunk * DK); };
  const auto late_a = token("decay"_s, of.late_a), late_b = token("Gamma"_s, of.late_b), g = token("Gamma"_s, of.g),
             r = token("decay"_s, of.r), step = b.load_row("eta"_s, Shape<C>{}, eta, head, chunk * C);
  const auto total_a = total("decay"_s, of.total_a), total_b = total("Gamma"_s, of.total_b),
             total_m = total("decay"_s, of.total_m);
  return RowsOfChunk<decltype(late_a), decltype(total_a)>{
      late_a, late_b, b.rows("Gamma"_s, times, step, g), b.rows("decay"_s, times, step, r), total_a, total_b, total_m};
}

/// The errors, and the state and momentum before every chunk. Blocks are DV columns of the values of a head.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct MomentumPass {
  struct Args {
    typename B::In k, p, v, inverse, initial_state, initial_momentum;
    typename B::RowIn eta;
    MomentumRows<typename B::RowIn> rows;
    typename B::Out errors, states, momenta, final_state, final_momentum;
    int len, group;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> K[ST];
    typename B::template Tile<"Kp", C, DK> P[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"S0", DK, DV> S0;
    typename B::template Tile<"M0", DK, DV> M0;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Mc", DK, DV> M;
    typename B::template Tile<"Wc", C, DV> W;
    typename B::template Tile<"gEc", C, DV> gE;
    typename B::template Tile<"rEc", C, DV> rE;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunks = imax(1, ceil_div(a.len, C)), v0 = block * DV;
    auto S = b.acc("S"_s, Shape<DK, DV>{}), M = b.acc("M"_s, Shape<DK, DV>{});
    b.load(s.S0, a.initial_state, head, 0, v0);
    b.load(s.M0, a.initial_momentum, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, chunks,
        [&](int j, int st) {
          b.load(s.K[st], a.k, head / a.group, j * C);
          b.load(s.P[st], a.p, head / a.group, j * C);
          b.load(s.V[st], a.v, head, j * C, v0);
          b.load(s.T[st], a.inverse, head, j * C);
        },
        [&](int j, int st) {
          const auto rows = rows_of_chunk<C, DK>(b, a.rows, a.eta, head, j);
          if (j == 0) S.zip("S"_s, copy, s.S0);
          if (j == 0 || b.planted("momentum_not_carried"_s, false, true)) M.zip("M"_s, copy, s.M0);
          b.store("Sc"_s, a.states, head, j * DK, S, v0);
          b.store("Mc"_s, a.momenta, head, j * DK, M, v0);
          b.put(s.S, S);
          b.put(s.M, M);
          b.sync();
          auto W = b.ab("W"_s, s.P[st], s.S);
          W.map("W"_s, times, rows.late_a);
          W.zip("W"_s, taken_from, s.V[st]);
          auto of_momentum = b.ab("W"_s, s.P[st], s.M);
          of_momentum.map("W"_s, times, rows.late_b);
          if (b.planted("errors_without_momentum"_s, true, false)) W.zip("W"_s, plus, of_momentum);
          b.put(s.W, W);
          b.sync();
          auto E = b.ab("R"_s, s.T[st], s.W);
          E.map("E"_s, same);  // rounded once for those who read it here and there
          b.store("E"_s, a.errors, head, j * C, E, v0);
          auto written = E;
          written.map("X"_s, times, rows.g);
          b.put(s.gE, written);
          E.map("X"_s, negative_times, rows.r);
          b.put(s.rE, E);
          b.sync();
          S.map("S"_s, times, rows.total_a);
          S.zip("S"_s, minus_times, M, rows.total_b);
          b.mma_atb(S, s.K[st], s.gE);
          M.map("M"_s, times, rows.total_m);
          b.mma_atb(M, s.K[st], s.rE);
        });
    b.store("end"_s, a.final_state, head, 0, S, v0);
    b.store("end"_s, a.final_momentum, head, 0, M, v0);
  }
};

/// The outputs that the queries read. Blocks are pairs of a chunk and DV columns of the values, in this order.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct MomentumOutputs {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, errors, states, momenta, weights;
    typename B::RowIn eta;
    MomentumRows<typename B::RowIn> rows;
    typename B::Out o;
    Real scale;
    int group, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"E", C, DV> E;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Mc", DK, DV> M;
    typename B::template Tile<"Gamma", C, C> Gamma;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV, row = chunk * C;
    const auto weighed = [](auto x, auto weight, auto eta) { return x * weight * eta; };
    const auto scaled = [&](auto x) { return x * a.scale; };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, head / a.group, row);
          b.load(s.K, a.k, head / a.group, row);
          b.load(s.E, a.errors, head, row, v0);
          b.load(s.S, a.states, head, chunk * DK, v0);
          b.load(s.M, a.momenta, head, chunk * DK, v0);
          b.load(s.Gamma, a.weights, head, row);
        },
        [&](int, int) {
          auto P = b.abt("QK"_s, s.Q, s.K);
          P.zip("P"_s, weighed, s.Gamma, b.load_col("eta"_s, Shape<1, C>{}, a.eta, head, row));
          P.mask(lower, 0);
          auto O = b.ab("O"_s, s.Q, s.S);
          O.map("O"_s, times, b.load_row("decay"_s, Shape<C>{}, a.rows.a, head, row));
          auto of_momentum = b.ab("O"_s, s.Q, s.M);
          of_momentum.map("O"_s, times, b.load_row("Gamma"_s, Shape<C>{}, a.rows.b, head, row));
          O.zip("O"_s, minus, of_momentum);
          b.mma(O, b.cast("Pc"_s, P), s.E);
          O.map("o"_s, scaled);
          b.store("out"_s, a.o, head, row, O, v0);
        });
  }
};

/// Cotangents of the errors, the state and the momentum, from those of the outputs. Blocks as of the outputs.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct MomentumReads {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, o_cotangent, weights;
    typename B::RowIn eta;
    MomentumRows<typename B::RowIn> rows;
    typename B::Out derrors, state_updates, momentum_updates;
    Real scale;
    int group, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"Gamma", C, C> Gamma;
    typename B::template Tile<"Pc", C, C> P;
    typename B::template Tile<"Yc", C, DV> Y;
    typename B::template Tile<"aYc", C, DV> aY;
    typename B::template Tile<"bYc", C, DV> bY;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV, row = chunk * C;
    const auto weighed = [](auto x, auto weight, auto eta) { return x * weight * eta; };
    const auto scaled = [&](auto, auto x) { return x * a.scale; };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, head / a.group, row);
          b.load(s.K, a.k, head / a.group, row);
          b.load(s.dO, a.o_cotangent, head, row, v0);
          b.load(s.Gamma, a.weights, head, row);
        },
        [&](int, int) {
          auto P = b.abt("QK"_s, s.Q, s.K);
          P.zip("P"_s, weighed, s.Gamma, b.load_col("eta"_s, Shape<1, C>{}, a.eta, head, row));
          P.mask(lower, 0);
          b.put(s.P, P);
          auto Y = b.acc("X"_s, Shape<C, DV>{});
          Y.zip("X"_s, scaled, s.dO);
          b.put(s.Y, Y);
          auto bY = Y;
          bY.map("X"_s, negative_times, b.load_row("Gamma"_s, Shape<C>{}, a.rows.b, head, row));
          b.put(s.bY, bY);
          Y.map("X"_s, times, b.load_row("decay"_s, Shape<C>{}, a.rows.a, head, row));
          b.put(s.aY, Y);
          b.sync();
          b.store("dE"_s, a.derrors, head, row, b.atb("dE"_s, s.P, s.Y), v0);
          b.store("dW"_s, a.state_updates, head, chunk * DK, b.atb("dW"_s, s.Q, s.aY), v0);
          b.store("dW"_s, a.momentum_updates, head, chunk * DK, b.atb("dW"_s, s.Q, s.bY), v0);
        });
  }
};

/// The gradients of the errors, which are those of the values, and the cotangents of state and momentum after every
/// chunk. Blocks are DV columns of the values of a head.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct MomentumAdjointPass {
  struct Args {
    typename B::In k, p, derrors, state_updates, momentum_updates, inverse, final_state, final_momentum;
    typename B::RowIn eta;
    MomentumRows<typename B::RowIn> rows;
    typename B::Out dv, dvalues, states, momenta, initial_state, initial_momentum;  // dvalues: dv as an operand
    int len, group;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> K[ST];
    typename B::template Tile<"Kp", C, DK> P[ST];
    typename B::template Tile<"dE", C, DV> dE0[ST];
    typename B::template Tile<"dW", DK, DV> dS[ST];
    typename B::template Tile<"dW", DK, DV> dM[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"S0", DK, DV> G0;
    typename B::template Tile<"M0", DK, DV> N0;
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"Nc", DK, DV> N;
    typename B::template Tile<"dEc", C, DV> dE;
    typename B::template Tile<"aRc", C, DV> aR;
    typename B::template Tile<"bRc", C, DV> bR;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunks = imax(1, ceil_div(a.len, C)), v0 = block * DV;
    const auto start = [&](auto zero, auto x) { return b.planted("final_cotangent_dropped"_s, x, zero); };
    const auto minus_step = [&](auto x, auto y, auto z) {
      return x - b.planted("adjoint_without_step"_s, y, y * 0) * z;
    };
    auto G = b.acc("G"_s, Shape<DK, DV>{}), N = b.acc("N"_s, Shape<DK, DV>{});
    b.load(s.G0, a.final_state, head, 0, v0);
    b.load(s.N0, a.final_momentum, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, chunks,
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          b.load(s.K[st], a.k, head / a.group, j * C);
          b.load(s.P[st], a.p, head / a.group, j * C);
          b.load(s.dE0[st], a.derrors, head, j * C, v0);
          b.load(s.dS[st], a.state_updates, head, j * DK, v0);
          b.load(s.dM[st], a.momentum_updates, head, j * DK, v0);
          b.load(s.T[st], a.inverse, head, j * C);
        },
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          const auto rows = rows_of_chunk<C, DK>(b, a.rows, a.eta, head, j);
          if (i == 0) G.zip("G"_s, copy, s.G0);
          if (i == 0) N.zip("N"_s, start, s.N0);
          b.store("Gc"_s, a.states, head, j * DK, G, v0);
          b.store("Nc"_s, a.momenta, head, j * DK, N, v0);
          b.put(s.G, G);
          b.put(s.N, N);
          b.sync();
          const auto dE = cotangents_of_errors(b, s, st, rows);
          b.put(s.dE, dE);
          b.sync();
          auto R = b.atb("R"_s, s.T[st], s.dE);
          b.store("out"_s, a.dv, head, j * C, R, v0);
          R.map("dR"_s, same);  // rounded once for those who read it here and there
          b.store("dR"_s, a.dvalues, head, j * C, R, v0);
          auto bR = R;
          bR.map("X"_s, times, rows.late_b);
          b.put(s.bR, bR);
          R.map("X"_s, negative_times, rows.late_a);
          b.put(s.aR, R);
          b.sync();
          N.map("N"_s, times, rows.total_m);
          N.zip("N"_s, minus_step, G, rows.total_b);
          N.zip("N"_s, plus, s.dM[st]);
          b.mma_atb(N, s.P[st], s.bR);
          G.map("G"_s, times, rows.total_a);
          G.zip("G"_s, plus, s.dS[st]);
          b.mma_atb(G, s.P[st], s.aR);
        });
    b.store("end"_s, a.initial_state, head, 0, G, v0);
    b.store("end"_s, a.initial_momentum, head, 0, N, v0);
  }

 private:
  template <class Ex, class Rows>
  TILE_FN static auto cotangents_of_errors(Ex& b, Smem& s, int st, const Rows& rows) {
    auto dE = b.ab("dE"_s, s.K[st], s.G);
    dE.map("dE"_s, times, rows.g);
    auto of_momentum = b.ab("dE"_s, s.K[st], s.N);
    of_momentum.map("dE"_s, times, rows.r);
    dE.zip("dE"_s, minus, of_momentum);
    dE.zip("dE"_s, plus, s.dE0[st]);
    return dE;
  }
};

/// Gradients of a chunk's tokens, as parts: those of the value columns v0.. of its head. Blocks as of the outputs.
template <ExecutorTypes B, Size C, Size DK, Size DV, class Weights>
struct MomentumGradients {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, p, errors, dvalues, o_cotangent, states, momenta, state_adjoints, momentum_adjoints;
    typename B::In weights, late_weights;
    typename B::RowIn log_alpha, log_mu, beta, eta;
    MomentumRows<typename B::RowIn> rows;
    typename B::Out dq, dk, dp;
    typename B::RowOut dlog_alpha, dlog_mu, dbeta, deta;
    Real scale;
    int group, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"Kp", C, DK> P;
    typename B::template Tile<"E", C, DV> E;
    typename B::template Tile<"dR", C, DV> R;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Mc", DK, DV> M;
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"Nc", DK, DV> N;
    typename B::template Tile<"Gamma", C, C> Gamma;
    typename B::template Tile<"Gamma", C, C> late;
    typename B::template Tile<"Yc", C, DV> Y;
    typename B::template Tile<"gEc", C, DV> gE;
    typename B::template Tile<"rEc", C, DV> rE;
    typename B::template Tile<"Xc", C, C> X;   // to keys
    typename B::template Tile<"Xc", C, C> Xq;  // to queries
    typename B::template Tile<"Fc", C, C> F;   // to keys
    typename B::template Tile<"Fc", C, C> Fp;  // to prediction keys
    typename B::template Tile<"dGamma", C, C> dGamma;
    typename B::template Tile<"dGamma", C, C> dlate;
    typename Weights::GradientSmem weights;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.group, chunk = block / a.blocks, v0 = block % a.blocks * DV, row = chunk * C;
    const Place at{head, head * a.blocks + block % a.blocks, chunk, row};
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, shared, row);
          b.load(s.K, a.k, shared, row);
          b.load(s.P, a.p, shared, row);
          b.load(s.E, a.errors, head, row, v0);
          b.load(s.R, a.dvalues, head, row, v0);
          b.load(s.dO, a.o_cotangent, head, row, v0);
          b.load(s.S, a.states, head, chunk * DK, v0);
          b.load(s.M, a.momenta, head, chunk * DK, v0);
          b.load(s.G, a.state_adjoints, head, chunk * DK, v0);
          b.load(s.N, a.momentum_adjoints, head, chunk * DK, v0);
          b.load(s.Gamma, a.weights, head, row);
          b.load(s.late, a.late_weights, head, row);
        },
        [&](int, int) {
          auto eta = b.load_row("eta"_s, Shape<C>{}, a.eta, head, row);
          auto eta_of_column = b.load_col("eta"_s, Shape<1, C>{}, a.eta, head, row);
          auto g = b.load_row("Gamma"_s, Shape<C>{}, a.rows.g, head, row);
          auto r = b.load_row("decay"_s, Shape<C>{}, a.rows.r, head, row);
          auto late_b = b.load_row("Gamma"_s, Shape<C>{}, a.rows.late_b, head, row);
          const auto E = put_weighted(b, s, a, g, r);
          put_scores(b, s, eta_of_column);
          auto q = in_registers(b, "from"_s, s.Q), k = in_registers(b, "from"_s, s.K),
               p = in_registers(b, "from"_s, s.P);
          const auto [from_row, db] = store_queries(b, s, a, at, q);
          const auto [from_late, dlate_b] = store_prediction_keys(b, s, a, at, p, late_b);
          store_keys(b, s, a, at, k, eta);
          const auto of = terms_of_gates(b, s, a, at, E, eta, r, Two<decltype(g), decltype(g)>{from_row, db},
                                         Two<decltype(g), decltype(g)>{from_late, dlate_b});
          Weights::gradients(b, s.weights, s.Gamma, s.late, s.dGamma, s.dlate, a, of, head, chunk, at.part);
        });
  }

 private:
  struct Place {
    int head, part, chunk, row;
  };

  /// The cotangents of the reads, and the errors E as they reach the end of the chunk.
  template <class Ex, class Row>
  TILE_FN static auto put_weighted(Ex& b, Smem& s, const Args& a, const Row& g, const Row& r) {
    auto Y = b.acc("X"_s, Shape<C, DV>{});
    Y.zip(
        "X"_s, [&](auto, auto x) { return x * a.scale; }, s.dO);
    b.put(s.Y, Y);
    auto E = in_registers(b, "X"_s, s.E);
    auto gE = E, rE = E;
    gE.map("X"_s, times, g);
    b.put(s.gE, gE);
    rE.map("X"_s, negative_times, r);
    b.put(s.rE, rE);
    b.sync();
    return E;
  }
  /// Scores and weights.
  template <class Ex, class Col>
  TILE_FN static void put_scores(Ex& b, Smem& s, const Col& eta) {
    const auto weighed = [](auto x, auto y, auto step) { return x * y * step; };
    const auto negative_weighed = [](auto x, auto y, auto step) { return -(x * y * step); };
    auto X = b.abt("dP"_s, s.Y, s.E);
    X.mask(lower, 0);
    auto QK = b.abt("QK"_s, s.Q, s.K);
    QK.zip("P"_s, weighed, X, eta);
    b.put(s.dGamma, QK);
    X.zip("P"_s, times, s.Gamma);
    b.put(s.X, X);
    X.map("P"_s, times, eta);
    b.put(s.Xq, X);
    auto F = b.abt("dP"_s, s.R, s.E);
    F.mask(strictly_lower, 0);
    auto PK = b.abt("PK"_s, s.P, s.K);
    PK.zip("P"_s, negative_weighed, F, eta);
    b.put(s.dlate, PK);
    F.zip("P"_s, negative_times, s.late);
    b.put(s.F, F);
    F.map("P"_s, times, eta);
    b.put(s.Fp, F);
    b.sync();
  }
  /// Stores dQ, through the state, the momentum and the chunk; returns the terms of a and of b.
  template <class Ex, class Keys>
  TILE_FN static auto store_queries(Ex& b, Smem& s, const Args& a, const Place& at, const Keys& q) {
    auto dQ = b.abt("dQ"_s, s.Y, s.S);
    dQ.map("dQ"_s, times, b.load_row("decay"_s, Shape<C>{}, a.rows.a, at.head, at.row));
    auto from_row = b.dot("from"_s, q, dQ);
    auto dQ_momentum = b.abt("dQ"_s, s.Y, s.M);
    auto db = b.rows("from"_s, negative, b.dot("from"_s, q, dQ_momentum));
    dQ_momentum.map("dQ"_s, times, b.load_row("Gamma"_s, Shape<C>{}, a.rows.b, at.head, at.row));
    dQ.zip("dQ"_s, minus, dQ_momentum);
    b.mma(dQ, s.Xq, s.K);
    b.store("part"_s, a.dq, at.part, at.row, dQ);
    return Two<decltype(from_row), decltype(db)>{from_row, db};
  }
  /// And prediction keys.
  template <class Ex, class Keys, class Row>
  TILE_FN static auto store_prediction_keys(Ex& b, Smem& s, const Args& a, const Place& at, const Keys& p,
                                            const Row& late_b) {
    auto dP = b.abt("dP"_s, s.R, s.S);
    dP.map("dP"_s, negative_times, b.load_row("decay"_s, Shape<C>{}, a.rows.late_a, at.head, at.row));
    auto from_late = b.dot("from"_s, p, dP);
    auto dP_momentum = b.abt("dP"_s, s.R, s.M);
    auto dlate_b = b.dot("from"_s, p, dP_momentum);
    dP_momentum.map("dP"_s, times, late_b);
    dP.zip("dP"_s, plus, dP_momentum);
    b.mma(dP, s.Fp, s.K);
    b.store("part"_s, a.dp, at.part, at.row, dP);
    return Two<decltype(from_late), decltype(dlate_b)>{from_late, dlate_b};
  }
  /// Keys and their weight: what is written.
  template <class Ex, class Keys, class Row>
  TILE_FN static void store_keys(Ex& b, Smem& s, const Args& a, const Place& at, const Keys& k, const Row& eta) {
    auto H = b.abt("dK"_s, s.gE, s.G);
    if (b.planted("dk_without_momentum"_s, true, false)) b.mma_abt(H, s.rE, s.N);
    b.mma_atb(H, s.X, s.Q);
    b.mma_atb(H, s.F, s.P);
    b.store_row("deta"_s, a.deta, at.part, at.row, b.dot("deta"_s, H, k));
    H.map("dK"_s, times, eta);
    b.store("part"_s, a.dk, at.part, at.row, H);
  }
  /// Gates, through what weighs the tokens.
  template <class Ex, class Values, class Row>
  TILE_FN static auto terms_of_gates(Ex& b, Smem& s, const Args& a, const Place& at, const Values& E, const Row& eta,
                                     const Row& r, const Two<Row, Row>& of_reads, const Two<Row, Row>& of_late_reads) {
    auto KG = b.ab("KG"_s, s.K, s.G), KN = b.ab("KG"_s, s.K, s.N);
    auto dg = b.rows("from"_s, times, eta, b.dot("from"_s, E, KG));
    auto last = b.rows("from"_s, negative_times, b.rows("from"_s, times, eta, b.dot("from"_s, E, KN)), r);
    auto total_a = b.load_row("decay"_s, Shape<DK>{}, a.rows.total_a, at.head, at.chunk * DK);
    auto total_m = b.load_row("decay"_s, Shape<DK>{}, a.rows.total_m, at.head, at.chunk * DK);
    auto in_state =
        b.gates_of_total("gates"_s, Shape<C>{}, b.rows("from"_s, times, b.dot("from"_s, s.S, s.G), total_a));
    auto in_momentum =
        b.gates_of_total("gates"_s, Shape<C>{}, b.rows("from"_s, times, b.dot("from"_s, s.M, s.N), total_m));
    auto end = b.rows("gates"_s, negative, b.gates_of_total("gates"_s, Shape<C>{}, b.dot("from"_s, s.G, s.M)));
    return MomentumRows<Row>{of_reads.a, of_reads.b, of_late_reads.a, of_late_reads.b, dg, last,
                             in_state,   end,        in_momentum};
  }
};

inline constexpr SiteTable::Init mdn_site_list[] = {
    {"Q", Role::operand},      {"K", Role::operand},      {"Kp", Role::operand},    {"V", Role::operand},
    {"E", Role::operand},      {"Sc", Role::operand},     {"Mc", Role::operand},    {"Tc", Role::operand},
    {"Wc", Role::operand},     {"gEc", Role::operand},    {"rEc", Role::operand},   {"Pc", Role::operand},
    {"decay", Role::gate},     {"Gamma", Role::gate},     {"beta", Role::gate},     {"eta", Role::gate},
    {"scale", Role::gate},     {"PK", Role::accumulator}, {"A", Role::accumulator}, {"T", Role::accumulator},
    {"W", Role::accumulator},  {"R", Role::accumulator},  {"X", Role::accumulator}, {"S0", Role::accumulator},
    {"M0", Role::accumulator}, {"S", Role::accumulator},  {"M", Role::accumulator}, {"QK", Role::accumulator},
    {"P", Role::accumulator},  {"O", Role::accumulator},  {"o", Role::accumulator}, {"end", Role::accumulator},
    {"out", Role::output}};
inline constexpr SiteTable::Init mdn_gradient_site_list[] = {
    {"dO", Role::operand},         {"dR", Role::operand},         {"Gc", Role::operand},
    {"Nc", Role::operand},         {"Yc", Role::operand},         {"aYc", Role::operand},
    {"bYc", Role::operand},        {"dEc", Role::operand},        {"aRc", Role::operand},
    {"bRc", Role::operand},        {"Xc", Role::operand},         {"Fc", Role::operand},
    {"dbeta", Role::gate},         {"deta", Role::gate},          {"dlog_alpha", Role::gate},
    {"dlog_mu", Role::gate},       {"dE", Role::accumulator},     {"dW", Role::accumulator},
    {"G", Role::accumulator},      {"N", Role::accumulator},      {"dP", Role::accumulator},
    {"dQ", Role::accumulator},     {"dK", Role::accumulator},     {"KG", Role::accumulator},
    {"dGamma", Role::accumulator}, {"dsteps", Role::accumulator}, {"from", Role::accumulator},
    {"gates", Role::accumulator},  {"part", Role::accumulator}};
inline constexpr SiteTable::Init log_domain_site_list[] = {
    {"log", Role::gate}, {"exponent", Role::gate}, {"ratio", Role::gate}, {"dlog", Role::accumulator}};
inline constexpr SiteTable mdn_sites = SiteTable(mdn_site_list).with(mdn_gradient_site_list);
inline constexpr SiteTable mdn_sites_of_all_forms = mdn_sites.with(log_domain_site_list);
inline constexpr SiteTable mdn_log_domain_sites = mdn_sites_of_all_forms.without("dsteps");

}  // namespace assay::tile
