#include "kernels/affine_mesanet.hpp"

#include <numeric>

#include "kernels/core/kernel_room.hpp"
#include "kernels/launches/recurrence.hpp"
#include "kernels/launches/ridge_launch.hpp"

namespace assay::tile {
namespace {

constexpr int stages = 2;

/// The launches of one problem and what passes between them.
template <class T, int C, int D>
class Chunks {
  using B = HostBlock<T>;

 public:
  Chunks(const RidgeShape& shape, const Problem& problem, const Policy& policy)
      : shape_(shape),
        problem_(problem),
        policy_(policy),
        heads_(shape.heads),
        kv_heads_(shape.kv_heads),
        len_(shape.len),
        key_dim_(shape.key_dim),
        value_dim_(shape.value_dim),
        chunks_(ceil_div(len_, C)),
        q_(shape.input<T>(problem.inputs, "q", heads_, len_, key_dim_)),
        k_(shape.input<T>(problem.inputs, "k", kv_heads_, len_, key_dim_)),
        v_(shape.input<T>(problem.inputs, "v", kv_heads_, len_, value_dim_)),
        lambda_(shape.ridges<T>(problem)),
        ridge_unit_(shape.rows<T>(1, len_)),
        count_(ridge_unit_),
        mean_k_(shape.rows<T>(kv_heads_, (chunks_ + 1) * D)),
        mean_v_(mean_k_),
        gram_(states(D)),
        state_(gram_),
        relative_(RidgeShape::relative<T>(policy.sites.at("R"))),
        steps_(shape.steps<T>(problem, relative_)) {
    std::iota(count_.data.begin(), count_.data.end(), T(1));
    for (std::size_t i = 0; i < count_.data.size(); ++i)
      ridge_unit_.data[i] = shape.scaling == RidgeShape::Scaling::mean ? count_.data[i] : T(1);
    if (Faults::choose(policy, "few_steps"_s, false, true)) std::fill(steps_.data.begin(), steps_.data.end(), T(4));
  }

  Answer run() {
    auto mean_k = shape_.rows<T>(heads_, key_dim_), mean_v = shape_.rows<T>(heads_, value_dim_),
         gram = shape_.output<T>(heads_, key_dim_, key_dim_), state = shape_.output<T>(heads_, value_dim_, key_dim_);
    auto add_mean_k = shape_.rows<T>(kv_heads_, chunks_ * D), add_mean_v = add_mean_k;
    auto add_gram = states(D), add_state = add_gram;
    launch<AffineUpdates<B, C, D>>(
        {k_.in(), v_.in(), add_mean_k.row_out(), add_mean_v.row_out(), add_gram.out(), add_state.out(), len_},
        kv_heads_, chunks_);
    launch<AffineStates<B, C, D, stages>>(
        {add_mean_k.row_in(), add_mean_v.row_in(), add_gram.in(), add_state.in(), gram_.out(), state_.out(),
         mean_k_.row_out(), mean_v_.row_out(), mean_k.row_out(), mean_v.row_out(), gram.out(), state.out(), len_,
         chunks_, shape_.group},
        kv_heads_, 2);
    auto o = shape_.output<T>(heads_, len_, value_dim_);
    y_ = shape_.output<T>(heads_, len_, key_dim_), unit_y_ = y_, y_unit_ = shape_.rows<T>(heads_, len_);
    launch<AffineOutputs<B, C, D>>({system(), q_.in(), y_.out(), unit_y_.out(), o.out(), y_unit_.row_out()}, heads_,
                                   chunks_);
    Answer answer{{{"o", o.array()},
                   {"final_mean_k", as_vector(mean_k)},
                   {"final_mean_v", as_vector(mean_v)},
                   {"final_scatter_kk", gram.array()},
                   {"final_scatter_vk", state.array()}},
                  {}};
    if (!problem_.cotangents.empty()) answer.gradients = backward();
    return answer;
  }

 private:
  HostArray<T> states(int columns) const { return shape_.output<T>(kv_heads_, chunks_ * D, columns); }
  static Array as_vector(HostArray<T>& column) {
    column.shape.pop_back();
    return column.array();
  }

  template <class Kernel>
  void launch(const typename Kernel::Args& args, int heads, int blocks) {
    host_launch<Kernel, T>(launch_policy(policy_, launches_++), args, heads * blocks, HeadBlocks{blocks});
  }

  AffineSystem<B> system() const {
    return {k_.in(),          v_.in(),          lambda_.in(),         gram_.in(),      state_.in(),
            mean_k_.row_in(), mean_v_.row_in(), ridge_unit_.row_in(), count_.row_in(), {relative_, steps_.row_in()},
            shape_.group,     kv_heads_};
  }

  HostArray<T> cotangent(std::string_view name, int rows, int columns) const {
    return shape_.input<T>(problem_.cotangents, name, heads_, rows, columns);
  }

  Arrays backward() {
    const auto g = cotangent("o", len_, value_dim_), of_mean_k = cotangent("final_mean_k", key_dim_, 1),
               of_mean_v = cotangent("final_mean_v", value_dim_, 1),
               of_gram = cotangent("final_scatter_kk", key_dim_, key_dim_),
               of_state = cotangent("final_scatter_vk", value_dim_, key_dim_);
    auto x = y_, dq = y_, dlambda = y_, x_unit = y_unit_, of_x = y_unit_, of_y = y_unit_;
    launch<AffineAdjoint<B, C, D>>(
        {system(), y_.in(), g.in(), x.out(), dq.out(), dlambda.out(), x_unit.row_out(), of_x.row_out(), of_y.row_out()},
        heads_, chunks_);
    auto add_N = states(D), add_P = add_N, N = add_N, P = add_N;
    auto add_d = shape_.output<T>(kv_heads_, chunks_ * C, D), add_h = add_d, d = add_d, h = add_d;
    launch<AffineAdjointUpdates<B, C, D, stages>>(
        {x.in(), unit_y_.in(), g.in(), x_unit.row_in(), y_unit_.row_in(), of_x.row_in(), of_y.row_in(), count_.row_in(),
         add_N.out(), add_P.out(), add_d.out(), add_h.out(), shape_.group},
        kv_heads_, chunks_);
    auto first_d = shape_.output<T>(heads_, C, D), first_h = first_d;
    launch<AffineAdjointStart<B, C, D>>(
        {of_gram.in(), of_state.in(), of_mean_k.row_in(), of_mean_v.row_in(), mean_k_.row_in(), mean_v_.row_in(),
         first_d.out(), first_h.out(), len_, chunks_, shape_.group},
        heads_, 1);
    const auto carry_back = [&]<int R, bool Wide>(const HostArray<T>& start, const HostArray<T>& add,
                                                  HostArray<T>& all) {
      launch<AdjointStates<B, R, D, stages, Wide>>({start.in(), add.in(), all.out(), chunks_, shape_.group}, kv_heads_,
                                                   1);
    };
    carry_back.template operator()<D, false>(of_gram, add_N, N);
    carry_back.template operator()<D, false>(of_state, add_P, P);
    carry_back.template operator()<C, true>(first_d, add_d, d);
    carry_back.template operator()<C, true>(first_h, add_h, h);
    auto dk = k_, dv = v_;
    launch<AffineGradients<B, C, D, stages>>(
        {k_.in(), v_.in(), x.in(), unit_y_.in(), g.in(), N.in(), P.in(), d.in(), h.in(), x_unit.row_in(),
         y_unit_.row_in(), of_x.row_in(), of_y.row_in(), count_.row_in(), dk.out(), dv.out(), shape_.group},
        kv_heads_, chunks_);
    return {
        {"q", dq.array()}, {"k", dk.array()}, {"v", dv.array()}, {"lambda", shape_.ridge_gradient(problem_, dlambda)}};
  }

  const RidgeShape& shape_;
  const Problem& problem_;
  const Policy& policy_;
  int heads_, kv_heads_, len_, key_dim_, value_dim_, chunks_;
  std::uint64_t launches_ = 0;
  HostArray<T> q_, k_, v_, lambda_, ridge_unit_, count_, mean_k_, mean_v_, gram_, state_;
  T relative_;
  HostArray<T> steps_;
  HostArray<T> y_, unit_y_, y_unit_;
};

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RidgeShape shape(problem);
  return with_scalar(policy, [&]<class T>() {
    const Policy run = with_narrow_state(policy);
    return with_rows(shape, tile, [&]<int C, int D>() { return Chunks<T, C, D>(shape, problem, run).run(); });
  });
}

constexpr Mutant mutants[] = {
    {"kv_head_modulo", "query head a reads key/value head a mod Hkv instead of a div group", "fla#1029"},
    {"merged_without_means", "scatters of two chunks added without the distance of their means", "catalogue"},
    {"mean_of_the_chunk_before", "rows are centred at the mean before their chunk", "catalogue"},
    {"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    {"image_not_centred", "the system's product with keys that are not centred", "LLA Alg. 2 as printed (E6)"},
    {"ridge_forgotten", "the system's product without the ridge", "catalogue"},
    {"ridge_on_sums", "lambda_scaling mean: the ridge lambda on sums", "Parallax (9) against its limit (E13)"},
    {"offset_from_zero", "y from kbar, not kbar - q", "catalogue"},
    {"rows_not_frozen", "a row at rest takes its step: 0 / 0", "catalogue"},
    {"few_steps", "four steps of conjugate gradients, whatever the residuals", "catalogue"},
    {"tolerance_of_squares", "the tolerance on |r| is one on its square", "FlashLLA 436af91"},
    {"steepest_descent", "search directions that are residuals, not conjugate", "catalogue"},
    {"beta_of_old_residual", "the next direction from the residual before the step", "catalogue"},
    {"dlambda_of_sums", "dlambda without the factor of lambda on means", "catalogue"},
    {"values_not_centred", "backward: what rows put on every key without g.vbar", "catalogue"},
    {"moments_not_centred", "cotangents of the final scatters without the means", "catalogue"},
    {"final_cotangent_dropped", "backward starts from zero adjoint states", "FALCON Alg 6 line 20"},
    {"dk_without_x", "dk without (x.k) y within a chunk", "catalogue"},
    {"dv_without_probe", "dk and dv without y.k within a chunk", "fla#1142, #1140"},
    {"dk_one_head_of_group", "dk and dv of the first query head of the group only", "GQA"},
};

constexpr KernelForm forms[] = {
    {"chunkwise",
     "chunks in parallel about their means, their rows' systems by conjugate gradients; backward with one more solve",
     affine_mesanet_sites,
     ridge_tiles,
     mutants,
     true,
     ridge_obstacle,
     run_chunkwise,
     {},
     true},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom affine_mesanet = {"affine_mesanet", forms};
}

}  // namespace assay::tile
