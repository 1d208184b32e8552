#pragma once
// Affine MesaNet's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/plans/ridge.hpp"
#include "kernels/ridge/affine_mesanet.hpp"

namespace assay::tile {

template <class Tiles, class Device>
struct AffineMesaPlan : RidgePlan<Tiles, Device> {
  using Base = RidgePlan<Tiles, Device>;
  using Base::C, Base::D, Base::R, Base::together, Base::stages, Base::device, Base::heads, Base::kv_heads, Base::group,
      Base::len, Base::K, Base::V, Base::chunks, Base::in, Base::gram, Base::state, Base::solution, Base::unit_solution,
      Base::solution_unit;
  using typename Base::B, typename Base::S, typename Base::Chunks, typename Base::Values;
  Values mean_k, mean_v;

  AffineMesaPlan(const Device& on, const RidgeShape& s, const Problem& what)
      : Base(on, s, what), mean_k(means(chunks + 1)), mean_v(means(chunks + 1)) {}

  Arrays forward() {
    auto add_mean_k = means(chunks), add_mean_v = means(chunks), add_gram = this->template states<"W">(),
         add_state = this->template states<"W">();
    auto final_mean_k = device.template result<"end">(heads, K, 1),
         final_mean_v = device.template result<"end">(heads, V, 1),
         final_gram = device.template result<"end">(heads, K, K),
         final_state = device.template result<"end">(heads, V, K);
    auto o = this->template of_rows<"out">(V);
    device.forward([&] {
      device.template launch<AffineUpdates<Chunks, C, D>, Chunks>(
          0, kv_heads, chunks,
          {in.k.in(), in.v.in(), add_mean_k.row_out(), add_mean_v.row_out(), add_gram.out(), add_state.out(), len});
      device.template launch<AffineStates<S, C, D, stages>, S>(
          1, kv_heads, 2,
          {add_mean_k.row_in(), add_mean_v.row_in(), add_gram.in(), add_state.in(), gram.out(), state.out(),
           mean_k.row_out(), mean_v.row_out(), final_mean_k.row_out(), final_mean_v.row_out(), final_gram.out(),
           final_state.out(), len, chunks, group});
      device.template launch<AffineOutputs<B, C, D>, B>(
          2, heads, chunks,
          {system(), in.q.in(), solution.out(), unit_solution.out(), o.out(), solution_unit.row_out()});
    });
    return {{"o", device.array_of(o, {len, V})},
            {"final_mean_k", device.array_of(final_mean_k, {K})},
            {"final_mean_v", device.array_of(final_mean_v, {V})},
            {"final_scatter_kk", device.array_of(final_gram, {K, K})},
            {"final_scatter_vk", device.array_of(final_state, {V, K})}};
  }

  Arrays gradients() {
    const auto g = this->template cotangent<"dO">("o", len, V),
               of_mean_k = this->template cotangent<"mean">("final_mean_k", K, 1),
               of_mean_v = this->template cotangent<"mean">("final_mean_v", V, 1),
               of_gram = this->template cotangent<"dM">("final_scatter_kk", K, K),
               of_state = this->template cotangent<"dM">("final_scatter_vk", V, K),
               start_gram = this->template cotangent<"W">("final_scatter_kk", K, K),
               start_state = this->template cotangent<"W">("final_scatter_vk", V, K);
    auto x = this->template of_rows<"X">(K), x_unit = this->template of_rows<"xunit">(1),
         of_x = this->template of_rows<"M">(1), of_y = this->template of_rows<"M">(1);
    auto dq = this->template of_rows<"out">(K), dlambda = this->template of_rows<"dlambda">(K);
    auto add_N = this->template states<"W">(), add_P = this->template states<"W">(), N = this->template states<"dSc">(),
         P = this->template states<"dSc">();
    auto add_d = on_keys(), add_h = on_keys(), d = on_keys(), h = on_keys();
    auto first_d = device.template result<"W">(heads, C, D), first_h = device.template result<"W">(heads, C, D);
    auto dk = this->template of_keys<"out">(K), dv = this->template of_keys<"out">(V);
    device.backward([&] {
      device.template launch<AffineAdjoint<B, C, D>, B, together>(
          3, heads, chunks,
          {system(), solution.in(), g.in(), x.out(), dq.out(), dlambda.out(), x_unit.row_out(), of_x.row_out(),
           of_y.row_out()});
      device.template launch<AffineAdjointUpdates<S, C, D, stages>, S>(
          4, kv_heads, chunks,
          {x.in(), unit_solution.in(), g.in(), x_unit.row_in(), solution_unit.row_in(), of_x.row_in(), of_y.row_in(),
           in.count.row_in(), add_N.out(), add_P.out(), add_d.out(), add_h.out(), group});
      device.template launch<AffineAdjointStart<Chunks, C, D>, Chunks>(
          5, heads, 1,
          {of_gram.in(), of_state.in(), of_mean_k.row_in(), of_mean_v.row_in(), mean_k.row_in(), mean_v.row_in(),
           first_d.out(), first_h.out(), len, chunks, group});
      this->template carry_back<S, R, false>(6, D, start_gram, add_N, N);
      this->template carry_back<S, R, false>(7, D, start_state, add_P, P);
      this->template carry_back<Chunks, C, true>(8, C, first_d, add_d, d);
      this->template carry_back<Chunks, C, true>(9, C, first_h, add_h, h);
      device.template launch<AffineGradients<Chunks, C, D, stages>, Chunks>(
          10, kv_heads, chunks,
          {in.k.in(), in.v.in(), x.in(), unit_solution.in(), g.in(), N.in(), P.in(), d.in(), h.in(), x_unit.row_in(),
           solution_unit.row_in(), of_x.row_in(), of_y.row_in(), in.count.row_in(), dk.out(), dv.out(), group});
    });
    return this->gradients_of(dq, dk, dv, dlambda);
  }

 private:
  Values means(int n) const { return device.template result<"mean">(kv_heads, n * D, 1); }
  Values on_keys() const { return device.template result<"W">(kv_heads, chunks * C, D); }
  AffineSystem<B> system() const { return {Base::system(), mean_k.row_in(), mean_v.row_in(), in.count.row_in()}; }
};

}  // namespace assay::tile
