#include "kernels/launches/decayed_sums_launch.hpp"

#include "kernels/programs/decayed_sums.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

template <class T>
HostArray<T> pass_states(const Policy& policy, ChunkSize size, bool backward, int len, const HostArray<T>& start,
                         const HostArray<T>& updates, const HostArray<T>& totals, HostArray<T>& end) {
  auto all = updates;
  const int blocks = ceil_div(updates.cols, size.dim);
  with_size(size, [&]<int C, int D>() {
    const auto walk = [&]<bool Decays, bool Backward>() {
      host_launch<StatePass<HostBlock<T>, C, D, D, 2, Decays, Backward>, T>(
          policy, {start.in(), updates.in(), totals.row_in(), all.out(), end.out(), len}, updates.heads * blocks,
          HeadBlocks{blocks});
    };
    if (totals.rows > 0)
      backward ? walk.template operator()<true, true>() : walk.template operator()<true, false>();
    else
      backward ? walk.template operator()<false, true>() : walk.template operator()<false, false>();
  });
  return all;
}
template HostArray<double> pass_states(const Policy&, ChunkSize, bool, int, const HostArray<double>&,
                                       const HostArray<double>&, const HostArray<double>&, HostArray<double>&);
template HostArray<long double> pass_states(const Policy&, ChunkSize, bool, int, const HostArray<long double>&,
                                            const HostArray<long double>&, const HostArray<long double>&,
                                            HostArray<long double>&);

template <class T>
DecayedSums<T>::DecayedSums(const RecurrenceShape& s, const Problem& problem, const Policy& p, int tile, SumKind what)
    : shape(s),
      policy(p),
      size(chunk_size(s, tile)),
      kind(what),
      q(s.input<T>(problem.inputs, "q", s.shared_heads, s.len, s.key_dim)),
      k(s.input<T>(problem.inputs, "k", s.shared_heads, s.len, s.key_dim)),
      v(s.input<T>(problem.inputs, "v", s.heads, s.len, s.value_dim)),
      decay(s.output<T>(s.heads, what.decays ? s.len : 0, 1)),
      scale(s.output<T>(s.heads, s.len, 1)),
      initial_state(s.input<T>(problem.inputs, "initial_state", s.heads, s.key_dim, s.value_dim)) {
  std::fill(scale.data.begin(), scale.data.end(), s.scale<T>(problem, p));
}

template <class T>
void DecayedSums<T>::forward() {
  o = shape.output<T>(shape.heads, shape.len, v.cols);
  final_state = shape.output<T>(shape.heads, shape.key_dim, v.cols);
  totals = shape.output<T>(shape.heads, kind.decays ? chunks() * size.dim : 0, 1);
  states = pass(false, k, v, initial_state, final_state);
  with_size(size, [&]<int C, int D>() {
    const auto read = [&]<bool Decays, bool Divided>() {
      host_launch<ChunkOutputs<HostBlock<T>, C, D, D, Decays, Divided>, T>(
          launch_policy(policy, 2),
          {q.in(), k.in(), v.in(), states.in(), decay.row_in(logs), scale.row_in(), o.out(), shape.group,
           shape.shared_heads, blocks()},
          shape.heads * chunks() * blocks(), by_chunk());
    };
    if (kind.decays)
      kind.divided ? read.template operator()<true, true>() : read.template operator()<true, false>();
    else
      kind.divided ? read.template operator()<false, true>() : read.template operator()<false, false>();
  });
}

template <class T>
void DecayedSums<T>::make_parts(int more) {
  const int count = shape.heads * (blocks() + more);
  parts.dq = shape.output<T>(count, shape.len, shape.key_dim), parts.dk = parts.dq;
  parts.dlog_decay = shape.output<T>(count, kind.decays ? shape.len : 0, 1);
}

template <class T>
void DecayedSums<T>::backward(const HostArray<T>& o_cotangent, const HostArray<T>& final_cotangent,
                              GradientParts<T>& whole, int first) {
  dv = shape.output<T>(shape.heads, shape.len, v.cols);
  dinitial_state = shape.output<T>(shape.heads, shape.key_dim, v.cols);
  const HostArray<T> adjoints = pass(true, q, o_cotangent, final_cotangent, dinitial_state);
  with_size(size, [&]<int C, int D>() {
    const auto differentiate = [&]<bool Decays>() {
      host_launch<ChunkGradients<HostBlock<T>, C, D, D, Decays>, T>(
          launch_policy(policy, 5),
          {q.in(), k.in(), v.in(), states.in(), adjoints.in(), o_cotangent.in(), decay.row_in(logs), scale.row_in(),
           whole.dq.out(), whole.dk.out(), dv.out(), whole.dlog_decay.row_out(), shape.group, blocks(),
           whole.dq.heads / shape.heads, first},
          shape.heads * chunks() * blocks(), by_chunk());
    };
    kind.decays ? differentiate.template operator()<true>() : differentiate.template operator()<false>();
  });
}

template <class T>
Arrays DecayedSums<T>::gradients() const {
  const Policy last = launch_policy(policy, 6);
  const int of_head = parts.dq.heads / shape.heads;
  return {{"q", sum_parts(last, "part", "out", parts.dq, of_head, q).array()},
          {"k", sum_parts(last, "part", "out", parts.dk, of_head, k).array()},
          {"v", dv.array()},
          {"initial_state", dinitial_state.array()}};
}

template <class T>
HostArray<T> DecayedSums<T>::log_decay_gradient() const {
  return sum_parts(launch_policy(policy, 7), "dlog_decay", "dlog_decay", parts.dlog_decay, parts.dq.heads / shape.heads,
                   decay);
}

template <class T>
HostArray<T> DecayedSums<T>::pass(bool backward, const HostArray<T>& left, const HostArray<T>& right,
                                  const HostArray<T>& start, HostArray<T>& end) {
  auto updates = shape.output<T>(shape.heads, chunks() * size.dim, v.cols);
  with_size(size, [&]<int C, int D>() {
    const auto update = [&]<bool Decays, bool Backward>() {
      host_launch<ChunkUpdates<HostBlock<T>, C, D, D, Decays, Backward>, T>(
          launch_policy(policy, Backward ? 3 : 0),
          {left.in(), right.in(), decay.row_in(logs), scale.row_in(), updates.out(), totals.row_out(), shape.len,
           shape.group, shape.shared_heads, blocks()},
          shape.heads * chunks() * blocks(), by_chunk());
    };
    if (kind.decays)
      backward ? update.template operator()<true, true>() : update.template operator()<true, false>();
    else
      backward ? update.template operator()<false, true>() : update.template operator()<false, false>();
  });
  return pass_states(launch_policy(policy, backward ? 4 : 1), size, backward, shape.len, start, updates, totals, end);
}

template struct DecayedSums<double>;
template struct DecayedSums<long double>;

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
