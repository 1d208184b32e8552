#pragma once
// How large the terms of a room's reference are.
#include <string_view>

#include "oracles/core/bind.hpp"
#include "oracles/core/oracle.hpp"
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
  Sized::hold_in(numbers);
  return reported_sizes(
      answer_by_heads<M, Sized>(Binding<M, double>(problem), !problem.cotangents.empty(), threads, [&](std::size_t) {
        Sized::hold_in(numbers);
        return 0;
      }));
}

}  // namespace assay
