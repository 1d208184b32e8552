#include "judge/sigma/by_model.hpp"

#include <optional>

#include "judge/sigma/model.hpp"
#include "judge/sigma/other_algorithms.hpp"
#include "reference/core/error.hpp"

namespace assay {

Judgement judge_by_model(const Expected& expected, Format precision, const std::vector<double>& got, int threads,
                         OtherAlgorithms* others, const std::string& tensor, bool has_contracts) {
  Judgement j = judge(expected, got, threads);
  const ModelFactor factor = model_factor(precision);
  if (j.verdict == Verdict::fail && others != nullptr)
    if (const std::optional<Expected> kept = others->with_terms(tensor, expected)) j = judge(*kept, got, threads);
  if (j.verdict == Verdict::fail && others != nullptr)
    if (const std::optional<Expected> kept = others->below_normal(tensor, expected)) j = judge(*kept, got, threads);
  if (j.verdict != Verdict::fail) return j;
  const char* const advice =
      has_contracts ? "--contract says which roundings are its own" : "another input may show more";
  if (j.excess * factor.passes <= factor.fails) {
    j.verdict = Verdict::undecided, j.advice = advice;
    j.reason = text(j.excess * factor.passes, " times what the precision's roundings do in the recurrence itself: a ",
                    "chunk algorithm that cancels may do this");
    return j;
  }
  if (others == nullptr) return j;
  const auto leave_open = [&](const std::string& where) {
    j.verdict = Verdict::undecided, j.advice = advice;
    j.reason = text(j.excess * factor.passes, " times what the precision's roundings do ", where);
    j.excess = factor.fails / factor.passes;
    return j;
  };
  const auto excess_by = [&](const Expected& other, const std::vector<double>& answer) {
    return judge(other, answer, threads).excess * factor.passes;
  };
  // Limits that allow zeros allow everything.
  const auto allows = [&](const Expected& other) {
    return excess_by(other, got) <= factor.fails && excess_by(other, std::vector<double>(got.size())) > factor.fails;
  };
  if (const std::optional<Expected> terms = others->in_terms(tensor, expected); terms && allows(*terms))
    return leave_open(
        text("in the recurrence itself, but ", excess_by(*terms, got), " times what they do in the terms of its sums"));
  if (const Expected* one = others->in_one_chunk(tensor); one != nullptr && allows(*one)) {
    if (Judgement by_one = judge(*one, got, threads); by_one.verdict == Verdict::pass) return by_one;
    return leave_open(text("in chunks of ", usual_chunk, " tokens, but ", excess_by(*one, got),
                           " times what they do where the sequence is one chunk"));
  }
  if (const Expected* stored = others->in_stored_states(tensor)) {
    const double excess = judge(*stored, got, threads).excess;
    if (excess * factor.passes <= factor.fails)
      return leave_open(text("where states are multiplied as wide as they are summed, ", excess * factor.passes,
                             " times what they do where states are stored in ", name_of(precision), " before"));
  }
  if (const std::optional<Expected> ours = others->as_ours(tensor, expected)) {
    const double excess = judge(*ours, got, threads).excess;
    if (excess <= 1)
      return leave_open(text("in the recurrence itself, but ", excess,
                             " of what assay's own kernel is allowed that errs most on these inputs"));
  }
  return j;
}

}  // namespace assay
