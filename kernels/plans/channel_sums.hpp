#pragma once
// The launches of kernels/programs/channel_sums.hpp, planned once for every device (kernels/host/host_device.hpp) and
// for the rooms whose arithmetic it is.
#include "kernels/plans/decayed_sums.hpp"
#include "kernels/programs/channel_sums.hpp"

namespace assay::tile {

/// The inputs and results of a forward pass, and the results of a backward one if gradients are wanted. `Tiles`: tokens
/// of a chunk, the compiled key dimension, the value columns of a block, in a pass over the states, in outputs and in
/// other work for all chunks at once, the key channels that scores take at a time if these are not all, the stages of a
/// pass, and who runs them. Launches 1 and 4, the passes, are the room's own.
template <class Tiles, class Device, bool Errors>
struct ChannelPlan {
  using B = typename Tiles::Chunks;
  using Values = typename Device::Values;
  static constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values, read_DV = Tiles::read_values,
                        pass_DV = Tiles::pass_values, gradient_DV = Tiles::gradient_values;
  static constexpr int stages = Tiles::stages;
  static constexpr Size DC = [] {
    if constexpr (requires { Tiles::channels; })
      return Size(Tiles::channels);
    else
      return D;
  }();
  const Device& device;
  const int heads, shared, group, len, K, V, chunks, blocks, of_values, kept, kept_chunks;
  const SumInputs<Device> x;
  const SumCotangents<Device> cotangents;
  const Values log_decay, scale;
  Values aq, ak, zk, scores_of_chunks, totals;
  Values o, final_state, states, updates;
  Values du, adjoints, dinitial_state, dq_states, dk_states, dx, dp, dl, ends, dbeta;
  Values dq_of_heads, dk_of_heads, dq, dk, dv, dlog_decay;

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
        of_values(ceil_div(V, pass_DV)),
        kept(problem.cotangents.empty() ? 0 : len),
        kept_chunks(problem.cotangents.empty() ? 0 : chunks),
        x(on, s, problem),
        cotangents(on, s, problem),
        log_decay(on.template input<"decay">(problem.inputs, "log_decay", heads, len, K)),
        scale(for_all_tokens<"scale">(on, s, on.scale(s, problem))),
        aq(on.template result<"aQc">(heads, len, K)),
        ak(on.template result<"zKc">(Errors ? heads : 0, len, K)),
        zk(on.template result<"zKc">(heads, len, K)),
        scores_of_chunks(on.template result<"Pc">(heads, chunks * C, C)),
        totals(on.template result<"decay">(heads, chunks * D, 1)),
        o(on.template result<"out">(heads, len, V)),
        final_state(on.template result<"end">(heads, K, V)),
        states(on.template result<"Sc">(heads, chunks * D, V)),
        updates(on.template result<"dGc">(heads, Errors ? kept_chunks * D : 0, V)),
        du(on.template result<"dU">(heads, Errors ? kept : 0, V)),
        adjoints(on.template result<"Sc">(heads, kept_chunks * D, V)),
        dinitial_state(on.template result<"end">(heads, K, V)),
        dq_states(on.template result<"part">(heads, kept, K)),
        dk_states(on.template result<"part">(heads, kept, K)),
        dx(on.template result<"part">(heads, Errors ? kept : 0, K)),
        dp(on.template result<"dP">(heads, kept_chunks * C, C)),
        dl(on.template result<"dP">(heads, Errors ? kept_chunks * C : 0, C)),
        ends(on.template result<"from">(heads, kept_chunks * D, 1)),
        dbeta(on.template result<"decay">(heads, Errors ? kept : 0, 1)),
        dq_of_heads(on.template result<"part">(heads, group == 1 ? 0 : kept, K)),
        dk_of_heads(on.template result<"part">(heads, group == 1 ? 0 : kept, K)),
        dq(on.template result<"out">(shared, len, K)),
        dk(on.template result<"out">(shared, len, K)),
        dv(on.template result<"out">(heads, len, V)),
        dlog_decay(on.template result<"dlog_decay">(heads, len, K)) {}

  /// What depends on no values; with errors, L and the inverse of the system, by the write strengths.
  void scores(const Values& beta, Values& read, Values& inverse) {
    device.template launch<ChannelScores<B, C, D, DC, Errors>, B, 2>(
        8, heads, chunks,
        {x.q.in(), x.k.in(), log_decay.in(), beta.row_in(), aq.out(), ak.out(), zk.out(), scores_of_chunks.out(),
         read.out(), inverse.out(), totals.row_out(), len, group, shared});
  }
  /// o, when the states and what is written are known.
  void read(const Values& u) {
    const int columns = ceil_div(V, read_DV);
    device.template launch<ChannelOutputs<B, C, D, read_DV>, B>(
        2, heads, chunks * columns,
        {aq.in(), scores_of_chunks.in(), u.in(), states.in(), scale.row_in(), o.out(), columns});
  }
  /// With errors, the cotangents of the states and of the written rows from those of o.
  void read_backward() {
    device.template launch<ChannelReads<B, C, D, DV>, B>(
        3, heads, chunks * blocks,
        {aq.in(), scores_of_chunks.in(), cotangents.o.in(), scale.row_in(), updates.out(), du.out(), blocks});
  }
  /// Gradients, when the adjoints are known too; with errors, of these, L and the write strengths.
  void gradients_of(const Values& u, const Values& errors, const Values& read, const Values& beta) {
    const int steps = imax(1, ceil_div(V, gradient_DV));
    device.template launch<ChannelGradients<B, C, D, gradient_DV, stages, Errors>, B, 2>(
        5, heads, chunks,
        {zk.in(), u.in(), states.in(), adjoints.in(), cotangents.o.in(), scores_of_chunks.in(), scale.row_in(),
         dq_states.out(), dk_states.out(), dp.out(), dv.out(), ends.row_out(), steps});
    if constexpr (Errors)
      device.template launch<ChannelErrorGradients<B, C, D, gradient_DV, stages>, B, 2>(
          9, heads, chunks,
          {ak.in(), u.in(), states.in(), x.v.in(), errors.in(), read.in(), beta.row_in(), dx.out(), dl.out(), dv.out(),
           dbeta.row_out(), steps});
    device.template launch<ChannelScoreGradients<B, C, D, DC, Errors>, B, 2>(
        6, heads, chunks,
        {x.q.in(), x.k.in(), log_decay.in(), dq_states.in(), dk_states.in(), dx.in(), dp.in(), dl.in(), ends.row_in(),
         dq.out(), dk.out(), dq_of_heads.out(), dk_of_heads.out(), dlog_decay.out(), group});
    if (group == 1) return;
    device.template sum<"part", "out">(7, dq_of_heads, 1, dq);
    device.template sum<"part", "out">(7, dk_of_heads, 1, dk);
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
