#pragma once
// FALCON-3A's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/falcon/falcon3a.hpp"
#include "kernels/launches/window_launch.hpp"
#include "kernels/plans/decayed_sums.hpp"
#include "kernels/plans/falcon_rows.hpp"

namespace assay::tile {

/// The inputs and results of a forward pass. `Tiles`: tokens of a chunk, the compiled key dimension, the value columns
/// of a block, the stages of a pass, and their executor.
template <class Tiles, class Device>
struct WindowPlan {
  using B = typename Tiles::Executor;
  using Values = typename Device::Values;
  static constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values;
  static constexpr int stages = Tiles::stages;
  const Device& device;
  const Problem& problem;
  const bool head_axis;
  const int heads, shared, group, len, K, V, chunks, blocks, of_chunks;
  const FalconKeys keys;
  const PairRows pairs;
  const Windows windows;
  const std::vector<double> pair_x, pair_v;
  const Values x, v, q, beta, alpha, initial_state;
  const typename Device::Real eps;
  Values weight, gamma, den, sizes, updates, up_to, after, totals, states;  ///< the 6th to 8th: products of decays

  WindowPlan(const Device& on, const RecurrenceShape& s, const Problem& what)
      : device(on),
        problem(what),
        head_axis(s.head_axis),
        heads(s.heads),
        shared(s.shared_heads),
        group(s.group),
        len(s.len),
        K(s.key_dim),
        V(s.value_dim),
        chunks(imax(1, ceil_div(len, C))),
        blocks(ceil_div(V, DV)),
        of_chunks(chunks * blocks),
        keys(s, what),
        pairs(s, what, keys.first()),
        windows{pairs.tail, pairs.first,
                pairs.window > 0 ? on.planted("window_one_too_wide"_s, pairs.window, pairs.window + 1) : 0},
        pair_x(pairs.gather(what, "tail_k", keys.features(what), shared, len, K)),
        pair_v(pairs.gather(what, "tail_v", what.inputs.at("v").data, heads, len, V)),
        x(on.template array<"K">(heads, pairs.count, K, pair_x)),
        v(on.template array<"V">(heads, pairs.count, V, pair_v)),
        q(on.template input<"Q">(what.inputs, "q", shared, len, K)),
        beta(on.template input<"beta">(what.inputs, "beta", heads, len, 1)),
        alpha(on.template input<"beta">(what.inputs, "alpha", heads, len, 1)),
        initial_state(on.template input<"S0">(what.inputs, "initial_state", heads, K, V)),
        eps(on.template gate<"lambda">(what, "eps")),
        weight(on.template result<"weight">(heads, len, 1)),
        gamma(on.template result<"gamma">(heads, len, 1)),
        den(on.template result<"den">(heads, len, 1)),
        sizes(on.template result<"energy">(heads, len, 1)),
        updates(on.template result<"W">(heads, chunks * D, V)),
        up_to(on.template result<"decay">(heads, len, 1)),
        after(on.template result<"decay">(heads, len, 1)),
        totals(on.template result<"decay">(heads, chunks * D, 1)),
        states(on.template result<"Sc">(heads, chunks * D, V)) {}

  Arrays forward() {
    auto o = device.template result<"out">(heads, len, V), final_state = device.template result<"end">(heads, K, V);
    device.forward([&] {
      device.template launch<WindowGain<B, C, D, stages>, B>(
          0, heads, chunks,
          {x.in(), beta.row_in(), alpha.row_in(), weight.row_out(), gamma.row_out(), den.row_out(), sizes.row_out(),
           eps, windows, len});
      device.template launch<WindowUpdates<B, C, D, DV, stages>, B>(
          1, heads, of_chunks,
          {x.in(), v.in(), weight.row_in(), gamma.row_in(false), updates.out(), windows, len, blocks});
      device.template launch<ChunkDecays<B, C, D>, B>(
          10, heads, chunks, {gamma.row_in(false), up_to.row_out(), after.row_out(), totals.row_out(), len});
      device.template launch<WindowPass<B, C, D, DV, stages>, B>(
          2, heads, blocks, {initial_state.in(), updates.in(), totals.row_in(), states.out(), final_state.out(), len});
      device.template launch<WindowOutputs<B, C, D, DV, stages>, B>(
          3, heads, of_chunks,
          {q.in(), x.in(), v.in(), states.in(), weight.row_in(), gamma.row_in(false), o.out(), windows, len, group,
           shared, blocks});
    });
    return {{"o", device.array_of(o, {len, V})},
            {"final_state", device.array_of(final_state, {K, V})},
            {"final_tail_k", pairs.slice(head_axis, pair_x, pairs.count - pairs.newest, pairs.count, K)},
            {"final_tail_v", pairs.slice(head_axis, pair_v, pairs.count - pairs.newest, pairs.count, V)}};
  }
};

/// The backward pass of a forward one.
template <class Tiles, class Device>
struct WindowGradientPlan {
  using Plan = WindowPlan<Tiles, Device>;
  using B = typename Plan::B;
  using Values = typename Device::Values;
  static constexpr Size C = Plan::C, D = Plan::D, DV = Plan::DV;
  static constexpr int stages = Plan::stages;
  Plan& of;
  const Device& device;
  const Problem& problem;
  const PairRows& pairs;
  const int heads, shared, len, K, V, blocks, parts;
  const Values o_cotangent, final_cotangent, tail_x, tail_v, ones;
  Values adjoints, dinitial_state, dq_parts, dq, dx_parts, dx_of_tail, dk_parts, dk, dv, dv_of_tokens;
  Values dweight_parts, dlog_parts, dweight, dlog_gamma, dbeta, dalpha, slope;

  WindowGradientPlan(Plan& forward, const RecurrenceShape& shape)
      : of(forward),
        device(of.device),
        problem(of.problem),
        pairs(of.pairs),
        heads(of.heads),
        shared(of.shared),
        len(of.len),
        K(of.K),
        V(of.V),
        blocks(of.blocks),
        parts(heads * blocks),
        o_cotangent(device.template input<"dO">(problem.cotangents, "o", heads, len, V)),
        final_cotangent(device.template input<"S0">(problem.cotangents, "final_state", heads, K, V)),
        tail_x(device.template array<"part">(heads, pairs.count, K, pairs.among_zeros(problem, "final_tail_k", K))),
        tail_v(device.template array<"part">(heads, pairs.count, V, pairs.among_zeros(problem, "final_tail_v", V))),
        ones(for_all_tokens<"scale">(device, shape, 1)),
        adjoints(device.template result<"Sc">(heads, of.chunks * D, V)),
        dinitial_state(device.template result<"end">(heads, K, V)),
        dq_parts(device.template result<"part">(parts, len, K)),
        dq(device.template result<"out">(shared, len, K)),
        dx_parts(device.template result<"part">(parts, pairs.count, K)),
        dx_of_tail(device.template result<"out">(heads, pairs.count, K)),
        dk_parts(device.template result<"part">(parts, len, K)),
        dk(device.template result<"out">(shared, len, K)),
        dv(device.template result<"out">(heads, pairs.count, V)),
        dv_of_tokens(device.template result<"out">(heads, len, V)),
        dweight_parts(of_tokens(parts)),
        dlog_parts(of_tokens(parts)),
        dweight(of_tokens(heads)),
        dlog_gamma(of_tokens(heads)),
        dbeta(of_tokens(heads)),
        dalpha(of_tokens(heads)),
        slope(of_tokens(heads)) {}

  Arrays gradients() {
    const PairOfToken pair_of_token{pairs.tail, pairs.first};
    device.backward([&] {
      of_states();
      of_gains();
      of_pairs();
      device.template gather<"part">(dx_parts, dk_parts, pair_of_token);
      device.template gather<"out">(dv, dv_of_tokens, pair_of_token);
      device.template sum<"part", "out">(7, dq_parts, blocks, dq);
      device.template sum<"part", "out">(7, dk_parts, blocks, dk);
      device.template sum<"part", "out">(7, dx_parts, blocks, dx_of_tail);
    });
    Arrays all{
        {"q", device.array_of(dq, {len, K})},           {"k", device.array_of(dk, {len, K})},
        {"v", device.array_of(dv_of_tokens, {len, V})}, {"beta", device.array_of(dbeta, {len})},
        {"alpha", device.array_of(dalpha, {len})},      {"initial_state", device.array_of(dinitial_state, {K, V})}};
    of.keys.of_keys(problem, all);
    if (!problem.inputs.contains("tail_k")) return all;
    all["tail_k"] = tail_of(dx_of_tail, K);
    all["tail_v"] = tail_of(dv, V);
    return all;
  }

 private:
  Values of_tokens(int h) const { return device.template result<"dweight">(h, len, 1); }
  Array tail_of(const Values& of_all, int cols) const {
    return pairs.slice(of.head_axis, device.array_of(of_all, {pairs.count, cols}).data, 0, pairs.tail, cols);
  }

  /// The cotangents of the states after all chunks.
  void of_states() {
    device.template launch<StatePass<B, C, D, DV, stages, true, false, true>, B>(
        5, heads, blocks,
        {of.q.in(), o_cotangent.in(), final_cotangent.in(), of.up_to.row_in(), ones.row_in(), of.totals.row_in(),
         adjoints.out(), dinitial_state.out(), len, of.group, shared});
  }
  void of_gains() {
    device.template launch<WindowRowGradients<B, C, D, DV, stages>, B>(
        6, heads, of.of_chunks,
        {of.q.in(), of.x.in(), of.v.in(), of.states.in(), adjoints.in(), o_cotangent.in(), of.weight.row_in(),
         of.gamma.row_in(false), dq_parts.out(), dweight_parts.row_out(), dlog_parts.row_out(), of.windows, len,
         of.group, blocks});
    device.template sum<"dweight", "dweight">(7, dweight_parts, blocks, dweight);
    device.template sum<"dlog_decay", "dlog_decay">(7, dlog_parts, blocks, dlog_gamma);
    device.template launch<WindowGainBackward<B, C>, B>(
        8, heads, of.chunks,
        {of.beta.row_in(), of.gamma.row_in(), of.den.row_in(), of.sizes.row_in(), dweight.row_in(), dlog_gamma.row_in(),
         dbeta.row_out(), dalpha.row_out(), slope.row_out()});
  }
  void of_pairs() {
    device.template launch<WindowPairGradients<B, C, D, DV, stages>, B>(
        9, heads, imax(1, ceil_div(pairs.count, C)) * blocks,
        {of.q.in(), of.x.in(), of.v.in(), adjoints.in(), o_cotangent.in(), tail_x.in(), tail_v.in(), of.weight.row_in(),
         of.gamma.row_in(false), slope.row_in(), dx_parts.out(), dv.out(), of.windows, len, of.group, blocks});
  }
};

template <class Tiles, class Device>
Answer falcon3a_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  WindowPlan<Tiles, Device> plan(device, shape, problem);
  Answer answer{plan.forward(), {}};
  if (!problem.cotangents.empty()) answer.gradients = WindowGradientPlan<Tiles, Device>(plan, shape).gradients();
  return answer;
}

}  // namespace assay::tile
