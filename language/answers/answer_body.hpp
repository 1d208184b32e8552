#pragma once
// The definition of answer: included by one translation unit per scalar alone.
#include <algorithm>
#include <array>
#include <cmath>

#include "language/answers/answer.hpp"
#include "language/answers/by_text.hpp"
#include "language/evaluate/evaluate_body.hpp"
#include "oracles/core/bind.hpp"
#include "oracles/multiword/parallel_sums.hpp"

namespace assay::language {
namespace detail {

/// The random numbers of a draw are those of that head from here on; of a block that is not the program's, its number
/// says which.
template <class S>
void go_to_head(int head, std::uint32_t block = 0) {
  if (PerturbedArithmetic* draw = draw_of<S>()) draw->go_to({static_cast<std::uint32_t>(head), block, 0, 0});
}
inline constexpr std::uint32_t sums_over_heads = std::uint32_t{1} << 29, defaults_of_inputs = std::uint32_t{1} << 30;

}  // namespace detail

template <class X>
template <class S>
Value<S> Posed<X>::value(const Type& type, const Given& given, std::span<const int> heads) const {
  if (type.kind == Kind::integer) return Value<S>::of(Strides{}, std::vector<std::int64_t>{given.whole});
  if (type.kind == Kind::boolean)
    return Value<S>::of(Strides{}, std::vector<Truth>{given.whole != 0 ? Truth::yes : Truth::no});
  const Strides shape = shape_of(type, sizes_);
  std::vector<S> data(shape.count(), S(0));
  if (!given.is_there) return Value<S>::of(shape, std::move(data));  // a cotangent that is not given
  const std::vector<X>& from = given.numbers().data;
  for (std::size_t lane = 0; lane < heads.size(); ++lane) {
    const int block = given.blocks > 0 ? heads[lane] / (heads_ / given.blocks) : 0;
    const std::size_t first = data.size() * static_cast<std::size_t>(block);
    for (std::size_t i = 0; i < data.size(); ++i) {
      if constexpr (Several<S> && std::is_same_v<X, double>)
        data[i].take(static_cast<int>(lane), from[first + i]);
      else if constexpr (Several<S>)
        data[i].take(static_cast<int>(lane), from_decimal<S>(from[first + i]));
      else if constexpr (std::is_same_v<X, double>)
        data[i] = S(from[first + i]);
      else
        data[i] = from_decimal<S>(from[first + i]);
    }
  }
  return Value<S>::of(shape, std::move(data));
}

template <class X>
template <class S>
std::vector<Value<S>> Posed<X>::values(std::span<const int> heads, bool cotangents) const {
  const Program& program = mechanism_.program;
  std::vector<Value<S>> list;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    detail::go_to_head<S>(heads[0], detail::defaults_of_inputs + static_cast<std::uint32_t>(i));
    list.push_back(given_[i].is_there ? value<S>(program.inputs[i].type, given_[i], heads)
                                      : evaluate<S>(*program.inputs[i].missing, list, sizes_).front());
  }
  for (std::size_t i = 0; cotangents && i < cotangents_.size(); ++i)
    list.push_back(value<S>(program.body->result_type(i), cotangents_[i], heads));
  return list;
}

namespace detail {

/// Adds one head's numbers, `number`(i) of them, to the array's block; those of its first head are taken as they are.
template <class N, class F, class A>
void add_head(BasicArrays<N>& to, const Place& place, const Strides& shape, F&& number, A&& sum) {
  const auto [entry, fresh] = to.try_emplace(place.name);
  BasicArray<N>& array = entry->second;
  if (fresh) {
    array.shape = place.shape(shape);
    array.data.assign(array.count(), N());
  }
  const std::size_t n = shape.count(), first = n * static_cast<std::size_t>(place.block);
  for (std::size_t i = 0; i < n; ++i) {
    N& here = array.data[first + i];
    here = place.first ? N(number(i)) : sum(here, number(i));
  }
}

/// Element `flat` of a result does not exist, or is beyond the scalar. Its token is to blame; of a result that has
/// none, that of the operation.
template <class S, class X>
[[noreturn]] void refuse(const Posed<X>& posed, const Program& program, std::size_t result, const Strides& shape,
                         std::size_t flat, int head, bool exists) {
  const std::array<int, 1> heads{head};
  std::optional<Culprit> culprit;
  evaluate<S>(*program.body,
              posed.template values<S>(heads, program.inputs.size() > posed.mechanism().program.inputs.size()),
              posed.sizes(), &culprit);
  std::string what = assay::detail::element_text(program.outputs[result], lengths_of(shape), flat);
  if (posed.head_axis()) what += text(" of head ", head);
  const int own = posed.mechanism().walks_tokens(program.body->result_type(result))
                      ? static_cast<int>(flat / (shape.count() / static_cast<std::size_t>(shape.length[0])))
                      : -1;
  if (!culprit) throw Refusal(Status::nonfinite, own, what + ": not a finite number");
  std::string element;
  for (const int i : culprit->element) element += (element.empty() ? "" : ", ") + std::to_string(i);
  std::string message = text(what, exists ? " is beyond " + scalar_name<S>() : " is undefined", ": ",
                             name_of(culprit->op), element.empty() ? "" : " of element [" + element + "]");
  if (culprit->token >= 0) message += text(" of token ", culprit->token);
  const bool domain = !exists && (culprit->op == Op::log || culprit->op == Op::sqrt);
  throw Refusal(domain ? Status::domain : Status::nonfinite, own >= 0 ? own : culprit->token, message);
}

/// Throws Undecided, Refusal if a number is none: of results with tokens first.
template <class S, class X>
void require_finite(const Posed<X>& posed, const Program& program, const std::vector<Value<S>>& results, int head) {
  for (const bool with_tokens : {true, false})
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (results[r].reals == nullptr || posed.mechanism().walks_tokens(program.body->result_type(r)) != with_tokens)
        continue;
      walk<1>({&results[r].layout}, [&](std::size_t flat, const auto& at) {
        using std::isfinite;
        const S& x = results[r].real(at[0]);
        if constexpr (std::is_same_v<S, Ball> || Several<S>) {
          if (!isfinite(x)) throw Undecided();
        } else if (!isfinite(x)) {
          refuse<S>(posed, program, r, results[r].layout, flat, head, !is_undefined(x));
        }
      });
    }
}

void require_memory(const Program& program, const Sizes& sizes, std::size_t bytes);

/// Adds a head's results, those of a program or of its gradient.
template <class S, class X>
void add_results(const Posed<X>& posed, const std::vector<Value<S>>& results, int head, BasicAnswer<S>& answer) {
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (results[r].reals == nullptr) continue;
    const bool output = r < posed.mechanism().program.outputs.size();
    const std::vector<S>& data = results[r].reals->list;
    const Strides& layout = results[r].layout;
    const bool is_dense = layout.is_dense();
    std::vector<std::ptrdiff_t> where;
    if (!is_dense) walk<1>({&layout}, [&](std::size_t, const auto& at) { where.push_back(at[0]); });
    const auto number = [&](std::size_t i) {
      return data[static_cast<std::size_t>(is_dense ? layout.offset + static_cast<std::ptrdiff_t>(i) : where[i])];
    };
    go_to_head<S>(head, sums_over_heads + static_cast<std::uint32_t>(r));
    PerturbedArithmetic* const draw = draw_of<S>();
    const Place place = place_of(posed, r, head);
    if constexpr (std::is_same_v<S, Emulated>)
      if (draw != nullptr && !output && place.blocks == 0 && layout.count() == 1)
        draw->add_term("d_" + place.name, number(0).value, head % (posed.heads() / posed.groups_apart()) == 0);
    add_head(
        output ? answer.outputs : answer.gradients, place, layout,
        [&](std::size_t i) {
          if (draw != nullptr && !place.first) draw->at_element(i);
          return number(i);
        },
        [](const S& a, const S& b) { return S(a + b); });
  }
}

/// The answer of all heads' results, but for those that `result` has already, which have no numbers.
template <class S, class X>
BasicAnswer<S> put_together(const Posed<X>& posed, bool gradients, std::vector<std::vector<Value<S>>> of_head,
                            BasicAnswer<S> result = {}) {
  const Program& program = posed.mechanism().asked(gradients);
  for (int head = 0; head < posed.heads(); ++head) {
    const std::vector<Value<S>> results = std::move(of_head[static_cast<std::size_t>(head)]);
    require_finite<S>(posed, program, results, head);
    add_results(posed, results, head, result);
  }
  return result;
}

/// The answer of drawn results, of each the numbers of all heads: those that follow the heads are taken as they lie.
inline BasicAnswer<Emulated> put_together(const Posed<double>& posed, bool gradients, int threads,
                                          std::vector<std::vector<Emulated>> drawn) {
  const Program& program = posed.mechanism().asked(gradients);
  const auto heads = static_cast<std::size_t>(posed.heads());
  const bool all_finite = std::ranges::all_of(drawn, [&](const std::vector<Emulated>& numbers) {
    return words::all_in_parallel(numbers.size(), threads,
                                  [&](std::size_t i) { return std::isfinite(numbers[i].value); });
  });
  BasicAnswer<Emulated> answer;
  std::vector<std::vector<Value<Emulated>>> of_head(heads);
  for (std::size_t r = 0; r < drawn.size(); ++r) {
    const Strides shape = shape_of(program.body->result_type(r), posed.sizes());
    const Place place = place_of(posed, r, 0);
    const bool follows = all_finite && place.blocks == posed.heads();
    if (follows) {
      BasicArray<Emulated>& array =
          (r < posed.mechanism().program.outputs.size() ? answer.outputs : answer.gradients)[place.name];
      array.shape = place.shape(shape);
      array.data = std::move(drawn[r]);
    }
    for (std::size_t head = 0; head < heads; ++head) {
      const auto from = drawn[r].begin() + static_cast<std::ptrdiff_t>(follows ? 0 : shape.count() * head);
      const auto count = static_cast<std::ptrdiff_t>(follows ? 0 : shape.count());
      of_head[head].push_back(follows ? Value<Emulated>()
                                      : Value<Emulated>::of(shape, std::vector<Emulated>(from, from + count)));
    }
  }
  return put_together(posed, gradients, std::move(of_head), std::move(answer));
}

/// Heads on up to `threads` threads, added up in their order. What `enter`(head) returns lives while a head is
/// answered.
template <class S, class X, class F>
BasicAnswer<S> answer_by_heads(const Posed<X>& posed, bool gradients, int threads, F&& enter) {
  const Program& program = posed.mechanism().asked(gradients);
  require_memory(program, posed.sizes(), sizeof(S));
  std::vector<std::vector<Value<S>>> of_head(static_cast<std::size_t>(posed.heads()));
  words::in_parallel(of_head.size(), threads, [&](std::size_t head) {
    [[maybe_unused]] const auto entered = enter(head);
    const std::array<int, 1> heads{static_cast<int>(head)};
    std::vector<Value<S>> given = posed.template values<S>(heads, gradients);
    go_to_head<S>(heads[0]);
    of_head[head] = evaluate<S>(*program.body, std::move(given), posed.sizes());
  });
  return put_together(posed, gradients, std::move(of_head));
}

}  // namespace detail

template <class S, class X>
BasicAnswer<S> answer(const Posed<X>& posed, bool gradients) {
  if constexpr (std::is_same_v<S, Emulated>)
    if (const PerturbedArithmetic* const draw = PerturbedArithmetic::current()) {
      if (auto drawn = drawn_by_text(posed, gradients, *draw))
        return detail::put_together(posed, gradients, draw->threads(), std::move(*drawn));
      return detail::answer_by_heads<S>(posed, gradients, draw->threads(), [&](std::size_t head) {
        return PerturbedArithmetic(*draw, static_cast<std::uint32_t>(head));
      });
    }
  return detail::answer_by_heads<S>(posed, gradients, 1, [](std::size_t) { return 0; });
}

template <class S>
BasicArrays<S> outputs_from(const Posed<double>& posed, const BasicArrays<S>& states) {
  const Program& program = posed.mechanism().program;
  detail::require_memory(program, posed.sizes(), sizeof(S));
  BasicAnswer<S> result;
  for (int head = 0; head < posed.heads(); ++head) {
    const std::array<int, 1> heads{head};
    std::vector<Value<S>> values = posed.template values<S>(heads, false);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto state = states.find(program.inputs[i].name);
      if (state == states.end()) continue;
      const std::size_t n = values[i].layout.count();
      require(state->second.data.size() == n * static_cast<std::size_t>(posed.heads()), state->first,
              ": the segment before has left another shape");
      const auto from = state->second.data.begin() + static_cast<std::ptrdiff_t>(n * static_cast<std::size_t>(head));
      values[i] = Value<S>::of(values[i].layout.dense(), std::vector<S>(from, from + static_cast<std::ptrdiff_t>(n)));
    }
    const std::vector<Value<S>> results = evaluate<S>(*program.body, std::move(values), posed.sizes());
    detail::require_finite<S>(posed, program, results, head);
    detail::add_results(posed, results, head, result);
  }
  return std::move(result.outputs);
}

}  // namespace assay::language
