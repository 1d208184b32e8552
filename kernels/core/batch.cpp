#include "kernels/core/batch.hpp"

#include "kernels/core/pack.hpp"
#include "reference/core/error.hpp"
#include "reference/core/inputs.hpp"

namespace assay {
namespace pack {
namespace {

/// The axis of tokens comes first, after that of heads if there is one; states have another axis there.
std::string difference(std::string_view kind, const Arrays& first, const Arrays& other, std::size_t lead) {
  for (const auto& [name, array] : other)
    if (!first.contains(name)) return text("has the ", kind, " '", name, "', sequence 0 has not");
  for (const auto& [name, array] : first) {
    const auto it = other.find(name);
    if (it == other.end()) return text("has no ", kind, " '", name, "', sequence 0 has");
    std::vector<int> a = array.shape, b = it->second.shape;
    for (std::vector<int>* shape : {&a, &b})
      if (lead < shape->size()) (*shape)[lead] = 0;
    if (a != b) return text("differs from sequence 0 in the ", kind, " '", name, "' by more than its length");
  }
  return "";
}

}  // namespace

std::string obstacle(std::span<const Problem> problems) {
  for (std::size_t s = 1; s < problems.size(); ++s) {
    const Problem &first = problems[0], &other = problems[s];
    // Every room has values, [T][V] or [H][T][V].
    const auto values = first.inputs.find("v");
    const std::size_t lead = values != first.inputs.end() && values->second.shape.size() == 3 ? 1 : 0;
    std::string why = first.params == other.params ? "" : "has other parameters than sequence 0";
    if (why.empty()) why = difference("input", first.inputs, other.inputs, lead);
    if (why.empty()) why = difference("cotangent", first.cotangents, other.cotangents, lead);
    if (!why.empty()) return text("sequence ", s, ' ', why);
  }
  return "";
}

std::vector<Answer> run_batch(std::span<const Problem> problems,
                              const std::function<std::string(const Problem&)>& form_obstacle,
                              const std::function<Answer(const Problem&)>& form) {
  const std::string why_no_batch = obstacle(problems);
  require(why_no_batch.empty(), why_no_batch);
  for (std::size_t s = 0; s < problems.size(); ++s) {
    const std::string why = form_obstacle(problems[s]);
    require(why.empty(), "sequence ", s, ": ", why);
  }
  std::vector<Answer> answers(problems.size());
  run(static_cast<int>(problems.size()), [&](int s) {
    const auto at = static_cast<std::size_t>(s);
    answers[at] = form(problems[at]);
  });
  return answers;
}

}  // namespace pack

std::string kind_of(const Problem& problem) {
  std::string kind = flags_of(problem.params);
  for (const Arrays* arrays : {&problem.inputs, &problem.cotangents})
    for (const auto& [name, array] : *arrays) kind += text(' ', name, array.shape.empty() ? 0 : array.shape.back());
  return kind;
}

std::vector<Answer> run_packed(const KernelForm& form, std::span<const Problem> problems, const Policy& policy,
                               int tile) {
  require(policy.stats == nullptr && policy.asked == nullptr, "a pack: its sequences' roundings cannot be counted");
  return pack::run_batch(problems, form.obstacle, [&](const Problem& p) { return form.run(p, policy, tile); });
}

}  // namespace assay
