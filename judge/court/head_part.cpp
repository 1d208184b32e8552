#include "judge/court/head_part.hpp"

#include "files/problem_file.hpp"
#include "judge/court/cache.hpp"
#include "reference/core/error.hpp"

namespace assay {

HeadPart::HeadPart(const Trial& whole, const Answer& got, const HeadGroups& groups, int group, bool gradients)
    : problem_(groups_of(whole.room, whole.problem, groups, group, 1)),
      answer_(groups_of(whole.room, got, groups, group, 1)) {
  if (!gradients) problem_.cotangents.clear(), answer_.gradients.clear();
  oracle_ = oracle_of(whole.room, problem_);
  trial_.emplace(Trial{.room = whole.room,
                       .kernel = whole.kernel,
                       .problem = problem_,
                       .oracle = oracle_,
                       .false_alarms = whole.false_alarms / groups.shared,
                       .tiles = whole.tiles,
                       .stored = whole.stored,
                       .strict_dtypes = whole.strict_dtypes,
                       .others = whole.others,
                       .strict = whole.strict,
                       .large = 0,
                       .cache = whole.cache,
                       .digest = whole.cache == nullptr ? "" : digest_of(problem_),
                       .unfit = whole.unfit});
  if (whole.phase)
    trial_->phase = [&whole, where = text("heads ", group * groups.each(), " and on: ")](
                        std::string_view what, std::size_t done, std::size_t total) {
      whole.phase(text(where, what), done, total);
    };
}

bool is_large(const Trial& trial) {
  std::size_t numbers = 0;
  for (const auto& [name, tensor] : trial.oracle.tensors) numbers += tensor.value.size();
  return numbers > trial.large;
}

std::optional<HeadGroups> groups_of_large(const Trial& trial) {
  if (!is_large(trial)) return std::nullopt;
  const HeadGroups groups = head_groups(trial.room, trial.problem);
  return groups.known && groups.shared > 1 ? std::optional(groups) : std::nullopt;
}

std::optional<int> worst_group(const Trial& trial, const HeadGroups& groups, const std::string& tensor,
                               const Expected& expected, const std::vector<double>& got) {
  if (heads_in_group(groups, answer_field(trial.room, tensor).field, expected.shape) == 0) return std::nullopt;
  std::size_t worst = 0;
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (const double excess = excess_at(expected, got, i); excess > most) most = excess, worst = i;
  return static_cast<int>(worst / (got.size() / static_cast<std::size_t>(groups.shared)));
}

}  // namespace assay
