#pragma once
// Affine MesaNet's launches, planned once for every device (kernels/host/host_device.hpp).
#include <string_view>

#include "kernels/plans/ridge.hpp"
#include "kernels/ridge/affine_mesanet.hpp"

namespace assay::tile {

/// The inputs and results of a forward pass. `Tiles`: rows of a chunk, the compiled dimension, the stages of a pass,
/// and its executors, on chunks and on states.
template <class Tiles, class Device>
struct AffineMesaPlan {
  using B = typename Tiles::Executor;
  using S = typename Tiles::States;
  using Values = typename Device::Values;
  static constexpr Size C = Tiles::tokens, D = Tiles::dim;
  static constexpr int stages = Tiles::stages;
  const Device& device;
  const Problem& problem;
  const int heads, kv_heads, group, len, K, V, chunks;
  const RidgeInputs<Device> in;
  Values mean_k, mean_v, gram, state, y, unit_y, y_unit;

  AffineMesaPlan(const Device& on, const RidgeShape& s, const Problem& what)
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
        mean_k(means(chunks + 1)),
        mean_v(means(chunks + 1)),
        gram(states<"H">()),
        state(states<"S">()),
        y(of_rows<"R">(K)),
        unit_y(of_rows<"X">(K)),
        y_unit(of_rows<"xunit">(1)) {}

  Arrays forward() {
    auto add_mean_k = means(chunks), add_mean_v = means(chunks), add_gram = states<"W">(), add_state = states<"W">();
    auto final_mean_k = device.template result<"end">(heads, K, 1),
         final_mean_v = device.template result<"end">(heads, V, 1),
         final_gram = device.template result<"end">(heads, K, K),
         final_state = device.template result<"end">(heads, V, K);
    auto o = of_rows<"out">(V);
    device.forward([&] {
      device.template launch<AffineUpdates<B, C, D>, B>(
          0, kv_heads, chunks,
          {in.k.in(), in.v.in(), add_mean_k.row_out(), add_mean_v.row_out(), add_gram.out(), add_state.out(), len});
      device.template launch<AffineStates<S, C, D, stages>, S>(
          1, kv_heads, 2,
          {add_mean_k.row_in(), add_mean_v.row_in(), add_gram.in(), add_state.in(), gram.out(), state.out(),
           mean_k.row_out(), mean_v.row_out(), final_mean_k.row_out(), final_mean_v.row_out(), final_gram.out(),
           final_state.out(), len, chunks, group});
      device.template launch<AffineOutputs<B, C, D>, B>(
          2, heads, chunks, {system(), in.q.in(), y.out(), unit_y.out(), o.out(), y_unit.row_out()});
    });
    return {{"o", device.array_of(o, {len, V})},
            {"final_mean_k", device.array_of(final_mean_k, {K})},
            {"final_mean_v", device.array_of(final_mean_v, {V})},
            {"final_scatter_kk", device.array_of(final_gram, {K, K})},
            {"final_scatter_vk", device.array_of(final_state, {V, K})}};
  }

  Arrays gradients() {
    const auto g = cotangent<"dO">("o", len, V), of_mean_k = cotangent<"mean">("final_mean_k", K, 1),
               of_mean_v = cotangent<"mean">("final_mean_v", V, 1), of_gram = cotangent<"dM">("final_scatter_kk", K, K),
               of_state = cotangent<"dM">("final_scatter_vk", V, K),
               start_gram = cotangent<"W">("final_scatter_kk", K, K),
               start_state = cotangent<"W">("final_scatter_vk", V, K);
    auto x = of_rows<"X">(K), x_unit = of_rows<"xunit">(1), of_x = of_rows<"M">(1), of_y = of_rows<"M">(1);
    auto dq = of_rows<"out">(K), dlambda = of_rows<"dlambda">(K);
    auto add_N = states<"W">(), add_P = states<"W">(), N = states<"dSc">(), P = states<"dSc">();
    auto add_d = on_keys(), add_h = on_keys(), d = on_keys(), h = on_keys();
    auto first_d = device.template result<"W">(heads, C, D), first_h = device.template result<"W">(heads, C, D);
    auto dk = device.template result<"out">(kv_heads, len, K), dv = device.template result<"out">(kv_heads, len, V);
    device.backward([&] {
      device.template launch<AffineAdjoint<B, C, D>, B>(3, heads, chunks,
                                                        {system(), y.in(), g.in(), x.out(), dq.out(), dlambda.out(),
                                                         x_unit.row_out(), of_x.row_out(), of_y.row_out()});
      device.template launch<AffineAdjointUpdates<B, C, D, stages>, B>(
          4, kv_heads, chunks,
          {x.in(), unit_y.in(), g.in(), x_unit.row_in(), y_unit.row_in(), of_x.row_in(), of_y.row_in(),
           in.count.row_in(), add_N.out(), add_P.out(), add_d.out(), add_h.out(), group});
      device.template launch<AffineAdjointStart<B, C, D>, B>(
          5, heads, 1,
          {of_gram.in(), of_state.in(), of_mean_k.row_in(), of_mean_v.row_in(), mean_k.row_in(), mean_v.row_in(),
           first_d.out(), first_h.out(), len, chunks, group});
      carry_back<S, D, false>(6, start_gram, add_N, N);
      carry_back<S, D, false>(7, start_state, add_P, P);
      carry_back<B, C, true>(8, first_d, add_d, d);
      carry_back<B, C, true>(9, first_h, add_h, h);
      device.template launch<AffineGradients<B, C, D, stages>, B>(
          10, kv_heads, chunks,
          {in.k.in(), in.v.in(), x.in(), unit_y.in(), g.in(), N.in(), P.in(), d.in(), h.in(), x_unit.row_in(),
           y_unit.row_in(), of_x.row_in(), of_y.row_in(), in.count.row_in(), dk.out(), dv.out(), group});
    });
    return {{"q", device.array_of(dq, {len, K})},
            {"k", device.array_of(dk, {len, K})},
            {"v", device.array_of(dv, {len, V})},
            {"lambda", in.ridge_gradient(dlambda)}};
  }

 private:
  template <FixedString Site>
  Values states() const {
    return device.template result<Site>(kv_heads, chunks * D, D);
  }
  template <FixedString Site>
  Values of_rows(int columns) const {
    return device.template result<Site>(heads, len, columns);
  }
  template <FixedString Site>
  Values cotangent(std::string_view name, int rows, int columns) const {
    return device.template input<Site>(problem.cotangents, name, heads, rows, columns);
  }
  Values means(int n) const { return device.template result<"mean">(kv_heads, n * D, 1); }
  Values on_keys() const { return device.template result<"W">(kv_heads, chunks * C, D); }
  AffineSystem<B> system() const {
    return {in.k.in(),       in.v.in(),       in.lambda.in(),         gram.in(),         state.in(),
            mean_k.row_in(), mean_v.row_in(), in.ridge_unit.row_in(), in.count.row_in(), in.template limits<B>(),
            group,           kv_heads};
  }
  /// Launches the pass backward over the adjoint states, of R rows after every chunk.
  template <class Executor, Size R, bool Wide>
  void carry_back(std::uint64_t number, const Values& start, const Values& add, Values& all) const {
    device.template launch<AdjointStates<Executor, R, D, stages, Wide>, Executor>(
        number, kv_heads, 1, {start.in(), add.in(), all.out(), chunks, group});
  }
};

template <class Tiles, class Device>
Answer affine_mesanet_plan(const Device& device, const RidgeShape& shape, const Problem& problem) {
  AffineMesaPlan<Tiles, Device> plan(device, shape, problem);
  Answer answer{plan.forward(), {}};
  if (!problem.cotangents.empty()) answer.gradients = plan.gradients();
  return answer;
}

}  // namespace assay::tile
