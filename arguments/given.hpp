#pragma once
// A record of a case file, asked for one argument at a time.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/plan.hpp"
#include "files/case_file.hpp"

namespace assay::arguments {

/// The tensors of a case that is no record: numbers exactly, as decimals; integers and truth values, too.
struct Tensors {
  std::map<std::string, Numbers, std::less<>> inputs, cotangents;
  int batch = 1;                                   ///< sequences of one length each, which cu_seqlens say, too
  std::set<std::string, std::less<>> by_sequence;  ///< those of which every sequence has its own heads: first of axis 0
};

/// The contents of a record. Every function throws Refusal with one sentence that names the argument.
class Given {
 public:
  /// With `tensors`, these are in place of the record's. Keeps references to both. Refuses parameters, inputs and
  /// cotangents that are no objects.
  explicit Given(const Json& record, const Tensors* tensors = nullptr);

  std::string mechanism() const;
  /// The names under "params", "inputs" or "cotangents".
  std::vector<std::string> names(const char* part) const;
  bool has_param(std::string_view name) const { return find("params", name) != nullptr; }
  bool has_input(std::string_view name) const {
    return tensors_ != nullptr ? tensors_->inputs.contains(name) : find("inputs", name) != nullptr;
  }
  /// Whether its tensors are those of a file.
  bool is_file() const { return tensors_ != nullptr; }
  /// Sequences that are a batch; 1 of a record.
  int batch() const { return tensors_ == nullptr ? 1 : tensors_->batch; }
  /// Whether every sequence of the batch has its own of that input.
  bool is_by_sequence(std::string_view name) const {
    return tensors_ != nullptr && tensors_->by_sequence.contains(name);
  }

  /// One of `choices`, of which the first is the default.
  std::string choice(std::string_view name, const std::vector<std::string>& choices) const;
  /// The choices of every param that was asked for so far and is one of some words, or true or false.
  const std::map<std::string, std::vector<std::string>>& choices() const { return choices_; }
  bool truth(std::string_view name, bool missing) const;
  /// An integer of at least `least`.
  std::optional<int> integer(std::string_view name, int least) const;
  /// A finite number, as written. Any other is refused with `status`.
  std::optional<std::string> number(std::string_view name, Status status = Status::nonfinite) const;
  /// All params that are a number, a word or a truth value.
  Params params() const;

  std::optional<Numbers> numbers(std::string_view name) const { return tensor("inputs", name, std::string(name)); }
  std::optional<Numbers> cotangent(std::string_view name) const {
    return tensor("cotangents", name, "cotangents." + std::string(name));
  }
  /// A list of integers; `least`: what none of them may be below.
  std::optional<std::vector<int>> integers(std::string_view name, int least) const;
  /// A list of such lists, which may differ in length.
  std::optional<std::vector<std::vector<int>>> rows_of_integers(std::string_view name) const;
  /// Integers in all their axes.
  std::optional<BasicArray<int>> integer_array(std::string_view name) const;
  /// Truth values as "1" and "0".
  std::optional<Numbers> truths(std::string_view name) const;
  /// Two positive integers under params.
  std::optional<std::pair<int, int>> pair(std::string_view name) const;

 private:
  const Json* find(const char* part, std::string_view name) const;
  /// A tensor of tensors_; null where there is none.
  const Numbers* stored(const char* part, std::string_view name) const;
  /// A tensor as an array of numbers; sentences call it `label`.
  std::optional<Numbers> tensor(const char* part, std::string_view name, const std::string& label) const;

  const Json& record_;
  const Tensors* tensors_;
  mutable std::map<std::string, std::vector<std::string>> choices_;
};

/// -1, 0 or 1, as the number is less than zero, zero or more.
int sign_of(const std::string& number);
/// Whether a < b.
bool is_less(const std::string& a, const std::string& b);

}  // namespace assay::arguments
