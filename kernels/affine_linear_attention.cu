// Affine linear attention on the device: launches and instances.
#include "kernels/affine_linear_attention.hpp"
#include "kernels/cuda/uniform.cuh"

namespace assay::tile {
namespace {

template <Format F>
struct TiltPolicy : StaticPolicy<affine_linear_attention_sites, F> {};

/// Arrays by the heads that share keys and values, given to every head that reads them; vectors without their row.
Array for_all_heads(const RecurrenceShape& shape, const DeviceArray& x) {
  const bool vectors = x.rows() == 1;
  Array all(HostShape{shape.head_axis, shape.heads, shape.shared_heads}.shape(
      shape.heads, vectors ? std::vector{x.cols()} : std::vector{x.rows(), x.cols()}));
  const std::vector<double> values = x.values();
  const std::size_t n = static_cast<std::size_t>(x.rows()) * x.cols();
  for (std::size_t i = 0; i < all.data.size(); ++i) all.data[i] = values[i / n / shape.group * n + i % n];
  return all;
}

template <Format F, int D>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = TiltPolicy<F>;
  constexpr int C = sum_chunk<F>().length, DV = sum_chunk<F>().values;
  using B = MmaBlock<P, C / 16>;
  const bool with_gradients = !problem.cotangents.empty();
  const int heads = shape.heads, shared = shape.shared_heads, group = shape.group, len = shape.len;
  const int K = shape.key_dim, V = shape.value_dim, chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, DV);
  const auto rho = upload<P, "rho">(problem.inputs, "rho", heads, len, K);
  const auto k = upload<P, "K">(problem.inputs, "k", shared, len, K);
  const auto v = upload<P, "V">(problem.inputs, "v", shared, len, V);
  const DeviceArray counts(format_of<P, "count">, 1, chunks * C, 1, token_counts<double>(chunks, C));
  const auto count = row_in<B>(counts);
  auto sum_k = result<P, "sum">(shared * chunks, 1, K), sum_v = result<P, "sum">(shared * chunks, 1, V);
  auto base_k = result<P, "mean">(shared * chunks, 1, K), base_v = result<P, "mean">(shared * chunks, 1, V);
  auto before_v = result<P, "sum">(shared * chunks, 1, V);
  auto first_k = result<P, "mean">(shared, 1, K), first_v = result<P, "mean">(shared, 1, V);
  auto final_k = result<P, "end">(shared, 1, K), final_v = result<P, "end">(shared, 1, V);
  auto covariance = result<P, "W">(shared * chunks, V, K), states = result<P, "Xc">(shared * chunks, V, K);
  auto final_scatter = result<P, "end">(shared, V, K);
  auto o = result<P, "out">(heads, len, V), tilt = result<P, "t">(heads, len, 1);
  const BlockGrid of_shared{shared, chunks * blocks}, grid{heads, chunks * blocks};
  const double forward = run_timed(times, [&] {
    launch<ChunkMoments<B, C, D, DV>, B, 1>({in<B>(k), in<B>(v), out<B>(sum_k), out<B>(sum_v), out<B>(first_k),
                                             out<B>(first_v), out<B>(covariance), len, chunks, blocks},
                                            of_shared);
    launch<MomentPass<B, C, D, DV, 2>, B, 1>(
        {in<B>(covariance), row_vectors_in<B>(sum_k), row_vectors_in<B>(sum_v), row_vectors_in<B>(first_k),
         row_vectors_in<B>(first_v), out<B>(states), out<B>(final_scatter), row_vectors_out<B>(base_k),
         row_vectors_out<B>(base_v), row_vectors_out<B>(before_v), row_vectors_out<B>(final_k),
         row_vectors_out<B>(final_v), len, chunks},
        BlockGrid{shared, blocks});
    launch<TiltedReads<B, C, D, DV>, B, 1>(
        {in<B>(rho), in<B>(k), in<B>(v), in<B>(states), row_vectors_in<B>(base_k), row_vectors_in<B>(base_v),
         row_vectors_in<B>(before_v), count, out<B>(o), row_out<B>(tilt), chunks, group, shared, blocks},
        grid);
  });
  if (times != nullptr) times->forward = forward;
  Answer answer{{{"o", download(o, array_shape(shape, heads, len, V))},
                 {"final_mean_k", for_all_heads(shape, final_k)},
                 {"final_mean_v", for_all_heads(shape, final_v)},
                 {"final_scatter_vk", for_all_heads(shape, final_scatter)}},
                {}};
  if (!with_gradients) return answer;

  const auto o_cotangent = upload<P, "dO">(problem.cotangents, "o", heads, len, V);
  const auto end_k = upload<P, "S0">(problem.cotangents, "final_mean_k", heads, 1, K);
  const auto end_v = upload<P, "S0">(problem.cotangents, "final_mean_v", heads, 1, V);
  const auto end = upload<P, "S0">(problem.cotangents, "final_scatter_vk", heads, V, K);
  auto Q = result<P, "W">(heads * chunks, V, K), adjoints = result<P, "Qc">(heads * chunks, V, K);
  auto f = result<P, "f">(heads * chunks, 1, V), after_f = result<P, "f">(heads * chunks, 1, V);
  auto h = result<P, "f">(heads * blocks * chunks, 1, K), after_h = result<P, "f">(heads * blocks * chunks, 1, K);
  auto drho_parts = result<P, "part">(heads * blocks, len, K), dk_parts = result<P, "part">(heads * blocks, len, K);
  auto dv_parts = result<P, "part">(heads, len, V);
  auto drho = result<P, "out">(heads, len, K), dk = result<P, "out">(shared, len, K),
       dv = result<P, "out">(shared, len, V);
  const double backward = run_timed(times, [&] {
    launch<AdjointMoments<B, C, D, DV>, B, 1>(
        {in<B>(rho), in<B>(v), in<B>(o_cotangent), row_vectors_in<B>(base_k), row_vectors_in<B>(base_v),
         row_vectors_in<B>(final_k), row_vectors_in<B>(final_v), row_in<B>(tilt), count, out<B>(Q), out<B>(f),
         out<B>(h), chunks, group, blocks},
        grid);
    launch<AdjointPass<B, C, D, DV, 2>, B, 1>(
        {in<B>(end), in<B>(Q), row_vectors_in<B>(end_k), row_vectors_in<B>(end_v), row_vectors_in<B>(f),
         row_vectors_in<B>(h), out<B>(adjoints), row_vectors_out<B>(after_f), row_vectors_out<B>(after_h), len, chunks,
         blocks},
        BlockGrid{heads, blocks});
    launch<TiltedGradients<B, C, D, DV>, B, 1>({in<B>(rho),
                                                in<B>(k),
                                                in<B>(v),
                                                in<B>(o_cotangent),
                                                in<B>(states),
                                                in<B>(adjoints),
                                                row_vectors_in<B>(base_k),
                                                row_vectors_in<B>(base_v),
                                                row_vectors_in<B>(final_k),
                                                row_vectors_in<B>(final_v),
                                                row_vectors_in<B>(after_f),
                                                row_vectors_in<B>(after_h),
                                                row_in<B>(tilt),
                                                count,
                                                out<B>(drho_parts),
                                                out<B>(dk_parts),
                                                out<B>(dv_parts),
                                                chunks,
                                                group,
                                                blocks},
                                               grid);
    sum_parts<P, "part", "out">(drho_parts, drho);
    sum_parts<P, "part", "out">(dk_parts, dk);
    sum_parts<P, "part", "out">(dv_parts, dv);
  });
  if (times != nullptr) times->backward = backward;
  answer.gradients = {{"rho", download(drho, array_shape(shape, heads, len, K))},
                      {"k", download(dk, array_shape(shape, shared, len, K))},
                      {"v", download(dv, array_shape(shape, shared, len, V))}};
  return answer;
}

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape = uniform_shape(problem);
  return with_instance(precision, shape.key_dim,
                       [&]<Format F, int D>() { return chunkwise<F, D>(shape, problem, times); });
}

std::string obstacle(const Problem& problem, Format precision) {
  const RecurrenceShape shape = uniform_shape(problem);
  return device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
}

constexpr GpuForm forms[] = {{"chunkwise", obstacle, sum_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom affine_linear_attention = {"affine_linear_attention", tile::forms};
}
