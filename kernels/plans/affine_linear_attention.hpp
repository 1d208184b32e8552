#pragma once
// Affine linear attention's launches, planned once for every device (kernels/host/host_device.hpp).
#include <vector>

#include "kernels/launches/uniform_shape.hpp"
#include "kernels/uniform/affine_linear_attention.hpp"

namespace assay::tile {

/// The inputs and results of a forward pass, on a device. `Tiles`: tokens of a chunk, the compiled key dimension, the
/// value columns of a block, and its executor. Vectors are arrays of one row.
template <class Tiles, class Device>
struct TiltPlan {
  using B = typename Tiles::Executor;
  using Values = typename Device::Values;
  static constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values;
  const Device& device;
  const RecurrenceShape& shape;
  const Problem& problem;
  const int heads = shape.heads, shared = shape.shared_heads, group = shape.group, len = shape.len, K = shape.key_dim,
            V = shape.value_dim, chunks = imax(1, ceil_div(len, C)), blocks = imax(1, ceil_div(V, DV)),
            of_chunks = chunks * blocks;
  const Values rho = device.template input<"rho">(problem.inputs, "rho", heads, len, K),
               k = device.template input<"K">(problem.inputs, "k", shared, len, K),
               v = device.template input<"V">(problem.inputs, "v", shared, len, V),
               counts = device.template array<"count">(1, chunks*C, 1, token_counts<double>(chunks, C));
  Values base_k = device.template result<"mean">(shared * chunks, 1, K),
         base_v = device.template result<"mean">(shared * chunks, 1, V),
         final_k = device.template result<"end">(shared, 1, K), final_v = device.template result<"end">(shared, 1, V),
         states = device.template result<"Xc">(shared * chunks, V, K),
         tilt = device.template result<"t">(heads, len, 1);

  Arrays forward() {
    auto sum_k = device.template result<"sum">(shared * chunks, 1, K),
         sum_v = device.template result<"sum">(shared * chunks, 1, V),
         before_v = device.template result<"sum">(shared * chunks, 1, V);
    auto first_k = device.template result<"mean">(shared, 1, K), first_v = device.template result<"mean">(shared, 1, V);
    auto covariance = device.template result<"W">(shared * chunks, V, K);
    auto final_scatter = device.template result<"end">(shared, V, K);
    auto o = device.template result<"out">(heads, len, V);
    device.forward([&] {
      device.template launch<ChunkMoments<B, C, D, DV>, B>(0, shared, of_chunks,
                                                           {k.in(), v.in(), sum_k.out(), sum_v.out(), first_k.out(),
                                                            first_v.out(), covariance.out(), len, chunks, blocks});
      device.template launch<MomentPass<B, C, D, DV, 2>, B>(
          1, shared, blocks,
          {covariance.in(), device.vectors_in(sum_k), device.vectors_in(sum_v), device.vectors_in(first_k),
           device.vectors_in(first_v), states.out(), final_scatter.out(), device.vectors_out(base_k),
           device.vectors_out(base_v), device.vectors_out(before_v), device.vectors_out(final_k),
           device.vectors_out(final_v), len, chunks});
      device.template launch<TiltedReads<B, C, D, DV>, B>(
          2, heads, of_chunks,
          {rho.in(), k.in(), v.in(), states.in(), device.vectors_in(base_k), device.vectors_in(base_v),
           device.vectors_in(before_v), counts.row_in(), o.out(), tilt.row_out(), chunks, group, shared, blocks});
    });
    return {{"o", device.array_of(o, {len, V})},
            {"final_mean_k", for_all_heads(device.values(final_k), {K})},
            {"final_mean_v", for_all_heads(device.values(final_v), {V})},
            {"final_scatter_vk", for_all_heads(device.values(final_scatter), {V, K})}};
  }

  Arrays gradients() {
    const auto o_cotangent = device.template input<"dO">(problem.cotangents, "o", heads, len, V);
    const auto end_k = device.template input<"S0">(problem.cotangents, "final_mean_k", heads, 1, K);
    const auto end_v = device.template input<"S0">(problem.cotangents, "final_mean_v", heads, 1, V);
    const auto end = device.template input<"S0">(problem.cotangents, "final_scatter_vk", heads, V, K);
    auto Q = device.template result<"W">(heads * chunks, V, K),
         adjoints = device.template result<"Qc">(heads * chunks, V, K);
    auto f = device.template result<"f">(heads * chunks, 1, V),
         after_f = device.template result<"f">(heads * chunks, 1, V),
         h = device.template result<"f">(heads * blocks * chunks, 1, K),
         after_h = device.template result<"f">(heads * blocks * chunks, 1, K);
    auto drho_parts = device.template result<"part">(heads * blocks, len, K),
         dk_parts = device.template result<"part">(heads * blocks, len, K),
         dv_parts = device.template result<"part">(heads, len, V);
    auto drho = device.template result<"out">(heads, len, K), dk = device.template result<"out">(shared, len, K),
         dv = device.template result<"out">(shared, len, V);
    device.backward([&] {
      device.template launch<AdjointMoments<B, C, D, DV>, B>(
          3, heads, of_chunks,
          {rho.in(), v.in(), o_cotangent.in(), device.vectors_in(base_k), device.vectors_in(base_v),
           device.vectors_in(final_k), device.vectors_in(final_v), tilt.row_in(), counts.row_in(), Q.out(), f.out(),
           h.out(), chunks, group, blocks});
      device.template launch<AdjointPass<B, C, D, DV, 2>, B>(
          4, heads, blocks,
          {end.in(), Q.in(), device.vectors_in(end_k), device.vectors_in(end_v), device.vectors_in(f),
           device.vectors_in(h), adjoints.out(), device.vectors_out(after_f), device.vectors_out(after_h), len, chunks,
           blocks});
      device.template launch<TiltedGradients<B, C, D, DV>, B>(5, heads, of_chunks,
                                                              {rho.in(),
                                                               k.in(),
                                                               v.in(),
                                                               o_cotangent.in(),
                                                               states.in(),
                                                               adjoints.in(),
                                                               device.vectors_in(base_k),
                                                               device.vectors_in(base_v),
                                                               device.vectors_in(final_k),
                                                               device.vectors_in(final_v),
                                                               device.vectors_in(after_f),
                                                               device.vectors_in(after_h),
                                                               tilt.row_in(),
                                                               counts.row_in(),
                                                               drho_parts.out(),
                                                               dk_parts.out(),
                                                               dv_parts.out(),
                                                               chunks,
                                                               group,
                                                               blocks});
      device.template sum<"part", "out">(6, drho_parts, blocks, drho);
      device.template sum<"part", "out">(6, dk_parts, blocks, dk);
      device.template sum<"part", "out">(6, dv_parts, 1, dv);
    });
    return {{"rho", device.array_of(drho, {len, K})},
            {"k", device.array_of(dk, {len, K})},
            {"v", device.array_of(dv, {len, V})}};
  }

 private:
  /// Arrays of the heads that share keys and values, given to every head that reads them.
  Array for_all_heads(const std::vector<typename Device::Wide>& of_shared, std::vector<int> rest) const {
    Array all(axes_of(shape.head_axis, heads, std::move(rest)));
    const std::size_t n = of_shared.size() / static_cast<std::size_t>(shared);
    for (std::size_t i = 0; i < all.data.size(); ++i)
      all.data[i] = static_cast<double>(of_shared[i / n / static_cast<std::size_t>(group) * n + i % n]);
    return all;
  }
};

template <class Tiles, class Device>
Answer affine_linear_attention_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  TiltPlan<Tiles, Device> plan{device, shape, problem};
  Answer answer{plan.forward(), {}};
  if (!problem.cotangents.empty()) answer.gradients = plan.gradients();
  return answer;
}

}  // namespace assay::tile
