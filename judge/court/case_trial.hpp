#pragma once
// A case on trial: whose contract counts, what the oracle answers to it, and how a given answer is judged.
#include <functional>
#include <string>
#include <vector>

#include "files/problem_file.hpp"
#include "judge/contract/contract.hpp"
#include "judge/court/evidence.hpp"
#include "judge/court/judge_rows.hpp"
#include "judge/sigma/expected.hpp"
#include "kernels/core/kernel_room.hpp"

namespace assay {

/// The standard by which a case is judged; the case decides on fields that are empty.
struct Standard {
  std::string mechanism = {};  ///< in place of the case's; "": that one
  /// The kernel whose roundings are allowed, of a program the file of one; "": the first that takes the problem.
  std::string form = {};
  std::string precision = {};                    ///< "": that of the case
  std::string contract = {};                     ///< a name or a file, in place of the precision
  std::string tile = {};                         ///< of the form, as it calls it; "": any, of each tensor
  int threads = 0;                               ///< 0: all cores; the results do not depend on it
  double false_alarms = false_alarm_rate;        ///< probability that a correct kernel fails in any tensor
  bool detects = false;                          ///< whether rows say what the case could have shown
  bool detects_of_wrong = true;                  ///< of an answer that fails, too, where the model decides
  bool both = false;                             ///< whether the contract is asked whatever the model says
  bool strict = false;                           ///< whether a tensor in which there is nothing to see is VACUOUS
  bool limits_alone = false;                     ///< as Trial::limits_alone
  std::size_t large = most_numbers_with_faults;  ///< of numbers, as Trial::large
  bool strict_dtypes = false;  ///< whether an answer may not be stored in fewer bits than the contract stores it
};

class CaseTrial {
 public:
  /// `where` names the case in messages. Throws InputError if it poses no problem that a kernel of this build answers,
  /// or if it is not clear which contract counts.
  /// `parts` are those of a larger case that `stored` is.
  CaseTrial(Safetensors stored, Standard standard, std::string where, std::optional<SampledParts> parts = {});
  CaseTrial(const CaseTrial&) = delete;
  CaseTrial& operator=(const CaseTrial&) = delete;
  ~CaseTrial() = default;

  /// Whether nothing speaks against the problem, and so little against these tensors, that the oracle need not be asked
  /// before a kernel is run. Throws InputError if no form fits.
  bool is_admitted(const std::vector<std::string>& tensors);
  /// Asks the oracle, then looks for the form. Throws InputError if there is no answer, or no form that fits. The
  /// oracle's answer, and what is learnt later, is kept in `cache`, or comes from there; null: nowhere.
  void prepare(const PartDone& done = {}, Cache* cache = nullptr);

  const ProblemFile& file() const { return file_; }
  /// The shape of the whole case, where parts of it are judged.
  Shape shape() const;
  /// Its form is null where none fits and the model alone judges.
  const KernelUnderTest& kernel() const { return kernel_; }
  /// A contract that was asked for decides, and so does a tile shape, which only contracts know, and a form of a
  /// program; else the model.
  Decides decides() const;
  /// Whether the form is a program that its user wrote.
  bool is_by_program() const { return kernels_ == nullptr && kernel_.form != nullptr; }
  const Oracle& oracle() const { return oracle_; }
  /// The tile shapes that the answer may come from, at least one where there is a form.
  const std::vector<int>& tiles() const { return tiles_; }
  /// With that tile shape; "": the first.
  KernelUnderTest kernel_at(const std::string& tile) const;
  /// "bf16, as q is stored" where neither the case nor the standard says it; else "".
  const std::string& precision_guess() const { return precision_guess_; }
  bool strict_dtypes() const { return standard_.strict_dtypes; }
  /// "--form chunkwise --precision bf16"
  std::string flags() const;
  /// Throws InputError if there are no such tensors.
  void require_tensors(const std::vector<std::string>& names) const;

  /// Before the oracle is asked: throws as read() and require_tensors() do where an answer has not what the case asks
  /// for, if its room knows the shapes of answers.
  void admit(Safetensors& answer, const std::vector<std::string>& tensors, const std::string& source);
  /// The tensors of an answer that are named, or all if none is; `source` names it in messages.
  GivenAnswer read(Safetensors answer, const std::vector<std::string>& tensors, const std::string& source) const;
  /// Judges what `got` has of the tensors that `wanted` holds; `command` judges them all again. Rows under other
  /// contracts that were asked for are kept in `others`, if there is one: by the next question they are known.
  std::vector<ReportRow> judge(const GivenAnswer& got, const std::function<bool(const std::string&)>& wanted,
                               const std::string& command, OtherContracts* others = nullptr,
                               const Phase& phase = {}) const;
  /// A named contract under which none of these tensors fails, if there is one; null, too, once `stop` says so.
  const Contract* other_contract(const GivenAnswer& got, const std::function<bool(const std::string&)>& wanted,
                                 OtherContracts& others, const std::function<bool()>& stop) const;
  /// The named contracts, beside its own, under which all of these tensors pass; those that `stop` leaves time for.
  std::vector<std::string> kept_contracts(const GivenAnswer& got, const std::function<bool(const std::string&)>& wanted,
                                          const std::function<bool()>& stop) const;

 private:
  void choose_form();
  bool judges_gradients() const { return kernel_.form == nullptr || kernel_.form->has_gradients; }
  void prove_form();
  std::vector<OtherForm> other_forms() const;
  Trial trial_of(const GivenAnswer& got) const;
  ReportRow common_row(const std::string& command) const;

  Standard standard_;
  std::string where_;
  ProblemFile file_;
  const KernelRoom* kernels_;  ///< null of a program
  std::string precision_guess_;
  Contract contract_;
  KernelUnderTest kernel_;
  std::shared_ptr<const KernelForm> of_program_;  ///< the form, where it is a program's
  std::vector<int> tiles_;
  std::string unfit_;  ///< why no form fits
  Oracle oracle_;
  std::vector<NotJudged> without_gradients_;  ///< gradients that the form does not have
  Cache* cache_ = nullptr;
  std::string digest_;  ///< of the problem, if there is a cache
};

}  // namespace assay
