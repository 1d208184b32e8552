#include "kernels/core/gated_delta.hpp"

#include "kernels/core/gated_delta_launch.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

template <class T>
GatedDelta<T>::GatedDelta(const RecurrenceShape& s, const Problem& problem, const Policy& what, int tile,
                          ErrorKind error)
    : shape(s),
      policy(what),
      size(chunk_size(s, tile)),
      kind(error),
      q(s.input<T>(problem.inputs, "q", s.shared_heads, s.len, s.key_dim)),
      k(s.input<T>(problem.inputs, "k", s.shared_heads, s.len, s.key_dim)),
      v(s.input<T>(problem.inputs, "v", s.heads, s.len, s.value_dim)),
      p(s.input<T>(problem.inputs, "p", s.shared_heads, error.predicts ? s.len : 0, s.key_dim)),
      initial_state(s.input<T>(problem.inputs, "initial_state", s.heads, s.key_dim, s.value_dim)),
      scale(s.scale<T>(problem, what)),
      o(s.output<T>(s.heads, s.len, s.value_dim)),
      final_state(s.output<T>(s.heads, s.key_dim, s.value_dim)) {}

template <class T>
void GatedDelta<T>::forward(bool keeps_states) {
  states = shape.output<T>(shape.heads, keeps_states ? chunks() * size.dim : 0, shape.value_dim);
  inverse = shape.output<T>(shape.heads, chunks() * size.tokens, size.tokens);
  with_size(size, [&]<int C, int D>() {
    const auto run = [&]<bool Predicts>() {
      host_launch<GatedDeltaSystem<HostBlock<T>, C, D, Predicts>, T>(
          launch_policy(policy, 0),
          {k.in(), p.in(), beta.row_in(), decay.row_in(logs), inverse.out(), kind.lag, shape.group, shape.shared_heads},
          shape.heads * chunks(), HeadBlocks{chunks()});
      host_launch<GatedDeltaForward<HostBlock<T>, C, D, D, 2, Predicts>, T>(
          launch_policy(policy, 1),
          {q.in(), k.in(), v.in(), p.in(), inverse.in(), beta.row_in(), decay.row_in(logs), initial_state.in(), o.out(),
           final_state.out(), states.out(), scale, shape.len, kind.lag, shape.group, shape.shared_heads},
          shape.heads * blocks(), HeadBlocks{blocks()});
    };
    kind.predicts ? run.template operator()<true>() : run.template operator()<false>();
  });
}

template <class T>
void GatedDelta<T>::backward(const Problem& problem, int more) {
  const int heads = shape.heads, len = shape.len, K = shape.key_dim, V = shape.value_dim, parts = heads * blocks();
  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = shape.input<T>(problem.cotangents, "final_state", heads, K, V);
  dq = shape.output<T>(parts, len, K), dk = shape.output<T>(parts + heads * more, len, K);
  dp = shape.output<T>(parts, kind.predicts ? len : 0, K);
  dbeta = shape.output<T>(parts, len, 1), dlog_decay = dbeta;
  dv = shape.output<T>(heads, len, V), dinitial_state = shape.output<T>(heads, K, V);
  with_size(size, [&]<int C, int D>() {
    const auto run = [&]<bool Predicts>() {
      host_launch<GatedDeltaBackward<HostBlock<T>, C, D, D, 2, Predicts>, T>(launch_policy(policy, 2),
                                                                             {q.in(),
                                                                              k.in(),
                                                                              v.in(),
                                                                              p.in(),
                                                                              inverse.in(),
                                                                              beta.row_in(),
                                                                              decay.row_in(logs),
                                                                              states.in(),
                                                                              o_cotangent.in(),
                                                                              final_cotangent.in(),
                                                                              dq.out(),
                                                                              dk.out(),
                                                                              dv.out(),
                                                                              dp.out(),
                                                                              dinitial_state.out(),
                                                                              dbeta.row_out(),
                                                                              dlog_decay.row_out(),
                                                                              scale,
                                                                              len,
                                                                              kind.lag,
                                                                              shape.group,
                                                                              blocks(),
                                                                              blocks() + more},
                                                                             parts, HeadBlocks{blocks()});
    };
    kind.predicts ? run.template operator()<true>() : run.template operator()<false>();
  });
}

template <class T>
Arrays GatedDelta<T>::gradients() const {
  Arrays d{{"q", sum_parts(sums(), "part", "out", dq, blocks(), q).array()},
           {"k", sum_parts(sums(), "part", "out", dk, dk.heads / shape.heads, k).array()},
           {"v", dv.array()},
           {"initial_state", dinitial_state.array()}};
  if (kind.predicts) d["p"] = sum_parts(sums(), "part", "out", dp, blocks(), p).array();
  return d;
}

template struct GatedDelta<double>;
template struct GatedDelta<long double>;

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
