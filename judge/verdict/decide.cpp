#include "judge/verdict/decide.hpp"

namespace assay {

Judgement by_closer_limits(const Judgement& contract, const Expected* of_contract, const Judgement& model,
                           const Expected& of_model, double fails, const std::vector<double>& got) {
  if (contract.verdict != Verdict::vacuous && contract.verdict != Verdict::unseen) return contract;
  Verdict shown = contract.verdict;
  if (model.verdict == Verdict::undecided)
    shown = judge(with_limits(of_model, fails), got).verdict;
  else if (model.verdict == Verdict::fail && of_contract != nullptr)
    shown = judge(with_limits(*of_contract, wide_margin), got).verdict;
  if (shown != Verdict::pass) return contract;
  Judgement kept = contract;
  kept.verdict = shown, kept.reason.clear();
  return kept;
}

Verdict beside_contract(const Judgement& model, const Verdict* contract) {
  if (contract == nullptr || model.verdict != Verdict::fail) return model.verdict;
  if (*contract == Verdict::unsupported && model.not_finite) return Verdict::unseen;
  return *contract == Verdict::pass ? Verdict::undecided : Verdict::fail;
}

Basis decide(Decides decides, const Judgement& model, const Judgement* contract, const FormAllows& other_form,
             const Allows& other_contract) {
  if (decides == Decides::contract) return Basis::contract;
  if (contract == nullptr || passes(model.verdict)) return Basis::model;
  // The draws do not know every way to sum, and small elements behind a closed gate show it.
  const double margin = model.verdict == Verdict::fail ? wide_margin : 1;
  const bool kept = contract->verdict == Verdict::pass;
  if (kept && (margin == 1 || contract->excess <= margin)) return Basis::contract;
  if (model.verdict == Verdict::vacuous) return Basis::model;  // what no algorithm answers no contract explains
  if (!kept && other_form(margin)) return Basis::other_form;
  return model.verdict != Verdict::fail && other_contract() ? Basis::other_contract : Basis::model;
}

}  // namespace assay
