#pragma once
// The launches of kernels/programs/decayed_sums.hpp, planned once for every device (kernels/host/host_device.hpp) and
// for the rooms whose arithmetic it is.
#include "kernels/launches/recurrence.hpp"
#include "kernels/launches/row_maps.hpp"
#include "kernels/programs/decayed_sums.hpp"

namespace assay::tile {

/// The numbers of heads, or the one of all heads, for every token, as a gate.
template <FixedString Site, class Device>
typename Device::Values for_all_tokens(const Device& device, const RecurrenceShape& shape,
                                       std::vector<typename Device::Wide> numbers) {
  const typename Device::Wide first = numbers[0];
  numbers.resize(static_cast<std::size_t>(shape.heads), first);
  auto all = device.template result<Site>(shape.heads, shape.len, 1);
  device.template gather<Site>(device.template array<Site>(shape.heads, 1, 1, numbers), all, FirstRow{});
  return all;
}
template <FixedString Site, class Device>
typename Device::Values for_all_tokens(const Device& device, const RecurrenceShape& shape,
                                       typename Device::Wide number) {
  return for_all_tokens<Site>(device, shape, std::vector<typename Device::Wide>(1, number));
}

/// Inputs that all rooms read as they are,
template <class Device>
struct SumInputs {
  typename Device::Values q, k, v, initial_state;
  SumInputs(const Device& device, const RecurrenceShape& s, const Problem& p)
      : q(device.template input<"Q">(p.inputs, "q", s.shared_heads, s.len, s.key_dim)),
        k(device.template input<"K">(p.inputs, "k", s.shared_heads, s.len, s.key_dim)),
        v(device.template input<"V">(p.inputs, "v", s.heads, s.len, s.value_dim)),
        initial_state(device.template input<"S0">(p.inputs, "initial_state", s.heads, s.key_dim, s.value_dim)) {}
};
/// and cotangents.
template <class Device>
struct SumCotangents {
  typename Device::Values o, final_state;
  SumCotangents(const Device& device, const RecurrenceShape& s, const Problem& p)
      : o(device.template input<"dO">(p.cotangents, "o", s.heads, s.len, s.value_dim)),
        final_state(device.template input<"S0">(p.cotangents, "final_state", s.heads, s.key_dim, s.value_dim)) {}
};

/// Parts of the gradients of what heads and blocks share, `parts` for each head, and their sums.
template <bool Decays, class Device>
struct SumGradients {
  using Values = typename Device::Values;
  const Device& device;
  const int parts;
  const bool whole;                                                 ///< those of q and k have no parts
  Values dq_parts, dk_parts, dlog_decay_parts, dq, dk, dlog_decay;  ///< decays are gates, like the scale

  SumGradients(const Device& on, const RecurrenceShape& s, int of_head)
      : device(on),
        parts(of_head),
        whole(parts * s.group == 1),
        dq_parts(device.template result<"part">(s.heads * parts, whole ? 0 : s.len, s.key_dim)),
        dk_parts(device.template result<"part">(s.heads * parts, whole ? 0 : s.len, s.key_dim)),
        dlog_decay_parts(device.template result<"scale">(s.heads * parts, Decays ? s.len : 0, 1)),
        dq(device.template result<"out">(s.shared_heads, s.len, s.key_dim)),
        dk(device.template result<"out">(s.shared_heads, s.len, s.key_dim)),
        dlog_decay(device.template result<"scale">(s.heads, Decays ? s.len : 0, 1)) {}

  void sum_decays() {
    if constexpr (Decays) device.template sum<"dlog_decay", "dlog_decay">(7, dlog_decay_parts, parts, dlog_decay);
  }
  void sum_shared() {
    if (whole) return;
    device.template sum<"part", "out">(6, dq_parts, parts, dq);
    device.template sum<"part", "out">(6, dk_parts, parts, dk);
  }
};

/// A set of sums: inputs and results of its forward pass, and of its backward one, if gradients are wanted. `Tiles`:
/// tokens of a chunk, the compiled key dimension, the value columns of a block, the stages of a pass, and who runs
/// them. `Divided`: o holds sums that a denominator will divide.
template <class Tiles, bool Decays, bool Divided, class Device>
struct SumsPlan {
  using B = typename Tiles::Executor;
  using Pass = typename Tiles::Pass;
  using Chunks = typename Tiles::Chunks;
  using Values = typename Device::Values;
  static constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values, pass_DV = Tiles::pass_values,
                        gradient_DV = Tiles::gradient_values;
  static constexpr int stages = Tiles::stages;
  const Device device;
  const int heads, shared, group, len, columns, chunks, blocks, of_chunks;
  const Values &q, &k, &v, &decay, &scale, &initial_state;  ///< decays have no rows if there are none
  const bool logs;                                          ///< `decay` holds logs
  Values o, final_state, states, adjoints, up_to, after, totals, dv, dinitial_state;  ///< the 5th to 7th: of decays

  SumsPlan(const Device& on, const RecurrenceShape& s, const Values& queries, const Values& keys, const Values& values,
           int value_columns, const Values& decays, bool as_logs, const Values& scales, const Values& initial,
           bool with_gradients)
      : device(on),
        heads(s.heads),
        shared(s.shared_heads),
        group(s.group),
        len(s.len),
        columns(value_columns),
        chunks(imax(1, ceil_div(len, C))),
        blocks(ceil_div(columns, DV)),
        of_chunks(chunks * blocks),
        q(queries),
        k(keys),
        v(values),
        decay(decays),
        scale(scales),
        initial_state(initial),
        logs(as_logs),
        o(written(on, heads, len, columns)),
        final_state(on.template result<"end">(heads, s.key_dim, columns)),
        states(on.template result<"Sc">(heads, chunks * D, columns)),
        adjoints(on.template result<"Sc">(heads, with_gradients ? chunks * D : 0, columns)),
        up_to(of_decays(on, len)),
        after(of_decays(on, len)),
        totals(of_decays(on, chunks * D)),
        dv(on.template result<"out">(heads, with_gradients ? len : 0, columns)),
        dinitial_state(on.template result<"end">(heads, with_gradients ? s.key_dim : 0, columns)) {}

  void forward();
  /// `part`: which of each head's its gradients are.
  void backward(const Values& o_cotangent, const Values& final_cotangent, SumGradients<Decays, Device>& d,
                int part = 0);

 private:
  static Values written(const Device& on, int heads, int rows, int columns) {
    if constexpr (Divided)
      return on.template result<"sums">(heads, rows, columns);
    else
      return on.template result<"out">(heads, rows, columns);
  }
  /// Gates, like the scale: rooms without decays have none of their own.
  Values of_decays(const Device& on, int rows) const {
    return on.template result<"scale">(heads, Decays ? rows : 0, 1);
  }
  /// The states before all chunks, or the cotangents of those after them, and the last.
  template <bool Backward>
  void pass(const Values& left, const Values& right, const Values& start, Values& all, Values& end) {
    device.template launch<StatePass<Pass, C, D, pass_DV, stages, Decays, false, Backward>, Pass, 2>(
        Backward ? 4 : 1, heads, ceil_div(columns, pass_DV),
        {left.in(), right.in(), start.in(), (Backward ? up_to : after).row_in(), scale.row_in(), totals.row_in(),
         all.out(), end.out(), len, group, shared});
  }
};

template <class Tiles, bool Decays, bool Divided, class Device>
void SumsPlan<Tiles, Decays, Divided, Device>::forward() {
  if constexpr (Decays)
    device.template launch<ChunkDecays<B, C, D>, B>(
        0, heads, chunks, {decay.row_in(logs), up_to.row_out(), after.row_out(), totals.row_out(), len});
  pass<false>(k, v, initial_state, states, final_state);
  device.template launch<ChunkOutputs<B, C, D, DV, Decays, Divided>, B>(
      2, heads, of_chunks,
      {q.in(), k.in(), v.in(), states.in(), decay.row_in(logs), up_to.row_in(), scale.row_in(), o.out(), group, shared,
       blocks});
}

template <class Tiles, bool Decays, bool Divided, class Device>
void SumsPlan<Tiles, Decays, Divided, Device>::backward(const Values& o_cotangent, const Values& final_cotangent,
                                                        SumGradients<Decays, Device>& d, int part) {
  pass<true>(q, o_cotangent, final_cotangent, adjoints, dinitial_state);
  device.template launch<ChunkGradients<Chunks, C, D, gradient_DV, stages, Decays>, Chunks, 2>(
      5, heads, chunks,
      {q.in(),
       k.in(),
       v.in(),
       states.in(),
       adjoints.in(),
       o_cotangent.in(),
       decay.row_in(logs),
       up_to.row_in(),
       after.row_in(),
       totals.row_in(),
       scale.row_in(),
       d.dq.out(),
       d.dk.out(),
       d.dq_parts.out(),
       d.dk_parts.out(),
       dv.out(),
       d.dlog_decay_parts.row_out(),
       group,
       imax(1, ceil_div(columns, gradient_DV)),
       d.parts,
       part,
       d.whole});
}

/// The answer of a room under decays; log_decay(the gradients of the logs by token) is that of its gate.
template <class Tiles, class Device, class LogDecay>
Answer decayed_sums_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem,
                         const typename Device::Values& decay, bool logs, LogDecay log_decay) {
  const int len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const bool with_gradients = !problem.cotangents.empty();
  const SumInputs<Device> x(device, shape, problem);
  const auto scale = for_all_tokens<"scale">(device, shape, device.scale(shape, problem));
  SumsPlan<Tiles, true, false, Device> sums(device, shape, x.q, x.k, x.v, V, decay, logs, scale, x.initial_state,
                                            with_gradients);
  device.forward([&] { sums.forward(); });
  Answer answer{{{"o", device.array_of(sums.o, {len, V})}, {"final_state", device.array_of(sums.final_state, {K, V})}},
                {}};
  if (!with_gradients) return answer;

  const SumCotangents<Device> cotangents(device, shape, problem);
  SumGradients<true, Device> d(device, shape, 1);
  device.backward([&] {
    sums.backward(cotangents.o, cotangents.final_state, d);
    d.sum_shared();
    d.sum_decays();
  });
  answer.gradients = {{"q", device.array_of(d.dq, {len, K})},
                      {"k", device.array_of(d.dk, {len, K})},
                      {"v", device.array_of(sums.dv, {len, V})},
                      {"log_decay", log_decay(d.dlog_decay)},
                      {"initial_state", device.array_of(sums.dinitial_state, {K, V})}};
  return answer;
}

}  // namespace assay::tile
