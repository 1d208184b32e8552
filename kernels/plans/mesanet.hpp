#pragma once
// MesaNet's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/plans/ridge.hpp"
#include "kernels/ridge/mesanet.hpp"

namespace assay::tile {

/// The inputs and results of a forward pass. `Tiles`: rows of a chunk, the compiled dimension, the stages of a pass,
/// and its executors, on chunks and on states.
template <class Tiles, class Device>
struct MesaPlan {
  using B = typename Tiles::Executor;
  using S = typename Tiles::States;
  using Values = typename Device::Values;
  static constexpr Size C = Tiles::tokens, D = Tiles::dim;
  static constexpr int stages = Tiles::stages;
  const Device& device;
  const Problem& problem;
  const int heads, kv_heads, group, len, K, V, chunks;
  const RidgeInputs<Device> in;
  const Values wide_k;
  Values gram, state, x, unit_x, x_unit;

  MesaPlan(const Device& on, const RidgeShape& s, const Problem& what)
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
        wide_k(on.template input<"W">(what.inputs, "k", kv_heads, len, K)),
        gram(states<"H">()),
        state(states<"S">()),
        x(of_rows<"R">(K)),
        unit_x(of_rows<"X">(K)),
        x_unit(of_rows<"xunit">(1)) {}

  Arrays forward() {
    auto gram_update = states<"W">(), state_update = states<"W">();
    auto final_gram = device.template result<"end">(heads, K, K),
         final_state = device.template result<"end">(heads, V, K);
    auto o = of_rows<"out">(V);
    device.forward([&] {
      device.template launch<MesaUpdates<S, C, D>, S>(
          0, kv_heads, chunks, {in.k.in(), in.v.in(), wide_k.in(), gram_update.out(), state_update.out()});
      device.template launch<MesaStates<S, D, stages, true>, S>(
          1, kv_heads, 1, {gram_update.in(), gram.out(), final_gram.out(), chunks, group});
      device.template launch<MesaStates<S, D, stages, false>, S>(
          2, kv_heads, 1, {state_update.in(), state.out(), final_state.out(), chunks, group});
      device.template launch<MesaOutputs<B, C, D>, B>(
          3, heads, chunks, {system(), in.q.in(), x.out(), unit_x.out(), o.out(), x_unit.row_out()});
    });
    return {{"o", device.array_of(o, {len, V})},
            {"final_state", device.array_of(final_state, {V, K})},
            {"final_gram", device.array_of(final_gram, {K, K})}};
  }

  Arrays gradients() {
    const auto g = device.template input<"dO">(problem.cotangents, "o", heads, len, V);
    const auto of_state = device.template input<"W">(problem.cotangents, "final_state", heads, V, K);
    const auto of_gram = device.template input<"W">(problem.cotangents, "final_gram", heads, K, K);
    auto a = of_rows<"X">(K), a_unit = of_rows<"xunit">(1), dq = of_rows<"out">(K), dlambda = of_rows<"dlambda">(K);
    auto update_P = states<"W">(), update_N = states<"W">(), P = states<"dSc">(), N = states<"dSc">();
    auto dk = device.template result<"out">(kv_heads, len, K), dv = device.template result<"out">(kv_heads, len, V);
    device.backward([&] {
      device.template launch<MesaAdjoint<B, C, D>, B>(
          4, heads, chunks, {system(), x.in(), g.in(), a.out(), dq.out(), dlambda.out(), a_unit.row_out()});
      device.template launch<MesaAdjointUpdates<B, C, D, stages>, B>(
          5, kv_heads, chunks,
          {unit_x.in(), a.in(), g.in(), x_unit.row_in(), a_unit.row_in(), update_P.out(), update_N.out(), group});
      device.template launch<AdjointStates<S, D, D, stages, false>, S>(
          6, kv_heads, 1, {of_state.in(), update_P.in(), P.out(), chunks, group});
      device.template launch<AdjointStates<S, D, D, stages, false>, S>(
          7, kv_heads, 1, {of_gram.in(), update_N.in(), N.out(), chunks, group});
      device.template launch<MesaGradients<B, C, D, stages>, B>(
          8, kv_heads, chunks,
          {in.k.in(), in.v.in(), unit_x.in(), a.in(), g.in(), P.in(), N.in(), x_unit.row_in(), a_unit.row_in(),
           dk.out(), dv.out(), group});
    });
    return {{"q", device.array_of(dq, {len, K})},
            {"k", device.array_of(dk, {len, K})},
            {"v", device.array_of(dv, {len, V})},
            {"lambda", in.ridge_gradient(dlambda)}};
  }

 private:
  template <FixedString Site>
  Values states() const {
    return device.template result<Site>(kv_heads, chunks * D, K);
  }
  template <FixedString Site>
  Values of_rows(int columns) const {
    return device.template result<Site>(heads, len, columns);
  }
  MesaSystem<B> system() const {
    return {
        in.k.in(), in.v.in(), in.lambda.in(), gram.in(), state.in(), in.ridge_unit.row_in(), in.template limits<B>(),
        group,     kv_heads};
  }
};

template <class Tiles, class Device>
Answer mesanet_plan(const Device& device, const RidgeShape& shape, const Problem& problem) {
  MesaPlan<Tiles, Device> plan(device, shape, problem);
  Answer answer{plan.forward(), {}};
  if (!problem.cotangents.empty()) answer.gradients = plan.gradients();
  return answer;
}

}  // namespace assay::tile
