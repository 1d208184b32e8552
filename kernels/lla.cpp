#include "kernels/lla.hpp"

#include <numeric>

#include "kernels/core/kernel_room.hpp"
#include "kernels/launches/lla_launch.hpp"

namespace assay::tile {
namespace {

constexpr int stages = 2;
constexpr long double log2e = 1.442695040888963407359924681001892137L;

/// dh = -(ln 2 / h) sum_i dh_i, summed in T, heads and rows ascending.
template <class T>
Array bandwidth_gradient(const HostArray<T>& dh, T h) {
  T sum = 0;
  for (const T& row : dh.data) sum += row;
  return Array({}, {static_cast<double>(-sum / (static_cast<T>(log2e) * h))});
}

/// The launches of one problem and what passes between them.
template <class T, int BM, int BN, int D, bool Raw>
class Tiled {
  using B = HostBlock<T>;
  using Solve = LlaSolve<B, BM, BN, D, stages, Raw>;

 public:
  Tiled(const LlaShape& shape, const Problem& problem, const Policy& policy)
      : shape_(shape),
        problem_(problem),
        policy_(policy),
        heads_(shape.heads),
        n_(shape.queries),
        key_dim_(shape.key_dim),
        value_dim_(shape.value_dim),
        q_(shape.input<T>(problem.inputs, "q", heads_, n_, key_dim_)),
        k_(shape.input<T>(problem.inputs, "k", shape.kv_heads, shape.keys, key_dim_)),
        v_(shape.input<T>(problem.inputs, "v", shape.kv_heads, shape.keys, value_dim_)),
        lambda_(shape.output<T>(heads_, n_, key_dim_)),
        index_(1, shape.keys, 1, {shape.keys}),
        scale_(gate_scalar<T>(policy, "scale", static_cast<T>(log2e) / static_cast<T>(shape.bandwidth))) {
    const std::vector<double> ridges = shape.ridges(problem);
    lambda_.data.assign(ridges.begin(), ridges.end());
    std::iota(index_.data.begin(), index_.data.end(), T(0));
  }

  Answer run() {
    forward();
    Answer answer{{{"o", o_.array()}}, {}};
    if (!problem_.cotangents.empty()) answer.gradients = backward();
    return answer;
  }

 private:
  HostArray<T> matrix(int columns) const { return shape_.output<T>(heads_, n_, columns); }
  HostArray<T> rows(int parts = 1) const { return shape_.output<T>(heads_ * parts, n_, 1); }
  bool wants_first() const { return shape_.ridge == RidgeUnit::max; }

  template <class Kernel>
  void launch(const typename Kernel::Args& args) {
    launch_tiles<Kernel, T>(launch_policy(policy_, launches_++), args, heads_, n_, BM);
  }

  /// Solutions in the operands' format, whole and in the parts of their blocks, with their rows' units.
  struct Solution {
    HostArray<T> whole, parts, unit;
    bool blocks = false;
    typename B::In in_parts() const { return blocks ? parts.in() : whole.in(); }
  };
  Solution solve(const HostArray<T>& rhs, const HostArray<T>& slack, HostArray<T>& delta, bool tilts) {
    const int blocks = shape_.blocks.count;
    const bool in_parts = blocks > 1 && !problem_.cotangents.empty();
    Solution s{matrix(key_dim_), shape_.output<T>(in_parts ? heads_ * blocks : 0, n_, key_dim_), rows(), in_parts};
    launch<Solve>({q_.in(),
                   k_.in(),
                   shape_.about_query && !Raw ? q_.in() : centre_.in(),
                   rhs.in(),
                   lambda_.in(),
                   m_.row_in(),
                   l_.row_in(),
                   slack.row_in(),
                   s.whole.out(),
                   in_parts ? s.parts.out() : typename B::Out{},
                   s.unit.row_out(),
                   delta.row_out(),
                   scale_,
                   static_cast<T>(shape_.relative(policy_.sites.at("K"))),
                   static_cast<T>(shape_.tolerance),
                   shape_.sees,
                   shape_.group,
                   shape_.kv_heads,
                   shape_.steps,
                   shape_.blocks,
                   shape_.ridge,
                   tilts});
    return s;
  }

  void forward() {
    m_ = l_ = lse_ = first_ = delta_ = rows();
    centre_ = matrix(key_dim_), o_ = matrix(value_dim_);
    launch<LlaMoments<B, BM, BN, D, stages>>({q_.in(), k_.in(), index_.row_in(), m_.row_out(), l_.row_out(),
                                              lse_.row_out(), first_.row_out(), centre_.out(), scale_, shape_.sees,
                                              shape_.group, shape_.kv_heads, wants_first()});
    auto offset = matrix(key_dim_);
    auto slack = rows();
    launch<LlaOffsets<B, BM, D, stages>>({q_.in(), centre_.in(), l_.row_in(), offset.out(), slack.row_out()});
    y_ = solve(offset, slack, delta_, shape_.about_query);
    launch<LlaOutput<B, BM, BN, D, stages, Raw>>(
        {q_.in(), k_.in(), v_.in(), y_.whole.in(), Raw ? q_.in() : centre_.in(), m_.row_in(), l_.row_in(),
         y_.unit.row_in(), delta_.row_in(), o_.out(), scale_, shape_.sees, shape_.group, shape_.kv_heads});
  }

  Arrays backward() {
    const int blocks = shape_.blocks.count, kv_heads = shape_.kv_heads;
    const auto dimensions = static_cast<std::size_t>(key_dim_);
    const T h = static_cast<T>(shape_.bandwidth), inv_h = gate_scalar<T>(policy_, "inv_bandwidth", 1 / h);
    const auto g = shape_.input<T>(problem_.cotangents, "o", heads_, n_, value_dim_);
    auto rhs = matrix(key_dim_), dlambda = rhs, dz = rhs, dq = rhs;
    auto mean = rows(), f0 = mean, f1 = mean, s0 = mean, kappa = mean, e = mean, row_sum = mean, dh = mean;
    auto unused = mean, ny = rows(blocks), nx = ny;
    launch<LlaAdjoint<B, BM, BN, D, stages>>({q_.in(), k_.in(), v_.in(), g.in(), centre_.in(), m_.row_in(), l_.row_in(),
                                              mean.row_out(), rhs.out(), scale_, shape_.sees, shape_.group, kv_heads,
                                              shape_.about_query});
    const Solution x = solve(rhs, delta_, unused, false);
    launch<LlaCoefficients<B, BM, D, stages>>(
        {q_.in(),          centre_.in(),    rhs.in(),          lambda_.in(),    y_.whole.in(), x.whole.in(),
         y_.in_parts(),    x.in_parts(),    m_.row_in(),       l_.row_in(),     mean.row_in(), delta_.row_in(),
         y_.unit.row_in(), x.unit.row_in(), dlambda.out(),     dz.out(),        ny.row_out(),  nx.row_out(),
         f0.row_out(),     f1.row_out(),    s0.row_out(),      kappa.row_out(), e.row_out(),   row_sum.row_out(),
         shape_.blocks,    shape_.ridge,    shape_.about_query});
    // The rows of D have the sums of mode absolute where the ridge is a constant, as published.
    if (Faults::choose(policy_, "ridge_detached"_s, false, shape_.ridge == RidgeUnit::mass))
      for (std::size_t i = 0; i < dlambda.data.size(); ++i)
        row_sum.data[i / dimensions] -= dlambda.data[i] * lambda_.data[i];
    launch<LlaBackwardQuery<B, BM, BN, D, stages>>(
        {q_.in(),         k_.in(),        v_.in(),     g.in(),           y_.in_parts(),
         x.in_parts(),    centre_.in(),   dz.in(),     lse_.row_in(),    y_.unit.row_in(),
         x.unit.row_in(), ny.row_in(),    nx.row_in(), f0.row_in(),      f1.row_in(),
         s0.row_in(),     kappa.row_in(), e.row_in(),  row_sum.row_in(), first_.row_in(),
         index_.row_in(), dh.row_out(),   dq.out(),    scale_,           inv_h,
         shape_.sees,     shape_.group,   kv_heads,    blocks,           shape_.about_query,
         wants_first()});
    auto dk = shape_.output<T>(kv_heads, shape_.keys, key_dim_),
         dv = shape_.output<T>(kv_heads, shape_.keys, value_dim_);
    launch_tiles<LlaBackwardKey<B, BM, BN, D, stages>, T>(
        launch_policy(policy_, launches_++),
        {q_.in(),       k_.in(),          v_.in(),         g.in(),      y_.in_parts(),   x.in_parts(),
         lse_.row_in(), y_.unit.row_in(), x.unit.row_in(), ny.row_in(), nx.row_in(),     f0.row_in(),
         f1.row_in(),   s0.row_in(),      kappa.row_in(),  e.row_in(),  first_.row_in(), index_.row_in(),
         dk.out(),      dv.out(),         scale_,          inv_h,       shape_.sees,     shape_.group,
         kv_heads,      blocks,           wants_first()},
        kv_heads, shape_.keys, BN);
    return {{"q", dq.array()},
            {"k", dk.array()},
            {"v", dv.array()},
            {"lambda", shape_.ridge_gradient(problem_, dlambda.data)},
            {"bandwidth", bandwidth_gradient(dh, h)}};
  }

  const LlaShape& shape_;
  const Problem& problem_;
  const Policy& policy_;
  int heads_, n_, key_dim_, value_dim_;
  std::uint64_t launches_ = 0;
  HostArray<T> q_, k_, v_, lambda_, index_;
  T scale_;
  HostArray<T> m_, l_, lse_, first_, delta_, centre_, o_;
  Solution y_;
};

template <bool Raw>
Answer run(const Problem& problem, const Policy& policy, int tile) {
  LlaShape shape(problem);
  // A window of as many keys as there are is none, and has room to add to.
  shape.sees.window = imin(shape.sees.window, imax(1, shape.keys));
  shape.about_query |= Raw;
  return with_scalar_and_head_dim(policy, shape, [&]<class T, int D>() {
    if (tile == 1) return Tiled<T, 32, 32, D, Raw>(shape, problem, policy).run();
    if (tile == 2) return Tiled<T, 16, 16, D, Raw>(shape, problem, policy).run();
    return Tiled<T, 64, 64, D, Raw>(shape, problem, policy).run();
  });
}

constexpr std::string_view tiled_tiles[] = {"64x64", "32x32", "16x16"};

constexpr Mutant tiled_mutants[] = {
    {"mask_one_key_less", "causal mask one key too few, in every pass", "cudnn-frontend#1075 review"},
    {"window_dropped", "the window is ignored, in every pass", "catalogue"},
    {"exp2_without_log2e", "first pass: base-2 exponentials of scores in base e", "common"},
    {"kv_head_modulo", "query head a reads key/value head a mod Hkv instead of a div group", "fla#1029"},
    {"first_tile_skipped", "first pass: the first key tile is skipped for late rows of one head", "catalogue"},
    {"kbar_not_rescaled", "the sum of keys not rescaled when the maximum moves", "catalogue"},
    {"ridge_unshifted", "mode absolute: lambda beside weights shifted by their maximum", "LLA Alg. 2 as printed (E3)"},
    {"image_not_centred", "the system's product with keys that are not centred", "LLA Alg. 2 as printed (E6)"},
    {"steepest_descent", "search directions that are residuals, not conjugate", "catalogue"},
    {"rows_not_frozen", "rows whose residual is small go on with the others of their tile", "catalogue"},
    {"residual_per_weight", "the tolerance where the weights sum to one", "catalogue"},
    {"probe_for_tilt", "rho* where rho* / delta is due", "catalogue"},
    {"mean_t_dropped", "o without the mean of y.k", "LLA Alg. 1 as printed (E4)"},
    {"mass_gradient_dropped", "backward of Sigma: D and dlambda without beta", "LLA (41) as printed (E8)"},
    {"ridge_detached", "backward: lambda's unit held constant under changes of the weights", "FlashLLA 436af91"},
    {"offset_sign", "backward: dq with + sum_j dz_j", "LLA (50) as printed (E9)"},
    {"dq_without_scale", "backward: dq not divided by the bandwidth", "GQA"},
    {"dk_without_x", "backward: dk lacks the term p N x", "catalogue"},
    {"dv_without_probe", "backward: dv weighted by p, as in softmax attention", "fla#1142, #1140"},
    {"dk_one_head_of_group", "backward: dk and dv of the first query head of the group only", "GQA"},
};
/// Of what the raw form does not share.
constexpr Mutant raw_mutants[] = {
    {"mean_already_centred", "the product of raw moments with kbar - q where kbar is due",
     "LLA Alg. 2 as printed (E6)"},
    {"square_left_at_zero", "the curvature along a direction from keys that are not moved to q", "catalogue"},
    {"moment_left_at_zero", "o without y.q: sum_j w_ij v_j k_j^T is not moved to q", "LLA Alg. 1 as printed (E4)"},
};

constexpr KernelForm forms[] = {
    {"tiled",
     "moments, conjugate gradients matrix-free over key tiles, output; backward with one more solve",
     lla_tiled_sites,
     tiled_tiles,
     tiled_mutants,
     true,
     lla_obstacle,
     run<false>,
     {},
     true},
    {"raw_moments",
     "the published one: sums of w, w k, w k k^T, w v and w v k^T as they are, moved to the query afterwards",
     lla_tiled_sites, tiled_tiles, raw_mutants, true, lla_raw_obstacle, run<true>,
     "what keys and queries have in common cancels as |k|^2 against |k - q|^2, and 1 - rho.zbar where the query is far "
     "from the keys; LLA (8), (11) and (13)",
     true},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom lla = {"lla", forms};
}

}  // namespace assay::tile
