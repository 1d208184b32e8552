#include "kernels/launches/gated_delta_launch.hpp"

#include "kernels/programs/gated_delta.hpp"

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
void GatedDelta<T>::forward() {
  const int heads = shape.heads, V = shape.value_dim;
  states = shape.output<T>(heads, chunks() * size.dim, V);
  inverse = shape.output<T>(heads, chunks() * size.tokens, size.tokens);
  u = shape.output<T>(heads, shape.len, V);
  to_row = shape.output<T>(heads, shape.len, 1), to_error = to_row, to_end = to_row;
  totals = shape.output<T>(heads, chunks() * size.dim, 1);
  with_size(size, [&]<int C, int D>() {
    using B = HostBlock<T>;
    const auto run = [&]<bool Predicts>() {
      host_launch<GatedDeltaSystem<B, C, D, Predicts>, T>(
          launch_policy(policy, 0),
          {k.in(), p.in(), beta.row_in(), decay.row_in(logs), inverse.out(), to_row.row_out(), to_error.row_out(),
           to_end.row_out(), totals.row_out(), shape.len, kind.lag, shape.group, shape.shared_heads},
          heads * chunks(), HeadBlocks{chunks()});
      host_launch<GatedDeltaStates<B, C, D, D, 2, Predicts>, T>(
          launch_policy(policy, 1),
          {k.in(), v.in(), p.in(), inverse.in(), beta.row_in(), to_error.row_in(), to_end.row_in(), totals.row_in(),
           initial_state.in(), u.out(), states.out(), final_state.out(), shape.len, shape.group, shape.shared_heads},
          heads * blocks(), HeadBlocks{blocks()});
    };
    kind.predicts ? run.template operator()<true>() : run.template operator()<false>();
    host_launch<GatedDeltaOutputs<B, C, D, D>, T>(
        launch_policy(policy, 2),
        {q.in(), k.in(), u.in(), states.in(), decay.row_in(logs), to_row.row_in(), o.out(), scale, shape.group,
         shape.shared_heads, blocks()},
        items(), by_chunk());
  });
}

template <class T>
void GatedDelta<T>::backward(const Problem& problem, int more) {
  const int heads = shape.heads, len = shape.len, K = shape.key_dim, V = shape.value_dim, parts = heads * blocks();
  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = shape.input<T>(problem.cotangents, "final_state", heads, K, V);
  auto du = shape.output<T>(heads, len, V), errors = du;
  auto updates = shape.output<T>(heads, chunks() * size.dim, V), adjoints = updates;
  dq = shape.output<T>(parts, len, K), dk = shape.output<T>(parts + heads * more, len, K);
  dp = shape.output<T>(parts, kind.predicts ? len : 0, K);
  dbeta = shape.output<T>(parts, len, 1), dlog_decay = dbeta;
  dv = shape.output<T>(heads, len, V), dinitial_state = shape.output<T>(heads, K, V);
  with_size(size, [&]<int C, int D>() {
    using B = HostBlock<T>;
    host_launch<GatedDeltaReads<B, C, D, D>, T>(launch_policy(policy, 3),
                                                {q.in(), k.in(), o_cotangent.in(), decay.row_in(logs), to_row.row_in(),
                                                 du.out(), updates.out(), scale, shape.group, blocks()},
                                                items(), by_chunk());
    const auto run = [&]<bool Predicts>() {
      host_launch<GatedDeltaAdjoints<B, C, D, D, 2, Predicts>, T>(
          launch_policy(policy, 4),
          {k.in(), p.in(), inverse.in(), du.in(), updates.in(), final_cotangent.in(), beta.row_in(), to_error.row_in(),
           to_end.row_in(), totals.row_in(), errors.out(), adjoints.out(), dinitial_state.out(), len, shape.group},
          parts, HeadBlocks{blocks()});
      host_launch<GatedDeltaGradients<B, C, D, D, Predicts>, T>(launch_policy(policy, 5),
                                                                {q.in(),
                                                                 k.in(),
                                                                 v.in(),
                                                                 p.in(),
                                                                 u.in(),
                                                                 beta.row_in(),
                                                                 decay.row_in(logs),
                                                                 to_row.row_in(),
                                                                 to_error.row_in(),
                                                                 to_end.row_in(),
                                                                 totals.row_in(),
                                                                 states.in(),
                                                                 adjoints.in(),
                                                                 errors.in(),
                                                                 o_cotangent.in(),
                                                                 dq.out(),
                                                                 dk.out(),
                                                                 dv.out(),
                                                                 dp.out(),
                                                                 dbeta.row_out(),
                                                                 dlog_decay.row_out(),
                                                                 scale,
                                                                 kind.lag,
                                                                 shape.group,
                                                                 blocks(),
                                                                 blocks() + more},
                                                                items(), by_chunk());
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
