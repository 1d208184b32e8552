#pragma once
// FALCON-3's launches, planned once for every device (kernels/host/host_device.hpp): tokens and pairs come into the
// rows of tiles, the programs of a form run on these, and what they write is summed back.
#include "kernels/falcon/falcon3.hpp"
#include "kernels/launches/window_launch.hpp"
#include "kernels/plans/falcon_rows.hpp"
#include "kernels/programs/tensor_inverse.hpp"

namespace assay::tile {

/// The inputs and results of a forward pass, by ratios of decays or (`Renormalized`) by the published form. `Tiles`:
/// rows of a tile, the compiled key dimension, the value columns of a block, in a pass over all tiles and in the work
/// for all at once, the stages of a pass, and their executor.
template <class Tiles, bool Renormalized, class Device>
struct BatchPlan {
  using B = typename Tiles::Executor;
  using Values = typename Device::Values;
  static constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values, pass_DV = Tiles::pass_values;
  static constexpr int stages = Tiles::stages;
  static constexpr int phases = Renormalized ? 0 : 1;  ///< the other form keeps systems and states of all tiles
  const Device& device;
  const Problem& problem;
  const bool head_axis;
  const int heads, shared, group, len, K, V, chunks, blocks;
  const FalconInputs<Device> gates;
  const PairRows pairs;
  const Windows windows;
  const BatchRows rows;
  const int tiles, by_tile, by_value;
  const std::vector<double> pair_x, pair_v;
  const Values x, v, q, beta, initial_state;
  Values weight, gamma, energy, sizes, tile_q, tile_x, tile_v, tile_weight, tile_gamma, tile_decays, tile_o, tile_z;
  Values states, inverse, to_row, to_error, to_end, totals;
  const BatchInputs<B> inputs;
  const BatchSystems<B> systems;

  BatchPlan(const Device& on, const RecurrenceShape& s, const Problem& what)
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
        gates(on, s, what),
        pairs(s, what, gates.first()),
        windows{pairs.tail, pairs.first,
                pairs.window > 0 ? on.planted("window_one_too_wide"_s, pairs.window, pairs.window + 1) : 0},
        rows(BatchRows::of(windows, len, longest_window(windows.window, pairs.count), C)),
        tiles(rows.tiles()),
        by_tile(tiles * blocks),
        by_value(ceil_div(V, pass_DV)),
        pair_x(pairs.gather(what, "tail_k", gates.features(what), shared, len, K)),
        pair_v(pairs.gather(what, "tail_v", what.inputs.at("v").data, heads, len, V)),
        x(on.template array<"K">(heads, pairs.count, K, pair_x)),
        v(on.template array<"V">(heads, pairs.count, V, pair_v)),
        q(on.template input<"Q">(what.inputs, "q", shared, len, K)),
        beta(on.template input<"beta">(what.inputs, "beta", heads, len, 1)),
        initial_state(on.template input<"S0">(what.inputs, "initial_state", heads, K, V)),
        weight(on.template result<"weight">(heads, len, 1)),
        gamma(on.template result<"gamma">(heads, len, 1)),
        energy(on.template result<"energy">(heads, len, 1)),
        sizes(on.template result<"energy">(heads, len, 1)),
        tile_q(on.template result<"Q">(shared, rows.count(), K)),
        tile_x(on.template result<"K">(heads, rows.count(), K)),
        tile_v(on.template result<"V">(heads, rows.count(), V)),
        tile_weight(on.template result<"weight">(heads, rows.count(), 1)),
        tile_gamma(on.template result<"gamma">(heads, rows.count(), 1)),
        tile_decays(on.template result<"gamma">(heads, Renormalized ? rows.count() : 0, 1)),
        tile_o(on.template result<"part">(heads, rows.count(), V)),
        tile_z(on.template result<"part">(heads, phases * rows.count(), V)),
        states(on.template result<"Sc">(heads, Renormalized && what.cotangents.empty() ? 0 : rows.groups() * D, V)),
        inverse(on.template result<"Tc">(heads, phases * rows.count(), C)),
        to_row(of_rows()),
        to_error(of_rows()),
        to_end(of_rows()),
        totals(on.template result<"decay">(heads, phases * tiles * D, 1)),
        inputs{tile_q.in(), tile_x.in(), tile_v.in(), tile_weight.row_in(), tile_gamma.row_in(false),
               rows,        group,       shared},
        systems{inverse.in(), to_row.row_in(), to_error.row_in(), to_end.row_in(), totals.row_in()} {}

  Arrays forward() {
    auto o = device.template result<"out">(heads, len, V), final_state = device.template result<"final">(heads, K, V);
    device.forward([&] {
      device.template launch<BatchGain<B, C, D, stages>, B>(
          0, heads, chunks,
          {x.in(), beta.row_in(), gates.lambda.row_in(), gates.active.row_in(), weight.row_out(), gamma.row_out(),
           energy.row_out(), sizes.row_out(), gates.eps, gates.floor, gates.options.coupling, windows, len});
      into_tiles();
      if constexpr (Renormalized) {
        device.template launch<TensorForward<B, C, D, DV, stages>, B>(
            1, heads, blocks,
            {{inputs, tile_decays.row_in()}, initial_state.in(), tile_o.out(), final_state.out(), states.out()});
      } else {
        device.template launch<BatchSystem<B, C, D>, B>(
            6, heads, tiles,
            {inputs, inverse.out(), to_row.row_out(), to_error.row_out(), to_end.row_out(), totals.row_out()});
        device.template launch<BatchStates<B, C, D, pass_DV, stages>, B>(
            1, heads, by_value, {inputs, systems, initial_state.in(), tile_z.out(), states.out(), final_state.out()});
        device.template launch<BatchOutputs<B, C, D, DV>, B>(
            7, heads, by_tile, {inputs, systems, tile_z.in(), states.in(), tile_o.out(), blocks});
      }
      device.template sum_rows<"part", "out">(2, tile_o, o, RowsOfReader{rows});
    });
    return {{"o", device.array_of(o, {len, V})},
            {"final_state", device.array_of(final_state, {K, V})},
            {"final_tail_k", pairs.slice(head_axis, pair_x, pairs.count - pairs.newest, pairs.count, K)},
            {"final_tail_v", pairs.slice(head_axis, pair_v, pairs.count - pairs.newest, pairs.count, V)}};
  }

 private:
  Values of_rows() const { return device.template result<"decay">(heads, phases * rows.count(), 1); }
  void into_tiles() {
    device.template gather<"Q">(q, tile_q, ReaderOfRow{rows});
    device.template gather<"K">(x, tile_x, PairOfRow{rows});
    device.template gather<"V">(v, tile_v, PairOfRow{rows});
    device.template gather<"weight">(weight, tile_weight, WriterOfRow{rows});
    device.template gather<"gamma">(gamma, tile_gamma, DecayOfRow{rows}, 1);
    device.template gather<"gamma">(gamma, tile_decays, WriterOfRow{rows});
  }
};

/// The backward pass of a forward one. Throws InputError where a decay is 0.
template <class Tiles, bool Renormalized, class Device>
struct BatchGradientPlan {
  using Plan = BatchPlan<Tiles, Renormalized, Device>;
  using B = typename Plan::B;
  using Values = typename Device::Values;
  static constexpr Size C = Plan::C, D = Plan::D, DV = Plan::DV, pass_DV = Plan::pass_DV;
  static constexpr int stages = Plan::stages;
  Plan& of;
  const Device& device;
  const Problem& problem;
  const BatchRows rows;
  const PairRows& pairs;
  const int heads, shared, len, K, V, blocks, parts;
  const Values o_cotangent, final_cotangent, tail_x, tail_v;
  Values tile_do, tile_dq, tile_dx, tile_dv, tile_dweight, tile_dlog, tile_dstep, reads, dy, adjoints;
  Values dweight_parts, dlog_parts, dweight, dlog_gamma, dbeta, dlambda, slope, dq_parts, dx_parts, dx_of_rows, dx;
  Values dq, dk_parts, dk, dv, dv_of_tokens, dx_of_tail, dinitial_state;

  explicit BatchGradientPlan(Plan& forward)
      : of(forward),
        device(of.device),
        problem(of.problem),
        rows(of.rows),
        pairs(of.pairs),
        heads(of.heads),
        shared(of.shared),
        len(of.len),
        K(of.K),
        V(of.V),
        blocks(of.blocks),
        parts(heads * blocks),
        o_cotangent(device.template input<"dO">(problem.cotangents, "o", heads, len, V)),
        final_cotangent(device.template input<"dfinal">(problem.cotangents, "final_state", heads, K, V)),
        tail_x(device.template array<"part">(heads, pairs.count, K, pairs.among_zeros(problem, "final_tail_k", K))),
        tail_v(device.template array<"part">(heads, pairs.count, V, pairs.among_zeros(problem, "final_tail_v", V))),
        tile_do(device.template result<"dO">(heads, rows.count(), V)),
        tile_dq(device.template result<"part">(parts, rows.count(), K)),
        tile_dx(device.template result<"part">(parts, rows.count(), K)),
        tile_dv(device.template result<"part">(heads, rows.count(), V)),
        tile_dweight(device.template result<"dweight">(parts, rows.count(), 1)),
        tile_dlog(device.template result<"dlog_decay">(parts, rows.count(), 1)),
        tile_dstep(device.template result<"dlog_decay">(parts, Renormalized ? rows.count() : 0, 1)),
        reads(device.template result<"part">(heads, Plan::phases * rows.count(), V)),
        dy(device.template result<"part">(heads, Plan::phases * rows.count(), V)),
        adjoints(device.template result<"Gc">(heads, Plan::phases * rows.groups() * D, V)),
        dweight_parts(of_tokens(parts)),
        dlog_parts(of_tokens(parts)),
        dweight(of_tokens(heads)),
        dlog_gamma(of_tokens(heads)),
        dbeta(of_tokens(heads)),
        dlambda(of_tokens(heads)),
        slope(of_tokens(heads)),
        dq_parts(device.template result<"part">(parts, len, K)),
        dx_parts(device.template result<"part">(parts, pairs.count, K)),
        dx_of_rows(device.template result<"part">(heads, pairs.count, K)),
        dx(device.template result<"part">(heads, pairs.count, K)),
        dq(device.template result<"out">(shared, len, K)),
        dk_parts(device.template result<"part">(heads, len, K)),
        dk(device.template result<"out">(shared, len, K)),
        dv(device.template result<"out">(heads, pairs.count, V)),
        dv_of_tokens(device.template result<"out">(heads, len, V)),
        dx_of_tail(device.template result<"out">(heads, pairs.count, K)),
        dinitial_state(device.template result<"initial">(heads, K, V)) {
    of.gates.require_open(device, of.gamma);
  }

  Arrays gradients() {
    device.backward([&] {
      device.template gather<"dO">(o_cotangent, tile_do, ReaderOfRow{rows});
      of_tiles();
      out_of_tiles();
      of_gains();
      const PairOfToken pair_of_token{pairs.tail, pairs.first};
      device.template gather<"part">(dx, dk_parts, pair_of_token);
      device.template sum<"part", "out">(2, dk_parts, 1, dk);
      device.template gather<"out">(dv, dv_of_tokens, pair_of_token);
      device.template sum<"part", "out">(2, dx, 1, dx_of_tail);
    });
    Arrays all{
        {"q", device.array_of(dq, {len, K})},           {"k", device.array_of(dk, {len, K})},
        {"v", device.array_of(dv_of_tokens, {len, V})}, {"beta", device.array_of(dbeta, {len})},
        {"lambda", device.array_of(dlambda, {len})},    {"initial_state", device.array_of(dinitial_state, {K, V})}};
    of.gates.of_keys(problem, all);
    if (!problem.inputs.contains("tail_k")) return all;
    all["tail_k"] = tail_of(dx_of_tail, K);
    all["tail_v"] = tail_of(dv, V);
    return all;
  }

 private:
  Values of_tokens(int h) const { return device.template result<"dweight">(h, len, 1); }
  Array tail_of(const Values& of_pairs, int cols) const {
    return pairs.slice(of.head_axis, device.array_of(of_pairs, {pairs.count, cols}).data, 0, pairs.tail, cols);
  }

  /// In the rows of tiles.
  void of_tiles() {
    if constexpr (Renormalized) {
      device.template launch<TensorBackward<B, C, D, DV, stages>, B>(3, heads, blocks,
                                                                     {{of.inputs, of.tile_decays.row_in()},
                                                                      of.states.in(),
                                                                      tile_do.in(),
                                                                      final_cotangent.in(),
                                                                      tile_dq.out(),
                                                                      tile_dx.out(),
                                                                      tile_dv.out(),
                                                                      dinitial_state.out(),
                                                                      tile_dweight.row_out(),
                                                                      tile_dlog.row_out(),
                                                                      tile_dstep.row_out(),
                                                                      blocks});
    } else {
      device.template launch<BatchReads<B, C, D, DV>, B>(8, heads, of.by_tile,
                                                         {of.inputs, tile_do.in(), reads.out(), blocks});
      device.template launch<BatchAdjoints<B, C, D, pass_DV, stages>, B>(
          3, heads, of.by_value,
          {of.inputs, of.systems, tile_do.in(), final_cotangent.in(), reads.in(), dy.out(), tile_dv.out(),
           adjoints.out(), dinitial_state.out()});
      device.template launch<BatchGradients<B, C, D, DV>, B>(
          9, heads, of.by_tile,
          {of.inputs, of.systems, of.tile_z.in(), of.states.in(), dy.in(), tile_dv.in(), adjoints.in(), tile_do.in(),
           tile_dq.out(), tile_dx.out(), tile_dweight.row_out(), tile_dlog.row_out(), blocks});
    }
  }
  /// Rows of tiles as sums of tokens and pairs, over blocks and heads.
  void out_of_tiles() {
    device.template sum_rows<"dweight", "part">(2, tile_dweight, dweight_parts, RowsOfWriter{rows});
    device.template gather<"dlog_decay">(tile_dlog, dlog_parts, FirstRowOfToken{rows});
    if constexpr (Renormalized)
      device.template sum_rows<"dlog_decay", "dlog_decay">(2, tile_dstep, dlog_parts, RowsOfWriter{rows}, &dlog_parts);
    device.template sum_rows<"part", "part">(2, tile_dq, dq_parts, RowsOfReader{rows});
    device.template sum_rows<"part", "part">(2, tile_dx, dx_parts, RowsOfPair{rows});
    device.template sum_rows<"part", "out">(2, tile_dv, dv, RowsOfPair{rows}, &tail_v);
    device.template sum<"dweight", "dweight">(2, dweight_parts, blocks, dweight);
    device.template sum<"dlog_decay", "dlog_decay">(2, dlog_parts, blocks, dlog_gamma);
    device.template sum<"part", "out">(2, dq_parts, blocks, dq);
    device.template sum<"part", "part">(2, dx_parts, blocks, dx_of_rows);
  }
  void of_gains() {
    const auto& gates = of.gates;
    device.template launch<BatchGainBackward<B, C, D>, B>(
        4, heads, of.chunks,
        {of.beta.row_in(), gates.lambda.row_in(), gates.active.row_in(), of.energy.row_in(), of.sizes.row_in(),
         dweight.row_in(), dlog_gamma.row_in(), dbeta.row_out(), dlambda.row_out(), slope.row_out(), gates.eps,
         gates.floor, gates.options.coupling});
    device.template launch<BatchEnergyGradient<B, C, D>, B>(
        5, heads, imax(1, ceil_div(pairs.count, C)),
        {of.x.in(), dx_of_rows.in(), tail_x.in(), slope.row_in(), dx.out(), of.windows, len});
  }
};

template <class Tiles, bool Renormalized, class Device>
Answer falcon3_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  BatchPlan<Tiles, Renormalized, Device> plan(device, shape, problem);
  Answer answer{plan.forward(), {}};
  if (!problem.cotangents.empty()) answer.gradients = BatchGradientPlan<Tiles, Renormalized, Device>(plan).gradients();
  return answer;
}

}  // namespace assay::tile
