#pragma once
// A plan's answer in any scalar: the pieces' answers, each number where it belongs, gradients of what several read
// summed.
#include <deque>

#include "arguments/plan.hpp"
#include "language/answer.hpp"

namespace assay::arguments {

/// A plan with its problems at the program's door. Throws Refusal as that does.
class Folded {
 public:
  /// Keeps a reference to the plan.
  explicit Folded(const Plan& plan);

  const Plan& plan() const { return plan_; }
  const std::deque<language::Posed<std::string>>& posed() const { return posed_; }
  bool has_cotangents() const { return !plan_.cotangents.empty(); }

 private:
  const Plan& plan_;
  std::deque<BasicProblem<std::string>> problems_;
  std::deque<language::Posed<std::string>> posed_;
};

/// Outputs and gradients of the case. What no piece says is zero here; what is undefined of it the plan knows.
template <class S>
BasicAnswer<S> answer(const Folded& folded, bool gradients) {
  const Plan& plan = folded.plan();
  BasicAnswer<S> whole;
  for (const auto& [name, shape] : plan.outputs) {
    BasicArray<S>& array = whole.outputs[name];
    array.shape = shape, array.data.assign(array.count(), S(0));
  }
  for (const std::string& name : plan.gradients) {
    if (!gradients) break;
    BasicArray<S>& array = whole.gradients[name];
    array.shape = plan.inputs.at(name).shape, array.data.assign(array.count(), S(0));
  }
  for (std::size_t n = 0; n < plan.pieces.size(); ++n) {
    const BasicAnswer<S> own = language::answer<S>(folded.posed()[n], gradients);
    for (const auto& [name, one] : plan.pieces[n].outputs) {
      const auto output = own.outputs.find(name);
      for (const auto& [from, to] : one.pairs) whole.outputs.at(one.to).data[to] = output->second.data[from];
    }
    for (const auto& [name, one] : plan.pieces[n].inputs) {
      const auto gradient = own.gradients.find(name);
      if (gradient == own.gradients.end() || !plan.gradients.contains(one.from)) continue;
      BasicArray<S>& sum = whole.gradients.at(one.from);
      for (std::size_t i = 0; i < one.at.size(); ++i)
        sum.data[one.at[i]] = S(sum.data[one.at[i]] + gradient->second.data[i]);
    }
  }
  return whole;
}

}  // namespace assay::arguments
