#include "judge/verdict/decide.hpp"

namespace assay {

Basis decide(Decides decides, const Judgement& model, const Judgement* contract, const Allows& second_form,
             const Allows& other_contract) {
  if (decides == Decides::contract) return Basis::contract;
  if (contract == nullptr || passes(model.verdict)) return Basis::model;
  // The draws do not know every way to sum, and small elements behind a closed gate show it. Who leaves half of all of
  // the contract's limits unused, those of root mean squares and of sums over slices among them, keeps the contract.
  constexpr double wide_margin = 0.5;
  const bool kept = contract->verdict == Verdict::pass;
  if (model.verdict == Verdict::fail) return kept && contract->excess <= wide_margin ? Basis::contract : Basis::model;
  if (kept) return Basis::contract;
  if (model.verdict == Verdict::vacuous) return Basis::model;  // what no algorithm answers no contract explains
  if (second_form()) return Basis::second_form;
  return other_contract() ? Basis::other_contract : Basis::model;
}

}  // namespace assay
