// Value averaging on the device: launches and instances.
#include "kernels/cuda/uniform.cuh"
#include "kernels/value_averaging.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct MeanPolicy : StaticPolicy<value_averaging_sites, F> {};

template <Format F>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = MeanPolicy<F>;
  constexpr int C = sum_chunk<F>().length, D = sum_chunk<F>().values;
  using B = MmaBlock<P, C / 16>;
  const bool with_gradients = !problem.cotangents.empty();
  const int heads = shape.heads, len = shape.len, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, D);
  const auto v = upload<P, "V">(problem.inputs, "v", heads, len, V);
  const auto o_cotangent = upload<P, "dO">(problem.cotangents, "o", heads, len, V);
  const DeviceArray counts(format_of<P, "count">, 1, chunks * C, 1, token_counts<double>(chunks, C));
  const auto count = row_in<B>(counts);
  auto sums = result<P, "S">(heads * chunks, 1, V), later_sums = result<P, "S">(heads * chunks, 1, V);
  auto carried = result<P, "S">(heads * chunks, 1, V), later = result<P, "S">(heads * chunks, 1, V);
  auto o = result<P, "out">(heads, len, V), dv = result<P, "out">(heads, with_gradients ? len : 0, V);
  const BlockGrid grid{heads, chunks * blocks};
  const double forward = run_timed(times, [&] {
    launch<TokenSums<B, C, D, false>, B, 1>({in<B>(v), count, out<B>(sums), chunks, blocks}, grid);
    launch<SumPass<B, D, false>, B, 1>({row_vectors_in<B>(sums), row_vectors_out<B>(carried), chunks},
                                       BlockGrid{heads, blocks});
    launch<MeanReads<B, C, D>, B, 1>({in<B>(v), row_vectors_in<B>(carried), count, out<B>(o), chunks, blocks}, grid);
  });
  if (times != nullptr) times->forward = forward;
  Answer answer{{{"o", download(o, array_shape(shape, heads, len, V))}}, {}};
  if (!with_gradients) return answer;

  const double backward = run_timed(times, [&] {
    launch<TokenSums<B, C, D, true>, B, 1>({in<B>(o_cotangent), count, out<B>(later_sums), chunks, blocks}, grid);
    launch<SumPass<B, D, true>, B, 1>({row_vectors_in<B>(later_sums), row_vectors_out<B>(later), chunks},
                                      BlockGrid{heads, blocks});
    launch<MeanGradients<B, C, D>, B, 1>(
        {in<B>(o_cotangent), row_vectors_in<B>(later), count, out<B>(dv), chunks, blocks}, grid);
  });
  if (times != nullptr) times->backward = backward;
  answer.gradients = {{"v", download(dv, array_shape(shape, heads, len, V))}};
  return answer;
}

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape = uniform_shape(problem);
  return with_instance(precision, 64, [&]<Format F, int>() { return chunkwise<F>(shape, problem, times); });
}

std::string obstacle(const Problem& problem, Format precision) {
  const int V = uniform_shape(problem).value_dim;
  return device_dim_obstacle(V, V, precision);
}

constexpr GpuForm forms[] = {{"chunkwise", obstacle, sum_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom value_averaging = {"value_averaging", tile::forms};
}
