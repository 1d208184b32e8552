#include "judge/court/blind_spots.hpp"

#include <charconv>
#include <system_error>
#include <utility>
#include <variant>

#include "arguments/file_rooms.hpp"
#include "arguments/registry.hpp"
#include "judge/sigma/by_model.hpp"
#include "judge/sigma/model.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// The case as a kernel with that error would read it.
struct Misread {
  std::string what;
  Problem problem;
  bool may_say_nothing = false;  ///< whether it may be what holds without saying: then it is no error
};

/// "causal", "bthd"; not "30", which a file has as a word, too.
bool is_word(const Param& value) {
  const auto* word = std::get_if<std::string>(&value);
  if (word == nullptr) return std::holds_alternative<bool>(value);
  double x = 0;
  return std::from_chars(word->data(), word->data() + word->size(), x).ec != std::errc{};
}

/// Arguments, and others that say how these are meant and mean nothing without them: they are left out together.
constexpr std::pair<std::string_view, std::string_view> companions[] = {{"l2_norm", "l2_eps"},
                                                                        {"bias", "bias_place"},
                                                                        {"alibi_slopes", "alibi_form"},
                                                                        {"documents_q", "documents_k"},
                                                                        {"q_scale", "scale_block"},
                                                                        {"k_scale", "scale_block"},
                                                                        {"v_scale", "scale_block"},
                                                                        {"q_scale", "scale_layout"},
                                                                        {"k_scale", "scale_layout"},
                                                                        {"v_scale", "scale_layout"},
                                                                        {"b", "beta_gate"},
                                                                        {"b", "beta_scale"},
                                                                        {"topk_indices", "topk_length"},
                                                                        {"topk_indices", "topk_block_size"}};
Problem without(const Problem& right, const std::string& name) {
  Problem rest = right;
  rest.params.erase(name), rest.inputs.erase(name);
  for (const auto& [argument, other] : companions) {
    const bool others_need_it =
        (other == "scale_block" || other == "scale_layout") &&
        (rest.inputs.contains("q_scale") || rest.inputs.contains("k_scale") || rest.inputs.contains("v_scale"));
    if (argument == name && !others_need_it)
      rest.params.erase(std::string(other)), rest.inputs.erase(std::string(other));
  }
  return rest;
}

/// Every argument left out, what is wider than bf16 rounded to it, and rows normalised that are not. No norm is what
/// holds without saying, so that a case which names one says something.
std::vector<Misread> misread(const ProblemFile& file) {
  std::vector<Misread> list;
  const Problem& right = file.problem;
  for (const auto& [name, value] : right.params) {
    if (name == "layout" || name == "scale" || name == "bandwidth") continue;
    list.push_back({name + " left out", without(right, name), is_word(value) && name != "l2_norm"});
  }
  for (const auto& [name, array] : right.inputs) {
    if (arguments::is_argument(name)) list.push_back({name + " left out", without(right, name), false});
    const auto stored = file.dtypes.find(name);
    if (stored == file.dtypes.end() || !(unit_roundoff(Format::bf16) > unit_roundoff(stored->second))) continue;
    Misread rounded{name + " in bf16", right, false};
    for (double& x : rounded.problem.inputs.at(name).data) x = round_to(x, Format::bf16);
    if (rounded.problem.inputs.at(name).data != array.data) list.push_back(std::move(rounded));
  }
  if (!right.params.contains("l2_norm") && right.inputs.contains("k")) {
    list.push_back({"q and k normalised inside", right, false});
    list.back().problem.params["l2_norm"] = std::string("root");
    list.back().problem.params["l2_eps"] = std::string("1e-6");
  }
  return list;
}

Arrays answer_of(const Problem& problem) { return flat(arguments::answer_in_doubles(problem)); }

/// Whether it is no such case, or fails in a tensor.
bool is_shown(const Misread& wrong, const CaseTrial& trial, const std::vector<ReportRow>& rows, const Arrays& right) {
  Arrays answer;
  try {
    answer = answer_of(wrong.problem);
  } catch (const InputError&) {
    return true;  // without that argument others mean nothing
  }
  bool changed = false;
  for (const ReportRow& row : rows) {
    const auto found = answer.find(row.tensor);
    if (row.expected == nullptr || found == answer.end()) continue;
    const std::vector<double>& got = found->second.data;
    if (got.size() != right.at(row.tensor).data.size()) return true;
    if (got == right.at(row.tensor).data) continue;
    changed = true;
    if (judge_by_model(*row.expected, trial.kernel().precision, got).verdict == Verdict::fail) return true;
  }
  return !changed && wrong.may_say_nothing;
}

}  // namespace

std::vector<std::string> blind_spots_of(const CaseTrial& trial, const std::vector<ReportRow>& rows) {
  const ProblemFile& file = trial.file();
  if (!file.has_arguments() || file.refusal) return {};
  const Arrays right = answer_of(file.problem);
  const std::vector<Misread> wrong = misread(file);
  std::vector<char> shown(wrong.size());
  words::in_parallel(wrong.size(), trial.kernel().threads,
                     [&](std::size_t i) { shown[i] = is_shown(wrong[i], trial, rows, right) ? 1 : 0; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < wrong.size(); ++i)
    if (shown[i] == 0) names.push_back(wrong[i].what);
  return names;
}

}  // namespace assay
