#pragma once
// How large the terms of a room's reference are.
#include <string_view>
#include <utility>
#include <vector>

#include "oracles/core/bind.hpp"
#include "oracles/core/oracle.hpp"
#include "oracles/multiword/parallel.hpp"
#include "oracles/scalars/sized.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// By their names in a report: "o", "d_q".
inline Arrays reported_sizes(const BasicAnswer<Sized>& answered) {
  return flat(
      detail::convert_answer<double>([](std::string_view, const Sized& x) { return x.rounded_at(); }, answered));
}

/// As Room::term_sizes: heads on several threads, added up in their order.
template <class M>
Arrays term_sizes_of(const Problem& problem, const HeldIn& numbers, int threads) {
  struct Found {
    bool is_gradient;
    HeadTensor where;
    std::vector<Sized> data;
  };
  const Binding<M, double> binding(problem);
  std::vector<std::vector<Found>> of_head(static_cast<std::size_t>(binding.heads().own));
  words::in_parallel(of_head.size(), threads, [&](std::size_t head) {
    Sized::hold_in(numbers);
    answer_head<M, Sized>(binding, static_cast<int>(head), !problem.cotangents.empty(),
                          [&](bool is_gradient, const HeadTensor& where, const std::vector<Sized>& data) {
                            of_head[head].push_back({is_gradient, where, data});
                          });
  });
  Sized::hold_in(numbers);
  BasicAnswer<Sized> all;
  for (int head = 0; head < binding.heads().own; ++head)
    for (const Found& one : std::exchange(of_head[static_cast<std::size_t>(head)], {}))
      detail::add_block(one.is_gradient ? all.gradients : all.outputs, binding.heads(), head, one.where, one.data);
  return reported_sizes(all);
}

}  // namespace assay
