// Local linear attention on the device: launches and instances.
//
// Raw moments launch the kernels of centred ones but for the solves and the outputs.
#include <numeric>

#include "kernels/cuda/attention.cuh"
#include "kernels/launches/lla_launch.hpp"
#include "kernels/lla.hpp"

namespace assay::tile {
namespace {

constexpr int stages = 2;

template <Format F>
struct TiledPolicy : StaticPolicy<lla_tiled_sites, F> {};

/// The launches of one problem and what passes between them.
template <Format F, int D, bool Raw>
class Tiled {
  using P = TiledPolicy<F>;
  using Shapes = AttentionTiles<F>;
  using B = MmaBlock<P, Shapes::warps>;
  static constexpr int rows = Shapes::rows, keys = Shapes::keys;
  using Solve = LlaSolve<B, rows, keys, D, stages, Raw>;

 public:
  Tiled(const LlaShape& shape, const Problem& problem)
      : shape_(shape),
        heads_(shape.heads),
        kv_heads_(shape.kv_heads),
        n_(shape.queries),
        m_(shape.keys),
        K_(shape.key_dim),
        V_(shape.value_dim),
        blocks_(shape.blocks.count),
        with_gradients_(!problem.cotangents.empty()),
        q_(upload<P, "Q">(problem.inputs, "q", heads_, n_, K_)),
        k_(upload<P, "K">(problem.inputs, "k", kv_heads_, m_, K_)),
        v_(upload<P, "V">(problem.inputs, "v", kv_heads_, m_, V_)),
        g_(upload<P, "dO">(problem.cotangents, "o", heads_, with_gradients_ ? n_ : 0, V_)),
        lambda_(format_of<P, "lambda">, heads_, n_, K_, shape.ridges(problem)),
        index_(format_of<P, "first">, 1, m_, 1, counted(m_)),
        row_max_(row<"m">()),
        row_sum_(row<"l">()),
        lse_(row<"lse">()),
        first_(row<"first">()),
        delta_(row<"delta">()),
        centre_(matrix<"kbar">(K_)),
        offset_(matrix<"rhs">(K_)),
        slack_(row<"delta">()),
        o_(matrix<"out">(V_)),
        query_(upload<P, "kbar">(problem.inputs, "q", heads_, n_, K_)),
        y_(*this, blocks_ > 1 && with_gradients_) {
    const Policy policy = Policy::of(lla_tiled_sites, F);
    scale_ = real<P>(gate_scalar(policy, "scale", log2e / shape.bandwidth));
    inv_bandwidth_ = real<P>(gate_scalar(policy, "inv_bandwidth", 1 / shape.bandwidth));
  }

  Answer run(const Problem& problem, GpuTimes* times) {
    const double forward_time = run_timed(times, [&] { forward(); });
    if (times != nullptr) times->forward = forward_time;
    Answer answer{{{"o", download(o_, shape_.shape(heads_, n_, V_))}}, {}};
    if (!with_gradients_) return answer;

    Gradients d(*this);
    const double backward_time = run_timed(times, [&] { backward(d); });
    if (times != nullptr) times->backward = backward_time;
    answer.gradients = {{"q", download(d.dq, shape_.shape(heads_, n_, K_))},
                        {"k", download(d.dk, shape_.shape(kv_heads_, m_, K_))},
                        {"v", download(d.dv, shape_.shape(kv_heads_, m_, V_))},
                        {"lambda", shape_.ridge_gradient(problem, d.dlambda.values())},
                        {"bandwidth", bandwidth_gradient(d.dh, shape_.bandwidth)}};
    return answer;
  }

 private:
  static std::size_t count(int n) { return static_cast<std::size_t>(n); }
  static std::vector<double> counted(int n) {
    std::vector<double> list(count(n));
    std::iota(list.begin(), list.end(), 0.0);
    return list;
  }
  template <FixedString S>
  DeviceArray row(int parts = 1) const {
    return result<P, S>(heads_ * parts, n_, 1);
  }
  template <FixedString S>
  DeviceArray matrix(int columns) const {
    return result<P, S>(heads_, n_, columns);
  }
  double kv_bytes() const { return static_cast<double>(k_.bytes() + v_.bytes()) / kv_heads_; }
  bool wants_first() const { return shape_.ridge == RidgeUnit::max; }

  /// Solutions in the operands' format, whole and in the parts of their blocks, with their rows' units.
  struct Solution {
    DeviceArray whole, parts, unit;
    bool blocks;
    Solution(const Tiled& t, bool in_parts)
        : whole(t.matrix<"Y">(t.K_)),
          parts(result<P, "Y">(in_parts ? t.heads_ * t.blocks_ : 0, t.n_, t.K_)),
          unit(t.row<"yunit">()),
          blocks(in_parts) {}
    typename B::In in_parts() const { return in<B>(blocks ? parts : whole); }
  };

  struct Gradients {
    DeviceArray rhs, dlambda, dz, dq, dk, dv, mean, f0, f1, s0, kappa, e, row_sum, dh, unused, ny, nx;
    Solution x;
    explicit Gradients(const Tiled& t)
        : rhs(t.matrix<"rhs">(t.K_)),
          dlambda(t.matrix<"dlam">(t.K_)),
          dz(t.matrix<"dz">(t.K_)),
          dq(t.matrix<"out">(t.K_)),
          dk(result<P, "out">(t.kv_heads_, t.m_, t.K_)),
          dv(result<P, "out">(t.kv_heads_, t.m_, t.V_)),
          mean(t.row<"mean">()),
          f0(t.row<"tau">()),
          f1(t.row<"tau">()),
          s0(t.row<"n">()),
          kappa(t.row<"tau">()),
          e(t.row<"e">()),
          row_sum(t.row<"e">()),
          dh(t.row<"dh">()),
          unused(t.row<"delta">()),
          ny(t.row<"n">(t.blocks_)),
          nx(t.row<"n">(t.blocks_)),
          x(t, t.blocks_ > 1) {}
  };

  template <class Kernel>
  void launch_rows(const typename Kernel::Args& args) {
    launch<Kernel, B, 1>(args, row_grid(heads_, n_, rows, kv_bytes() / shape_.group));
  }

  void solve(const DeviceArray& rhs, const DeviceArray& slack, Solution& s, DeviceArray& delta, bool tilts) {
    launch_rows<Solve>({in<B>(q_),
                        in<B>(k_),
                        in<B>(shape_.about_query && !Raw ? query_ : centre_),
                        in<B>(rhs),
                        in<B>(lambda_),
                        row_in<B>(row_max_),
                        row_in<B>(row_sum_),
                        row_in<B>(slack),
                        out<B>(s.whole),
                        s.blocks ? out<B>(s.parts) : typename B::Out{},
                        row_out<B>(s.unit),
                        row_out<B>(delta),
                        scale_,
                        real<P>(shape_.relative(format_of<P, "K">)),
                        real<P>(shape_.tolerance),
                        shape_.sees,
                        shape_.group,
                        kv_heads_,
                        shape_.steps,
                        shape_.blocks,
                        shape_.ridge,
                        tilts});
  }

  void forward() {
    launch_rows<LlaMoments<B, rows, keys, D, stages>>(
        {in<B>(q_), in<B>(k_), row_in<B>(index_), row_out<B>(row_max_), row_out<B>(row_sum_), row_out<B>(lse_),
         row_out<B>(first_), out<B>(centre_), scale_, shape_.sees, shape_.group, kv_heads_, wants_first()});
    launch_rows<LlaOffsets<B, rows, D, stages>>(
        {in<B>(q_), in<B>(centre_), row_in<B>(row_sum_), out<B>(offset_), row_out<B>(slack_)});
    solve(offset_, slack_, y_, delta_, shape_.about_query);
    launch_rows<LlaOutput<B, rows, keys, D, stages, Raw>>({in<B>(q_), in<B>(k_), in<B>(v_), in<B>(y_.whole),
                                                           in<B>(Raw ? query_ : centre_), row_in<B>(row_max_),
                                                           row_in<B>(row_sum_), row_in<B>(y_.unit), row_in<B>(delta_),
                                                           out<B>(o_), scale_, shape_.sees, shape_.group, kv_heads_});
  }

  void backward(Gradients& d) {
    launch_rows<LlaAdjoint<B, rows, keys, D, stages>>(
        {in<B>(q_), in<B>(k_), in<B>(v_), in<B>(g_), in<B>(centre_), row_in<B>(row_max_), row_in<B>(row_sum_),
         row_out<B>(d.mean), out<B>(d.rhs), scale_, shape_.sees, shape_.group, kv_heads_, shape_.about_query});
    solve(d.rhs, delta_, d.x, d.unused, false);
    launch_rows<LlaCoefficients<B, rows, D, stages>>(
        {in<B>(q_),         in<B>(centre_),      in<B>(d.rhs),       in<B>(lambda_),        in<B>(y_.whole),
         in<B>(d.x.whole),  y_.in_parts(),       d.x.in_parts(),     row_in<B>(row_max_),   row_in<B>(row_sum_),
         row_in<B>(d.mean), row_in<B>(delta_),   row_in<B>(y_.unit), row_in<B>(d.x.unit),   out<B>(d.dlambda),
         out<B>(d.dz),      row_out<B>(d.ny),    row_out<B>(d.nx),   row_out<B>(d.f0),      row_out<B>(d.f1),
         row_out<B>(d.s0),  row_out<B>(d.kappa), row_out<B>(d.e),    row_out<B>(d.row_sum), shape_.blocks,
         shape_.ridge,      shape_.about_query});
    launch_rows<LlaBackwardQuery<B, rows, keys, D, stages>>({in<B>(q_),
                                                             in<B>(k_),
                                                             in<B>(v_),
                                                             in<B>(g_),
                                                             y_.in_parts(),
                                                             d.x.in_parts(),
                                                             in<B>(centre_),
                                                             in<B>(d.dz),
                                                             row_in<B>(lse_),
                                                             row_in<B>(y_.unit),
                                                             row_in<B>(d.x.unit),
                                                             row_in<B>(d.ny),
                                                             row_in<B>(d.nx),
                                                             row_in<B>(d.f0),
                                                             row_in<B>(d.f1),
                                                             row_in<B>(d.s0),
                                                             row_in<B>(d.kappa),
                                                             row_in<B>(d.e),
                                                             row_in<B>(d.row_sum),
                                                             row_in<B>(first_),
                                                             row_in<B>(index_),
                                                             row_out<B>(d.dh),
                                                             out<B>(d.dq),
                                                             scale_,
                                                             inv_bandwidth_,
                                                             shape_.sees,
                                                             shape_.group,
                                                             kv_heads_,
                                                             blocks_,
                                                             shape_.about_query,
                                                             wants_first()});
    using Key = LlaBackwardKey<B, rows, keys, D, stages>;
    launch<Key, B, 1>({in<B>(q_),       in<B>(k_),         in<B>(v_),          in<B>(g_),           y_.in_parts(),
                       d.x.in_parts(),  row_in<B>(lse_),   row_in<B>(y_.unit), row_in<B>(d.x.unit), row_in<B>(d.ny),
                       row_in<B>(d.nx), row_in<B>(d.f0),   row_in<B>(d.f1),    row_in<B>(d.s0),     row_in<B>(d.kappa),
                       row_in<B>(d.e),  row_in<B>(first_), row_in<B>(index_),  out<B>(d.dk),        out<B>(d.dv),
                       scale_,          inv_bandwidth_,    shape_.sees,        shape_.group,        kv_heads_,
                       blocks_,         wants_first()},
                      row_grid(kv_heads_, m_, keys, kv_bytes() * shape_.group, true));
  }

  const LlaShape& shape_;
  int heads_, kv_heads_, n_, m_, K_, V_, blocks_;
  bool with_gradients_;
  DeviceArray q_, k_, v_, g_, lambda_, index_, row_max_, row_sum_, lse_, first_, delta_, centre_, offset_, slack_, o_,
      query_;
  Solution y_;
  typename P::Real scale_, inv_bandwidth_;
};

template <bool Raw>
Answer run(const Problem& problem, Format precision, GpuTimes* times) {
  LlaShape shape(problem);
  shape.about_query |= Raw;
  return with_instance(precision, std::max(shape.key_dim, shape.value_dim),
                       [&]<Format F, int D>() { return Tiled<F, D, Raw>(shape, problem).run(problem, times); });
}

std::string lla_device_obstacle(const Problem& problem, Format precision) {
  const LlaShape shape(problem);
  const std::string dims = device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
  return dims.empty() ? system_obstacle(problem) : dims;
}

std::string raw_device_obstacle(const Problem& problem, Format precision) {
  const std::string centre = centre_obstacle(problem);
  return centre.empty() ? lla_device_obstacle(problem, precision) : centre;
}

constexpr GpuForm forms[] = {{"tiled", lla_device_obstacle, tiled_tile, run<false>},
                             {"raw_moments", raw_device_obstacle, tiled_tile, run<true>}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom lla = {"lla", tile::forms};
}
