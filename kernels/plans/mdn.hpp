#pragma once
// MDN's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/delta/mdn.hpp"
#include "kernels/launches/recurrence.hpp"

namespace assay::tile {

/// How tokens are weighed: by linear recurrences, or in the log domain.
struct LinearMomentum {
  template <ExecutorTypes B, Size C, Size D>
  using Weights = LinearWeights<B, C, D>;
};
struct LogDomainMomentum {
  template <ExecutorTypes B, Size C, Size D>
  using Weights = LogDomainWeights<B, C, D>;
};

/// The inputs and results of a forward pass, on a device. `Tiles`: tokens of a chunk, the compiled key dimension, the
/// value columns of a block, in a pass over the chunks and in the work for all at once, the stages of the passes,
/// executors, and how tokens are weighed.
template <class Tiles, class Device>
struct MomentumPlan {
  using B = typename Tiles::Executor;
  using Chunks = typename Tiles::Gradients;
  using Values = typename Device::Values;
  static constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values, pass_DV = Tiles::pass_values;
  static constexpr int stages = Tiles::stages;
  const Device& device;
  const Problem& problem;
  const int heads, shared, group, len, K, V, chunks, blocks;
  const typename Device::Real scale;
  const Values q, k, p, v, log_alpha, log_mu, beta, eta, initial_state, initial_momentum;
  Values weights, late_weights, inverse;
  MomentumRows<Values> arrays;
  Values errors, states, momenta;

  MomentumPlan(const Device& on, const RecurrenceShape& shape, const Problem& what)
      : device(on),
        problem(what),
        heads(shape.heads),
        shared(shape.shared_heads),
        group(shape.group),
        len(shape.len),
        K(shape.key_dim),
        V(shape.value_dim),
        chunks(imax(1, ceil_div(len, C))),
        blocks(ceil_div(V, DV)),
        scale(device.scale(shape, what)),
        q(device.template input<"Q">(problem.inputs, "q", shared, len, K)),
        k(device.template input<"K">(problem.inputs, "k", shared, len, K)),
        p(device.template input<"Kp">(problem.inputs, "p", shared, len, K)),
        v(device.template input<"V">(problem.inputs, "v", heads, len, V)),
        log_alpha(device.template input<"decay">(problem.inputs, "log_alpha", heads, len, 1)),
        log_mu(device.template input<"decay">(problem.inputs, "log_mu", heads, len, 1)),
        beta(device.template input<"beta">(problem.inputs, "beta", heads, len, 1)),
        eta(device.template input<"eta">(problem.inputs, "eta", heads, len, 1)),
        initial_state(device.template input<"S0">(problem.inputs, "initial_state", heads, K, V)),
        initial_momentum(device.template input<"M0">(problem.inputs, "initial_momentum", heads, K, V)),
        weights(device.template result<"Gamma">(heads, chunks * C, C)),
        late_weights(device.template result<"Gamma">(heads, chunks * C, C)),
        inverse(device.template result<"Tc">(heads, chunks * C, C)),
        arrays{of_token(), of_token(), of_token(), of_token(), of_token(),
               of_token(), of_chunk(), of_chunk(), of_chunk()},
        errors(device.template result<"E">(heads, len, V)),
        states(device.template result<"Sc">(heads, chunks * D, V)),
        momenta(device.template result<"Mc">(heads, chunks * D, V)) {}

  Arrays forward() {
    auto o = device.template result<"out">(heads, len, V);
    auto final_state = device.template result<"end">(heads, K, V),
         final_momentum = device.template result<"end">(heads, K, V);
    const MomentumGates<B> gates{log_alpha.row_in(), log_mu.row_in(), beta.row_in(),
                                 each_row<typename B::RowOut>([](Values& x) { return x.row_out(); }), len};
    device.forward([&] {
      device.template launch<MomentumSystem<B, C, D, typename Tiles::template Weights<B>>, B>(
          0, heads, chunks,
          {k.in(), p.in(), gates, eta.row_in(), weights.out(), late_weights.out(), inverse.out(), group});
      device.template launch<MomentumPass<B, C, D, pass_DV, stages>, B>(
          1, heads, ceil_div(V, pass_DV),
          {k.in(), p.in(), v.in(), inverse.in(), initial_state.in(), initial_momentum.in(), eta.row_in(), rows(),
           errors.out(), states.out(), momenta.out(), final_state.out(), final_momentum.out(), len, group});
      device.template launch<MomentumOutputs<B, C, D, DV>, B>(
          2, heads, chunks * blocks,
          {q.in(), k.in(), errors.in(), states.in(), momenta.in(), weights.in(), eta.row_in(), rows(), o.out(), scale,
           group, blocks});
    });
    return {{"o", device.array_of(o, {len, V})},
            {"final_state", device.array_of(final_state, {K, V})},
            {"final_momentum", device.array_of(final_momentum, {K, V})}};
  }

  Arrays gradients() {
    const auto o_cotangent = device.template input<"dO">(problem.cotangents, "o", heads, len, V);
    const auto state_cotangent = device.template input<"S0">(problem.cotangents, "final_state", heads, K, V);
    const auto momentum_cotangent = device.template input<"M0">(problem.cotangents, "final_momentum", heads, K, V);
    auto derrors = device.template result<"dE">(heads, len, V), dv = device.template result<"out">(heads, len, V),
         dvalues = device.template result<"dR">(heads, len, V);
    auto state_updates = device.template result<"dW">(heads, chunks * D, V),
         momentum_updates = device.template result<"dW">(heads, chunks * D, V),
         state_adjoints = device.template result<"Gc">(heads, chunks * D, V),
         momentum_adjoints = device.template result<"Nc">(heads, chunks * D, V);
    auto dinitial_state = device.template result<"end">(heads, K, V),
         dinitial_momentum = device.template result<"end">(heads, K, V);
    const auto of_keys = [&] { return device.template result<"part">(heads * blocks, len, K); };
    const auto of_gates = [&] { return device.template result<"decay">(heads * blocks, len, 1); };
    Gradients parts{of_keys(), of_keys(), of_keys(), of_gates(), of_gates(), of_gates(), of_gates()},
        total{of_shared(), of_shared(), of_shared(), of_token(), of_token(), of_token(), of_token()};
    device.backward([&] {
      device.template launch<MomentumReads<B, C, D, DV>, B>(
          3, heads, chunks * blocks,
          {q.in(), k.in(), o_cotangent.in(), weights.in(), eta.row_in(), rows(), derrors.out(), state_updates.out(),
           momentum_updates.out(), scale, group, blocks});
      device.template launch<MomentumAdjointPass<B, C, D, pass_DV, Tiles::adjoint_stages>, B>(
          4, heads, ceil_div(V, pass_DV),
          {k.in(), p.in(), derrors.in(), state_updates.in(), momentum_updates.in(), inverse.in(), state_cotangent.in(),
           momentum_cotangent.in(), eta.row_in(), rows(), dv.out(), dvalues.out(), state_adjoints.out(),
           momentum_adjoints.out(), dinitial_state.out(), dinitial_momentum.out(), len, group});
      // clang-format off
      device.template launch<MomentumGradients<Chunks, C, D, DV, typename Tiles::template Weights<Chunks>>, Chunks>(
          5, heads, chunks * blocks,
          {q.in(), k.in(), p.in(), errors.in(), dvalues.in(), o_cotangent.in(), states.in(), momenta.in(),
           state_adjoints.in(), momentum_adjoints.in(), weights.in(), late_weights.in(), log_alpha.row_in(),
           log_mu.row_in(), beta.row_in(), eta.row_in(), rows(), parts.q.out(), parts.k.out(), parts.p.out(),
           parts.log_alpha.row_out(), parts.log_mu.row_out(), parts.beta.row_out(), parts.eta.row_out(), scale, group,
           blocks});
      // clang-format on
      sum(parts, total);
    });
    return {{"q", device.array_of(total.q, {len, K})},
            {"k", device.array_of(total.k, {len, K})},
            {"v", device.array_of(dv, {len, V})},
            {"p", device.array_of(total.p, {len, K})},
            {"log_alpha", device.array_of(total.log_alpha, {len})},
            {"log_mu", device.array_of(total.log_mu, {len})},
            {"beta", device.array_of(total.beta, {len})},
            {"eta", device.array_of(total.eta, {len})},
            {"initial_state", device.array_of(dinitial_state, {K, V})},
            {"initial_momentum", device.array_of(dinitial_momentum, {K, V})}};
  }

 private:
  /// Gradients of the inputs that blocks and heads share: their parts, or the whole.
  struct Gradients {
    Values q, k, p, log_alpha, log_mu, beta, eta;
  };
  void sum(const Gradients& parts, Gradients& total) const {
    device.template sum<"part", "out">(6, parts.q, blocks, total.q);
    device.template sum<"part", "out">(6, parts.k, blocks, total.k);
    device.template sum<"part", "out">(6, parts.p, blocks, total.p);
    device.template sum<"dlog_alpha", "dlog_alpha">(6, parts.log_alpha, blocks, total.log_alpha);
    device.template sum<"dlog_mu", "dlog_mu">(6, parts.log_mu, blocks, total.log_mu);
    device.template sum<"dbeta", "dbeta">(6, parts.beta, blocks, total.beta);
    device.template sum<"deta", "deta">(6, parts.eta, blocks, total.eta);
  }
  Values of_token() const { return device.template result<"decay">(heads, len, 1); }
  Values of_chunk() const { return device.template result<"decay">(heads, chunks * D, 1); }
  Values of_shared() const { return device.template result<"out">(shared, len, K); }

  template <class To, class F>
  MomentumRows<To> each_row(F f) {
    return {f(arrays.a), f(arrays.b),       f(arrays.late_a),  f(arrays.late_b), f(arrays.g),
            f(arrays.r), f(arrays.total_a), f(arrays.total_b), f(arrays.total_m)};
  }
  auto rows() {
    return each_row<typename B::RowIn>([](const Values& x) { return x.row_in(); });
  }
};

template <class Tiles, class Device>
Answer mdn_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  MomentumPlan<Tiles, Device> plan(device, shape, problem);
  Answer answer{plan.forward(), {}};
  if (!problem.cotangents.empty()) answer.gradients = plan.gradients();
  return answer;
}

}  // namespace assay::tile
