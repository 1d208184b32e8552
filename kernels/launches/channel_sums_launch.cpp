#include "kernels/launches/channel_sums_launch.hpp"

#include "kernels/programs/channel_sums.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

template <class T>
ChannelSums<T>::ChannelSums(const RecurrenceShape& s, const Problem& problem, const Policy& p, int tile)
    : shape(s),
      policy(p),
      size(chunk_size(s, tile)),
      chunks(imax(1, ceil_div(s.len, size.tokens))),
      blocks(ceil_div(s.value_dim, size.dim)),
      q(s.input<T>(problem.inputs, "q", s.shared_heads, s.len, s.key_dim)),
      k(s.input<T>(problem.inputs, "k", s.shared_heads, s.len, s.key_dim)),
      v(s.input<T>(problem.inputs, "v", s.heads, s.len, s.value_dim)),
      log_decay(s.input<T>(problem.inputs, "log_decay", s.heads, s.len, s.key_dim)),
      scale(s.output<T>(s.heads, s.len, 1)),
      initial_state(s.input<T>(problem.inputs, "initial_state", s.heads, s.key_dim, s.value_dim)),
      o(s.output<T>(s.heads, s.len, s.value_dim)),
      final_state(s.output<T>(s.heads, s.key_dim, s.value_dim)),
      states(s.output<T>(s.heads, chunks * size.dim, s.value_dim)),
      totals(s.output<T>(s.heads, chunks * size.dim, 1)) {
  std::fill(scale.data.begin(), scale.data.end(), s.scale<T>(problem, p));
}

template <class T>
void ChannelSums<T>::write() {
  updates = shape.output<T>(shape.heads, chunks * size.dim, shape.value_dim);
  with_size(size, [&]<int C, int D>() {
    host_launch<ChannelUpdates<HostBlock<T>, C, D, D>, T>(
        launch(0), {k.in(), v.in(), log_decay.in(), updates.out(), totals.row_out(), shape.len, shape.group, blocks},
        items(), by_chunk());
  });
}

template <class T>
void ChannelSums<T>::read(const HostArray<T>& u) {
  with_size(size, [&]<int C, int D>() {
    host_launch<ChannelOutputs<HostBlock<T>, C, D, D>, T>(
        launch(2),
        {q.in(), k.in(), u.in(), states.in(), log_decay.in(), scale.row_in(), o.out(), shape.group, shape.shared_heads,
         blocks},
        items(), by_chunk());
  });
}

template <class T>
void ChannelSums<T>::read_backward(const HostArray<T>& o_cotangent) {
  updates = shape.output<T>(shape.heads, chunks * size.dim, shape.value_dim), adjoints = updates;
  du = shape.output<T>(shape.heads, shape.len, shape.value_dim), dv = du;
  dinitial_state = shape.output<T>(shape.heads, shape.key_dim, shape.value_dim);
  with_size(size, [&]<int C, int D>() {
    host_launch<ChannelReads<HostBlock<T>, C, D, D>, T>(launch(3),
                                                        {q.in(), k.in(), o_cotangent.in(), log_decay.in(),
                                                         scale.row_in(), updates.out(), du.out(), shape.group, blocks},
                                                        items(), by_chunk());
  });
}

template <class T>
void ChannelSums<T>::differentiate(const HostArray<T>& o_cotangent, const WrittenErrors<T>* errors) {
  const int parts = shape.heads * blocks;
  const HostArray<T> none;
  const WrittenErrors<T> written = errors != nullptr ? *errors : WrittenErrors<T>{v, none, none};
  dq = shape.output<T>(parts, shape.len, shape.key_dim), dk = dq, dlog_decay = dq;
  dbeta = shape.output<T>(parts, errors != nullptr ? shape.len : 0, 1);
  with_size(size, [&]<int C, int D>() {
    const auto run = [&]<bool Errors>() {
      host_launch<ChannelGradients<HostBlock<T>, C, D, D, Errors>, T>(
          launch(5),
          {q.in(), k.in(), written.u.in(), states.in(), adjoints.in(), o_cotangent.in(), log_decay.in(), scale.row_in(),
           du.in(), v.in(), written.gradients.in(), written.beta.row_in(), dq.out(), dk.out(), dv.out(),
           dlog_decay.out(), dbeta.row_out(), shape.group, blocks},
          items(), by_chunk());
    };
    errors != nullptr ? run.template operator()<true>() : run.template operator()<false>();
  });
}

template <class T>
Arrays ChannelSums<T>::outputs() const {
  return {{"o", o.array()}, {"final_state", final_state.array()}};
}

template <class T>
Arrays ChannelSums<T>::gradients() const {
  return {{"q", sum_parts(launch(6), "part", "out", dq, blocks, q).array()},
          {"k", sum_parts(launch(6), "part", "out", dk, blocks, k).array()},
          {"v", dv.array()},
          {"log_decay", sum_parts(launch(7), "dlog_decay", "dlog_decay", dlog_decay, blocks, log_decay).array()},
          {"initial_state", dinitial_state.array()}};
}

template struct ChannelSums<double>;
template struct ChannelSums<long double>;

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
