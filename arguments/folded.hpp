#pragma once
// A plan's answer in any scalar: the pieces' answers, each number where it belongs, gradients of what several read
// summed.
#include <deque>

#include "arguments/plan.hpp"
#include "language/answers/answer.hpp"

namespace assay::arguments {

/// A plan with its problems at the door of the plan's program, or of another one that takes the same. Throws Refusal as
/// that does. X is double or a decimal string.
template <class X>
class BasicFolded {
 public:
  /// Keeps references to both.
  explicit BasicFolded(const Plan& plan) : BasicFolded(plan, plan.mechanism) {}
  BasicFolded(const Plan& plan, const language::Mechanism& mechanism);

  const Plan& plan() const { return plan_; }
  const std::deque<language::Posed<X>>& posed() const { return posed_; }
  /// Those at the door, one for every sequence.
  const std::deque<BasicProblem<X>>& problems() const { return problems_; }
  bool has_cotangents() const { return !plan_.cotangents.empty(); }

 private:
  const Plan& plan_;
  std::deque<BasicProblem<X>> problems_;
  std::deque<language::Posed<X>> posed_;
};
using Folded = BasicFolded<std::string>;

/// Outputs and gradients of the case from those of its pieces, `own`(n); `sum` adds two numbers. Numbers that no piece
/// says are N() here; the plan knows which of these are undefined.
template <class N, class Own, class Sum>
BasicAnswer<N> folded_answer(const Plan& plan, bool gradients, Own&& own_answer, Sum&& add) {
  BasicAnswer<N> whole;
  for (const auto& [name, shape] : plan.outputs) {
    BasicArray<N>& array = whole.outputs[name];
    array.shape = shape, array.data.assign(array.count(), N());
  }
  for (const std::string& name : plan.gradients) {
    if (!gradients) break;
    BasicArray<N>& array = whole.gradients[name];
    array.shape = plan.inputs.at(name).shape, array.data.assign(array.count(), N());
  }
  for (std::size_t n = 0; n < plan.pieces.size(); ++n) {
    const BasicAnswer<N> own = own_answer(n);
    for (const auto& [name, one] : plan.pieces[n].outputs) {
      const auto output = own.outputs.find(name);
      for (const auto& [from, to] : one.pairs) whole.outputs.at(one.to).data[to] = output->second.data[from];
    }
    for (const auto& [name, one] : plan.pieces[n].inputs) {
      const auto gradient = own.gradients.find(name);
      if (gradient == own.gradients.end() || !plan.gradients.contains(one.from)) continue;
      BasicArray<N>& sum = whole.gradients.at(one.from);
      for (std::size_t i = 0; i < one.at.size(); ++i)
        sum.data[one.at[i]] = add(sum.data[one.at[i]], gradient->second.data[i]);
    }
  }
  return whole;
}

/// As above, in S.
template <class S, class X>
BasicAnswer<S> answer(const BasicFolded<X>& folded, bool gradients) {
  return folded_answer<S>(
      folded.plan(), gradients, [&](std::size_t n) { return language::answer<S>(folded.posed()[n], gradients); },
      [](const S& a, const S& b) { return S(a + b); });
}

}  // namespace assay::arguments
