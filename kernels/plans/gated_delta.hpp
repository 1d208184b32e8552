#pragma once
// The launches of kernels/programs/gated_delta.hpp, planned once for every device (kernels/host/host_device.hpp) and
// for the rooms whose arithmetic it is.
#include <utility>

#include "kernels/launches/recurrence.hpp"
#include "kernels/programs/gated_delta.hpp"

namespace assay::tile {

/// The prediction of a rule: `lag` decays behind; decays are given as logs or as they are.
struct DeltaKind {
  int lag = 0;
  bool logs = true;
};

/// A site of decays; a rule without them has an array without rows in its place.
template <DeltaRule Rule, FixedString Site>
constexpr auto site_if_decays() {
  if constexpr (has_decays(Rule))
    return Site;
  else
    return FixedString("beta");
}
template <DeltaRule Rule, FixedString Site, class Device>
auto rows_if_decays(const Device& device, int heads, int rows) {
  return device.template result<site_if_decays<Rule, Site>()>(heads, has_decays(Rule) ? rows : 0, 1);
}

/// The inputs and results of a forward pass, on a device. `Tiles`: tokens of a chunk, the compiled key dimension; of
/// the chunks' systems (Executor), of passes over the states and of the work for all chunks at once (Chunks) the
/// executors, of the last two the value columns of a block; those of a step of the gradients; and the stages. Where
/// they have a member `doubling`, inverses are made so.
template <class Tiles, DeltaRule Rule, class Device>
struct GatedDeltaPlan {
  using Systems = typename Tiles::Executor;
  using Pass = typename Tiles::Pass;
  using B = typename Tiles::Chunks;
  using Values = typename Device::Values;
  static constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values, pass_DV = Tiles::pass_values;
  static constexpr int stages = Tiles::stages;
  static constexpr bool doubling = requires { Tiles::doubling; };
  const Device& device;
  const DeltaKind kind;
  const int heads, shared, group, len, K, V, chunks, blocks, of_chunks, of_values;
  const typename Device::Real scale;
  const Values q, k, v, p, initial_state;
  Values o, final_state, states, inverse, u, to_row, to_error, to_end, totals;  ///< the last four: products of decays

  /// `keys`: the keys that are written.
  GatedDeltaPlan(const Device& on, const RecurrenceShape& s, const Problem& problem, Values keys,
                 typename Device::Real read_scale, DeltaKind what)
      : device(on),
        kind(what),
        heads(s.heads),
        shared(s.shared_heads),
        group(s.group),
        len(s.len),
        K(s.key_dim),
        V(s.value_dim),
        chunks(imax(1, ceil_div(len, C))),
        blocks(ceil_div(V, DV)),
        of_chunks(chunks * blocks),
        of_values(ceil_div(V, pass_DV)),
        scale(read_scale),
        q(on.template input<"Q">(problem.inputs, "q", shared, len, K)),
        k(std::move(keys)),
        v(on.template input<"V">(problem.inputs, "v", heads, len, V)),
        // An operand like the key; rules without a prediction key have no site for it.
        p(on.template input<"K">(problem.inputs, "p", shared, predicts(Rule) ? len : 0, K)),
        initial_state(on.template input<"S0">(problem.inputs, "initial_state", heads, K, V)),
        o(on.template result<"out">(heads, len, V)),
        final_state(on.template result<"final">(heads, K, V)),
        states(on.template result<"Sc">(heads, chunks * D, V)),
        inverse(on.template result<"Tc">(heads, chunks * C, C)),
        u(on.template result<"Uc">(heads, len, V)),
        to_row(rows_if_decays<Rule, "decay">(on, heads, len)),
        to_error(rows_if_decays<Rule, "decay">(on, heads, len)),
        to_end(rows_if_decays<Rule, "decay">(on, heads, len)),
        totals(rows_if_decays<Rule, "decay">(on, heads, chunks * D)) {}

  void forward(const Values& beta, const Values& decay);
  Arrays outputs() const {
    return {{"o", device.array_of(o, {len, V})}, {"final_state", device.array_of(final_state, {K, V})}};
  }
};

template <class Tiles, DeltaRule Rule, class Device>
void GatedDeltaPlan<Tiles, Rule, Device>::forward(const Values& beta, const Values& decay) {
  device.template launch<GatedDeltaSystem<Systems, C, D, Rule, doubling>, Systems, 4>(
      0, heads, chunks,
      {k.in(), p.in(), beta.row_in(), decay.row_in(kind.logs), inverse.out(), to_row.row_out(), to_error.row_out(),
       to_end.row_out(), totals.row_out(), len, kind.lag, group, shared});
  device.template launch<GatedDeltaStates<Pass, C, D, pass_DV, stages, Rule>, Pass, 2>(
      1, heads, of_values,
      {k.in(), v.in(), p.in(), inverse.in(), beta.row_in(), to_error.row_in(), to_end.row_in(), totals.row_in(),
       initial_state.in(), u.out(), states.out(), final_state.out(), len, group, shared});
  device.template launch<GatedDeltaOutputs<B, C, D, DV, Rule>, B>(
      2, heads, of_chunks,
      {q.in(), k.in(), u.in(), states.in(), decay.row_in(kind.logs), to_row.row_in(), o.out(), scale, group, shared,
       blocks});
}

/// The backward pass of a forward one, and what it computes.
template <class Tiles, DeltaRule Rule, class Device>
struct GatedDeltaGradientPlan {
  using Plan = GatedDeltaPlan<Tiles, Rule, Device>;
  using Pass = typename Plan::Pass;
  using B = typename Plan::B;
  using Values = typename Device::Values;
  static constexpr Size C = Plan::C, D = Plan::D, DV = Plan::DV, pass_DV = Plan::pass_DV;
  static constexpr Size gradient_DV = Tiles::gradient_values;
  static constexpr int stages = Plan::stages;
  const Plan& of;
  const Device& device;
  const int heads, len, K, V, steps, key_parts;
  const bool keys_whole;  ///< their gradients have no parts
  const Values o_cotangent, final_cotangent;
  Values du, updates, errors, adjoints, dk_reads, dlog_decay_reads;  ///< the last two: by the adjoint of the outputs
  Values dq_parts, dk_parts, dp_parts;
  Values dq, dk, dp, dbeta, dlog_decay, dv, dinitial_state;

  /// `more`: parts of dk for each head that another program writes.
  GatedDeltaGradientPlan(const Plan& forward, const Problem& problem, int more = 0)
      : of(forward),
        device(of.device),
        heads(of.heads),
        len(of.len),
        K(of.K),
        V(of.V),
        steps(imax(1, ceil_div(V, gradient_DV))),
        key_parts(1 + more),
        keys_whole(key_parts * of.group == 1),
        o_cotangent(device.template input<"dO">(problem.cotangents, "o", heads, len, V)),
        final_cotangent(device.template input<"dfinal">(problem.cotangents, "final_state", heads, K, V)),
        du(device.template result<"dU">(heads, len, V)),
        updates(device.template result<"dGc">(heads, of.chunks * D, V)),
        errors(device.template result<"E">(heads, len, V)),
        adjoints(device.template result<"Gc">(heads, of.chunks * D, V)),
        dk_reads(device.template result<"dKc">(heads, len, K)),
        dlog_decay_reads(rows_if_decays<Rule, "gates">(device, heads, len)),
        dq_parts(device.template result<"part">(heads, of.group == 1 ? 0 : len, K)),
        dk_parts(device.template result<"part">(heads * key_parts, keys_whole ? 0 : len, K)),
        dp_parts(device.template result<"part">(heads, predicts(Rule) && !keys_whole ? len : 0, K)),
        dq(device.template result<"out">(of.shared, len, K)),
        dk(device.template result<"out">(of.shared, len, K)),
        dp(device.template result<"out">(of.shared, predicts(Rule) ? len : 0, K)),
        dbeta(device.template result<"dbeta">(heads, len, 1)),
        dlog_decay(rows_if_decays<Rule, "dlog_decay">(device, heads, len)),
        dv(device.template result<"out">(heads, len, V)),
        dinitial_state(device.template result<"initial">(heads, K, V)) {}

  /// All gradients, but those of the keys as parts.
  void backward(const Values& beta, const Values& decay);
  void sum_keys() {
    if (!keys_whole) device.template sum<"part", "out">(6, dk_parts, key_parts, dk);
  }

  /// The gradients of q, k, v, p and the initial state.
  Arrays gradients() const {
    Arrays all{{"q", device.array_of(dq, {len, K})},
               {"k", device.array_of(dk, {len, K})},
               {"v", device.array_of(dv, {len, V})},
               {"initial_state", device.array_of(dinitial_state, {K, V})}};
    if (predicts(Rule)) all["p"] = device.array_of(dp, {len, K});
    return all;
  }
};

template <class Tiles, DeltaRule Rule, class Device>
void GatedDeltaGradientPlan<Tiles, Rule, Device>::backward(const Values& beta, const Values& decay) {
  const auto logs = of.kind.logs;
  // clang-format off
  device.template launch<GatedDeltaReads<B, C, D, gradient_DV, stages, Rule>, B, 2>(
      3, heads, of.chunks,
      {of.q.in(), of.k.in(), of.u.in(), of.states.in(), o_cotangent.in(), decay.row_in(logs), of.to_row.row_in(),
       dq.out(), dq_parts.out(), dk_reads.out(), du.out(), updates.out(), dlog_decay_reads.row_out(), of.scale,
       of.group, steps});
  device.template launch<GatedDeltaAdjoints<Pass, C, D, pass_DV, stages, Rule>, Pass, 2>(
      4, heads, of.of_values,
      {of.k.in(), of.p.in(), of.inverse.in(), du.in(), updates.in(), final_cotangent.in(), beta.row_in(),
       of.to_error.row_in(), of.to_end.row_in(), of.totals.row_in(), errors.out(), adjoints.out(), dinitial_state.out(),
       len, of.group});
  device.template launch<GatedDeltaGradients<B, C, D, gradient_DV, stages, Rule>, B, 2>(
      5, heads, of.chunks,
      {of.k.in(), of.v.in(), of.p.in(), of.u.in(), of.states.in(), adjoints.in(), errors.in(), dk_reads.in(),
       beta.row_in(), decay.row_in(logs), of.to_error.row_in(), of.to_end.row_in(), of.totals.row_in(),
       dlog_decay_reads.row_in(), dk.out(), dp.out(), dk_parts.out(), dp_parts.out(), dv.out(), dbeta.row_out(),
       dlog_decay.row_out(), of.kind.lag, of.group, steps, key_parts, keys_whole});
  // clang-format on
  if (of.group > 1) device.template sum<"part", "out">(6, dq_parts, 1, dq);
  if (predicts(Rule) && !keys_whole) device.template sum<"part", "out">(6, dp_parts, 1, dp);
}

/// The answer of a rule whose gates are its inputs; `keys`: those that are written.
template <class Tiles, DeltaRule Rule, class Device>
Answer gated_delta_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem, int lag,
                        typename Device::Values keys) {
  const int heads = shape.heads, len = shape.len;
  GatedDeltaPlan<Tiles, Rule, Device> rule(device, shape, problem, std::move(keys), device.scale(shape, problem),
                                           {.lag = lag});
  const auto beta = device.template input<"beta">(problem.inputs, "beta", heads, len, 1);
  const auto log_decay = device.template input<site_if_decays<Rule, "decay">()>(problem.inputs, "log_decay", heads,
                                                                                has_decays(Rule) ? len : 0, 1);
  device.forward([&] { rule.forward(beta, log_decay); });
  Answer answer{rule.outputs(), {}};
  if (problem.cotangents.empty()) return answer;

  GatedDeltaGradientPlan<Tiles, Rule, Device> d(rule, problem);
  device.backward([&] {
    d.backward(beta, log_decay);
    d.sum_keys();
  });
  answer.gradients = d.gradients();
  answer.gradients["beta"] = device.array_of(d.dbeta, {len});
  if constexpr (has_decays(Rule)) answer.gradients["log_decay"] = device.array_of(d.dlog_decay, {len});
  return answer;
}
template <class Tiles, DeltaRule Rule, class Device>
Answer gated_delta_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem, int lag) {
  return gated_delta_plan<Tiles, Rule>(
      device, shape, problem, lag,
      device.template input<"K">(problem.inputs, "k", shape.shared_heads, shape.len, shape.key_dim));
}

}  // namespace assay::tile
