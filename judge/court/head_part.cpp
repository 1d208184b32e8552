#include "judge/court/head_part.hpp"

#include <algorithm>
#include <utility>

#include "files/problem_file.hpp"
#include "judge/court/cache.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// How many heads of that tensor belong to one group; 0 where it has none of its own.
int heads_of_group(const Room& room, const HeadGroups& groups, const std::string& tensor,
                   const std::vector<int>& shape) {
  const Field field = answer_field(room, tensor).field;
  const bool own = field.heads == Field::Heads::own;
  if (field.place == Field::Place::param || shape.empty() || shape.front() != (own ? groups.own : groups.shared))
    return 0;
  return own ? groups.each() : 1;
}

}  // namespace

HeadPart::HeadPart(const Trial& whole, const Answer& got, const HeadGroups& groups, int group, bool gradients)
    : problem_(groups_of(whole.room, whole.problem, groups, group, 1)) {
  if (!gradients) problem_.cotangents.clear();
  oracle_ = oracle_of(whole.room, problem_);
  const auto cut = [&](const Arrays& from, Arrays& to, const std::string& prefix) {
    for (const auto& [name, array] : from) {
      const int heads = heads_of_group(whole.room, groups, prefix + name, array.shape);
      if (heads == 0) continue;
      Array& part = to[name];
      part.shape = array.shape, part.shape.front() = heads;
      const auto size = static_cast<std::ptrdiff_t>(array.data.size()) / groups.shared;
      part.data.assign(array.data.begin() + size * group, array.data.begin() + size * (group + 1));
    }
  };
  cut(got.outputs, answer_.outputs, "");
  if (gradients) cut(got.gradients, answer_.gradients, "d_");
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
  if (heads_of_group(trial.room, groups, tensor, expected.shape) == 0) return std::nullopt;
  std::size_t worst = 0;
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (const double excess = excess_at(expected, got, i); excess > most) most = excess, worst = i;
  return static_cast<int>(worst / (got.size() / static_cast<std::size_t>(groups.shared)));
}

}  // namespace assay
