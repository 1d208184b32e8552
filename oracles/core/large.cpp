#include "oracles/core/large.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include "oracles/core/oracle.hpp"
#include "oracles/multiword/parallel.hpp"
#include "oracles/scalars/ball.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

using Answered = BasicAnswer<Enclosed>;

/// The most that a pair may leave out of an exact number: half a unit of its second double, which is the nearest to
/// what the first leaves.
double pair_rounding(const HiLo& x) {
  return power_of_two_above(std::fabs(x.lo) * 0x1p-53 + std::numeric_limits<double>::denorm_min());
}

/// Whether every number comes with a bound.
bool bounded(std::optional<Tier> tier) {
  return !tier || *tier == Tier::ball || *tier == Tier::exact || words_of(*tier) > 0;
}

/// All heads of `problem`, one after the other.
Answered answer_at_once(const Room& room, const Problem& problem, std::optional<Tier> tier) {
  const bool exact = tier == Tier::exact, by_enclosures = bounded(tier) && !exact;
  if (by_enclosures)
    if (std::optional<Answered> proven = room.enclosed(problem)) return std::move(*proven);
  const BasicAnswer<HiLo> values = room.values(problem, by_enclosures ? Tier::mp100 : *tier);
  return detail::convert_answer<Enclosed>(
      [&](std::string_view, const HiLo& x) {
        return Enclosed{x, exact ? pair_rounding(x) : no_bound};
      },
      values);
}

/// `count` heads of an array, from the first one on.
template <class X>
BasicArray<X> heads_of(const BasicArray<X>& array, int first, int count) {
  BasicArray<X> part;
  part.shape = array.shape;
  part.shape[0] = count;
  const auto begin = array.data.begin() + static_cast<std::ptrdiff_t>(part.count()) / count * first;
  part.data.assign(begin, begin + static_cast<std::ptrdiff_t>(part.count()));
  return part;
}

/// Whether a gradient is summed over all heads: that of a parameter, or of one number that stands for all heads.
bool sums_over_heads(const Room& room, const Problem& problem) {
  if (problem.cotangents.empty()) return false;
  const auto inputs = room.inputs();
  return std::any_of(inputs.begin(), inputs.end(), [&](const RoomFacts::Ranked& r) {
    const auto input = problem.inputs.find(r.field.name);
    const bool number = input != problem.inputs.end() && input->second.shape.empty();
    return r.field.differentiable && (r.field.place == Field::Place::param || number);
  });
}

/// The sum of numbers known within their bounds.
Enclosed sum(const std::vector<Enclosed>& terms) {
  const BallPrecision precision(512);
  Ball total(0);
  double apart = 0;
  for (const Enclosed& x : terms) {
    total += Ball(x.value.hi) + Ball(x.value.lo);
    apart += x.bound;
  }
  const double hi = total.middle();
  const Ball rest = total - Ball(hi);
  const double lo = rest.middle();
  // 2^-20: more than what adding the bounds has rounded away.
  const double bound = (apart + (rest - Ball(lo)).largest_size()) * (1 + 0x1p-20);
  return {{hi, lo}, bound < no_bound ? power_of_two_above(bound) : no_bound};
}

/// The groups' arrays one after the other, those of no axes summed.
BasicArrays<Enclosed> joined(std::vector<Answered>& parts, BasicArrays<Enclosed> Answered::*kind) {
  BasicArrays<Enclosed> result;
  for (const auto& [name, first] : parts.front().*kind) {
    BasicArray<Enclosed>& to = result[name];
    to.shape = first.shape;
    if (first.shape.empty()) {
      std::vector<Enclosed> terms;
      terms.reserve(parts.size());
      for (Answered& part : parts) terms.push_back((part.*kind)[name].data.front());
      to.data = {sum(terms)};
      continue;
    }
    to.shape[0] *= static_cast<int>(parts.size());
    to.data.reserve(to.count());
    for (Answered& part : parts) {
      // Swapped away, so that no number is in memory twice for long.
      const std::vector<Enclosed> numbers = std::exchange((part.*kind)[name].data, {});
      to.data.insert(to.data.end(), numbers.begin(), numbers.end());
    }
  }
  return result;
}

Answered answer_by_groups(const Room& room, const Problem& problem, const HeadGroups& groups, std::optional<Tier> tier,
                          int threads, const PartDone& done) {
  const auto count = static_cast<std::size_t>(groups.shared);
  std::vector<Answered> parts(count);
  std::mutex telling;
  words::in_parallel(count, threads, [&](std::size_t group) {
    parts[group] = answer_at_once(room, groups_of(room, problem, groups, static_cast<int>(group), 1), tier);
    const std::lock_guard lock(telling);
    if (done) done(count, room.name);
  });
  return {joined(parts, &Answered::outputs), joined(parts, &Answered::gradients)};
}

/// Where the tier, or the size of a problem without one, asks for sums of doubles.
int words_for(const Problem& problem, std::optional<Tier> tier) {
  if (tier) return words_of(*tier);
  std::size_t numbers = 0;
  for (const auto& [name, array] : problem.inputs) numbers += array.data.size();
  return numbers > most_numbers_for_balls ? 2 : 0;
}

/// The token of element `flat` of an array, or -1.
int row_of(const RoomFacts::Ranked* ranked, const std::vector<int>& shape, std::size_t flat) {
  if (ranked == nullptr || ranked->rank == 0 || shape.size() != static_cast<std::size_t>(ranked->rank) + 1) return -1;
  if (ranked->field.axes[0] != Axis::seq_len && ranked->field.axes[0] != Axis::query_len) return -1;
  for (std::size_t r = shape.size(); r-- > 2;) flat /= static_cast<std::size_t>(shape[r]);
  return static_cast<int>(flat % static_cast<std::size_t>(shape[1]));
}

/// A result may be a number and yet none that doubles hold.
void refuse_overflow(const BasicArrays<Enclosed>& arrays, const std::vector<RoomFacts::Ranked>& fields,
                     std::string_view where) {
  for (const auto& [name, array] : arrays)
    for (std::size_t i = 0; i < array.data.size(); ++i)
      if (const HiLo& x = array.data[i].value; !std::isfinite(x.hi) || !std::isfinite(x.lo))
        throw Refusal(Status::nonfinite, row_of(find_field(fields, name), array.shape, i),
                      text(where, name, place(array.shape, i), ": overflows in double"));
}

}  // namespace

HeadGroups head_groups(const Room& room, const Problem& problem) {
  HeadGroups groups;
  const auto inputs = room.inputs(), outputs = room.outputs();
  bool even = true;
  const auto count = [&](const Arrays& arrays, const std::vector<RoomFacts::Ranked>& fields) {
    for (const auto& [name, array] : arrays) {
      const RoomFacts::Ranked* ranked = find_field(fields, name);
      if (ranked == nullptr) return void(even = false);
      if (array.shape.empty()) continue;
      const bool full = array.shape.size() == static_cast<std::size_t>(ranked->rank) + 1;
      int& heads = ranked->field.heads == Field::Heads::own ? groups.own : groups.shared;
      if (heads < 0) heads = array.shape[0];
      even =
          even && (full || ranked->field.broadcasts) && array.shape[0] == heads && array.count() == array.data.size();
    }
  };
  count(problem.inputs, inputs);
  count(problem.cotangents, outputs);
  if (groups.shared < 0) groups.shared = groups.own;
  if (groups.own < 0) groups.own = groups.shared;
  groups.known = even && groups.own > 0 && groups.shared > 0 && groups.own % groups.shared == 0;
  return groups;
}

int heads_in_group(const HeadGroups& groups, const Field& field, const std::vector<int>& shape) {
  const bool own = field.heads == Field::Heads::own;
  const bool has_heads = !shape.empty() && shape.front() == (own ? groups.own : groups.shared);
  return field.place == Field::Place::param || !has_heads ? 0 : own ? groups.each() : 1;
}

Problem groups_of(const Room& room, const Problem& problem, const HeadGroups& groups, int first, int count) {
  Problem part{problem.id, problem.mechanism, problem.params, {}, {}};
  const auto cut = [&](const Arrays& from, const std::vector<RoomFacts::Ranked>& fields, Arrays& to) {
    for (const auto& [name, array] : from) {
      const int each = find_field(fields, name)->field.heads == Field::Heads::own ? groups.each() : 1;
      to[name] = array.shape.empty() ? array : heads_of(array, first * each, count * each);
    }
  };
  cut(problem.inputs, room.inputs(), part.inputs);
  cut(problem.cotangents, room.outputs(), part.cotangents);
  return part;
}

Answer groups_of(const Room& room, const Answer& answer, const HeadGroups& groups, int first, int count) {
  Answer part;
  const auto cut = [&](const Arrays& from, const std::vector<RoomFacts::Ranked>& fields, Arrays& to) {
    for (const auto& [name, array] : from) {
      const RoomFacts::Ranked* ranked = find_field(fields, name);
      const int each = ranked == nullptr ? 0 : heads_in_group(groups, ranked->field, array.shape);
      if (each > 0) to[name] = heads_of(array, first * each, count * each);
    }
  };
  cut(answer.outputs, room.outputs(), part.outputs);
  cut(answer.gradients, room.inputs(), part.gradients);
  return part;
}

Answered answer_large(const Room& room, const Problem& problem, std::optional<Tier> tier, int threads,
                      const PartDone& done) {
  if (const int words = words_for(problem, tier); words > 0)
    if (std::optional<Answered> answer = room.in_words(problem, {words, threads})) {
      if (done) done(1, room.name);
      return std::move(*answer);
    }
  const HeadGroups groups = head_groups(room, problem);
  // A tier's own sum over all heads is not the sum of its rounded parts; a bound covers either.
  const bool splits = groups.known && groups.shared > 1 && (bounded(tier) || !sums_over_heads(room, problem));
  Answered answer;
  try {
    answer =
        splits ? answer_by_groups(room, problem, groups, tier, threads, done) : answer_at_once(room, problem, tier);
  } catch (const InputError&) {
    if (!splits) throw;
    // It names a place in its group: the whole problem names the first in order, whatever the threads were at.
    answer = answer_at_once(room, problem, tier);
  }
  refuse_overflow(answer.outputs, room.outputs(), "");
  refuse_overflow(answer.gradients, room.inputs(), "gradients.");
  return answer;
}

}  // namespace assay
