#include "kernels/launches/falcon_launch.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {
template <class T>
FalconKeys<T>::FalconKeys(const RecurrenceShape& shape, const Problem& problem)
    : options(problem), carry(shape.vector_input<T>(problem.inputs, "k_carry", shape.shared_heads, shape.key_dim)) {}

template <class T>
FalconRows<T>::FalconRows(const RecurrenceShape& shape, const Problem& problem, const Policy& policy)
    : FalconKeys<T>(shape, problem),
      lambda(shape.vector_input<T>(problem.inputs, "lambda", shape.heads, shape.len)),
      active(shape.output<T>(shape.heads, shape.len, 1)),
      eps(rounded_gate<T>(problem, policy, "eps")),
      floor(rounded_gate<T>(problem, policy, "decay_floor")) {
  const int first = Faults::choose(policy, "first_row_writes"_s, this->first(), 0);
  for (std::size_t i = 0; i < active.data.size(); ++i)
    active.data[i] = static_cast<int>(i % static_cast<std::size_t>(shape.len)) < first ? T(0) : T(1);
}

template <class T>
HostArray<T> FalconKeys<T>::features(HostArray<T> keys) {
  if (!options.next_latent) return keys;
  HostArray<T> x = keys;
  each_shifted(x, keys, carry, [](T& feature, const T& key) { feature = key; });
  return x;
}

template <class T>
void FalconKeys<T>::of_keys(const Problem& problem, HostArray<T> keys, Arrays& gradients) {
  if (options.next_latent) {
    HostArray<T> x = keys;
    const Array& summed = gradients.at("k");
    x.data.assign(summed.data.begin(), summed.data.end());
    std::fill(keys.data.begin(), keys.data.end(), T(0));
    each_shifted(x, keys, carry, [](const T& feature, T& key) { key = feature; });
    gradients["k"] = keys.array();
  }
  if (problem.inputs.contains("k_carry")) gradients["k_carry"] = carry.array();
}

template struct FalconKeys<double>;
template struct FalconKeys<long double>;
template struct FalconRows<double>;
template struct FalconRows<long double>;

namespace {

template <class T>
Answer run(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  const int heads = shape.heads, len = shape.len;
  GatedDelta<T> rule(shape, problem, policy, tile, {.predicts = false, .lag = 1});
  FalconRows<T> rows(shape, problem, policy);
  rule.k = rows.features(rule.k);
  rule.scale = T(1);
  const auto beta = shape.vector_input<T>(problem.inputs, "beta", heads, len);
  rule.beta = beta, rule.decay = beta, rule.logs = false;
  const int chunks = rule.chunks();
  with_size(rule.size, [&]<int C, int D>() {
    host_launch<FalconGain<HostBlock<T>, C, D>, T>(
        launch_policy(policy, 7),
        {rule.k.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), rule.beta.row_out(),
         rule.decay.row_out(), rows.eps, rows.floor, rows.options.coupling, shape.group},
        heads * chunks, HeadBlocks{chunks});
  });
  rule.forward();
  Answer answer{rule.outputs(), {}};
  if (problem.cotangents.empty()) return answer;

  require_open(rule.decay);
  rule.backward(problem, 1);
  const HostArray<T> deta = rule.beta_gradient(), dlog_gamma = rule.log_decay_gradient();
  auto dbeta = shape.output<T>(heads, len, 1), dlambda = dbeta;
  dbeta.shape = dlambda.shape = beta.shape;
  with_size(rule.size, [&]<int C, int D>() {
    host_launch<FalconGainBackward<HostBlock<T>, C, D>, T>(
        launch_policy(policy, 8),
        {rule.k.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), deta.row_in(), dlog_gamma.row_in(),
         dbeta.row_out(), dlambda.row_out(), rule.dk.out(), rows.eps, rows.floor, rows.options.coupling, shape.group,
         rule.blocks() + 1},
        heads * chunks, HeadBlocks{chunks});
  });
  answer.gradients = rule.gradients();
  rows.of_keys(problem, rule.k, answer.gradients);
  answer.gradients["beta"] = dbeta.array();
  answer.gradients["lambda"] = dlambda.array();
  return answer;
}

}  // namespace

Answer falcon_rule(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_scalar(policy, [&]<class T>() { return run<T>(shape, problem, with_narrow_sites(policy), tile); });
}

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
