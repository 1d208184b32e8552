#pragma once
// Local linear attention's launches, planned once for every device (kernels/host/attention_device.hpp). Raw moments
// launch the programs of centred ones but for the solves and the outputs.
#include <numeric>

#include "kernels/attention/lla.hpp"
#include "kernels/launches/lla_launch.hpp"
#include "kernels/plans/attention.hpp"

namespace assay::tile {

/// The launches of one problem and what passes between them. `Tiles`: rows and keys of a tile, the compiled dimension,
/// the stages of a pass, and its executor.
template <class Tiles, bool Raw, class Device>
struct LlaPlan {
  using Pass = typename Tiles::Forward;
  using B = typename Pass::Executor;
  using Values = typename Device::Values;
  using Real = typename Device::Real;
  using Wide = typename Device::Wide;
  static constexpr Size BM = Pass::rows, BN = Pass::keys, D = Tiles::dim;
  static constexpr int stages = Pass::stages;

  LlaPlan(const Device& on, const LlaShape& s, const Problem& what)
      : device(on),
        shape(s),
        problem(what),
        heads(s.heads),
        kv_heads(s.kv_heads),
        n(s.queries),
        K(s.key_dim),
        V(s.value_dim),
        blocks(s.blocks.count),
        with_gradients(!what.cotangents.empty()),
        q(on.template input<"Q">(what.inputs, "q", heads, n, K)),
        k(on.template input<"K">(what.inputs, "k", kv_heads, s.keys, K)),
        v(on.template input<"V">(what.inputs, "v", kv_heads, s.keys, V)),
        query(on.template input<"kbar">(what.inputs, "q", heads, n, K)),
        lambda(on.template array<"lambda">(heads, n, K, s.ridges().all(what))),
        index(on.template array<"first">(1, s.keys, 1, counted(s.keys))),
        m(row<"m">()),
        l(row<"l">()),
        lse(row<"lse">()),
        first(row<"first">()),
        delta(row<"delta">()),
        centre(matrix<"kbar">(K)),
        y(solution()),
        scale(on.template positive_gate<"scale">(static_cast<Wide>(log2e) / static_cast<Wide>(s.bandwidth))),
        kv_bytes((on.bytes(k) + on.bytes(v)) / kv_heads) {}

  Arrays forward() {
    auto offset = matrix<"rhs">(K), slack = row<"delta">(), o = matrix<"out">(V);
    device.forward([&] {
      launch<LlaMoments<B, BM, BN, D, stages>>(
          0, {q.in(), k.in(), index.row_in(), m.row_out(), l.row_out(), lse.row_out(), first.row_out(), centre.out(),
              scale, shape.sees, shape.group, kv_heads, wants_first()});
      launch<LlaOffsets<B, BM, D, stages>>(1, {q.in(), centre.in(), l.row_in(), offset.out(), slack.row_out()});
      solve(2, offset, slack, y, delta, shape.about_query);
      launch<LlaOutput<B, BM, BN, D, stages, Raw>>(
          3, {q.in(), k.in(), v.in(), y.whole.in(), Raw ? query.in() : centre.in(), m.row_in(), l.row_in(),
              y.unit.row_in(), delta.row_in(), o.out(), scale, shape.sees, shape.group, kv_heads});
    });
    return {{"o", device.array_of(o, {n, V})}};
  }

  Arrays gradients() {
    const auto g = device.template input<"dO">(problem.cotangents, "o", heads, n, V);
    const Real inv_h = device.template positive_gate<"inv_bandwidth">(1 / static_cast<Wide>(shape.bandwidth));
    auto rhs = matrix<"rhs">(K), dlambda = matrix<"dlam">(K), dz = matrix<"dz">(K), dq = matrix<"out">(K);
    auto dk = device.template result<"out">(kv_heads, shape.keys, K),
         dv = device.template result<"out">(kv_heads, shape.keys, V);
    auto mean = row<"mean">(), dh = row<"dh">(), unused = row<"delta">();
    Coefficients c{row<"tau">(), row<"tau">(), row<"n">(),       row<"tau">(),
                   row<"e">(),   row<"e">(),   row<"n">(blocks), row<"n">(blocks)};
    Solution x = solution();
    device.backward([&] {
      launch<LlaAdjoint<B, BM, BN, D, stages>>(
          4, {q.in(), k.in(), v.in(), g.in(), centre.in(), m.row_in(), l.row_in(), mean.row_out(), rhs.out(), scale,
              shape.sees, shape.group, kv_heads, shape.about_query});
      solve(5, rhs, delta, x, unused, false);
      coefficients(c, x, rhs, mean, dlambda, dz);
      // clang-format off
      launch<LlaBackwardQuery<B, BM, BN, D, stages>>(
          7, {q.in(), k.in(), v.in(), g.in(), y.in_parts(), x.in_parts(), centre.in(), dz.in(), lse.row_in(),
              y.unit.row_in(), x.unit.row_in(), c.ny.row_in(), c.nx.row_in(), c.f0.row_in(), c.f1.row_in(),
              c.s0.row_in(), c.kappa.row_in(), c.e.row_in(), c.row_sum.row_in(), first.row_in(), index.row_in(),
              dh.row_out(), dq.out(), scale, inv_h, shape.sees, shape.group, kv_heads, blocks, shape.about_query,
              wants_first()});
      using Key = LlaBackwardKey<B, BM, BN, D, stages>;
      device.template launch_rows<Key, B, Pass::min_blocks>(
          8, kv_heads, shape.keys, BN, RowOrder{kv_bytes * shape.group, true},
          {q.in(), k.in(), v.in(), g.in(), y.in_parts(), x.in_parts(), lse.row_in(), y.unit.row_in(), x.unit.row_in(),
           c.ny.row_in(), c.nx.row_in(), c.f0.row_in(), c.f1.row_in(), c.s0.row_in(), c.kappa.row_in(), c.e.row_in(),
           first.row_in(), index.row_in(), dk.out(), dv.out(), scale, inv_h, shape.sees, shape.group, kv_heads, blocks,
           wants_first()});
      // clang-format on
    });
    return {{"q", device.array_of(dq, {n, K})},
            {"k", device.array_of(dk, {shape.keys, K})},
            {"v", device.array_of(dv, {shape.keys, V})},
            {"lambda", shape.ridges().gradient(problem, device.values(dlambda))},
            {"bandwidth", bandwidth_gradient(device, dh, shape.bandwidth)}};
  }

  /// Solutions in the operands' format, whole and in the parts of their blocks, with their rows' units.
  struct Solution {
    Values whole, parts, unit;
    bool blocks;
    auto in_parts() const { return blocks ? parts.in() : whole.in(); }
  };
  /// Coefficients of the keys' gradients: numbers for each query.
  struct Coefficients {
    Values f0, f1, s0, kappa, e, row_sum, ny, nx;
  };

  static std::vector<double> counted(int count) {
    std::vector<double> list(static_cast<std::size_t>(count));
    std::iota(list.begin(), list.end(), 0.0);
    return list;
  }
  template <FixedString Site>
  Values row(int parts = 1) const {
    return device.template result<Site>(heads * parts, n, 1);
  }
  template <FixedString Site>
  Values matrix(int columns) const {
    return device.template result<Site>(heads, n, columns);
  }
  bool wants_first() const { return shape.ridge == RidgeUnit::max; }
  Solution solution() const {
    const bool in_parts = blocks > 1 && with_gradients;
    return {matrix<"Y">(K), device.template result<"Y">(in_parts ? heads * blocks : 0, n, K), row<"yunit">(), in_parts};
  }
  template <class Kernel>
  void launch(std::uint64_t number, const typename Kernel::Args& args) const {
    device.template launch_rows<Kernel, B, Pass::min_blocks>(number, heads, n, BM, RowOrder{kv_bytes / shape.group},
                                                             args);
  }

  void solve(std::uint64_t number, const Values& rhs, const Values& slack, Solution& s, Values& root,
             bool tilts) const {
    // clang-format off
    launch<LlaSolve<B, BM, BN, D, stages, Raw>>(
        number,
        {q.in(), k.in(), shape.about_query && !Raw ? query.in() : centre.in(), rhs.in(), lambda.in(), m.row_in(),
         l.row_in(), slack.row_in(), s.whole.out(), s.parts.out(s.blocks), s.unit.row_out(), root.row_out(), scale,
         static_cast<Real>(shape.relative(device.template format<"K">())), static_cast<Real>(shape.tolerance),
         shape.sees, shape.group, kv_heads, shape.steps, shape.blocks, shape.ridge, tilts});
    // clang-format on
  }

  void coefficients(Coefficients& c, const Solution& x, const Values& rhs, const Values& mean, Values& dlambda,
                    Values& dz) const {
    launch<LlaCoefficients<B, BM, D, stages>>(
        6, {q.in(),          centre.in(),     rhs.in(),         lambda.in(),       y.whole.in(),   x.whole.in(),
            y.in_parts(),    x.in_parts(),    m.row_in(),       l.row_in(),        mean.row_in(),  delta.row_in(),
            y.unit.row_in(), x.unit.row_in(), dlambda.out(),    dz.out(),          c.ny.row_out(), c.nx.row_out(),
            c.f0.row_out(),  c.f1.row_out(),  c.s0.row_out(),   c.kappa.row_out(), c.e.row_out(),  c.row_sum.row_out(),
            shape.blocks,    shape.ridge,     shape.about_query});
    // The rows of D have the sums of mode absolute where the ridge is a constant, as published.
    if (device.planted("ridge_detached"_s, false, shape.ridge == RidgeUnit::mass)) {
      auto sums = device.values(c.row_sum);
      const auto gradients = device.values(dlambda), ridges = device.values(lambda);
      for (std::size_t i = 0; i < gradients.size(); ++i)
        sums[i / static_cast<std::size_t>(K)] -= gradients[i] * ridges[i];
      c.row_sum = device.template array<"e">(heads, n, 1, sums);
    }
  }

  const Device& device;
  const LlaShape& shape;
  const Problem& problem;
  const int heads, kv_heads, n, K, V, blocks;
  const bool with_gradients;
  const Values q, k, v, query, lambda, index;
  Values m, l, lse, first, delta, centre;
  Solution y;
  const Real scale;
  const double kv_bytes;
};

template <class Tiles, bool Raw, class Device>
Answer lla_plan(const Device& device, const LlaShape& shape, const Problem& problem) {
  LlaPlan<Tiles, Raw, Device> plan(device, shape, problem);
  Answer answer{plan.forward(), {}};
  if (!problem.cotangents.empty()) answer.gradients = plan.gradients();
  return answer;
}

}  // namespace assay::tile
