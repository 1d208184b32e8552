// Affine MesaNet on the device: launches and instances.
#include "kernels/affine_mesanet.hpp"
#include "kernels/cuda/ridge.cuh"

namespace assay::tile {
namespace {

constexpr int stages = 2;

/// Rows of a chunk whose gradients fit in shared memory; `tile` is the CPU's with the same chunk.
template <Format F>
inline constexpr int rows_of_chunk = F == Format::fp64 ? 16 : 32;
int chunk_tile(const Problem&, Format precision) { return precision == Format::fp64 ? 1 : 0; }

template <Format F>
struct AffinePolicy : StaticPolicy<affine_mesanet_sites, F> {};

/// The launches of one problem and what passes between them. A warp for every 16 rows: of a chunk, or of a state.
template <Format F, int D>
class Chunks {
  using P = AffinePolicy<F>;
  static constexpr int C = rows_of_chunk<F>;
  using B = MmaBlock<P, C / 16>;
  using OfStates = MmaBlock<P, D / 16>;

 public:
  Chunks(const RidgeShape& shape, const Problem& problem)
      : shape_(shape),
        problem_(problem),
        heads_(shape.heads),
        kv_heads_(shape.kv_heads),
        len_(shape.len),
        chunks_(ceil_div(len_, C)),
        with_gradients_(!problem.cotangents.empty()),
        in_(shape, problem),
        add_mean_k_(result<P, "mean">(kv_heads_, chunks_ * D, 1)),
        add_mean_v_(result<P, "mean">(kv_heads_, chunks_ * D, 1)),
        mean_k_(result<P, "mean">(kv_heads_, (chunks_ + 1) * D, 1)),
        mean_v_(result<P, "mean">(kv_heads_, (chunks_ + 1) * D, 1)),
        add_gram_(states<"W">()),
        add_state_(states<"W">()),
        gram_(states<"H">()),
        state_(states<"S">()),
        final_mean_k_(result<P, "end">(heads_, D, 1)),
        final_mean_v_(result<P, "end">(heads_, D, 1)),
        final_gram_(result<P, "end">(heads_, D, D)),
        final_state_(result<P, "end">(heads_, D, D)),
        y_(of_rows<"R">(D)),
        unit_y_(of_rows<"X">(D)),
        y_unit_(of_rows<"xunit">(1)),
        o_(of_rows<"out">(D)) {}

  Answer run(GpuTimes* times) {
    const double forward_time = run_timed(times, [&] { forward(); });
    if (times != nullptr) times->forward = forward_time;
    const auto matrix = in_.array_shape(heads_, D, D);
    Answer answer{{{"o", download(o_, in_.array_shape(heads_, len_, D))},
                   {"final_mean_k", vectors(final_mean_k_)},
                   {"final_mean_v", vectors(final_mean_v_)},
                   {"final_scatter_kk", download(final_gram_, matrix)},
                   {"final_scatter_vk", download(final_state_, matrix)}},
                  {}};
    if (!with_gradients_) return answer;

    Gradients d(*this);
    const double backward_time = run_timed(times, [&] { backward(d); });
    if (times != nullptr) times->backward = backward_time;
    answer.gradients = {{"q", download(d.dq, in_.array_shape(heads_, len_, D))},
                        {"k", download(d.dk, in_.array_shape(kv_heads_, len_, D))},
                        {"v", download(d.dv, in_.array_shape(kv_heads_, len_, D))},
                        {"lambda", in_.ridge_gradient(problem_, d.dlambda)}};
    return answer;
  }

 private:
  template <FixedString S>
  DeviceArray states() const {
    return result<P, S>(kv_heads_, chunks_ * D, D);
  }
  template <FixedString S>
  DeviceArray of_rows(int columns) const {
    return result<P, S>(heads_, len_, columns);
  }
  Array vectors(const DeviceArray& x) const {
    std::vector<int> dims = in_.array_shape(heads_, D, 1);
    dims.pop_back();
    return download(x, dims);
  }

  struct Gradients {
    DeviceArray g, of_mean_k, of_mean_v, of_gram, of_state, start_gram, start_state;
    DeviceArray x, x_unit, of_x, of_y, dq, dlambda, add_N, add_P, N, P_, add_d, add_h, d, h, first_d, first_h, dk, dv;
    explicit Gradients(const Chunks& c)
        : g(c.cotangent<"dO">("o", c.len_, D)),
          of_mean_k(c.cotangent<"mean">("final_mean_k", D, 1)),
          of_mean_v(c.cotangent<"mean">("final_mean_v", D, 1)),
          of_gram(c.cotangent<"dM">("final_scatter_kk", D, D)),
          of_state(c.cotangent<"dM">("final_scatter_vk", D, D)),
          start_gram(c.cotangent<"W">("final_scatter_kk", D, D)),
          start_state(c.cotangent<"W">("final_scatter_vk", D, D)),
          x(c.of_rows<"X">(D)),
          x_unit(c.of_rows<"xunit">(1)),
          of_x(c.of_rows<"M">(1)),
          of_y(c.of_rows<"M">(1)),
          dq(c.of_rows<"out">(D)),
          dlambda(c.of_rows<"dlambda">(D)),
          add_N(c.states<"W">()),
          add_P(c.states<"W">()),
          N(c.states<"dSc">()),
          P_(c.states<"dSc">()),
          add_d(c.on_keys()),
          add_h(c.on_keys()),
          d(c.on_keys()),
          h(c.on_keys()),
          first_d(result<P, "W">(c.heads_, C, D)),
          first_h(result<P, "W">(c.heads_, C, D)),
          dk(result<P, "out">(c.kv_heads_, c.len_, D)),
          dv(result<P, "out">(c.kv_heads_, c.len_, D)) {}
  };
  template <FixedString S>
  DeviceArray cotangent(std::string_view name, int rows, int columns) const {
    return upload<P, S>(problem_.cotangents, name, heads_, rows, columns);
  }
  DeviceArray on_keys() const { return result<P, "W">(kv_heads_, chunks_ * C, D); }

  AffineSystem<B> system() const {
    return {in<B>(in_.k),         in<B>(in_.v),
            in<B>(in_.lambda),    in<B>(gram_),
            in<B>(state_),        row_in<B>(mean_k_),
            row_in<B>(mean_v_),   row_in<B>(in_.ridge_unit),
            row_in<B>(in_.count), in_.template limits<B>(),
            shape_.group,         kv_heads_};
  }
  BlockGrid of_heads() const { return {heads_, chunks_}; }
  BlockGrid of_keys() const { return {kv_heads_, chunks_}; }

  void forward() {
    using S = OfStates;
    launch<AffineUpdates<B, C, D>, B, 1>({in<B>(in_.k), in<B>(in_.v), row_out<B>(add_mean_k_), row_out<B>(add_mean_v_),
                                          out<B>(add_gram_), out<B>(add_state_), len_},
                                         of_keys());
    launch<AffineStates<S, C, D, stages>, S, 1>(
        {row_in<S>(add_mean_k_), row_in<S>(add_mean_v_), in<S>(add_gram_), in<S>(add_state_), out<S>(gram_),
         out<S>(state_), row_out<S>(mean_k_), row_out<S>(mean_v_), row_out<S>(final_mean_k_), row_out<S>(final_mean_v_),
         out<S>(final_gram_), out<S>(final_state_), len_, chunks_, shape_.group},
        BlockGrid{kv_heads_, 2});
    launch<AffineOutputs<B, C, D>, B, 1>(
        {system(), in<B>(in_.q), out<B>(y_), out<B>(unit_y_), out<B>(o_), row_out<B>(y_unit_)}, of_heads());
  }

  /// Of R rows after every chunk.
  template <class S, int R, bool Wide>
  void carry_back(const DeviceArray& start, const DeviceArray& add, DeviceArray& all) const {
    launch<AdjointStates<S, R, D, stages, Wide>, S, 1>({in<S>(start), in<S>(add), out<S>(all), chunks_, shape_.group},
                                                       BlockGrid{kv_heads_, 1});
  }
  void backward(Gradients& d) {
    launch<AffineAdjoint<B, C, D>, B, 1>({system(), in<B>(y_), in<B>(d.g), out<B>(d.x), out<B>(d.dq), out<B>(d.dlambda),
                                          row_out<B>(d.x_unit), row_out<B>(d.of_x), row_out<B>(d.of_y)},
                                         of_heads());
    launch<AffineAdjointUpdates<B, C, D, stages>, B, 1>(
        {in<B>(d.x), in<B>(unit_y_), in<B>(d.g), row_in<B>(d.x_unit), row_in<B>(y_unit_), row_in<B>(d.of_x),
         row_in<B>(d.of_y), row_in<B>(in_.count), out<B>(d.add_N), out<B>(d.add_P), out<B>(d.add_d), out<B>(d.add_h),
         shape_.group},
        of_keys());
    launch<AffineAdjointStart<B, C, D>, B, 1>(
        {in<B>(d.of_gram), in<B>(d.of_state), row_in<B>(d.of_mean_k), row_in<B>(d.of_mean_v), row_in<B>(mean_k_),
         row_in<B>(mean_v_), out<B>(d.first_d), out<B>(d.first_h), len_, chunks_, shape_.group},
        BlockGrid{heads_, 1});
    carry_back<OfStates, D, false>(d.start_gram, d.add_N, d.N);
    carry_back<OfStates, D, false>(d.start_state, d.add_P, d.P_);
    carry_back<B, C, true>(d.first_d, d.add_d, d.d);
    carry_back<B, C, true>(d.first_h, d.add_h, d.h);
    launch<AffineGradients<B, C, D, stages>, B, 1>(
        {in<B>(in_.k), in<B>(in_.v), in<B>(d.x), in<B>(unit_y_), in<B>(d.g), in<B>(d.N), in<B>(d.P_), in<B>(d.d),
         in<B>(d.h), row_in<B>(d.x_unit), row_in<B>(y_unit_), row_in<B>(d.of_x), row_in<B>(d.of_y),
         row_in<B>(in_.count), out<B>(d.dk), out<B>(d.dv), shape_.group},
        of_keys());
  }

  const RidgeShape& shape_;
  const Problem& problem_;
  int heads_, kv_heads_, len_, chunks_;
  bool with_gradients_;
  DeviceRidge<P> in_;
  DeviceArray add_mean_k_, add_mean_v_, mean_k_, mean_v_, add_gram_, add_state_, gram_, state_;
  DeviceArray final_mean_k_, final_mean_v_, final_gram_, final_state_, y_, unit_y_, y_unit_, o_;
};

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RidgeShape shape(problem);
  return with_instance(precision, shape.key_dim,
                       [&]<Format F, int D>() { return Chunks<F, D>(shape, problem).run(times); });
}

std::string obstacle(const Problem& problem, Format precision) {
  const RidgeShape shape(problem);
  if (shape.key_dim != shape.value_dim)
    return text("device kernels are compiled for K = V, got ", shape.key_dim, " and ", shape.value_dim);
  const std::string dims = device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
  return dims.empty() ? ridge_obstacle(problem) : dims;
}

constexpr GpuForm forms[] = {{"chunkwise", obstacle, chunk_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom affine_mesanet = {"affine_mesanet", tile::forms};
}
