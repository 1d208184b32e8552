#pragma once
// The launches of kernels/programs/channel_sums.hpp, planned once for every device (kernels/host/host_device.hpp) and
// for the rooms whose arithmetic it is.
#include "kernels/plans/decayed_sums.hpp"
#include "kernels/programs/channel_sums.hpp"

namespace assay::tile {

/// The inputs and results of a forward pass, and the results of a backward one if gradients are wanted. `Tiles`: tokens
/// of a chunk, the compiled key dimension, the value columns of a block, in a pass over the states, in outputs and in
/// other work for all chunks at once, the stages of a pass, and their executor. Launches 1 and 4, the passes, are the
/// room's own.
template <class Tiles, class Device>
struct ChannelPlan {
  using B = typename Tiles::Executor;
  using Values = typename Device::Values;
  static constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values, read_DV = Tiles::read_values,
                        pass_DV = Tiles::pass_values;
  static constexpr int stages = Tiles::stages;
  const Device& device;
  const int heads, shared, group, len, K, V, chunks, blocks, of_chunks, of_values, kept, parts;
  const SumInputs<Device> x;
  const SumCotangents<Device> cotangents;
  const Values log_decay, scale;
  Values o, final_state, states, totals, updates;
  Values du, adjoints, dinitial_state, dq_parts, dk_parts, dlog_decay_parts, dbeta_parts, dq, dk, dv, dlog_decay;

  ChannelPlan(const Device& on, const RecurrenceShape& s, const Problem& problem)
      : device(on),
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
        kept(problem.cotangents.empty() ? 0 : len),
        parts(problem.cotangents.empty() ? 0 : heads * blocks),
        x(on, s, problem),
        cotangents(on, s, problem),
        log_decay(on.template input<"decay">(problem.inputs, "log_decay", heads, len, K)),
        scale(for_all_tokens<"scale">(on, s, on.scale(s, problem))),
        o(on.template result<"out">(heads, len, V)),
        final_state(on.template result<"end">(heads, K, V)),
        states(on.template result<"Sc">(heads, chunks * D, V)),
        totals(on.template result<"decay">(heads, chunks * D, 1)),
        updates(on.template result<"W">(heads, chunks * D, V)),
        du(on.template result<"dU">(heads, kept, V)),
        adjoints(on.template result<"Sc">(heads, parts > 0 ? chunks * D : 0, V)),
        dinitial_state(on.template result<"end">(heads, K, V)),
        dq_parts(on.template result<"part">(parts, len, K)),
        dk_parts(on.template result<"part">(parts, len, K)),
        dlog_decay_parts(on.template result<"dlog_decay">(parts, len, K)),
        dbeta_parts(on.template result<"decay">(parts, len, 1)),
        dq(on.template result<"out">(shared, len, K)),
        dk(on.template result<"out">(shared, len, K)),
        dv(on.template result<"out">(heads, len, V)),
        dlog_decay(on.template result<"dlog_decay">(heads, len, K)) {}

  /// o, when the states and what is written are known.
  void read(const Values& u) {
    const int columns = ceil_div(V, read_DV);
    device.template launch<ChannelOutputs<B, C, D, read_DV>, B>(
        2, heads, chunks * columns,
        {x.q.in(), x.k.in(), u.in(), states.in(), log_decay.in(), scale.row_in(), o.out(), group, shared, columns});
  }
  /// Computes the cotangents of the states and of the written rows from those of o.
  void read_backward() {
    device.template launch<ChannelReads<B, C, D, DV>, B>(3, heads, of_chunks,
                                                         {x.q.in(), x.k.in(), cotangents.o.in(), log_decay.in(),
                                                          scale.row_in(), updates.out(), du.out(), group, blocks});
  }
  /// Gradients, when the adjoints are known too; with errors, their gradients and the write strengths.
  template <bool Errors>
  void gradients_of(const Values& u, const Values& errors, const Values& beta) {
    device.template launch<ChannelGradients<B, C, D, DV, Errors>, B>(
        5, heads, of_chunks,
        {x.q.in(), x.k.in(), u.in(), states.in(), adjoints.in(), cotangents.o.in(), log_decay.in(), scale.row_in(),
         du.in(), x.v.in(), errors.in(), beta.row_in(), dq_parts.out(), dk_parts.out(), dv.out(),
         dlog_decay_parts.out(), dbeta_parts.row_out(), group, blocks});
    device.template sum<"part", "out">(6, dq_parts, blocks, dq);
    device.template sum<"part", "out">(6, dk_parts, blocks, dk);
    device.template sum<"dlog_decay", "dlog_decay">(7, dlog_decay_parts, blocks, dlog_decay);
  }

  Arrays outputs() const {
    return {{"o", device.array_of(o, {len, V})}, {"final_state", device.array_of(final_state, {K, V})}};
  }
  Arrays gradients() const {
    return {{"q", device.array_of(dq, {len, K})},
            {"k", device.array_of(dk, {len, K})},
            {"v", device.array_of(dv, {len, V})},
            {"log_decay", device.array_of(dlog_decay, {len, K})},
            {"initial_state", device.array_of(dinitial_state, {K, V})}};
  }
};

}  // namespace assay::tile
