#pragma once
// One group of the heads of a large trial, judged as a trial of its own: what fails there fails.
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "judge/court/judge_rows.hpp"
#include "oracles/core/large.hpp"

namespace assay {

/// A shared head and those that read it, of the problem and of an answer, with their own truth. Refers to the whole
/// trial. The answer has nothing of tensors that all heads add to.
class HeadPart {
 public:
  HeadPart(const Trial& whole, const Answer& got, const HeadGroups& groups, int group, bool gradients);
  HeadPart(const HeadPart&) = delete;
  HeadPart& operator=(const HeadPart&) = delete;
  ~HeadPart() = default;

  /// Its false alarms are the share of one group: a correct kernel fails in any of them as seldom as in the whole.
  const Trial& trial() const { return *trial_; }
  const Answer& answer() const { return answer_; }

 private:
  Problem problem_;
  Oracle oracle_;
  Answer answer_;
  std::optional<Trial> trial_;
};

/// Whether it is such a part, of which nothing but a FAIL counts.
inline bool is_part(const Trial& trial) { return trial.large == 0; }
/// Whether the oracle answers more numbers than Trial::large.
bool is_large(const Trial& trial);
/// The groups that a large trial falls into; nothing where it is one group, or not large.
std::optional<HeadGroups> groups_of_large(const Trial& trial);

/// The group in which the answer is farthest beyond what is expected; nothing of a tensor that all heads add to.
std::optional<int> worst_group(const Trial& trial, const HeadGroups& groups, const std::string& tensor,
                               const Expected& expected, const std::vector<double>& got);

}  // namespace assay
