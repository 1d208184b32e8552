#pragma once
// MesaNet's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/plans/ridge.hpp"
#include "kernels/ridge/mesanet.hpp"

namespace assay::tile {

template <class Tiles, class Device>
struct MesaPlan : RidgePlan<Tiles, Device> {
  using Base = RidgePlan<Tiles, Device>;
  using Base::C, Base::D, Base::R, Base::together, Base::stages, Base::device, Base::heads, Base::kv_heads, Base::group,
      Base::len, Base::K, Base::V, Base::chunks, Base::in, Base::gram, Base::state, Base::solution, Base::unit_solution,
      Base::solution_unit, Base::system;
  using typename Base::B, typename Base::S, typename Base::Chunks, typename Base::Values;
  const Values wide_k;

  MesaPlan(const Device& on, const RidgeShape& s, const Problem& what)
      : Base(on, s, what), wide_k(on.template input<"W">(what.inputs, "k", kv_heads, len, K)) {}

  Arrays forward() {
    auto gram_update = this->template states<"W">(), state_update = this->template states<"W">();
    auto final_gram = device.template result<"end">(heads, K, K),
         final_state = device.template result<"end">(heads, V, K);
    auto o = this->template of_rows<"out">(V);
    device.forward([&] {
      device.template launch<MesaUpdates<S, C, D>, S>(
          0, kv_heads, chunks, {in.k.in(), in.v.in(), wide_k.in(), gram_update.out(), state_update.out()});
      device.template launch<MesaStates<S, R, D, stages, true>, S>(
          1, kv_heads, ceil_div(D, R), {gram_update.in(), gram.out(), final_gram.out(), chunks, group});
      device.template launch<MesaStates<S, R, D, stages, false>, S>(
          2, kv_heads, ceil_div(D, R), {state_update.in(), state.out(), final_state.out(), chunks, group});
      device.template launch<MesaOutputs<B, C, D>, B, together>(
          3, heads, chunks,
          {system(), in.q.in(), solution.out(), unit_solution.out(), o.out(), solution_unit.row_out()});
    });
    return {{"o", device.array_of(o, {len, V})},
            {"final_state", device.array_of(final_state, {V, K})},
            {"final_gram", device.array_of(final_gram, {K, K})}};
  }

  Arrays gradients() {
    const auto g = this->template cotangent<"dO">("o", len, V),
               of_state = this->template cotangent<"W">("final_state", V, K),
               of_gram = this->template cotangent<"W">("final_gram", K, K);
    auto a = this->template of_rows<"X">(K), a_unit = this->template of_rows<"xunit">(1);
    auto dq = this->template of_rows<"out">(K), dlambda = this->template of_rows<"dlambda">(K);
    auto update_P = this->template states<"W">(), update_N = this->template states<"W">();
    auto P = this->template states<"dSc">(), N = this->template states<"dSc">();
    auto dk = this->template of_keys<"out">(K), dv = this->template of_keys<"out">(V);
    device.backward([&] {
      device.template launch<MesaAdjoint<B, C, D>, B, together>(
          4, heads, chunks, {system(), solution.in(), g.in(), a.out(), dq.out(), dlambda.out(), a_unit.row_out()});
      device.template launch<MesaAdjointUpdates<S, C, D, stages>, S>(
          5, kv_heads, chunks,
          {unit_solution.in(), a.in(), g.in(), solution_unit.row_in(), a_unit.row_in(), update_P.out(), update_N.out(),
           group});
      this->template carry_back<S, R, false>(6, D, of_state, update_P, P);
      this->template carry_back<S, R, false>(7, D, of_gram, update_N, N);
      device.template launch<MesaGradients<Chunks, C, D, stages>, Chunks>(
          8, kv_heads, chunks,
          {in.k.in(), in.v.in(), unit_solution.in(), a.in(), g.in(), P.in(), N.in(), solution_unit.row_in(),
           a_unit.row_in(), dk.out(), dv.out(), group});
    });
    return this->gradients_of(dq, dk, dv, dlambda);
  }
};

}  // namespace assay::tile
