#pragma once
// The inputs of the plans of the ridge regressions: a problem's systems, and how far they are to be solved.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/launches/ridge_launch.hpp"
#include "kernels/programs/ridge_solve.hpp"

namespace assay::tile {

template <class Device>
struct RidgeInputs {
  using Values = typename Device::Values;
  using Wide = typename Device::Wide;
  const Device& device;
  const RidgeShape& shape;
  const Problem& problem;
  const Values q, k, v, lambda, count, ridge_unit;  ///< count: 1, 2, ... for every row

  RidgeInputs(const Device& on, const RidgeShape& s, const Problem& what)
      : device(on),
        shape(s),
        problem(what),
        q(on.template input<"Q">(what.inputs, "q", s.heads, s.len, s.key_dim)),
        k(on.template input<"K">(what.inputs, "k", s.kv_heads, s.len, s.key_dim)),
        v(on.template input<"V">(what.inputs, "v", s.kv_heads, s.len, s.value_dim)),
        lambda(on.template array<"lambda">(s.heads, s.len, s.key_dim, s.ridges().all(what))),
        count(on.template array<"lunit">(1, s.len, 1, counted(s.len, 1))),
        ridge_unit(
            on.template array<"lunit">(1, s.len, 1, counted(s.len, s.scaling == RidgeShape::Scaling::mean ? 1 : 0))),
        relative_(RidgeShape::relative<Wide>(on.template format<"R">())),
        steps_(on.template array<"left">(s.heads, s.len, 1, steps())) {}

  template <class B>
  SolveLimits<B> limits() const {
    return {static_cast<typename Device::Real>(relative_), steps_.row_in()};
  }
  /// The gradient of lambda as it was given.
  Array ridge_gradient(const Values& of_rows) const { return shape.ridges().gradient(problem, device.values(of_rows)); }

 private:
  /// 1, 1 + step, ... for every row.
  static std::vector<double> counted(int n, int step) {
    std::vector<double> list(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = 1 + static_cast<double>(i) * step;
    return list;
  }
  std::vector<Wide> steps() const {
    std::vector<Wide> all = shape.steps(problem, relative_);
    if (device.planted("few_steps"_s, false, true)) std::fill(all.begin(), all.end(), Wide(4));
    return all;
  }

  Wide relative_;
  Values steps_;
};

/// What plans of chunks whose systems are solved have in common. `Tiles`: rows of a chunk, the compiled dimension, the
/// rows of a state (or values) in a block, the stages of a pass, the blocks of solves that a multiprocessor has at
/// once, and executors, of solves, of other work on chunks and on states.
template <class Tiles, class Device>
struct RidgePlan {
  using B = typename Tiles::Executor;
  using Chunks = typename Tiles::Chunks;
  using S = typename Tiles::States;
  using Values = typename Device::Values;
  static constexpr Size C = Tiles::tokens, D = Tiles::dim, R = Tiles::values;
  static constexpr int stages = Tiles::stages, together = Tiles::solves_together;
  const Device& device;
  const Problem& problem;
  const int heads, kv_heads, group, len, K, V, chunks;
  const RidgeInputs<Device> in;
  Values gram, state, solution, unit_solution, solution_unit;  ///< the last two: its rows of length one, their lengths

  RidgePlan(const Device& on, const RidgeShape& s, const Problem& what)
      : device(on),
        problem(what),
        heads(s.heads),
        kv_heads(s.kv_heads),
        group(s.group),
        len(s.len),
        K(s.key_dim),
        V(s.value_dim),
        chunks(ceil_div(len, C)),
        in(on, s, what),
        gram(states<"H">()),
        state(states<"S">()),
        solution(of_rows<"R">(K)),
        unit_solution(of_rows<"X">(K)),
        solution_unit(of_rows<"xunit">(1)) {}

  template <FixedString Site>
  Values states() const {
    return device.template result<Site>(kv_heads, chunks * D, K);
  }
  template <FixedString Site>
  Values of_rows(int columns) const {
    return device.template result<Site>(heads, len, columns);
  }
  template <FixedString Site>
  Values of_keys(int columns) const {
    return device.template result<Site>(kv_heads, len, columns);
  }
  template <FixedString Site>
  Values cotangent(std::string_view name, int rows, int columns) const {
    return device.template input<Site>(problem.cotangents, name, heads, rows, columns);
  }
  RidgeSystem<B> system() const {
    return {
        in.k.in(), in.v.in(), in.lambda.in(), gram.in(), state.in(), in.ridge_unit.row_in(), in.template limits<B>(),
        group,     kv_heads};
  }
  /// Launches the pass backward over adjoint states of so many rows after every chunk, R of them to a block.
  template <class Executor, Size R, bool Wide>
  void carry_back(std::uint64_t number, int rows, const Values& start, const Values& add, Values& all) const {
    device.template launch<AdjointStates<Executor, R, D, stages, Wide>, Executor>(
        number, kv_heads, ceil_div(rows, R), {start.in(), add.in(), all.out(), chunks, group, rows});
  }
  Arrays gradients_of(const Values& dq, const Values& dk, const Values& dv, const Values& dlambda) const {
    return {{"q", device.array_of(dq, {len, K})},
            {"k", device.array_of(dk, {len, K})},
            {"v", device.array_of(dv, {len, V})},
            {"lambda", in.ridge_gradient(dlambda)}};
  }
};

template <template <class, class> class Plan, class Tiles, class Device>
Answer ridge_plan(const Device& device, const RidgeShape& shape, const Problem& problem) {
  Plan<Tiles, Device> plan(device, shape, problem);
  Answer answer{plan.forward(), {}};
  if (!problem.cotangents.empty()) answer.gradients = plan.gradients();
  return answer;
}

}  // namespace assay::tile
