#pragma once
// Heads side by side in packs: every number with its bound. Included by one translation unit per width alone.
#include <algorithm>

#include "language/answers/answer_body.hpp"
#include "language/evaluate/fused.hpp"
#include "oracles/multiword/parallel.hpp"

namespace assay::language {

namespace detail {

/// The heads of one pack; where there are fewer than lanes, again and again.
struct Lanes {
  std::array<int, words::pack_size> head{};
  int count = 0;

  static Lanes of(int first, int count) {
    Lanes lanes{{}, count};
    for (int i = 0; i < words::pack_size; ++i) lanes.head[static_cast<std::size_t>(i)] = first + i % count;
    return lanes;
  }
  LaneGroups groups() const { return {count, words::pack_size / count}; }
};

/// The results of the program for some heads.
struct PackAnswer {
  Lanes lanes;
  std::vector<Strides> shapes;
  std::vector<std::vector<WordBall>> numbers;  ///< of every result: head after head
};

template <int W, class X>
PackAnswer answered(const Posed<X>& posed, const Program& program, const Block& body, bool gradients,
                    const Lanes& lanes) {
  using P = Pack<W>;
  const std::vector<Value<P>> results =
      evaluate<P>(body, posed.template values<P>(lanes.head, gradients), posed.sizes(), nullptr, lanes.groups());
  require_finite<P>(posed, program, results, lanes.head[0]);
  PackAnswer answer{lanes, {}, {}};
  for (const Value<P>& value : results) {
    answer.shapes.push_back(value.layout);
    std::vector<WordBall>& numbers = answer.numbers.emplace_back();
    for (int lane = 0; lane < lanes.count; ++lane)
      walk<1>({&value.layout}, [&](std::size_t, const auto& at) { numbers.push_back(value.real(at[0]).number(lane)); });
  }
  return answer;
}

}  // namespace detail

template <int W, class X>
BasicAnswer<WordBall> answer_in_packs(const Posed<X>& posed, bool gradients, int threads) {
  const Mechanism& mechanism = posed.mechanism();
  const Program& program = mechanism.asked(gradients);
  detail::require_memory(program, posed.sizes(), sizeof(Pack<W>));
  const std::shared_ptr<const Block> body = fused(program.body);
  const int size = words::pack_size, packs = (posed.heads() + size - 1) / size;
  std::vector<std::vector<detail::PackAnswer>> found(static_cast<std::size_t>(packs));
  words::in_parallel(found.size(), threads, [&](std::size_t i) {
    const int first = static_cast<int>(i) * size, count = std::min(size, posed.heads() - first);
    try {
      found[i].push_back(detail::answered<W>(posed, program, *body, gradients, detail::Lanes::of(first, count)));
    } catch (const Divided&) {
      for (int head = first; head < first + count; ++head)
        found[i].push_back(detail::answered<W>(posed, program, *body, gradients, detail::Lanes::of(head, 1)));
    }
  });
  BasicAnswer<WordBall> result;
  for (const auto& pack : found)
    for (const detail::PackAnswer& part : pack)
      for (std::size_t r = 0; r < part.shapes.size(); ++r)
        for (int lane = 0; lane < part.lanes.count; ++lane) {
          const std::size_t n = part.shapes[r].count(), at = n * static_cast<std::size_t>(lane);
          const bool output = r < mechanism.program.outputs.size();
          detail::add_head(
              output ? result.outputs : result.gradients,
              detail::place_of(posed, r, part.lanes.head[static_cast<std::size_t>(lane)]), part.shapes[r],
              [&](std::size_t i) { return part.numbers[r][at + i]; },
              [](const WordBall& a, const WordBall& b) { return add(W, a, b); });
        }
  return result;
}

}  // namespace assay::language
