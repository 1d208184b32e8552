// MesaNet on the device: launches and instances.
#include "kernels/cuda/ridge.cuh"
#include "kernels/mesanet.hpp"

namespace assay::tile {
namespace {

constexpr int stages = 2, rows_of_chunk = 32;
int chunk_tile(const Problem&, Format) { return 0; }

template <Format F>
struct MesaPolicy : StaticPolicy<mesanet_sites, F> {};

/// The launches of one problem and what passes between them. A warp for every 16 rows: of a chunk, or of a state.
template <Format F, int D>
class Chunks {
  using P = MesaPolicy<F>;
  static constexpr int C = rows_of_chunk;
  using B = MmaBlock<P, C / 16>;
  using OfStates = MmaBlock<P, D / 16>;

 public:
  Chunks(const RidgeShape& shape, const Problem& problem)
      : shape_(shape),
        problem_(problem),
        heads_(shape.heads),
        kv_heads_(shape.kv_heads),
        len_(shape.len),
        K_(shape.key_dim),
        V_(shape.value_dim),
        chunks_(ceil_div(len_, C)),
        with_gradients_(!problem.cotangents.empty()),
        in_(shape, problem),
        wide_k_(upload<P, "W">(problem.inputs, "k", kv_heads_, len_, K_)),
        gram_update_(states<"W">()),
        state_update_(states<"W">()),
        gram_(states<"H">()),
        state_(states<"S">()),
        final_gram_(result<P, "end">(heads_, K_, K_)),
        final_state_(result<P, "end">(heads_, V_, K_)),
        x_(of_rows<"R">(K_)),
        unit_x_(of_rows<"X">(K_)),
        x_unit_(of_rows<"xunit">(1)),
        o_(of_rows<"out">(V_)) {}

  Answer run(GpuTimes* times) {
    const double forward_time = run_timed(times, [&] { forward(); });
    if (times != nullptr) times->forward = forward_time;
    Answer answer{{{"o", download(o_, in_.array_shape(heads_, len_, V_))},
                   {"final_state", download(final_state_, in_.array_shape(heads_, V_, K_))},
                   {"final_gram", download(final_gram_, in_.array_shape(heads_, K_, K_))}},
                  {}};
    if (!with_gradients_) return answer;

    Gradients d(*this);
    const double backward_time = run_timed(times, [&] { backward(d); });
    if (times != nullptr) times->backward = backward_time;
    answer.gradients = {{"q", download(d.dq, in_.array_shape(heads_, len_, K_))},
                        {"k", download(d.dk, in_.array_shape(kv_heads_, len_, K_))},
                        {"v", download(d.dv, in_.array_shape(kv_heads_, len_, V_))},
                        {"lambda", in_.ridge_gradient(problem_, d.dlambda)}};
    return answer;
  }

 private:
  template <FixedString S>
  DeviceArray states() const {
    return result<P, S>(kv_heads_, chunks_ * D, K_);
  }
  template <FixedString S>
  DeviceArray of_rows(int columns) const {
    return result<P, S>(heads_, len_, columns);
  }

  struct Gradients {
    DeviceArray g, of_state, of_gram, a, a_unit, dq, dlambda, update_P, update_N, P_, N_, dk, dv;
    explicit Gradients(const Chunks& c)
        : g(upload<P, "dO">(c.problem_.cotangents, "o", c.heads_, c.len_, c.V_)),
          of_state(upload<P, "W">(c.problem_.cotangents, "final_state", c.heads_, c.V_, c.K_)),
          of_gram(upload<P, "W">(c.problem_.cotangents, "final_gram", c.heads_, c.K_, c.K_)),
          a(c.of_rows<"X">(c.K_)),
          a_unit(c.of_rows<"xunit">(1)),
          dq(c.of_rows<"out">(c.K_)),
          dlambda(c.of_rows<"dlambda">(c.K_)),
          update_P(c.states<"W">()),
          update_N(c.states<"W">()),
          P_(c.states<"dSc">()),
          N_(c.states<"dSc">()),
          dk(result<P, "out">(c.kv_heads_, c.len_, c.K_)),
          dv(result<P, "out">(c.kv_heads_, c.len_, c.V_)) {}
  };

  MesaSystem<B> system() const {
    return {in<B>(in_.k),
            in<B>(in_.v),
            in<B>(in_.lambda),
            in<B>(gram_),
            in<B>(state_),
            row_in<B>(in_.ridge_unit),
            in_.template limits<B>(),
            shape_.group,
            kv_heads_};
  }
  BlockGrid of_heads() const { return {heads_, chunks_}; }
  BlockGrid of_keys() const { return {kv_heads_, chunks_}; }

  void forward() {
    using S = OfStates;
    launch<MesaUpdates<S, C, D>, S, 1>(
        {in<S>(in_.k), in<S>(in_.v), in<S>(wide_k_), out<S>(gram_update_), out<S>(state_update_)}, of_keys());
    launch<MesaStates<S, D, stages, true>, S, 1>(
        {in<S>(gram_update_), out<S>(gram_), out<S>(final_gram_), chunks_, shape_.group}, BlockGrid{kv_heads_, 1});
    launch<MesaStates<S, D, stages, false>, S, 1>(
        {in<S>(state_update_), out<S>(state_), out<S>(final_state_), chunks_, shape_.group}, BlockGrid{kv_heads_, 1});
    launch<MesaOutputs<B, C, D>, B, 1>(
        {system(), in<B>(in_.q), out<B>(x_), out<B>(unit_x_), out<B>(o_), row_out<B>(x_unit_)}, of_heads());
  }

  void backward(Gradients& d) {
    using S = OfStates;
    launch<MesaAdjoint<B, C, D>, B, 1>(
        {system(), in<B>(x_), in<B>(d.g), out<B>(d.a), out<B>(d.dq), out<B>(d.dlambda), row_out<B>(d.a_unit)},
        of_heads());
    launch<MesaAdjointUpdates<B, C, D, stages>, B, 1>(
        {in<B>(unit_x_), in<B>(d.a), in<B>(d.g), row_in<B>(x_unit_), row_in<B>(d.a_unit), out<B>(d.update_P),
         out<B>(d.update_N), shape_.group},
        of_keys());
    const auto carry_back = [&](const DeviceArray& start, const DeviceArray& updates, DeviceArray& all) {
      launch<AdjointStates<S, D, D, stages, false>, S, 1>(
          {in<S>(start), in<S>(updates), out<S>(all), chunks_, shape_.group}, BlockGrid{kv_heads_, 1});
    };
    carry_back(d.of_state, d.update_P, d.P_);
    carry_back(d.of_gram, d.update_N, d.N_);
    launch<MesaGradients<B, C, D, stages>, B, 1>(
        {in<B>(in_.k), in<B>(in_.v), in<B>(unit_x_), in<B>(d.a), in<B>(d.g), in<B>(d.P_), in<B>(d.N_),
         row_in<B>(x_unit_), row_in<B>(d.a_unit), out<B>(d.dk), out<B>(d.dv), shape_.group},
        of_keys());
  }

  const RidgeShape& shape_;
  const Problem& problem_;
  int heads_, kv_heads_, len_, K_, V_, chunks_;
  bool with_gradients_;
  DeviceRidge<P> in_;
  DeviceArray wide_k_, gram_update_, state_update_, gram_, state_, final_gram_, final_state_, x_, unit_x_, x_unit_, o_;
};

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RidgeShape shape(problem);
  return with_instance(precision, std::max(shape.key_dim, shape.value_dim),
                       [&]<Format F, int D>() { return Chunks<F, D>(shape, problem).run(times); });
}

std::string obstacle(const Problem& problem, Format precision) {
  const RidgeShape shape(problem);
  const std::string dims = device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
  return dims.empty() ? ridge_obstacle(problem) : dims;
}

constexpr GpuForm forms[] = {{"chunkwise", obstacle, chunk_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom mesanet = {"mesanet", tile::forms};
}
