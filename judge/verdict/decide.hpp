#pragma once
// Which evidence a tensor's verdict rests on: docs/judge.md, "What it asks".
#include <functional>
#include <vector>

#include "judge/verdict/judge.hpp"

namespace assay {

/// The evidence that is asked first: the model, or a contract that its user has named.
enum class Decides { model, contract };

/// The evidence that a verdict rests on, in the order in which it is asked.
enum class Basis { model, contract, other_form, other_contract };

/// A kernel that leaves half of all of a contract's limits unused, those of root mean squares and of sums over slices
/// among them, keeps it by a wide margin.
inline constexpr double wide_margin = 0.5;

/// The contract's verdict on an answer that the model leaves open or fails. VACUOUS and UNSEEN are said of the data, by
/// the contract's limits; others that the answer has to keep as well may show more. Those are the limits beyond which
/// the model fails, `fails` times as wide as its own, of what it leaves open, and half of the contract's of what it
/// fails. `of_contract` may be null.
Judgement by_closer_limits(const Judgement& contract, const Expected* of_contract, const Judgement& model,
                           const Expected& of_model, double fails, const std::vector<double>& got);

/// The model's verdict on an answer of which the contract says that; null: nothing. A kernel that keeps the contract is
/// correct, however little of it the model knows: FAIL would say that none answers so. And where the contract's own
/// roundings overflow, so do others', and nothing can be seen.
Verdict beside_contract(const Judgement& model, const Verdict* contract);

/// Whether evidence that costs runs of a kernel lets the tensor pass, forms where it uses at most such a part of their
/// limits. It is called at most once, and only if it counts.
using Allows = std::function<bool()>;
using FormAllows = std::function<bool(double margin)>;

/// The evidence that the verdict of a tensor rests on. `contract` is what the kernel's own contract says, or null where
/// it was not asked or no kernel takes the case; `other_form` and `other_contract` ask the same contract in the forms
/// of other algorithms, and other contracts with a name. An answer within the contract's limits is a correct kernel's
/// even if the data show little by them; then the others are asked first.
Basis decide(Decides decides, const Judgement& model, const Judgement* contract, const FormAllows& other_form,
             const Allows& other_contract);

}  // namespace assay
