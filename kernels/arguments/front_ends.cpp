#include "kernels/arguments/front_ends.hpp"

#include <algorithm>
#include <string>

#include "kernels/frontends/plan.hpp"
#include "kernels/host/host_device.hpp"

namespace assay::tile {
namespace {

constexpr int token_rows = 64;

template <class T, Size D>
struct FrontEndTiles {
  using Executor = HostBlock<T>;
  static constexpr int rows = token_rows;
  static constexpr Size dim = D;
};

/// Queries and keys lie whole in a block.
template <class F>
Answer with_columns(int keys, F f) {
  const int dim = key_dim(keys);
  const WithSizes sizes(WithSizes::Named{run_time::dim, dim});
  return f.template operator()<run_time::dim>();
}

/// The faults that are a format: lengths of rows in bf16, write strengths in bf16 between sigmoid and state.
Policy with_narrow_front_end(Policy policy) {
  const SiteTable& healthy = policy.sites;
  policy.sites = chosen(policy, "norm_in_bf16"_s, healthy, healthy.with("length", Format::bf16));
  const SiteTable& lengths = policy.sites;
  policy.sites = chosen(policy, "strength_in_bf16"_s, lengths, lengths.with("strength", Format::bf16));
  return policy;
}

/// `recurrence` answers its own problem.
Answer run_behind_front_end(const RunsForm& recurrence, const Problem& problem, const Policy& policy, int tile) {
  if (!has_front_end(problem)) return recurrence(recurrence_of(problem), policy, tile);
  const RecurrenceShape shape(problem);
  return with_scalar(policy, [&]<class T>() {
    return with_columns(shape.key_dim, [&]<Size D>() {
      const HostDevice<T> device(shape, with_narrow_front_end(policy));
      FrontEnd<FrontEndTiles<T, D>, HostDevice<T>> front_end(device, shape, problem);
      return front_end.answer(recurrence(front_end.recurrence(), policy, tile));
    });
  });
}

// ---- faults

constexpr Mutant norm_mutants[] = {
    {"eps_outside_the_root", "q and k divided by n + eps instead of sqrt(n^2 + eps)", "MDN decode kernel"},
    {"eps_of_the_mean", "eps taken to the mean of squares: K times as large", "mlx-lm#1624"},
    {"eps_of_the_forward_pass_alone", "backward: the norm without eps", "maxtext#5098"},
    {"norm_gradient_not_projected", "backward: dq = dy / d, without what goes along y", "catalogue"},
    {"keys_not_normalised", "use_qk_l2norm_in_kernel read for the queries alone", "flashinfer gdn_prefill"},
    {"norm_in_bf16", "lengths of rows in bf16", "vllm#51779"},
};
constexpr Mutant gate_mutants[] = {
    {"dt_bias_forgotten", "gates without dt_bias", "catalogue"},
    {"gate_slope_forgotten", "backward: softplus with slope 1", "gym#461"},
    {"da_log_without_factor", "backward: da_log without e^a_log", "catalogue"},
    {"gate_normalizer_forgotten", "logsigmoid not divided by its normalizer", "fla gla layer"},
    {"gate_minimum_passes_gradient", "backward: gates at their minimum have a gradient", "fla gla layer"},
};
constexpr Mutant strength_mutants[] = {
    {"beta_scale_forgotten", "beta = sigmoid(b) where it is doubled", "fla allow_neg_eigval"},
    {"dbeta_of_the_unscaled", "backward: beta (1 - beta) of the doubled beta", "fla allow_neg_eigval"},
    {"strength_in_bf16", "beta rounded to bf16 between sigmoid and state", "vllm#53877"},
};
constexpr Mutant step_mutants[] = {
    {"dt_bias_after_the_softplus", "dt = softplus(dt) + dt_bias", "mamba_ssm class"},
    {"dt_limits_pass_gradient", "backward: clamped steps have a gradient", "mamba_ssm"},
    {"dt_gradient_of_values_alone", "backward: ddt without the term of the decay", "catalogue"},
    {"dv_without_step", "backward: dx without Delta", "catalogue"},
    {"gated_before_the_skip", "z gates what is read before the skip is added", "mamba_ssm layers"},
    {"dz_of_the_sigmoid_alone", "backward: the slope of z sigmoid(z) without its second term", "catalogue"},
    {"dz_without_the_skip", "backward: dz of what is read alone", "catalogue"},
};

struct Takes {
  std::string_view mechanism;
  bool norms, gates, strengths, steps;
};
constexpr Takes recurrences[] = {
    {"deltanet", true, false, true, false}, {"gated_deltanet", true, true, true, false},
    {"comba", true, true, true, false},     {"linear_attention", true, false, false, false},
    {"retnet", true, false, false, false},  {"mamba2", true, true, false, true},
    {"gla", true, true, false, false},      {"kda", true, true, true, false},
};

/// Those of a mechanism's front ends.
std::vector<Mutant> mutants_of(const Takes& takes) {
  std::vector<Mutant> all;
  if (takes.norms) all.insert(all.end(), std::begin(norm_mutants), std::end(norm_mutants));
  if (takes.gates) all.insert(all.end(), std::begin(gate_mutants), std::end(gate_mutants));
  if (takes.strengths) all.insert(all.end(), std::begin(strength_mutants), std::end(strength_mutants));
  if (takes.steps) all.insert(all.end(), std::begin(step_mutants), std::end(step_mutants));
  return all;
}

// ---- rooms: forms have plain functions, and so every form of a mechanism one of its own

template <FixedString Mechanism, std::size_t I>
struct Behind {
  static const KernelForm& recurrence() { return find_kernels(assay::kernel_rooms(), Mechanism.view())->forms[I]; }
  static const SiteTable& sites() {
    static const SiteTable table = recurrence().sites.with(gate_site_list).with(row_site_list);
    return table;
  }
  static std::string obstacle(const Problem& problem) {
    const int keys = RecurrenceShape(problem).key_dim;
    const bool wide = I == 0 && keys > max_head_dim && keys <= widest_keys;
    return wide ? std::string() : recurrence().obstacle(recurrence_of(problem));
  }
  static Answer run(const Problem& problem, const Policy& policy, int tile) {
    return run_behind_front_end(recurrence().run, problem, policy, tile);
  }
  static KernelForm form(std::span<const Mutant> mutants) {
    KernelForm behind = {.name = recurrence().name,
                         .summary = recurrence().summary,
                         .sites = sites(),
                         .tiles = recurrence().tiles,
                         .mutants = mutants,
                         .has_gradients = recurrence().has_gradients,
                         .obstacle = obstacle,
                         .run = run};
    behind.unstable = recurrence().unstable, behind.iterative = recurrence().iterative;
    return behind;
  }
};

template <FixedString Mechanism>
const KernelRoom* room(const Takes& takes) {
  static const std::vector<Mutant> mutants = mutants_of(takes);
  static const std::vector<KernelForm> forms = [] {
    std::vector<KernelForm> all = {Behind<Mechanism, 0>::form(mutants)};
    if (find_kernels(assay::kernel_rooms(), Mechanism.view())->forms.size() > 1)
      all.push_back(Behind<Mechanism, 1>::form({}));
    return all;
  }();
  static const KernelRoom found = {Mechanism.view(), forms, "arguments"};
  return &found;
}

}  // namespace

namespace kernel_rooms {

const KernelRoom* recurrence_with_arguments(std::string_view mechanism) {
  const auto* const takes = std::find_if(std::begin(recurrences), std::end(recurrences),
                                         [&](const Takes& t) { return t.mechanism == mechanism; });
  if (takes == std::end(recurrences)) return nullptr;
#define MECHANISM(name) \
  if (mechanism == #name) return room<#name>(*takes);
#include "mechanisms.def"
#undef MECHANISM
  return nullptr;
}

}  // namespace kernel_rooms

}  // namespace assay::tile
