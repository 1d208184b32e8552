#pragma once
// Local linear attention, one query: the moments of what it sees, its ridge, its system and the solution
// (lla-family.md sections 3, 5 and 6). Moments are those of the softmax weights p, so the ridge eps and the residual
// are in units where the weights sum to one.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "reference/core/error.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/dense.hpp"
#include "reference/families/exact_rank.hpp"
#include "reference/families/ridge.hpp"
#include "reference/families/visible.hpp"

namespace assay {

struct LlaOptions : VisibleOptions {
  /// The unit of lambda: lambda omega_i, lambda, lambda exp(m_i) on the sums over exp(s_ij).
  enum class LambdaMode { mass, absolute, max };
  enum class Solver { direct, cg };
  enum class BlockForm { sigma, centered };
  /// The result of a row that a zero in lambda makes singular: SINGULAR, or the limit of one ridge that vanishes
  /// there.
  enum class ZeroRidge { refuse, limit };

  LambdaMode lambda_mode = LambdaMode::mass;
  Solver solver = Solver::direct;
  bool has_iterations = false;
  /// More than any system needs: without rounding it is solved after as many as it has rows.
  static constexpr int most_iterations = 100000;
  int iterations = 0;
  int blocks = 1;
  BlockForm block_form = BlockForm::sigma;
  ZeroRidge lambda0 = ZeroRidge::refuse;

  static constexpr std::string_view names[] = {"causal",     "window", "lambda_mode", "solver",
                                               "iterations", "blocks", "block_form",  "lambda0"};
  static std::vector<Params> variants() {
    return {{},
            {{"lambda_mode", "absolute"}},
            {{"lambda_mode", "max"}, {"window", 5L}},
            {{"causal", false}},
            {{"blocks", 2L}, {"block_form", "sigma"}},
            {{"blocks", 2L}, {"block_form", "centered"}, {"lambda_mode", "absolute"}},
            {{"solver", "cg"}, {"iterations", 2L}, {"tolerance", "0"}},
            {{"solver", "cg"}, {"iterations", 9L}, {"tolerance", "0.25"}, {"lambda_mode", "max"}},
            {{"solver", "cg"}, {"iterations", 1L}, {"tolerance", "0"}, {"blocks", 2L}, {"lambda_mode", "absolute"}}};
  }

  static LlaOptions read(const Params& params) {
    LlaOptions o{VisibleOptions::read(params)};
    OptionReader read(params);
    read("lambda_mode", o.lambda_mode,
         {{"mass", LambdaMode::mass}, {"absolute", LambdaMode::absolute}, {"max", LambdaMode::max}});
    read("solver", o.solver, {{"direct", Solver::direct}, {"cg", Solver::cg}});
    o.has_iterations = params.contains("iterations");
    read("iterations", o.iterations);
    read("blocks", o.blocks);
    read("block_form", o.block_form, {{"sigma", BlockForm::sigma}, {"centered", BlockForm::centered}});
    read("lambda0", o.lambda0, {{"refuse", ZeroRidge::refuse}, {"limit", ZeroRidge::limit}});
    return o;
  }

  /// Whether the system is C + eps, rather than Sigma / omega.
  bool centred() const { return solver == Solver::direct && (blocks == 1 || block_form == BlockForm::centered); }
  /// Whether there is a limit where C + eps is singular.
  bool takes_limit() const { return lambda0 == ZeroRidge::limit && centred(); }
};

/// One query's row; all zeros if it sees nothing.
template <class S>
struct LlaRow : VisibleRow<S> {
  std::vector<S> mean_k = {}, mean_v = {}, offset = {};  // kbar, vbar, zbar = kbar - q
  S ridge_unit = S(0);                                   // d eps / d lambda
  std::vector<S> ridge = {};                             // eps [K]
  Tensor<S, 2> system = {};  // C + eps if centred, else Sigma / omega = C + eps + zbar zbar^T
  // From here on by lla_solve_row.
  std::vector<S> probe = {};         // rho*
  std::vector<S> tilt = {};          // y = rho* / (1 - tbar): o = vbar - X y
  S mean_t = S(0), boundary = S(0);  // tbar = rho*.zbar, eta = tbar / (1 - tbar)
  S denominator = S(0);              // delta / omega = 1 - tbar
  S iterations = S(0);
};

/// d eps / d lambda: exp(-lse), 1 / omega' or 1. The square of a root overflows and underflows only where the ridge
/// does.
template <class S>
S lla_ridge(const LlaOptions& options, const VisibleRow<S>& row, const S& lambda) {
  using std::exp;
  switch (options.lambda_mode) {
    case LlaOptions::LambdaMode::absolute: {
      const S root = exp(-row.lse() / S(2));
      return lambda * root * root;
    }
    case LlaOptions::LambdaMode::max:
      return lambda / row.sum;
    case LlaOptions::LambdaMode::mass:
      break;
  }
  return lambda;
}

/// Weights, means, ridge and system of query i.
template <class S>
LlaRow<S> lla_row(const LlaOptions& options, const Tensor<S, 2>& q, const Tensor<S, 2>& k, const Tensor<S, 2>& v,
                  const Tensor<S, 2>& lambda, const S& h, int i) {
  const int K = k.size(1), V = v.size(1);
  const auto at = [](auto& list, int x) -> auto& { return list[static_cast<std::size_t>(x)]; };
  LlaRow<S> row{visible_row(options, q, k, h, i)};
  row.mean_k.assign(static_cast<std::size_t>(K), S(0));
  row.mean_v.assign(static_cast<std::size_t>(V), S(0));
  row.offset = row.ridge = row.probe = row.tilt = row.mean_k;
  row.system = Tensor<S, 2>(K, K);
  if (row.first == row.last) return row;

  for (int j = row.first; j < row.last; ++j) {
    const S p = row.p(j);
    add_scaled(line(row.mean_k), p, line(k, j));
    add_scaled(line(row.mean_v), p, line(v, j));
  }
  row.ridge_unit = lla_ridge(options, row, S(1));
  for (int x = 0; x < K; ++x) {
    at(row.offset, x) = at(row.mean_k, x) - q(i, x);
    at(row.ridge, x) = lla_ridge(options, row, broadcast_at(lambda, i, x));
  }
  std::vector<S> centred(row.mean_k.size());
  for (int j = row.first; j < row.last; ++j) {
    const S p = row.p(j);
    for (int x = 0; x < K; ++x) at(centred, x) = k(j, x) - at(row.mean_k, x);
    for (int x = 0; x < K; ++x)
      add_scaled(Line<S>{&row.system(x, 0), 1, x + 1}, S(p * at(centred, x)), {centred.data(), 1, x + 1});
  }
  for (int x = 0; x < K; ++x)
    for (int y = 0; y <= x; ++y) {
      if (!options.centred()) row.system(x, y) += at(row.offset, x) * at(row.offset, y);
      if (x == y) row.system(x, x) += at(row.ridge, x);
      row.system(y, x) = row.system(x, y);
    }
  return row;
}

/// Solves every diagonal block of the row's system for `x`, in place; a residual up to `tolerance` ends conjugate
/// gradients. The most steps that a block took; 0 if solved directly.
template <class S>
S lla_solve(const LlaOptions& options, const LlaRow<S>& row, const S& tolerance, std::vector<S>& x) {
  const int size = static_cast<int>(x.size()) / options.blocks;
  S steps = S(0);
  for (int b = 0; b < options.blocks; ++b) {
    const auto block = std::span<S>(x).subspan(static_cast<std::size_t>(b) * static_cast<std::size_t>(size),
                                               static_cast<std::size_t>(size));
    if (options.solver == LlaOptions::Solver::direct)
      solve_definite(row.system, b * size, block);
    else
      steps = larger(steps, conjugate_gradients(row.system, b * size, options.iterations, tolerance, block));
  }
  return steps;
}

/// The probe of row i and all that follows from it. Throws Refusal (SINGULAR) where the denominator vanishes.
template <class S>
void lla_solve_row(const LlaOptions& options, const S& tolerance, LlaRow<S>& row, int i) {
  if (row.first == row.last) return;
  if (options.centred()) {
    row.tilt = row.offset;
    lla_solve(options, row, tolerance, row.tilt);
    row.boundary = dot(row.offset, row.tilt);
    row.denominator = S(1) / (S(1) + row.boundary);
    row.mean_t = row.boundary * row.denominator;
    for (std::size_t x = 0; x < row.tilt.size(); ++x) row.probe[x] = row.tilt[x] * row.denominator;
    return;
  }
  row.probe = row.offset;
  // The tolerance is in the units of exp(s - m), where the residual is omega' times ours.
  row.iterations = lla_solve(options, row, S(tolerance / row.sum), row.probe);
  row.mean_t = dot(row.offset, row.probe);
  row.denominator = S(1) - row.mean_t;
  if (row.denominator == S(0))
    throw Refusal(Status::singular, i, text("k: the denominator of row ", i, " vanishes: no local line through q"));
  row.boundary = row.mean_t / row.denominator;
  for (std::size_t x = 0; x < row.tilt.size(); ++x) row.tilt[x] = row.probe[x] / row.denominator;
}

/// The keys of the row whose offsets from the first one are a basis of all of them, in the coordinates named.
template <class S>
std::vector<int> independent_keys(const LlaRow<S>& row, const Tensor<S, 2>& k, const std::vector<int>& coordinates) {
  const auto residues = [&](int j) {
    std::vector<std::uint64_t> list;
    list.reserve(coordinates.size());
    for (const int c : coordinates) list.push_back(residue_of(k(j, c)));
    return list;
  };
  if (coordinates.empty()) return {};
  const std::vector<std::uint64_t> origin = residues(row.first);
  return independent(row.first + 1, row.last, coordinates.size(), [&](int j) {
    std::vector<std::uint64_t> x = residues(j);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = detail::difference_mod(x[i], origin[i]);
    return x;
  });
}

/// A basis of the range of C + eps in one block: the coordinates that have a ridge, and in the others, `bare`, the
/// offsets of independent keys from the first one.
template <class S>
struct RangeBasis {
  std::vector<int> ridged, bare;
  Tensor<S, 2> offsets;  // [independent keys, bare]

  RangeBasis(const LlaRow<S>& row, const Tensor<S, 2>& k, const Tensor<S, 2>& lambda, int i, int first, int last)
      : bare(without_ridge(lambda, i, first, last)) {
    for (int x = first; x < last; ++x)
      if (std::find(bare.begin(), bare.end(), x) == bare.end()) ridged.push_back(x);
    const std::vector<int> keys = independent_keys(row, k, bare);
    offsets = Tensor<S, 2>(static_cast<int>(keys.size()), static_cast<int>(bare.size()));
    for (int c = 0; c < offsets.size(0); ++c)
      for (int x = 0; x < offsets.size(1); ++x) {
        const int from = bare[static_cast<std::size_t>(x)];
        offsets(c, x) = k(keys[static_cast<std::size_t>(c)], from) - k(row.first, from);
      }
  }

  int size() const { return static_cast<int>(ridged.size()) + offsets.size(0); }
  bool is_whole() const { return offsets.size(0) == offsets.size(1); }

  /// Vector c of the basis times what is at(x) in coordinate x.
  template <class F>
  S along(int c, F&& at) const {
    const int units = static_cast<int>(ridged.size());
    if (c < units) return at(ridged[static_cast<std::size_t>(c)]);
    S sum = S(0);
    for (int x = 0; x < offsets.size(1); ++x) sum += offsets(c - units, x) * at(bare[static_cast<std::size_t>(x)]);
    return sum;
  }

  /// y = B (B^T a B)^{-1} B^T z in the coordinates of the block, B the vectors of the basis.
  void solve(const Tensor<S, 2>& a, const std::vector<S>& z, std::vector<S>& y) const {
    Tensor<S, 2> image(a.size(0), size()), inner(size(), size());
    std::vector<S> parts;
    for (int c = 0; c < size(); ++c) {
      for (const std::vector<int>* coordinates : {&ridged, &bare})
        for (const int x : *coordinates) image(x, c) = along(c, [&](int from) { return a(x, from); });
      parts.push_back(along(c, [&](int x) { return z[static_cast<std::size_t>(x)]; }));
    }
    for (int c = 0; c < size(); ++c)
      for (int d = 0; d < size(); ++d) inner(c, d) = along(d, [&](int x) { return image(x, c); });
    solve_definite(inner, 0, std::span<S>(parts));
    for (std::size_t c = 0; c < ridged.size(); ++c) y[static_cast<std::size_t>(ridged[c])] = parts[c];
    for (int x = 0; x < offsets.size(1); ++x) {
      S& sum = y[static_cast<std::size_t>(bare[static_cast<std::size_t>(x)])];
      sum = S(0);
      for (int c = 0; c < offsets.size(0); ++c)
        sum += offsets(c, x) * parts[ridged.size() + static_cast<std::size_t>(c)];
    }
  }
};

/// As lla_solve_row, where lambda is zero in some coordinates and o is its limit as one ridge vanishes in all of them
/// (section 12):
///   o = vbar - X A^+ zbar,   A = C + eps
/// X takes its keys from A's range alone: with B a basis of that, B (B^T A B)^{-1} B^T zbar is as good as A^+ zbar, and
/// no part of it grows without bound. A row that is singular has no probe; one that is not is solved as any other.
template <class S>
void lla_solve_limit(const LlaOptions& options, const Tensor<S, 2>& k, const Tensor<S, 2>& lambda, LlaRow<S>& row,
                     int i) {
  if (row.first == row.last) return;
  const int size = k.size(1) / options.blocks;
  std::vector<RangeBasis<S>> blocks;
  for (int first = 0; first < k.size(1); first += size) blocks.emplace_back(row, k, lambda, i, first, first + size);
  if (std::all_of(blocks.begin(), blocks.end(), [](const auto& basis) { return basis.is_whole(); }))
    return lla_solve_row(options, S(0), row, i);
  for (const RangeBasis<S>& basis : blocks) basis.solve(row.system, row.offset, row.tilt);
  row.boundary = row.denominator = row.mean_t = S(std::numeric_limits<double>::quiet_NaN());
  row.probe.assign(row.probe.size(), row.mean_t);
}

}  // namespace assay
