#include "judge/verdict/decide.hpp"

namespace assay {

Judgement by_closer_limits(const Judgement& contract, const Expected* of_contract, const Judgement& model,
                           const Expected& of_model, double fails, const std::vector<double>& got) {
  if (contract.verdict != Verdict::vacuous && contract.verdict != Verdict::unseen) return contract;
  Judgement closer = contract;
  if (model.verdict == Verdict::undecided)
    closer = judge(with_limits(of_model, fails), got);
  else if (model.verdict == Verdict::fail && of_contract != nullptr)
    closer = judge(with_limits(*of_contract, wide_margin), got);
  if (!is_within(closer.verdict)) return contract;
  Judgement kept = contract;
  kept.verdict = closer.verdict, kept.reason = closer.reason, kept.blind_spots = closer.blind_spots;
  kept.accepted_corruptions = closer.accepted_corruptions, kept.rejected_corruptions = closer.rejected_corruptions;
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
  const bool kept = is_within(contract->verdict) && (margin == 1 || contract->excess <= margin);
  if (kept && contract->verdict == Verdict::pass) return Basis::contract;
  if (model.verdict == Verdict::vacuous) return Basis::model;  // what no algorithm answers no contract explains
  if (!kept && other_form(margin)) return Basis::other_form;
  if (model.verdict != Verdict::fail && other_contract()) return Basis::other_contract;
  return kept ? Basis::contract : Basis::model;
}

}  // namespace assay
