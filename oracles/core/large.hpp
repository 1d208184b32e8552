#pragma once
// Answers to problems as large as kernels meet them: groups of heads side by side, every number with its bound.
#include <functional>
#include <limits>
#include <optional>
#include <string_view>

#include "oracles/core/room.hpp"

namespace assay {

/// The bound of a number of which nothing is proven.
inline constexpr double no_bound = std::numeric_limits<double>::infinity();

/// Called after every part of the work, from one thread at a time, with how many parts there are.
using PartDone = std::function<void(std::size_t total, std::string_view what)>;

/// Problems of more numbers than this are answered in sums of doubles where no tier is asked for; smaller ones by
/// enclosures, whose bounds are below the last bit of a pair.
inline constexpr std::size_t most_numbers_for_balls = 20000;

/// The groups of heads of a problem: each is one shared head and the output heads that read it.
struct HeadGroups {
  int own = -1, shared = -1;  ///< -1: no array says
  bool known = false;         ///< every array has its heads, and they divide evenly

  int each() const { return own / shared; }
};
HeadGroups head_groups(const Room& room, const Problem& problem);
/// How many heads of an array belong to one group; 0 where all heads add to it, as to the gradient of a parameter.
int heads_in_group(const HeadGroups& groups, const Field& field, const std::vector<int>& shape);
/// `count` of them, from the first one on, as a problem of their own.
Problem groups_of(const Room& room, const Problem& problem, const HeadGroups& groups, int first, int count);
/// The same of an answer, without what all heads add to.
Answer groups_of(const Room& room, const Answer& answer, const HeadGroups& groups, int first, int count);

/// Outputs and, if the problem has cotangents, gradients as pairs of doubles. Without a tier, and with w2, w3, w4 and
/// ball, every number has a proven bound, unless no enclosure could decide a comparison: its heads then come from 100
/// digits, with no_bound, as do those of any other tier. The number of threads changes no bit. Throws Refusal and
/// InputError as the room does; NONFINITE too where a number is beyond the doubles.
BasicAnswer<Enclosed> answer_large(const Room& room, const Problem& problem, std::optional<Tier> tier, int threads,
                                   const PartDone& done = {});

}  // namespace assay
