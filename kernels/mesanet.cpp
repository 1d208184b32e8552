#include "kernels/mesanet.hpp"

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
        gram_(states(key_dim_)),
        state_(gram_),
        relative_(RidgeShape::relative<T>(policy.sites.at("R"))),
        steps_(shape.steps<T>(problem, relative_)) {
    for (std::size_t i = 0; i < ridge_unit_.data.size(); ++i)
      ridge_unit_.data[i] = shape.scaling == RidgeShape::Scaling::mean ? static_cast<T>(i + 1) : T(1);
    if (Faults::choose(policy, "few_steps"_s, false, true)) std::fill(steps_.data.begin(), steps_.data.end(), T(4));
  }

  Answer run() {
    auto final_gram = shape_.output<T>(heads_, key_dim_, key_dim_),
         final_state = shape_.output<T>(heads_, value_dim_, key_dim_);
    carry(final_gram, final_state);
    auto o = shape_.output<T>(heads_, len_, value_dim_);
    x_ = shape_.output<T>(heads_, len_, key_dim_), unit_x_ = x_, x_unit_ = shape_.rows<T>(heads_, len_);
    launch<MesaOutputs<B, C, D>>({system(), q_.in(), x_.out(), unit_x_.out(), o.out(), x_unit_.row_out()}, heads_,
                                 chunks_);
    Answer answer{{{"o", o.array()}, {"final_state", final_state.array()}, {"final_gram", final_gram.array()}}, {}};
    if (!problem_.cotangents.empty()) answer.gradients = backward();
    return answer;
  }

 private:
  HostArray<T> states(int columns) const { return shape_.output<T>(kv_heads_, chunks_ * D, columns); }

  template <class Kernel>
  void launch(const typename Kernel::Args& args, int heads, int blocks) {
    host_launch<Kernel, T>(launch_policy(policy_, launches_++), args, heads * blocks, HeadBlocks{blocks});
  }

  MesaSystem<B> system() const {
    return {k_.in(),
            v_.in(),
            lambda_.in(),
            gram_.in(),
            state_.in(),
            ridge_unit_.row_in(),
            {relative_, steps_.row_in()},
            shape_.group,
            kv_heads_};
  }

  /// The sums before every chunk and after the last.
  void carry(HostArray<T>& final_gram, HostArray<T>& final_state) {
    auto of_gram = states(key_dim_), of_state = of_gram;
    launch<MesaUpdates<B, C, D>>({k_.in(), v_.in(), k_.in(), of_gram.out(), of_state.out()}, kv_heads_, chunks_);
    launch<MesaStates<B, D, stages, true>>({of_gram.in(), gram_.out(), final_gram.out(), chunks_, shape_.group},
                                           kv_heads_, 1);
    launch<MesaStates<B, D, stages, false>>({of_state.in(), state_.out(), final_state.out(), chunks_, shape_.group},
                                            kv_heads_, 1);
  }

  Arrays backward() {
    const auto g = shape_.input<T>(problem_.cotangents, "o", heads_, len_, value_dim_),
               of_state = shape_.input<T>(problem_.cotangents, "final_state", heads_, value_dim_, key_dim_),
               of_gram = shape_.input<T>(problem_.cotangents, "final_gram", heads_, key_dim_, key_dim_);
    auto a = x_, dq = x_, dlambda = x_, a_unit = x_unit_;
    launch<MesaAdjoint<B, C, D>>({system(), x_.in(), g.in(), a.out(), dq.out(), dlambda.out(), a_unit.row_out()},
                                 heads_, chunks_);
    auto update_P = states(key_dim_), update_N = update_P, P = update_P, N = update_P, dk = k_, dv = v_;
    launch<MesaAdjointUpdates<B, C, D, stages>>(
        {unit_x_.in(), a.in(), g.in(), x_unit_.row_in(), a_unit.row_in(), update_P.out(), update_N.out(), shape_.group},
        kv_heads_, chunks_);
    launch<AdjointStates<B, D, D, stages, false>>({of_state.in(), update_P.in(), P.out(), chunks_, shape_.group},
                                                  kv_heads_, 1);
    launch<AdjointStates<B, D, D, stages, false>>({of_gram.in(), update_N.in(), N.out(), chunks_, shape_.group},
                                                  kv_heads_, 1);
    launch<MesaGradients<B, C, D, stages>>({k_.in(), v_.in(), unit_x_.in(), a.in(), g.in(), P.in(), N.in(),
                                            x_unit_.row_in(), a_unit.row_in(), dk.out(), dv.out(), shape_.group},
                                           kv_heads_, chunks_);
    return {
        {"q", dq.array()}, {"k", dk.array()}, {"v", dv.array()}, {"lambda", shape_.ridge_gradient(problem_, dlambda)}};
  }

  const RidgeShape& shape_;
  const Problem& problem_;
  const Policy& policy_;
  int heads_, kv_heads_, len_, key_dim_, value_dim_, chunks_;
  std::uint64_t launches_ = 0;
  HostArray<T> q_, k_, v_, lambda_, ridge_unit_, gram_, state_;
  T relative_;
  HostArray<T> steps_;
  HostArray<T> x_, unit_x_, x_unit_;
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
    {"solves_before_the_write", "the system of row i without k_i: j < i instead of j <= i", "catalogue"},
    {"gram_not_carried", "every chunk's systems know the keys of the chunk before alone", "MDN common-mode reference"},
    {"state_not_carried", "every chunk reads the values of the chunk before alone", "MDN common-mode reference"},
    {"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    {"ridge_forgotten", "the system's product without the ridge", "catalogue"},
    {"ridge_on_sums", "lambda_scaling mean: the ridge lambda on sums", "Parallax (5) against (9) (E14)"},
    {"rows_not_frozen", "a row at rest takes its step: 0 / 0", "catalogue"},
    {"few_steps", "four steps of conjugate gradients, whatever the residuals", "catalogue"},
    {"tolerance_of_squares", "the tolerance on |r| is one on its square", "FlashLLA 436af91"},
    {"steepest_descent", "search directions that are residuals, not conjugate", "catalogue"},
    {"beta_of_old_residual", "the next direction from the residual before the step", "catalogue"},
    {"dlambda_of_sums", "lambda_scaling mean: dlambda without the factor i", "catalogue"},
    {"final_cotangent_dropped", "backward starts from zero adjoint states", "FALCON Alg 6 line 20"},
    {"gram_gradient_one_sided", "dk without x (a.k), the other half of dH, within a chunk", "catalogue"},
    {"dk_without_later_solves", "dk without the systems of later chunks", "fla#1140 class"},
    {"dv_without_later_reads", "dv without the term of the reads in later chunks", "fla#1140 class"},
    {"dk_one_head_of_group", "dk and dv of the first query head of the group only", "GQA"},
};

constexpr KernelForm forms[] = {
    {"chunkwise",
     "chunks in parallel, their rows' systems by conjugate gradients; backward with one more solve",
     mesanet_sites,
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
extern const KernelRoom mesanet = {"mesanet", forms};
}

}  // namespace assay::tile
